// Operations over nodes as explicit state: each member of each operation takes its steps in a random
// order, and messages between nodes come in any order, as late as may be. What a message brings is
// read when it comes, so that memory which is written again too early shows as a wrong result.
// GORDIAN_TEST_ORDERS: how many random orders (300), GORDIAN_TEST_FIRST_ORDER: from which on.
#include "runtime/cpu/across/mailboxes.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "tests/unit/runtime/ranks.h"

namespace gordian::runtime::testing {
namespace {

int Given(const char* name, int otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::atoi(given) : otherwise;
}

class World {
 public:
  World(std::vector<int> node_of, int ports, uint32_t seed)
      : node_of_(std::move(node_of)), random_(seed) {
    const auto ranks = static_cast<uint32_t>(node_of_.size());
    geometry_.members = ranks;
    geometry_.window = 1 + random_() % 3;
    geometry_.channels = 1 + random_() % 2;
    geometry_.chunk_bytes = 128;
    std::vector<uint32_t> members(ranks);
    for (uint32_t r = 0; r < ranks; ++r) members[r] = r;
    const int nodes = *std::max_element(node_of_.begin(), node_of_.end()) + 1;
    for (int p = 0; p < ports; ++p) {
      std::vector<std::shared_ptr<Segment>> segments;
      std::vector<std::unique_ptr<Inbox>> inboxes;
      for (int node = 0; node < nodes; ++node) {
        std::shared_ptr<Segment> segment;
        const std::string name = "gordian-rt-mailboxes-" + std::to_string(getpid()) + "-" +
                                 std::to_string(p) + "." + std::to_string(node);
        EXPECT_EQ(Segment::Open(name, geometry_, &segment), grtSuccess);
        segment->UnlinkOnceHere(0);
        inboxes.push_back(std::make_unique<Inbox>(segment, members));
        segments.push_back(std::move(segment));
      }
      std::vector<std::shared_ptr<Outbox>> outboxes;
      for (uint32_t r = 0; r < ranks; ++r) {
        outboxes.push_back(std::make_shared<Outbox>(p, segments[node_of_[r]], r, members));
        std::vector<FarNode> far;
        for (int node = 0; node < nodes; ++node) {
          if (node == node_of_[r]) continue;
          FarNode each;
          each.node = static_cast<uint32_t>(node);
          for (uint32_t m = 0; m < ranks; ++m) {
            if (node_of_[m] == node) each.members.push_back(m);
          }
          far.push_back(std::move(each));
        }
        outboxes.back()->SetFarNodes(std::move(far));
      }
      segments_.push_back(std::move(segments));
      inboxes_.push_back(std::move(inboxes));
      outboxes_.push_back(std::move(outboxes));
    }
  }

  // The next operation of a port, called by all members.
  void Add(int port, const Case& c) {
    const auto ranks = static_cast<int>(node_of_.size());
    Operation o;
    o.c = c;
    for (int r = 0; r < ranks; ++r) {
      o.inputs.push_back(RandomElements(c.type, InputElements(c, ranks, r), random_));
      if (c.op == grtPreMulSum) o.scalars.push_back(RandomElements(c.type, 1, random_));
      o.outputs.emplace_back(OutputElements(c, ranks, r) * ElementSize(c.type));
    }
    OpDesc desc;
    desc.seq = ++seqs_[port];
    desc.port = static_cast<uint32_t>(port);
    desc.kind = static_cast<OpKind>(c.kind);
    desc.dtype = static_cast<DataType>(c.type);
    desc.redop = static_cast<Operator>(c.op);
    desc.root_or_peer = c.root;
    desc.count = c.count;
    desc.algo = random_() % 2 == 0 ? Algo::kOneShot : Algo::kTwoShot;
    desc.nchan = static_cast<uint16_t>(1 + random_() % geometry_.channels);
    operations_.push_back(std::move(o));
    for (int r = 0; r < ranks; ++r) {
      Part part;
      part.operation = operations_.size() - 1;
      part.rank = r;
      OpView& v = part.view;
      v.desc = desc;
      if (c.op == grtPreMulSum) {
        std::memcpy(&v.desc.scalar, operations_.back().scalars[r].data(), ElementSize(c.type));
      }
      v.desc.signature = Signature(v.desc);
      v.port = segments_[port][node_of_[r]]->view();
      v.me = static_cast<uint32_t>(r);
      part.channels.resize(desc.nchan);
      parts_.push_back(std::move(part));
    }
  }

  // Whether all end with the right results.
  void Run() {
    for (Part& part : parts_) {
      // Operations do not move any more.
      part.view.in = operations_[part.operation].inputs[part.rank].data();
      part.view.out = operations_[part.operation].outputs[part.rank].data();
      Complete(&part.view);
    }
    std::vector<size_t> left(parts_.size());
    for (size_t i = 0; i < left.size(); ++i) left[i] = i;
    while (!left.empty()) {
      // Links are slower than members in some orders, and faster in others.
      const bool delivers = !messages_.empty() && random_() % 8 < 4;
      if (delivers) {
        Deliver(random_() % messages_.size());
        continue;
      }
      const size_t first = random_() % left.size();
      bool any = false;
      for (size_t i = 0; i < left.size() && !any; ++i) {
        const size_t at = (first + i) % left.size();
        any = Step(&parts_[left[at]]);
        if (parts_[left[at]].done) left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
      }
      if (any) continue;
      ASSERT_FALSE(messages_.empty()) << "nothing is ready, and nothing is under way";
      Deliver(random_() % messages_.size());
    }
    for (const Operation& o : operations_) {
      EXPECT_EQ(o.outputs == Expected(o.c, o.inputs, o.scalars), true)
          << Name(o.c, static_cast<int>(node_of_.size()));
    }
  }

