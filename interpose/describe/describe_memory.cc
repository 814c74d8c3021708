#include "interpose/describe/describe_memory.h"

#include "interpose/entry/lifecycle.h"
#include "interpose/entry/real_symbols.h"
#include "interpose/progress/gpu_progress.h"
#include "interpose/state/ring_client.h"

namespace gordian::interpose {
namespace {

// A function of the driver, looked up once it is needed; null without it.
template <typename Function>
Function* Driver(std::atomic<void*>* cached, const char* name) {
  void* found = cached->load(std::memory_order_relaxed);
  if (found == nullptr) {
    found = FindInLibrary(Library::kDriver, name);
    if (found != nullptr) cached->store(found, std::memory_order_relaxed);
  }
  return reinterpret_cast<Function*>(found);
}

// True for memory that cudaMalloc or its kin gave this process: only calls that are rows of the
// table can share it, it lies at one address only, and the host cannot write it.
bool IsOwnMemory(CUdeviceptr address) {
  ErrnoKeeper keep_errno;
  static constinit std::atomic<void*> cached = nullptr;
  auto* const ask =
      Driver<CUresult(void*, CUpointer_attribute, CUdeviceptr)>(&cached, "cuPointerGetAttribute");
  // Wide enough for whatever the driver stores: some of these are booleans.
  uint64_t type = 0, managed = 0, plain = 0;
  return ask != nullptr && ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE &&
         ask(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS && managed == 0 &&
         ask(&plain, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, address) == CUDA_SUCCESS &&
         plain != 0;
}

}  // namespace

void NoteMemoryWork(ThreadContext& thread, CallId call, uint64_t site, StreamState* stream,
                    const MemoryNote* notes, unsigned count) {
  StopPolling(thread);
  MarkGpuThread(thread);
  if (stream == nullptr || count == 0) return;
  // A graph runs it at unknown times; the launch counts as one that may write and ends by itself.
  if (__builtin_expect(thread.process->active_captures.load(std::memory_order_relaxed) != 0, 0) &&
      IsCapturing(thread, *stream)) {
    return;
  }
  uint64_t waited = 0;
  for (unsigned i = 0; i < count; ++i) {
    const MemoryNote& note = notes[i];
    const uint8_t own = note.waits && IsOwnMemory(note.address) ? ring::kMemoryOwn : uint8_t{0};
    const uint64_t ordinal =
        Shared(stream->slot->enqueued).fetch_add(1, std::memory_order_relaxed) + 1;
    const uint64_t order = NextOrder(thread);
    EndKernelRuns(thread, order);
    if (ring::Record* record = StartRecord<GivesWay::kFirst>(thread, ring::RecordKind::kPoint, call,
                                                             static_cast<uint8_t>(note.flags | own),
                                                             order, ReadTicks(thread), site)) {
      record->payload.work = {
          stream->id, note.waits ? ring::WorkKind::kMemoryWait : ring::WorkKind::kMemoryWrite,
          ordinal, note.address, note.value};
      FinishRecord(thread);
    }
    if (note.waits) waited = ordinal;
  }
  // A marker must show the end of the wait: nothing else shows that this stream can go on.
  if (waited != 0) MarkAfter(thread, *stream, waited);
}

void NoteMemoryBatch(ThreadContext& thread, CallId call, uint64_t site, StreamState* stream,
                     const CUstreamBatchMemOpParams* operations, unsigned count) {
  constexpr unsigned kAtOnce = 32;
  MemoryNote notes[kAtOnce];
  unsigned filled = 0;
  for (unsigned i = 0; operations != nullptr && i < count; ++i) {
    const CUstreamBatchMemOpParams& each = operations[i];
    const auto& wait = each.waitValue;
    const auto& write = each.writeValue;
    switch (each.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        notes[filled++] = DescribeWait(wait.address, wait.value, false, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        notes[filled++] = DescribeWait(wait.address, wait.value64, true, wait.flags);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        notes[filled++] = DescribeWrite(write.address, write.value, false);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        notes[filled++] = DescribeWrite(write.address, write.value64, true);
        break;
      default:  // flushes and barriers wait for no other writer
        break;
    }
    if (filled == kAtOnce) {
      NoteMemoryWork(thread, call, site, stream, notes, filled);
      filled = 0;
    }
  }
  NoteMemoryWork(thread, call, site, stream, notes, filled);
}

void NoteMemoryShared(ThreadContext& thread, CallId call, uint64_t site, const void* pointer,
                      size_t bytes) {
  StopPolling(thread);
  uint64_t begin = reinterpret_cast<uint64_t>(pointer);
  if (begin == 0) return;
  {
    ErrnoKeeper keep_errno;
    static constinit std::atomic<void*> cached = nullptr;
    auto* const ask =
        Driver<CUresult(CUdeviceptr*, size_t*, CUdeviceptr)>(&cached, "cuMemGetAddressRange_v2");
    CUdeviceptr base = 0;
    size_t all = 0;
    if (ask != nullptr && ask(&base, &all, begin) == CUDA_SUCCESS) {
      begin = base;
      bytes = all;
    }
  }
  if (ring::Record* record = StartRecord(thread, ring::RecordKind::kPoint, call, 0,
                                         NextOrder(thread), ReadTicks(thread), site)) {
    record->payload.work = {ring::kNoId, ring::WorkKind::kMemoryShared, 0, begin, bytes};
    FinishRecord(thread);
  }
}

}  // namespace gordian::interpose
