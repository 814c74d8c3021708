// Ranks of the CUDA backend's protocols on the host: the device functions themselves, over memory
// that all of them see. A rank is a fiber; where a block of it stalls, another rank goes on, chosen
// by a seed, so that a run can be repeated. A "kernel" runs its blocks one after another, which is
// as few resident blocks as there can be (RunOnHost), or several at a time (HostSlots). What this
// cannot show is anything about the order of memory accesses.
#ifndef GORDIAN_TESTS_UNIT_RUNTIME_CUDA_HOST_WORLD_H_
#define GORDIAN_TESTS_UNIT_RUNTIME_CUDA_HOST_WORLD_H_

#include <ucontext.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "runtime/cuda/list/help_device.h"
#include "runtime/cuda/list/help_sequence.h"
#include "runtime/cuda/protocol/work.h"

namespace gordian::runtime::cuda {

// Runs functions in turns, as fibers of this thread.
class Fibers {
 public:
  explicit Fibers(uint64_t seed) : random_(seed) {}
  void Add(std::function<void()> body) {
    fibers_.push_back(std::make_unique<Fiber>());
    fibers_.back()->body = std::move(body);
    fibers_.back()->owner = this;
  }
  // Until all have returned, or `most` turns were taken since Progress() was last called; whether
  // all have.
  bool Run(uint64_t most) {
    for (auto& fiber : fibers_) {
      getcontext(&fiber->context);
      fiber->stack.resize(256 << 10);
      fiber->context.uc_stack.ss_sp = fiber->stack.data();
      fiber->context.uc_stack.ss_size = fiber->stack.size();
      fiber->context.uc_link = &scheduler_;
      const auto address = reinterpret_cast<uintptr_t>(fiber.get());
      makecontext(&fiber->context, reinterpret_cast<void (*)()>(&Enter), 2,
                  static_cast<uint32_t>(address), static_cast<uint32_t>(address >> 32));
    }
    std::vector<Fiber*> live;
    for (auto& fiber : fibers_) live.push_back(fiber.get());
    while (!live.empty()) {
      if (++since_progress_ > most && on_hang_) {
        hung_ = true;
        on_hang_();
        on_hang_ = nullptr;
      }
      const size_t i = random_() % live.size();
      current_ = live[i];
      swapcontext(&scheduler_, &current_->context);
      if (current_->ended) live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return !hung_;
  }
  // Another one goes on in the middle of what blocks do, half of the times.
  void Interleave() { interleaves_ = true; }
  void Point() {
    if (interleaves_ && random_() % 2 == 0) Yield();
  }
  void YieldSometimes() {
    if (random_() % 32 == 0) Yield();
  }
  void Yield() { swapcontext(&current_->context, &scheduler_); }
  // Advances with every look at it, by less than kLookEvery: what was seen is sometimes old.
  uint64_t Clock() { return clock_ += tick_; }
  void SetTick(uint64_t nanoseconds) { tick_ = nanoseconds; }
  void Progress() { since_progress_ = 0; }
  // Called once when nothing goes on; must make the fibers leave.
  void OnHang(std::function<void()> on_hang) { on_hang_ = std::move(on_hang); }

 private:
  struct Fiber {
    std::function<void()> body;
    Fibers* owner = nullptr;
    ucontext_t context;
    std::vector<char> stack;
    bool ended = false;
  };
  static void Enter(uint32_t low, uint32_t high) {
    auto* fiber = reinterpret_cast<Fiber*>(low | static_cast<uintptr_t>(high) << 32);
    fiber->body();
    fiber->ended = true;
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  ucontext_t scheduler_;
  Fiber* current_ = nullptr;
  uint64_t since_progress_ = 0;
  uint64_t clock_ = 1 << 20, tick_ = 4000;
  bool hung_ = false, interleaves_ = false;
  std::function<void()> on_hang_;
};

class HostBlock {
 public:
  HostBlock(uint32_t index, uint32_t blocks, Fibers* fibers)
      : index_(index), blocks_(blocks), fibers_(fibers) {}
  uint32_t Thread() const { return 0; }
  uint32_t Threads() const { return 1; }
  uint32_t Index() const { return index_; }
  uint32_t Blocks() const { return blocks_; }
  void Sync() {}
  bool All(bool value) { return value; }
  bool Any(bool value) { return value; }
  uint32_t Warp() const { return 0; }
  uint32_t Warps() const { return 1; }
  uint32_t Lane() const {
    return 0;
  }  // and all others: the block's one thread is a warp (kLanesOfThread)
  bool AllOfWarp(bool value) { return value; }
  // A warp stores together what it stores next, and no more than that.
  void SyncWarp() { together_ = true; }
  bool Together() { return std::exchange(together_, false); }
  void Between() { fibers_->YieldSometimes(); }
  void Ending() {}
  char** Targets() { return targets_[0]; }
  char** SumTargets() { return targets_[1]; }
  bool* Straight(uint32_t phase) { return straight_[phase]; }
  HostBlock& Rest() { return *this; }
  HelpRoom* Room() { return &room_; }
  Work& Own() { return own_; }
  uint64_t Now() const { return fibers_->Clock(); }
  uint32_t Broadcast(uint32_t value) { return value; }
  uint64_t Least(uint64_t value) { return value; }
  Work& Fetch(const Work* entry, bool anew) {
    if (anew) entry_ = *entry;
    return entry_;
  }
  void Point() { fibers_->Point(); }
  void Stalled() { fibers_->Yield(); }

 private:
  const uint32_t index_, blocks_;
  Fibers* const fibers_;
  Work entry_, own_;
  bool together_ = false;
  char* targets_[2][kMaxRanks];
  bool straight_[2][kMaxRanks] = {};
  HelpRoom room_ = {};
};

template <>
inline StepResult StepAny(HostBlock& b, const Work& w, uint32_t channel, uint32_t* pc) {
  b.Point();
  return ByType(w, [&](auto type) { return StepTyped<decltype(type)>(b, w, channel, pc); });
}
template <>
inline uint32_t HelpOnce(HostBlock& b, const HelpList& h, const Work& own, uint32_t round) {
  b.Stalled();
  return HelpOnceInline(b, h, own, round);
}

template <>
inline void FinishRenamed(HostBlock& b, const Work& w, const HelpList& h, uint32_t pc) {
  FinishRenamedInline(b, w, h, pc);
}

// The heaps of all ranks: regions of communicators, then user memory.
class HostHeaps {
 public:
  struct Options {
    uint32_t ranks = 2;
    uint32_t communicators = 1;
    uint32_t line_channels = 4;
    uint32_t bulk_channels = 4;
    uint64_t user_bytes = 0;
    uint32_t lines_per_lane = 64;
    uint32_t tiles_per_lane = 4;
    uint32_t chunk_bytes = 256;
  };
  explicit HostHeaps(const Options& options) : options_(options) {
    ports_[0] = Small(LayOut(kRegionHeaderBytes, options.ranks, false, options.line_channels,
                             options.bulk_channels, 2, 0));
    ports_[1] = Small(LayOut(ports_[0].end, options.ranks, true, options.line_channels,
                             options.bulk_channels, 1, 0));
    region_ = RoundUp(ports_[1].end, 4096);
    bytes_ = region_ * options.communicators + options.user_bytes;
    for (uint32_t r = 0; r < options.ranks; ++r) {
      heaps_.emplace_back(static_cast<char*>(std::aligned_alloc(4096, RoundUp(bytes_, 4096))),
                          &std::free);
      std::memset(heaps_.back().get(), 0, bytes_);
    }
  }
  // What the host of a rank is told of its communicators, all in one word.
  uint32_t Failed(uint32_t rank) const { return failed_[rank]; }
  void Fail(uint32_t rank, uint32_t failure) { failed_[rank] = failure; }
  char* User(uint32_t rank) { return heaps_[rank].get() + region_ * options_.communicators; }
  // An operation of `rank`; `out` may lie in User(rank).
  Work Make(uint32_t rank, uint32_t communicator, OpKind kind, DataType type, Operator op,
            const void* in, void* out, uint64_t count, uint32_t peer,
            const Thresholds& thresholds) {
    Work w{};
    w.failed = &failed_[rank];
    w.tag = static_cast<uint16_t>(communicator);
    for (uint32_t r = 0; r < options_.ranks; ++r)
      w.base[r] = heaps_[r].get() + region_ * communicator;
    w.rank = static_cast<uint8_t>(rank);
    w.ranks = static_cast<uint8_t>(options_.ranks);
    w.kind = kind;
    w.type = type;
    w.op = op;
    w.in = static_cast<const char*>(in);
    w.out = static_cast<char*>(out);
    const bool pair = IsPointToPoint(kind);
    w.port = ports_[pair ? 1 : 0];
    if (!PlanWork(&w, count, peer, thresholds, options_.user_bytes > 0)) std::abort();
    w.order_key =
        communicator * kKeysOfCommunicator + (pair ? KeyOfPair(peer, kind == OpKind::kRecv) : 0);
    const char* heap = heaps_[rank].get();
    if (w.out >= heap && w.out < heap + bytes_)
      w.offered = static_cast<uint64_t>(w.out - w.base[rank]) + 1;
    return w;
  }

 private:
  // Lanes and slots so small that every operation of a test goes round them.
  PortLayout Small(PortLayout port) const {
    const uint64_t lanes = uint64_t{port.line_channels} * kLineSlots * port.phases * options_.ranks;
    const uint64_t slots =
        uint64_t{port.bulk_channels} * port.phases * (options_.ranks - 1) * kStageSlots;
    port.lines_per_lane = static_cast<uint16_t>(options_.lines_per_lane);
    port.tiles_per_lane = static_cast<uint16_t>(options_.tiles_per_lane);
    port.chunk_bytes = options_.chunk_bytes;
    port.tiles_at = RoundUp(port.lines_at + lanes * port.lines_per_lane * sizeof(LlLine), 128);
    port.stage_at = port.tiles_at +
                    lanes / options_.ranks * (options_.ranks - 1) * port.tiles_per_lane * kTileWire;
    port.end = RoundUp(port.stage_at + slots * port.chunk_bytes, 128);
    return port;
  }

  const Options options_;
  PortLayout ports_[2];
  uint64_t region_ = 0;
  uint64_t bytes_ = 0;
  uint32_t failed_[kMaxRanks] = {};
  std::vector<std::unique_ptr<char, decltype(&std::free)>> heaps_;
};

// The list of one stream, as HelpStream keeps it.
class HostList {
 public:
  HostList() : entries_(kHelpEntries), memory_(std::make_unique<HelpMemory>()) {}
  // `renamed`: where helpers write the output; null: to its output.
  HelpList Publish(Work work, bool marked, char* renamed = nullptr) {
    if (renamed != nullptr) {
      work.out = renamed;
      work.offered = 0;
    }
    entries_[tail_ % kHelpEntries] = sequence_.Enter(work, tail_, marked);
    HelpList help = Alone();
    help.entries = entries_.data();
    help.tail = &tail_;
    help.memory = help.lists = memory_.get();
    help.counts = &counts_;
    help.begun = &begun_;
    help.id = help.first = help.last = tail_;
    help.channels[0] = work.channels;
    help.listed = 1;
    help.renamed = renamed;
    __atomic_store_n(&tail_, tail_ + 1, __ATOMIC_RELEASE);
    return help;
  }
  // Without a list.
  HelpList Alone() {
    HelpList help{};
    help.stop = &stop_;
    help.seen = &memory_->seen;
    return help;
  }
  void Stop() { __atomic_store_n(&stop_, 1, __ATOMIC_RELEASE); }
  bool stopped() const { return stop_ != 0; }
  const HelpCounts& counts() const { return counts_; }
  // The number + 1 of the last operation whose kernel has begun.
  uint32_t begun() const { return begun_; }

 private:
  std::vector<HelpEntry> entries_;
  std::unique_ptr<HelpMemory> memory_;
  HelpSequence sequence_;
  HelpCounts counts_{};
  uint32_t tail_ = 0, stop_ = 0, begun_ = 0;
};

template <typename T>
void RunAs(HostBlock& block, const Work& w, const HelpList& help) {
  if ((w.flags & (kBulk | kPair)) == (kBulk | kPair)) return Carry<T, BulkWay, 2>(block, w, help);
  if ((w.flags & kBulk) != 0) return Carry<T, BulkWay, kMaxRanks>(block, w, help);
  if ((w.flags & kTiles) == 0) return Carry<T, LineWay, kMaxRanks>(block, w, help);
  // As the kernels are: for few ranks the tiles of all peers are loaded together.
  if (w.ranks <= 2 || (w.flags & kPair) != 0) return Carry<T, TileWay, 2>(block, w, help);
  if (w.ranks <= 4) return Carry<T, TileWay, 4>(block, w, help);
  return Carry<T, TileWay, kMaxRanks>(block, w, help);
}

// What a block of a launch does. Types are chosen as kernels are.
inline void RunBlockOnHost(const Work& w, const HelpList& help, uint32_t index, Fibers* fibers) {
  HostBlock block(index, w.channels, fibers);
  ByType(w, [&](auto type) {
    RunAs<decltype(type)>(block, w, help);
    return StepResult::kDone;
  });
}

// What a launch does.
inline void RunOnHost(const Work& w, const HelpList& help, Fibers* fibers) {
  for (uint32_t i = 0; i < w.channels; ++i) RunBlockOnHost(w, help, i, fibers);
  fibers->Progress();
}

// A stream's launches on a device that has room for several blocks at once: a fiber a block.
class HostSlots {
 public:
  struct Launch {
    std::vector<Work> works;
    std::vector<char*> renamed;
    HelpList help;  // of the kernel
    uint32_t most_blocks = ~0u;
    bool visits = true;  // a block that stalls goes on with its other shares
    uint32_t Shares() const {
      uint32_t shares = 0;
      for (const Work& work : works) shares += work.channels;
      return shares;
    }
    uint32_t Blocks() const { return std::min(Shares(), most_blocks); }
    // As kernels do: a block carries every so many'th channel, or share.
    void Run(uint32_t block, Fibers* fibers) const {
      if (works.size() == 1) {
        for (uint32_t channel = block; channel < works[0].channels; channel += Blocks())
          RunBlockOnHost(works[0], help, channel, fibers);
        return;
      }
      OwnShares shares = {works.data(), renamed.data(), block, Blocks(), Shares()};
      for (HelpList own = help; shares.at < shares.count; shares.at += shares.stride) {
        const Share share = ShareAt(help.channels, static_cast<uint32_t>(works.size()), shares.at);
        own.id = help.first + share.operation;
        own.renamed = renamed[share.operation];
        own.shares = visits ? &shares : nullptr;
        RunBlockOnHost(works[share.operation], own, share.channel, fibers);
      }
    }
  };
  HostSlots(uint32_t slots, Fibers* fibers) : fibers_(fibers) {
    for (uint32_t i = 0; i < slots; ++i) fibers->Add([this] { Slot(); });
  }
  void Enqueue(const Work* work, const HelpList& help, uint32_t most_blocks = ~0u) {
    launches_.push_back({{*work}, {help.renamed}, help, most_blocks, true});
  }
  // One kernel for all of them, which follow each other on the list.
  void EnqueueSeveral(const std::vector<Work>& works, const std::vector<HelpList>& entries,
                      uint32_t most_blocks, bool visits = true) {
    std::vector<char*> renamed;
    for (const HelpList& entry : entries) renamed.push_back(entry.renamed);
    launches_.push_back({works, renamed, OfOneKernel(entries), most_blocks, visits});
  }
  void NoMore() { no_more_ = true; }
  bool AllDone() const { return no_more_ && at_ == launches_.size(); }
  // What has not begun does not any more.
  void Stop() { stopped_ = true; }

 private:
  void Slot() {
    for (;;) {
      if (stopped_) return;
      if (at_ == launches_.size()) {
        if (no_more_) return;
      } else if (next_ < launches_[at_].Blocks()) {
        const Launch launch = launches_[at_];  // more may be enqueued meanwhile
        launch.Run(next_++, fibers_);
        if (++ended_ == launch.Blocks()) {
          next_ = ended_ = 0;
          fibers_->Progress();
          ++at_;
        }
        continue;
      }
      fibers_->Yield();
    }
  }

  Fibers* const fibers_;
  std::vector<Launch> launches_;
  size_t at_ = 0;
  uint32_t next_ = 0, ended_ = 0;
  bool no_more_ = false, stopped_ = false;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_TESTS_UNIT_RUNTIME_CUDA_HOST_WORLD_H_
