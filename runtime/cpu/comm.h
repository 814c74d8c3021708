// A communicator at one rank, and its ports: sequences of operations with connector memory of their
// own. The collectives of tag 0 are one port, every other tag is one, and so is each direction
// between two ranks (for sends and receives).
//
// Threads: any. Lives as long as one of its operations.
#ifndef GORDIAN_RUNTIME_CPU_COMM_H_
#define GORDIAN_RUNTIME_CPU_COMM_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/op.h"
#include "runtime/core/policy.h"
#include "runtime/cpu/doorbell.h"
#include "runtime/cpu/process_life.h"
#include "runtime/cpu/segment.h"
#include "runtime/include/gordian/runtime.h"
#include "runtime/net/bootstrap.h"

namespace gordian::runtime {

class Bridge;
class Engine;
class Outbox;

// One end of a port.
struct Port {
  std::shared_ptr<Segment> segment;
  std::shared_ptr<Outbox> outbox;  // null: no member can be on another node
  uint32_t me = 0;                 // member
  uint32_t number = 0;             // equal on all members
  std::vector<uint32_t> members;   // ranks of the communicator
  std::mutex mutex;                // sequence numbers, in the order of calls
  uint64_t next_seq = 1;
};

struct Statistics {
  std::atomic<uint64_t> operations{0}, steps{0}, preemptions{0}, helped{0}, renamed{0}, probes{0},
      sleeps{0}, mismatches{0}, bytes{0};
};

// What a communicator needs whose members may be on several nodes: a meeting of theirs, or where
// they all are.
struct Across {
  uint64_t key = 0;  // equal on all members, and hard to guess
  std::string node;  // this rank's
  const net::Meeting* meeting = nullptr;
  std::vector<net::Place> places;  // by rank, without a meeting
};

class Comm : public std::enable_shared_from_this<Comm> {
 public:
  // `across` null: all members are on this node. *why: what an error is due to, or nothing.
  static grtResult_t Create(const std::string& name, uint32_t ranks, uint32_t rank,
                            const grtConfig_t& config, const Across* across,
                            std::shared_ptr<Comm>* out, std::string* why);
  ~Comm();

  const std::string& name() const { return name_; }
  uint32_t ranks() const { return ranks_; }
  uint32_t rank() const { return rank_; }
  const grtConfig_t& config() const { return config_; }
  const AlgoLimits& limits() const { return limits_; }
  Engine* engine() const { return engine_; }
  const std::shared_ptr<Port>& main_port() const { return main_; }
  Statistics& statistics() { return statistics_; }

  grtResult_t OpenPort(uint32_t tag, std::shared_ptr<Port>* out);
  // The end of the sender, or of the receiver.
  grtResult_t PairPort(uint32_t from, uint32_t to, bool sends, std::shared_ptr<Port>* out);

  // All members are ranks of this process.
  bool IsLocal() const { return main_->segment->IsLocal(); }
  const uint64_t* abort_word() const { return &main_->segment->header().abort_code; }
  // How the communicator has failed, by anyone; grtSuccess: not.
  grtResult_t error() const { return static_cast<grtResult_t>(Acquire(*abort_word())); }
  // `why` names who is to blame, if that is known; the first one stays.
  void Fail(grtResult_t code, const std::string& why = std::string());
  std::string ErrorText() const { return main_->segment->Why(); }  // empty: not known
  // "rank 3", with the node if there are several.
  std::string NameOf(uint32_t rank) const;
  void set_abandoned() { abandoned_.store(true, std::memory_order_release); }
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }

  // After a step, begin or finish in a window slot: wakes those at the other members who sleep for
  // it.
  void RingWaiters(const Port& port, uint32_t slot);
  // The same after a step of member `who` of a port with these members, of which this process may
  // have no end.
  void RingWaiters(const PortView& view, const std::vector<uint32_t>& members, uint32_t who,
                   uint32_t slot);
  // Wakes the workers that sleep at the other members of a port.
  void RingOthers(const Port& port);
  // Of these members of a port, those whose process has ended.
  uint64_t Dead(const Port& port, uint64_t members);
  // Of these members of a port, those whose process is stopped at this moment, as ranks.
  uint64_t StoppedRanks(const Port& port, uint64_t members) const;

  uint32_t NextChild() { return next_child_.fetch_add(1); }

  // Null: all members are on this node.
  Bridge* bridge() const { return bridge_.get(); }
  const std::string& node() const { return node_; }
  uint64_t agreement() const { return agreement_; }
  // The program is done with the communicator, and so is this rank.
  void Leave();
  // For the bridge: where all members are is known now; what it learns of ports; and the memory of
  // a port, by its key, with the ranks of its members. grtInvalidUsage: no port can have that key.
  void Settle();
  // Its members will never have met: the names of its memory are taken away.
  void Forsake();
  grtResult_t OpenSegment(uint64_t port_key, std::shared_ptr<Segment>* segment,
                          std::vector<uint32_t>* members) const;

 private:
  // What all members know of a port.
  struct Plan {
    std::string name;
    PortGeometry geometry;
    std::vector<uint32_t> members;
  };
  Comm(std::string name, uint32_t ranks, uint32_t rank, const grtConfig_t& config);
  std::vector<std::shared_ptr<Port>> Ports();
  Plan PlanOfTag(uint32_t tag) const;
  Plan PlanOfPair(uint32_t from, uint32_t to) const;
  bool PlanOfKey(uint64_t port_key, Plan* plan) const;
  // On this node.
  std::string SegmentName(const Plan& plan) const;
  // 0: not known yet.
  uint32_t NearOf(const std::vector<uint32_t>& members) const;
  grtResult_t JoinPort(uint64_t port_key, const Plan& plan, uint32_t me,
                       std::shared_ptr<Port>* out);
  Doorbell* BellOf(uint32_t rank);

  struct Peer {
    std::atomic<Doorbell*> bell{nullptr};
    std::shared_ptr<Doorbell> owner;  // of `bell`
    bool bell_tried = false;
    ProcessLife life;
  };

  const std::string name_;
  const uint32_t ranks_, rank_;
  const grtConfig_t config_;
  AlgoLimits limits_;
  PortGeometry geometry_;
  uint64_t agreement_ = 0;
  std::string node_, node_suffix_;  // empty: without a bridge
  std::unique_ptr<Bridge> bridge_;
  Engine* engine_ = nullptr;
  std::shared_ptr<Port> main_;
  Statistics statistics_;
  std::atomic<bool> abandoned_{false};
  std::atomic<uint32_t> next_child_{1};
  std::mutex mutex_;                                                              // what is below
  std::map<uint32_t, std::shared_ptr<Port>> ports_;                               // by tag
  std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<Port>> sends_, recvs_;  // by (from, to)
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_COMM_H_
