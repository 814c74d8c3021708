// The intercepted symbols of one library: expands the table, and nothing else. Everything that a
// call is about happens in interpose/entry/observe.h; what is here must work in any process, at any
// time, in any thread.
//
// Compiled once for each library, with GORDIAN_ENTRY_POINTS_OF_<library> defined: no other
// translation unit takes as long to compile, and the three share the processors.
//
// Functions have names of their own here, and get the exported ones from the assembler: the
// headers' declarations of the latter may differ (an nccl.h in between two versions).
#define __CUDA_API_VERSION_INTERNAL  // no macros that rename (cuMemFree to cuMemFree_v2)
#include "interpose/entry/lookup_hooks.h"
#include "interpose/entry/observe.h"
#include "interpose/entry/real_symbols.h"
#include "interpose/entry/reentrancy_guard.h"
#include "interpose/route/collectives_route.h"

namespace gordian::interpose {
namespace {

// The result of a call whose library is missing, or older than the call.
template <typename Result>
Result Unavailable() {
  if constexpr (std::is_same_v<Result, ncclResult_t>) {
    return ncclSystemError;
  } else if constexpr (std::is_same_v<Result, cudaError_t>) {
    return cudaErrorSharedObjectSymbolNotFound;
  } else if constexpr (std::is_same_v<Result, CUresult>) {
    return CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND;
  } else if constexpr (std::is_same_v<Result, const char*>) {
    return "NCCL is not loaded, or is older than this call";
  } else {
    static_assert(std::is_void_v<Result>);
  }
}

// Nested calls too may change the current device.
template <CallId kCall>
class DeviceForgetter {
 public:
  ~DeviceForgetter() {
    if constexpr (ring::kCalls[kCall].Has(ring::kChangesDevice)) {
      if (t_local.context != nullptr) t_local.context->device = -1;
    }
  }
};

// The real call, and nothing else but what a look-up must hand out in its place. `route`: of an
// operation that is recorded.
template <CallId kCall, typename Result, typename... Parameters, typename... Arguments>
Result Forward(Result (*real)(Parameters...), const void* caller,
               [[maybe_unused]] OperationRoute* route, const Arguments&... arguments) {
  if constexpr (ring::kCalls[kCall].Has(ring::kLooksUp)) {
    const Result result = real(arguments...);
    if (static_cast<int>(result) == 0) {
      SubstituteDriverFunction(kCall, reinterpret_cast<const void*>(real), caller,
                               LookupOf(arguments...));
    }
    return result;
  } else {
    // Depth 1: called by the program, not by NCCL or CUDA.
    if (__builtin_expect(t_local.depth == 1 && RoutesCollectives(), 0)) {
      if constexpr (IsNccl(kCall)) {
        return Routed<kCall>([&] { return real(arguments...); }, route, arguments...);
      } else {
        NoteOtherWork<kCall>(arguments...);
        if constexpr (std::is_same_v<Result, cudaError_t> || std::is_same_v<Result, CUresult>) {
          const Result result = real(arguments...);
          NoteWorkDone<kCall>(static_cast<int>(result) == 0, arguments...);
          return result;
        }
      }
    }
    return real(arguments...);
  }
}

}  // namespace
}  // namespace gordian::interpose

// A parameter list becomes the rest of a list of arguments.
#define GORDIAN_AND(...) __VA_OPT__(, ) __VA_ARGS__

#define GORDIAN_SKIP(name, result, parameters, arguments)
#define GORDIAN_ENTRY_POINT(name, result, parameters, arguments)                            \
  extern "C" __attribute__((visibility("hidden"))) result gordian_hook_##name parameters;   \
  extern "C" result gordian_hook_##name parameters {                                        \
    using namespace gordian::interpose;                                                     \
    constexpr CallId kThisCall = gordian::ring::kCall_##name;                               \
    const void* const call_site = __builtin_return_address(0);                              \
    const auto real_function =                                                              \
        reinterpret_cast<result(*) parameters>(RealSymbol(kThisCall, call_site));           \
    if (__builtin_expect(real_function == nullptr, 0)) return Unavailable<result>();        \
    const auto forward = [&](OperationRoute* route = nullptr) {                             \
      return Forward<kThisCall>(real_function, call_site, route GORDIAN_AND arguments);     \
    };                                                                                      \
    const ReentrancyGuard call_guard;                                                       \
    [[maybe_unused]] const DeviceForgetter<kThisCall> device_forgetter;                     \
    ThreadContext* const call_thread = call_guard.outermost() ? CurrentThread() : nullptr;  \
    if (__builtin_expect(call_thread == nullptr, 0)) return forward();                      \
    if constexpr (IsNccl(kThisCall)) t_local.nccl = reinterpret_cast<void*>(real_function); \
    return Observe<kThisCall>(*call_thread, call_site, forward) arguments;                  \
  }                                                                                         \
  __asm__(".globl " #name "\n.type " #name ", @function\n.set " #name ", gordian_hook_" #name);

#define GORDIAN_ENTRY_POINT_nccl GORDIAN_SKIP
#define GORDIAN_ENTRY_POINT_cudart GORDIAN_SKIP
#define GORDIAN_ENTRY_POINT_cuda GORDIAN_SKIP
#if defined(GORDIAN_ENTRY_POINTS_OF_nccl)
#undef GORDIAN_ENTRY_POINT_nccl
#define GORDIAN_ENTRY_POINT_nccl GORDIAN_ENTRY_POINT
#elif defined(GORDIAN_ENTRY_POINTS_OF_runtime)
#undef GORDIAN_ENTRY_POINT_cudart
#define GORDIAN_ENTRY_POINT_cudart GORDIAN_ENTRY_POINT
#elif defined(GORDIAN_ENTRY_POINTS_OF_driver)
#undef GORDIAN_ENTRY_POINT_cuda
#define GORDIAN_ENTRY_POINT_cuda GORDIAN_ENTRY_POINT
#endif
#define GORDIAN_HOOK(library, name, effect, rules, result, parameters, arguments) \
  GORDIAN_ENTRY_POINT_##library(name, result, parameters, arguments)
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK
