#include "interpose/entry/lifecycle.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/entry/loader.h"
#include "interpose/sources/cupti_source.h"
#include "interpose/state/handle_tables.h"
#include "interpose/state/ring_client.h"
#include "interpose/state/ring_file.h"

// Usually the compiler's start files bring it, and with them code that runs at load and unload.
// Null: what atexit() is given belongs to the program, not to a library that could be unloaded.
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;
void* __dso_handle = nullptr;

namespace gordian::interpose {

thread_local constinit ThreadLocal t_local = {0, nullptr, 0, nullptr, 0};

namespace {

constinit ForkPage g_unattached = {};
constinit std::atomic<uint64_t> g_last_epoch = 0;

// Looking for a slot asks the kernel about every thread that has one: too much for every call.
constexpr uint32_t kSkippedCalls = 1000;

// PyTorch's engine gives its threads this name before they do anything else (pt_autograd_0).
bool IsOfAutograd() {
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  return BeginsWith(name, "pt_autograd_");
}

void WipeInChild() {
  ForkPage* page = g_fork_page.load(std::memory_order_relaxed);
  if (page == &g_unattached) return;
  page->epoch.store(0, std::memory_order_relaxed);
  page->attaching.store(0, std::memory_order_relaxed);
  page->process.store(nullptr, std::memory_order_relaxed);
}

ForkPage* MakeForkPage() {
  const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const bool wiped = madvise(memory, bytes, MADV_WIPEONFORK) == 0;
  ForkPage* expected = &g_unattached;
  auto* made = static_cast<ForkPage*>(memory);
  if (!g_fork_page.compare_exchange_strong(expected, made)) {
    munmap(memory, bytes);
    return expected;
  }
  if (!wiped) pthread_atfork(nullptr, nullptr, WipeInChild);
  return made;
}

// One thread attaches the process, others wait for it a moment and go unrecorded after that.
bool AttachProcess(ForkPage* page) {
  uint32_t expected = 0;
  if (!page->attaching.compare_exchange_strong(expected, 1)) {
    for (int i = 0; i < 20000 && page->epoch.load(std::memory_order_acquire) == 0; ++i) {
      sched_yield();
    }
    // litmus: fork_page.waited
    return page->epoch.load(std::memory_order_acquire) != 0;
  }
  const uint64_t epoch = g_last_epoch.fetch_add(1) + 1;
  Process* process = CreateProcess(epoch);  // null: this process never records
  // litmus: fork_page.process
  page->process.store(process, std::memory_order_seq_cst);
  if (process != nullptr) cupti::TellState(*process);
  // litmus: fork_page.epoch
  page->epoch.store(epoch, std::memory_order_release);
  return true;
}

bool WasCollected(Process& process, uint32_t index) {
  // Acquired, as the reader is done with the records that the next owner writes over.
  // litmus: slot.collected
  const uint64_t tail = Shared(process.threads[index].ring_tail).load(std::memory_order_acquire);
  return tail == Shared(process.contexts[index].head).load(std::memory_order_relaxed);
}

// The slot's thread has ended and everything it wrote was collected.
bool IsReusable(Process& process, uint32_t index, uint32_t own_tid) {
  const uint32_t tid = process.contexts[index].tid;
  if (!WasCollected(process, index)) return false;
  if (tid == own_tid) return true;  // a number that was given again: its first owner is gone
  // The thread may have written its last record between the look and its end: looks once more.
  return syscall(SYS_tgkill, process.pid, tid, 0) != 0 && errno == ESRCH &&
         WasCollected(process, index);
}

// Its owner may be getting its ring at this moment, outside the thread_lock.
bool HasRing(ThreadContext& thread) {
  return Shared(thread.ring_slots).load(std::memory_order_relaxed) != 0;
}

// A call that leaves no trace in the state block either.
void CountUnseen(ring::Header& header) {
  Add(header.lost_records, uint64_t{1});
  Add(header.lost_calls, uint64_t{1});
}

// Under the thread_lock. *space: where the thread's ring is to be; none for a slot that has one.
ThreadContext* TakeSlot(Process& process, uint32_t tid, RingSpace* space) {
  ring::Header& header = *process.header;
  const uint32_t used = process.threads_used.load(std::memory_order_relaxed);
  uint32_t index = used;
  for (uint32_t i = 0; i < used; ++i) {
    if (HasRing(process.contexts[i]) && IsReusable(process, i, tid)) {
      index = i;
      break;
    }
  }
  if (index == ring::kMaxThreads) {
    for (uint32_t i = 0; i < used; ++i) {  // one without a ring is better than none
      if (!HasRing(process.contexts[i]) && IsReusable(process, i, tid)) {
        index = i;
        break;
      }
    }
    if (index == ring::kMaxThreads) return nullptr;
  }
  ring::ThreadSlot& slot = process.threads[index];
  ThreadContext& thread = process.contexts[index];
  const bool reused = index < used;
  if (reused) ForgetPerThreadStreams(process, index);
  const uint64_t ring_slots = reused ? thread.ring_slots : 0;
  const uint64_t work_slots = reused ? thread.work_slots : 0;
  ring::Record* records = thread.records;
  const uint64_t head = thread.head;
  const uint64_t ticks = thread.ticks;  // of its records: those to come are not earlier
  // Odd already where its thread was ended amid a change, by a signal's handler.
  const uint32_t seq = thread.seq | 1;
  __builtin_memset(&thread, 0, offsetof(ThreadContext, group_numbers));
  thread.process = &process;
  thread.header = process.header;
  thread.slot = &slot;
  thread.index = index;
  thread.tid = tid;
  thread.epoch = process.epoch;
  thread.tsc = process.tsc;
  thread.device = -1;
  thread.of_autograd = IsOfAutograd();
  thread.records = records;
  thread.ring_slots = ring_slots;
  thread.work_slots = work_slots;
  thread.head = head;
  thread.ticks = ticks;
  thread.cached_tail = head;
  thread.seq = seq + 1;
  if (!reused) *space = TakeRingSpace(process);

  // Under the sequence lock, or a reader could take the new thread for one that is in the call that
  // the old one never left.
  Put(slot.seq, seq);
  // litmus: reset.begin
  std::atomic_thread_fence(std::memory_order_release);
  Put(slot.entered, uint64_t{0});
  Put(slot.left, uint64_t{0});
  Put(slot.lost_records, uint64_t{0});
  Put(slot.call, uint16_t{0});
  Put(slot.gpu_thread, uint16_t{0});
  Put(slot.poll_object, uint64_t{0});
  Put(slot.poll_count, uint64_t{0});
  Put(slot.open_group, uint32_t{0});
  // litmus: reset.generation
  if (reused) Add(slot.generation, uint32_t{1});
  Put(slot.tid, tid);
  // litmus: reset.end
  Shared(slot.seq).store(seq + 1, std::memory_order_release);
  if (!reused) {
    process.threads_used.store(used + 1, std::memory_order_relaxed);
    Shared(header.threads_used).store(used + 1, std::memory_order_release);
  }
  return &thread;
}

}  // namespace

std::atomic<ForkPage*> g_fork_page = &g_unattached;

ThreadContext* AttachThread() {
  ErrnoKeeper keep_errno;
  // litmus: fork_page.find
  ForkPage* page = g_fork_page.load(std::memory_order_acquire);
  if (page == &g_unattached && (page = MakeForkPage()) == nullptr) return nullptr;
  // litmus: fork_page.attached
  if (page->epoch.load(std::memory_order_acquire) == 0) {
    if (!AttachProcess(page)) return nullptr;
    t_local.skip = 0;  // counted in the parent
  }
  // litmus: fork_page.use
  Process* process = page->process.load(std::memory_order_relaxed);
  const uint64_t epoch = page->epoch.load(std::memory_order_relaxed);
  ThreadContext* thread = nullptr;
  if (process != nullptr) {
    if (t_local.skip != 0) {
      --t_local.skip;
      CountUnseen(*process->header);
      return nullptr;
    }
    if (!process->thread_lock.Acquire()) {
      CountUnseen(*process->header);
      return nullptr;  // tried again at the next call
    }
    RingSpace space = {0, 0};
    thread = TakeSlot(*process, static_cast<uint32_t>(syscall(SYS_gettid)), &space);
    process->thread_lock.Release();
    if (space.bytes != 0) HandOutRing(*process, *thread, space);
    if (thread == nullptr) {
      t_local.skip = kSkippedCalls;
      CountUnseen(*process->header);
      return nullptr;
    }
  }
  t_local.context = thread;
  t_local.epoch = epoch;
  return thread;
}

void* ArenaAllocate(Process& process, size_t bytes) {
  constexpr size_t kChunk = 256 * 1024;
  bytes = (bytes + 63) & ~size_t{63};
  if (!process.arena_lock.Acquire()) return nullptr;
  void* result = nullptr;
  if (static_cast<size_t>(process.arena_end - process.arena_next) < bytes) {
    const size_t chunk = bytes > kChunk / 4 ? bytes : kChunk;
    void* memory = mmap(nullptr, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
      if (chunk == bytes) {
        result = memory;  // a large one has a mapping of its own
      } else {
        process.arena_next = static_cast<char*>(memory);
        process.arena_end = process.arena_next + chunk;
      }
    }
  }
  if (result == nullptr && process.arena_next != nullptr &&
      static_cast<size_t>(process.arena_end - process.arena_next) >= bytes) {
    result = process.arena_next;
    process.arena_next += bytes;
  }
  process.arena_lock.Release();
  return result;
}

}  // namespace gordian::interpose
