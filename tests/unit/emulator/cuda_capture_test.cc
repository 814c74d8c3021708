// Stream capture: what becomes of captured work, and what is forbidden meanwhile. Every check of a
// prohibition has its twin in which the same calls are allowed.
#include <cuda.h>

#include <thread>

#include "tests/unit/emulator/cuda_graph_test_support.h"

namespace gordian::emu {
namespace {

constexpr auto kGlobal = cudaStreamCaptureModeGlobal;
constexpr auto kThreadLocal = cudaStreamCaptureModeThreadLocal;
constexpr auto kRelaxed = cudaStreamCaptureModeRelaxed;

cudaStream_t BeginOnNewStream(cudaStreamCaptureMode mode, unsigned flags = cudaStreamNonBlocking) {
  const cudaStream_t stream = NewStream(flags);
  EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
  return stream;
}

// Ends a capture that has to have been invalidated.
void ExpectInvalidated(cudaStream_t stream) {
  EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusInvalidated);
  cudaGraph_t graph = reinterpret_cast<cudaGraph_t>(1);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusNone);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

void ExpectValid(cudaStream_t stream) {
  EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusActive);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST(Capture, WorkRunsAtLaunchesOnly) {
  const cudaStream_t stream = NewStream(cudaStreamNonBlocking);
  int* const from = NewDeviceInts(1);
  int* const to = NewDeviceInts(1);
  Log log;
  ASSERT_EQ(cudaStreamBeginCapture(stream, kGlobal), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(from, 1, sizeof(int), stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(to, from, sizeof(int), cudaMemcpyDeviceToDevice, stream), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream, Log::Append, log.Of('x')), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(ReadInt(to), 0);
  EXPECT_EQ(log.text(), "");
  const auto nodes = NodesOf(graph);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(TypeOf(nodes[0]), cudaGraphNodeTypeMemset);
  EXPECT_EQ(TypeOf(nodes[1]), cudaGraphNodeTypeMemcpy);
  EXPECT_EQ(TypeOf(nodes[2]), cudaGraphNodeTypeHost);
  EXPECT_EQ(CountEdges(graph), 2u);
  const cudaGraphExec_t exec = Instantiate(graph);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(ReadInt(to), 0x01010101);
  EXPECT_EQ(log.text(), "xxx");
}

TEST(Capture, KernelKeepsItsShapeAndArgument) {
  const cudaStream_t stream = NewStream();
  TestKernel kernel("gordian_busy_us");
  uint64_t microseconds = 7;
  void* arguments[] = {&microseconds};
  ASSERT_EQ(cudaStreamBeginCapture(stream, kGlobal), cudaSuccess);
  ASSERT_EQ(cudaLaunchKernel(kernel.function(), dim3(4, 2), dim3(64), arguments, 128, stream),
            cudaSuccess);
  microseconds = 1'000'000'000;  // the node has its own
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  const auto nodes = NodesOf(graph);
  ASSERT_EQ(nodes.size(), 1u);
  cudaKernelNodeParams params;
  ASSERT_EQ(cudaGraphKernelNodeGetParams(nodes[0], &params), cudaSuccess);
  EXPECT_EQ(params.func, kernel.function());
  EXPECT_EQ(params.gridDim.y, 2u);
  EXPECT_EQ(params.blockDim.x, 64u);
  EXPECT_EQ(params.sharedMemBytes, 128u);
  EXPECT_EQ(*static_cast<uint64_t*>(params.kernelParams[0]), 7u);
  ASSERT_EQ(cudaGraphLaunch(Instantiate(graph), stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

TEST(Capture, ForkAndJoinOverEvents) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const cudaEvent_t fork = NewEvent();
  const cudaEvent_t join = NewEvent();
  Log log;
  ASSERT_EQ(cudaStreamBeginCapture(first, kGlobal), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(first, Log::Append, log.Of('a')), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(fork, first), cudaSuccess);
  EXPECT_EQ(StatusOf(second), cudaStreamCaptureStatusNone);
  ASSERT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaSuccess);
  EXPECT_EQ(StatusOf(second), cudaStreamCaptureStatusActive);
  ASSERT_EQ(cudaLaunchHostFunc(second, Log::Append, log.Of('b')), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(first, Log::Append, log.Of('b')), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(join, second), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(first, join, 0), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(first, Log::Append, log.Of('c')), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(first, &graph), cudaSuccess);
  EXPECT_EQ(StatusOf(second), cudaStreamCaptureStatusNone);
  EXPECT_EQ(CountNodes(graph), 4u);  // records and waits are edges
  EXPECT_EQ(CountEdges(graph), 4u);
  ASSERT_EQ(cudaGraphLaunch(Instantiate(graph), first), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(first), cudaSuccess);
  EXPECT_EQ(log.text(), "abbc");
}

TEST(Capture, ForkThatIsNotJoinedFails) {
  const cudaStream_t second = NewStream();
  const cudaEvent_t fork = NewEvent();
  Log log;
  const cudaStream_t first = BeginOnNewStream(kGlobal);
  ASSERT_EQ(cudaEventRecord(fork, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(second, Log::Append, log.Of('b')), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(first, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  // Both streams are usable again.
  EXPECT_EQ(cudaLaunchHostFunc(second, Log::Append, log.Of('d')), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(log.text(), "d");
}

// A stream that joined and did nothing leaves nothing to join.
TEST(Capture, ForkWithoutWorkNeedsNoJoin) {
  const cudaStream_t second = NewStream();
  const cudaEvent_t fork = NewEvent();
  const cudaStream_t first = BeginOnNewStream(kGlobal);
  ASSERT_EQ(cudaEventRecord(fork, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaSuccess);
  ExpectValid(first);
}

TEST(Capture, BeginsAndEndsOnlyWhereItMay) {
  cudaGraph_t graph = nullptr;
  const cudaStream_t stream = NewStream();
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, kGlobal), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
  ASSERT_EQ(cudaStreamBeginCapture(stream, kGlobal), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(stream, kGlobal), cudaErrorIllegalState);
  ExpectValid(stream);
}

TEST(Capture, EndsOnTheStreamWhereItBegan) {
  const cudaStream_t second = NewStream();
  const cudaEvent_t fork = NewEvent();
  const cudaStream_t first = BeginOnNewStream(kGlobal);
  ASSERT_EQ(cudaEventRecord(fork, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaSuccess);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(second, &graph), cudaErrorStreamCaptureUnmatched);
  ExpectInvalidated(first);
}

TEST(Capture, OnlyARelaxedOneEndsInAnotherThread) {
  for (const auto mode : {kGlobal, kThreadLocal, kRelaxed}) {
    const cudaStream_t stream = BeginOnNewStream(mode);
    cudaGraph_t graph = nullptr;
    cudaError_t error = cudaSuccess;
    std::thread([&] { error = cudaStreamEndCapture(stream, &graph); }).join();
    if (mode == kRelaxed) {
      EXPECT_EQ(error, cudaSuccess);
      EXPECT_NE(graph, nullptr);
    } else {
      EXPECT_EQ(error, cudaErrorStreamCaptureWrongThread);
      ExpectValid(stream);
    }
  }
}

TEST(Capture, LegacyStreamIsUnusableWhileABlockingStreamCaptures) {
  int* const memory = NewDeviceInts(1);
  cudaStream_t stream = BeginOnNewStream(kRelaxed, cudaStreamDefault);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  EXPECT_EQ(cudaStreamIsCapturing(nullptr, &status), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusActive);  // to ask does no harm
  EXPECT_EQ(cudaMemsetAsync(memory, 0, 4, nullptr), cudaErrorStreamCaptureImplicit);
  ExpectInvalidated(stream);

  stream = BeginOnNewStream(kRelaxed, cudaStreamNonBlocking);
  EXPECT_EQ(cudaStreamIsCapturing(nullptr, &status), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(memory, 0, 4, nullptr), cudaSuccess);
  ExpectValid(stream);
  // That of another device is not concerned.
  stream = BeginOnNewStream(kRelaxed, cudaStreamDefault);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaStreamIsCapturing(nullptr, &status), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ExpectValid(stream);
}

TEST(Capture, ToWaitForACapturingStreamInvalidates) {
  using CallOn = cudaError_t (*)(cudaStream_t);
  const CallOn calls[] = {
      [](cudaStream_t stream) { return cudaStreamSynchronize(stream); },
      [](cudaStream_t stream) { return cudaStreamQuery(stream); },
      [](cudaStream_t) { return cudaDeviceSynchronize(); },
  };
  for (const auto& call : calls) {
    const cudaStream_t stream = BeginOnNewStream(kRelaxed);
    EXPECT_EQ(call(stream), cudaErrorStreamCaptureUnsupported);
    Log log;
    EXPECT_EQ(cudaLaunchHostFunc(stream, Log::Append, log.Of('x')),
              cudaErrorStreamCaptureInvalidated);
    ExpectInvalidated(stream);
    EXPECT_EQ(call(stream), cudaSuccess);
  }
}

TEST(Capture, ToAskForACapturedEventInvalidates) {
  const cudaEvent_t event = NewEvent();
  for (const auto call : {cudaEventQuery, cudaEventSynchronize}) {
    const cudaStream_t stream = BeginOnNewStream(kRelaxed);
    const cudaEvent_t other = NewEvent();
    EXPECT_EQ(call(other), cudaSuccess);  // this one has nothing to do with it
    EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusActive);
    ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
    EXPECT_EQ(call(event), cudaErrorCapturedEvent);
    ExpectInvalidated(stream);
    // It is an ordinary event again once it was recorded outside.
    ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
    EXPECT_EQ(call(event), cudaSuccess);
  }
}

// Which calls are unsafe is NVIDIA's word for cudaMalloc and cudaEventQuery; the others follow
// them.
TEST(Capture, UnsafeCallsFollowTheModes) {
  const cudaEvent_t event = NewEvent();
  const auto allocate = [] {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, 16);
    return error;
  };
  const auto query = [event] { return cudaEventQuery(event); };
  struct Case {
    cudaStreamCaptureMode capture;
    cudaStreamCaptureMode thread;
    bool other_thread;
    bool forbidden;
  };
  const Case cases[] = {
      {kGlobal, kGlobal, false, true},        {kGlobal, kGlobal, true, true},
      {kGlobal, kThreadLocal, false, true},   {kGlobal, kThreadLocal, true, false},
      {kGlobal, kRelaxed, false, false},      {kGlobal, kRelaxed, true, false},
      {kThreadLocal, kGlobal, false, true},   {kThreadLocal, kGlobal, true, false},
      {kThreadLocal, kRelaxed, false, false}, {kRelaxed, kGlobal, false, false},
      {kRelaxed, kGlobal, true, false},
  };
  for (const Case& c : cases) {
    for (const std::function<cudaError_t()>& call :
         {std::function<cudaError_t()>(allocate), std::function<cudaError_t()>(query)}) {
      SCOPED_TRACE(testing::Message() << "capture " << c.capture << " thread " << c.thread
                                      << " other " << c.other_thread);
      const cudaStream_t stream = BeginOnNewStream(c.capture);
      cudaError_t error = cudaSuccess;
      const auto in_mode = [&] {
        cudaStreamCaptureMode mode = c.thread;
        EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
        EXPECT_EQ(mode, kGlobal);  // what a thread begins with
        error = call();
        EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
        EXPECT_EQ(mode, c.thread);
      };
      if (c.other_thread) {
        std::thread(in_mode).join();
      } else {
        in_mode();
      }
      EXPECT_EQ(error, c.forbidden ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
      if (c.forbidden) {
        ExpectInvalidated(stream);
      } else {
        ExpectValid(stream);
      }
    }
  }
}

TEST(Capture, SequencesCannotMerge) {
  const cudaEvent_t event = NewEvent();
  const cudaStream_t first = BeginOnNewStream(kRelaxed);
  const cudaStream_t second = BeginOnNewStream(kRelaxed);
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaErrorStreamCaptureMerge);
  ExpectInvalidated(first);
  ExpectInvalidated(second);
}

TEST(Capture, OutsideWorkIsReachedByExternalWaitsOnly) {
  const cudaStream_t outside = NewStream();
  const cudaEvent_t event = NewEvent();
  ASSERT_EQ(cudaEventRecord(event, outside), cudaSuccess);
  cudaStream_t stream = BeginOnNewStream(kRelaxed);
  EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaErrorStreamCaptureIsolation);
  ExpectInvalidated(stream);

  Gate gate;
  int* const memory = NewDeviceInts(1);
  stream = BeginOnNewStream(kRelaxed);
  ASSERT_EQ(cudaStreamWaitEvent(stream, event, cudaEventWaitExternal), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(memory, 0, 4, stream), cudaSuccess);
  const cudaEvent_t after = NewEvent();
  ASSERT_EQ(cudaEventRecordWithFlags(after, stream, cudaEventRecordExternal), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  const auto nodes = NodesOf(graph);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(TypeOf(nodes[0]), cudaGraphNodeTypeWaitEvent);
  EXPECT_EQ(TypeOf(nodes[2]), cudaGraphNodeTypeEventRecord);
  const cudaGraphExec_t exec = Instantiate(graph);
  ASSERT_EQ(cudaLaunchHostFunc(outside, Gate::Pass, &gate), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, outside), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  ASSERT_TRUE(gate.WaitReached());
  EXPECT_EQ(cudaEventQuery(after), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  gate.Open();
  EXPECT_EQ(cudaEventSynchronize(after), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

TEST(Capture, InfoAndDependencies) {
  const cudaStream_t stream = NewStream();
  Log log;
  cudaStreamCaptureStatus status;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 7;
  ASSERT_EQ(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  EXPECT_EQ(cudaStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0, 0),
            cudaErrorIllegalState);
  ASSERT_EQ(cudaStreamBeginCapture(stream, kGlobal), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream, Log::Append, log.Of('a')), cudaSuccess);
  ASSERT_EQ(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count),
            cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0u);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(nodes[0], NodesOf(graph)[0]);
  // A node beside the first, and the next captured one after both.
  cudaGraphNode_t beside = AddHost(graph, {}, Log::Append, log.Of('a'));
  ASSERT_EQ(cudaStreamUpdateCaptureDependencies(stream, &beside, nullptr, 1,
                                                cudaStreamAddCaptureDependencies),
            cudaSuccess);
  ASSERT_EQ(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count),
            cudaSuccess);
  EXPECT_EQ(count, 2u);
  ASSERT_EQ(cudaLaunchHostFunc(stream, Log::Append, log.Of('b')), cudaSuccess);
  // Its own graph is not to be destroyed while the capture is under way.
  EXPECT_EQ(cudaGraphDestroy(graph), cudaErrorInvalidValue);
  ASSERT_EQ(cudaStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0,
                                                cudaStreamSetCaptureDependencies),
            cudaSuccess);
  cudaGraph_t captured = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &captured), cudaSuccess);
  EXPECT_EQ(captured, graph);
  EXPECT_EQ(CountEdges(graph), 2u);
  ASSERT_EQ(cudaGraphLaunch(Instantiate(graph), stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(log.text(), "aab");
}

TEST(Capture, IntoAGraphThatIsThere) {
  const cudaStream_t stream = NewStream();
  Log log;
  const cudaGraph_t graph = NewGraph();
  const cudaGraphNode_t first = AddHost(graph, {}, Log::Append, log.Of('a'));
  ASSERT_EQ(cudaStreamBeginCaptureToGraph(stream, graph, &first, nullptr, 1, kGlobal), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream, Log::Append, log.Of('b')), cudaSuccess);
  cudaGraph_t captured = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &captured), cudaSuccess);
  EXPECT_EQ(captured, graph);
  EXPECT_EQ(CountEdges(graph), 1u);
  ASSERT_EQ(cudaGraphLaunch(Instantiate(graph), stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(log.text(), "ab");
}

TEST(Capture, GraphThatIsCapturedIntoStays) {
  const cudaStream_t stream = NewStream();
  const cudaGraph_t graph = NewGraph();
  cudaGraphNode_t node = nullptr;
  ASSERT_EQ(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, NewGraph()), cudaSuccess);
  cudaGraph_t inner = nullptr;
  ASSERT_EQ(cudaGraphChildGraphNodeGetGraph(node, &inner), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCaptureToGraph(stream, inner, nullptr, nullptr, 0, kGlobal),
            cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGraphDestroyNode(node), cudaErrorInvalidValue);
  cudaGraph_t captured = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &captured), cudaSuccess);
  EXPECT_EQ(captured, inner);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  cudaGetLastError();
}

