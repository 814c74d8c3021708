#include <algorithm>
#include <cstring>

#include "emulator/nccl/operation/mismatch.h"
#include "emulator/nccl/operation/producer.h"
#include "emulator/nccl/operation/transfer.h"

namespace gordian::emu::nccl {
namespace {

// Which member gives which bytes to which, from one member's point of view.
struct Plan {
  uint64_t produced = 0;       // bytes of the send buffer that others may read
  std::vector<int> readers;    // members that read them
  bool push = false;           // done when staged, taken or not
  std::vector<int> sources;    // members whose bytes this one takes
  uint64_t source_offset = 0;  // where in their streams our piece begins
  uint64_t piece = 0;          // and its length
  bool reduces = false;
  // This member's own piece: where it is, and (without reduction) where it goes.
  const std::byte* own = nullptr;
  std::byte* own_to = nullptr;
  bool by_rank = false;  // a source's piece goes to recv + rank * piece
};

std::vector<int> Others(int n, int self) {
  std::vector<int> others;
  for (int r = 0; r < n; ++r) {
    if (r != self) others.push_back(r);
  }
  return others;
}

Plan MakePlan(const Operation& op, int n, int rank) {
  Plan plan;
  uint64_t block = op.bytes();
  bool is_root = op.root == rank;
  plan.piece = block;
  auto all_to_all = [&] { plan.readers = plan.sources = Others(n, rank); };
  switch (op.kind) {
    case Kind::kAllReduce:
      all_to_all();
      plan.produced = block;
      plan.reduces = true;
      plan.own = op.send;
      break;
    case Kind::kReduceScatter:
      all_to_all();
      plan.produced = block * n;
      plan.source_offset = block * rank;
      plan.reduces = true;
      plan.own = op.send + block * rank;
      break;
    case Kind::kAllGather:
      all_to_all();
      plan.produced = block;
      plan.by_rank = true;
      plan.own = op.send;
      plan.own_to = op.recv + block * rank;
      break;
    case Kind::kAlltoAll:
      all_to_all();
      plan.produced = block * n;
      plan.source_offset = block * rank;
      plan.by_rank = true;
      plan.own = op.send + block * rank;
      plan.own_to = op.recv + block * rank;
      break;
    case Kind::kBroadcast:
      if (is_root) {
        plan.push = true;
        plan.produced = block;
        plan.readers = Others(n, rank);
        plan.own = op.send;
        plan.own_to = op.recv;
      } else {
        plan.sources = {op.root};
      }
      break;
    case Kind::kReduce:
      if (is_root) {
        plan.sources = Others(n, rank);
        plan.reduces = true;
        plan.own = op.send;
      } else {
        plan.push = true;
        plan.produced = block;
        plan.readers = {op.root};
      }
      break;
    case Kind::kGather:
      if (is_root) {
        plan.sources = Others(n, rank);
        plan.by_rank = true;
        plan.own = op.send;
        plan.own_to = op.recv + block * rank;
      } else {
        plan.push = true;
        plan.produced = block;
        plan.readers = {op.root};
      }
      break;
    case Kind::kScatter:
      if (is_root) {
        plan.push = true;
        plan.produced = block * n;
        plan.readers = Others(n, rank);
        plan.own = op.send + block * rank;
        plan.own_to = op.recv;
      } else {
        plan.sources = {op.root};
        plan.source_offset = block * rank;
      }
      break;
    case Kind::kNone:
    case Kind::kSend:
    case Kind::kRecv:
      break;
  }
  return plan;
}

class Collective final : public Transfer {
 public:
  Collective(DeviceState* state, const Operation& op, uint64_t ordinal, KernelShare share)
      : state_(state),
        op_(op),
        ordinal_(ordinal),
        plan_(MakePlan(op, state->segment->nranks(), state->rank)),
        element_(ElementSize(op.datatype)),
        taken_(plan_.sources.size(), 0),
        gives_(plan_.sources.size(), Gives::kUnknown),
        producer_(state, state->segment->collective_slot(state->rank, ordinal), ordinal,
                  plan_.readers, [segment = state->segment, ordinal](int r) {
                    return segment->member(r).collectives_done.load(std::memory_order_acquire) >
                           ordinal;
                  }) {
    uint64_t limit = PushLimit(op.kind);
    whole_ = plan_.push && plan_.piece <= limit;
    // The members whose operations must have started, and are compared with this one.
    awaited_ = plan_.push && !whole_ ? plan_.readers : plan_.sources;
    signature_.share = share;
  }

