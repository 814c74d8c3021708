// A communicator of a domain: an ordered set of ranks with connector memory of its own, which plans
// operations and enqueues them on streams or hands them to the worker.
//
// Thread rule: any thread, but the caller orders the calls: all members call a communicator's
// collectives in the same order, and each pair its sends and receives in one order (NCCL's rule);
// operations of different communicators come in any order. Sizes in bytes, counts in elements.
// Ownership: the domain outlives its communicators; regions and buffers are the caller's. Errors:
// Status; a refused operation has not been enqueued.
#ifndef GORDIAN_RUNTIME_CUDA_DOMAIN_COMMUNICATOR_H_
#define GORDIAN_RUNTIME_CUDA_DOMAIN_COMMUNICATOR_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/status.h"
#include "runtime/core/op.h"
#include "runtime/cuda/domain/domain.h"
#include "runtime/cuda/protocol/work.h"

namespace gordian::runtime::cuda {

// Knows which memory of the program all other members have mapped. Any thread may call it.
class OutputReach {
 public:
  virtual ~OutputReach() = default;
  // Where the other members find [begin, end): an address in the range that holds this rank's
  // region. 0: they have not mapped it.
  virtual uintptr_t Find(uintptr_t begin, uintptr_t end) = 0;
  // Keeps the memory mapped while the caller holds the result, even if its registration ends. Any
  // thread may release the result, a thread of CUDA too.
  virtual std::shared_ptr<void> Hold(uintptr_t begin, uintptr_t end) = 0;
};

// One call of an operation, with NCCL's counts and NCCL's rules for buffers, in place too (not for
// all-to-all).
struct OpCall {
  OpKind kind = OpKind::kNone;
  const void* in = nullptr;
  void* out = nullptr;
  uint64_t count = 0;
  DataType type = DataType::kFloat;
  Operator op = Operator::kSum;
  int peer = 0;         // the root, or the rank to send to or receive from, never the caller's own
  uint64_t scalar = 0;  // of PreMulSum: the bits of one element
};

class Communicator {
 public:
  // Makes a communicator of `members` (ranks of the domain, this one among them) without a
  // rendezvous. `index`, below DomainConfig::communicators, stands for the same members on all of
  // them, for the life of the domain.
  static Status Create(Domain* domain, int index, const std::vector<int>& members,
                       std::unique_ptr<Communicator>* made);
  // For CreateAt, over memory that the caller has mapped. `regions`: each member's, as mapped here,
  // zero at first, of RegionBytes(). `offers`: all members have memory that the others map too, at
  // the same distance from their regions; this one's is `heap`, of heap_bytes. `number`: no two
  // communicators of a domain have the same. `failed`: a word in mapped host memory, 0 at first,
  // which members may share; `failed_on_device`: the same word's address for the device.
  struct Place {
    uint32_t number = 0;
    uint16_t tag = 0;  // equal on all members; need not be unique
    int rank = 0;
    std::vector<char*> regions;
    bool offers = false;
    char* heap = nullptr;
    uint64_t heap_bytes = 0;
    // For memory that members map later. All members set it, or none. Receivers may offer such
    // memory, whatever `offers` says, in operations in which each member waits for all others
    // anyway.
    OutputReach* reach = nullptr;
    uint32_t* failed = nullptr;
    uint32_t* failed_on_device = nullptr;
  };
  static Status CreateAt(Domain* domain, const Place& place, std::unique_ptr<Communicator>* made);
  static uint64_t RegionBytes(const DomainConfig& config, uint32_t ranks);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // Enqueues an operation: it begins when the stream's earlier work is done (or earlier, by help,
  // if the program cannot see the difference), and the stream's later work waits for it. On a
  // captured stream it becomes part of the graph, and *captured is true: each launch of the graph
  // carries it out with the buffers and the scalar of this call. Launches count as calls: all ranks
  // make them in the same order. The program must not launch such a graph after the communicator's
  // end.
  Status Launch(const OpCall& call, cudaStream_t stream, bool* captured = nullptr);
  // Whether all launches of such graphs so far have finished the communicator's operations. Never
  // waits.
  bool IsReplayed() const;

  // Why the communicator has failed: members called different operations, or a rank aborted it.
  // After that no member begins another operation, and enqueued ones leave their outputs unchanged.
  Failure failure() const;
  // Operations called so far whose output the other members may write directly.
  uint64_t direct() const { return direct_.load(std::memory_order_relaxed); }
  // Writes into Place::failed that the process of a member has ended. Members fail by that only if
  // they wait for it.
  static void NotePeerGone(uint32_t* failed);
  // Makes this rank's waiting kernels leave, which make the other members' kernels leave. Any
  // thread; never waits.
  void Abort();

  // Hands an operation to the worker. No stream waits for it, and it waits for none: the caller has
  // its input ready and leaves input and output alone until it is done. Never waits. All ranks call
  // the operations of one `tag` (below DomainConfig::detached_tags) in the same order, those of
  // different tags, and other operations, in any. Of operations that are ready the worker serves
  // those of a lower `priority` first. A call between GroupStart and GroupEnd is not part of the
  // group.
  Status Detach(const OpCall& call, int tag, Detached* operation, uint32_t priority = 0);
  // Plans the same operation for Worker::SubmitBehind, which hands several over at once. *any is
  // false if there is nothing to do.
  Status PlanDetached(const OpCall& call, int tag, uint32_t priority, WorkerOperation* operation,
                      bool* any);

 private:
  // `ports`: for collectives, and for sends and receives.
  Status Plan(const OpCall& call, const PortLayout* ports, Work* work, Touched* touched);
  Communicator(Domain* domain, uint32_t number) : domain_(domain), number_(number) {}
  uint64_t LayOutRegion();  // its bytes
  // The worker's number of the tag's port: for collectives, or (`pairs`) for sends and receives.
  uint64_t DetachedPort(int tag, bool pairs) const;

  Domain* const domain_;
  const uint32_t number_;
  bool ends_number_ = false;  // no later communicator gets its number: the domain may forget it
  uint32_t* failed_ = nullptr;
  int rank_ = 0;
  int ranks_ = 0;
  bool offers_ = false;
  OutputReach* reach_ = nullptr;
  std::atomic<uint64_t> direct_{0};
  uintptr_t heap_begin_ = 0, heap_end_ = 0;
  Work pattern_{};  // what all operations have in common
  PortLayout ports_[2];
  std::vector<PortLayout> detached_;  // by tag, two each
};

// Lays out the two ports of a communicator from the region's start; *bytes is their end.
void LayOutPorts(const DomainConfig& config, uint32_t ranks, PortLayout ports[2], uint64_t* bytes);
// Lays out the ports of detached operations, by tag, from *bytes on, and advances *bytes.
void LayOutDetached(const DomainConfig& config, uint32_t ranks, std::vector<PortLayout>* ports,
                    uint64_t* bytes);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DOMAIN_COMMUNICATOR_H_
