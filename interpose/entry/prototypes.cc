// Checks each row's signature against the header that declares the function. Compiled twice, since
// no translation unit can see all of them at once: nccl.h brings overloads that hide the C
// functions of the runtime.
#include <type_traits>

#if defined(GORDIAN_PROTOTYPES_OF_NCCL)
#include "interpose/entry/nccl_newer.h"
#define GORDIAN_CHECK_nccl GORDIAN_CHECK
#define GORDIAN_CHECK_cudart GORDIAN_SKIP
#define GORDIAN_CHECK_cuda GORDIAN_SKIP
#if NCCL_VERSION_CODE < 23007
#define GORDIAN_HOOKS_WITHOUT_NEWER_NCCL
#endif
#if NCCL_VERSION_CODE < 23100
#define GORDIAN_HOOKS_WITHOUT_NCCL_2_31
#endif

#elif defined(GORDIAN_PROTOTYPES_OF_CUDA)
// Declares every exported form under its own name: old versions, per-thread-default-stream twins.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <cuda_runtime_api.h>
// Declared in crt/device_functions.h, which host compilers cannot read.
extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
extern "C" cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, size_t,
                                               cudaStream_t);
#define GORDIAN_CHECK_nccl GORDIAN_SKIP
#define GORDIAN_CHECK_cudart GORDIAN_CHECK
#define GORDIAN_CHECK_cuda GORDIAN_CHECK
#endif

#define GORDIAN_SKIP(name, result, parameters)
#define GORDIAN_CHECK(name, result, parameters)                          \
  static_assert(std::is_same_v<decltype(&::name), result(*) parameters>, \
                "signature of " #name " in the table is not the header's");

#define GORDIAN_HOOK(library, name, effect, rules, result, parameters, arguments) \
  GORDIAN_CHECK_##library(name, result, parameters)
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK
