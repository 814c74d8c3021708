// Collectives captured into CUDA graphs and replayed.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/e2e/jobs/job.h"

namespace {

// `first` and then `second`, captured from one stream. Both have been used before.
cudaGraphExec_t Capture(job::Context& c, cudaStream_t s, ncclComm_t first, ncclComm_t second) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CUDA_OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  c.AllReduce(first, s);
  if (second != nullptr) c.AllReduce(second, s);
  CUDA_OK(cudaStreamEndCapture(s, &graph));
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_OK(cudaGraphDestroy(graph));
  return exec;
}

}  // namespace

JOB(graph_inversion, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t a = c.MakeComm("a", c.All());
  ncclComm_t b = c.MakeComm("b", c.All());
  c.Warm(a, s);
  c.Warm(b, s);
  const bool reverse = !c.twin && c.rank == c.nranks - 1;
  cudaGraphExec_t graph = Capture(c, s, reverse ? b : a, reverse ? a : b);
  c.Begin(s);
  for (int i = 0; i < 3; ++i) {
    c.Step("replay");
    CUDA_OK(cudaGraphLaunch(graph, s));
    c.AllReduce(a, s);  // called, between the replays
  }
  c.Sync(s);
  CUDA_OK(cudaGraphExecDestroy(graph));
}

JOB(graph_first_use, 2) {
  // What is captured connects as what is called does. A communicator's first use that is captured
  // at one rank and called at the others is one use; two that are captured in opposite orders are
  // not.
  cudaStream_t s = c.Stream();
  ncclComm_t met = c.MakeComm("met", c.All());
  ncclComm_t a = c.MakeComm("a", c.All());
  ncclComm_t b = c.MakeComm("b", c.All());
  const bool last = c.rank == c.nranks - 1;
  cudaGraphExec_t one = nullptr;
  if (last) {
    one = Capture(c, s, met, nullptr);
    CUDA_OK(cudaGraphLaunch(one, s));
  } else {
    c.AllReduce(met, s);
  }
  c.Sync(s);
  c.Begin(s);
  c.Step("capture");
  const bool reverse = !c.twin && last;
  cudaGraphExec_t graph = Capture(c, s, reverse ? b : a, reverse ? a : b);
  c.Step("launch");
  CUDA_OK(cudaGraphLaunch(graph, s));
  c.Sync(s);
  CUDA_OK(cudaGraphExecDestroy(graph));
  if (one != nullptr) CUDA_OK(cudaGraphExecDestroy(one));
}

