// Operations in orders that differ by rank, on streams whose kernels help: on the host, with as
// many blocks at a time as a seed says.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/runtime/cuda/host_cases.h"
#include "tests/unit/runtime/cuda/host_world.h"
#include "tests/unit/runtime/cuda/reference.h"

namespace gordian::runtime::cuda {
namespace {

// One operation of all ranks.
struct Operation {
  uint32_t communicator = 0;
  Case what;
  int way = 0;
};

// What a rank calls, in this order.
struct Call {
  uint32_t operation = 0;
  uint32_t stream = 0;
  bool marked = false;  // the stream has something else before it
  bool joins = false;   // the stream's call before it: one kernel carries both
  uint32_t most_blocks = ~0u;
};

struct Program {
  uint32_t ranks = 2;
  uint32_t communicators = 3;
  uint32_t streams = 1;
  std::vector<Operation> operations;
  std::vector<std::vector<Call>> calls;  // by rank
  bool helps = true;
  bool renamed = false;  // every operation is one that writes what those before it use
  uint32_t slots = 1;    // blocks of a stream's kernel that are there at once
  bool interleaves = false;
  uint32_t chunk_bytes = 256;
  uint64_t turns = kForEver;
  uint64_t tick = 4000;  // nanoseconds that pass from look to look at the clock
};

struct Outcome {
  bool finished = false;
  uint64_t wrong = 0;
  HelpCounts counts{};           // of all ranks
  std::vector<uint64_t> helped;  // channels, by rank
};

Outcome RunProgram(const Program& p, uint64_t seed) {
  HostHeaps::Options options;
  options.ranks = p.ranks;
  options.communicators = p.communicators;
  options.lines_per_lane = 1024;
  options.chunk_bytes = p.chunk_bytes;
  options.user_bytes = 1 << 18;
  HostHeaps heaps(options);
  struct Launch {
    Work work;
    const Case* c;
    Buffers buffers;
    std::vector<char> room;
    bool marked, joins;
    uint32_t most_blocks;
  };
  struct Stream {
    HostList list;
    std::vector<Launch> launches;
    std::unique_ptr<HostSlots> slots;
  };
  std::vector<std::unique_ptr<Stream>> streams;
  for (uint32_t i = 0; i < p.ranks * p.streams; ++i) streams.push_back(std::make_unique<Stream>());
  for (uint32_t r = 0; r < p.ranks; ++r) {
    uint64_t heap_at = 0;
    for (const Call& call : p.calls[r]) {
      const Operation& o = p.operations[call.operation];
      const Case& c = o.what;
      const uint64_t bytes = RoundUp(c.count * p.ranks * 4, 64);
      // Of some, outputs are offered.
      const bool direct = o.communicator % 2 == 1 && heap_at + bytes <= options.user_bytes;
      Stream& stream = *streams[r * p.streams + call.stream];
      stream.launches.push_back({{},
                                 &c,
                                 Fill(c, p.ranks, r, direct ? heaps.User(r) + heap_at : nullptr),
                                 {},
                                 call.marked,
                                 call.joins,
                                 call.most_blocks});
      Launch& l = stream.launches.back();
      if (p.renamed) l.room.assign(c.count * p.ranks * 4 + 64, 55);
      if (direct) heap_at += bytes;
      l.work = heaps.Make(r, o.communicator, c.kind, c.type, c.op, l.buffers.in_at,
                          l.buffers.out_at, c.count, c.root, Way(o.way));
    }
  }
  Fibers fibers(seed);
  if (p.interleaves) fibers.Interleave();
  fibers.SetTick(p.tick);
  bool stopped = false;
  for (auto& stream : streams) stream->slots = std::make_unique<HostSlots>(p.slots, &fibers);
  // The host of each stream: calls come one by one, while kernels run.
  for (auto& stream : streams) {
    fibers.Add([&, s = stream.get()] {
      const auto publish = [&](Launch& l) {
        char* room = l.buffers.out_elements == 0 || l.room.empty()
                         ? nullptr
                         : l.room.data() + (reinterpret_cast<uintptr_t>(l.work.out) & 15);
        return p.helps ? s->list.Publish(l.work, l.marked || &l == s->launches.data(), room)
                       : s->list.Alone();
      };
      for (size_t i = 0; i < s->launches.size(); ++i) {
        Launch& l = s->launches[i];
        HelpList help = publish(l);
        if (i + 1 < s->launches.size() && s->launches[i + 1].joins) {
          Launch& second = s->launches[++i];
          s->slots->EnqueueSeveral({l.work, second.work}, {help, publish(second)}, l.most_blocks);
        } else {
          s->slots->Enqueue(&l.work, help, l.most_blocks);
        }
        fibers.Point();
      }
      s->slots->NoMore();
    });
  }
  fibers.OnHang([&] {
    stopped = true;
    for (auto& stream : streams) {
      stream->list.Stop();
      stream->slots->Stop();
    }
  });
  fibers.Run(p.turns);
  Outcome outcome;
  outcome.finished = !stopped;
  outcome.helped.assign(p.ranks, 0);
  for (uint32_t i = 0; i < streams.size(); ++i) {
    const Stream& s = *streams[i];
    if (!stopped && p.helps && !s.launches.empty()) {
      EXPECT_TRUE(s.slots->AllDone());
      EXPECT_EQ(s.list.begun(), s.launches.size() - (s.launches.back().joins ? 1 : 0));
    }
    for (const Launch& l : s.launches) {
      if (!stopped) outcome.wrong += Wrong(*l.c, p.ranks, i / p.streams, l.buffers);
    }
    const HelpCounts& counts = s.list.counts();
    outcome.helped[i / p.streams] += counts.helped;
    outcome.counts.helped += counts.helped;
    outcome.counts.walks += counts.walks;
    outcome.counts.visits += counts.visits;
    outcome.counts.switches += counts.switches;
  }
  return outcome;
}

// Operations of several communicators in an order of each rank's own, on streams that it chooses.
struct Disorder {
  uint32_t ranks = 2;
  uint32_t communicators = 3;
  uint32_t each = 4;  // operations of a communicator
  uint32_t streams = 1;
  bool shuffled = true;
  bool all_kinds = true;
  bool same_size = false;
  uint32_t most = 400;  // elements
};

Program Disordered(const Disorder& d, uint64_t seed) {
  std::mt19937_64 random(seed);
  Program p;
  p.ranks = d.ranks;
  p.communicators = d.communicators;
  p.streams = d.streams;
  std::vector<std::vector<uint32_t>> of(d.communicators);
  for (uint32_t c = 0; c < d.communicators; ++c) {
    for (uint32_t i = 0; i < d.each; ++i) {
      Operation o;
      o.communicator = c;
      if (d.all_kinds) o.what.kind = kAll[random() % 8];
      o.what.count = d.same_size ? d.most : 1 + random() % d.most;
      o.what.root = static_cast<uint32_t>(random() % d.ranks);
      o.way = static_cast<int>(random() % kWays);
      of[c].push_back(static_cast<uint32_t>(p.operations.size()));
      p.operations.push_back(o);
    }
  }
  for (uint32_t r = 0; r < d.ranks; ++r) {
    std::vector<uint32_t> order, stream_of, next(d.communicators, 0);
    for (uint32_t c = 0; c < d.communicators; ++c) {
      order.insert(order.end(), d.each, c);
      stream_of.push_back(static_cast<uint32_t>(random() % d.streams));
    }
    if (d.shuffled) std::shuffle(order.begin(), order.end(), random);
    p.calls.emplace_back();
    for (const uint32_t c : order) p.calls.back().push_back({of[c][next[c]++], stream_of[c]});
  }
  return p;
}

// Runs seeds 1 to `seeds`; all must end, with right results, and something must have been helped.
template <typename Make>
void AllComplete(uint64_t seeds, Make&& make) {
  uint64_t helped = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const Program p = make(seed);
    const Outcome o = RunProgram(p, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    helped += o.counts.helped;
  }
  EXPECT_GT(helped, 0u);  // or nothing was tested
}

TEST(HelpTest, AnyOrderOnOneStreamCompletes) {
  AllComplete(60, [](uint64_t seed) {
    Disorder d;
    d.ranks = seed % 3 == 0 ? 3 : 2;
    return Disordered(d, seed);
  });
}

TEST(HelpTest, AnyOrderOnSeveralStreamsCompletes) {
  AllComplete(60, [](uint64_t seed) {
    Disorder d;
    d.ranks = seed % 3 == 0 ? 3 : 2;
    d.communicators = 5;
    d.each = 3;
    d.streams = 2 + seed % 3;
    return Disordered(d, seed);
  });
}

// Broadcasts and reduces among more than two, in shards of which the root has none and others may
// have none, by all ways.
TEST(HelpTest, BroadcastsAndReducesInShardsComplete) {
  AllComplete(60, [](uint64_t seed) {
    Disorder d;
    d.ranks = 3 + seed % 4;
    d.streams = 1 + seed % 2;
    Program p = Disordered(d, seed);
    for (Operation& o : p.operations)
      o.what.kind = o.what.count % 2 == 0 ? OpKind::kReduce : OpKind::kBroadcast;
    p.renamed = seed % 3 == 0;
    p.slots = 1 + seed % 3;
    p.interleaves = seed % 5 == 0;
    return p;
  });
}

// Of more chunks than staging has slots: who carries a part must come back to it for the rest.
TEST(HelpTest, OperationsOfManyChunksComplete) {
  AllComplete(60, [](uint64_t seed) {
    Disorder d;
    d.ranks = 2 + seed % 2;
    d.communicators = 4;
    d.each = 3;
    d.all_kinds = seed % 2 == 0;
    Program p = Disordered(d, seed);
    for (Operation& o : p.operations) o.way = 2;
    p.chunk_bytes = 32;
    p.slots = 1 + seed % 4;
    p.interleaves = seed % 3 == 0;
    return p;
  });
}

// Several blocks of a kernel stall at once and share what is to be done; others go on in the middle
// of what they do.
TEST(HelpTest, BlocksThatStallTogetherShareTheWork) {
  AllComplete(80, [](uint64_t seed) {
    Disorder d;
    d.ranks = 2 + seed % 3;
    d.communicators = 4;
    d.each = 3;
    d.streams = 1 + seed % 2;
    d.same_size = seed % 4 == 0;
    Program p = Disordered(d, seed);
    p.slots = 2 + seed % 5;
    p.interleaves = true;
    return p;
  });
}

// Of some kernels: one of `one_of` carries two operations, where both may go on. How many.
uint32_t JoinSome(Program* p, uint32_t one_of, std::mt19937_64* random) {
  uint32_t kernels = 0;
  for (std::vector<Call>& calls : p->calls) {
    std::vector<Call*> last(p->streams, nullptr);
    for (Call& call : calls) {
      Call*& before = last[call.stream];
      call.joins = before != nullptr && !before->joins && (*random)() % one_of == 0 &&
                   p->operations[before->operation].communicator !=
                       p->operations[call.operation].communicator;
      before = &call;
      kernels += call.joins;
    }
  }
  return kernels;
}

// Some kernels carry two operations, whose blocks go on side by side.
TEST(HelpTest, TwoOperationsOfOneKernelGoSideBySide) {
  uint32_t kernels = 0;
  AllComplete(200, [&](uint64_t seed) {
    Disorder d;
    d.ranks = 2 + seed % 3;
    d.communicators = 4;
    d.each = 3;
    d.streams = 1 + seed % 2;
    Program p = Disordered(d, seed);
    p.slots = 2 + seed % 5;  // so that both go on
    p.interleaves = seed % 2 == 0;
    p.renamed = seed % 5 == 0;
    std::mt19937_64 random(seed);
    kernels += JoinSome(&p, 2, &random);
    return p;
  });
  EXPECT_GT(kernels, 200u);
}

// Kernels of fewer blocks than channels, each rank's of another number.
TEST(HelpTest, FewBlocksCarryAllChannels) {
  AllComplete(150, [](uint64_t seed) {
    Disorder d;
    d.ranks = 2 + seed % 3;
    d.communicators = 4;
    d.each = 3;
    d.streams = 1 + seed % 2;
    Program p = Disordered(d, seed);
    p.slots = 2 + seed % 3;
    p.interleaves = seed % 2 == 0;
    p.renamed = seed % 5 == 0;
    std::mt19937_64 random(seed);
    for (std::vector<Call>& calls : p.calls) {
      for (Call& call : calls) call.most_blocks = 1 + static_cast<uint32_t>(random() % 3);
    }
    JoinSome(&p, 4, &random);
    return p;
  });
}

// Outputs of helped operations are written elsewhere, and go where they belong in their own
// kernels.
TEST(HelpTest, RenamedOutputsArriveInTheirTurn) {
  AllComplete(60, [](uint64_t seed) {
    Disorder d;
    d.ranks = seed % 3 == 0 ? 3 : 2;
    d.streams = 1 + seed % 2;
    Program p = Disordered(d, seed);
    p.renamed = true;
    p.slots = 1 + seed % 3;
    p.interleaves = seed % 2 == 0;
    return p;
  });
}

// More operations than a walk has in view: what can run may stand behind all of those.
TEST(HelpTest, OperationsBeyondTheViewAreFound) {
  AllComplete(3, [](uint64_t seed) {
    Program p;
    p.communicators = kHelpView + 40;
    for (uint32_t i = 0; i < p.communicators; ++i) {
      Operation o;
      o.communicator = i;
      o.what.count = 1 + i % 7;
      p.operations.push_back(o);
    }
    std::vector<uint32_t> order(p.communicators);
    std::iota(order.begin(), order.end(), 0);
    std::mt19937_64 random(seed);
    for (uint32_t r = 0; r < p.ranks; ++r) {
      if (seed == 1)
        std::reverse(order.begin(), order.end());
      else
        std::shuffle(order.begin(), order.end(), random);
      p.calls.emplace_back();
      for (const uint32_t i : order) p.calls.back().push_back({i, 0, false});
    }
    p.turns = 20 * kForEver;
    return p;
  });
}

// A small operation against a large one: the rank that is at the large one helps, and the other
// does not, whose block would keep the small one waiting.
TEST(HelpTest, ASmallOperationDoesNotHelpALargeOne) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Program p;
    p.communicators = 2;
    for (uint32_t i = 0; i < 2; ++i) {
      Operation o;
      o.communicator = i;
      o.what.count = i == 0 ? 2 : 2600;
      p.operations.push_back(o);
    }
    p.calls = {{{0, 0, false}, {1, 0, false}}, {{1, 0, false}, {0, 0, false}}};
    p.slots = 4;
    p.tick = 400;  // nobody has lost patience by then
    const Outcome o = RunProgram(p, seed);
    EXPECT_TRUE(o.finished);
    EXPECT_EQ(o.wrong, 0u);
    EXPECT_EQ(o.helped[0], 0u) << "seed " << seed;
    EXPECT_EQ(o.helped[1], 1u) << "seed " << seed;  // it has one channel
  }
}

