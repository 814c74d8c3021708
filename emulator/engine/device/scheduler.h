// Executes the work of the emulated devices: a graph of tasks, hardware queues, SMs, one worker
// thread.
//
// A task depends on other tasks and is done after them: stream order, event waits, the legacy
// stream and host waits are all dependencies. Some tasks also pass through a hardware queue in
// issue order, where one that cannot start blocks those behind it, even of other streams: kernels
// (timed ones and DeviceOps), fills, host functions, waits for values in memory, which keep their
// queue until the value is there, and writes of values with a barrier. Event records and event
// waits do not (as measured on an H200). No program signals a change of memory, so the worker polls
// it, at growing intervals. Kernels also need SMs. The worker thread runs tasks that take time or
// call foreign code (DeviceOps, copies), and wakes for timed kernels; otherwise it sleeps on the
// doorbell without a timeout. Host functions run on a thread of their device.
//
// The start of a timed kernel is virtual: the time at which its dependencies were done, not at
// which the worker noticed that. So a chain of short kernels takes the sum of their times.
//
// Times in nanoseconds of CLOCK_MONOTONIC. Threads: any; a Section holds the lock. Ownership: tasks
// are shared by their dependents and by streams and events.
#ifndef GORDIAN_EMULATOR_ENGINE_DEVICE_SCHEDULER_H_
#define GORDIAN_EMULATOR_ENGINE_DEVICE_SCHEDULER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/engine/engine_api.h"
#include "emulator/engine/process/host_threads.h"
#include "emulator/engine/process/options.h"

namespace gordian::emu {

class Quiescence;
struct Task;
using TaskPtr = std::shared_ptr<Task>;

enum class TaskKind : uint8_t {
  kMarker,        // done as soon as its dependencies are; its `work`, if any, must be short
  kTimedKernel,   // holds SMs for a time
  kDeviceOp,      // holds SMs until its DeviceOp says so
  kFill,          // runs `work` on the worker thread, once at the head of its hardware queue
  kCopy,          // the same on a copy engine: in no queue
  kHostFunction,  // runs `work` on a host thread
  kHostWait,      // wakes a host thread
  kValueWrite,    // runs `work`, which must be short, at the head of its hardware queue
  kValueWait,     // keeps the head of its hardware queue until `satisfied`
  kQueuedMarker,  // keeps its place in its hardware queue until its dependencies are done
  kForeignWait,   // until `satisfied`, which another process brings about; in no queue
};

struct Task {
  explicit Task(TaskKind task_kind) : kind(task_kind) {}

  const TaskKind kind;
  bool done = false;
  bool cancelled = false;  // ends as soon as it could start
  bool queued = false;     // in its hardware queue
  bool waited_for_sms = false;
  int pending = 0;  // dependencies that have not ended
  int device = 0;
  int queue = 0;     // hardware queue
  int priority = 0;  // lower runs first
  int sms = 1;       // number wanted
  int held_sms = 0;
  uint64_t submitted = 0;       // sequence number
  uint64_t ready_sequence = 0;  // order in which kernels became able to start
  int64_t ready_ns = 0;         // latest of submission and the dependencies' ends
  int64_t done_ns = 0;
  int64_t duration_ns = 0;  // timed kernels
  std::vector<TaskPtr> dependents;
  std::shared_ptr<DeviceOp> op;
  std::shared_ptr<Task> at_start;  // a marker that is done when this task starts
  std::function<void()> work;
  std::shared_ptr<void> keep;       // until the task is done
  std::function<bool()> satisfied;  // waits for memory; called under the lock
  bool polled = false;              // the worker polls it
  std::atomic<uint32_t> signal{0};  // host waits
};

class Scheduler {
 public:
  explicit Scheduler(const Options& options);
  Scheduler(const Scheduler&) = delete;
  // No destructor stops the threads: the scheduler lives as long as its process.

  // Holds the lock. Its end starts everything that became possible, and wakes the worker if it has
  // work.
  class Section {
   public:
    explicit Section(Scheduler& scheduler);
    ~Section();
    Section(const Section&) = delete;

   private:
    Scheduler& scheduler_;
  };

  // --- Under a Section ---
  // `task`, which is not submitted yet, waits for `dependency` (null and done ones count as done).
  static void AddDependency(const TaskPtr& task, const TaskPtr& dependency);
  // After the last AddDependency. Enters its hardware queue here.
  void Submit(const TaskPtr& task);
  // Ends the timed kernels whose time has come, so that a query sees them done.
  void CatchUp();
  // The task of a DeviceOp that is not done yet; null otherwise.
  TaskPtr FindOp(const DeviceOp* op) const;
  // The device's emptiest hardware queue: what a stream without queued work uses next.
  int ChooseQueue(int device);
  // Whether tasks of this kind go through a hardware queue.
  static bool PassesQueue(const Task& task);
  // True if work submitted now could start at once, apart from its stream.
  bool HasFreeQueue(int device);

