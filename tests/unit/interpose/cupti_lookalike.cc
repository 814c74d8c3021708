// A stand-in for libcupti in tests: callbacks around calls of the driver that no symbol leads to,
// as CUPTI makes them for a CUDA runtime that is linked statically. The driver's functions are
// looked up from here, and a library of this name is given the real ones
// (interpose/entry/loader.h).
//
// CUPTI_LOOKALIKE=taken: another tool has subscribed already. Otherwise what CUPTI would call back
// is decided by cuptiEnableCallback, function by function.
#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

// As cupti_callbacks.h, cupti_driver_cbid.h and generated_cuda_meta.h of CUDA 13.0 have it.
struct CallbackData {
  uint32_t site;
  const char* function;
  const void* parameters;
  void* result;
  const char* kernel;
  CUcontext context;
  uint32_t context_number;
  uint64_t* correlation_data;
  uint32_t correlation;
};
using Callback = void (*)(void*, uint32_t, uint32_t, const CallbackData*);
constexpr uint32_t kDriverDomain = 1;
constexpr int kMultipleSubscribers = 39;
constexpr int kInvalidParameter = 1;

std::atomic<Callback> g_callback;
void* g_user_data;
std::atomic<bool> g_enabled[1024];

template <typename Function>
Function* Driver(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = driver != nullptr ? dlsym(driver, name) : nullptr;
  if (found == nullptr) {
    std::fprintf(stderr, "cupti_lookalike: %s is not in the driver\n", name);
    std::_Exit(7);
  }
  return reinterpret_cast<Function*>(found);
}

template <typename Parameters, typename Real>
CUresult Tell(uint32_t number, const char* name, const Parameters& parameters, const Real& real) {
  const Callback callback = g_enabled[number] ? g_callback.load() : nullptr;
  CUresult result = CUDA_SUCCESS;
  uint64_t correlation = 0;
  CallbackData data = {0, name, &parameters, nullptr, nullptr, nullptr, 0, &correlation, 0};
  if (callback != nullptr) callback(g_user_data, kDriverDomain, number, &data);
  result = real();
  data.site = 1;
  data.result = &result;
  if (callback != nullptr) callback(g_user_data, kDriverDomain, number, &data);
  return result;
}

CUresult StreamSynchronize(CUstream stream) {
  static auto* const real = Driver<CUresult(CUstream)>("cuStreamSynchronize");
  const struct { CUstream stream; } parameters = {stream};
  return Tell(126, "cuStreamSynchronize", parameters, [&] { return real(stream); });
}

CUresult CtxSynchronize() {
  static auto* const real = Driver<CUresult()>("cuCtxSynchronize");
  return Tell(17, "cuCtxSynchronize", 0, [&] { return real(); });
}

CUresult EventRecord(CUevent event, CUstream stream) {
  static auto* const real = Driver<CUresult(CUevent, CUstream)>("cuEventRecord");
  const struct {
    CUevent event;
    CUstream stream;
  } parameters = {event, stream};
  return Tell(119, "cuEventRecord", parameters, [&] { return real(event, stream); });
}

CUresult StreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  static auto* const real = Driver<CUresult(CUstream, CUevent, unsigned)>("cuStreamWaitEvent");
  const struct {
    CUstream stream;
    CUevent event;
    unsigned flags;
  } parameters = {stream, event, flags};
  return Tell(295, "cuStreamWaitEvent", parameters, [&] { return real(stream, event, flags); });
}

}  // namespace

extern "C" {

int cuptiSubscribe(void** subscriber, Callback callback, void* user_data) {
  const char* const what = std::getenv("CUPTI_LOOKALIKE");
  if (what != nullptr && std::strcmp(what, "taken") == 0) return kMultipleSubscribers;
  g_user_data = user_data;
  g_callback = callback;
  *subscriber = &g_callback;
  return 0;
}

int cuptiEnableCallback(uint32_t enable, void* subscriber, uint32_t domain, uint32_t function) {
  if (subscriber != &g_callback || domain != kDriverDomain || function >= 1024)
    return kInvalidParameter;
  g_enabled[function] = enable != 0;
  return 0;
}

int cuptiUnsubscribe(void* subscriber) {
  if (subscriber != &g_callback) return kInvalidParameter;
  g_callback = nullptr;
  return 0;
}

// The driver's function, with the callbacks around it, as a runtime inside the program would call
// it.
void* PrivateDriverFunction(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "cuStreamSynchronize") return reinterpret_cast<void*>(StreamSynchronize);
  if (wanted == "cuCtxSynchronize") return reinterpret_cast<void*>(CtxSynchronize);
  if (wanted == "cuEventRecord") return reinterpret_cast<void*>(EventRecord);
  if (wanted == "cuStreamWaitEvent") return reinterpret_cast<void*>(StreamWaitEvent);
  return nullptr;
}

// CUPTI's callbacks of one call of any function, which was made and gave `result`. False: nobody is
// told of it.
bool TellCall(uint32_t function, const char* name, const void* parameters, int result) {
  const Callback callback = function < 1024 && g_enabled[function] ? g_callback.load() : nullptr;
  if (callback == nullptr) return false;
  uint64_t correlation = 0;
  CallbackData data = {0, name, parameters, nullptr, nullptr, nullptr, 0, &correlation, 0};
  callback(g_user_data, kDriverDomain, function, &data);
  data.site = 1;
  data.result = &result;
  callback(g_user_data, kDriverDomain, function, &data);
  return true;
}

}  // extern "C"
