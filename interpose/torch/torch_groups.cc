#include "interpose/torch/torch_groups.h"

#include <string.h>

#include "interpose/entry/lifecycle.h"
#include "interpose/torch/torch_api.h"
#include "proto/ring/tagged_number.h"

namespace gordian::interpose {
namespace {

constexpr TorchOperation kNone = {ring::kNoId, kTorchCollective, 0, 0};

// HandleTable keeps 0 and 1 for itself.
uint64_t KeyOf(uint32_t comm) { return uint64_t{comm} + 2; }

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0xff51afd7ed558ccdull;
  return hash ^ hash >> 32;
}

void CountLoss(Process& process) { Add(process.header->lost_records, uint64_t{1}); }

// Under the lock, which it returns.
TorchOperation TakeOut(TorchState& torch, uint64_t work) {
  const uint32_t index = torch.by_work.Find(work);
  if (index == torch.by_work.kMissing) return kNone;
  torch.by_work.Erase(work);
  TorchWork& held = torch.works[index];
  held.next_free = torch.first_free;
  torch.first_free = index + 1;
  return held.operation;
}

}  // namespace

TorchState* TorchStateOf(Process& process, bool make) {
  TorchState* known = process.torch.load(std::memory_order_acquire);
  if (known != nullptr || !make) return known;
  auto* const made = static_cast<TorchState*>(ArenaAllocate(process, sizeof(TorchState)));
  if (made == nullptr) return nullptr;
  return process.torch.compare_exchange_strong(known, made) ? made : known;
}

uint32_t AddTorchGroup(ThreadContext& thread) {
  Process& process = *thread.process;
  TorchState* const torch = TorchStateOf(process, true);
  if (torch == nullptr || !process.comm_lock.Acquire()) return ring::kNoId;
  const uint32_t comm = ++process.next_comm_id;
  process.comm_lock.Release();
  if (!torch->lock.Acquire()) return ring::kNoId;
  uint32_t index = 0;
  while (index < kTorchGroups && torch->groups[index].comm.load(std::memory_order_relaxed) != 0) {
    ++index;
  }
  const bool room = index < kTorchGroups && torch->by_comm.Insert(KeyOf(comm), index);
  if (room) {
    TorchGroup& group = torch->groups[index];
    group.object = 0;
    group.calls.store(0, std::memory_order_relaxed);
    group.name_bytes = 0;
    group.comm.store(comm, std::memory_order_release);
  }
  torch->lock.Release();
  return room ? comm : ring::kNoId;
}

void RemoveTorchGroup(Process& process, uint32_t comm) {
  TorchState* const torch = TorchStateOf(process, false);
  TorchGroup* const group = torch != nullptr ? FindTorchGroup(*torch, comm) : nullptr;
  if (group == nullptr || !torch->lock.Acquire()) return;
  if (group->object != 0) torch->by_object.Erase(group->object);
  torch->by_comm.Erase(KeyOf(comm));
  group->comm.store(ring::kNoId, std::memory_order_relaxed);
  torch->lock.Release();
}

TorchGroup* FindTorchGroup(TorchState& torch, uint32_t comm) {
  const uint32_t index = torch.by_comm.Find(KeyOf(comm));
  return index == torch.by_comm.kMissing ? nullptr : &torch.groups[index];
}

void BindTorchGroup(TorchState& torch, uint32_t comm, uint64_t object) {
  const uint32_t index = torch.by_comm.Find(KeyOf(comm));
  if (index == torch.by_comm.kMissing || !torch.lock.Acquire()) return;
  if (const uint32_t before = torch.by_object.Find(object); before != torch.by_object.kMissing) {
    torch.groups[before].object = 0;  // the address was given again
  }
  if (torch.by_object.Insert(object, index)) torch.groups[index].object = object;
  torch.lock.Release();
}

TorchGroup* FindTorchGroupOf(TorchState& torch, uint64_t object) {
  const uint32_t index = torch.by_object.Find(object);
  return index == torch.by_object.kMissing ? nullptr : &torch.groups[index];
}