// Whichever block is the last one of its kernel, and whichever channel the only one that another
// rank has come to: they find each other. (Neither kernel's other blocks are there.)
TEST(HelpTest, ALoneBlockComesToEveryChannel) {
  constexpr uint32_t kChannels = 4;
  for (uint32_t index = 0; index < kChannels; ++index) {
    for (uint32_t channel = 0; channel < kChannels; ++channel) {
      HostHeaps::Options options;
      options.communicators = 2;
      HostHeaps heaps(options);
      std::vector<char> in(8192, 1), out(size_t{4} * 8192, 77);
      const auto make = [&](uint32_t rank, uint32_t communicator) {
        const Work w =
            heaps.Make(rank, communicator, OpKind::kAllReduce, DataType::kFloat, Operator::kSum,
                       in.data(), out.data() + (rank * 2 + communicator) * 8192, 1000, 0, Way(2));
        EXPECT_EQ(w.channels, kChannels);  // or not all of them are tried
        return w;
      };
      HostList lists[2];
      const Work own = make(0, 1), helped = make(0, 0), peers = make(1, 0);
      bool met = false;
      Fibers fibers(1 + index * kChannels + channel);
      fibers.Add([&] {
        const HelpList help = lists[0].Publish(own, true);
        lists[0].Publish(helped, false);
        RunBlockOnHost(own, help, index, &fibers);  // no peer comes: it leaves when it is told to
      });
      fibers.Add([&] {
        RunBlockOnHost(peers, lists[1].Publish(peers, true), channel, &fibers);
        met = !lists[1].stopped();
        for (HostList& list : lists) list.Stop();
      });
      fibers.OnHang([&] {
        for (HostList& list : lists) list.Stop();
      });
      fibers.Run(kForEver);
      EXPECT_TRUE(met) << "block " << index << ", channel " << channel;
    }
  }
}

// Unless nothing else goes on: the small one may not begin before the large one is done.
TEST(HelpTest, ASmallOperationHelpsALargeOneThatMustComeFirst) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Program p;
    p.communicators = 2;
    for (uint32_t i = 0; i < 2; ++i) {
      Operation o;
      o.communicator = i;
      o.what.count = i == 0 ? 2 : 2600;
      p.operations.push_back(o);
    }
    p.calls = {{{0, 0, false}, {1, 0, false}}, {{1, 0, false}, {0, 0, true}}};
    p.slots = 1 + seed % 4;
    const Outcome o = RunProgram(p, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u);
    EXPECT_GT(o.helped[0], 0u);
    EXPECT_EQ(o.helped[1], 0u);
  }
}

// Whether operations wait for each other in a circle: o for o' if on some rank o must not begin
// before o' is done.
bool HasCycle(const Program& p) {
  const size_t n = p.operations.size();
  std::vector<std::vector<uint32_t>> waits(n);
  for (const std::vector<Call>& calls : p.calls) {
    std::vector<std::vector<uint32_t>> before(p.streams), must(p.streams);
    std::vector<std::vector<uint32_t>> of_communicator(p.communicators);
    for (const Call& call : calls) {
      if (call.marked) must[call.stream] = before[call.stream];
      auto& wait = waits[call.operation];
      wait.insert(wait.end(), must[call.stream].begin(), must[call.stream].end());
      auto& earlier = of_communicator[p.operations[call.operation].communicator];
      wait.insert(wait.end(), earlier.begin(), earlier.end());
      earlier.push_back(call.operation);
      before[call.stream].push_back(call.operation);
    }
  }
  std::vector<bool> done(n, false);
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < n; ++i) {
      if (done[i] ||
          !std::all_of(waits[i].begin(), waits[i].end(), [&](uint32_t w) { return done[w]; }))
        continue;
      done[i] = any = true;
    }
  }
  return std::count(done.begin(), done.end(), false) > 0;
}

// The theorem, with operations here and there that must not be overtaken. All-reduces: of others
// some members may be through before all have begun.
TEST(HelpTest, CompletesUnlessOperationsWaitInACircle) {
  uint32_t circles = 0, others = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Disorder d;
    d.ranks = 2 + seed % 2;
    d.communicators = 4;
    d.each = 2;
    d.streams = 1 + seed % 2;
    d.all_kinds = false;
    d.most = seed % 2 == 0 ? 12 : 300;
    Program p = Disordered(d, seed);
    std::mt19937_64 random(seed);
    for (auto& calls : p.calls) {
      for (Call& call : calls) call.marked = random() % 5 == 0;
    }
    p.slots = 1 + seed % 3;
    p.interleaves = seed % 3 == 0;
    const bool circle = HasCycle(p);
    const Outcome o = RunProgram(p, seed);
    EXPECT_EQ(o.finished, !circle) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u) << "seed " << seed;
    (circle ? circles : others) += 1;
  }
  EXPECT_GT(circles, 30u);
  EXPECT_GT(others, 30u);
}

// What a list that marks too much leads to: as without help.
TEST(HelpTest, MarkedOperationsAreNotHelped) {
  uint32_t hung = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Disorder d;
    d.communicators = 5;
    d.each = 3;
    d.streams = 3;
    Program p = Disordered(d, seed);
    for (auto& calls : p.calls) {
      for (Call& call : calls) call.marked = true;
    }
    const Outcome o = RunProgram(p, seed);
    EXPECT_EQ(o.counts.helped, 0u);
    hung += !o.finished;
  }
  EXPECT_GT(hung, 5u);
}

TEST(HelpTest, WithoutHelpAnInversionHangs) {
  uint32_t hung = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Program p = Disordered({}, seed);
    p.helps = false;
    const Outcome o = RunProgram(p, seed);
    EXPECT_EQ(o.wrong, 0u);
    hung += !o.finished;
  }
  EXPECT_GT(hung, 5u);
}

TEST(HelpTest, WithoutHelpEqualOrdersComplete) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Disorder d;
    d.shuffled = false;
    Program p = Disordered(d, seed);
    p.helps = false;
    const Outcome o = RunProgram(p, seed);
    EXPECT_TRUE(o.finished) << "seed " << seed;
    EXPECT_EQ(o.wrong, 0u);
    EXPECT_EQ(o.counts.helped, 0u);
  }
}

}  // namespace
}  // namespace gordian::runtime::cuda
