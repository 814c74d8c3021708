// The element types as CUDA's own headers define them: an independent reference for the
// conversions.
#ifndef GORDIAN_TESTS_UNIT_EMULATOR_NCCL_ELEMENTS_H_
#define GORDIAN_TESTS_UNIT_EMULATOR_NCCL_ELEMENTS_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <nccl.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace gordian::emu::test {

// Half a step of the type, relative; 0 for exact types.
template <typename T>
struct Element {
  static constexpr double kEpsilon = std::is_integral_v<T> ? 0 : std::numeric_limits<T>::epsilon();
  static double ToDouble(T x) { return static_cast<double>(x); }
  static T FromDouble(double x) { return static_cast<T>(x); }
};
template <>
struct Element<__half> {
  static constexpr double kEpsilon = 0x1p-10;
  static double ToDouble(__half x) { return __half2float(x); }
  static __half FromDouble(double x) { return __float2half_rn(static_cast<float>(x)); }
};
template <>
struct Element<__nv_bfloat16> {
  static constexpr double kEpsilon = 0x1p-7;
  static double ToDouble(__nv_bfloat16 x) { return __bfloat162float(x); }
  static __nv_bfloat16 FromDouble(double x) { return __float2bfloat16_rn(static_cast<float>(x)); }
};
template <>
struct Element<__nv_fp8_e4m3> {
  static constexpr double kEpsilon = 0x1p-3;
  static double ToDouble(__nv_fp8_e4m3 x) { return static_cast<float>(x); }
  static __nv_fp8_e4m3 FromDouble(double x) { return __nv_fp8_e4m3(static_cast<float>(x)); }
};
template <>
struct Element<__nv_fp8_e5m2> {
  static constexpr double kEpsilon = 0x1p-2;
  static double ToDouble(__nv_fp8_e5m2 x) { return static_cast<float>(x); }
  static __nv_fp8_e5m2 FromDouble(double x) { return __nv_fp8_e5m2(static_cast<float>(x)); }
};

// Calls f(T{}, ncclDataType_t) for all 12 types.
template <typename F>
void ForEachType(F f) {
  f(int8_t{}, ncclInt8);
  f(uint8_t{}, ncclUint8);
  f(int32_t{}, ncclInt32);
  f(uint32_t{}, ncclUint32);
  f(int64_t{}, ncclInt64);
  f(uint64_t{}, ncclUint64);
  f(__half{}, ncclFloat16);
  f(float{}, ncclFloat32);
  f(double{}, ncclFloat64);
  f(__nv_bfloat16{}, ncclBfloat16);
  f(__nv_fp8_e4m3{}, ncclFloat8e4m3);
  f(__nv_fp8_e5m2{}, ncclFloat8e5m2);
}

}  // namespace gordian::emu::test

#endif  // GORDIAN_TESTS_UNIT_EMULATOR_NCCL_ELEMENTS_H_
