// What else is on CUDA's streams, as the program or the shim reports it.
//
// A list of what follows on a stream exists for exclusive streams alone
// (runtime/cuda/list/help_stream.h). An event of another stream that an exclusive one waits for
// counts as foreign work: help goes along one stream.
#include <map>
#include <mutex>

#include "runtime/cuda_api/deferred.h"
#include "runtime/cuda_api/handles.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::runtime::cuda {
namespace {

// Where events were recorded last.
struct Events {
  std::mutex mutex;
  std::map<const void*, cudaStream_t> stream_of;
};
Events& TheEvents() {
  static Events* events = new Events;  // threads outlive main
  return *events;
}

}  // namespace
}  // namespace gordian::runtime::cuda

using namespace gordian::runtime;
using namespace gordian::runtime::cuda;

grtResult_t grtStreamExclusive(cudaStream_t stream, int exclusive) {
  return Guarded([&] {
    Process* process = Process::Of(stream);
    if (process == nullptr) return grtInvalidUsage;  // its device is not in use yet
    const OnDevice on(process->device());
    // If there are more streams than lists, this one's operations never begin early; the result is
    // still correct, and the caller learns it.
    return process->domain().SetExclusive(stream, exclusive != 0).ok() ? grtSuccess
                                                                       : grtNotSupported;
  });
}

grtResult_t grtStreamForeign(cudaStream_t stream) {
  return Guarded([&] {
    if (Process* process = Process::Of(stream)) process->domain().Foreign(stream);
    return grtSuccess;
  });
}

grtResult_t grtStreamForeignAll(void) {
  return Guarded([] {
    for (Process* process : Process::All()) process->domain().ForeignAll();
    return grtSuccess;
  });
}

grtResult_t grtStreamGone(cudaStream_t stream) {
  return Guarded([&]() -> grtResult_t {
    Process* process = Process::Of(stream);
    if (process == nullptr) return grtSuccess;
    const OnDevice on(process->device());
    process->Forget(stream);
    Deferred::Get().Forget(process, stream);
    return process->domain().Forget(stream).ok() ? grtSuccess : grtUnhandledCudaError;
  });
}

grtResult_t grtEventRecorded(const void* event, cudaStream_t stream) {
  return Guarded([&] {
    const std::lock_guard<std::mutex> lock(TheEvents().mutex);
    TheEvents().stream_of[event] = stream;
    return grtSuccess;
  });
}

grtResult_t grtEventAwaited(const void* event, cudaStream_t stream) {
  return Guarded([&]() -> grtResult_t {
    {
      const std::lock_guard<std::mutex> lock(TheEvents().mutex);
      const auto at = TheEvents().stream_of.find(event);
      // The stream's own past: it waits for that anyhow.
      if (at != TheEvents().stream_of.end() && at->second == stream) return grtSuccess;
    }
    return grtStreamForeign(stream);
  });
}

grtResult_t grtEventForgotten(const void* event) {
  return Guarded([&] {
    const std::lock_guard<std::mutex> lock(TheEvents().mutex);
    TheEvents().stream_of.erase(event);
    return grtSuccess;
  });
}

// Streams are CUDA's here.
grtResult_t grtStreamCreate(cudaStream_t*) { return grtNotSupported; }
grtResult_t grtStreamLaunch(cudaStream_t, void (*)(void*), void*) { return grtNotSupported; }
grtResult_t grtStreamSynchronize(cudaStream_t, uint64_t) { return grtNotSupported; }
grtResult_t grtStreamDestroy(cudaStream_t) { return grtNotSupported; }
