#include "simulator/sampling/mersenne.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gordian::simulator {
namespace {

constexpr int kWords = 624;
constexpr int kShift = 397;
constexpr uint32_t kMatrix = 0x9908b0dfu;
constexpr uint64_t kStride = 16;  // numbers handled together

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

// Refills a whole block: no dependence in these loops is closer than 227 words, so the compiler
// vectorises them.
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
  // Reads two words as one of 64 bits, the first in the lower half: 27 bits of it, then 26 of the
  // second.
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(ready, words, sizeof(words));
  for (int k = 0; k < kWords / 2; ++k) {
    ready[k] = ((ready[k] & 0xffffffe0u) << 21) | (ready[k] >> 38);
  }
}

// Counts numbers, in whole strides, that are not below their bound: `even` for numbers at even
// places, `odd` for the others. Numbers have 53 bits, so the top bit of a difference shows which is
// less.
[[gnu::always_inline]] inline uint64_t CountNotLess(const uint64_t* next, uint64_t count,
                                                    uint64_t even, uint64_t odd) {
  uint64_t k = 0;
  for (; k + kStride <= count; k += kStride) {
    uint64_t less = 0;
    for (uint64_t i = 0; i < kStride; i += 2) {
      less |= (next[k + i] - even) | (next[k + i + 1] - odd);
    }
    if (less >> 63 != 0) {
      break;
    }
  }
  return k;
}

struct Loops {
  void (*refill)(uint32_t* state, uint64_t* ready);
  uint64_t (*count)(const uint64_t* next, uint64_t count, uint64_t even, uint64_t odd);
};

void RefillAnywhere(uint32_t* s, uint64_t* ready) { RefillBlock(s, ready); }
uint64_t CountAnywhere(const uint64_t* next, uint64_t count, uint64_t even, uint64_t odd) {
  return CountNotLess(next, count, even, odd);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void RefillWide(uint32_t* s, uint64_t* ready) { RefillBlock(s, ready); }
[[gnu::target("avx2")]] uint64_t CountWide(const uint64_t* next, uint64_t count, uint64_t even,
                                           uint64_t odd) {
  return CountNotLess(next, count, even, odd);
}
#endif

Loops FastestLoops() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    return {RefillWide, CountWide};
  }
#endif
  return {RefillAnywhere, CountAnywhere};
}

const Loops& TheLoops() {
  static const Loops loops = FastestLoops();
  return loops;
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

PythonRandom PythonRandom::OfSeed(uint64_t seed) {
  const auto low = static_cast<uint32_t>(seed);
  const auto high = static_cast<uint32_t>(seed >> 32);
  return high == 0 ? PythonRandom(low) : PythonRandom(std::vector<uint32_t>{low, high});
}

void PythonRandom::Refill() {
  TheLoops().refill(state_.data(), ready_.data() + 1);
  at_ = 1;
}

uint64_t PythonRandom::PassOver(uint64_t threshold, uint64_t most) {
  uint64_t passed = 0;
  while (passed < most) {
    if (at_ == kEnd) {
      Refill();
    }
    const uint64_t* next = ready_.data() + at_;
    const uint64_t count = std::min<uint64_t>(most - passed, static_cast<uint64_t>(kEnd - at_));
    uint64_t k = TheLoops().count(next, count, threshold, threshold);
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
    uint64_t k = TheLoops().count(next, 2 * count, first, second) / 2;
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
