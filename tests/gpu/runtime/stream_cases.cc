// Streams that wait for each other's events, on real GPUs, through gordian/runtime.h.
//   gordian-runtime-stream-cases CASE [--ranks N] [--rounds N] [--seed N]
// Cases: cycle twin random graph_between. One process a rank, one device each. Inputs change in
// every round, and every output is checked on the device.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
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

constexpr uint64_t kPatience = 20'000'000'000;

struct Options {
  std::string what;
  int rounds = 0;  // 0: the case's own
  uint64_t seed = 1;
};

class Runner : public testing::Member {
 public:
  Runner(const Options& o, RankProcess& process)
      : Member(process.rank(), process.ranks(),
               [&process](const std::string& why) { process.Fail(why); }),
        o_(o),
        p_(process) {}

  int Run() {
    Cuda(cudaSetDevice(testing::DeviceOf(r_)), "cudaSetDevice");
    for (cudaStream_t& s : streams_)
      Cuda(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
    for (cudaEvent_t& e : events_)
      Cuda(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "event");
    Prepare();
    for (int i = 0; i < kComms; ++i) {
      comms_.push_back(Comm("c" + std::to_string(i)));
      const Subject s = Make(OpKind::kAllReduce, 1000);
      Before(s, streams_[0]);
      Ok(Call(s, comms_.back(), streams_[0]), "first use");
      After(s, streams_[0]);
      Finish("first use");
      Free(s);
    }
    for (const cudaStream_t s : streams_) Ok(grtStreamExclusive(s, 1), "exclusive");
    if (o_.what == "cycle")
      Cycle(true);
    else if (o_.what == "twin")
      Cycle(false);
    else if (o_.what == "random")
      Random();
    else if (o_.what == "graph_between")
      GraphBetween();
    else
      return 2;
    for (const grtComm_t comm : comms_) {
      Healthy(comm);
      Ok(grtCommDestroy(comm, kPatience), "destroy");
    }
    return 0;
  }

 private:
  static constexpr int kStreams = 4, kComms = 5, kEvents = 3;

  // The program works on a stream and uses events; each call tells the runtime first.
  void Fill(const Subject& s, cudaStream_t stream) {
    Ok(grtStreamForeign(stream), "foreign");
    Before(s, stream);
  }
  void Check(const Subject& s, cudaStream_t stream) {
    Ok(grtStreamForeign(stream), "foreign");
    After(s, stream);
  }
  void Record(cudaEvent_t event, cudaStream_t stream) {
    Ok(grtEventRecorded(event, stream), "record");
    Cuda(cudaEventRecord(event, stream), "record");
  }
  void Wait(cudaStream_t stream, cudaEvent_t event) {
    Ok(grtEventAwaited(event, stream), "wait");
    Cuda(cudaStreamWaitEvent(stream, event, 0), "wait");
  }
  uint64_t Helped() {
    uint64_t helped = 0;
    for (const grtComm_t comm : comms_) {
      grtStats_t stats = GRT_STATS_INITIALIZER;
      Ok(grtGetStats(comm, &stats), "stats");
      helped = std::max<uint64_t>(helped, stats.helped);
    }
    return p_.Sum(helped);
  }

  // A communicator on a stream of its own each; the stream of the second operation waits for the
  // first one. Odd ranks begin with the other one, if it is `turned`.
  void Cycle(bool turned) {
    const int rounds = o_.rounds != 0 ? o_.rounds : 500;
    for (const uint64_t count : {1000ul, 300'000ul, 4'000'000ul}) {
      const Subject subjects[2] = {Make(OpKind::kAllReduce, count),
                                   Make(OpKind::kAllReduce, count / 2)};
      const int first = turned && r_ % 2 == 1 ? 1 : 0;
      Finish("inputs");
      double begin = 0;
      for (int i = -10; i < rounds; ++i) {
        p_.At("%s: %lu, round %d", o_.what.c_str(), static_cast<unsigned long>(count), i);
        if (i == 0) {
          Finish("before");
          begin = Now();
        }
        for (const int k : {0, 1}) Fill(subjects[k], streams_[k]);
        Ok(Call(subjects[first], comms_[first], streams_[first]), "first");
        Record(events_[0], streams_[first]);
        Wait(streams_[1 - first], events_[0]);
        Ok(Call(subjects[1 - first], comms_[1 - first], streams_[1 - first]), "second");
        for (const int k : {0, 1}) Check(subjects[k], streams_[k]);
      }
      Finish(o_.what.c_str());
      const double took = (Now() - begin) / rounds * 1e6;
      Say("%s: %lu floats: %d rounds right, %.0f us each, %llu channels helped so far\n",
          o_.what.c_str(), static_cast<unsigned long>(count), rounds, took,
          static_cast<unsigned long long>(Helped()));
      for (const Subject& s : subjects) Free(s);
    }
  }

  // Operations of five communicators in an order of each rank's own, on streams of its own choice,
  // with events behind some of them that other streams wait for.
  void Random() {
    constexpr int kEach = 2;
    const int rounds = o_.rounds != 0 ? o_.rounds : 1000;
    std::mt19937_64 all(o_.seed), own(o_.seed * 1000 + static_cast<uint64_t>(r_) + 1);
    const auto any = [&](uint64_t below) { return own() % below; };
    std::vector<Subject> subjects;
    for (int i = 0; i < kComms * kEach; ++i) {
      const uint64_t count = i % 5 == 4 ? 400'000 + all() % 400'000 : 1 + all() % 60'000;
      subjects.push_back(Make(i % 3 == 2 ? OpKind::kAllGather : OpKind::kAllReduce, count));
    }
    uint64_t waits = 0;
    std::vector<int> stream_of(kComms);
    const double begin = Now();
    for (int round = 0; round < rounds; ++round) {
      p_.At("random: round %d", round);
      if (round % 20 == 0) {
        Finish("random");
        for (int& s : stream_of) s = static_cast<int>(any(kStreams));
      }
      std::vector<int> order, next(kComms, 0);
      for (int i = 0; i < kComms * kEach; ++i) {
        order.push_back(i / kEach);
        Fill(subjects[i], streams_[stream_of[i / kEach]]);
      }
      std::shuffle(order.begin(), order.end(), own);
      for (const int c : order) {
        const cudaStream_t stream = streams_[stream_of[c]];
        Ok(Call(subjects[c * kEach + next[c]++], comms_[c], stream), "calling");
        if (any(3) == 0) continue;
        const cudaEvent_t event = events_[any(kEvents)];
        Record(event, stream);
        for (uint64_t w = 1 + any(2); w > 0; --w, ++waits) Wait(streams_[any(kStreams)], event);
      }
      for (int i = 0; i < kComms * kEach; ++i) Check(subjects[i], streams_[stream_of[i / kEach]]);
    }
    Finish("random");
    const uint64_t of_all = p_.Sum(waits), helped = Helped();
    Say("random: %d orders of %d operations right, %llu waits, %llu channels helped, %.0f us a "
        "round\n",
        rounds, kComms * kEach, static_cast<unsigned long long>(of_all),
        static_cast<unsigned long long>(helped), (Now() - begin) / rounds * 1e6);
    if (n_ > 1 && helped == 0) p_.Fail("nothing was helped");
    for (const Subject& s : subjects) Free(s);
  }

  // Two operations are captured one behind the other. Before the graph is made executable, the
  // program puts a node between them, that writes what the second one sends. Rank 0 is late in
  // every launch, so the others' first operation stalls, and would help the second one if what was
  // captured told what stands between the two. All must get what the node has written.
  void GraphBetween() {
    const Subject first = Make(OpKind::kAllReduce, 2000), second = Make(OpKind::kAllReduce, 2000);
    float* fresh = nullptr;
    Cuda(cudaMalloc(reinterpret_cast<void**>(&fresh), 2000 * 4), "cudaMalloc");
    const cudaStream_t s = streams_[0];
    Begin(s);
    Ok(Call(first, comms_[0], s), "calling");
    cudaStreamCaptureStatus status{};
    const cudaGraphNode_t* tips = nullptr;
    size_t count = 0;
    cudaGraph_t graph = nullptr;
    const auto ask = [&] {
      Cuda(cudaStreamGetCaptureInfo(s, &status, nullptr, &graph, &tips, nullptr, &count), "asking");
    };
    ask();
    const std::vector<cudaGraphNode_t> behind_first(tips, tips + count);
    Ok(Call(second, comms_[1], s), "calling");
    graph = EndCapture(s);
    // The second operation's nodes: those that the first one's lead to.
    cudaGraphNode_t copy = nullptr;
    Cuda(cudaGraphAddMemcpyNode1D(&copy, graph, behind_first.data(), behind_first.size(), second.in,
                                  fresh, 2000 * 4, cudaMemcpyDeviceToDevice),
         "adding a node");
    for (const cudaGraphNode_t from : behind_first) {
      size_t dependents = 0;
      Cuda(cudaGraphNodeGetDependentNodes(from, nullptr, nullptr, &dependents), "asking");
      std::vector<cudaGraphNode_t> nodes(dependents);
      Cuda(cudaGraphNodeGetDependentNodes(from, nodes.data(), nullptr, &dependents), "asking");
      for (const cudaGraphNode_t node : nodes) {
        if (node != copy)
          Cuda(cudaGraphAddDependencies(graph, &copy, &node, nullptr, 1), "a dependency");
      }
    }
    const cudaGraphExec_t exec = Instantiate(graph);
    const int rounds = o_.rounds != 0 ? o_.rounds : 100;
    for (int i = 0; i < rounds; ++i) {
      p_.At("graph_between: round %d", i);
      Before(first, s);
      Before(second, s);  // and then it is moved to where only the node finds it
      Cuda(cudaMemcpyAsync(fresh, second.in, 2000 * 4, cudaMemcpyDeviceToDevice, s), "moving");
      Cuda(cudaMemsetAsync(second.in, 0x55, 2000 * 4, s), "hiding");
      if (r_ == 0) Sleep(2);
      Launch(exec, s);
      After(first, s);
      After(second, s);
      if (i % 10 == 9) Finish("graph_between");
    }
    Finish("graph_between");
    Say("graph_between: %d launches of two captured operations with a node put between: right\n",
        rounds);
    Cuda(cudaGraphExecDestroy(exec), "destroy");
    Cuda(cudaFree(fresh), "free");
    for (const Subject& subject : {first, second}) Free(subject);
  }

  const Options& o_;
  RankProcess& p_;
  cudaStream_t streams_[kStreams] = {};
  cudaEvent_t events_[kEvents] = {};
  std::vector<grtComm_t> comms_;
};

int Main(int argc, char** argv) {
  Options o;
  o.what = argc > 1 ? argv[1] : "";
  int ranks = 2;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--ranks") ranks = atoi(argv[i + 1]);
    if (name == "--rounds") o.rounds = atoi(argv[i + 1]);
    if (name == "--seed") o.seed = static_cast<uint64_t>(atoll(argv[i + 1]));
  }
  if (o.what.empty() || ranks < 2 || ranks > testing::kMostRanks) {
    fprintf(stderr,
            "usage: gordian-runtime-stream-cases CASE [--ranks N] [--rounds N] [--seed N]\n");
    return 2;
  }
  const int result = testing::RunRanks(
      ranks, 120, 20, 0, [&](RankProcess& process) { return Runner(o, process).Run(); });
  printf("%s %s --ranks %d\n", result == 0 ? "PASS" : "FAIL", o.what.c_str(), ranks);
  return result;
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
