// The engine of a process. Only emulator/engine includes this.
#ifndef GORDIAN_EMULATOR_ENGINE_ENGINE_IMPL_H_
#define GORDIAN_EMULATOR_ENGINE_ENGINE_IMPL_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/engine/engine.h"
#include "emulator/engine/host_waits.h"
#include "emulator/engine/job.h"
#include "emulator/engine/memory.h"
#include "emulator/engine/options.h"
#include "emulator/engine/quiescence.h"
#include "emulator/engine/scheduler.h"
#include "emulator/engine/stats.h"

namespace gordian::emu {

// The stream's work is what `last` depends on, and `last` itself.
class Stream {
 public:
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  bool legacy = false;
  TaskPtr last;
  TaskPtr last_queued;  // the latest that passes through a hardware queue

  bool Blocking() const { return !legacy && (flags & kStreamNonBlocking) == 0; }
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  bool recorded = false;
  int64_t time_ns = 0;  // when `record` is null
  TaskPtr record;       // what the event stands behind; null: nothing
};

// Never freed: a thread may still have it on its stack after its end.
struct Context {
  int device = 0;
};

class EngineImpl final : public DeviceEngine {
 public:
  static EngineImpl& Get();

  int CurrentDevice() override;
  int DeviceCount() override;
  Stream* FindStream(void* handle, int device) override;
  int DeviceOf(Stream* stream) override;
  bool IsCapturing(Stream* stream) override;
  void Enqueue(EnqueueRequest request) override;
  bool IsDone(const DeviceOp* op) override;
  void WaitDone(const std::vector<std::shared_ptr<DeviceOp>>& ops) override;
  int DoorbellFd() override;
  std::atomic<uint32_t>* Doorbell() override;
  void* Allocate(size_t bytes, int device) override;
  int Free(void* pointer) override;
  bool IsDeviceAccessible(const void* pointer, size_t bytes, int* device) override;
  void CountCall(const char* symbol) override;
  void CountMore(const std::string& name, uint64_t amount) override;
  JobState* Job() override;
  void NoteActivity() override;
  void BeginWait(HostWait* wait) override { HostWaits::Get().Begin(wait); }
  void EndWait(HostWait* wait) override { HostWaits::Get().End(wait); }

  int Initialize() override;
  bool Initialized() override;
  int PhysicalDevice(int device) override;
  int SmCount() override;
  int64_t KernelNs() override;
  size_t MemoryBytes() override;
  int SetCurrentDevice(int device) override;
  void* PrimaryContext(int device) override;
  int DeviceOfContext(void* context) override;
  void* CurrentContext() override;
  int SetCurrentContext(void* context) override;
  int PushContext(void* context) override;
  int PopContext(void** context) override;
  int CreateContext(int device, void** context) override;
  int DestroyContext(void* context) override;
  int ResetDevice(int device) override;
  int CreateStream(unsigned flags, int priority, void** handle) override;
  int DestroyStream(void* handle) override;
  int DescribeStream(void* handle, StreamInfo* info) override;
  int SynchronizeStream(void* handle) override;
  int QueryStream(void* handle) override;
  int WaitEvent(void* stream, void* event) override;
  int SynchronizeDevice(int device) override;
  int CreateEvent(unsigned flags, void** handle) override;
  int DestroyEvent(void* handle) override;
  int RecordEvent(void* event, void* stream) override;
  int QueryEvent(void* event) override;
  int SynchronizeEvent(void* event) override;
  int ElapsedTime(void* start, void* end, float* milliseconds) override;
  int LaunchKernel(void* stream, int64_t sms, int64_t duration_ns) override;
  int LaunchHostFunction(void* stream, std::function<void()> function) override;
  int Copy(const CopyRequest& request, void* stream) override;
  int Fill(const FillRequest& request, void* stream) override;
  int AllocateMemory(size_t bytes, MemoryKind kind, unsigned flags, void** pointer) override;
  int FreeDevice(void* pointer) override;
  int FreeHost(void* pointer) override;
  int FreeInStreamOrder(void* pointer, void* stream) override;
  int RegisterHost(void* pointer, size_t bytes, unsigned flags) override;
  int UnregisterHost(void* pointer) override;
  bool FindMemory(const void* pointer, Allocation* found) override;
  int MemoryInfo(size_t* free_bytes, size_t* total_bytes) override;
  int EnablePeer(int peer) override;
  int DisablePeer(int peer) override;