  void Start() override {
    signature_.kind = op_.kind;
    signature_.datatype = op_.datatype;
    signature_.reduction = static_cast<uint32_t>(op_.reduction);
    signature_.root = op_.root;
    signature_.count = op_.count;
    signature_.scalar = op_.scalar;
    if (op_.scalar_address != nullptr)
      std::memcpy(&signature_.scalar, op_.scalar_address, element_);
  }

  bool Step() override {
    if (done_) return false;
    bool progress = false;
    if (!producer_.published()) {
      if (!SlotIsFree() ||
          !producer_.Publish(signature_, op_.send, plan_.produced, /*whole=*/whole_)) {
        return false;
      }
      progress = true;
      // Before anything can overwrite it.
      if (plan_.own_to != nullptr && plan_.own_to != plan_.own) {
        std::memmove(plan_.own_to, plan_.own, plan_.piece);
      }
    }
    // Each side may make room for the other: repeats until neither moves.
    for (;;) {
      bool moved = producer_.Stage();
      moved |= plan_.reduces ? TakeAndReduce() : TakeCopies();
      if (!moved) break;
      progress = true;
    }
    if (!judged_ && AllStarted()) Judge();
    if (judged_ && fate_ == Fate::kCompletes && producer_.complete() && AllTaken()) {
      Finish();
      progress = true;
    }
    return progress;
  }

  bool done() const override { return done_; }
  void Abandon() override { producer_.Release(); }
  std::string Describe() const override { return DescribeOperation(op_, ordinal_); }
  std::vector<int> WaitsFor() const override {
    std::vector<int> missing;
    for (int r : awaited_) {
      if (!HasStarted(r)) missing.push_back(r);
    }
    // All have started, and yet it does not end: its arguments do not match theirs.
    return missing.empty() ? awaited_ : missing;
  }

 private:
  Slot* SlotOf(int rank) const { return state_->segment->collective_slot(rank, ordinal_); }

  bool HasStarted(int rank) const {
    return SlotOf(rank)->published.load(std::memory_order_acquire) == ordinal_ + 1;
  }

  // A slot is free again when all members are done with its operation: then none reads it any more.
  bool SlotIsFree() const {
    if (ordinal_ < kCollectiveSlots) return true;
    for (int r = 0; r < state_->segment->nranks(); ++r) {
      if (state_->segment->member(r).collectives_done.load(std::memory_order_acquire) <=
          ordinal_ - kCollectiveSlots) {
        return false;
      }
    }
    return true;
  }

  bool AllStarted() const {
    return std::all_of(awaited_.begin(), awaited_.end(), [&](int r) { return HasStarted(r); });
  }

  void Judge() {
    std::vector<Signature> others;
    for (int r : awaited_) others.push_back(SlotOf(r)->signature);
    fate_ = DecideFate(signature_, others);
    judged_ = true;
  }

  // Ranks that all-reduce different counts each divide their own into one chunk per rank, and
  // chunks pair up by number: returns how far ahead of ours byte `at` lies in a longer source.
  uint64_t Shift(size_t i, uint64_t at) const {
    const Slot* slot = SlotOf(plan_.sources[i]);
    if (op_.kind != Kind::kAllReduce || slot->signature.kind != Kind::kAllReduce ||
        slot->signature.datatype != static_cast<uint32_t>(op_.datatype) ||
        slot->total <= plan_.piece) {
      return 0;
    }
    return at / ChunkOf(plan_.piece) * (ChunkOf(slot->total) - ChunkOf(plan_.piece));
  }
  // Rounds up, so that there are no more chunks than ranks.
  uint64_t ChunkOf(uint64_t bytes) const {
    const auto n = static_cast<uint64_t>(state_->segment->nranks());
    return std::max<uint64_t>((bytes / element_ + n - 1) / n, 1) * element_;
  }

