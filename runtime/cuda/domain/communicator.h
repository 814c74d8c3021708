// An ordered set of ranks of a domain, with connector memory of its own.
//
// Thread rule: operations of one communicator must be called in the same order on all its ranks
// (NCCL's rule), sends and receives in one order for each pair; operations of different
// communicators in any order. Errors: Status; an operation that is refused has not been enqueued.
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

// Knows which memory of the program all other members have mapped. Any thread.
class OutputReach {
 public:
  virtual ~OutputReach() = default;
  // Where they find [begin, end), as an address of the range that this rank's region lies in. 0:
  // nowhere.
  virtual uintptr_t Find(uintptr_t begin, uintptr_t end) = 0;
  // Keeps it mapped for as long as the result is held, even if its registration ends. Any thread
  // may let go of it, a thread of CUDA too.
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
  // No rendezvous. `index` is below DomainConfig::communicators and stands for the same `members`
  // (ranks of the domain, this one among them) on all of them, for the life of the domain.
  static Status Create(Domain* domain, int index, const std::vector<int>& members,
                       std::unique_ptr<Communicator>* made);
  // Over memory that the caller has mapped. `regions`: each member's, as mapped here, zero at
  // first, of RegionBytes(). `offers`: all members have memory that the others map too, at the same
  // distance from their regions; this one's is `heap`, of heap_bytes. `number`: another one for
  // each in the life of the domain. `failed`: a word in mapped host memory, 0 at first, which
  // members may share; the same word as the device sees it.
  struct Place {
    uint32_t number = 0;
    uint16_t tag = 0;  // equal on all members; others' may be, too
    int rank = 0;
    std::vector<char*> regions;
    bool offers = false;
    char* heap = nullptr;
    uint64_t heap_bytes = 0;
    // For memory that gets reachable later. Set on all members or on none. Of the kinds in which
    // each member waits for all others anyway, receivers may offer it whatever `offers` says.
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
  // where that cannot be seen), and the stream's later work waits for it. A stream that is captured
  // gets it into its graph, and every launch of that carries it out, with the buffers and the
  // scalar of this call; `captured` says so. The launches count as calls: their order is to be the
  // same on all ranks. No such graph may be launched after the communicator's end.
  Status Launch(const OpCall& call, cudaStream_t stream, bool* captured = nullptr);
  // Whether every launch of such graphs so far is through with it. Never waits.
  bool IsReplayed() const;

  // Why the communicator has failed: members called different operations, or another rank aborted
  // it. Then no member begins another operation, and enqueued ones leave their outputs unchanged.
  Failure failure() const;
  // Operations called so far whose output the other members may write directly.
  uint64_t direct() const { return direct_.load(std::memory_order_relaxed); }
  // Notes in Place::failed that the process of a member has ended, which is a failure only for
  // members that wait.
  static void NotePeerGone(uint32_t* failed);
  // This rank's waiting kernels leave, and tell the other members' kernels. Any thread; never
  // waits.
  void Abort();

  // Hands an operation to the worker. No stream waits for it, and it waits for none: until it is
  // done its input must be ready and its output free. Never waits. Operations of one `tag` (below
  // DomainConfig::detached_tags) must be called in the same order on all ranks, those of different
  // tags, and others, in any; of those that could go on the ones of a lower `priority` do first.
  // May be called between GroupStart and GroupEnd, and has nothing to do with the group.
  Status Detach(const OpCall& call, int tag, Detached* operation, uint32_t priority = 0);
  // The same, to be handed over with others (Worker::SubmitBehind). `any`: there is something to
  // do.
  Status PlanDetached(const OpCall& call, int tag, uint32_t priority, WorkerOperation* operation,
                      bool* any);

 private:
  // `ports`: for collectives, and for sends and receives.
  Status Plan(const OpCall& call, const PortLayout* ports, Work* work, Touched* touched);
  Communicator(Domain* domain, uint32_t number) : domain_(domain), number_(number) {}
  uint64_t LayOutRegion();  // its bytes
  // Of the worker's: of collectives, or of sends and receives.
  uint64_t DetachedPort(int tag, bool pairs) const;

  Domain* const domain_;
  const uint32_t number_;
  bool ends_number_ = false;  // it stands for no communicator after this one
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

// Regions of two ports; `bytes` is the end.
void LayOutPorts(const DomainConfig& config, uint32_t ranks, PortLayout ports[2], uint64_t* bytes);
// Behind them those of detached operations, by tag; from `*bytes` to `*bytes`.
void LayOutDetached(const DomainConfig& config, uint32_t ranks, std::vector<PortLayout>* ports,
                    uint64_t* bytes);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DOMAIN_COMMUNICATOR_H_
