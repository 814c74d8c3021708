// Runs detached operations: a stream waits for them only if the caller asks for that (StreamWait),
// and they wait only for a stream's earlier work, if for anything (SubmitBehind). A kernel of the
// library, the worker, runs them. It stays on the device only while one of them is unfinished and
// advances (worker_device.h); a host thread starts it, and sleeps while all are done.
//
// For SubmitBehind a host function on the stream publishes the operations; it does not call CUDA.
// For StreamWait the stream runs a kernel of one block, which helps meanwhile
// (worker_join_device.h), or a wait of its hardware queue for a word in host memory. The wait comes
// behind the host functions that it needs (by events), so that none of them stands behind it in a
// hardware queue.
//
// So the program may call what waits for the whole device (cudaDeviceSynchronize, cudaFree, ...)
// between detached operations, in different orders on different ranks: such a call returns when the
// worker has quit, *before* the operations are done.
//
// Thread rule: any thread. Times as their names say (_us, _ns). Ownership: the worker owns its
// memory, stream and thread; a Detached may outlive the domain. Errors: Status; after the
// worker's end Result gives its error (kUnavailable) even for an operation that was done before.
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
  // The kernel quits after idle_quit_us without an unfinished operation, and after stuck_quit_us in
  // which no step was ready.
  int64_t idle_quit_us = 100;
  int64_t stuck_quit_us = 200;
  WorkerGaps gaps;
  // How streams wait. false: by a kernel, which takes a block's place and runs the operations
  // itself if the worker cannot start. true: by the hardware queue, which takes no place but blocks
  // every stream that shares the queue: if the worker's stream does, the job hangs.
  bool waits_by_queue = false;
  // For experiments: launches another kernel with the same protocol.
  std::function<cudaError_t(const WorkerView&, uint32_t blocks, cudaStream_t)> launch;
};

// A handle of one detached operation. Copies stand for the same operation.
class Detached {
 public:
  Detached() = default;
  // Whether it is over: done, or never to be done. Never waits. A Detached without an operation (of
  // no elements, for example) is done.
  bool IsDone() const;
  // Once IsDone: ok, or why the operation will never be done.
  Status Result() const;
  // Makes later work of `stream` wait until all of them, of one domain, are over. Never waits
  // itself. Not for a captured stream. The stream's device must be current.
  static Status StreamWait(const std::vector<Detached>& operations, cudaStream_t stream);
  // Waits until it is done. Ok: the host, and kernels that it launches from now on, see its output.
  // kDeadline: unfinished after `timeout_ns`. Other errors: why it will never be done.
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

  // Makes a worker on the current device. `stop`: a word in mapped host memory; other than 0, it
  // ends all kernels. `health`: ok, or why the domain has failed. Allocates memory, which may wait
  // for the device.
  static Status Create(const WorkerConfig& config, int device, const uint32_t* stop,
                       std::function<Status()> health, std::shared_ptr<Worker>* worker);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Status Submit(const WorkerOperation& operation, Detached* handle);
  // Submits them when all earlier work of `stream` is done. The worker carries operations of one
  // key in the order of the calls of Submit and SubmitBehind, even of different streams. Not for a
  // captured stream.
  Status SubmitBehind(const std::vector<WorkerOperation>& operations, cudaStream_t stream,
                      std::vector<Detached>* handles);
  // See WorkerQueue::Forget.
  void Forget(uint64_t port);
  // Ends the kernel and the thread. Unfinished operations stay unfinished.
  void End();
  // The caller has set `stop`: wakes all threads and streams that wait for operations.
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
  // With the lock held: if not Alive, lets the streams and threads that wait continue.
  void EndIfOver();
  // With the lock held: the error for kFull or kTooManyPorts.
  static Status Refusal(WorkerQueue::Added added);
  // The host function of SubmitBehind, and its argument.
  struct Turn;
  static void CUDART_CB TakeTurn(void* turn);
  // Events that are used again.
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
