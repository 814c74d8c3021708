// What the tests of graphs and of capture share.
#ifndef GORDIAN_TESTS_UNIT_EMULATOR_CUDA_GRAPH_TEST_SUPPORT_H_
#define GORDIAN_TESTS_UNIT_EMULATOR_CUDA_GRAPH_TEST_SUPPORT_H_

#include <deque>
#include <mutex>
#include <string>

#include "tests/unit/emulator/cuda_test_support.h"

namespace gordian::emu {

// Host functions write letters; the text shows in which order they ran.
class Log {
 public:
  struct Letter {
    Log* log;
    char letter;
  };
  Letter* Of(char letter) {
    letters_.push_back({this, letter});
    return &letters_.back();
  }
  static void Append(void* data) {
    const auto* letter = static_cast<Letter*>(data);
    std::lock_guard<std::mutex> lock(letter->log->mutex_);
    letter->log->text_ += letter->letter;
  }
  std::string text() {
    std::lock_guard<std::mutex> lock(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
  std::deque<Letter> letters_;
};

// A host function that stays until the test lets it go.
class Gate {
 public:
  static void Pass(void* data) {
    auto* gate = static_cast<Gate*>(data);
    gate->reached_.set_value();
    gate->open_future_.wait();
  }
  bool WaitReached() { return reached_future_.wait_for(kSoon) == std::future_status::ready; }
  void Open() { open_.set_value(); }

 private:
  std::promise<void> reached_;
  std::promise<void> open_;
  std::future<void> reached_future_ = reached_.get_future();
  std::future<void> open_future_ = open_.get_future();
};

inline cudaGraph_t NewGraph() {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  return graph;
}

inline cudaGraphExec_t Instantiate(cudaGraph_t graph, unsigned long long flags = 0) {
  cudaGraphExec_t exec = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, flags), cudaSuccess);
  return exec;
}

inline cudaGraphNode_t AddHost(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& after,
                               cudaHostFn_t function, void* data) {
  cudaGraphNode_t node = nullptr;
  const cudaHostNodeParams params = {function, data};
  EXPECT_EQ(cudaGraphAddHostNode(&node, graph, after.data(), after.size(), &params), cudaSuccess);
  return node;
}

inline size_t CountNodes(cudaGraph_t graph) {
  size_t count = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  return count;
}

inline size_t CountEdges(cudaGraph_t graph) {
  size_t count = 0;
  EXPECT_EQ(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count), cudaSuccess);
  return count;
}

inline cudaGraphNodeType TypeOf(cudaGraphNode_t node) {
  cudaGraphNodeType type = cudaGraphNodeTypeCount;
  EXPECT_EQ(cudaGraphNodeGetType(node, &type), cudaSuccess);
  return type;
}

inline std::vector<cudaGraphNode_t> NodesOf(cudaGraph_t graph) {
  std::vector<cudaGraphNode_t> nodes(CountNodes(graph));
  size_t count = nodes.size();
  EXPECT_EQ(cudaGraphGetNodes(graph, nodes.data(), &count), cudaSuccess);
  return nodes;
}

inline cudaStreamCaptureStatus StatusOf(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  return status;
}

inline int* NewDeviceInts(size_t count) {
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, count * sizeof(int)), cudaSuccess);
  EXPECT_EQ(cudaMemset(memory, 0, count * sizeof(int)), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return static_cast<int*>(memory);
}

inline int ReadInt(const int* pointer) {
  int value = -1;
  EXPECT_EQ(cudaMemcpy(&value, pointer, sizeof(value), cudaMemcpyDeviceToHost), cudaSuccess);
  return value;
}

}  // namespace gordian::emu

#endif  // GORDIAN_TESTS_UNIT_EMULATOR_CUDA_GRAPH_TEST_SUPPORT_H_
