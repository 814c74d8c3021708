// Detached operations: a stream waits for them only if it is asked to (StreamWait), and they wait
// for nothing but the earlier work of a stream (SubmitBehind). A kernel of the library, the worker,
// runs them. It is on the device only while one of them is unfinished and advances
// (worker_device.h); a host thread starts it, and sleeps while no operation is outstanding.
//
// A host function on the stream publishes what is submitted behind the stream's work; it calls
// nothing of CUDA. A stream waits by a kernel of one block that helps meanwhile
// (worker_join_device.h), or by an operation of its hardware queue, for a word in host memory; a
// wait is enqueued behind the host functions that it needs (by events), so that none of them can
// stand behind it in a hardware queue.
//
// So calls that wait for the whole device (cudaDeviceSynchronize, cudaFree, ...) may stand between
// detached operations, in different orders on different ranks: they return when the worker has
// quit, *before* the operations are done.
//
// Thread rule: any thread.
// Ownership: a Detached stays valid after its domain; what was unfinished then is kUnavailable.
#ifndef GORDIAN_RUNTIME_CUDA_WORKER_WORKER_H_
#define GORDIAN_RUNTIME_CUDA_WORKER_WORKER_H_

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/status.h"
#include "runtime/cuda/worker/worker_queue.h"

namespace gordian::runtime::cuda {

class Worker;

struct WorkerConfig {
  uint32_t blocks =
      8;  // of its kernel; so many fit beside the carriers' (DomainConfig::resident_streams)
  Policy policy = Policy::kReadyDriven;
  SpinParameters spin;
  // It quits after so long without an unfinished operation, and after so long in which no step was
  // ready.
  int64_t idle_quit_us = 100;
  int64_t stuck_quit_us = 200;
  WorkerGaps gaps;
  // How streams wait. A waiting kernel takes a block's place, and runs the operations itself if the
  // worker cannot start. A waiting hardware queue takes no place, but blocks every stream that
  // shares it: if the worker's does, all hangs.
  bool waits_by_queue = false;
  // Starts another kernel with the same protocol instead. For experiments.
  std::function<cudaError_t(const WorkerView&, uint32_t blocks, cudaStream_t)> launch;
};

// One detached operation. Copies mean the same one.
class Detached {
 public:
  Detached() = default;
  // Whether it is done, or never will be; never waits. A Detached without an operation (no
  // elements, say) is done.
  bool IsDone() const;
  // If it is: ok, or why it never will be done.
  Status Result() const;
  // Later work of `stream` waits for all of them, which are of one domain: they are done then, or
  // never will be. Never waits itself. Not on a stream that is captured. The stream's device must
  // be current.
  static Status StreamWait(const std::vector<Detached>& operations, cudaStream_t stream);
  // Ok when it is done: its output is there for whatever the host does then, kernels it launches
  // included. kDeadline: unfinished after `timeout_ns`. Else why it never will be done.
  Status Wait(uint64_t timeout_ns) const;

 private:
  friend class Worker;
  Detached(std::shared_ptr<Worker> worker, uint32_t ticket)
      : worker_(std::move(worker)), ticket_(ticket) {}
  std::shared_ptr<Worker> worker_;
  uint32_t ticket_ = 0;
};

class Worker : public std::enable_shared_from_this<Worker> {
 public:
  struct Stats {
    uint64_t instances = 0;    // kernels that were started
    uint64_t resident_ns = 0;  // of those that have ended
    uint64_t visits = 0;       // channels of operations that a block began to serve
    uint64_t progress = 0;     // of those, with at least a step
    uint64_t switches = 0;     // and left half way after that
  };

  // On the current device. `stop`: in mapped host memory; not 0 ends everything. `health`: ok, or
  // why nothing works any more. Makes its memory, which may wait for the device.
  static Status Create(const WorkerConfig& config, int device, const uint32_t* stop,
                       std::function<Status()> health, std::shared_ptr<Worker>* worker);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Status Submit(const WorkerOperation& operation, Detached* handle);
  // When all that is on `stream` by now is done. Operations of one key are carried in the order of
  // these calls and of Submit's, whatever their streams. Not on a stream that is captured.
  Status SubmitBehind(const std::vector<WorkerOperation>& operations, cudaStream_t stream,
                      std::vector<Detached>* handles);
  // See WorkerQueue::Forget.
  void Forget(uint64_t port);
  // Ends the kernel and the thread; what is unfinished stays so.
  void End();
  // Wakes all that wait for operations: `stop` was set.
  void Stopped();
  Stats stats();

 private:
  friend class Detached;
  Worker(const WorkerConfig& config, int device, const uint32_t* stop,
         std::function<Status()> health);
  Status Prepare();
  void Watch();
  Status Wait(uint32_t ticket, uint64_t timeout_ns);
  Status ResultOf(uint32_t ticket);
  Status StreamWait(std::vector<uint32_t> tickets, cudaStream_t stream);
  Status EnqueueWaits(const std::vector<uint32_t>& tickets, cudaStream_t stream);
  WorkerView View(uint32_t instance) const;
  // With the lock held: ok, or why no operation will be done any more.
  Status Alive() const;
  // Likewise, if so: streams and threads that wait go on.
  void EndIfOver();
  // With the lock held; why one of these two was not added.
  static Status Refusal(WorkerQueue::Added added);
  // What a host function gets, and the function.
  struct Turn;
  static void CUDART_CB TakeTurn(void* turn);
  // An event to be used again.
  class Marks;

  const WorkerConfig config_;
  const int device_index_;
  const uint32_t* const stop_;
  const std::function<Status()> health_;
  WorkerHost* host_ = nullptr;
  WorkerDevice* device_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ended_ = nullptr;

  std::mutex lock_;
  std::condition_variable wake_;     // the watcher
  std::condition_variable changed_;  // an instance has ended, or all is over
  std::shared_ptr<Marks> marks_;
  std::unique_ptr<WorkerQueue> queue_;
  bool over_ = false;
  bool ended_all_ = false;
  Status failed_;
  std::thread watcher_;
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_WORKER_WORKER_H_
