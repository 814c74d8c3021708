// The order between a communicator's operations that are captured in CUDA graphs and all its
// others, on one rank. Numbers of operations are counters in the device's memory, so a launch of a
// graph finds new ones; what remains is that no two of a communicator's operations run at once
// here, and that they run in the order in which they, or the graphs that hold them, were enqueued:
// the same order on all members then, as NCCL asks.
//
// Two events keep it. `replayed`: each graph records it behind its last operation of the
// communicator, by a node; `called`: recorded behind each operation that is not captured, once the
// communicator has been captured. A graph's first operation waits for both, by nodes: at each
// launch for what was recorded last before that launch. So the library need not see the launches.
// (Source: CUDA Runtime API, cudaGraphAddEventRecordNode and cudaGraphAddEventWaitNode; NCCL keeps
// the same order by the same means.)
//
// Within a graph, an operation depends on the communicator's last one before it, on whatever
// stream.
//
// Thread rule: one thread at a time (the domain's lock), in relaxed capture mode (RelaxedCapture),
// with the device current. Nothing blocks. Ownership: graphs hold the events: they must not be
// launched any more when this ends. Errors: CUDA's.
#ifndef GORDIAN_RUNTIME_CUDA_DOMAIN_GRAPH_ORDER_H_
#define GORDIAN_RUNTIME_CUDA_DOMAIN_GRAPH_ORDER_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "runtime/cuda/driver/cuda_calls.h"

namespace gordian::runtime::cuda {

// Whether the stream is captured. An error: it cannot be used now (the legacy stream beside a
// capture, say).
cudaError_t IsCaptured(cudaStream_t stream, bool* captured);

// What is captured on a stream.
struct Capture {
  unsigned long long id = 0;  // of the process, never again
  cudaGraph_t graph = nullptr;
  std::vector<cudaGraphNode_t> tips;  // what the stream's next node will come behind
  std::vector<cudaGraphEdgeData> edges;
};
// cudaErrorStreamCaptureInvalidated, if it is none any more.
cudaError_t CaptureOf(cudaStream_t stream, Capture* capture);
cudaError_t SetTips(cudaStream_t stream, const Capture& capture);
// `what` is held until the graph that the stream is captured into, and whatever is made executable
// of it, is no more; it is let go on a thread of CUDA's, and must not call it.
cudaError_t KeepWithGraph(cudaStream_t stream, std::shared_ptr<void> what);

class GraphOrder {
 public:
  GraphOrder() = default;
  ~GraphOrder();
  GraphOrder(const GraphOrder&) = delete;
  GraphOrder& operator=(const GraphOrder&) = delete;

  // Its events, and a stream of its own, on which the caller puts what waits for all that was
  // called so far; then Begun().
  cudaError_t Begin();
  cudaStream_t own_stream() const { return own_stream_; }
  cudaError_t Begun();

  // Of an operation that is not captured, or several that are enqueued together: what must be
  // waited for on `stream` before. Null: nothing.
  struct Waits {
    cudaEvent_t replayed = nullptr, called = nullptr;
    bool any() const { return replayed != nullptr || called != nullptr; }
  };
  Waits Before(cudaStream_t stream) const;
  // They were enqueued, on these streams.
  cudaError_t Called(const std::vector<cudaStream_t>& streams);
  // The stream will be destroyed, its handle may come again.
  void Forget(cudaStream_t stream);

  // A node of the communicator's, and on which stream.
  struct Tip {
    cudaStream_t stream;
    cudaGraphNode_t node;
  };
  // Of an operation that is about to be captured on `stream`: puts before it what it must come
  // behind.
  cudaError_t BeforeCaptured(cudaStream_t stream, const Capture& capture);
  // It was captured, or several side by side: what comes next will be behind all of these.
  cudaError_t Captured(const Capture& capture, const std::vector<Tip>& tips);

  // Whether every launch of a graph so far is through with the communicator.
  bool IsReplayed() const;
  // There will be no more calls, captured or not; what graphs hold stays.
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
