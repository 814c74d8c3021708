// What torch_api.cc exports to the front end and to the other files of this folder.
#ifndef GORDIAN_INTERPOSE_TORCH_TORCH_API_H_
#define GORDIAN_INTERPOSE_TORCH_TORCH_API_H_

#include <stdint.h>

#include "interpose/state/shim_state.h"

#define GORDIAN_API extern "C" __attribute__((visibility("default")))

GORDIAN_API uint64_t gordian_torch_operation(uint32_t call, uint32_t comm, int32_t root_or_peer,
                                             uint64_t count, uint32_t types, uint64_t tag,
                                             uint64_t site);
GORDIAN_API void gordian_torch_wait(uint32_t call, uint32_t comm, uint64_t number, uint32_t part,
                                    uint64_t peer, uint64_t site);
GORDIAN_API void gordian_torch_waited(uint32_t call, int32_t result);
GORDIAN_API void gordian_torch_seen(uint32_t call, uint32_t comm, uint64_t sequence, uint32_t part,
                                    uint64_t peer, uint64_t site);
GORDIAN_API void gordian_torch_text(uint32_t call, uint64_t subject, const char* text,
                                    uint64_t bytes);

namespace gordian::interpose {

// Shorter limits of a wait are the program's own way to go on.
inline constexpr int64_t kLongLimitMs = 300'000;

// The thread is in a call of torch.distributed on the group (kNoId: not known), at this line of the
// job, until LeaveTorchCall. `recorded`: the front end records what it does. `runs_others`: calls of
// Python inside count for themselves. `outer` is what the thread was in, for LeaveTorchCall.
void EnterTorchCall(uint32_t comm, uint64_t site, bool recorded, bool runs_others,
                    TorchCall* outer);
// Whether this thread is in one.
bool WithinTorchCall();
// `failed`: by an exception, so that an operation that it has issued is nothing to wait for.
void LeaveTorchCall(bool failed, const TorchCall& outer);

// An operation is about to be issued; nothing waits for it yet. `types`: the data type, and the
// operator in the next byte, as OperationPayload has them.
void RecordTorchOperation(ThreadContext& thread, uint32_t call, uint32_t comm, uint64_t number,
                          int32_t root_or_peer, uint64_t count, uint32_t types, uint64_t site,
                          bool with_all = false);
// The operation is done, or no thread can wait for it any more.
void SeeTorchOperation(ThreadContext& thread, const TorchOperation& operation);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_TORCH_TORCH_API_H_
