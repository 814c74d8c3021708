// Operations on streams that wait for each other's events, differently on each rank: what the host
// publishes (HelpStream) and what stalled blocks make of it, on the host, with as many blocks at a
// time as a seed says.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "runtime/cuda/list/help_stream.h"
#include "tests/unit/runtime/cuda/host_cases.h"
#include "tests/unit/runtime/cuda/host_world.h"
#include "tests/unit/runtime/cuda/reference.h"

// The streams here are the test's own: CUDA knows nothing of them.
extern "C" cudaError_t cudaStreamQuery(cudaStream_t) { return cudaErrorNotReady; }
extern "C" cudaError_t cudaGetLastError() { return cudaSuccess; }

namespace gordian::runtime::cuda {
namespace {

constexpr uint64_t kRoom = 1 << 20;
constexpr uint32_t kEvents = 4;  // of a rank: they are recorded again and again

struct Operation {
  uint32_t communicator = 0;
  Case what;
  int way = 0;
};

enum class What { kOperation, kRecord, kWait, kFill, kRead, kWork };

// What a rank calls.
struct Step {
  What what;
  uint32_t stream = 0;
  uint32_t number = 0;  // of the operation, or event
  uint32_t most_blocks = ~0u;
};

struct Program {
  uint32_t ranks = 2, communicators = 4, streams = 3, slots = 1;
  bool interleaves = false, reuses = true, knows_waits = true;
  std::vector<Operation> operations;
  std::vector<std::vector<Step>> steps;  // by rank
};

// What stands before what on one rank, by the order of streams and by events; and which steps must
// not be overtaken.
struct Order {
  explicit Order(const Program& p, const std::vector<Step>& steps)
      : before(steps.size(), std::vector<bool>(steps.size())), foreign(steps.size()) {
    std::vector<int> last(p.streams, -1);
    std::vector<bool> interrupted(p.streams, true);
    struct Record {
      int step = -1;
      uint32_t stream = 0;
      bool clean = false;
    };
    std::array<Record, kEvents> events;
    const auto add = [&](size_t to, int from) {
      if (from < 0) return;
      before[to][static_cast<size_t>(from)] = true;
      for (size_t i = 0; i < to; ++i) {
        if (before[static_cast<size_t>(from)][i]) before[to][i] = true;
      }
    };
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& s = steps[i];
      add(i, last[s.stream]);
      last[s.stream] = static_cast<int>(i);
      if (s.what == What::kOperation) {
        interrupted[s.stream] = false;
      } else if (s.what == What::kRecord) {
        events[s.number] = {static_cast<int>(i), s.stream, !interrupted[s.stream]};
      } else if (s.what == What::kWait) {
        const Record& r = events[s.number];
        add(i, r.step);
        if (r.stream == s.stream) continue;
        interrupted[s.stream] = !r.clean;
        foreign[i] = !r.clean;
      } else {
        interrupted[s.stream] = foreign[i] = true;
      }
    }
  }
  std::vector<std::vector<bool>> before;  // [later][earlier]
  std::vector<bool> foreign;
};

// Whether operations wait for each other in a circle: o for o' if on some rank something else than
// operations stands between them, which must come behind o' and before o.
bool HasCycle(const Program& p) {
  const size_t n = p.operations.size();
  std::vector<std::vector<bool>> waits(n, std::vector<bool>(n));
  for (const std::vector<Step>& steps : p.steps) {
    const Order order(p, steps);
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].what != What::kOperation) continue;
      for (size_t x = 0; x < i; ++x) {
        if (steps[x].what == What::kOperation && p.operations[steps[x].number].communicator ==
                                                     p.operations[steps[i].number].communicator) {
          waits[steps[i].number][steps[x].number] = true;
        }
        if (!order.foreign[x] || !order.before[i][x]) continue;
        for (size_t o = 0; o < x; ++o) {
          if (steps[o].what == What::kOperation && order.before[x][o])
            waits[steps[i].number][steps[o].number] = true;
        }
      }
    }
  }
  std::vector<bool> done(n, false);
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < n; ++i) {
      bool ready = !done[i];
      for (size_t o = 0; o < n && ready; ++o) ready = !waits[i][o] || done[o];
      if (ready) done[i] = any = true;
    }
  }
  return std::count(done.begin(), done.end(), false) > 0;
}

