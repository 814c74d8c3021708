// Groups: ncclGroupStart collects, and the outermost ncclGroupEnd runs. A call outside of a group
// is a group of one.
#ifndef GORDIAN_EMULATOR_NCCL_OPERATION_GROUP_H_
#define GORDIAN_EMULATOR_NCCL_OPERATION_GROUP_H_

#include <functional>
#include <memory>

#include "emulator/nccl/comm/comm.h"

namespace gordian::emu::nccl {

// These refer to the calling thread's group.
ncclResult_t GroupStart();
ncclResult_t GroupEnd();
// Ends the group without running it; estimates its time from the bytes.
ncclResult_t GroupSimulate(float* estimated_us);

// Both run at once if no group is open, else at its end. ncclInProgress if another thread runs them
// (non-blocking communicators).
ncclResult_t SubmitOperation(const std::shared_ptr<Comm>& comm, const Operation& operation);
ncclResult_t SubmitRma(const std::shared_ptr<Comm>& comm, const RmaOperation& operation);
// Host work that waits for other members: init, split, shrink, finalize. Jobs with the same `order`
// (their parent, for example) run one after the other, others in parallel. The result becomes the
// state of `comm`.
ncclResult_t SubmitJob(const std::shared_ptr<Comm>& comm, const void* order,
                       std::function<ncclResult_t()> run);

// Makes the end of the open group, in which a call failed, fail with the same result. Returns
// `result`.
ncclResult_t NoteInGroup(ncclResult_t result);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_OPERATION_GROUP_H_
