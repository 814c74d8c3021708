// Orders a communicator's operations in CUDA graphs against all its other operations, on one rank:
// no two of them run at once, and they run in the order in which the program enqueued them, or the
// graphs that hold them. All members enqueue in the same order, as NCCL asks. The device counts
// operations in its own memory, so each launch of a graph finds new numbers there.
//
// Two events keep the order. `replayed`: a node of each graph records it behind the graph's last
// operation of the communicator. `called`: the library records it behind each operation that is not
// captured, once the communicator has been captured. Nodes before a graph's first operation wait
// for both: at each launch for what was recorded last before that launch. So the library need not
// see the launches. (Source: CUDA Runtime API, cudaGraphAddEventRecordNode and
// cudaGraphAddEventWaitNode; NCCL keeps the same order by the same means.)
//
// Within a graph, an operation depends on the communicator's last one before it, on any stream.
//
// Thread rule: one thread at a time (the domain's lock), in relaxed capture mode (RelaxedCapture),
// with the device current. Nothing blocks. Ownership: graphs use the events, so the program must
// not launch them after this object's end. Errors: CUDA's.
#ifndef GORDIAN_RUNTIME_CUDA_DOMAIN_GRAPH_ORDER_H_
#define GORDIAN_RUNTIME_CUDA_DOMAIN_GRAPH_ORDER_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "runtime/cuda/driver/cuda_calls.h"

namespace gordian::runtime::cuda {

// Whether the stream is captured. Returns an error if the program cannot use the stream now, as the
// legacy stream beside a capture.
cudaError_t IsCaptured(cudaStream_t stream, bool* captured);

// What is captured on a stream.
struct Capture {
  unsigned long long id = 0;  // unique in the process
  cudaGraph_t graph = nullptr;
  std::vector<cudaGraphNode_t> tips;  // what the stream's next node will come behind
  std::vector<cudaGraphEdgeData> edges;
};
// cudaErrorStreamCaptureInvalidated: the stream is not, or no longer, captured.
cudaError_t CaptureOf(cudaStream_t stream, Capture* capture);
cudaError_t SetTips(cudaStream_t stream, const Capture& capture);
// Makes the graph that the stream is captured into hold `what` until that graph and all executable
// graphs made of it are destroyed. CUDA then releases it on a thread of its own, where it must not
// call CUDA.
cudaError_t KeepWithGraph(cudaStream_t stream, std::shared_ptr<void> what);

class GraphOrder {
 public:
  GraphOrder() = default;
  ~GraphOrder();
  GraphOrder(const GraphOrder&) = delete;
  GraphOrder& operator=(const GraphOrder&) = delete;

  // Begin makes the events and a stream of its own. The caller enqueues there a wait for all
  // operations called so far, and then calls Begun.
  cudaError_t Begin();
  cudaStream_t own_stream() const { return own_stream_; }
  cudaError_t Begun();

  // What `stream` must wait for before an operation that is not captured, or before several that
  // are enqueued together. Null: nothing.
  struct Waits {
    cudaEvent_t replayed = nullptr, called = nullptr;
    bool any() const { return replayed != nullptr || called != nullptr; }
  };
  Waits Before(cudaStream_t stream) const;
  // The caller has enqueued them, on these streams.
  cudaError_t Called(const std::vector<cudaStream_t>& streams);
  // The program is about to destroy the stream; a new stream may get its handle.
  void Forget(cudaStream_t stream);

  // A node of the communicator, and its stream.
  struct Tip {
    cudaStream_t stream;
    cudaGraphNode_t node;
  };
  // The caller is about to capture an operation on `stream`: makes it depend on what it must come
  // behind.
  cudaError_t BeforeCaptured(cudaStream_t stream, const Capture& capture);
  // The caller has captured it, or several side by side: the next one will depend on all `tips`.
  cudaError_t Captured(const Capture& capture, const std::vector<Tip>& tips);

  // Whether all launches of graphs so far have finished the communicator's operations.
  bool IsReplayed() const;
  // The communicator has ended: releases everything except what graphs hold.
  void EndOfCalls();

 private:
  struct Graph {
    std::vector<cudaGraphNode_t> waits;  // for what was enqueued before the graph
    std::vector<Tip> last;
    cudaGraphNode_t record = nullptr;  // behind them
    std::shared_ptr<std::atomic<bool>>
        gone;  // set when the graph and all that was made of it have ended
  };
  cudaError_t Find(const Capture& capture, Graph** graph);

  cudaEvent_t replayed_ = nullptr, called_ = nullptr, between_ = nullptr;
  cudaStream_t own_stream_ = nullptr;
  cudaStream_t called_on_ = nullptr;
  bool is_own_ = true;  // `called_` was recorded on own_stream_, not on called_on_
  std::map<unsigned long long, Graph> graphs_;  // by capture
};

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_DOMAIN_GRAPH_ORDER_H_
