// What the shim knows of torch.distributed's process groups in this process, and of their operations
// that are under way. Numbers of operations are given here, whichever view of a call comes first.
#ifndef GORDIAN_INTERPOSE_TORCH_TORCH_GROUPS_H_
#define GORDIAN_INTERPOSE_TORCH_TORCH_GROUPS_H_

#include <stdint.h>

#include "interpose/state/shim_state.h"

namespace gordian::interpose {

inline constexpr uint32_t kTorchGroups = 1024;
inline constexpr uint32_t kTorchPairs = 4096;
inline constexpr uint32_t kTorchWorks = 4096;
inline constexpr uint32_t kTensorTypes = 64;

struct TorchGroup {
  std::atomic<uint32_t> comm;  // id; kNoId: free
  uint64_t object;  // c10d::ProcessGroupGloo*; 0: calls on it do not come through the shim
  std::atomic<uint64_t> calls;  // collectives so far
  uint32_t name_bytes;
  char name[60];
};

// An operation whose c10d::Work somebody holds.
struct TorchWork {
  TorchOperation operation;
  uint32_t next_free;
};

// How c10::TensorImpl lies in memory, as Python has measured it.
struct TensorLayout {
  uint32_t elements_at;         // int64_t; 0: not known
  uint32_t type_at;             // uint16_t
  uint8_t types[kTensorTypes];  // ncclDataType_t, or 255
};

struct TorchState {
  TryLock lock;  // for all but what is atomic
  TensorLayout layout;
  HandleTable<2 * kTorchGroups> by_object;
  HandleTable<2 * kTorchGroups> by_comm;
  TorchGroup groups[kTorchGroups];
  HandleTable<2 * kTorchPairs> pair_table;
  std::atomic<uint64_t> pair_calls[kTorchPairs];
  uint32_t pairs_used;
  HandleTable<2 * kTorchWorks> by_work;
  TorchWork works[kTorchWorks];
  uint32_t works_used;
  uint32_t first_free;  // 1 + its index; 0: none
};

// Null: it has none and `make` is false, or there is no memory.
TorchState* TorchStateOf(Process& process, bool make);

// Takes an id for a group. kNoId: none is left.
uint32_t AddTorchGroup(ThreadContext& thread);
void RemoveTorchGroup(Process& process, uint32_t comm);
TorchGroup* FindTorchGroup(TorchState& torch, uint32_t comm);
// Calls on the object are calls on the group from here on.
void BindTorchGroup(TorchState& torch, uint32_t comm, uint64_t object);
TorchGroup* FindTorchGroupOf(TorchState& torch, uint64_t object);

// The number of the next call of the kind on the group. False: there was no room to count.
bool TakeTorchNumber(Process& process, TorchState& torch, TorchGroup& group, TorchPart part,
                     uint64_t peer, uint64_t tag, uint64_t* number);

// Calls the communicator as the group is called in whose call the thread is.
void NameCommByTorch(ThreadContext& thread, CommState& comm);
inline void NameByTorch(ThreadContext& thread, CommState* comm) {
  if (__builtin_expect(thread.torch.comm == ring::kNoId, 1) || comm == nullptr) return;
  if (comm->torch_group == ring::kNoId) NameCommByTorch(thread, *comm);
}

// Copies the name of the group in whose call the calling thread is, as far as there is room, and
// returns its bytes; 0: none.
size_t TorchNameOfThread(char* name, size_t room);

// Whoever held the address before is gone: `*before` is what its operation was, if any.
void HoldTorchWork(Process& process, TorchState& torch, uint64_t work,
                   const TorchOperation& operation, TorchOperation* before);
TorchOperation FindTorchWork(TorchState& torch, uint64_t work);
TorchOperation DropTorchWork(TorchState& torch, uint64_t work);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_TORCH_TORCH_GROUPS_H_
