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

namespace gordian::runtime {

class Engine;

// One end of a port.
struct Port {
  std::shared_ptr<Segment> segment;
  uint32_t me = 0;                // member
  uint32_t number = 0;            // equal on all members
  std::vector<uint32_t> members;  // ranks of the communicator
  std::mutex mutex;               // sequence numbers, in the order of calls
  uint64_t next_seq = 1;
};

struct Statistics {
  std::atomic<uint64_t> operations{0}, steps{0}, preemptions{0}, helped{0}, renamed{0}, probes{0},
      sleeps{0}, mismatches{0}, bytes{0};
};

class Comm {
 public:
  static grtResult_t Create(const std::string& name, uint32_t ranks, uint32_t rank,
                            const grtConfig_t& config, std::shared_ptr<Comm>* out);

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
  void Fail(grtResult_t code);
  void set_abandoned() { abandoned_.store(true, std::memory_order_release); }
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }

  // After a step, begin or finish in a window slot: wakes those at the other members who sleep for
  // it.
  void RingWaiters(const Port& port, uint32_t slot);
  // Wakes the workers that sleep at the other members of a port.
  void RingOthers(const Port& port);
  // Of these members of a port, those whose process has ended.
  uint64_t Dead(const Port& port, uint64_t members);
  // Of these members of a port, those whose process is stopped at this moment, as ranks.
  uint64_t StoppedRanks(const Port& port, uint64_t members) const;

  uint32_t NextChild() { return next_child_.fetch_add(1); }

 private:
  Comm(std::string name, uint32_t ranks, uint32_t rank, const grtConfig_t& config);
  grtResult_t JoinPort(const std::string& name, const PortGeometry& geometry, uint32_t me,
                       std::vector<uint32_t> members, std::shared_ptr<Port>* out);
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
