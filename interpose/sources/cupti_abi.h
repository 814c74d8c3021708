// The part of CUPTI's callback interface that the shim uses, declared anew after NVIDIA's
// cupti_callbacks.h and cupti_result.h of CUDA 13.0 (the same since CUDA 5). The shim never links
// CUPTI, and its headers need not be installed: interpose/sources/cupti_prototypes.cc compares them
// if they are.
#ifndef GORDIAN_INTERPOSE_SOURCES_CUPTI_ABI_H_
#define GORDIAN_INTERPOSE_SOURCES_CUPTI_ABI_H_

#include <stddef.h>
#include <stdint.h>

namespace gordian::interpose::cupti {

inline constexpr uint32_t kDriverApi = 1;  // CUPTI_CB_DOMAIN_DRIVER_API
inline constexpr uint32_t kEnter = 0;      // CUPTI_API_ENTER
inline constexpr int kSuccess = 0;
inline constexpr int kTaken = 39;  // CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED

// CUpti_CallbackData.
struct CallbackData {
  uint32_t site;
  const char* function;
  const void* parameters;  // the arguments, one after the other, as members of a struct
  void* result;            // CUresult*; at the end of a call
  const char* kernel;
  void* context;
  uint32_t context_number;
  uint64_t* correlation_data;
  uint32_t correlation;
};

using Callback = void (*)(void* user_data, uint32_t domain, uint32_t function,
                          const CallbackData* data);
using Subscribe = int (*)(void** subscriber, Callback callback, void* user_data);
using EnableCallback = int (*)(uint32_t enable, void* subscriber, uint32_t domain,
                               uint32_t function);
using Unsubscribe = int (*)(void* subscriber);

// The address in CallbackData::parameters of the argument with this number, for a function with
// these parameters.
template <typename... Members>
constexpr size_t OffsetOf(size_t number) {
  constexpr size_t kSizes[] = {sizeof(Members)..., 0};
  constexpr size_t kAlignments[] = {alignof(Members)..., 1};
  size_t at = 0;
  for (size_t i = 0;; ++i) {
    at = (at + kAlignments[i] - 1) / kAlignments[i] * kAlignments[i];
    if (i == number) return at;
    at += kSizes[i];
  }
}

}  // namespace gordian::interpose::cupti

#endif  // GORDIAN_INTERPOSE_SOURCES_CUPTI_ABI_H_