JOB(graphs_share_communicator, 2) {
  // Two graphs with one communicator, on a stream each; the last rank replays them the other way
  // round.
  cudaStream_t one = c.Stream(), other = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, one);
  float* buffer = c.Buffer(1 << 16);
  cudaGraphExec_t execs[2];
  for (int i = 0; i < 2; ++i) {
    cudaGraph_t graph = nullptr;
    CUDA_OK(cudaStreamBeginCapture(i == 0 ? one : other, cudaStreamCaptureModeThreadLocal));
    NCCL_OK(ncclAllReduce(buffer, buffer, i == 0 ? 1024 : 4096, ncclFloat, ncclSum, world,
                          i == 0 ? one : other));
    CUDA_OK(cudaStreamEndCapture(i == 0 ? one : other, &graph));
    CUDA_OK(cudaGraphInstantiate(&execs[i], graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
  }
  c.Begin(one);
  const bool reverse = !c.twin && c.rank == c.nranks - 1;
  c.Step("replay");
  CUDA_OK(cudaGraphLaunch(execs[reverse ? 1 : 0], reverse ? other : one));
  CUDA_OK(cudaGraphLaunch(execs[reverse ? 0 : 1], reverse ? one : other));
  c.Sync(one);
  c.Sync(other);
  for (cudaGraphExec_t exec : execs) CUDA_OK(cudaGraphExecDestroy(exec));
}

JOB(graph_stuck_inside, 2) {
  // Six operations, two of them in a group on two streams that fork and join; the last rank's graph
  // has a kernel in it that does not end, before the fifth (in the twin it ends soon).
  cudaStream_t s = c.Stream();
  cudaStream_t side = c.Stream();
  ncclComm_t a = c.MakeComm("a", c.All());
  ncclComm_t b = c.MakeComm("b", c.All());
  c.Warm(a, s);
  c.Warm(b, s);
  cudaEvent_t fork = nullptr, join = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  CUDA_OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CUDA_OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  c.AllReduce(a, s);
  c.AllReduce(b, s);
  CUDA_OK(cudaEventRecord(fork, s));
  CUDA_OK(cudaStreamWaitEvent(side, fork, 0));
  NCCL_OK(ncclGroupStart());
  c.AllReduce(a, s);
  c.AllReduce(b, side);
  NCCL_OK(ncclGroupEnd());
  CUDA_OK(cudaEventRecord(join, side));
  CUDA_OK(cudaStreamWaitEvent(s, join, 0));
  if (c.rank == c.nranks - 1) c.BusyKernel(s, c.twin ? 0.05 : 3600);
  c.AllReduce(a, s);
  c.AllReduce(b, s);
  CUDA_OK(cudaStreamEndCapture(s, &graph));
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_OK(cudaGraphDestroy(graph));
  c.Begin(s);
  const int replays = c.twin ? 20 : 1;
  for (int i = 0; i < replays; ++i) {
    c.Step("replay");
    CUDA_OK(cudaGraphLaunch(exec, s));
  }
  c.Sync(s);
  CUDA_OK(cudaGraphExecDestroy(exec));
}

// How many nodes a captured graph has: two operations with nothing between them, a copy, and
// another operation. Then the same captured into a graph that is there already, and from scratch
// once more.
JOB(graph_nodes, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t a = c.World();
  c.Warm(a, s);
  float* memory = c.Buffer(16);
  const auto operations = [&] {
    c.AllReduce(a, s);
    c.AllReduce(a, s);
    CUDA_OK(cudaMemsetAsync(memory, 0, 16, s));
    c.AllReduce(a, s);
  };
  const auto captured = [&] {
    cudaGraph_t graph = nullptr;
    CUDA_OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    operations();
    CUDA_OK(cudaStreamEndCapture(s, &graph));
    size_t nodes = 0;
    CUDA_OK(cudaGraphGetNodes(graph, nullptr, &nodes));
    CUDA_OK(cudaGraphDestroy(graph));
    return nodes;
  };
  const size_t first = captured();
  cudaGraph_t body = nullptr;
  CUDA_OK(cudaGraphCreate(&body, 0));
  CUDA_OK(cudaStreamBeginCaptureToGraph(s, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
  operations();
  cudaGraph_t same = nullptr;
  CUDA_OK(cudaStreamEndCapture(s, &same));
  size_t into = 0;
  CUDA_OK(cudaGraphGetNodes(body, nullptr, &into));
  CUDA_OK(cudaGraphDestroy(body));
  const size_t later = captured();
  if (c.rank == 0) std::printf("nodes %zu %zu %zu\n", first, into, later);
  std::fflush(stdout);
}

JOB(graph_missing_replay, 3) {
  // The last rank leaves the loop a step early.
  cudaStream_t s = c.Stream();
  ncclComm_t world = c.World();
  c.Warm(world, s);
  cudaGraphExec_t graph = Capture(c, s, world, nullptr);
  c.Begin(s);
  const int steps = !c.twin && c.rank == c.nranks - 1 ? 4 : 5;
  for (int i = 0; i < steps; ++i) {
    CUDA_OK(cudaGraphLaunch(graph, s));
    c.Sync(s);
  }
  c.Step("last replay");
  if (!c.twin && c.rank == c.nranks - 1) c.SleepInUserCode(3600);
  CUDA_OK(cudaGraphExecDestroy(graph));
}

JOB(graph_against_sync, 2) {
  // A graph of both, and a rank that calls them in another order with a wait between.
  cudaStream_t s = c.Stream();
  ncclComm_t a = c.MakeComm("a", c.All());
  ncclComm_t b = c.MakeComm("b", c.All());
  c.Warm(a, s);
  c.Warm(b, s);
  const bool calls = c.rank == c.nranks - 1;
  cudaGraphExec_t graph = calls ? nullptr : Capture(c, s, a, b);
  c.Begin(s);
  c.Step("step");
  if (!calls) {
    CUDA_OK(cudaGraphLaunch(graph, s));
  } else {
    c.AllReduce(c.twin ? a : b, s);
    c.Sync(s);
    c.AllReduce(c.twin ? b : a, s);
  }
  c.Sync(s);
}

// A capture in global mode that stays open for five seconds, while another thread's collectives are
// in flight: whoever queries an event meanwhile, and does not exchange its thread's capture mode
// before, ends the capture with an error. Innocent.
JOB(long_capture, 2) {
  cudaStream_t captured = c.Stream();
  cudaStream_t busy = c.Stream();
  ncclComm_t a = c.MakeComm("a", c.All());
  ncclComm_t b = c.MakeComm("b", c.All());
  c.Warm(a, captured);
  c.Warm(b, busy);
  c.Begin(captured);
  constexpr int kPosted = 500;
  std::atomic<int> posted = 0;
  std::thread other([&] {
    // As a program does that knows of the capture. Both ranks post the same operations, ten
    // milliseconds apart.
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CUDA_OK(cudaSetDevice(c.rank));
    CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
    for (int i = 0; i < kPosted; ++i) {
      c.AllReduce(b, busy);
      ++posted;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
  c.Step("capture begun");
  c.AllReduce(a, captured);
  while (posted < kPosted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  c.AllReduce(a, captured);
  CUDA_OK(cudaStreamEndCapture(captured, &graph));
  c.Step("capture ended");
  other.join();
  cudaGraphExec_t exec = nullptr;
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_OK(cudaGraphLaunch(exec, captured));
  c.Sync(captured);
  c.Sync(busy);
  CUDA_OK(cudaGraphExecDestroy(exec));
  CUDA_OK(cudaGraphDestroy(graph));
}