  // How far source `i` can be taken now, in bytes of our piece; all of the piece once the source
  // has no more for us, because it gives less than expected or nothing. `given` says how much of
  // that really exists.
  uint64_t Available(size_t i, uint64_t* given) {
    *given = 0;
    int source = plan_.sources[i];
    if (!HasStarted(source)) return 0;
    Slot* slot = SlotOf(source);
    if (gives_[i] == Gives::kUnknown) {
      bool nothing = slot->consumed()[state_->rank].load(std::memory_order_relaxed) == kNothingMore;
      gives_[i] = nothing ? Gives::kNo : Gives::kYes;
    }
    if (gives_[i] == Gives::kNo) return plan_.piece;
    const uint64_t shift = plan_.reduces ? Shift(i, reduced_) : 0;
    const uint64_t before = plan_.source_offset + shift;
    uint64_t total = slot->total > before ? slot->total - before : 0;
    uint64_t staged = slot->staged.load(std::memory_order_acquire);
    staged = staged > before ? staged - before : 0;
    *given = std::min({total, staged, plan_.piece}) / element_ * element_;
    if (plan_.reduces && Shift(i, plan_.piece - 1) > 0) {
      const uint64_t chunk = ChunkOf(plan_.piece);
      const uint64_t chunk_end = std::min((reduced_ / chunk + 1) * chunk, plan_.piece);
      *given = std::min(*given, chunk_end);
      return *given;
    }
    bool over = staged >= total;
    return over || *given == plan_.piece ? plan_.piece : *given;
  }

  // [*from, *from + bytes) of source i's piece, at most up to where its ring wraps.
  const std::byte* Data(size_t i, uint64_t from, uint64_t* bytes) const {
    Slot* slot = SlotOf(plan_.sources[i]);
    uint64_t at = (plan_.source_offset + from + Shift(i, from)) % slot->region_bytes;
    *bytes = std::min(*bytes, slot->region_bytes - at);
    return state_->segment->process(plan_.sources[i])->At(slot->region_offset + at, *bytes);
  }

  void SetTaken(size_t i, uint64_t taken) {
    taken_[i] = taken;
    Slot* slot = SlotOf(plan_.sources[i]);
    auto& consumed = slot->consumed()[state_->rank];
    if (consumed.load(std::memory_order_relaxed) == kNothingMore) return;
    const uint64_t read = plan_.source_offset + taken + Shift(i, taken);
    consumed.store(taken == plan_.piece ? kNothingMore : read, std::memory_order_release);
  }

  // Tells a source that streams through a ring that we skip the blocks before ours.
  bool SkipToOurs(size_t i) {
    Slot* slot = SlotOf(plan_.sources[i]);
    auto& consumed = slot->consumed()[state_->rank];
    if (consumed.load(std::memory_order_relaxed) >= plan_.source_offset) return false;
    consumed.store(plan_.source_offset, std::memory_order_release);
    return true;
  }

  bool TakeCopies() {
    bool moved = false;
    for (size_t i = 0; i < plan_.sources.size(); ++i) {
      if (taken_[i] == plan_.piece || !HasStarted(plan_.sources[i])) continue;
      moved |= SkipToOurs(i);
      uint64_t given = 0;
      uint64_t available = Available(i, &given);
      std::byte* to = op_.recv + (plan_.by_rank ? plan_.piece * plan_.sources[i] : 0);
      for (uint64_t at = taken_[i]; at < given;) {
        uint64_t n = std::min(given - at, kChunkBytes);
        const std::byte* data = Data(i, at, &n);
        if (data == nullptr) return moved;
        std::memcpy(to + at, data, n);
        at += n;
        SetTaken(i, at);
        moved = true;
      }
      if (available == plan_.piece && taken_[i] != plan_.piece) {
        SetTaken(i, plan_.piece);
        moved = true;
      }
    }
    return moved;
  }

