// Whose streams this process uses: chosen once.
#include <atomic>
#include <mutex>

#include "runtime/api/handles.h"
#include "runtime/cpu/streams/cuda_streams.h"
#include "runtime/cpu/streams/own_streams.h"
#include "runtime/cpu/streams/stream_driver.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::runtime {
namespace {

struct Choice {
  std::mutex mutex;
  std::atomic<StreamDriver*> driver{nullptr};
  OwnStreams* own = nullptr;
};
Choice& TheChoice() {
  static Choice* choice = new Choice;  // threads outlive main
  return *choice;
}

}  // namespace

StreamDriver& TheDriver() {
  Choice& choice = TheChoice();
  if (StreamDriver* driver = choice.driver.load(std::memory_order_acquire)) return *driver;
  const std::lock_guard<std::mutex> lock(choice.mutex);
  if (choice.driver.load(std::memory_order_relaxed) == nullptr) {
    choice.own = new OwnStreams;
    choice.driver.store(choice.own, std::memory_order_release);
  }
  return *choice.driver.load(std::memory_order_relaxed);
}

OwnStreams* TheOwnStreams() {
  TheDriver();
  return TheChoice().own;
}

}  // namespace gordian::runtime

grtResult_t grtUseCudaStreams(const grtCudaFunctions_t* functions) {
  using namespace gordian::runtime;
  if (functions == nullptr || functions->size < sizeof *functions ||
      functions->launch_host_func == nullptr || functions->host_alloc == nullptr ||
      functions->stream_wait_value64 == nullptr || functions->stream_is_capturing == nullptr ||
      functions->get_device == nullptr) {
    return grtInvalidArgument;
  }
  return Guarded([&] {
    Choice& choice = TheChoice();
    const std::lock_guard<std::mutex> lock(choice.mutex);
    if (choice.driver.load(std::memory_order_relaxed) != nullptr) return grtInvalidUsage;
    choice.driver.store(new CudaStreams(*functions), std::memory_order_release);
    return grtSuccess;
  });
}

// Its operations are calls of the host, which are made once.
int grtCanCapture(void) { return 0; }
