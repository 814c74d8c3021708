// What the communicators of one device share: the heaps of the job's ranks on this node, lists of
// operations, the worker, and the watch for ranks that die. All ranks make it together, once
// (Create: one process a rank, one device a process); then they make communicators over it in any
// order, without a rendezvous. Or a process makes one for each of its devices (CreateAlone), and
// the caller maps the memory that communicators need.
//
// Times in milliseconds, sizes in bytes. Thread rule: any thread; calls that launch hold the
// domain's lock for as long as a launch takes. Ownership: the caller destroys communicators, and
// waits until their streams are idle, before it destroys the domain. Errors: Status. After a rank
// has died, or Abort, kernels leave with their operations unfinished, and every later call fails.
#ifndef GORDIAN_RUNTIME_CUDA_DOMAIN_DOMAIN_H_
#define GORDIAN_RUNTIME_CUDA_DOMAIN_DOMAIN_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/status.h"
#include "runtime/cuda/domain/graph_order.h"
#include "runtime/cuda/domain/heap.h"
#include "runtime/cuda/domain/places.h"
#include "runtime/cuda/domain/rendezvous.h"
#include "runtime/cuda/list/help_stream.h"
#include "runtime/cuda/protocol/work.h"
#include "runtime/cuda/worker/worker.h"

namespace gordian::runtime::cuda {

// All ranks pass the same values, except for rank and device.
struct DomainConfig {
  std::string name;  // of the job
  int rank = 0;
  int ranks = 1;
  int device = 0;
  int communicators = 4;  // at most
  int help_streams = 8;   // streams with a list, at most
  // Streams whose operations must be able to wait at the same time. The blocks of that many kernels
  // fit a device of 132 multiprocessors at once, beside the worker's: it bounds the channels of an
  // operation (256 / this). Where a process has fewer multiprocessors, kernels have fewer blocks
  // than channels.
  int resident_streams = 2;
  uint64_t renamed_bytes =
      32ull << 20;                     // of a list, for outputs that are written before their turn
  uint64_t user_bytes = 0;             // of each heap, for buffers that peers write directly
  uint64_t stage_bytes = 64ull << 20;  // of each communicator, at most
  uint32_t bulk_channels = 128;        // of an operation, at most; <= kMaxChannels
  uint32_t line_channels = 128;
  // Detached operations: sequences of them that each communicator has (tags), 0 for none at all; of
  // each, the channels of an operation and the staging, at most.
  int detached_tags = 1;
  uint32_t detached_channels = 16;
  uint64_t detached_stage_bytes = 8ull << 20;
  WorkerConfig worker;
  bool use_ipc = false;
  int timeout_ms = 30000;
  Thresholds thresholds;
};

// Blocks of a kernel that carries a group's sends and receives, at most; equal on all ranks.
uint32_t BlocksOfGroup(const DomainConfig& config);

class Communicator;

class Domain {
 public:
  static Status Create(const DomainConfig& config, std::unique_ptr<Domain>* domain);
  // Makes a domain of this process alone, which watches no other process. Ignores name, rank,
  // ranks, communicators and user_bytes.
  static Status CreateAlone(const DomainConfig& config, std::unique_ptr<Domain>* domain);
  // After CreateAlone, once: gives the domain the memory for Allocate. It must outlive the domain.
  void GiveHeap(char* heap, uint64_t bytes);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  const DomainConfig& config() const { return config_; }
  bool is_ipc() const { return heap_ != nullptr && heap_->is_ipc(); }