TEST(Capture, AllocationsBecomeNodes) {
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(cudaStreamBeginCapture(stream, kGlobal), cudaSuccess);
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocAsync(&memory, 4096, stream), cudaSuccess);
  ASSERT_NE(memory, nullptr);
  ASSERT_EQ(cudaMemsetAsync(memory, 5, 4096, stream), cudaSuccess);
  ASSERT_EQ(cudaFreeAsync(memory, stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  const auto nodes = NodesOf(graph);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(TypeOf(nodes[0]), cudaGraphNodeTypeMemAlloc);
  EXPECT_EQ(TypeOf(nodes[2]), cudaGraphNodeTypeMemFree);
  const cudaGraphExec_t exec = Instantiate(graph);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

TEST(Capture, LaunchInsideBecomesAGraphNode) {
  const cudaStream_t stream = NewStream();
  Log log;
  const cudaGraph_t inner = NewGraph();
  AddHost(inner, {}, Log::Append, log.Of('i'));
  const cudaGraphExec_t inner_exec = Instantiate(inner);
  ASSERT_EQ(cudaStreamBeginCapture(stream, kGlobal), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(inner_exec, stream), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream, Log::Append, log.Of('o')), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(TypeOf(NodesOf(graph)[0]), cudaGraphNodeTypeGraph);
  EXPECT_EQ(log.text(), "");
  ASSERT_EQ(cudaGraphLaunch(Instantiate(graph), stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(log.text(), "io");
}

TEST(Capture, SynchronousCopyIsForbidden) {
  int* const memory = NewDeviceInts(1);
  int value = 0;
  cudaStream_t stream = BeginOnNewStream(kGlobal);
  EXPECT_EQ(cudaMemcpy(&value, memory, 4, cudaMemcpyDeviceToHost),
            cudaErrorStreamCaptureUnsupported);
  ExpectInvalidated(stream);
  stream = BeginOnNewStream(kRelaxed);
  EXPECT_EQ(cudaMemcpy(&value, memory, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  ExpectValid(stream);
}

TEST(Capture, DestroyedStreamTakesItsCaptureAlong) {
  const cudaStream_t stream = BeginOnNewStream(kGlobal);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(Capture, TheDriverSeesTheSameCapture) {
  const cudaStream_t stream = NewStream();
  const auto driver_stream = reinterpret_cast<CUstream>(stream);
  Log log;
  ASSERT_EQ(cuStreamBeginCapture(driver_stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(StatusOf(stream), cudaStreamCaptureStatusActive);
  ASSERT_EQ(cuLaunchHostFunc(driver_stream, Log::Append, log.Of('d')), CUDA_SUCCESS);
  ASSERT_EQ(cudaLaunchHostFunc(stream, Log::Append, log.Of('r')), cudaSuccess);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(driver_stream, &graph), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(exec, driver_stream), CUDA_SUCCESS);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(log.text(), "dr");
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cudaGraphDestroy(reinterpret_cast<cudaGraph_t>(graph)), cudaSuccess);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace gordian::emu