  // All sources advance together, so that every element is combined in the order of the ranks.
  bool TakeAndReduce() {
    if (reduced_ == plan_.piece) return false;
    bool moved = false;
    uint64_t limit = plan_.piece;
    // An in-place operation must stage its own bytes before the result overwrites them.
    if (op_.kind == Kind::kAllReduce && !plan_.readers.empty()) {
      limit = std::min(limit, producer_.staged() / element_ * element_);
    }
    std::vector<uint64_t> given(plan_.sources.size());
    for (size_t i = 0; i < plan_.sources.size(); ++i) {
      if (HasStarted(plan_.sources[i])) moved |= SkipToOurs(i);
      limit = std::min(limit, Available(i, &given[i]));
    }
    while (reduced_ < limit) {
      uint64_t n = std::min(limit - reduced_, kChunkBytes);
      n -= n % element_;
      if (!ReduceChunk(given, &n)) break;
      reduced_ += n;
      for (size_t i = 0; i < plan_.sources.size(); ++i) SetTaken(i, reduced_);
      moved = true;
    }
    return moved;
  }

  // Reduces up to *bytes from reduced_ on; shortens *bytes so that every source is one piece of
  // memory, and either present or missing as a whole.
  bool ReduceChunk(const std::vector<uint64_t>& given, uint64_t* bytes) {
    std::vector<bool> present(plan_.sources.size());
    for (size_t i = 0; i < plan_.sources.size(); ++i) {
      present[i] = given[i] > reduced_;
      if (!present[i]) continue;
      *bytes = std::min(*bytes, given[i] - reduced_);
      if (Data(i, reduced_, bytes) == nullptr) return false;
    }
    std::vector<Contribution> contributions;
    bool own_added = false;
    auto add_own = [&] {
      own_added = true;
      contributions.push_back(
          {plan_.own + reduced_, op_.reduction == Reduction::kPreMulSum, signature_.scalar});
    };
    for (size_t i = 0; i < plan_.sources.size(); ++i) {
      if (!own_added && plan_.sources[i] > state_->rank) add_own();
      if (!present[i]) continue;
      const Signature& theirs = SlotOf(plan_.sources[i])->signature;
      bool scaled = op_.reduction == Reduction::kPreMulSum &&
                    theirs.reduction == static_cast<uint32_t>(Reduction::kPreMulSum);
      uint64_t n = *bytes;
      contributions.push_back({Data(i, reduced_, &n), scaled, theirs.scalar});
    }
    if (!own_added) add_own();
    Reduce(op_.reduction, op_.datatype, contributions, *bytes / element_, state_->segment->nranks(),
           op_.recv + reduced_);
    return true;
  }

  bool AllTaken() const {
    if (plan_.reduces) return reduced_ == plan_.piece;
    return std::all_of(taken_.begin(), taken_.end(), [&](uint64_t t) { return t == plan_.piece; });
  }

  void Finish() {
    done_ = true;
    for (int source : plan_.sources) {
      SlotOf(source)->consumed()[state_->rank].store(kNothingMore, std::memory_order_release);
    }
    producer_.Release();
    state_->segment->member(state_->rank)
        .collectives_done.store(state_->collectives.Add(ordinal_), std::memory_order_release);
  }

  DeviceState* state_;
  Operation op_;
  uint64_t ordinal_;
  Plan plan_;
  uint64_t element_;
  Signature signature_;
  std::vector<int> awaited_;
  std::vector<uint64_t> taken_;  // by index in plan_.sources
  // A source with another root, for example, stages no bytes for us: they may vanish at any time.
  enum class Gives : uint8_t { kUnknown, kYes, kNo };
  std::vector<Gives> gives_;
  uint64_t reduced_ = 0;
  Producer producer_;
  bool whole_ = false;
  bool judged_ = false;
  Fate fate_ = Fate::kHangs;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Transfer> MakeCollective(DeviceState* state, const Operation& operation,
                                         uint64_t ordinal, KernelShare share) {
  return std::make_unique<Collective>(state, operation, ordinal, share);
}

}  // namespace gordian::emu::nccl
