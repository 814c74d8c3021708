// The two halves of a port whose members are on several nodes. Every node has the port's segment,
// with boards and lanes of all members; each is written by one member. An Outbox sees what the own
// member writes there and says which messages bring the segments of other nodes up to date; an
// Inbox writes what such messages say about a member of another node. So an operation runs on a
// node as it does among processes of one host, and adds up in the same order.
//
// A message of data needs no room to be waited for: the member that sends chunk k has seen that all
// readers are done with chunk k - kSlots of that lane (step.h). It is put into its lane as soon as
// it comes, whether the operation has been called here or not, so nothing behind it waits.
//
// Messages may overtake each other: numbers only grow, and chunks are counted one by one.
//
// Threads: what is marked "any"; the rest is the courier's (courier.h).
#ifndef GORDIAN_RUNTIME_CPU_ACROSS_MAILBOXES_H_
#define GORDIAN_RUNTIME_CPU_ACROSS_MAILBOXES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/core/step.h"
#include "runtime/cpu/across/wire.h"
#include "runtime/cpu/segment.h"

namespace gordian::runtime {

// Members of a port on one node other than this one.
struct FarNode {
  std::vector<uint32_t> members;  // of the port
  uint32_t node = 0;              // number
  int relay = -1;                 // the rank that takes this port's messages for the node; -1: none
};

class Outbox {
 public:
  Outbox(uint64_t key, std::shared_ptr<Segment> segment, uint32_t me,
         std::vector<uint32_t> members);

  // Any thread. The member has begun the operation of a window slot, and touches it after that.
  void Begun(const OpView& view);
  // Any thread. Something of a slot may have changed. True: the caller hands the box to the
  // courier.
  bool Touch(uint32_t slot);
  bool TouchAll();

  // Slots that were touched since the last call, as (slot modulo 64).
  uint64_t TakeTouched();

  struct Part {
    Wire wire;
    const void* data = nullptr;
    size_t bytes = 0;
  };
  // Calls `send` for each message that a node lacks of a slot. With `lazily` it leaves out news of
  // counters that no member waits for before its next operations, and returns true if there are any.
  bool Update(uint32_t slot, size_t far_node, bool lazily,
              const std::function<void(const Part&)>& send);

  uint64_t key() const { return key_; }
  uint32_t me() const { return me_; }
  uint32_t window() const { return segment_->view().geometry().window; }
  const std::shared_ptr<Segment>& segment() const { return segment_; }
  const std::vector<uint32_t>& members() const { return members_; }  // ranks
  std::vector<FarNode>& far_nodes() { return far_nodes_; }
  // Once it is known which members are where.
  void SetFarNodes(std::vector<FarNode> nodes);

 private:
  struct Operation {
    uint64_t seq = 0;
    OpDesc desc;
    Chunks chunks;
    uint64_t publishers = 0, readers = 0;
  };
  // What a node has been sent of a slot.
  struct Sent {
    struct Channel {
      uint64_t contributions = 0, results = 0, consumed = 0, gathered = 0;
    };
    uint64_t seq = 0, done_seq = 0;
    bool board = false;
    std::vector<Channel> channels;
  };
  void SendChunk(const Operation& op, const FarNode& node, Wire wire, bool result,
                 const std::function<void(const Part&)>& send) const;

  const uint64_t key_;
  const std::shared_ptr<Segment> segment_;
  const uint32_t me_;
  const std::vector<uint32_t> members_;
  std::atomic<uint64_t> touched_{0};
  std::atomic<bool> queued_{false};
  std::mutex mutex_;                   // operations_
  std::vector<Operation> operations_;  // by slot
  std::vector<FarNode> far_nodes_;
  std::vector<Sent> sent_;  // by (node, slot)
};

class Inbox {
 public:
  Inbox(std::shared_ptr<Segment> segment, std::vector<uint32_t> members)
      : segment_(std::move(segment)), members_(std::move(members)) {
    const PortGeometry& g = segment_->view().geometry();
    arrivals_.resize(uint64_t{g.window} * g.members);
  }

  // Writes what a kState or kData of `member` says. grtSuccess, or how the communicator fails: with
  // grtMismatch if a member here (`near`, a mask) is at another operation, with grtInternalError if
  // no member can have sent this.
  grtResult_t Apply(const Wire& wire, uint32_t member, const void* data, size_t bytes,
                    uint64_t near);

  void Unlink() { segment_->UnlinkOnceHere(0); }
  const Segment& segment() const { return *segment_; }
  const std::vector<uint32_t>& members() const { return members_; }  // ranks

 private:
  // What has come of a member's operation in a slot: whole chunks in order are counted where
  // readers look, and what is behind them here.
  struct Arrival {
    struct Lane {
      uint64_t whole = 0;           // chunks from the first on
      uint32_t parts[kSlots] = {};  // of chunk k at k % kSlots, that have come
      bool complete[kSlots] = {};
    };
    bool loaded = false;
    std::vector<Lane> lanes;  // by (channel, result)
  };
  void Load(uint32_t slot, uint32_t member, Arrival* arrival);
  bool Place(const Wire& wire, uint32_t slot, uint32_t member, Arrival::Lane* lane,
             const void* data, size_t bytes);

  const std::shared_ptr<Segment> segment_;
  const std::vector<uint32_t> members_;
  std::vector<Arrival> arrivals_;  // by (slot, member)
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_ACROSS_MAILBOXES_H_
