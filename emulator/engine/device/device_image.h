// Reads the names of kernels and variables from a device binary (cubin, fatbin, PTX text). Runs
// none of it, and does not look into compressed PTX inside a fatbin.
//
// Threads: any. Ownership: the result copies what it keeps. Errors: returns false.
#ifndef GORDIAN_EMULATOR_ENGINE_DEVICE_DEVICE_IMAGE_H_
#define GORDIAN_EMULATOR_ENGINE_DEVICE_DEVICE_IMAGE_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace gordian::emu {

struct ImageParameter {
  size_t offset = 0;
  size_t bytes = 0;
};

struct ImageKernel {
  std::vector<ImageParameter> parameters;  // empty also if the image does not say (PTX)
};

struct ImageVariable {
  size_t bytes = 0;
  bool managed = false;
  std::string initial;  // empty: zero
};

struct DeviceImage {
  // Some part was unreadable, so a name that is missing here may exist.
  bool opaque = false;
  std::map<std::string, ImageKernel> kernels;
  std::map<std::string, ImageVariable> variables;
};

// `data` points to a fatbin wrapper, a fatbin, a cubin or PTX text; `bytes` 0 takes the length from
// the data. Returns false for anything else.
bool ParseDeviceImage(const void* data, size_t bytes, DeviceImage* image);

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_DEVICE_DEVICE_IMAGE_H_
