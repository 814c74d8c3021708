// What the processes of one job on one host share: their heaps, which all of them map, and the news
// that a process has died. All ranks make it together, once; then they make communicators over it
// in any order, without a rendezvous. Or a process makes it alone (CreateAlone), for communicators
// whose maker has mapped what they need.
//
// One process a rank, one device a process.
//
// Thread rule: any thread; calls that launch take the domain's lock for as long as a launch takes.
// Ownership: communicators must be destroyed, and their streams be idle, before the domain is.
// Errors: Status. After a rank has died, or Abort, kernels leave unfinished and every later call
// fails.
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

// Equal on all ranks but for rank and device.
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
  // Of this process: no other is needed, and none is watched. name, rank, ranks, communicators and
  // user_bytes are not looked at.
  static Status CreateAlone(const DomainConfig& config, std::unique_ptr<Domain>* domain);
  // Then: memory for Allocate, once. It outlives the domain.
  void GiveHeap(char* heap, uint64_t bytes);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;

  const DomainConfig& config() const { return config_; }
  bool is_ipc() const { return heap_ != nullptr && heap_->is_ipc(); }

  // The stream carries nothing but operations of this runtime from now on (later calls that are
  // made while it is exclusive), and every operation's input is ready, and its output free, when it
  // is called, but for what operations before it on this stream write and read. Then a stalled
  // operation helps those behind it. Off: the stream may carry anything again.
  Status SetExclusive(cudaStream_t stream, bool exclusive);
  // Something else was or will be enqueued on an exclusive stream, or on any: what is called next
  // there is not begun early. No-op where the stream is not exclusive.
  void Foreign(cudaStream_t stream);
  void ForeignAll();
  // The stream will be destroyed: call it before. Its operations end as they would; the handle may
  // come again and is another stream then.
  Status Forget(cudaStream_t stream);

  // Operations of this thread between the two are published together and help each other; nothing
  // is enqueued before the end. Groups do not nest. As for NCCL, all streams of a group are
  // captured, or none.
  Status GroupStart();
  Status GroupEnd();
  void GroupCancel();  // instead: nothing of it is enqueued

  // Memory of the own heap, 256-byte aligned; null when there is none left. Operations whose output
  // lies in it are written by peers directly.
  void* Allocate(size_t bytes);
  void Free(void* memory);  // null is fine

  // For operations called from now on; equally on all ranks. For measuring.
  void SetThresholds(const Thresholds& thresholds) { config_.thresholds = thresholds; }

  // All ranks' kernels leave, results are garbage. Any rank may call it, any thread.
  void Abort();
  // Ok, or why nothing works any more.
  Status Health() const;
  // What kernels that helped have done so far. Waits for a copy.
  Status Helped(HelpCounts* counts);
  // What runs detached operations; null without them.
  Worker* worker() { return worker_.get(); }
  // For set-up and tests; not for use beside operations of other threads.
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
  // Into the lists of their streams.
  void Publish(std::vector<Queued>* operations);
  // What it comes behind on other streams, and in graphs.
  cudaError_t AwaitBefore(const Queued& op);
  // Of published operations, the first behind `begin` that the kernel of that one does not carry.
  size_t Together(const std::vector<Queued>& operations, size_t begin) const;
  // One kernel for operations `begin` to `end` - 1; how many places it got.
  cudaError_t LaunchOne(const std::vector<Queued>& operations, size_t begin, size_t end,
                        uint32_t* places);
  // `places`: that its kernel got.
  void Launched(const Queued& op, uint32_t places);
  // How many places a kernel on the stream gets.
  uint32_t PlacesOn(cudaStream_t stream, uint32_t wanted);
  // Orders a group's sends and receives so that those that go on at once meet.
  static void InRounds(std::vector<Queued>* operations);
  Status EnqueueCaptured(const std::vector<Queued>& operations);
  // Of a communicator; from then on it is kept.
  Status OrderOf(uint32_t number, GraphOrder** order);
  // What is kept of a communicator that has ended, but what graphs hold.
  void EndOf(uint32_t number);
  // How an operation without a list is launched.
  HelpList Alone() const;
  // Whether every launch of a graph with operations of the communicator is through with them.
  bool IsReplayed(uint32_t number);
  // With both locks held.
  Status ListOf(cudaStream_t stream, HelpStream** list);
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
  HelpStream::Shared* lists_ = nullptr;
  struct DeviceMemory {
    HelpCounts counts;
    Seen alone;  // of operations without a list
    HelpMemory lists[];
  };
  DeviceMemory* device_memory_ = nullptr;
  cudaStream_t own_stream_ = nullptr;
  std::shared_ptr<Worker> worker_;

  // Held for as long as a launch takes, which may be long when a stream is full. Calls that note
  // other work on streams do not take it.
  mutable std::mutex lock_;
  std::mutex streams_lock_;  // streams_ and the spare lists; taken last
  struct StreamState {
    std::unique_ptr<HelpStream> list;
    bool exclusive = false;
  };
  std::map<cudaStream_t, StreamState> streams_;
  int lists_made_ = 0;
  // Of streams that are gone: to be used again, and those whose operations were unfinished then.
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
