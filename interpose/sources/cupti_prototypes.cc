// Checks the shim's declarations of CUPTI against its headers, if these are installed: the numbers
// of functions, the description of a call, and the offsets of each function's arguments.
#if __has_include(<cupti.h>)
#include <cuda.h>
#include <cupti.h>
#include <stddef.h>

#include "interpose/entry/nccl_newer.h"
#include "interpose/sources/cupti_abi.h"

namespace cupti = gordian::interpose::cupti;

static_assert(sizeof(cupti::CallbackData) == sizeof(CUpti_CallbackData));
static_assert(offsetof(cupti::CallbackData, site) == offsetof(CUpti_CallbackData, callbackSite));
static_assert(offsetof(cupti::CallbackData, parameters) ==
              offsetof(CUpti_CallbackData, functionParams));
static_assert(offsetof(cupti::CallbackData, result) ==
              offsetof(CUpti_CallbackData, functionReturnValue));
static_assert(cupti::kDriverApi == CUPTI_CB_DOMAIN_DRIVER_API && cupti::kEnter == CUPTI_API_ENTER &&
              cupti::kSuccess == CUPTI_SUCCESS &&
              cupti::kTaken == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);

#define GORDIAN_CUPTI(name, number)                       \
  static_assert(CUPTI_DRIVER_TRACE_CBID_##name == number, \
                "CUPTI's number of " #name " is another one");
#include "proto/ring/cupti_calls.def"
#undef GORDIAN_CUPTI

// Members of other types at other places would make a struct of another size, or move the last one.
template <typename Result, typename... Arguments>
constexpr size_t EndOf(Result (*)(Arguments...)) {
  constexpr size_t kLargest = [] {
    size_t largest = 1;
    ((largest = alignof(Arguments) > largest ? alignof(Arguments) : largest), ...);
    return largest;
  }();
  const size_t end = cupti::OffsetOf<Arguments..., char>(sizeof...(Arguments));
  return (end + kLargest - 1) / kLargest * kLargest;
}
// Functions without arguments have no such struct.
struct cuCtxSynchronize_params {};
#define GORDIAN_HOOK(library, name, effect, rules, result, parameters, arguments) \
  constexpr size_t kEndOf_##name = EndOf(static_cast<result(*) parameters>(nullptr));
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK
#define GORDIAN_CUPTI(name, number)                                           \
  static_assert(kEndOf_##name <= 1 || kEndOf_##name == sizeof(name##_params), \
                "the arguments of " #name " lie elsewhere");
#include "proto/ring/cupti_calls.def"
#undef GORDIAN_CUPTI
#endif