  // The caller promises for an exclusive stream: it carries only operations of this runtime, and at
  // an operation's call its input is ready and its output free, except for what earlier operations
  // on this stream write and read. Then a stalled operation helps those behind it. `exclusive`
  // false withdraws the promise.
  Status SetExclusive(cudaStream_t stream, bool exclusive);
  // The caller reports other work on a stream (ForeignAll: on all streams): the domain does not let
  // the next operation there begin early. Does nothing if the stream is not exclusive.
  void Foreign(cudaStream_t stream);
  void ForeignAll();
  // What stands before an event that is recorded on the stream after this call. False: other work
  // may, or the stream is not exclusive. Never waits for a launch.
  bool Here(cudaStream_t stream, PointOfList* point);
  // The stream is about to wait for an event at this point. `waits`: unless all of that is done, or
  // the stream is not exclusive; then the caller calls AfterWait once it has made the wait. May
  // launch a mark on the stream.
  Status BeforeWait(cudaStream_t stream, const PointOfList& point, bool* waits);
  void AfterWait(cudaStream_t stream, const PointOfList& point);
  // The caller calls it before it destroys the stream. The stream's operations still end as usual;
  // a new stream may get the same handle.
  Status Forget(cudaStream_t stream);

  // GroupEnd publishes the operations that this thread has called since GroupStart together, and
  // they help each other; before it nothing is enqueued. Groups do not nest. As with NCCL, all
  // streams of a group are captured, or none.
  Status GroupStart();
  Status GroupEnd();
  void GroupCancel();  // instead of GroupEnd: drops the group's operations

  // Memory of this rank's heap, 256-byte aligned; null when there is none left. Other members write
  // directly into outputs that lie in it.
  void* Allocate(size_t bytes);
  void Free(void* memory);  // null is fine

  // Applies to operations called from now on. All ranks set the same. For measuring.
  void SetThresholds(const Thresholds& thresholds) { config_.thresholds = thresholds; }

  // Makes all ranks' kernels leave; outputs of unfinished operations are garbage. Any rank may call
  // it, on any thread.
  void Abort();
  // Ok, or why every call fails now.
  Status Health() const;
  // Counts of what helping kernels have done so far. Waits for a copy from the device.
  Status Helped(HelpCounts* counts);
  // Runs detached operations; null if the domain has none.
  Worker* worker() { return worker_.get(); }
  // For set-up and tests, while no other thread calls operations.
  Rendezvous* rendezvous() { return rendezvous_.get(); }

 private:
  friend class Communicator;
  struct Queued {
    Queued(const Work& of, const Touched& bytes, cudaStream_t on, bool in_graph)
        : work(of), touched(bytes), stream(on), captured(in_graph) {}
    Work work;
    Touched touched;
    cudaStream_t stream;
    bool captured;
    bool exclusive = false;
    HelpStream* list = nullptr;
    HelpList help{};
    GraphOrder* order = nullptr;  // of its communicator, if that has been captured
    GraphOrder::Waits waits;
    cudaStream_t after =
        nullptr;         // where the last operation of the same key was enqueued, if elsewhere
    bool moved = false;  // and it is unfinished
    bool amid = false;   // and of the same group
    uint32_t turn = 0;   // of a send or receive: those of its key before it in the group
    cudaEvent_t behind = nullptr;  // recorded behind it, if `after` is gone
  };
  // The last operation of an order key.
  struct Last {
    cudaStream_t stream = nullptr;
    HelpStream* list = nullptr;  // null: not listed
    uint32_t id = 0;             // its entry
    bool launched = true;
    bool gone = false;             // its stream is
    cudaEvent_t behind = nullptr;  // then: recorded behind it; null: it was finished
    uint32_t places = 0;           // of the largest of its key that may be unfinished
    // For a later capture of the communicator: one operation, and how many have so many channels.
    Work work{};
    uint32_t by_channels[kMaxChannels + 1] = {};
  };

