#include "emulator/nccl/operation/float_formats.h"

#include <cmath>

namespace gordian::emu::nccl {
namespace {

// A format with a sign, `exponent_bits` and `mantissa_bits`, biased as IEEE does it.
template <int exponent_bits, int mantissa_bits>
float Widen(uint32_t bits, bool has_infinity) {
  constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  constexpr uint32_t kMantissaMask = (1u << mantissa_bits) - 1;
  constexpr uint32_t kExponentMask = (1u << exponent_bits) - 1;
  uint32_t sign = (bits >> (exponent_bits + mantissa_bits)) & 1;
  uint32_t exponent = (bits >> mantissa_bits) & kExponentMask;
  uint32_t mantissa = bits & kMantissaMask;
  float value;
  if (has_infinity && exponent == kExponentMask) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (!has_infinity && exponent == kExponentMask && mantissa == kMantissaMask) {
    value = NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - kBias - mantissa_bits);
  } else {
    value = std::ldexp(static_cast<float>(mantissa | (1u << mantissa_bits)),
                       static_cast<int>(exponent) - kBias - mantissa_bits);
  }
  return sign != 0 ? -value : value;
}

// Magnitude of a finite, non-negative float in the format, without a limit above: the caller looks
// at what lies beyond the largest number.
template <int exponent_bits, int mantissa_bits>
uint32_t Narrow(float magnitude) {
  constexpr int kBias = (1 << (exponent_bits - 1)) - 1;
  uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  int exponent = static_cast<int>(bits >> 23) - 127 + kBias;
  if (exponent <= 0) {
    // Subnormal here: in units of the smallest step. Exact in float, so rounding happens once.
    return static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, kBias - 1 + mantissa_bits)));
  }
  constexpr int kDrop = 23 - mantissa_bits;
  uint32_t value = (static_cast<uint32_t>(exponent) << 23 | (bits & 0x7fffff));
  uint32_t half = (1u << (kDrop - 1)) - 1 + ((value >> kDrop) & 1);
  return (value + half) >> kDrop;
}

struct Tables {
  float e4m3[256];
  float e5m2[256];
  Tables() {
    for (uint32_t i = 0; i < 256; ++i) {
      e4m3[i] = Widen<4, 3>(i, false);
      e5m2[i] = Widen<5, 2>(i, true);
    }
  }
};

const Tables& GetTables() {
  static const auto* tables = new Tables;
  return *tables;
}

uint32_t SignOf(float value) { return std::bit_cast<uint32_t>(value) >> 31; }

}  // namespace

float Float8E4m3ToFloat(uint8_t bits) { return GetTables().e4m3[bits]; }
float Float8E5m2ToFloat(uint8_t bits) { return GetTables().e5m2[bits]; }

uint8_t FloatToFloat8E4m3(float value) {
  uint32_t sign = SignOf(value) << 7;
  if (std::isnan(value)) return 0x7f;
  if (std::isinf(value)) return static_cast<uint8_t>(sign | 0x7e);
  uint32_t magnitude = Narrow<4, 3>(std::fabs(value));
  return static_cast<uint8_t>(sign | (magnitude < 0x7e ? magnitude : 0x7e));
}

uint8_t FloatToFloat8E5m2(float value) {
  uint32_t sign = SignOf(value) << 7;
  if (std::isnan(value)) return 0x7f;
  if (std::isinf(value)) return static_cast<uint8_t>(sign | 0x7b);
  uint32_t magnitude = Narrow<5, 2>(std::fabs(value));
  return static_cast<uint8_t>(sign | (magnitude < 0x7b ? magnitude : 0x7b));
}

}  // namespace gordian::emu::nccl