// A stream of the device: kernels of several blocks, and what is done at once when its turn comes.
class DeviceStream {
 public:
  DeviceStream(uint32_t slots, Fibers* fibers) : fibers_(fibers) {
    for (uint32_t i = 0; i < slots; ++i) fibers->Add([this] { Slot(); });
  }
  void Launch(const Work& work, const HelpList& help, uint32_t most_blocks) {
    items_.push_back({{{work}, {help.renamed}, help, most_blocks, true}, nullptr});
  }
  // `turn` returns whether the stream goes on.
  void Then(std::function<bool()> turn) { items_.push_back({{}, std::move(turn)}); }
  void NoMore() { no_more_ = true; }
  void Stop() { stopped_ = true; }

 private:
  struct Item {
    HostSlots::Launch launch;
    std::function<bool()> turn;  // null: a kernel
  };
  void Slot() {
    for (;; fibers_->Yield()) {
      if (stopped_ || (no_more_ && at_ == items_.size())) return;
      if (at_ == items_.size()) continue;
      const Item item = items_[at_];  // more may be enqueued meanwhile
      if (item.turn != nullptr) {
        if (item.turn()) ++at_;
      } else if (next_ < item.launch.Blocks()) {
        item.launch.Run(next_++, fibers_);
        if (++ended_ == item.launch.Blocks()) {
          next_ = ended_ = 0;
          fibers_->Progress();
          ++at_;
        }
      }
    }
  }

  Fibers* const fibers_;
  std::vector<Item> items_;
  size_t at_ = 0;
  uint32_t next_ = 0, ended_ = 0;
  bool no_more_ = false, stopped_ = false;
};

struct Outcome {
  bool finished = false;
  uint64_t wrong = 0, helped = 0, marks = 0, renamed = 0;
};

// A rank: its lists, its streams, and the thread that calls.
class Rank {
 public:
  Rank(const Program& p, uint32_t rank, HostHeaps* heaps, Fibers* fibers, Outcome* outcome)
      : p_(p),
        steps_(p.steps[rank]),
        order_(p, steps_),
        rank_(rank),
        fibers_(fibers),
        outcome_(outcome),
        memory_(std::make_unique<HelpMemory[]>(p.streams)) {
    for (uint32_t s = 0; s < p.streams; ++s) {
      shared_.push_back(std::make_unique<HelpShared>());
      rooms_.push_back(std::make_unique<char[]>(kRoom));
      lists_.push_back(std::make_unique<HelpStream>(shared_[s].get(), memory_.get(), s, &stop_,
                                                    &counts_, rooms_[s].get(), kRoom));
      streams_.push_back(std::make_unique<DeviceStream>(p.slots, fibers));
    }
    for (const Operation& o : p.operations)
      buffers_.push_back(Fill(o.what, p.ranks, rank, nullptr));
    AssignOutputs();
    for (size_t i = 0; i < p.operations.size(); ++i) {
      const Operation& o = p.operations[i];
      works_.push_back(heaps->Make(rank, o.communicator, o.what.kind, o.what.type, o.what.op,
                                   buffers_[i].in_at, OutOf(i), o.what.count, o.what.root,
                                   Way(o.way)));
    }
    fibers->Add([this] { Call(); });
  }
  void Stop() {
    stop_ = 1;
    for (auto& stream : streams_) stream->Stop();
  }
  uint64_t helped() const { return counts_.helped; }
  // After the end: what each output was left with.
  uint64_t WrongAtEnd() {
    uint64_t wrong = 0;
    for (size_t i = 0; i < p_.operations.size(); ++i) {
      if (next_user_[i] < 0) wrong += WrongOf(i);
    }
    return wrong;
  }

