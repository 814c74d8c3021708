// The launches that are not over, by number. Reads like a map of them; a launch that is over leaves its memory, lists
// and all, to a later one, so that a job in its stride costs no allocation.
//
// Not thread-safe. References stay valid until their launch is erased. Going over it: in no particular order; nothing
// may be added or erased meanwhile.
#ifndef GORDIAN_ANALYZER_GRAPH_KERNEL_TABLE_H_
#define GORDIAN_ANALYZER_GRAPH_KERNEL_TABLE_H_

#include <cstddef>
#include <deque>
#include <stdexcept>
#include <utility>
#include <vector>

#include "analyzer/graph/id_table.h"

namespace gordian::graph {

// Kernel: has Clear(), which makes it as new and keeps what memory it has.
template <typename Kernel>
class KernelTable {
 public:
  struct Held {
    uint64_t first = 0;
    Kernel second;
  };

  template <typename Of>
  class Iterator {
   public:
    using Slot = typename IdTable<Held*>::Entry;
    Iterator(const Slot* at, const Slot* end) : at_(at), end_(end) { Skip(); }
    Of& operator*() const { return *at_->value; }
    Of* operator->() const { return at_->value; }
    Iterator& operator++() {
      ++at_;
      Skip();
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    void Skip() {
      while (at_ != end_ && at_->id == 0) ++at_;
    }
    const Slot* at_;
    const Slot* end_;
  };
  using iterator = Iterator<Held>;
  using const_iterator = Iterator<const Held>;

  iterator begin() { return {First(), Last()}; }
  iterator end() { return {Last(), Last()}; }
  const_iterator begin() const { return {First(), Last()}; }
  const_iterator end() const { return {Last(), Last()}; }

  size_t size() const { return by_id_.size(); }
  bool empty() const { return size() == 0; }
  size_t count(uint64_t id) const { return Find(id) != nullptr ? 1 : 0; }

  // Null: over, or never there.
  Kernel* Find(uint64_t id) {
    Held* const* const found = by_id_.Find(id);
    return found == nullptr ? nullptr : &(*found)->second;
  }
  const Kernel* Find(uint64_t id) const { return const_cast<KernelTable*>(this)->Find(id); }
  Kernel& at(uint64_t id) {
    Kernel* const kernel = Find(id);
    if (kernel == nullptr) throw std::out_of_range("no such launch");
    return *kernel;
  }

  // As new, if it is not there.
  Kernel& operator[](uint64_t id) {
    if (Kernel* const kernel = Find(id); kernel != nullptr) return *kernel;
    Held* held = nullptr;
    if (free_.empty()) {
      held = &pool_.emplace_back();
    } else {
      held = free_.back();
      free_.pop_back();
    }
    held->first = id;
    by_id_.Insert(id, held);
    return held->second;
  }

  void erase(uint64_t id) {
    Held* const* const found = by_id_.Find(id);
    if (found == nullptr) return;
    Held* const held = *found;
    by_id_.Erase(id);
    held->second.Clear();
    free_.push_back(held);
  }

 private:
  const typename IdTable<Held*>::Entry* First() const { return by_id_.slots().data(); }
  const typename IdTable<Held*>::Entry* Last() const { return First() + by_id_.slots().size(); }

  IdTable<Held*> by_id_;
  std::deque<Held> pool_;
  std::vector<Held*> free_;
};

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_KERNEL_TABLE_H_
