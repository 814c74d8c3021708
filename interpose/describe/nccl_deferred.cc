#include "interpose/describe/nccl_deferred.h"

#include "interpose/entry/lifecycle.h"
#include "interpose/entry/real_symbols.h"
#include "interpose/progress/gpu_progress.h"
#include "interpose/state/handle_tables.h"

namespace gordian::interpose {

void Defer(ThreadContext& thread, CommState& comm, StreamState& stream) {
  constexpr uint32_t kMost = sizeof(comm.deferred) / sizeof(comm.deferred[0]);
  if (!comm.deferred_lock.Acquire()) {
    Add(thread.header->lost_markers, uint64_t{1});
    return;
  }
  const uint32_t count = comm.deferred_count.load(std::memory_order_relaxed);
  uint32_t i = 0;
  while (i < count && comm.deferred[i].id != stream.id) ++i;
  if (i == kMost) {
    Add(thread.header->lost_markers, uint64_t{1});
  } else if (i == count) {
    comm.deferred[count] = {&stream, stream.id};
    stream.deferred.fetch_add(1, std::memory_order_relaxed);
    comm.deferred_count.store(count + 1, std::memory_order_relaxed);
  }
  comm.deferred_lock.Release();
}

void FlushDeferred(ThreadContext& thread, CommState& comm) {
  CommState::Deferred deferred[sizeof(comm.deferred) / sizeof(comm.deferred[0])];
  if (!comm.deferred_lock.Acquire()) return;  // the next call or query on it tries again
  const uint32_t count = comm.deferred_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) deferred[i] = comm.deferred[i];
  comm.deferred_count.store(0, std::memory_order_relaxed);
  comm.deferred_lock.Release();
  const bool aborted = GetCommState(comm) == ring::CommState::kAborted;
  for (uint32_t i = 0; i < count; ++i) {
    StreamState& stream = *deferred[i].stream;
    if (stream.id != deferred[i].id || stream.key.load(std::memory_order_relaxed) == 0) {
      continue;  // destroyed since
    }
    if (stream.deferred.fetch_sub(1, std::memory_order_relaxed) != 1) continue;
    if (!aborted && !IsCapturing(thread, stream)) MarkBefore(thread, stream);
  }
}

void AskCommSize(Process& process, CommState& comm) {
  const uint64_t handle = comm.handle.load(std::memory_order_relaxed);
  int32_t nranks = 0;
  int32_t rank = -1;
  if (handle != 0 && AskNccl(CommQuestion::kCount, handle, &nranks) &&
      AskNccl(CommQuestion::kRank, handle, &rank)) {
    SizeComm(process, comm, nranks, rank);
  }
}

void FinishGroupInits(ThreadContext& thread, ncclResult_t result) {
  ErrnoKeeper keep_errno;
  Process& process = *thread.process;
  for (uint32_t i = 0; i < thread.group_init_count; ++i) {
    const ThreadContext::GroupInit& init = thread.group_inits[i];
    CommState& comm = *init.comm;
    if (result != ncclSuccess && result != ncclInProgress) {
      SetCommState(comm, ring::CommState::kFailed);
      continue;
    }
    if (comm.handle.load(std::memory_order_relaxed) == 0) {
      if (*init.out == nullptr) {
        ReleaseComm(process, comm);  // a split whose colour joins nothing
        continue;
      }
      BindComm(process, comm, reinterpret_cast<uint64_t>(*init.out));
    }
    if (result == ncclSuccess) {
      if (comm.nranks == 0) AskCommSize(process, comm);
      SetCommState(comm, ring::CommState::kReady);
    }
  }
  thread.group_init_count = 0;
}

}  // namespace gordian::interpose
