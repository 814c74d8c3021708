// Conversions between float and the small formats: round to nearest, ties to even. One element's
// bits. The 16-bit ones are inline and free of tables, since they are inner loops.
#ifndef GORDIAN_EMULATOR_NCCL_OPERATION_FLOAT_FORMATS_H_
#define GORDIAN_EMULATOR_NCCL_OPERATION_FLOAT_FORMATS_H_

#include <bit>
#include <cstdint>

namespace gordian::emu::nccl {

inline float HalfToFloat(uint16_t half) {
  uint32_t magnitude = static_cast<uint32_t>(half & 0x7fff) << 13;
  // Half's exponent is biased by 15, float's by 127; a subnormal half is a subnormal float here.
  uint32_t bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  if ((half & 0x7c00) == 0x7c00) bits = magnitude | 0x7f800000;
  return std::bit_cast<float>(bits | static_cast<uint32_t>(half & 0x8000) << 16);
}

inline uint16_t FloatToHalf(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  uint32_t magnitude;
  if (bits > 0x7f800000) return 0x7fff;
  if (bits >= 0x477ff000) {  // 65520: rounds to infinity
    magnitude = 0x7c00;
  } else if (bits < 0x38800000) {
    // Below 2^-14 a step is 2^-24, which is the step of a float at 0.5: adding rounds.
    magnitude = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5f) - 0x3f000000;
  } else {
    magnitude = (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13;
  }
  return static_cast<uint16_t>(sign | magnitude);
}

inline float Bfloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t FloatToBfloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// These saturate at the largest finite number, infinity too, as CUDA's constructors do.
float Float8E4m3ToFloat(uint8_t bits);
uint8_t FloatToFloat8E4m3(float value);
float Float8E5m2ToFloat(uint8_t bits);
uint8_t FloatToFloat8E5m2(float value);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_OPERATION_FLOAT_FORMATS_H_
