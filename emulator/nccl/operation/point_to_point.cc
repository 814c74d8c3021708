#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "emulator/nccl/operation/mismatch.h"
#include "emulator/nccl/operation/producer.h"
#include "emulator/nccl/operation/transfer.h"

namespace gordian::emu::nccl {
namespace {

Signature SignatureOf(const Operation& op) {
  Signature signature;
  signature.kind = op.kind;
  signature.datatype = op.datatype;
  signature.root = op.root;
  signature.count = op.count;
  return signature;
}

// A message up to this size is one piece. A longer one is cut into parts, one per channel, and each
// part goes in steps: parts of messages of different lengths pair up by number, and each step
// counts as one, however long it is. Measured with messages of 2 and 4 MiB.
constexpr uint64_t kOnePartBytes = 64ull << 10;
constexpr uint64_t kParts = 16;
constexpr uint64_t kStepBytes = 512ull << 10;

uint64_t PartBytes(uint64_t bytes) { return ((bytes + kParts - 1) / kParts + 15) / 16 * 16; }
uint64_t Steps(uint64_t bytes) { return (PartBytes(bytes) + kStepBytes - 1) / kStepBytes; }

class Send final : public Transfer {
 public:
  Send(DeviceState* state, const Operation& op, uint64_t ordinal)
      : op_(op),
        ordinal_(ordinal),
        pair_(state->segment->pair(state->rank, op.root)),
        producer_(state, state->segment->pair_slot(state->rank, op.root, ordinal), ordinal,
                  {op.root}, [segment = state->segment, pair = &pair_, ordinal](int) {
                    return pair->receives_done.load(std::memory_order_acquire) > ordinal;
                  }) {}

  void Start() override {}

  bool Step() override {
    if (done_) return false;
    bool buffered = op_.bytes() <= PushLimit(Kind::kSend);
    bool progress = false;
    if (!producer_.published()) {
      bool slot_is_free =
          ordinal_ < kPairSlots ||
          pair_.receives_done.load(std::memory_order_acquire) > ordinal_ - kPairSlots;
      if (!slot_is_free || !producer_.Publish(SignatureOf(op_), op_.send, op_.bytes(), buffered)) {
        return false;
      }
      progress = true;
    }
    progress |= producer_.Stage();
    bool received = pair_.receives_started.load(std::memory_order_acquire) > ordinal_;
    if (producer_.complete() && (buffered || received)) {
      done_ = true;
      producer_.Release();
    }
    return progress;
  }

  bool done() const override { return done_; }
  std::string Describe() const override { return DescribeOperation(op_, ordinal_); }
  std::vector<int> WaitsFor() const override { return {op_.root}; }
  void Abandon() override { producer_.Release(); }

 private:
  Operation op_;
  uint64_t ordinal_;
  PairCounters& pair_;
  Producer producer_;
  bool done_ = false;
};

class Recv final : public Transfer {
 public:
  Recv(DeviceState* state, const Operation& op, uint64_t ordinal)
      : state_(state),
        op_(op),
        ordinal_(ordinal),
        pair_(state->segment->pair(op.root, state->rank)),
        slot_(state->segment->pair_slot(op.root, state->rank, ordinal)) {}

  void Start() override {
    // Receives of one peer start in order: one kernel after the other, and in order within one.
    pair_.receives_started.store(ordinal_ + 1, std::memory_order_release);
    announced_ = false;
  }

  bool Step() override {
    if (done_) return false;
    bool progress = !announced_;
    announced_ = true;
    // litmus: receive.published
    if (slot_->published.load(std::memory_order_acquire) != ordinal_ + 1) return progress;
    // litmus: receive.staged
    uint64_t staged = slot_->staged.load(std::memory_order_acquire);
    const bool in_parts = slot_->total != op_.bytes() && slot_->region_bytes >= slot_->total &&
                          std::min(slot_->total, op_.bytes()) > kOnePartBytes;
    if (in_parts) return TakeParts(staged) || progress;
    uint64_t given = std::min(staged, op_.bytes());
    auto& consumed = slot_->consumed()[state_->rank];
    while (taken_ < given) {
      uint64_t at = taken_ % slot_->region_bytes;
      uint64_t n = std::min({given - taken_, slot_->region_bytes - at, kChunkBytes});
      const std::byte* data = state_->segment->process(op_.root)->At(slot_->region_offset + at, n);
      if (data == nullptr) return progress;
      std::memcpy(op_.recv + taken_, data, n);
      taken_ += n;
      // litmus: receive.consumed
      consumed.store(taken_, std::memory_order_release);
      progress = true;
    }
    // After a send of fewer bytes than expected the receive waits for the rest.
    if (taken_ == op_.bytes()) {
      Finish();
      progress = true;
    }
    return progress;
  }

