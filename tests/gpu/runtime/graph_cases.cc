// Operations in CUDA graphs on real GPUs, through gordian/runtime.h as a program uses it.
//   gordian-runtime-graph-cases CASE [--ranks N]
// One process a rank, one device each. Inputs change with every launch, and every launch is checked
// on the device.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "gordian/runtime.h"
#include "runtime/testing/member.h"
#include "runtime/testing/ranks.h"
#include "tests/gpu/runtime/rank_device.h"

namespace gordian::runtime::cuda {
namespace {

using testing::Now;
using testing::RankProcess;
using testing::Sleep;
using testing::Subject;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kPatience = 20 * kSecond;

class Runner : public testing::Member {
 public:
  Runner(const std::string& what, RankProcess& process)
      : Member(process.rank(), process.ranks(),
               [&process](const std::string& why) { process.Fail(why); }),
        what_(what),
        p_(process) {}

  int Run() {
    Cuda(cudaSetDevice(testing::DeviceOf(r_)), "cudaSetDevice");
    for (cudaStream_t* s : {&one_, &two_, &three_})
      Cuda(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking), "stream");
    Prepare();
    if (what_ == "replay")
      Replay();
    else if (what_ == "mixed")
      Mixed();
    else if (what_ == "first")
      First();
    else if (what_ == "groups")
      Groups();
    else if (what_ == "one_captures")
      OneCaptures();
    else if (what_ == "streams")
      Streams();
    else if (what_ == "helped")
      Helped();
    else if (what_ == "once_more")
      OnceMore();
    else if (what_ == "death")
      Death();
    else if (what_ == "opposite")
      Opposite();
    else if (what_ == "refused")
      Refused();
    else if (what_ == "threads")
      Threads();
    else
      return 2;
    return 0;
  }

