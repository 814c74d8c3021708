// Stand-ins for libnccl.so.2, libcudart.so.13 and libcuda.so.1, expanded from the table of hooked
// calls: each function counts its calls, sets errno to a value of its own, and returns what it was
// told to. Compiled once for each library, with GORDIAN_FAKE_<library> defined.
//
// Control (names end in the library's): fake_calls_*(call) how often, fake_set_result_*(call,
// value), fake_block_*(call) makes the next calls wait for ever, fake_set_inside_*(call, function)
// makes them call that first. Names in the table are the exported ones: no macros that rename them.
#define __CUDA_API_VERSION_INTERNAL
#include "tests/unit/interpose/fake_libraries.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <errno.h>
#include <unistd.h>

#include <atomic>
#include <type_traits>
#include <utility>

#include "interpose/entry/nccl_newer.h"
#include "proto/ring/calls.h"

using gordian::ring::CallId;

namespace {

struct Control {
  std::atomic<uint64_t> calls;
  std::atomic<int> result;
  std::atomic<bool> blocked;
  std::atomic<void (*)()> inside;
};
Control g_control[gordian::ring::kCallCount];

template <typename T>
T Pick(T otherwise) {
  return otherwise;
}
template <typename T, typename First, typename... Rest>
T Pick(T otherwise, const First& first, const Rest&... rest) {
  if constexpr (std::is_same_v<First, T>) {
    return first;
  } else {
    return Pick<T>(otherwise, rest...);
  }
}

struct FakeComm {
  int nranks;
  int rank;
  int device;
};
[[maybe_unused]] ncclComm_t MakeComm(int nranks, int rank, int device) {
  return reinterpret_cast<ncclComm_t>(new FakeComm{nranks, rank, device});
}

[[maybe_unused]] std::atomic<uint64_t> g_next_stream{0x7000000000};
[[maybe_unused]] std::atomic<int> g_async_state{0};
[[maybe_unused]] std::atomic<int> g_child_nranks{2};
// Events recorded up to this ticket are done.
[[maybe_unused]] std::atomic<uint64_t> g_gpu_done{UINT64_MAX};
[[maybe_unused]] std::atomic<uint64_t> g_tickets{0};
[[maybe_unused]] std::atomic<bool> g_capturing{false};
struct FakeEvent {
  std::atomic<uint64_t> ticket;
};

template <typename Result>
Result Finish(CallId call) {
  Control& control = g_control[call];
  while (control.blocked.load()) pause();
  if (void (*inside)() = control.inside.load()) inside();
  errno = gordian::fake::ErrnoOf(call);
  if constexpr (std::is_void_v<Result>) {
    return;
  } else if constexpr (std::is_same_v<Result, const char*>) {
    return gordian::fake::kText;
  } else {
    return static_cast<Result>(control.result.load());
  }
}

template <CallId kCall, typename Result, typename... Arguments>
Result Fake(const Arguments&... arguments) {
  namespace ring = gordian::ring;
  g_control[kCall].calls.fetch_add(1);
  const int result = g_control[kCall].result.load();
  const bool accepted = result == 0 || result == ncclInProgress;
  if constexpr (kCall == ring::kCall_ncclCommInitAll) {
    auto* made = Pick<ncclComm_t*>(nullptr, arguments...);
    const int count = Pick<int>(0, arguments...);
    for (int i = 0; made != nullptr && accepted && i < count; ++i) made[i] = MakeComm(count, i, i);
  } else if constexpr (kCall == ring::kCall_ncclCommSplit) {
    auto* made = Pick<ncclComm_t*>(nullptr, arguments...);
    const bool joins = Pick<int>(0, arguments...) != NCCL_SPLIT_NOCOLOR;
    if (made != nullptr && accepted) *made = joins ? MakeComm(g_child_nranks, 1, 0) : nullptr;
  } else if constexpr (ring::kCalls[kCall].payload == ring::PayloadKind::kCommInit) {
    auto* made = Pick<ncclComm_t*>(nullptr, arguments...);
    if (made != nullptr && accepted) *made = MakeComm(Pick<int>(0, arguments...), 0, 0);
  } else if constexpr (kCall == ring::kCall_ncclCommCount) {
    if (int* value = Pick<int*>(nullptr, arguments...)) {
      *value = reinterpret_cast<FakeComm*>(Pick<ncclComm_t>(nullptr, arguments...))->nranks;
    }
  } else if constexpr (kCall == ring::kCall_ncclCommUserRank) {
    if (int* value = Pick<int*>(nullptr, arguments...)) {
      *value = reinterpret_cast<FakeComm*>(Pick<ncclComm_t>(nullptr, arguments...))->rank;
    }
  } else if constexpr (kCall == ring::kCall_ncclCommCuDevice) {
    if (int* value = Pick<int*>(nullptr, arguments...)) *value = 0;
  } else if constexpr (kCall == ring::kCall_ncclCommGetAsyncError) {
    if (auto* state = Pick<ncclResult_t*>(nullptr, arguments...)) {
      *state = static_cast<ncclResult_t>(g_async_state.load());
    }
  } else if constexpr (ring::kCalls[kCall].payload == ring::PayloadKind::kStreamCreate) {
    if (auto* made = Pick<cudaStream_t*>(nullptr, arguments...)) {
      *made = reinterpret_cast<cudaStream_t>(g_next_stream.fetch_add(64));
    }
  } else if constexpr (kCall == ring::kCall_ncclBcast) {
    // As NCCL does: through the symbol, so that a library in front of it sees the call.
    ncclBroadcast(nullptr, nullptr, 0, ncclInt8, 0, Pick<ncclComm_t>(nullptr, arguments...),
                  nullptr);
  } else if constexpr (kCall == ring::kCall_cuThreadExchangeStreamCaptureMode) {
    static thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (auto* mode = Pick<CUstreamCaptureMode*>(nullptr, arguments...)) {
      std::swap(current, *mode);
    }
  } else if constexpr (kCall == ring::kCall_cuEventCreate) {
    if (auto* made = Pick<CUevent*>(nullptr, arguments...)) {
      *made = reinterpret_cast<CUevent>(new FakeEvent{});
    }
  } else if constexpr (kCall == ring::kCall_cuEventRecord) {
    auto* event = reinterpret_cast<FakeEvent*>(Pick<CUevent>(nullptr, arguments...));
    if (event != nullptr) event->ticket.store(g_tickets.fetch_add(1) + 1);
  } else if constexpr (kCall == ring::kCall_cuEventQuery) {
    auto* event = reinterpret_cast<FakeEvent*>(Pick<CUevent>(nullptr, arguments...));
    if (event != nullptr && event->ticket.load() > g_gpu_done.load()) {
      return static_cast<Result>(CUDA_ERROR_NOT_READY);
    }
  }
  return Finish<Result>(kCall);
}

}  // namespace