 private:
  struct Operation {
    Case c;
    std::vector<Bytes> inputs, scalars, outputs;
  };
  struct Part {
    size_t operation = 0;
    int rank = 0;
    OpView view;
    std::vector<ChanCtx> channels;
    bool begun = false, done = false;
  };
  struct Flying {
    int node, from;
    Outbox::Part part;
  };

  bool Step(Part* part) {
    const OpView& v = part->view;
    bool advanced = false;
    uint64_t wanted = 0;
    if (!part->begun) {
      const Progress progress = Begin(part->view, &wanted);
      EXPECT_TRUE(progress == Progress::kAdvanced || progress == Progress::kNotReady);
      advanced = part->begun = progress == Progress::kAdvanced;
      if (advanced) outboxes_[v.desc.port][v.me]->Begun(v);
    } else {
      const auto channel = static_cast<uint32_t>(random_() % part->channels.size());
      bool done = true;
      for (uint32_t i = 0; i < part->channels.size() && !advanced; ++i) {
        const auto c = static_cast<uint32_t>((channel + i) % part->channels.size());
        const Progress progress = TryStep(v, c, part->channels[c], &wanted);
        EXPECT_TRUE(progress == Progress::kAdvanced || progress == Progress::kNotReady ||
                    progress == Progress::kDone);
        advanced = progress == Progress::kAdvanced;
      }
      for (const ChanCtx& each : part->channels) done = done && each.state == kChanDone;
      if (done) {
        Finish(v);
        part->done = advanced = true;
      }
    }
    // The courier looks when it likes.
    if (advanced && (part->done || random_() % 4 != 0)) UpdateAll(part->rank, random_() % 2 == 0);
    if (!advanced) return UpdateAll(part->rank, false);
    return true;
  }

  bool UpdateAll(int rank, bool lazily) {
    bool any = false;
    for (auto& port : outboxes_) {
      Outbox& box = *port[rank];
      for (size_t f = 0; f < box.far_nodes().size(); ++f) {
        for (uint32_t slot = 0; slot < box.window(); ++slot) {
          box.Update(slot, f, lazily, [&](const Outbox::Part& part) {
            messages_.push_back({static_cast<int>(box.far_nodes()[f].node), rank, part});
            any = true;
          });
        }
      }
    }
    return any;
  }

  void Deliver(size_t which) {
    const Flying message = messages_[which];
    messages_[which] = messages_.back();
    messages_.pop_back();
    uint64_t near = 0;
    for (size_t m = 0; m < node_of_.size(); ++m) {
      if (node_of_[m] == message.node) near |= uint64_t{1} << m;
    }
    EXPECT_EQ(inboxes_[message.part.wire.port][message.node]->Apply(
                  message.part.wire, static_cast<uint32_t>(message.from), message.part.data,
                  message.part.bytes, near),
              grtSuccess);
  }

  const std::vector<int> node_of_;
  std::mt19937 random_;
  PortGeometry geometry_;
  std::map<int, uint64_t> seqs_;
  std::vector<std::vector<std::shared_ptr<Segment>>> segments_;  // by (port, node)
  std::vector<std::vector<std::unique_ptr<Inbox>>> inboxes_;     // the same
  std::vector<std::vector<std::shared_ptr<Outbox>>> outboxes_;   // by (port, rank)
  std::vector<Operation> operations_;
  std::vector<Part> parts_;
  std::vector<Flying> messages_;
};

TEST(Mailboxes, AnyOrderOfStepsAndMessages) {
  constexpr grtKind_t kKinds[] = {grtKindAllReduce, grtKindAllGather, grtKindReduceScatter,
                                  grtKindBroadcast, grtKindReduce,    grtKindAllToAll,
                                  grtKindGather,    grtKindScatter};
  const int first = Given("GORDIAN_TEST_FIRST_ORDER", 0);
  for (int order = first; order < first + Given("GORDIAN_TEST_ORDERS", 300); ++order) {
    std::mt19937 random(static_cast<uint32_t>(order));
    const int nodes = 2 + static_cast<int>(random() % 3);
    std::vector<int> node_of;
    for (int node = 0; node < nodes; ++node) {
      for (uint32_t i = 0; i < 1 + random() % 2; ++i) node_of.push_back(node);
    }
    std::shuffle(node_of.begin(), node_of.end(), random);
    constexpr int kPorts = 3;
    World world(node_of, kPorts, static_cast<uint32_t>(random()));
    for (int i = 0; i < 8; ++i) {
      const Case c{kKinds[random() % 8],
                   random() % 2 == 0 ? grtFloat32 : grtInt8,
                   static_cast<grtRedOp_t>(random() % 6),
                   random() % 4 == 0 ? random() % 600 : random() % 40,
                   static_cast<int>(random() % node_of.size()),
                   false};
      world.Add(i % kPorts, c);
    }
    world.Run();
    ASSERT_FALSE(HasFailure()) << "order " << order;
  }
}

}  // namespace
}  // namespace gordian::runtime::testing
