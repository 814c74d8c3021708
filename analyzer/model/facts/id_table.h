// From numbers that are given one after the other (launches, processes of a node) to values: a flat
// hash table.
//
// Open addressing with linear probing and backward-shift deletion (Knuth, The Art of Computer
// Programming 3, §6.4, algorithm R; multiplicative hashing as there). Four neighbouring numbers
// share a cache line; more must not be neighbours, since a deletion goes to the end of a run. 0 is
// no key. Not thread-safe; memory follows the largest number of entries so far.
#ifndef GORDIAN_ANALYZER_MODEL_FACTS_ID_TABLE_H_
#define GORDIAN_ANALYZER_MODEL_FACTS_ID_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gordian::model {

// Value: cheap to copy, as a pointer or a number is.
template <typename Value>
class IdTable {
 public:
  struct Entry {
    uint64_t id = 0;  // 0: free
    Value value{};
  };

  size_t size() const { return size_; }

  // Room for so many without growing.
  void Reserve(size_t entries) {
    size_t slots = kLeast;
    while (slots < 2 * entries) slots *= 2;
    if (slots > slots_.size()) Rehash(slots);
  }

  // Null: not there. Valid until the next Insert or Erase.
  const Value* Find(uint64_t id) const {
    if (slots_.empty() || id == 0) return nullptr;
    for (size_t at = Home(id);; at = (at + 1) & Mask()) {
      if (slots_[at].id == id) return &slots_[at].value;
      if (slots_[at].id == 0) return nullptr;
    }
  }

  // `id` must not be there yet.
  void Insert(uint64_t id, Value value) {
    if (2 * (size_ + 1) > slots_.size()) Rehash(slots_.empty() ? kLeast : 2 * slots_.size());
    Place({id, value});
    ++size_;
  }

  void Erase(uint64_t id) {
    if (slots_.empty() || id == 0) return;
    size_t hole = Home(id);
    while (slots_[hole].id != id) {
      if (slots_[hole].id == 0) return;
      hole = (hole + 1) & Mask();
    }
    --size_;
    for (size_t at = (hole + 1) & Mask(); slots_[at].id != 0; at = (at + 1) & Mask()) {
      // May it stand in the hole, which is nearer to its home?
      if (((at - Home(slots_[at].id)) & Mask()) >= ((at - hole) & Mask())) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = Entry{};
  }

  // Those with id 0 are free.
  const std::vector<Entry>& slots() const { return slots_; }

 private:
  static constexpr size_t kLeast = 16;

  size_t Mask() const { return slots_.size() - 1; }
  size_t Home(uint64_t id) const {
    const uint64_t group =
        (id >> 2) * 0x9e3779b97f4a7c15;  // 2^64 by the golden ratio: spreads what is in sequence
    return (static_cast<size_t>(group >> 32) * 4 + (id & 3)) & Mask();
  }

  void Place(const Entry& entry) {
    size_t at = Home(entry.id);
    while (slots_[at].id != 0) at = (at + 1) & Mask();
    slots_[at] = entry;
  }

  void Rehash(size_t slots) {
    std::vector<Entry> old(slots);
    old.swap(slots_);
    for (const Entry& entry : old) {
      if (entry.id != 0) Place(entry);
    }
  }

  std::vector<Entry> slots_;  // a power of two, at most half full
  size_t size_ = 0;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_FACTS_ID_TABLE_H_