 private:
  char* OutOf(size_t operation) { return outs_[output_[operation]].data(); }
  uint64_t WrongOf(size_t operation) {
    Buffers b;
    b.out_at = OutOf(operation);
    b.out_elements = buffers_[operation].out_elements;
    return Wrong(p_.operations[operation].what, p_.ranks, rank_, b);
  }
  // Some write over what an operation before them has written.
  void AssignOutputs() {
    const size_t n = p_.operations.size();
    output_.resize(n);
    next_user_.assign(n, -1);
    step_of_.resize(n);
    std::vector<size_t> last;  // step of the last user of each buffer
    std::mt19937_64 random(rank_ * 77 + n);
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].what != What::kOperation) continue;
      const uint32_t operation = steps_[i].number;
      step_of_[operation] = i;
      size_t chosen = last.size();
      for (size_t b = 0; b < last.size() && p_.reuses; ++b) {
        if (order_.before[i][last[b]] && random() % 3 == 0) chosen = b;
      }
      if (chosen == last.size()) {
        last.push_back(i);
      } else {
        next_user_[steps_[std::exchange(last[chosen], i)].number] = static_cast<int>(i);
      }
      output_[operation] = chosen;
    }
    outs_.assign(last.size(), std::vector<char>(size_t{8} * 4096, 77));
  }
  // The outputs that are certain to be there at a step.
  std::vector<size_t> SeenBy(size_t step) const {
    std::vector<size_t> seen;
    for (size_t o = 0; o < p_.operations.size(); ++o) {
      if (!order_.before[step][step_of_[o]]) continue;
      const int next = next_user_[o];
      if (next < 0 ||
          (static_cast<size_t>(next) > step && order_.before[static_cast<size_t>(next)][step])) {
        seen.push_back(o);
      }
    }
    return seen;
  }

  void Call() {
    struct Event {
      uint32_t stream = 0;
      bool has_point = false;
      PointOfList point;
      std::shared_ptr<bool> reached;  // the last record
    };
    std::array<Event, kEvents> events;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& s = steps_[i];
      HelpStream& list = *lists_[s.stream];
      DeviceStream& stream = *streams_[s.stream];
      Event& event = events[s.number % kEvents];
      HelpList help;
      switch (s.what) {
        case What::kOperation: {
          const Work& work = works_[s.number];
          const Case& c = p_.operations[s.number].what;
          const auto root = static_cast<int32_t>(c.root);
          const Touched touched = TouchedBy(
              c.kind, HasInput(c.kind, root, rank_) ? work.in : nullptr,
              HasOutput(c.kind, root, rank_) ? work.out : nullptr, c.count, c.type, p_.ranks);
          EXPECT_TRUE(list.Publish(work, touched, HelpStream::Before::kOperations, nullptr, &help));
          outcome_->renamed += help.renamed != nullptr;
          stream.Launch(work, help, s.most_blocks);
          list.Launched();
          break;
        }
        case What::kRecord: {
          event.stream = s.stream;
          event.has_point = list.Here(&event.point);
          event.reached = std::make_shared<bool>(false);
          stream.Then([reached = event.reached] { return *reached = true; });
          break;
        }
        case What::kWait: {
          const bool knows = p_.knows_waits && event.has_point;
          const bool other = event.stream != s.stream;
          if (other && !knows) list.Interrupt();
          if (other && knows && list.Mark(&help)) {
            ++outcome_->marks;
            stream.Then([help] {
              *help.begun = help.memory->begun = help.id + 1;
              return true;
            });
          }
          stream.Then([reached = event.reached] { return *reached; });
          if (other && knows) list.Awaited(event.point);
          break;
        }
        case What::kFill:
          list.Interrupt();
          stream.Then([this, number = s.number] {
            std::memcpy(buffers_[number].in_at, inputs_[number].data(), inputs_[number].size());
            return true;
          });
          break;
        case What::kRead:
          list.Interrupt();
          stream.Then([this, seen = SeenBy(i)] {
            for (const size_t o : seen) outcome_->wrong += WrongOf(o);
            return true;
          });
          break;
        case What::kWork:
          list.Interrupt();
          stream.Then([] { return true; });
          break;
      }
      fibers_->Point();
    }
    for (auto& stream : streams_) stream->NoMore();
  }

 public:
  // Before the run: inputs are there only once they are filled.
  void HideInputs() {
    for (const Buffers& b : buffers_) {
      const auto* end = b.in.data() + b.in.size();
      inputs_.emplace_back(b.in_at, b.in_at + (end - b.in_at) - kMargin);
      std::memset(b.in_at, 55, inputs_.back().size());
    }
  }

 private:
  const Program& p_;
  const std::vector<Step>& steps_;
  const Order order_;
  const uint32_t rank_;
  Fibers* const fibers_;
  Outcome* const outcome_;
  std::unique_ptr<HelpMemory[]> memory_;
  std::vector<std::unique_ptr<HelpShared>> shared_;
  std::vector<std::unique_ptr<char[]>> rooms_;
  std::vector<std::unique_ptr<HelpStream>> lists_;
  std::vector<std::unique_ptr<DeviceStream>> streams_;
  HelpCounts counts_{};
  uint32_t stop_ = 0;
  std::vector<Buffers> buffers_;
  std::vector<std::vector<char>> inputs_, outs_;
  std::vector<Work> works_;
  std::vector<size_t> output_, step_of_;
  std::vector<int> next_user_;  // the step that writes over an operation's output; -1: none
};

