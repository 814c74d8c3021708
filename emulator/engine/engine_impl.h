// The engine of a process: implements engine.h over the scheduler, memory and graphs. Only
// emulator/engine includes this.
//
// Threads: any; the scheduler's Section is the lock. Ownership: one engine a process, never
// destroyed. Errors: Status numbers.
#ifndef GORDIAN_EMULATOR_ENGINE_ENGINE_IMPL_H_
#define GORDIAN_EMULATOR_ENGINE_ENGINE_IMPL_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/engine/device/scheduler.h"
#include "emulator/engine/engine.h"
#include "emulator/engine/memory/memory.h"
#include "emulator/engine/memory/pool.h"
#include "emulator/engine/process/host_waits.h"
#include "emulator/engine/process/job.h"
#include "emulator/engine/process/options.h"
#include "emulator/engine/process/quiescence.h"
#include "emulator/engine/process/shared_event.h"
#include "emulator/engine/process/stats.h"

namespace gordian::emu {

struct CapturePoint;
class GraphsImpl;

// The stream's work is `last` and everything `last` depends on.
class Stream {
 public:
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  bool legacy = false;
  StreamAttributes attributes;  // `priority` is above
  TaskPtr last;
  TaskPtr last_queued;                    // the latest that passes through a hardware queue
  std::shared_ptr<CapturePoint> capture;  // null: not part of one

  bool Blocking() const { return !legacy && (flags & kStreamNonBlocking) == 0; }
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  bool recorded = false;
  int64_t time_ns = 0;                    // when `record` is null
  TaskPtr record;                         // the work that the event stands for; null: none
  std::shared_ptr<CapturePoint> capture;  // of a record in a capture, which may have ended
  // Of an interprocess event, else null. `own_sequence` is this process's latest record.
  std::shared_ptr<SharedEvent> shared;
  uint64_t own_sequence = 0;
};

// Never freed: a thread may have it on its stack after its end.
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
  int FindCapture(Stream* stream, uint64_t* id) override;
  int Capture(CaptureRequest request) override;
  GraphEngine& Graphs() override;
  void Enqueue(EnqueueRequest request) override;
  bool IsDone(const DeviceOp* op) override;
  void WaitDone(const std::vector<std::shared_ptr<DeviceOp>>& ops) override;
  int DoorbellFd() override;
  std::atomic<uint32_t>* Doorbell() override;
  void* Allocate(size_t bytes, int device) override;
  int Free(void* pointer) override;
  int FreeWithoutWait(void* pointer) override;
  bool IsDeviceAccessible(const void* pointer, size_t bytes, int* device) override;
  bool FindShared(const void* pointer, size_t bytes, int* fd, uint64_t* offset) override;
  void CountCall(const char* symbol) override;
  void CountMore(const std::string& name, uint64_t amount) override;
  JobState* Job() override;
  void NoteActivity() override;
  void BeginWait(HostWait* wait) override { HostWaits::Get().Begin(wait); }
  void EndWait(HostWait* wait) override { HostWaits::Get().End(wait); }
  void AwaitReleased() override {
    if (state_.load() == kRunning) scheduler_->AwaitReleased();
  }

  int Initialize() override;
  int InitializeOnce(bool* first);
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
  int UpdateStream(void* handle, const std::function<void(StreamAttributes*)>& update) override;
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
  int LaunchKernel(void* stream, int64_t sms, int64_t duration_ns, const void* function) override;
  int LaunchHostFunction(void* stream, std::function<void()> function) override;
  int WriteValue(const ValueRequest& request, void* stream) override;
  int WaitValue(const ValueRequest& request, void* stream) override;
  int Copy(const CopyRequest& request, void* stream) override;
  int Fill(const FillRequest& request, void* stream) override;
  int AllocateMemory(size_t bytes, MemoryKind kind, unsigned flags, void** pointer) override;
  int FreeDevice(void* pointer) override;
  int FreeHost(void* pointer) override;
  int FreeInStreamOrder(void* pointer, void* stream) override;
  int RegisterHost(void* pointer, size_t bytes, unsigned flags) override;
  int UnregisterHost(void* pointer) override;
  bool FindMemory(const void* pointer, Allocation* found) override;
  int SetSynchronises(const void* pointer, bool synchronises) override;
  int MemoryInfo(size_t* free_bytes, size_t* total_bytes) override;
  int AllocateInStreamOrder(size_t bytes, void* pool, void* stream, void** pointer) override;
  int CreatePool(const PoolProperties& properties, void** pool) override;
  int DestroyPool(void* pool) override;
  int DefaultPool(int device, void** pool) override;
  int CurrentPool(int device, void** pool) override;
  int SetCurrentPool(int device, void* pool) override;
  int GetPoolAttribute(void* pool, PoolAttribute attribute, uint64_t* value) override;
  int SetPoolAttribute(void* pool, PoolAttribute attribute, uint64_t value) override;
  int TrimPool(void* pool, size_t keep_bytes) override;
  int SetPoolAccess(void* pool, int device, unsigned flags) override;
  int GetPoolAccess(void* pool, int device, unsigned* flags) override;
  int ExportPool(void* pool, int* fd) override;
  int ImportPool(int fd, void** pool) override;
  int ExportPoolPointer(void* pointer, char data[kIpcHandleBytes]) override;
  int ImportPoolPointer(void* pool, const char data[kIpcHandleBytes], void** pointer) override;
  int ExportMemory(const void* pointer, char handle[kIpcHandleBytes]) override;
  int OpenMemory(const char handle[kIpcHandleBytes], void** pointer) override;
  int CloseMemory(void* pointer) override;
  int ExportEvent(void* event, char handle[kIpcHandleBytes]) override;
  int OpenEvent(const char handle[kIpcHandleBytes], void** event) override;
  int EnablePeer(int peer) override;
  int DisablePeer(int peer) override;

