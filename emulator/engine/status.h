// Numbers that CUresult and cudaError_t share, so that the engine needs neither header and both
// libraries hand its results on unchanged.
#ifndef GORDIAN_EMULATOR_ENGINE_STATUS_H_
#define GORDIAN_EMULATOR_ENGINE_STATUS_H_

namespace gordian::emu {

enum Status : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,  // also: this process was forked from one that had initialised CUDA
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kMapFailed = 205,
  kPeerAccessUnsupported = 217,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kLossyQuery = 402,
  kNotFound = 500,
  kNotReady = 600,
  kPeerAccessAlreadyEnabled = 704,
  kPeerAccessNotEnabled = 705,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kNotSupported = 801,
  kStreamCaptureUnsupported = 900,
  kStreamCaptureInvalidated = 901,
  kStreamCaptureMerge = 902,
  kStreamCaptureUnmatched = 903,
  kStreamCaptureUnjoined = 904,
  kStreamCaptureIsolation = 905,
  kStreamCaptureImplicit = 906,
  kCapturedEvent = 907,
  kStreamCaptureWrongThread = 908,
  kGraphExecUpdateFailure = 910,
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_STATUS_H_