Outcome RunProgram(const Program& p, uint64_t seed) {
  HostHeaps::Options options;
  options.ranks = p.ranks;
  options.communicators = p.communicators;
  options.lines_per_lane = 1024;
  HostHeaps heaps(options);
  Fibers fibers(seed);
  if (p.interleaves) fibers.Interleave();
  Outcome outcome;
  bool stopped = false;
  std::vector<std::unique_ptr<Rank>> ranks;
  for (uint32_t r = 0; r < p.ranks; ++r) {
    ranks.push_back(std::make_unique<Rank>(p, r, &heaps, &fibers, &outcome));
    ranks.back()->HideInputs();
  }
  fibers.OnHang([&] {
    stopped = true;
    for (auto& rank : ranks) rank->Stop();
  });
  fibers.Run(kForEver);
  outcome.finished = !stopped;
  for (auto& rank : ranks) {
    outcome.helped += rank->helped();
    if (!stopped) outcome.wrong += rank->WrongAtEnd();
  }
  return outcome;
}

struct Disorder {
  uint32_t ranks = 2, communicators = 4, each = 3, streams = 3;
  uint32_t events_of_10 = 6;   // of so many in ten steps
  uint32_t others_of_100 = 0;  // other work between, of so many in a hundred
  bool all_kinds = false;
  bool fills_late = false;  // some inputs right before their operation
  uint32_t slots = 1;
};

Program Disordered(const Disorder& d, uint64_t seed) {
  std::mt19937_64 random(seed);
  Program p;
  p.ranks = d.ranks;
  p.communicators = d.communicators;
  p.streams = d.streams;
  p.slots = d.slots;
  std::vector<std::vector<uint32_t>> of(d.communicators);
  for (uint32_t c = 0; c < d.communicators; ++c) {
    for (uint32_t i = 0; i < d.each; ++i) {
      Operation o;
      o.communicator = c;
      if (d.all_kinds) o.what.kind = kAll[random() % 8];
      o.what.count = 12 + random() % 300;
      o.what.root = static_cast<uint32_t>(random() % d.ranks);
      o.way = static_cast<int>(random() % kWays);
      of[c].push_back(static_cast<uint32_t>(p.operations.size()));
      p.operations.push_back(o);
    }
  }
  for (uint32_t r = 0; r < d.ranks; ++r) {
    const auto any = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
    std::vector<uint32_t> order, stream_of, next(d.communicators, 0);
    for (uint32_t c = 0; c < d.communicators; ++c) {
      order.insert(order.end(), d.each, c);
      stream_of.push_back(any(d.streams));
    }
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Step> steps;
    std::vector<bool> filled(p.operations.size());
    for (uint32_t c = 0; c < d.communicators; ++c) {
      for (const uint32_t o : of[c]) {
        filled[o] = !d.fills_late || any(4) != 0;
        if (filled[o]) steps.push_back({What::kFill, stream_of[c], o});
      }
    }
    uint32_t recorded = 0;  // bit i: event i was
    for (const uint32_t c : order) {
      while (any(100) < d.others_of_100)
        steps.push_back({any(2) == 0 ? What::kRead : What::kWork, any(d.streams)});
      const uint32_t o = of[c][next[c]++];
      if (!filled[o]) steps.push_back({What::kFill, stream_of[c], o});
      // Fewer blocks than channels only where all of them are there at once (RunChannels).
      const bool few = d.slots > 1 && any(2) == 0;
      steps.push_back({What::kOperation, stream_of[c], o, few ? 1 + any(2) : ~0u});
      while (any(10) < d.events_of_10) {
        const uint32_t e = any(kEvents);
        if (any(2) == 0) {
          // Mostly behind the operation, and somebody waits at once.
          steps.push_back({What::kRecord, any(3) == 0 ? any(d.streams) : stream_of[c], e});
          recorded |= 1u << e;
        }
        if ((recorded >> e & 1) != 0 && any(3) != 0)
          steps.push_back({What::kWait, any(d.streams), e});
      }
    }
    p.steps.push_back(std::move(steps));
  }
  return p;
}