#define GORDIAN_SKIP(name, result, parameters, arguments)
#define GORDIAN_DEFINE(name, result, parameters, arguments)                  \
  extern "C" __attribute__((visibility("default"))) result name parameters { \
    return Fake<gordian::ring::kCall_##name, result> arguments;              \
  }
#define GORDIAN_DEFINE_nccl GORDIAN_SKIP
#define GORDIAN_DEFINE_cudart GORDIAN_SKIP
#define GORDIAN_DEFINE_cuda GORDIAN_SKIP
#if defined(GORDIAN_FAKE_nccl)
#undef GORDIAN_DEFINE_nccl
#define GORDIAN_DEFINE_nccl GORDIAN_DEFINE
#define GORDIAN_CONTROL(function) fake_##function##_nccl
#elif defined(GORDIAN_FAKE_cudart)
#undef GORDIAN_DEFINE_cudart
#define GORDIAN_DEFINE_cudart GORDIAN_DEFINE
#define GORDIAN_CONTROL(function) fake_##function##_cudart
#elif defined(GORDIAN_FAKE_cuda)
#undef GORDIAN_DEFINE_cuda
#define GORDIAN_DEFINE_cuda GORDIAN_DEFINE
#define GORDIAN_CONTROL(function) fake_##function##_cuda
#endif
#define GORDIAN_HOOK(library, name, effect, rules, result, parameters, arguments) \
  GORDIAN_DEFINE_##library(name, result, parameters, arguments)
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK

#define GORDIAN_EXPORT extern "C" __attribute__((visibility("default")))
GORDIAN_EXPORT uint64_t GORDIAN_CONTROL(calls)(int call) { return g_control[call].calls.load(); }
GORDIAN_EXPORT void GORDIAN_CONTROL(set_result)(int call, int value) {
  g_control[call].result.store(value);
}
GORDIAN_EXPORT void GORDIAN_CONTROL(block)(int call) { g_control[call].blocked.store(true); }
GORDIAN_EXPORT void GORDIAN_CONTROL(set_inside)(int call, void (*inside)()) {
  g_control[call].inside.store(inside);
}

#if defined(GORDIAN_FAKE_nccl)
GORDIAN_EXPORT void fake_set_async_state(int state) { g_async_state.store(state); }
#elif defined(GORDIAN_FAKE_cudart)
GORDIAN_EXPORT cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
GORDIAN_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t, unsigned* flags) {
  *flags = cudaStreamNonBlocking;
  return cudaSuccess;
}
GORDIAN_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t, int* device) {
  *device = 0;
  return cudaSuccess;
}
#elif defined(GORDIAN_FAKE_cuda)
GORDIAN_EXPORT void fake_gpu_stop() { g_gpu_done.store(g_tickets.load()); }
GORDIAN_EXPORT void fake_gpu_finish(uint64_t more) { g_gpu_done.fetch_add(more); }
GORDIAN_EXPORT void fake_gpu_go() { g_gpu_done.store(UINT64_MAX); }
GORDIAN_EXPORT void fake_set_capturing(bool on) { g_capturing.store(on); }
GORDIAN_EXPORT uint64_t fake_events_recorded() { return g_tickets.load(); }
GORDIAN_EXPORT CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = g_capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
GORDIAN_EXPORT CUresult cuStreamGetCtx(CUstream, CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(0x1000);
  return CUDA_SUCCESS;
}
GORDIAN_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(0x1000);
  return CUDA_SUCCESS;
}
GORDIAN_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return CUDA_SUCCESS;
}
#endif
