// Integer ids, each with a type of its own so that the compiler keeps them apart.
#ifndef GORDIAN_COMMON_IDS_H_
#define GORDIAN_COMMON_IDS_H_

#include <compare>
#include <cstdint>
#include <functional>

namespace gordian {

// An integer with a name. No implicit conversion either way, no arithmetic.
template <typename Tag, typename Number>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(Number number) : number_(number) {}
  constexpr Number number() const { return number_; }
  friend constexpr auto operator<=>(StrongId, StrongId) = default;

 private:
  Number number_ = 0;
};

// Identifies a process in a session: the collector assigns it from 1 and, unlike the kernel with
// pids, never reuses it.
using ProcessNumber = StrongId<struct ProcessNumberTag, uint32_t>;

// Identifies a thread of a process, and is not reused: 1 + slot + 256 * generation of its
// ThreadSlot; 0 is "none".
using ThreadNumber = StrongId<struct ThreadNumberTag, uint32_t>;

inline constexpr ThreadNumber MakeThreadNumber(uint32_t slot, uint32_t generation) {
  return ThreadNumber(1 + slot + 256 * generation);
}

inline constexpr uint32_t SlotOf(ThreadNumber thread) { return (thread.number() - 1) % 256; }

}  // namespace gordian

template <typename Tag, typename Number>
struct std::hash<gordian::StrongId<Tag, Number>> {
  size_t operator()(gordian::StrongId<Tag, Number> id) const noexcept {
    return std::hash<Number>()(id.number());
  }
};

#endif  // GORDIAN_COMMON_IDS_H_