  void PokeMonitor() { scheduler_->PokeQuiescence(); }
  // Call when the process exits.
  void LeaveJob();

  void BeforeFork();
  void AfterForkInParent();
  void AfterForkInChild();
  MemoryTable& memory() { return *memory_; }
  // Call when a thread ends: removes its default streams; their work still completes.
  void ThreadEnds(uint64_t thread);

 private:
  friend class GraphsImpl;
  enum State : int { kFresh, kRunning, kBroken };

  // The remaining work of a destroyed stream.
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
    MemoryPool* default_pool = nullptr;  // made on first use
    MemoryPool* current_pool = nullptr;  // null: the default one
  };
  // Another process's memory, mapped here.
  struct Import {
    void* mapping = nullptr;
    size_t mapped_bytes = 0;
    void* pointer = nullptr;
    int opened = 0;  // times
  };

  EngineImpl();
  // The Status of a call on `stream`. Only default streams need a current device, and make one.
  int Prepare(void* stream) {
    if (reinterpret_cast<uintptr_t>(stream) > 2 ? Ready() : CurrentDevice() >= 0) return kSuccess;
    return Initialize();
  }
  bool Ready() { return state_.load(std::memory_order_acquire) == kRunning || Initialize() == 0; }

  // Call all of these under a Section.
  Stream* Resolve(void* handle, int device);
  Stream* Resolve(void* handle);  // on the current device
  // True if the value that a caller keeps is still a live stream.
  bool IsLive(const Stream* stream) const;
  Stream* PerThreadStream(int device);
  Stream* NewStream(int device, unsigned flags, int priority);
  void RetireStream(Stream* stream);
  void AddStreamDependencies(const TaskPtr& task, const Stream& stream);
  void AwaitDevice(int device);  // not under a Section
  void AddDeviceDependencies(const TaskPtr& task, int device);
  // The dependencies of new work on the stream: none, one task (*only), or several (returns true).
  bool Unfinished(const Stream& stream, TaskPtr* only);
  // Makes the task depend on the stream's own work: of the legacy stream, also on that of the
  // blocking streams; of a blocking stream, not on the legacy stream's unless its own work waits
  // for that.
  void AddOwnWork(const TaskPtr& task, const Stream& stream);
  void SubmitOn(Stream* stream, const TaskPtr& task);
  // Publishes an interprocess event's record when the stream gets there.
  void PublishOn(Stream* stream, Event* event);
  MemoryPool* FindPool(void* pool);
  MemoryPool* NewPool(int device);
  MemoryPool* DefaultPoolLocked(int device);
  bool AllocateFromPool(MemoryPool* pool, size_t bytes, Stream* stream, MemoryPool::Piece* piece);
  // Frees in the stream's order; without a stream, when `after` is done.
  void FreeToPool(void* pointer, MemoryPool* pool, Stream* stream, const TaskPtr& after = nullptr);
  // A submitted marker behind all work of the device.
  TaskPtr MarkDevice(int device, std::function<void()> work = nullptr);
  void ReleaseCached(MemoryPool* pool, size_t keep_bytes);
  void DropPool(MemoryPool* pool);
  void ResetPools(int device);
  // Call without a Section. Blocks until the tasks of `add_dependencies(task)` are done.
  template <typename AddDependencies>
  void AwaitDependencies(AddDependencies add_dependencies);
  // Every synchronisation with a device calls it: pools give back what exceeds their thresholds.
  void AfterSynchronisation();
  // The Status of a kernel launch: with CUDA_LAUNCH_BLOCKING it waits until `task` is done.
  int Launched(const TaskPtr& task);
  int VisibleDevice(int physical);
  int CheckValue(const ValueRequest& request);
  int CheckValueCapture(const Stream& stream);
  // Runs `work` in the stream's order: at once on an idle stream, else on the worker thread, using
  // the result of `make_deferred`. With `wait`, returns when it is done.
  int RunInOrder(void* stream, TaskKind kind, bool wait, const std::function<void()>& work,
                 const std::function<std::function<void()>()>& make_deferred);

  std::set<const void*> loaded_;  // functions that were launched, where modules are loaded lazily
  std::atomic<int> state_{kFresh};
  std::mutex initialize_mutex_;
  CallStats stats_;
  std::unique_ptr<Options> options_;
  std::unique_ptr<MemoryTable> memory_;
  std::unique_ptr<Scheduler> scheduler_;
  GraphsImpl* const graphs_;       // as long-lived as the engine
  std::unique_ptr<emu::Job> job_;  // null without a job, and in a forked child
  std::unique_ptr<Quiescence> quiescence_;
  std::vector<Device> devices_;
  std::atomic<size_t> staged_bytes_{0};     // pageable data waiting for its copy
  std::unordered_set<void*> live_streams_;  // handles given out, and per-thread streams
  std::unordered_set<void*> live_events_;
  std::unordered_set<void*> contexts_;  // live ones: primary, and made by CreateContext
  std::unordered_set<void*> live_pools_;
  std::atomic<bool> pools_used_{false};
  std::mutex imports_mutex_;
  std::map<std::string, Import> imports_;  // by handle
  uint64_t next_stream_id_ = 1;
};

// The calling thread's contexts. The runtime API sees the top of the stack.
struct ThreadState {
  ~ThreadState();
  uint64_t id = 0;  // 0: no default stream was made
  std::vector<Context*> stack;
  uint64_t capture_id = 0;  // 0: none yet
  int capture_mode = 0;     // CaptureMode: how captures of others bind this thread
};
ThreadState& CurrentThread();

}  // namespace gordian::emu

#endif  // GORDIAN_EMULATOR_ENGINE_ENGINE_IMPL_H_