  void PokeMonitor() { scheduler_->PokeQuiescence(); }
  // The process exits.
  void LeaveJob();

  void BeforeFork();
  void AfterForkInParent();
  void AfterForkInChild();
  // The calling thread ends: its default streams go, their work still completes.
  void ThreadEnds(uint64_t thread);

 private:
  enum State : int { kFresh, kRunning, kBroken };

  // What is left of a destroyed stream's work.
  struct Orphan {
    TaskPtr task;
    bool blocking;
  };
  struct Device {
    std::unique_ptr<Context> primary;
    std::unique_ptr<Stream> legacy;
    TaskPtr last_launch;  // done when the last operation in launch order has started
    std::unordered_set<Stream*> streams;  // without the legacy one
    std::map<uint64_t, Stream*> per_thread;
    std::vector<Orphan> orphans;
    std::set<int> peers;
  };

  EngineImpl() = default;
  // Status for a call on `stream`. Only the default streams need a current device, and make one.
  int Prepare(void* stream) {
    if (reinterpret_cast<uintptr_t>(stream) > 2 ? Ready() : CurrentDevice() >= 0) return kSuccess;
    return Initialize();
  }
  bool Ready() { return state_.load(std::memory_order_acquire) == kRunning || Initialize() == 0; }

  // All of these under a Section.
  Stream* Resolve(void* handle, int device);
  Stream* Resolve(void* handle);  // on the current device
  Stream* PerThreadStream(int device);
  Stream* NewStream(int device, unsigned flags, int priority);
  void RetireStream(Stream* stream);
  void AddStreamDependencies(const TaskPtr& task, const Stream& stream);
  void AddDeviceDependencies(const TaskPtr& task, int device);
  // What new work on the stream would come after: nothing, one task, or (true) several.
  bool Unfinished(const Stream& stream, TaskPtr* only);
  // The stream's own work: for the legacy stream that of the blocking streams, too. A blocking
  // stream's does not include the legacy stream's, unless work of its own waits for that.
  void AddOwnWork(const TaskPtr& task, const Stream& stream);
  void SubmitOn(Stream* stream, const TaskPtr& task);
  // Not under a Section. Blocks until what `add_dependencies(task)` names is done.
  template <typename AddDependencies>
  void AwaitDependencies(AddDependencies add_dependencies);
  // Runs `work` in the stream's order: at once when the stream is idle, else on the worker thread,
  // with what `make_deferred` returns. `wait`: returns when it is done.
  int RunInOrder(void* stream, bool wait, const std::function<void()>& work,
                 const std::function<std::function<void()>()>& make_deferred);

  std::atomic<int> state_{kFresh};
  std::mutex initialize_mutex_;
  CallStats stats_;
  std::unique_ptr<Options> options_;
  std::unique_ptr<MemoryTable> memory_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<emu::Job> job_;  // null unless asked for, and in a forked child
  std::unique_ptr<Quiescence> quiescence_;
  std::vector<Device> devices_;
  std::atomic<size_t> staged_bytes_{0};     // pageable data waiting for its copy
  std::unordered_set<void*> live_streams_;  // handles given out, and per-thread streams
  std::unordered_set<void*> live_events_;
  std::unordered_set<void*> contexts_;  // live ones: primary, and made by CreateContext
  uint64_t next_stream_id_ = 1;
};

// The calling thread's contexts. The runtime API sees the top of the stack.
struct ThreadState {
  ~ThreadState();
  uint64_t id = 0;  // 0: no default stream was made
  std::vector<Context*> stack;
};
ThreadState& CurrentThread();

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_ENGINE_IMPL_H_
