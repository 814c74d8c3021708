// All-reduces captured into CUDA graphs.
#include "tests/gpu/truth/truth.h"

namespace {

using truth::Comm;
using truth::Rank;

// Captures what `body` issues on `stream`.
template <typename F>
cudaGraphExec_t Capture(Rank& r, cudaStream_t stream, F body) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  r.Call("cudaStreamBeginCapture",
         [&] { return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal); });
  body();
  r.Call("cudaStreamEndCapture", [&] { return cudaStreamEndCapture(stream, &graph); });
  r.Call("cudaGraphInstantiate", [&] { return cudaGraphInstantiate(&exec, graph, 0); });
  r.Call("cudaGraphDestroy", [&] { return cudaGraphDestroy(graph); });
  return exec;
}

void Launch(Rank& r, cudaGraphExec_t exec, cudaStream_t stream, const std::string& name) {
  r.Call("cudaGraphLaunch " + name, [&] { return cudaGraphLaunch(exec, stream); });
}

struct Pair {
  cudaStream_t a, b;
  Comm dp, tp;
  cudaGraphExec_t dp_graph, tp_graph;
};

// One graph for each of two communicators.
Pair Prepare(Rank& r) {
  Pair p{r.Stream(), r.Stream(), r.Ready("dp"), r.Ready("tp"), nullptr, nullptr};
  p.dp_graph = Capture(r, p.a, [&] { r.AllReduce(p.dp, p.a); });
  p.tp_graph = Capture(r, p.b, [&] { r.AllReduce(p.tp, p.b); });
  return p;
}

}  // namespace

// The first use of two communicators is captured, in opposite orders: nothing is launched.
TRUTH_PROGRAM(graph_cold_opposite, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.MakeComm("dp");
  Comm tp = r.MakeComm("tp");
  r.Begin();
  cudaGraphExec_t exec = Capture(r, s, [&] {
    r.AllReduce(r.Departs() ? tp : dp, s);
    r.AllReduce(r.Departs() ? dp : tp, s);
  });
  Launch(r, exec, s, "both");
  r.Finish({s});
}

// The same in one order; and one of them is captured at one rank and called at the others.
TRUTH_PROGRAM(graph_cold_same_order, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.MakeComm("dp");
  Comm tp = r.MakeComm("tp");
  r.Begin();
  cudaGraphExec_t exec = Capture(r, s, [&] { r.AllReduce(dp, s); });
  Launch(r, exec, s, "dp");
  if (r.Departs()) {
    exec = Capture(r, s, [&] { r.AllReduce(tp, s); });
    Launch(r, exec, s, "tp");
  } else {
    r.AllReduce(tp, s);
  }
  r.Finish({s});
}

TRUTH_PROGRAM(graph_same_order, 2) {
  Pair p = Prepare(r);
  r.Begin();
  for (int i = 0; i < 3; ++i) {
    Launch(r, p.dp_graph, p.a, "dp");
    Launch(r, p.tp_graph, p.a, "tp");
  }
  r.Finish({p.a});
}

TRUTH_PROGRAM(graph_inversion_one_stream, 2) {
  Pair p = Prepare(r);
  r.Begin();
  Launch(r, r.Departs() ? p.tp_graph : p.dp_graph, p.a, r.Departs() ? "tp" : "dp");
  Launch(r, r.Departs() ? p.dp_graph : p.tp_graph, p.a, r.Departs() ? "dp" : "tp");
  r.Finish({p.a});
}

TRUTH_PROGRAM(graph_inversion_two_streams, 2) {
  Pair p = Prepare(r);
  r.Begin();
  Launch(r, r.Departs() ? p.tp_graph : p.dp_graph, r.Departs() ? p.b : p.a,
         r.Departs() ? "tp" : "dp");
  Launch(r, r.Departs() ? p.dp_graph : p.tp_graph, r.Departs() ? p.a : p.b,
         r.Departs() ? "dp" : "tp");
  r.Finish({p.a, p.b});
}

