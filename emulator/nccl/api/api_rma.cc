// Exported: RMA, as nccl.h of 2.30.7 declares it.
#include <limits>

#include "emulator/nccl/api/arguments.h"
#include "emulator/nccl/api/entry.h"
#include "emulator/nccl/api/error.h"
#include "emulator/nccl/operation/group.h"

namespace gordian::emu::nccl {
namespace {

ncclResult_t CheckSignal(const Comm& comm, const char* name, int peer, int index, int context) {
  if (peer < 0 || peer >= comm.nranks())
    return Fail(ncclInvalidArgument, "%s : invalid peer %d", name, peer);
  if (index != 0)
    return Fail(ncclInvalidArgument, "%s : signal index %d, and NCCL has 0 alone", name, index);
  if (context != 0)
    return Fail(ncclInvalidArgument, "%s : context %d, and NCCL has 0 alone", name, context);
  return ncclSuccess;
}

ncclResult_t FindStream(const Comm& comm, const char* name, cudaStream_t handle, Stream** stream) {
  *stream = GetEngine().FindStream(handle, comm.device());
  if (*stream != nullptr && GetEngine().DeviceOf(*stream) == comm.device()) return ncclSuccess;
  return Fail(ncclUnhandledCudaError, "%s : the stream is not one of device %d", name,
              comm.device());
}

// Where in the peer's window of the same registration the bytes go.
ncclResult_t FindTarget(Comm& comm, ncclWindow_t handle, uint64_t offset, RmaOperation* put) {
  uint64_t ordinal = 0;
  if (!comm.registrations().FindWindow(handle, &ordinal)) {
    return Fail(ncclInvalidArgument, "PutSignal : no window of this communicator");
  }
  const Window* const window = comm.segment().window(put->peer, ordinal);
  if (window == nullptr)
    return Fail(ncclInvalidUsage,
                "PutSignal : only the first %lu windows of a communicator are emulated", kWindows);
  if (offset > window->bytes || put->bytes > window->bytes - offset) {
    return Fail(ncclInvalidArgument, "PutSignal : %lu bytes at %lu of a window of %lu", put->bytes,
                offset, window->bytes);
  }
  if (window->fd < 0)
    return Fail(ncclInvalidUsage,
                "PutSignal : the window's memory is not of cudaMalloc or ncclMemAlloc");
  put->target = *window;
  put->target.offset += offset;
  put->target.address += offset;
  return ncclSuccess;
}

ncclResult_t Signal(ncclComm_t handle, const char* name, int peer, int index, int context,
                    unsigned flags, cudaStream_t stream, RmaOperation operation,
                    ncclWindow_t window, uint64_t offset) {
  std::shared_ptr<Comm> comm;
  ncclResult_t result = FindComm(handle, name, &comm);
  if (result == ncclSuccess) result = comm->EnsureReady();
  if (result == ncclSuccess && flags != 0)
    result = Fail(ncclInvalidArgument, "%s : flags are reserved", name);
  if (result == ncclSuccess) result = CheckSignal(*comm, name, peer, index, context);
  if (result == ncclSuccess) result = FindStream(*comm, name, stream, &operation.stream);
  if (result == ncclSuccess) {
    operation.peer = peer;
    int device = -1;
    if (operation.bytes > 0 &&
        (!GetEngine().IsDeviceAccessible(operation.data, operation.bytes, &device) ||
         (device >= 0 && device != comm->device()))) {
      result = Fail(ncclInvalidArgument, "%s : %p is no memory of device %d", name,
                    static_cast<const void*>(operation.data), comm->device());
    }
  }
  if (result == ncclSuccess && operation.kind == RmaKind::kPutSignal &&
      !comm->registrations().InSymmetricWindow(operation.data, operation.bytes)) {
    result = Fail(ncclInvalidArgument, "%s : the source is in no symmetric window", name);
  }
  if (result == ncclSuccess && operation.kind == RmaKind::kPutSignal)
    result = FindTarget(*comm, window, offset, &operation);
  return NoteInGroup(result == ncclSuccess ? SubmitRma(comm, operation) : result);
}

}  // namespace
}  // namespace gordian::emu::nccl

namespace emu = gordian::emu::nccl;

extern "C" {

ncclResult_t pncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                            unsigned int flags, ncclComm_t comm, cudaStream_t stream) {
  emu::GetEngine().CountCall("ncclPutSignal");
  const size_t element = emu::ElementSize(datatype);
  if (element == 0 || count > std::numeric_limits<int64_t>::max() / element) {
    return emu::NoteInGroup(
        emu::Fail(ncclInvalidArgument, "PutSignal : %zu elements of type %d", count, datatype));
  }
  emu::RmaOperation put;
  put.kind = emu::RmaKind::kPutSignal;
  put.data = static_cast<const std::byte*>(localbuff);
  put.bytes = count * element;
  return emu::Signal(comm, "PutSignal", peer, sigIdx, ctx, flags, stream, put, peerWin,
                     peerWinOffset);
}

ncclResult_t pncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                         cudaStream_t stream) {
  emu::GetEngine().CountCall("ncclSignal");
  return emu::Signal(comm, "Signal", peer, sigIdx, ctx, flags, stream, {}, nullptr, 0);
}

ncclResult_t pncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                             cudaStream_t stream) {
  emu::GetEngine().CountCall("ncclWaitSignal");
  std::shared_ptr<emu::Comm> found;
  ncclResult_t result = emu::FindComm(comm, "WaitSignal", &found);
  if (result == ncclSuccess) result = found->EnsureReady();
  if (result == ncclSuccess && (nDesc <= 0 || signalDescs == nullptr)) {
    result = emu::Fail(ncclInvalidArgument, "WaitSignal : %d descriptors at %p", nDesc,
                       static_cast<void*>(signalDescs));
  }
  emu::RmaOperation wait;
  wait.kind = emu::RmaKind::kWaitSignal;
  for (int i = 0; result == ncclSuccess && i < nDesc; ++i) {
    const ncclWaitSignalDesc_t& one = signalDescs[i];
    result = emu::CheckSignal(*found, "WaitSignal", one.peer, one.sigIdx, one.ctx);
    if (result == ncclSuccess && one.opCnt <= 0)
      result = emu::Fail(ncclInvalidArgument, "WaitSignal : %d signals", one.opCnt);
    wait.waits.push_back({one.peer, static_cast<uint64_t>(one.opCnt)});
  }
  if (result == ncclSuccess) result = emu::FindStream(*found, "WaitSignal", stream, &wait.stream);
  return emu::NoteInGroup(result == ncclSuccess ? emu::SubmitRma(found, wait) : result);
}

EMU_NCCL_ALIAS(ncclPutSignal);
EMU_NCCL_ALIAS(ncclSignal);
EMU_NCCL_ALIAS(ncclWaitSignal);

}  // extern "C"
