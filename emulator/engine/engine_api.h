// The emulated device's interface for the emulated NCCL. The engine lives in libcuda.so.1 (one per
// process); libcudart.so.13 and libnccl.so.2 reach it through this table, never through exported
// cu* / cuda* symbols, so that a shim in front of those sees only the application's calls, as with
// the real libraries.
//
// Threads: call any method from any thread. The engine's worker thread calls DeviceOp methods, one
// at a time for a process; they must not call blocking Engine methods.
#ifndef GORDIAN_EMULATOR_ENGINE_ENGINE_API_H_
#define GORDIAN_EMULATOR_ENGINE_ENGINE_API_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gordian::emu {

class Stream;  // owned by the engine

// Work that occupies streams (and SMs) from its start until it is done.
class DeviceOp {
 public:
  virtual ~DeviceOp() = default;
  // The worker calls it once, when all work before it is done and it holds its SMs: the "kernel" is
  // now resident. Returns true if it is already done.
  virtual bool Start() = 0;
  // The worker calls it after Start() returned false, whenever the doorbell rang. Returns true when
  // done.
  virtual bool Poll() = 0;
  // The device is reset or the process exits: the op drops its references to peers.
  virtual void Cancel() {}
  // For the quiescence report: the members of a JSON object. Any thread.
  virtual std::string Describe() { return {}; }
};

// An operation captured into a graph: makes the work of each launch of the graph. It lives while a
// graph, an executable graph or a launch in flight needs it.
class OpSource {
 public:
  struct Run {
    std::shared_ptr<DeviceOp> op;     // null: nothing runs
    std::shared_ptr<DeviceOp> after;  // as in EnqueueRequest
  };
  virtual ~OpSource() = default;
  // The launching thread calls it once per launch, without the engine's locks; for one graph's
  // sources in an order in which a node's dependencies come first.
  virtual Run MakeRun() = 0;
};

struct CaptureRequest {
  std::vector<Stream*> streams;  // all in the same capture; one node, behind all, and ahead of all
  std::shared_ptr<OpSource> source;
  int sms = 1;
};

// A host thread that sleeps inside the emulator while *word == seen. Lies on that thread's stack.
struct HostWait {
  const char* kind = "";
  const std::atomic<uint32_t>* word = nullptr;
  std::atomic<uint32_t> seen{0};
  // Further members of its JSON object in the quiescence report. Called on any thread between
  // BeginWait and EndWait.
  std::function<std::string()> describe;
  const void* task = nullptr;  // the engine's own waits
  bool forced = false;         // it waits only for its turn in GORDIAN_EMU_SCHEDULE
  // BeginWait fills these in.
  const char* call = nullptr;
  int thread = 0;
};

struct JobState;

struct EnqueueRequest {
  std::vector<Stream*> streams;  // >= 1, same device; with several it starts when it is at the
                                 // head of all, and holds all until done (a fused group)
  std::shared_ptr<DeviceOp> op;
  std::shared_ptr<DeviceOp> after;  // may be null; is done before it starts, on any stream
                                    // (operations of one communicator run one after the other)
  int sms = 1;
  bool in_launch_order = false;  // starts after the start of the last one before it on the device
                                 // that has this set, too
};

class Engine {
 public:
  // The calling thread's current device, initialised on demand; < 0 with none.
  virtual int CurrentDevice() = 0;
  virtual int DeviceCount() = 0;

  // The stream behind a cudaStream_t / CUstream value of a caller without per-thread default
  // streams: 0 and cudaStreamLegacy are the legacy stream of `device`, cudaStreamPerThread the
  // calling thread's. Null if the handle is no live stream.
  virtual Stream* FindStream(void* handle, int device) = 0;
  virtual int DeviceOf(Stream*) = 0;
  virtual bool IsCapturing(Stream*) = 0;
  // The capture sequence that the stream belongs to; *id is 0 for none. A Status: not 0 if the
  // capture is invalid, or another stream's capture forbids using the stream.
  virtual int FindCapture(Stream*, uint64_t* id) = 0;

  // Puts work on its streams and returns at once. For capturing streams use Capture.
  virtual void Enqueue(EnqueueRequest) = 0;
  // Adds a node to the graph that the streams are capturing. A Status: not 0 if a stream is not
  // capturing, the streams are in different captures, or the capture is invalid.
  virtual int Capture(CaptureRequest) = 0;

  // True once `op` is done (or was never enqueued). Does not block.
  virtual bool IsDone(const DeviceOp* op) = 0;
  // Blocks the calling host thread until every op in `ops` is done.
  virtual void WaitDone(const std::vector<std::shared_ptr<DeviceOp>>& ops) = 0;

  // The doorbell: a futex word in shared memory that the worker sleeps on. A thread that changes
  // state for which a DeviceOp of this process may wait adds 1 to it and wakes it (FUTEX_WAKE, not
  // private). The fd is a memfd of one page with the word at offset 0; peers of the same user open
  // it as /proc/<pid>/fd/<fd> and map it.
  virtual int DoorbellFd() = 0;
  virtual std::atomic<uint32_t>* Doorbell() = 0;

  // The device's number before CUDA_VISIBLE_DEVICES renumbered it: device 0 of two processes may be
  // different ones.
  virtual int PhysicalDevice(int device) = 0;

  // Allocates device memory (host memory here), aligned to 256 bytes. Free implements cudaFree and
  // waits for running work.
  virtual void* Allocate(size_t bytes, int device) = 0;
  virtual int Free(void* pointer) = 0;
  // Returns at once; frees the memory when earlier work is done.
  virtual int FreeWithoutWait(void* pointer) = 0;
  // True if kernels may access [pointer, pointer + bytes): device, managed, registered or pinned
  // host memory. *device is its owner, -1 for host memory.
  virtual bool IsDeviceAccessible(const void* pointer, size_t bytes, int* device) = 0;

  // Where other processes of the same user find device memory: at `*offset` of a file that is open
  // here as `*fd`. Returns false if the memory is not in such a file.
  virtual bool FindShared(const void* pointer, size_t bytes, int* fd, uint64_t* offset) = 0;

  // Counts a call in GORDIAN_EMU_STATS. `symbol` must be a string literal.
  virtual void CountCall(const char* symbol) = 0;
  // Adds to a line of those statistics under the caller's name.
  virtual void CountMore(const std::string& name, uint64_t amount) = 0;

  // The job's shared state (job_state.h); null without GORDIAN_EMU_SCHEDULE or _QUIESCENCE.
  virtual JobState* Job() = 0;
  // Call it after any change that may let another process, or a thread of this one, proceed.
  virtual void NoteActivity() = 0;
  // Brackets a sleep. The sleeper may change `seen` in between, before it sleeps on.
  virtual void BeginWait(HostWait* wait) = 0;
  virtual void EndWait(HostWait* wait) = 0;

  // Waits, at most a second, until every object handed to the engine that is done is destroyed.
  // Call it before the library with the objects' code is unmapped.
  virtual void AwaitReleased() = 0;

 protected:
  ~Engine() = default;
};

inline constexpr uint32_t kEngineApiVersion = 5;

}  // namespace gordian::emu

// Null if this libcuda.so.1 was built with another version.
extern "C" gordian::emu::Engine* gordianEmuEngine(uint32_t version);

#endif  // GORDIAN_EMULATOR_ENGINE_ENGINE_API_H_
