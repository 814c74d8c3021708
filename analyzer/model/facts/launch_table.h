// The launches that are not over, by numbers that the table gives: the number says where the launch
// lies, so that finding one costs no search. A launch that is over leaves its memory, lists and
// all, to a later one, so that a job in its stride costs no allocation.
//
// A later launch's number is the larger one: it counts the launches, and its low bits are the
// place. None is given twice within 2^38 launches, which are days of the largest job. Not
// thread-safe. References stay valid until their launch is erased. Going over it: in no particular
// order; nothing may be added or erased meanwhile.
#ifndef GORDIAN_ANALYZER_MODEL_FACTS_LAUNCH_TABLE_H_
#define GORDIAN_ANALYZER_MODEL_FACTS_LAUNCH_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gordian::model {

// Launch: has a number, `id`, and Clear(), which makes it as new and keeps what memory it has.
template <typename Launch>
class LaunchTable {
 public:
  struct Held {
    uint64_t first = 0;  // 0: free
    Launch second;
  };

  template <typename Of, typename Table>
  class Iterator {
   public:
    Iterator(Table* table, size_t at) : table_(table), at_(at) { Skip(); }
    Of& operator*() const { return table_->At(at_); }
    Of* operator->() const { return &table_->At(at_); }
    Iterator& operator++() {
      ++at_;
      Skip();
      return *this;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    void Skip() {
      while (at_ != table_->places_ && table_->At(at_).first == 0) ++at_;
    }
    Table* table_;
    size_t at_;
  };
  using iterator = Iterator<Held, LaunchTable>;
  using const_iterator = Iterator<const Held, const LaunchTable>;

  iterator begin() { return {this, 0}; }
  iterator end() { return {this, places_}; }
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, places_}; }

  size_t size() const { return places_ - free_.size(); }
  bool empty() const { return size() == 0; }
  size_t count(uint64_t id) const { return Find(id) != nullptr ? 1 : 0; }

  // Null: over, or never there.
  const Launch* Find(uint64_t id) const {
    const size_t place = id & kPlaces;
    if (id == 0 || place >= places_) return nullptr;
    const Held& held = At(place);
    return held.first == id ? &held.second : nullptr;
  }
  Launch* Find(uint64_t id) { return const_cast<Launch*>(std::as_const(*this).Find(id)); }
  const Launch& at(uint64_t id) const {
    const Launch* const launch = Find(id);
    if (launch == nullptr) throw std::out_of_range("no such launch");
    return *launch;
  }

  // A new one, which has its number.
  Launch& Add() {
    size_t place = places_;
    if (!free_.empty()) {
      place = free_.back();
      free_.pop_back();
    } else {
      if (places_ > kPlaces) throw std::length_error("too many unfinished launches");
      if (places_ % kBlock == 0) blocks_.push_back(std::make_unique<Block>());
      ++places_;
    }
    Held& held = At(place);
    held.first = ++added_ << kPlaceBits | place;
    held.second.id = held.first;
    return held.second;
  }

  void erase(uint64_t id) {
    if (Find(id) == nullptr) return;
    const size_t place = id & kPlaces;
    Held& held = At(place);
    held.first = 0;
    held.second.Clear();
    free_.push_back(static_cast<uint32_t>(place));
  }

 private:
  static constexpr int kPlaceBits = 26;  // 67 million unfinished ones would need 16 GiB
  static constexpr uint64_t kPlaces = (uint64_t{1} << kPlaceBits) - 1;
  static constexpr size_t kBlock = 64;
  using Block = std::array<Held, kBlock>;

  Held& At(size_t place) { return (*blocks_[place / kBlock])[place % kBlock]; }
  const Held& At(size_t place) const { return (*blocks_[place / kBlock])[place % kBlock]; }

  std::vector<std::unique_ptr<Block>> blocks_;
  size_t places_ = 0;           // that were ever used
  std::vector<uint32_t> free_;  // of them; the last one that was freed is used first
  uint64_t added_ = 0;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_FACTS_KERNEL_TABLE_H_
