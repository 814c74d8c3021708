// Decides from a copy's arguments whether it touches host memory: such copies wait, or may wait.
#ifndef GORDIAN_INTERPOSE_DESCRIBE_COPY_KINDS_H_
#define GORDIAN_INTERPOSE_DESCRIBE_COPY_KINDS_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <type_traits>

#include "interpose/describe/describe_cuda.h"

namespace gordian::interpose {

// The first argument of type T, else `otherwise`.
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
template <typename T, typename... Arguments>
inline constexpr bool kTakes = (std::is_same_v<T, Arguments> || ...);

// The pointers of a copy between addresses whose location only the driver knows.
inline bool IsUnifiedDeviceToDevice(CUdeviceptr to, CUdeviceptr from) {
  return IsDeviceToDevice(reinterpret_cast<const void*>(to), reinterpret_cast<const void*>(from));
}
template <typename First, typename Second, typename... Rest>
bool FirstTwoOnDevice(const First& first, const Second& second, const Rest&...) {
  if constexpr (std::is_same_v<First, CUdeviceptr> && std::is_same_v<Second, CUdeviceptr>) {
    return IsUnifiedDeviceToDevice(first, second);
  } else {
    return false;
  }
}
inline bool OnDevice(CUmemorytype type) {
  return type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_ARRAY;
}

// A synchronous copy without host memory: the driver queues it, and the call returns.
template <typename... Arguments>
bool IsQueuedCopy(const Arguments&... arguments) {
  if constexpr (kTakes<const CUDA_MEMCPY2D*, Arguments...>) {
    const auto* copy = Pick<const CUDA_MEMCPY2D*>(nullptr, arguments...);
    return copy != nullptr && OnDevice(copy->srcMemoryType) && OnDevice(copy->dstMemoryType);
  } else if constexpr (kTakes<const CUDA_MEMCPY3D*, Arguments...>) {
    const auto* copy = Pick<const CUDA_MEMCPY3D*>(nullptr, arguments...);
    return copy != nullptr && OnDevice(copy->srcMemoryType) && OnDevice(copy->dstMemoryType);
  } else if constexpr (kTakes<CUdeviceptr, Arguments...>) {
    return FirstTwoOnDevice(arguments...);
  } else {
    auto kind = Pick<cudaMemcpyKind>(cudaMemcpyHostToDevice, arguments...);
    if constexpr (kTakes<const cudaMemcpy3DParms*, Arguments...>) {
      const auto* parameters = Pick<const cudaMemcpy3DParms*>(nullptr, arguments...);
      if (parameters != nullptr) kind = parameters->kind;
    }
    if (kind == cudaMemcpyDeviceToDevice) return true;
    if constexpr (kTakes<void*, Arguments...> && kTakes<const void*, Arguments...>) {
      if (kind == cudaMemcpyDefault) {
        return IsDeviceToDevice(Pick<void*>(nullptr, arguments...),
                                Pick<const void*>(nullptr, arguments...));
      }
    }
    return false;
  }
}

// An asynchronous copy whose target may be pageable host memory: it then waits for its stream
// before it returns. Does not ask whether the memory is pageable, which would cost more than a copy
// of a few bytes. `always`: no argument rules it out.
template <bool always, typename... Arguments>
bool MayCopyToHost(const Arguments&... arguments) {
  if constexpr (always) {
    return true;
  } else if constexpr (kTakes<cudaMemcpyKind, Arguments...>) {
    const auto direction = Pick<cudaMemcpyKind>(cudaMemcpyHostToDevice, arguments...);
    return direction == cudaMemcpyDeviceToHost || direction == cudaMemcpyDefault;
  } else if constexpr (kTakes<const CUDA_MEMCPY2D*, Arguments...>) {
    const auto* copy = Pick<const CUDA_MEMCPY2D*>(nullptr, arguments...);
    return copy != nullptr && !OnDevice(copy->dstMemoryType);
  } else if constexpr (kTakes<const CUDA_MEMCPY3D*, Arguments...>) {
    const auto* copy = Pick<const CUDA_MEMCPY3D*>(nullptr, arguments...);
    return copy != nullptr && !OnDevice(copy->dstMemoryType);
  } else {
    return false;
  }
}

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_DESCRIBE_COPY_KINDS_H_