  // Destroys it when the lock has been released.
  void Bury(std::shared_ptr<void> object) {
    touched_ = true;
    dead_.push_back(std::move(object));
  }

  // --- Not under a Section ---
  // As Engine::AwaitReleased.
  void AwaitReleased();
  // Blocks the calling thread until a submitted kHostWait is done.
  static void Await(const TaskPtr& host_wait);
  // Makes a device's kernels end: queued ones never start, resident ones are cancelled. They are
  // done soon after.
  void CancelKernels(int device);

  // For the quiescence report. True while the worker sleeps and only a peer can change that.
  bool IsIdle();
  struct OperationView {
    std::shared_ptr<DeviceOp> op;
    int device = 0;
    bool started = false;
    std::vector<size_t> holds;  // indices of the host waits that come after it
  };
  std::vector<OperationView> LookAtOperations(const std::vector<const void*>& waits);
  void SetQuiescence(Quiescence* quiescence) { quiescence_.store(quiescence); }
  void PokeQuiescence();
  void NoteActivity();

  int doorbell_fd() const { return doorbell_fd_; }
  std::atomic<uint32_t>* doorbell() const { return doorbell_; }

 private:
  struct Queue {
    std::deque<TaskPtr> tasks;
    int64_t last_start_ns = 0;
  };
  struct DeviceState {
    int free_sms = 0;
    int64_t sms_freed_ns = 0;
    bool changed = false;  // a kernel may be able to start
    std::vector<Queue> queues;
  };
  struct Timer {
    int64_t deadline_ns;
    TaskPtr task;
    bool operator<(const Timer& other) const { return deadline_ns > other.deadline_ns; }
  };

  // A number below `count`: 0 without a seed.
  size_t Choose(size_t count);
  void OnReady(const TaskPtr& task);
  void Finish(const TaskPtr& task, int64_t when_ns);
  void Settle();
  void StartKernels(int device);
  bool StartWithoutSms(int device);
  bool StartKernel(int device);
  void Dispatch(const TaskPtr& task);
  void AskForPolls(const TaskPtr& task);
  bool PollMemory();
  void RunTimers(int64_t now_ns);
  bool WorkerIsNeeded() const;
  void StartWorker();
  void WorkerMain();
  void RunStarts(std::unique_lock<std::mutex>& lock);
  void PollResident(std::unique_lock<std::mutex>& lock);
  void RunCancels(std::unique_lock<std::mutex>& lock);

  const Options options_;
  int doorbell_fd_ = -1;
  std::atomic<uint32_t>* doorbell_ = nullptr;

  // Takes the dead objects under the lock; destroys them without it.
  std::vector<std::shared_ptr<void>> TakeDead();
  void Release(std::vector<std::shared_ptr<void>> dead);

  std::mutex mutex_;
  std::vector<DeviceState> devices_;
  std::vector<TaskPtr> finished_;            // done; dependents still to notify
  std::deque<TaskPtr> to_run_;               // for the worker: copies, DeviceOps to start
  std::vector<TaskPtr> resident_;            // DeviceOps that started and are not done
  std::vector<TaskPtr> polled_;              // waits for memory that could be satisfied now
  std::vector<Timer> timers_;                // heap
  std::vector<std::shared_ptr<void>> dead_;  // to be destroyed without the lock
  int releasing_ = 0;                        // threads that destroy some
  std::unordered_map<const DeviceOp*, TaskPtr> ops_;
  uint64_t next_ready_sequence_ = 0;
  uint64_t next_submitted_ = 0;
  uint32_t polled_bell_ = 0;  // the doorbell's value at the last poll of the resident ones
  std::atomic<Quiescence*> quiescence_{nullptr};
  std::minstd_rand random_;      // free choices, with GORDIAN_EMU_SEED
  uint64_t cancels_asked_ = 0;   // bit per device
  bool polls_asked_ = false;     // polled_ grew
  bool values_written_ = false;  // by a task
  bool touched_ = false;         // something was submitted or finished in this Section
  bool worker_started_ = false;
  int64_t worker_wakes_ns_ = 0;  // 0: awake; INT64_MAX: sleeps without a timeout
  std::vector<std::unique_ptr<HostThread>> host_threads_;  // by device
};

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_DEVICE_SCHEDULER_H_