// Both in one graph, captured in opposite order.
TRUTH_PROGRAM(graph_captured_opposite, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  cudaGraphExec_t exec = Capture(r, s, [&] {
    r.AllReduce(r.Departs() ? tp : dp, s);
    r.AllReduce(r.Departs() ? dp : tp, s);
  });
  r.Begin();
  Launch(r, exec, s, "both");
  r.Finish({s});
}

// Both in one graph on two branches, captured in opposite order: nothing orders them.
TRUTH_PROGRAM(graph_branches_opposite, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  cudaEvent_t fork = r.Event();
  cudaEvent_t join = r.Event();
  Comm dp = r.Ready("dp");
  Comm tp = r.Ready("tp");
  cudaGraphExec_t exec = Capture(r, a, [&] {
    r.Call("cudaEventRecord", [&] { return cudaEventRecord(fork, a); });
    r.Call("cudaStreamWaitEvent", [&] { return cudaStreamWaitEvent(b, fork, 0); });
    r.AllReduce(r.Departs() ? tp : dp, r.Departs() ? b : a);
    r.AllReduce(r.Departs() ? dp : tp, r.Departs() ? a : b);
    r.Call("cudaEventRecord", [&] { return cudaEventRecord(join, b); });
    r.Call("cudaStreamWaitEvent", [&] { return cudaStreamWaitEvent(a, join, 0); });
  });
  r.Begin();
  Launch(r, exec, a, "branches");
  r.Finish({a});
}

TRUTH_PROGRAM(graph_against_calls, 2) {
  Pair p = Prepare(r);
  r.Begin();
  if (r.Departs()) {
    r.AllReduce(p.tp, p.a);
    Launch(r, p.dp_graph, p.a, "dp");
  } else {
    Launch(r, p.dp_graph, p.a, "dp");
    r.AllReduce(p.tp, p.a);
  }
  r.Finish({p.a});
}

// One rank launches a graph where the others call: the same operation all the same.
TRUTH_PROGRAM(graph_at_one_rank, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  cudaGraphExec_t exec = Capture(r, s, [&] { r.AllReduce(dp, s); });
  r.Begin();
  for (int i = 0; i < 3; ++i) {
    if (r.rank == 0) {
      Launch(r, exec, s, "dp");
    } else {
      r.AllReduce(dp, s);
    }
  }
  r.Finish({s});
}

TRUTH_PROGRAM(graph_one_launch_too_many, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  cudaGraphExec_t exec = Capture(r, s, [&] { r.AllReduce(dp, s); });
  r.Begin();
  for (int i = 0; i < 2 + (r.rank == 0 ? 1 : 0); ++i) Launch(r, exec, s, "dp");
  r.Finish({s});
}

// The capture itself runs nothing: rank 0 captures, the others wait for what never ran.
TRUTH_PROGRAM(graph_captured_not_launched, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.Ready("dp");
  r.Begin();
  if (r.rank == 0) {
    Capture(r, s, [&] {
      r.Call("ncclAllReduce dp", [&] {
        return ncclAllReduce(dp.in, dp.out, dp.count, ncclFloat, ncclSum, dp.handle, s);
      });
    });
  } else {
    r.AllReduce(dp, s);
  }
  r.Finish({s});
}

// Two graphs of one communicator on two streams: NCCL keeps its operations in order.
TRUTH_PROGRAM(graph_one_comm_two_streams, 2) {
  cudaStream_t a = r.Stream();
  cudaStream_t b = r.Stream();
  Comm dp = r.Ready("dp");
  cudaGraphExec_t one = Capture(r, a, [&] { r.AllReduce(dp, a); });
  cudaGraphExec_t two = Capture(r, b, [&] { r.AllReduce(dp, b); });
  r.Begin();
  for (int i = 0; i < 4; ++i) {
    Launch(r, one, a, "one");
    Launch(r, two, b, "two");
  }
  r.Finish({a, b});
}

// First use of a communicator is inside a capture.
TRUTH_PROGRAM(graph_cold, 2) {
  cudaStream_t s = r.Stream();
  Comm dp = r.MakeComm("dp");
  r.Begin();
  cudaGraphExec_t exec = Capture(r, s, [&] { r.AllReduce(dp, s); });
  Launch(r, exec, s, "dp");
  r.Finish({s});
}