  explicit Domain(const DomainConfig& config) : config_(config) {}
  Status Check();
  Status PrepareHeap();
  Status PrepareDevice();
  Status CountPlaces();
  // Enqueues the operation now, or at the group's end. `captured`: the stream's capture gets it,
  // and each launch of the graph carries it.
  Status Submit(const Work& work, const Touched& touched, cudaStream_t stream, bool* captured);
  // All are published before the first is launched. With the lock held.
  Status Enqueue(std::vector<Queued>* operations, bool group);
  // Writes them into the lists of their streams.
  void Publish(std::vector<Queued>* operations);
  // Makes the operation's stream wait for earlier operations on other streams and in graphs.
  cudaError_t AwaitBefore(const Queued& op);
  // The end of the run of operations from `begin` on that one kernel carries.
  size_t Together(const std::vector<Queued>& operations, size_t begin) const;
  // Launches one kernel for operations `begin` to `end` - 1; *places is how many it got.
  cudaError_t LaunchOne(const std::vector<Queued>& operations, size_t begin, size_t end,
                        uint32_t* places);
  // Notes that the operation was launched, by a kernel with so many places.
  void Launched(const Queued& op, uint32_t places);
  // Grants a kernel on the stream places, at most `wanted`.
  uint32_t PlacesOn(cudaStream_t stream, uint32_t wanted);
  // Sorts a group's sends and receives so that both ends of a transfer run at the same time.
  static void InRounds(std::vector<Queued>* operations);
  Status EnqueueCaptured(const std::vector<Queued>& operations);
  // The communicator's order between captured and other operations; made at the first call.
  Status OrderOf(uint32_t number, GraphOrder** order);
  // Forgets a communicator that has ended, except for what graphs hold.
  void EndOf(uint32_t number);
  // The list arguments of a kernel whose stream has no list.
  HelpList Alone() const;
  // Whether all launches so far of graphs with operations of the communicator have finished them.
  bool IsReplayed(uint32_t number);
  // With both locks held.
  Status ListOf(cudaStream_t stream, HelpStream** list);
  // With the domain's lock held: null: the stream is not exclusive.
  HelpStream* ExclusiveList(cudaStream_t stream);
  bool IsDone(const Last& last);
  static bool IsIdle(cudaStream_t stream);
  void Died(int rank);

  // Mapped host memory.
  struct alignas(64) Word {
    uint32_t word;
  };

  DomainConfig config_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<Heap> heap_;
  char* own_heap_ = nullptr;    // as mapped here
  uint64_t region_bytes_ = 0;   // of one communicator
  uint32_t most_captured_ = 0;  // blocks of a captured operation's kernel
  std::optional<Places<cudaStream_t>> places_;
  Word* stop_ = nullptr;
  Word* failed_ = nullptr;  // of each communicator
  HelpShared* lists_ = nullptr;
  struct DeviceMemory {
    HelpCounts counts;
    Seen alone;  // of operations without a list
    HelpMemory lists[];
  };
  DeviceMemory* device_memory_ = nullptr;
  cudaStream_t own_stream_ = nullptr;
  std::shared_ptr<Worker> worker_;

  // A thread holds it for as long as a launch takes, which is long when a stream is full. Foreign,
  // ForeignAll and Here do not take it.
  mutable std::mutex lock_;
  std::mutex streams_lock_;  // streams_ and the spare lists; taken last
  struct StreamState {
    std::unique_ptr<HelpStream> list;
    bool exclusive = false;
  };
  std::map<cudaStream_t, StreamState> streams_;
  int lists_made_ = 0;
  // Lists of forgotten streams: those to use again, and those that may have unfinished operations.
  std::vector<std::unique_ptr<HelpStream>> spare_lists_, ended_lists_;
  std::vector<cudaEvent_t> behind_;
  std::vector<char*> rooms_;       // for renamed outputs, one a list
  std::map<uint32_t, Last> last_;  // by order key
  std::map<uint32_t, std::unique_ptr<GraphOrder>>
      orders_;  // of communicators that were captured, by number
  cudaEvent_t order_event_ = nullptr;
  std::map<std::thread::id, std::vector<Queued>> groups_;  // open ones
  std::map<uint64_t, uint64_t> free_;                      // user memory: offset -> bytes
  std::map<uint64_t, uint64_t> allocated_;                 // likewise
  std::atomic<int> dead_{kAlive};
  static constexpr int kAlive = -2;
  static constexpr int kAborted = -1;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DOMAIN_DOMAIN_H_
