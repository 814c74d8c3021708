// Groups: what ncclGroupStart collects and the outermost ncclGroupEnd does. A call outside of a
// group is a group of one.
#ifndef GORDIAN_EMULATOR_NCCL_GROUP_H_
#define GORDIAN_EMULATOR_NCCL_GROUP_H_

#include <functional>
#include <memory>

#include "emulator/nccl/comm.h"

namespace gordian::emu::nccl {

// Of the calling thread.
ncclResult_t GroupStart();
ncclResult_t GroupEnd();
// Ends the group without doing anything of it; estimates its time from the bytes.
ncclResult_t GroupSimulate(float* estimated_us);

// Both do their work at once when no group is open, else at its end. ncclInProgress when that
// happens on another thread (non-blocking communicators).
ncclResult_t SubmitOperation(const std::shared_ptr<Comm>& comm, const Operation& operation);
ncclResult_t SubmitRma(const std::shared_ptr<Comm>& comm, const RmaOperation& operation);
// Host work that waits for other members: init, split, shrink, finalize. Jobs with the same `order`
// (their parent, say) run one after the other, others at the same time. The state of `comm` becomes
// the result.
ncclResult_t SubmitJob(const std::shared_ptr<Comm>& comm, const void* order,
                       std::function<ncclResult_t()> run);

// A call inside the open group failed: its end will fail with the same result. Returns `result`.
ncclResult_t NoteInGroup(ncclResult_t result);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_GROUP_H_