 private:
  // Every kind and way of carrying, a thousand launches, mixed with calls that are not captured.
  void Replay() {
    grtComm_t comm = Comm("replay");
    int launches = 0, others = 0;
    for (const uint64_t count : {2ul, 3000ul, 200'000ul, 1'500'000ul}) {
      for (const OpKind kind :
           {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kBroadcast,
            OpKind::kReduce, OpKind::kAllToAll, OpKind::kGather, OpKind::kScatter}) {
        const int rounds = kind == OpKind::kAllReduce ? (count < 100'000 ? 2000 : 1000) : 100;
        p_.At("replay: kind %d of %lu", static_cast<int>(kind), static_cast<unsigned long>(count));
        const Subject s = Make(kind, count, static_cast<uint32_t>(n_ - 1)),
                      other = Make(OpKind::kAllReduce, 777);
        All(other, comm, one_);
        Begin(one_);
        All(s, comm, one_);
        const cudaGraphExec_t graph = End(one_);
        for (int i = 0; i < rounds; ++i) {
          Launch(graph, one_);
          ++launches;
          if (i % 97 == 0) {
            All(other, comm, one_);
            ++others;
            p_.At("replay: kind %d of %lu, launch %d", static_cast<int>(kind),
                  static_cast<unsigned long>(count), i);
          }
          if (i % 500 == 499) Cuda(cudaStreamSynchronize(one_), "pause");
        }
        All(other, comm, one_);
        Finish("replay");
        Cuda(cudaGraphExecDestroy(graph), "destroy");
        Free(s);
        Free(other);
      }
    }
    Healthy(comm);
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Say("replay: %d launches, %d operations beside them, all right\n", launches, others);
  }

  // A graph on one stream and calls on others; nothing but the runtime orders them. Unequal counts:
  // an operation that meets another one than its own would be told.
  void Mixed() {
    grtComm_t comm = Comm("mixed");
    for (const uint64_t count : {100ul, 50'000ul, 600'000ul}) {
      const Subject inside = Make(OpKind::kAllReduce, count),
                    again = Make(OpKind::kAllGather, count / 2);
      const Subject here = Make(OpKind::kAllReduce, count + 1),
                    there = Make(OpKind::kReduceScatter, count / 3);
      Begin(one_);
      All(inside, comm, one_);
      All(again, comm, one_);
      const cudaGraphExec_t graph = End(one_);
      const double begin = Now();
      const int rounds = count > 100'000 ? 200 : 500;
      uint32_t seed = static_cast<uint32_t>(count);
      for (int i = 0; i < rounds; ++i) {
        p_.At("mixed: %lu, round %d", static_cast<unsigned long>(count), i);
        // The same on all ranks.
        for (int k = 0; k < 4; ++k) {
          seed = seed * 1664525 + 1013904223;
          switch (seed >> 24 & 3) {
            case 0:
              Launch(graph, one_);
              break;
            case 1:
              All(here, comm, two_);
              break;
            case 2:
              Launch(graph, three_);
              break;
            default:
              All(there, comm, three_);
          }
        }
        if (i % 50 == 49) Cuda(cudaDeviceSynchronize(), "pause");
      }
      Finish("mixed");
      Say("mixed: %lu: %d rounds of 4 on three streams, %.0f us each\n",
          static_cast<unsigned long>(count), rounds, (Now() - begin) / rounds / 4 * 1e6);
      Cuda(cudaGraphExecDestroy(graph), "destroy");
      for (const Subject& s : {inside, again, here, there}) Free(s);
    }
    Healthy(comm);
    Ok(grtCommDestroy(comm, kPatience), "destroy");
  }

  // A communicator whose first operation is captured; and one whose last operation is unfinished
  // when its own stream begins to be captured, while the graph is launched elsewhere.
  void First() {
    const Subject inside = Make(OpKind::kAllReduce, 5000), before = Make(OpKind::kAllReduce, 7000);
    const Subject behind = Make(OpKind::kAllReduce, 9000);
    grtComm_t fresh = Comm("fresh");
    Begin(one_);
    All(inside, fresh, one_);
    cudaGraphExec_t graph = End(one_);
    for (int i = 0; i < 10; ++i) Launch(graph, one_);
    Finish("first");
    Cuda(cudaGraphExecDestroy(graph), "destroy");
    Ok(grtCommDestroy(fresh, kPatience), "destroy");
    double slowest = 0;
    for (int turn = 0; turn < 20; ++turn) {
      p_.At("first: turn %d", turn);
      grtComm_t comm = Comm("first " + std::to_string(turn));
      All(before, comm, one_);
      Finish("first");
      if (r_ == turn % n_) Sleep(20);  // the others' next operation waits for this one
      All(before, comm, one_);
      const double begin = Now();
      Begin(one_);
      All(inside, comm, one_);
      graph = End(one_);
      const double took = Now() - begin;
      slowest = std::max(slowest, took);
      Launch(graph, two_);
      All(behind, comm, three_);
      Finish("first");
      Healthy(comm);
      Cuda(cudaGraphExecDestroy(graph), "destroy");
      Ok(grtCommDestroy(comm, kPatience), "destroy");
    }
    Say("first: right; capturing beside an unfinished operation of that stream took %.1f ms at "
        "most (the other rank: 20 ms late)\n",
        slowest * 1e3);
  }

  // Sends and receives that wait for each other, and a collective between.
  void Groups() {
    grtComm_t comm = Comm("groups"), second = Comm("second");
    const auto next = static_cast<uint32_t>((r_ + 1) % n_),
               before = static_cast<uint32_t>((r_ + n_ - 1) % n_);
    for (const uint64_t count : {500ul, 300'000ul, 3'000'000ul}) {
      const int rounds = count > 1'000'000 ? 200 : 1000;
      const Subject send = Make(OpKind::kSend, count, next),
                    receive = Make(OpKind::kRecv, count, before);
      const Subject back = Make(OpKind::kSend, count / 3, before),
                    from = Make(OpKind::kRecv, count / 3, next);
      const Subject sum = Make(OpKind::kAllReduce, count / 2),
                    other = Make(OpKind::kAllGather, 1000);
      Begin(one_);
      for (const Subject* s : {&send, &receive, &back, &from, &sum, &other}) Before(*s, one_);
      Ok(grtGroupStart(), "group");
      for (const Subject* s : {&send, &receive, &sum, &back, &from})
        Ok(Call(*s, comm, one_), "calling");
      Ok(Call(other, second, one_), "calling");
      Ok(grtGroupEnd(), "group end");
      for (const Subject* s : {&receive, &from, &sum, &other}) After(*s, one_);
      const cudaGraphExec_t graph = End(one_);
      const double begin = Now();
      for (int i = 0; i < rounds; ++i) {
        p_.At("groups: %lu, launch %d", static_cast<unsigned long>(count), i);
        Launch(graph, one_);
        if (i % 100 != 7) continue;
        Cuda(cudaDeviceSynchronize(), "the two share buffers");
        All(sum, comm, two_);
        Cuda(cudaDeviceSynchronize(), "the two share buffers");
      }
      Finish("groups");
      Say("groups: %d launches of a ring both ways of %lu floats, with an all-reduce: %.0f us "
          "each\n",
          rounds, static_cast<unsigned long>(count), (Now() - begin) / rounds * 1e6);
      Cuda(cudaGraphExecDestroy(graph), "destroy");
      for (const Subject& s : {send, receive, back, from, sum, other}) Free(s);
    }
    Healthy(comm);
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Ok(grtCommDestroy(second, kPatience), "destroy");
  }

  // Rank 0 captures; the others call.
  void OneCaptures() {
    grtComm_t comm = Comm("one captures");
    const auto next = static_cast<uint32_t>((r_ + 1) % n_),
               before = static_cast<uint32_t>((r_ + n_ - 1) % n_);
    for (const uint64_t count : {600ul, 900'000ul}) {
      const Subject sum = Make(OpKind::kAllReduce, count),
                    all = Make(OpKind::kAllGather, count / 2);
      const Subject send = Make(OpKind::kSend, count, next),
                    receive = Make(OpKind::kRecv, count, before);
      const auto body = [&] {
        All(sum, comm, one_);
        for (const Subject* s : {&send, &receive}) Before(*s, one_);
        Ok(grtGroupStart(), "group");
        for (const Subject* s : {&send, &receive}) Ok(Call(*s, comm, one_), "calling");
        Ok(grtGroupEnd(), "group end");
        After(receive, one_);
        All(all, comm, one_);
      };
      cudaGraphExec_t graph = nullptr;
      if (r_ == 0) {
        Begin(one_);
        body();
        graph = End(one_);
      }
      for (int i = 0; i < 300; ++i) {
        p_.At("one captures: %lu, round %d", static_cast<unsigned long>(count), i);
        if (r_ == 0) {
          Launch(graph, one_);
        } else {
          body();
        }
        if (i % 50 == 49) Cuda(cudaStreamSynchronize(one_), "pause");
      }
      Finish("one captures");
      if (graph != nullptr) Cuda(cudaGraphExecDestroy(graph), "destroy");
      for (const Subject& s : {sum, all, send, receive}) Free(s);
    }
    Healthy(comm);
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Say("one_captures: 300 rounds by 2 sizes, right\n");
  }

  // Two streams of one capture, and a graph that was made executable twice.
  void Streams() {
    grtComm_t comm = Comm("streams");
    const Subject a = Make(OpKind::kAllReduce, 40'000), b = Make(OpKind::kAllGather, 30'000),
                  c = Make(OpKind::kAllReduce, 300'000);
    cudaEvent_t fork = nullptr, join = nullptr;
    for (cudaEvent_t* e : {&fork, &join})
      Cuda(cudaEventCreateWithFlags(e, cudaEventDisableTiming), "event");
    Begin(one_);
    Cuda(cudaEventRecord(fork, one_), "fork");
    Cuda(cudaStreamWaitEvent(two_, fork, 0), "fork");
    All(a, comm, one_);
    All(b, comm, two_);
    All(c, comm, one_);
    Cuda(cudaEventRecord(join, two_), "join");
    Cuda(cudaStreamWaitEvent(one_, join, 0), "join");
    cudaGraph_t graph = nullptr;
    Cuda(cudaStreamEndCapture(one_, &graph), "end of capture");
    cudaGraphExec_t first = nullptr, second = nullptr;
    Cuda(cudaGraphInstantiate(&first, graph, 0), "instantiate");
    Cuda(cudaGraphInstantiate(&second, graph, 0), "instantiate");
    Cuda(cudaGraphDestroy(graph), "destroy");
    for (int i = 0; i < 500; ++i) {
      p_.At("streams: launch %d", i);
      Launch(first, one_);
      // Both use the same buffers.
      Cuda(cudaEventRecord(join, one_), "join");
      Cuda(cudaStreamWaitEvent(three_, join, 0), "join");
      Launch(second, three_);
      Cuda(cudaEventRecord(join, three_), "join");
      Cuda(cudaStreamWaitEvent(one_, join, 0), "join");
      if (i % 100 == 99) Cuda(cudaDeviceSynchronize(), "pause");
    }
    Finish("streams");
    for (cudaGraphExec_t e : {first, second}) Cuda(cudaGraphExecDestroy(e), "destroy");
    Healthy(comm);
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Say("streams: 1,000 launches of a graph of two streams, right\n");
  }

  // An exclusive stream of operations in opposite orders, beside launches of a graph of the same
  // communicators.
  void Helped() {
    grtComm_t a = Comm("a"), b = Comm("b");
    const Subject inside = Make(OpKind::kAllReduce, 2000);
    Subject first = Make(OpKind::kAllReduce, 1024), second = Make(OpKind::kAllReduce, 1024);
    Ok(grtStreamExclusive(two_, 1), "exclusive");
    Begin(one_);
    All(inside, a, one_);
    const cudaGraphExec_t graph = End(one_);
    const bool odd = r_ % 2 == 1;
    for (int i = 0; i < 200; ++i) {
      p_.At("helped: round %d", i);
      Launch(graph, one_);
      Cuda(cudaDeviceSynchronize(),
           "between");  // the graph's operation of `a` is no reason to wait then
      for (const Subject* s : {&first, &second}) Before(*s, two_);
      Cuda(cudaStreamSynchronize(two_), "inputs");
      Ok(grtStreamForeign(two_), "other work");
      Ok(Call(odd ? second : first, odd ? b : a, two_), "calling");
      Ok(Call(odd ? first : second, odd ? a : b, two_), "calling");
      Cuda(cudaStreamSynchronize(two_), "pair");
      for (const Subject* s : {&first, &second}) After(*s, two_);
    }
    Finish("helped");
    grtStats_t stats = GRT_STATS_INITIALIZER;
    Ok(grtGetStats(a, &stats), "stats");
    const uint64_t helped = p_.Sum(stats.helped);
    if (helped == 0) p_.Fail("nothing was helped");
    Cuda(cudaGraphExecDestroy(graph), "destroy");
    Say("helped: 200 pairs in opposite orders between launches, %llu channels helped\n",
        static_cast<unsigned long long>(helped));
    Ok(grtCommDestroy(a, kPatience), "destroy");
    Ok(grtCommDestroy(b, kPatience), "destroy");
  }

  // Rank 0 launches once more than the others: it waits until another rank aborts.
  void OnceMore() {
    for (const uint64_t count : {100ul, 800'000ul}) {
      for (const bool group : {false, true}) {
        p_.At("once more: %lu %d", static_cast<unsigned long>(count), group);
        grtComm_t comm = Comm("once more " + std::to_string(count) + std::to_string(group));
        const auto next = static_cast<uint32_t>((r_ + 1) % n_),
                   before = static_cast<uint32_t>((r_ + n_ - 1) % n_);
        const Subject sum = Make(OpKind::kAllReduce, count);
        const Subject send = Make(OpKind::kSend, count, next),
                      receive = Make(OpKind::kRecv, count, before);
        Begin(one_);
        if (group) {
          Ok(grtGroupStart(), "group");
          for (const Subject* s : {&send, &receive}) Ok(Call(*s, comm, one_), "calling");
          Ok(grtGroupEnd(), "group end");
        } else {
          Ok(Call(sum, comm, one_), "calling");
        }
        const cudaGraphExec_t graph = End(one_);
        for (int i = 0; i < 1000 + (r_ == 0 ? 1 : 0); ++i) Launch(graph, one_);
        const double begin = Now();
        if (r_ != 0) {
          Cuda(cudaStreamSynchronize(one_), "its launches");
          Sleep(200);
          Ok(grtCommAbort(comm), "abort");
        } else {
          Sleep(100);
          if (cudaStreamQuery(one_) != cudaErrorNotReady)
            p_.Fail("the launch that is one too many did not wait");
          Need(grtCommDestroy(comm, kSecond / 100), grtTimeout, "a destroy with a deadline");
          Cuda(cudaStreamSynchronize(one_), "the stream goes on");
          grtResult_t error = grtSuccess;
          Ok(grtCommGetAsyncError(comm, &error), "asking for errors");
          Need(error, grtAborted, "after the abort");
          // Launches after that end at once.
          const double then = Now();
          Launch(graph, one_);
          Cuda(cudaStreamSynchronize(one_), "a launch after the abort");
          Say("once_more: %lu%s: out after %.0f ms; a launch after that takes %.2f ms\n",
              static_cast<unsigned long>(count), group ? " in a group" : "", (then - begin) * 1e3,
              (Now() - then) * 1e3);
          Ok(grtCommAbort(comm), "abort");
        }
        Cuda(cudaGraphExecDestroy(graph), "destroy");
        for (const Subject& s : {sum, send, receive}) Free(s);
      }
    }
  }

  // The last rank is killed amid its launches.
  void Death() {
    grtComm_t comm = Comm("death");
    const Subject sum = Make(OpKind::kAllReduce, 100'000);
    Begin(one_);
    All(sum, comm, one_);
    const cudaGraphExec_t graph = End(one_);
    const bool dies = r_ == n_ - 1;
    for (int i = 0; i < 200 + (dies ? 0 : 1); ++i) Launch(graph, one_);
    if (dies) {
      Cuda(cudaStreamSynchronize(one_), "its launches");
      Sleep(300);
      raise(SIGKILL);
    }
    const double begin = Now();
    Cuda(cudaStreamSynchronize(one_), "the stream goes on");
    grtResult_t error = grtSuccess;
    Ok(grtCommGetAsyncError(comm, &error), "asking for errors");
    Need(error, grtPeerDead, "a member dies");
    Say("death: told, and the stream went on, %.0f ms after the others' last launch\n",
        (Now() - begin) * 1e3);
  }

  // Two communicators in opposite orders within graphs: as with NCCL, it hangs; abort ends it.
  void Opposite() {
    grtComm_t a = Comm("a"), b = Comm("b");
    const Subject first = Make(OpKind::kAllReduce, 1000), second = Make(OpKind::kAllReduce, 1000);
    const bool odd = r_ % 2 == 1;
    for (const bool opposite : {false, true}) {
      p_.At("opposite: %d", opposite);
      const bool swaps = odd && opposite;
      Begin(one_);
      Ok(Call(swaps ? second : first, swaps ? b : a, one_), "calling");
      Ok(Call(swaps ? first : second, swaps ? a : b, one_), "calling");
      const cudaGraphExec_t graph = End(one_);
      Launch(graph, one_);
      if (!opposite) {
        Cuda(cudaStreamSynchronize(one_), "in one order");
      } else {
        Sleep(500);
        if (cudaStreamQuery(one_) != cudaErrorNotReady) p_.Fail("opposite orders did not hang");
        Ok(grtCommAbort(a), "abort");
        Ok(grtCommAbort(b), "abort");
        Cuda(cudaStreamSynchronize(one_), "the stream goes on");
      }
      Cuda(cudaGraphExecDestroy(graph), "destroy");
    }
    // In a group they need no order.
    a = Comm("c"), b = Comm("d");
    Begin(one_);
    for (const Subject* s : {&first, &second}) Before(*s, one_);
    Ok(grtGroupStart(), "group");
    Ok(Call(odd ? second : first, odd ? b : a, one_), "calling");
    Ok(Call(odd ? first : second, odd ? a : b, one_), "calling");
    Ok(grtGroupEnd(), "group end");
    for (const Subject* s : {&first, &second}) After(*s, one_);
    const cudaGraphExec_t graph = End(one_);
    for (int i = 0; i < 1000; ++i) {
      p_.At("opposite: in a group, launch %d", i);
      Launch(graph, one_);
    }
    Finish("opposite in a group");
    Say("opposite: in graphs it hangs as it must, and abort ends it; in a group 1,000 launches are "
        "right\n");
  }

  void Refused() {
    grtComm_t comm = Comm("refused");
    const Subject s = Make(OpKind::kAllReduce, 100);
    Begin(one_);
    grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
    d.kind = grtKindAllReduce;
    d.in = s.in;
    d.out = s.out;
    d.count = s.count;
    d.comm = comm;
    grtOp_t op = nullptr;
    Need(grtSubmit(&d, one_, &op), grtNotSupported, "a handle of what is captured");
    Ok(grtGroupStart(), "group");
    Ok(Call(s, comm, one_), "captured");
    Ok(Call(s, comm, two_), "not captured");
    Need(grtGroupEnd(), grtInvalidArgument, "a group of both");
    All(s, comm, one_);
    const cudaGraphExec_t graph = End(one_);
    Launch(graph, one_);
    Finish("refused");
    Healthy(comm);
    Cuda(cudaGraphExecDestroy(graph), "destroy");
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Say("refused: what cannot be is said, and what was captured beside it is right\n");
  }

  // One thread captures in the strictest mode, again and again; another one calls operations, with
  // all that this asks of streams and events.
  void Threads() {
    grtComm_t a = Comm("captures"), b = Comm("calls");
    const Subject inside = Make(OpKind::kAllReduce, 3000), outside = Make(OpKind::kAllReduce, 4000);
    All(outside, b, three_);
    Cuda(cudaStreamSynchronize(three_), "before");
    std::atomic<bool> over{false};
    std::thread capturing([&] {
      Cuda(cudaSetDevice(testing::DeviceOf(r_)), "cudaSetDevice");
      for (int i = 0; i < 100; ++i) {
        p_.At("threads: capture %d", i);
        Begin(one_);
        for (int k = 0; k < 10; ++k) All(inside, a, one_);
        const cudaGraphExec_t graph = End(one_);
        Launch(graph, one_);
        Cuda(cudaGraphExecDestroy(graph), "destroy");
      }
      over = true;
    });
    int calls = 0;
    for (; calls < 4000; ++calls) {
      const cudaStream_t stream = calls % 2 == 0 ? two_ : three_;
      Ok(Call(outside, b, stream), "calling");
      grtResult_t error = grtInternalError;
      Ok(grtCommGetAsyncError(b, &error), "asking for errors");
      grtOp_t op = nullptr;
      grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
      d.kind = grtKindAllReduce;
      d.in = outside.in;
      d.out = outside.out;
      d.count = outside.count;
      d.comm = b;
      Ok(grtSubmit(&d, stream, &op), "with a handle");
      Ok(grtOpWait(op, kPatience), "waiting");
      Ok(grtOpFree(op), "free");
    }
    const bool beside = over;
    capturing.join();
    Cuda(cudaDeviceSynchronize(), "threads");
    After(outside, three_);
    Finish("threads");
    Healthy(a);
    Healthy(b);
    Ok(grtCommDestroy(a, kPatience), "destroy");
    Ok(grtCommDestroy(b, kPatience), "destroy");
    Say("threads: 1,000 captured operations and %d called ones, captures %s\n", 2 * calls,
        beside ? "done first" : "done last");
  }

  const std::string what_;
  RankProcess& p_;
  cudaStream_t one_ = nullptr, two_ = nullptr, three_ = nullptr;
};

int Main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  int ranks = 2;
  if (argc == 4 && std::string(argv[2]) == "--ranks") ranks = atoi(argv[3]);
  if (what.empty() || ranks < 2 || ranks > testing::kMostRanks) {
    fprintf(stderr, "usage: gordian-runtime-graph-cases CASE [--ranks N]\n");
    return 2;
  }
  const uint32_t may_die = what == "death" ? 1u << (ranks - 1) : 0;
  const int result = testing::RunRanks(
      ranks, 120, 20, may_die, [&](RankProcess& process) { return Runner(what, process).Run(); });
  printf("%s %s --ranks %d\n", result == 0 ? "PASS" : "FAIL", what.c_str(), ranks);
  return result;
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
