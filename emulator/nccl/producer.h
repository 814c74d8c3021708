// The writing side of a Slot: stages a stream of bytes for the members that read it.
#ifndef GORDIAN_EMULATOR_NCCL_PRODUCER_H_
#define GORDIAN_EMULATOR_NCCL_PRODUCER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "emulator/nccl/transfer.h"

namespace gordian::emu::nccl {

// Staging of operations that cannot run ahead: enough to keep both sides busy.
inline constexpr uint64_t kRingBytes = 4ull << 20;
// Bytes staged or taken between two looks at the other side.
inline constexpr uint64_t kChunkBytes = 1ull << 20;
// Pushes wait while more than this lies unread at one member of one communicator.
inline constexpr uint64_t kMaxUnreadBytes = 256ull << 20;

class Producer {
 public:
  // `finished(r)`: member r is done with this ordinal and will not read (more).
  Producer(DeviceState* state, Slot* slot, uint64_t ordinal, std::vector<int> readers,
           std::function<bool(int)> finished)
      : state_(state),
        slot_(slot),
        ordinal_(ordinal),
        readers_(std::move(readers)),
        finished_(std::move(finished)) {}

  // Makes the operation visible. `source` holds `total` bytes; with `whole` all of it is staged at
  // once, else through a ring. False when there is no room yet: try again.
  bool Publish(const Signature& signature, const std::byte* source, uint64_t total, bool whole);
  bool published() const { return published_; }
  // True when it staged something.
  bool Stage();
  bool complete() const { return published_ && staged_ == total_; }
  uint64_t staged() const { return staged_; }
  // Leaves the region to its readers; it is freed when they have read all, or are done.
  void Release();

 private:
  uint64_t LeastConsumed() const;

  DeviceState* state_;
  Slot* slot_;
  uint64_t ordinal_;
  std::vector<int> readers_;
  std::function<bool(int)> finished_;
  const std::byte* source_ = nullptr;
  uint64_t total_ = 0;
  uint64_t staged_ = 0;
  uint64_t region_offset_ = 0;
  uint64_t region_bytes_ = 0;
  bool published_ = false;
  bool owns_region_ = false;
};

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_PRODUCER_H_
