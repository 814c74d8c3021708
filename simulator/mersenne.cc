#include "simulator/mersenne.h"

#include <algorithm>

namespace gordian::simulator {
namespace {

constexpr int kShift = 397;
constexpr uint32_t kMatrix = 0x9908b0dfu;

inline uint32_t Twist(uint32_t here, uint32_t next, uint32_t far) {
  const uint32_t mixed = (here & 0x80000000u) | (next & 0x7fffffffu);
  return far ^ (mixed >> 1) ^ (-(next & 1u) & kMatrix);
}

inline uint32_t Temper(uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

}  // namespace

PythonRandom::PythonRandom(const std::vector<uint32_t>& key) {
  state_[0] = 19650218u;
  for (uint32_t i = 1; i < kWords; ++i) {
    state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }
  uint32_t i = 1;
  size_t j = 0;
  const auto step = [&] {
    if (++i == kWords) {
      state_[0] = state_[kWords - 1];
      i = 1;
    }
  };
  for (size_t left = std::max<size_t>(kWords, key.size()); left > 0; --left) {
    const uint32_t last = state_[i - 1] ^ (state_[i - 1] >> 30);
    state_[i] = (state_[i] ^ (last * 1664525u)) + key[j] + static_cast<uint32_t>(j);
    j = j + 1 == key.size() ? 0 : j + 1;
    step();
  }
  for (int left = kWords - 1; left > 0; --left) {
    const uint32_t last = state_[i - 1] ^ (state_[i - 1] >> 30);
    state_[i] = (state_[i] ^ (last * 1566083941u)) - i;
    step();
  }
  state_[0] = 0x80000000u;
}

// A whole block at once: these loops carry no dependence closer than 227 words, so that the compiler
// makes vectors of them.
void PythonRandom::Refill() {
  uint32_t* s = state_.data();
  for (int k = 0; k < kWords - kShift; ++k) {
    s[k] = Twist(s[k], s[k + 1], s[k + kShift]);
  }
  for (int k = kWords - kShift; k < kWords - 1; ++k) {
    s[k] = Twist(s[k], s[k + 1], s[k + kShift - kWords]);
  }
  s[kWords - 1] = Twist(s[kWords - 1], s[0], s[kShift - 1]);
  uint32_t words[kWords];
  for (int k = 0; k < kWords; ++k) {
    words[k] = Temper(s[k]);
  }
  for (int k = 0; k < kNumbers; ++k) {
    ready_[k] = (static_cast<uint64_t>(words[2 * k] >> 5) << 26) | (words[2 * k + 1] >> 6);
  }
  at_ = 0;
}

}  // namespace gordian::simulator
