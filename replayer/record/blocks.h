// A sequence in blocks of equal size: it grows without copying what is there, and finds an element
// by a shift and a mask.
//
// Not thread-safe. References stay valid until the sequence shrinks.
#ifndef GORDIAN_REPLAYER_RECORD_BLOCKS_H_
#define GORDIAN_REPLAYER_RECORD_BLOCKS_H_

#include <cstddef>
#include <memory>
#include <vector>

namespace gordian::replayer {

// T: trivially copyable. kBlock: elements of a block, a power of two.
template <typename T, size_t kBlock = 128>
class Blocks {
  static_assert((kBlock & (kBlock - 1)) == 0);

 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t index) { return blocks_[index / kBlock][index % kBlock]; }
  const T& operator[](size_t index) const { return blocks_[index / kBlock][index % kBlock]; }

  void push_back(const T& value) {
    if (size_ == kBlock * blocks_.size())
      blocks_.push_back(std::make_unique_for_overwrite<T[]>(kBlock));
    blocks_.back()[size_++ % kBlock] = value;
  }
  // Drops all but the first `size` elements.
  void Shrink(size_t size) {
    size_ = size;
    blocks_.resize((size + kBlock - 1) / kBlock);
  }

 private:
  std::vector<std::unique_ptr<T[]>> blocks_;
  size_t size_ = 0;
};

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_BLOCKS_H_
