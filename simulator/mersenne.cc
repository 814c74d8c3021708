#include "simulator/mersenne.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gordian::simulator {
namespace {

constexpr int kWords = 624;
constexpr int kShift = 397;
constexpr uint32_t kMatrix = 0x9908b0dfu;
constexpr uint64_t kStride = 8;  // numbers, or pairs, looked at together

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

// A whole block at once: these loops carry no dependence closer than 227 words, so that the compiler
// makes vectors of them.
[[gnu::always_inline]] inline void RefillBlock(uint32_t* s, uint64_t* ready) {
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
  // Two words as one of 64 bits, the first in the lower half: 27 bits of it, then 26 of the second.
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(ready, words, sizeof(words));
  for (int k = 0; k < kWords / 2; ++k) {
    ready[k] = ((ready[k] & 0xffffffe0u) << 21) | (ready[k] >> 38);
  }
}

void RefillAnywhere(uint32_t* s, uint64_t* ready) { RefillBlock(s, ready); }

using RefillFunction = void (*)(uint32_t*, uint64_t*);

#if defined(__x86_64__)
[[gnu::target("avx2")]] void RefillWide(uint32_t* s, uint64_t* ready) { RefillBlock(s, ready); }

RefillFunction FastestRefill() {
  return __builtin_cpu_supports("avx2") ? RefillWide : RefillAnywhere;
}
#else
RefillFunction FastestRefill() { return RefillAnywhere; }
#endif

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

void PythonRandom::Refill() {
  static const auto refill = FastestRefill();
  refill(state_.data(), ready_.data() + 1);
  at_ = 1;
}

// Numbers have 53 bits, so that the top bit of a difference says which is less.
uint64_t PythonRandom::PassOver(uint64_t threshold, uint64_t most) {
  uint64_t passed = 0;
  while (passed < most) {
    if (at_ == kEnd) {
      Refill();
    }
    const uint64_t* next = ready_.data() + at_;
    const uint64_t count = std::min<uint64_t>(most - passed, static_cast<uint64_t>(kEnd - at_));
    uint64_t k = 0;
    for (; k + kStride <= count; k += kStride) {
      uint64_t less = 0;
      for (uint64_t i = 0; i < kStride; ++i) {
        less |= next[k + i] - threshold;
      }
      if (less >> 63 != 0) {
        break;
      }
    }
    while (k < count && next[k] >= threshold) {
      ++k;
    }
    at_ += static_cast<int>(k);
    passed += k;
    if (k < count) {
      break;
    }
  }
  return passed;
}

uint64_t PythonRandom::PassOverPairs(uint64_t first, uint64_t second, uint64_t most) {
  uint64_t passed = 0;
  while (passed < most) {
    if (at_ >= kEnd - 1) {
      const bool one_left = at_ == kEnd - 1;
      ready_[0] = ready_[kEnd - 1];
      Refill();
      at_ = one_left ? 0 : 1;
    }
    const uint64_t* next = ready_.data() + at_;
    const uint64_t count = std::min<uint64_t>(most - passed, static_cast<uint64_t>(kEnd - at_) / 2);
    uint64_t k = 0;
    for (; k + kStride <= count; k += kStride) {
      uint64_t less = 0;
      for (uint64_t i = 0; i < kStride; ++i) {
        less |= (next[2 * (k + i)] - first) | (next[2 * (k + i) + 1] - second);
      }
      if (less >> 63 != 0) {
        break;
      }
    }
    while (k < count && next[2 * k] >= first && next[2 * k + 1] >= second) {
      ++k;
    }
    at_ += static_cast<int>(2 * k);
    passed += k;
    if (k < count) {
      break;
    }
  }
  return passed;
}

}  // namespace gordian::simulator
