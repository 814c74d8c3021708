// An ordered set of ranks of a domain, with connector memory of its own.
//
// Thread rule: operations of one communicator must be called in the same order on all its ranks (NCCL's
// rule), sends and receives in one order for each pair; operations of different communicators in any order.
// Errors: Status; an operation that is refused has not been enqueued.
#ifndef GORDIAN_RUNTIME_CUDA_COMMUNICATOR_H_
#define GORDIAN_RUNTIME_CUDA_COMMUNICATOR_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/status.h"
#include "runtime/core/op.h"
#include "runtime/cuda/domain.h"
#include "runtime/cuda/work.h"

namespace gordian::runtime::cuda {

class Communicator {
 public:
  // No rendezvous. `index` is below DomainConfig::communicators and stands for the same `members` (ranks of
  // the domain, this one among them) on all of them, for the life of the domain.
  static Status Create(Domain* domain, int index, const std::vector<int>& members,
                       std::unique_ptr<Communicator>* made);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(members_.size()); }

  // Enqueues an operation: it begins when the stream's earlier work is done (or earlier, by help, where
  // that cannot be seen), and the stream's later work waits for it. NCCL's counts; `peer` is the root, or
  // whom to send to or receive from: another rank, a transfer with oneself is refused. Buffers as NCCL wants
  // them, in place too (not for all-to-all).
  Status Launch(OpKind kind, const void* in, void* out, uint64_t count, DataType type, Operator op, int peer,
                cudaStream_t stream);

  // Hands an operation over; no stream waits for it, and it for nothing: its input must be ready, and its
  // output free, until it is done. Never waits. Operations of one `tag` (below DomainConfig::detached_tags)
  // must be called in the same order on all ranks, those of different tags, and others, in any. May be
  // called between GroupStart and GroupEnd, and has nothing to do with the group.
  Status Detach(OpKind kind, const void* in, void* out, uint64_t count, DataType type, Operator op, int peer,
                int tag, Detached* operation);

 private:
  // `ports`: for collectives, and for sends and receives.
  Status Plan(OpKind kind, const void* in, void* out, uint64_t count, DataType type, Operator op, int peer,
              const PortLayout* ports, Work* work, Touched* touched) const;
  Communicator(Domain* domain, int index) : domain_(domain), index_(index) {}

  Domain* const domain_;
  const int index_;
  std::vector<int> members_;
  int rank_ = 0;
  Work pattern_{};  // what all operations have in common
  PortLayout ports_[2];
  std::vector<PortLayout> detached_;  // by tag, two each
};

// Regions of two ports; `bytes` is the end.
void LayOutPorts(const DomainConfig& config, uint32_t ranks, PortLayout ports[2], uint64_t* bytes);
// Behind them those of detached operations, by tag; from `*bytes` to `*bytes`.
void LayOutDetached(const DomainConfig& config, uint32_t ranks, std::vector<PortLayout>* ports, uint64_t* bytes);

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_COMMUNICATOR_H_