void NameCommByTorch(ThreadContext& thread, CommState& comm) {
  TorchState* const torch = TorchStateOf(*thread.process, false);
  TorchGroup* const group = torch != nullptr ? FindTorchGroup(*torch, thread.torch.comm) : nullptr;
  if (group == nullptr || group->name_bytes == 0) return;
  comm.torch_group = thread.torch.comm;
  for (size_t i = 0; i + 1 < sizeof(comm.slot->name) && i < group->name_bytes; ++i) {
    Put(comm.slot->name[i], group->name[i]);
  }
  gordian_torch_text(ring::kTorchCall_group, comm.id, group->name, group->name_bytes);
}

size_t TorchNameOfThread(char* name, size_t room) {
  const ThreadContext* const thread = CurrentThread();
  if (thread == nullptr || thread->torch.comm == ring::kNoId) return 0;
  TorchState* const torch = TorchStateOf(*thread->process, false);
  const TorchGroup* const group =
      torch != nullptr ? FindTorchGroup(*torch, thread->torch.comm) : nullptr;
  if (group == nullptr) return 0;
  const size_t bytes = group->name_bytes < room ? group->name_bytes : room;
  memcpy(name, group->name, bytes);
  return bytes;
}

bool TakeTorchNumber(Process& process, TorchState& torch, TorchGroup& group, TorchPart part,
                     uint64_t peer, uint64_t tag, uint64_t* number) {
  if (part == kTorchCollective) {
    *number = group.calls.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  const uint64_t comm = group.comm.load(std::memory_order_relaxed);
  const uint64_t key = Mix(Mix(Mix(comm, part), peer), tag) | 2;
  uint32_t index = torch.pair_table.Find(key);
  if (index == torch.pair_table.kMissing) {
    if (!torch.lock.Acquire()) return CountLoss(process), false;
    index = torch.pair_table.Find(key);
    if (index == torch.pair_table.kMissing && torch.pairs_used < kTorchPairs &&
        torch.pair_table.Insert(key, torch.pairs_used)) {
      index = torch.pairs_used++;
    }
    torch.lock.Release();
    if (index == torch.pair_table.kMissing) return CountLoss(process), false;
  }
  const uint64_t ordinal = torch.pair_calls[index].fetch_add(1, std::memory_order_relaxed);
  const uint64_t code = tag < ring::kTagsInFull
                            ? tag
                            : ring::kTagHashed | (Mix(0x746167, tag) & (ring::kTagHashed - 1));
  *number = code << ring::kTagShift | ordinal;
  return true;
}

void HoldTorchWork(Process& process, TorchState& torch, uint64_t work,
                   const TorchOperation& operation, TorchOperation* before) {
  *before = kNone;
  if (!torch.lock.Acquire()) return CountLoss(process);
  *before = TakeOut(torch, work);
  uint32_t index = UINT32_MAX;
  if (torch.first_free != 0) {
    index = torch.first_free - 1;
    torch.first_free = torch.works[index].next_free;
  } else if (torch.works_used < kTorchWorks) {
    index = torch.works_used++;
  }
  if (index != UINT32_MAX) {
    torch.works[index].operation = operation;
    torch.by_work.Insert(work, index);
  }
  torch.lock.Release();
  if (index == UINT32_MAX) CountLoss(process);
}

TorchOperation FindTorchWork(TorchState& torch, uint64_t work) {
  if (!torch.lock.Acquire()) return kNone;
  const uint32_t index = torch.by_work.Find(work);
  const TorchOperation found =
      index == torch.by_work.kMissing ? kNone : torch.works[index].operation;
  torch.lock.Release();
  return found;
}

TorchOperation DropTorchWork(TorchState& torch, uint64_t work) {
  if (torch.by_work.Find(work) == torch.by_work.kMissing || !torch.lock.Acquire()) return kNone;
  const TorchOperation dropped = TakeOut(torch, work);
  torch.lock.Release();
  return dropped;
}

}  // namespace gordian::interpose
