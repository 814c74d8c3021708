// Writes a Slot: stages a stream of bytes for the members that read it.
#ifndef GORDIAN_EMULATOR_NCCL_OPERATION_PRODUCER_H_
#define GORDIAN_EMULATOR_NCCL_OPERATION_PRODUCER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "emulator/nccl/operation/transfer.h"

namespace gordian::emu::nccl {

// Staging of operations that cannot run ahead: enough to keep both sides busy.
inline constexpr uint64_t kRingBytes = 4ull << 20;
// Bytes to stage or take before looking at the other side again.
inline constexpr uint64_t kChunkBytes = 1ull << 20;
// A push waits while more than this is unread at one member of a communicator.
inline constexpr uint64_t kMaxUnreadBytes = 256ull << 20;

class Producer {
 public:
  // `finished(r)`: member r is done with this ordinal and reads no more.
  Producer(DeviceState* state, Slot* slot, uint64_t ordinal, std::vector<int> readers,
           std::function<bool(int)> finished)
      : state_(state),
        slot_(slot),
        ordinal_(ordinal),
        readers_(std::move(readers)),
        finished_(std::move(finished)) {}

  // Makes the operation visible. `source` holds `total` bytes; `whole` stages all of it at once,
  // otherwise through a ring. Returns false if there is no room yet: try again.
  bool Publish(const Signature& signature, const std::byte* source, uint64_t total, bool whole);
  bool published() const { return published_; }
  // Returns true if it staged something.
  bool Stage();
  bool complete() const { return published_ && staged_ == total_; }
  uint64_t staged() const { return staged_; }
  // Leaves the region to its readers, and frees it when they have read all, or are done.
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

#endif  // GORDIAN_EMULATOR_NCCL_OPERATION_PRODUCER_H_
