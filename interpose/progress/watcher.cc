// The watcher: one thread per process that queries the oldest markers and answers the collector's
// rounds. It calls nothing that can wait for the GPU, holds no lock, takes no signal, and makes no
// context. Without outstanding work it wakes 20 times a second.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose/entry/glibc_floor.h"
#include "interpose/entry/lifecycle.h"
#include "interpose/progress/driver_api.h"
#include "interpose/progress/gpu_progress.h"
#include "interpose/progress/graph_markers.h"
#include "interpose/route/collectives.h"
#include "interpose/state/ring_client.h"
#include "interpose/state/ring_file.h"

GORDIAN_BIND_FIRST_VERSION(pthread_create);
GORDIAN_BIND_FIRST_VERSION(pthread_detach);
GORDIAN_BIND_FIRST_VERSION(pthread_attr_setstacksize);

namespace gordian::interpose {
namespace {

constexpr long kMillisecond = 1000000;
constexpr long kIdleSleepNs = 50 * kMillisecond;
constexpr long kShortestSleepNs = 1 * kMillisecond;
constexpr long kMovingSleepNs = 5 * kMillisecond;
constexpr long kHousekeepingNs = 500 * kMillisecond;

constinit std::atomic<uint32_t> g_exit_hooked = 0;

struct PollResult {
  bool outstanding = false;  // some marker is not done
  bool moved = false;        // some marker became done
  bool pressed = false;      // some queue is more than half full
};

// Queries one event, with its stream's context current. Any answer but "done" and "not yet" means
// that the context is gone or has failed, and gives no more evidence.
enum class Answer { kDone, kNotYet, kFailed };
Answer Query(const Marker& marker) {
  switch (g_driver.event_query(static_cast<CUevent>(marker.event))) {
    case CUDA_SUCCESS:
      return Answer::kDone;
    case CUDA_ERROR_NOT_READY:
      return Answer::kNotYet;
    default:
      return Answer::kFailed;
  }
}

// Markers of a stream complete in order: look at the oldest, and if that one is done, find the last
// done one by bisection, so that a long burst costs a handful of queries.
void PollStream(Process& process, StreamState& stream, MarkerQueue& queue, PollResult* result) {
  const uint64_t tail = queue.tail.load(std::memory_order_relaxed);
  // litmus: markers.head
  const uint64_t head = queue.head.load(std::memory_order_acquire);
  // In one order with watcher_busy: a thread that breaks the queue waits until the watcher is idle.
  // litmus: busy.broken
  if (tail == head || queue.broken.load(std::memory_order_seq_cst) != 0) return;
  if (g_driver.context_set_current != nullptr) {
    g_driver.context_set_current(static_cast<CUcontext>(queue.context));
  }
  uint64_t done_slots = tail;  // every slot below is done
  uint64_t done_ordinal = 0;
  uint64_t open = head;  // no slot from here on is known to be done
  uint64_t at = tail;
  while (done_slots < open) {
    const Marker& marker = queue.ring[at % kMarkersPerStream];
    // litmus: markers.covered
    const uint64_t covered = marker.covered.load(std::memory_order_acquire);
    const Answer answer = Query(marker);
    if (answer == Answer::kFailed) {
      queue.broken.store(1, std::memory_order_release);
      Add(process.header->lost_markers, head - tail);
      return;
    }
    if (answer == Answer::kDone) {
      done_slots = at + 1;
      done_ordinal = covered;
    } else {
      open = at;
    }
    at = done_slots + (open - done_slots) / 2;
  }
  if (done_slots != tail) {
    result->moved = true;
    if (done_ordinal > Shared(stream.slot->done).load(std::memory_order_relaxed)) {
      // litmus: markers.done
      Shared(stream.slot->done).store(done_ordinal, std::memory_order_release);
    }
    // After `done`: once the slot counts as drained, its stream's place may be given away.
    // litmus: markers.tail
    queue.tail.store(done_slots, std::memory_order_release);
  }
  if (done_slots != head) result->outstanding = true;
  if (head - done_slots > kMarkersPerStream / 2) result->pressed = true;
}

// The head is the work after the last ordinal that is done, if there is any.
void PublishHead(const StreamState& stream) {
  ring::StreamSlot& slot = *stream.slot;
  const uint64_t enqueued = Shared(slot.enqueued).load(std::memory_order_relaxed);
  const uint64_t done = Shared(slot.done).load(std::memory_order_relaxed);
  const uint64_t head = done < enqueued ? done + 1 : done;
  if (Shared(slot.head).load(std::memory_order_relaxed) != head) {
    Shared(slot.head).store(head, std::memory_order_release);
  }
}

// Returns false if the evidence is not fresh: the process is exiting and the driver may be gone.
// `asked`: a round waits for the answer.
bool Poll(Process& process, bool asked, PollResult* result) {
  const uint32_t used = process.streams_used.load(std::memory_order_acquire);
  const bool driver = DriverKnown();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool exchanged = false;
  // litmus: busy.begin
  process.watcher_busy.store(1, std::memory_order_seq_cst);
  bool fresh = true;
  for (uint32_t i = 0; i < used; ++i) {
    StreamState& stream = process.stream_states[i];
    MarkerQueue* queue = stream.markers.load(std::memory_order_acquire);
    if (queue == nullptr || !driver) continue;
    // litmus: busy.exiting
    if (process.exiting.load(std::memory_order_seq_cst) != 0) {
      fresh = fresh && (queue->tail.load(std::memory_order_relaxed) ==
                        queue->head.load(std::memory_order_acquire));
      continue;
    }
    if (!exchanged && g_driver.exchange_capture_mode != nullptr) {
      // A query during another thread's global-mode capture would invalidate that capture.
      exchanged = g_driver.exchange_capture_mode(&mode) == CUDA_SUCCESS;
    }
    PollStream(process, stream, *queue, result);
    PublishHead(stream);
  }
  if (asked && driver && process.graph_launches.load(std::memory_order_relaxed) != 0 &&
      process.exiting.load(std::memory_order_seq_cst) == 0) {
    if (!exchanged && g_driver.exchange_capture_mode != nullptr) {
      exchanged = g_driver.exchange_capture_mode(&mode) == CUDA_SUCCESS;
    }
    PublishGraphProgress(process);
  }
  if (exchanged && process.exiting.load(std::memory_order_seq_cst) == 0) {
    g_driver.exchange_capture_mode(&mode);
  }
  // litmus: busy.end
  process.watcher_busy.store(0, std::memory_order_seq_cst);
  return fresh;
}

// The main thread has ended by pthread_exit and only the watcher is left: the process waits for it.
bool IsLastThread() {
  const int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[1024];
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0) return false;
  text[length] = '\0';
  const char* at = strrchr(text, ')');
  if (at == nullptr || at[1] != ' ' || at[2] != 'Z') return false;
  for (int field = 2; field < 20; ++field) {
    at = strchr(at + 1, ' ');
    if (at == nullptr) return false;
  }
  return (at[1] == '1' || at[1] == '2') && at[2] == ' ';
}

void Sleep(Process& process, uint32_t seen_request, long nanoseconds) {
  const timespec timeout = {0, nanoseconds};
  // Shared, not private: the collector wakes it through its own mapping of the file.
  syscall(SYS_futex, &process.header->round_request, FUTEX_WAIT, seen_request, &timeout, nullptr,
          0);
}

void* Watch(void* argument) {
  Process& process = *static_cast<Process*>(argument);
  ring::Header& header = *process.header;
  prctl(PR_SET_NAME, "gordian-watch");
  // Calls of the driver or the loader on this thread are never the job's.
  t_local.depth = 1;
  Shared(header.watcher_tid)
      .store(static_cast<uint32_t>(syscall(SYS_gettid)), std::memory_order_release);
  long sleep_ns = kShortestSleepNs;
  long slept_ns = 0;
  uint32_t housekeepings = 0;
  uint32_t refine_at = 1;
  for (;;) {
    process.watcher_ticks.store(ReadClock(process.tsc), std::memory_order_relaxed);
    // What the kernel compares before it sleeps (Sleep). What the collector did before it asked
    // comes before the queries.
    // litmus: round.seen
    const uint32_t request = Shared(header.round_request).load(std::memory_order_acquire);
    PollResult result;
    const bool asked = request != Shared(header.round_answer).load(std::memory_order_relaxed);
    if (asked) TellEarly(header);
    if (Poll(process, asked, &result)) {
      // litmus: round.answer
      Shared(header.round_answer).store(request, std::memory_order_release);
    }
    if (result.pressed) {
      sleep_ns = kShortestSleepNs;
    } else if (result.moved) {
      sleep_ns = kMovingSleepNs;
    } else if (result.outstanding) {
      sleep_ns = sleep_ns * 2 < kIdleSleepNs ? sleep_ns * 2 : kIdleSleepNs;
    } else {
      sleep_ns = kIdleSleepNs;
    }
    slept_ns += sleep_ns;
    if (slept_ns >= kHousekeepingNs) {
      slept_ns = 0;
      if (IsLastThread()) {
        Shared(header.watcher_tid).store(0u, std::memory_order_release);
        return nullptr;
      }
      // The ratio gets better with the baseline: at first often, then every five minutes.
      if (++housekeepings >= refine_at) {
        RefineClock(process);
        refine_at = housekeepings + (housekeepings < 600 ? housekeepings : 600);
      }
    }
    Sleep(process, request, sleep_ns);
  }
}

// After this the libraries that the watcher calls are torn down. Bounded: a query takes
// microseconds.
void StopQueries() {
  ForkPage* page = g_fork_page.load(std::memory_order_acquire);
  // litmus: fork_page.stop
  Process* process = page->process.load(std::memory_order_acquire);
  if (process == nullptr) return;
  // litmus: busy.exit
  process->exiting.store(1, std::memory_order_seq_cst);
  const timespec pause = {0, kMillisecond / 10};
  // litmus: busy.exit_wait
  for (int i = 0; i < 500 && process->watcher_busy.load(std::memory_order_seq_cst) != 0; ++i) {
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

void WakeWatcher(Process& process) {
  syscall(SYS_futex, &process.header->round_request, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void StartWatcher(Process& process) {
  ErrnoKeeper keep_errno;
  if (process.watcher_started.exchange(1, std::memory_order_relaxed) != 0) return;
  // A forked child does not search again for a driver that its parent found.
  if (MarkersOn(process)) Put(process.header->markers_enabled, uint32_t{1});
  if (g_exit_hooked.exchange(1) == 0) atexit(StopQueries);
  // All signals but the two that glibc needs in every thread (32: cancellation, 33: setuid and kin;
  // setuid() waits for every thread to take the latter).
  const uint64_t blocked = ~(uint64_t{3} << 31);
  uint64_t before = 0;
  if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, &before, sizeof(blocked)) != 0) return;
  // Threads get stacks of the limit's size (ulimit -s), which may be less than the driver takes.
  constexpr size_t kLeastStack = 1 << 20;
  rlimit limit;
  pthread_attr_t attributes;
  const bool small = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kLeastStack &&
                     pthread_attr_init(&attributes) == 0;
  if (small) pthread_attr_setstacksize(&attributes, kLeastStack);
  pthread_t thread;
  if (pthread_create(&thread, small ? &attributes : nullptr, Watch, &process) == 0) {
    pthread_detach(thread);
  }
  if (small) pthread_attr_destroy(&attributes);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
}

}  // namespace gordian::interpose