  bool done() const override { return done_; }
  std::string Describe() const override { return DescribeOperation(op_, ordinal_); }
  std::vector<int> WaitsFor() const override { return {op_.root}; }
  void Abandon() override {}

 private:
  void Finish() {
    done_ = true;
    slot_->consumed()[state_->rank].store(kNothingMore, std::memory_order_release);
    pair_.receives_done.store(state_->receives[op_.root].Add(ordinal_), std::memory_order_release);
  }

  // Takes a message of another length, which its sender has staged whole. Returns false if nothing
  // changed.
  bool TakeParts(uint64_t staged) {
    const uint64_t total = slot_->total, ours = op_.bytes();
    if (staged < total || Steps(total) < Steps(ours)) return false;
    const uint64_t their_part = PartBytes(total), our_part = PartBytes(ours);
    for (uint64_t i = 0; i < kParts && i * their_part < total && i * our_part < ours; ++i) {
      const uint64_t n =
          std::min({their_part, our_part, total - i * their_part, ours - i * our_part});
      const std::byte* data =
          state_->segment->process(op_.root)->At(slot_->region_offset + i * their_part, n);
      if (data == nullptr) return false;
      std::memcpy(op_.recv + i * our_part, data, n);
    }
    Finish();
    return true;
  }

  DeviceState* state_;
  Operation op_;
  uint64_t ordinal_;
  PairCounters& pair_;
  Slot* slot_;
  uint64_t taken_ = 0;
  bool announced_ = true;
  bool done_ = false;
};

class SelfCopy final : public Transfer {
 public:
  SelfCopy(const Operation& send, const Operation& recv) : send_(send), recv_(recv) {}
  void Start() override {}
  bool Step() override {
    if (done_) return false;
    std::memmove(recv_.recv, send_.send, std::min(send_.bytes(), recv_.bytes()));
    done_ = true;
    return false;  // no other process cares
  }
  bool done() const override { return done_; }
  std::string Describe() const override { return DescribeOperation(send_, 0); }
  std::vector<int> WaitsFor() const override { return {}; }
  void Abandon() override {}

 private:
  Operation send_;
  Operation recv_;
  bool done_ = false;
};

class Crossed final : public Transfer {
 public:
  Crossed(const Operation& op, uint64_t ordinal) : op_(op), ordinal_(ordinal) {}
  void Start() override {}
  bool Step() override { return false; }
  bool done() const override { return false; }
  std::string Describe() const override { return DescribeOperation(op_, ordinal_); }
  std::vector<int> WaitsFor() const override { return {op_.root}; }
  void Abandon() override {}

 private:
  Operation op_;
  uint64_t ordinal_;
};

// Read once: the process chooses the emulated transport at its first use.
uint64_t BufferFromEnvironment() {
  if (const char* text = std::getenv("GORDIAN_EMU_P2P_BUFFER")) {
    return std::strtoull(text, nullptr, 0);
  }
  const char* disable = std::getenv("NCCL_P2P_DISABLE");
  if (disable != nullptr && std::atoi(disable) != 0) return 4ull << 20;
  return std::numeric_limits<uint64_t>::max();
}

}  // namespace

uint64_t PushLimit(Kind kind) {
  static const uint64_t buffer = BufferFromEnvironment();
  const bool by_sends = kind == Kind::kSend || kind == Kind::kGather || kind == Kind::kScatter;
  return by_sends ? buffer : std::min(buffer, kLargeAboveBytes);
}

std::unique_ptr<Transfer> MakeSend(DeviceState* state, const Operation& operation,
                                   uint64_t ordinal) {
  return std::make_unique<Send>(state, operation, ordinal);
}

std::unique_ptr<Transfer> MakeRecv(DeviceState* state, const Operation& operation,
                                   uint64_t ordinal) {
  return std::make_unique<Recv>(state, operation, ordinal);
}

std::unique_ptr<Transfer> MakeCrossed(const Operation& operation, uint64_t ordinal) {
  return std::make_unique<Crossed>(operation, ordinal);
}

std::unique_ptr<Transfer> MakeSelfCopy(const Operation& send, const Operation& recv) {
  return std::make_unique<SelfCopy>(send, recv);
}

}  // namespace gordian::emu::nccl
