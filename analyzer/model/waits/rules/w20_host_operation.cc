// W20: An operation of gloo is done when those that it exchanges data with have started theirs.
//
// gloo sends nothing before the receiver has asked for it: a send waits for its receive whatever its
// size, a root for those that it sends to itself. Measured with PyTorch 1.13 by
// tests/e2e/torch/truth.py.
// A broadcast goes down a binomial tree. Two operations of one group run at once, and gordian assumes
// no order among them: that only loses waits.
#include <utility>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {
namespace {

struct Exchange {
  const WaitView& view;
  const Launch& launch;
  const int index;
  WaitNodes* const nodes;

  const PartRef& ref() const { return launch.parts[static_cast<size_t>(index)].ref; }

  uint32_t Start(const Instance& instance, int rank) const {
    PartRef other = ref();
    other.rank = rank;
    return PartStart(view, instance.members[static_cast<size_t>(rank)], other, nodes);
  }
  void WaitFor(const Instance& instance, int rank) const {
    if (rank == ref().rank) return;
    nodes->WaitAsPart(nodes->DoneOf(launch.id), Start(instance, rank), Reason::kStartedCollective,
                      index, launch.id);
  }

  // Down from the root, which is 0 of the tree: rank v hands on to v + 2^i for each 2^i above v.
  void Broadcast(const Instance& instance, int root) const {
    const int size = static_cast<int>(instance.members.size());
    const int own = (ref().rank - root + size) % size;
    for (int bit = 1; bit < size; bit <<= 1) {
      if (own < bit && own + bit < size) WaitFor(instance, (own + bit + root) % size);
    }
    for (int at = own; at != 0;) {  // what it gets has come through all of these
      int highest = 1;
      while (highest * 2 <= at) highest *= 2;
      at -= highest;
      WaitFor(instance, (at + root) % size);
    }
  }

  void AnyOther(const Instance& instance) const {
    const uint32_t any = nodes->Add(NodeKind::kAllStarted, /*any=*/true);
    (*nodes)[any].comm = ref().comm;
    (*nodes)[any].sequence = ref().sequence;
    (*nodes)[any].process = 0;
    for (size_t r = 0; r < instance.members.size(); ++r) {
      if (static_cast<int>(r) == ref().rank) continue;
      nodes->Wait(any, Start(instance, static_cast<int>(r)), Reason::kStartedCollective);
    }
    nodes->WaitAsPart(nodes->DoneOf(launch.id), any, Reason::kStartedCollective, index, launch.id);
  }

  void Collective() const {
    const Part& part = launch.parts[static_cast<size_t>(index)];
    const Instance* const instance = view.matcher.FindInstance(ref().comm, ref().sequence);
    if (instance == nullptr || instance->mismatch != kAgrees) return;
    const Call call = part.signature.call;
    const int root = part.signature.root;
    const int size = static_cast<int>(instance->members.size());
    // It moves nothing, or the front end does not know the sizes of its parts.
    if (part.signature.count == 0 && !part.with_all) return;
    if (HasRoot(call) && (root < 0 || root >= size)) return;
    if (call == Call::kBroadcast) return Broadcast(*instance, root);
    if (HasRoot(call) && ref().rank != root) {
      // Which ones beside the root hand on what is reduced depends on the size.
      if (call == Call::kReduce) return size > 1 ? AnyOther(*instance) : void();
      return WaitFor(*instance, root);
    }
    for (int r = 0; r < size; ++r) WaitFor(*instance, r);
  }

  void Transfer() const {
    const model::Transfer* const transfer = view.matcher.FindTransfer(ref());
    if (transfer == nullptr || transfer->mismatch != kAgrees || ref().peer < 0) return;
    const bool sends = ref().kind == PartKind::kSend;
    PartRef other = ref();
    other.kind = sends ? PartKind::kReceive : PartKind::kSend;
    std::swap(other.rank, other.peer);
    nodes->WaitAsPart(nodes->DoneOf(launch.id),
                      PartStart(view, sends ? transfer->receive : transfer->send, other, nodes),
                      sends ? Reason::kSend : Reason::kReceive, index, launch.id);
  }
};

}  // namespace

void HostOperation(const WaitView& view, const Launch& launch, WaitNodes* nodes) {
  for (size_t i = 0; i < launch.parts.size(); ++i) {
    const PartRef& ref = launch.parts[i].ref;
    if (ref.comm < 0) continue;
    const Exchange exchange{view, launch, static_cast<int>(i), nodes};
    const Communicator& comm = view.matcher.comms()[static_cast<size_t>(ref.comm)];
    // Which transfers meet, only the member knows that has received from any source.
    if (comm.opaque || (comm.any_source && ref.kind != PartKind::kCollective)) {
      nodes->WaitAsPart(nodes->DoneOf(launch.id), nodes->Leaf(LeafKind::kUnknown, launch.process),
                        Reason::kStartedCollective, static_cast<int>(i), launch.id);
    } else if (ref.kind == PartKind::kCollective) {
      exchange.Collective();
    } else {
      exchange.Transfer();
    }
  }
}

}  // namespace gordian::model::rules