Program Cycle() {
  Program p;
  p.communicators = p.streams = 2;
  for (uint32_t i = 0; i < 2; ++i) {
    Operation o;
    o.communicator = i;
    o.what.count = 50;
    p.operations.push_back(o);
  }
  for (uint32_t r = 0; r < 2; ++r) {
    const uint32_t first = r, second = 1 - r;
    p.steps.push_back({{What::kFill, 0, 0},
                       {What::kFill, 1, 1},
                       {What::kOperation, first, first},
                       {What::kRecord, first, 0},
                       {What::kWait, second, 0},
                       {What::kOperation, second, second}});
  }
  return p;
}

TEST(HelpAcrossTest, StreamsThatWaitForEachOtherTheOtherWayRoundComplete) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome o = RunProgram(Cycle(), seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u);
    EXPECT_GT(o.helped, 0u);
  }
}

TEST(HelpAcrossTest, WhereWaitsAreOtherWorkTheyHang) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Program p = Cycle();
    p.knows_waits = false;
    EXPECT_FALSE(RunProgram(p, seed).finished) << "seed " << seed;
  }
}

// All inputs are there from the begin: nothing stands between operations.
TEST(HelpAcrossTest, AnyOrderOfOperationsAndEventsCompletes) {
  uint64_t helped = 0, marks = 0, renamed = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    Disorder d;
    d.ranks = 2 + seed % 3;
    d.streams = 2 + seed % 3;
    d.communicators = 3 + seed % 4;
    d.all_kinds = seed % 2 == 0;
    d.slots = 1 + seed % 3;
    Program p = Disordered(d, seed);
    p.interleaves = seed % 3 == 0;
    p.reuses = seed % 4 != 0;
    const Outcome o = RunProgram(p, seed);
    // Events of streams that have no operation yet may stand behind other work.
    EXPECT_TRUE(o.finished || HasCycle(p)) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    helped += o.helped;
    marks += o.marks;
    renamed += o.renamed;
  }
  EXPECT_GT(helped, 150u);
  EXPECT_GT(marks, 150u);
  EXPECT_GT(renamed, 20u);
}

// The theorem, with other work between, late inputs, and readers behind events.
TEST(HelpAcrossTest, CompletesUnlessOperationsWaitInACircle) {
  uint32_t circles = 0, others = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Disorder d;
    d.ranks = 2 + seed % 2;
    d.streams = 2 + seed % 3;
    d.each = 2;
    d.others_of_100 = seed % 3 == 0 ? 20 : 5;
    d.fills_late = seed % 2 == 0;
    d.slots = 1 + seed % 3;
    Program p = Disordered(d, seed);
    p.interleaves = seed % 4 == 0;
    p.reuses = seed % 5 != 0;
    const bool circle = HasCycle(p);
    const Outcome o = RunProgram(p, seed);
    EXPECT_EQ(o.finished, !circle) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    (circle ? circles : others) += 1;
  }
  EXPECT_GT(circles, 40u);
  EXPECT_GT(others, 40u);
}

}  // namespace
}  // namespace gordian::runtime::cuda
