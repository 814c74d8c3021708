// Several GPUs in one process on real GPUs, through gordian/runtime.h as a program uses it.
//   gordian-runtime-devices-cases CASE [--devices N] [--processes N]
// Each process has that many devices, with a member of every communicator on each.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gordian/runtime.h"
#include "runtime/testing/member.h"
#include "runtime/testing/ranks.h"
#include "runtime/testing/vmm_memory.h"

namespace gordian::runtime::cuda {
namespace {

using testing::Member;
using testing::Now;
using testing::RankProcess;
using testing::Sleep;
using testing::Subject;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kPatience = 20 * kSecond;
constexpr OpKind kCollectives[] = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter,
                                   OpKind::kBroadcast, OpKind::kReduce,    OpKind::kAllToAll,
                                   OpKind::kGather,    OpKind::kScatter};

// A device of this process.
class Device : public Member {
 public:
  Device(int device, int rank, int ranks, RankProcess& process)
      : Member(rank, ranks, [&process](const std::string& why) { process.Fail(why); }),
        device_(device) {
    On();
    for (cudaStream_t* s : {&one_, &two_})
      Cuda(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking), "stream");
    Prepare();
  }
  void On() { Cuda(cudaSetDevice(device_), "cudaSetDevice"); }
  grtComm_t Comm(const std::string& name) {
    On();
    return Member::Comm(name);
  }
  int device() const { return device_; }
  int rank() const { return r_; }
  int ranks() const { return n_; }
  cudaStream_t one() const { return one_; }
  cudaStream_t two() const { return two_; }

 private:
  const int device_;
  cudaStream_t one_ = nullptr, two_ = nullptr;
};

class Runner {
 public:
  Runner(const std::string& what, int devices, RankProcess& process) : what_(what), p_(process) {
    const int first = process.rank() * devices;
    for (int d = 0; d < devices; ++d) {
      devices_.push_back(
          std::make_unique<Device>(first + d, first + d, devices * process.ranks(), process));
    }
  }

  int Run() {
    if (what_ == "threads")
      Threads();
    else if (what_ == "single")
      Single();
    else if (what_ == "ungrouped")
      Ungrouped();
    else if (what_ == "graphs")
      Graphs();
    else if (what_ == "detached")
      DetachedOperations();
    else if (what_ == "order")
      Order();
    else if (what_ == "abort")
      Abort();
    else if (what_ == "mapped")
      Mapped();
    else if (what_ == "registered")
      Registered();
    else if (what_ == "same_device")
      SameDevice();
    else
      return 2;
    return 0;
  }

 private:
  template <typename... Arguments>
  void Say(const char* format, Arguments... arguments) {
    if (p_.rank() != 0) return;
    printf(format, arguments...);
    fflush(stdout);
  }
  // On every device, in turn, by this thread.
  template <typename Body>
  void Each(const Body& body) {
    for (size_t i = 0; i < devices_.size(); ++i) {
      devices_[i]->On();
      body(*devices_[i], i);
    }
  }
  // On every device by a thread of its own.
  template <typename Body>
  void AtOnce(const Body& body) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < devices_.size(); ++i) {
      threads.emplace_back([&, i] {
        devices_[i]->On();
        body(*devices_[i], i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<grtComm_t> Comms(const std::string& name) {
    std::vector<grtComm_t> comms;
    for (auto& device : devices_) comms.push_back(device->Comm(name));
    return comms;
  }
  void Destroy(const std::vector<grtComm_t>& comms) {
    Each([&](Device& d, size_t i) {
      d.Healthy(comms[i]);
      d.Ok(grtCommDestroy(comms[i], kPatience), "destroy");
    });
  }

  // A thread a device: every kind and way of carrying, sends and receives.
  void Threads() {
    AtOnce([&](Device& d, size_t) {
      grtComm_t comm = d.Comm("threads");
      for (const uint64_t count : {3ul, 5000ul, 300'000ul, 2'000'000ul}) {
        for (const OpKind kind : kCollectives) {
          p_.At("threads: kind %d of %lu", static_cast<int>(kind),
                static_cast<unsigned long>(count));
          const Subject s = d.Make(kind, count, static_cast<uint32_t>(d.ranks() - 1));
          for (int i = 0; i < 50; ++i) d.All(s, comm, d.one());
          d.Finish("threads");
          d.Free(s);
        }
        const Subject send =
            d.Make(OpKind::kSend, count, static_cast<uint32_t>((d.rank() + 1) % d.ranks()));
        const Subject receive = d.Make(
            OpKind::kRecv, count, static_cast<uint32_t>((d.rank() + d.ranks() - 1) % d.ranks()));
        for (int i = 0; i < 50; ++i) {
          d.Before(send, d.one());
          d.Before(receive, d.one());
          d.Ok(grtGroupStart(), "group");
          d.Ok(d.Call(send, comm, d.one()), "send");
          d.Ok(d.Call(receive, comm, d.one()), "receive");
          d.Ok(grtGroupEnd(), "group end");
          d.After(receive, d.one());
        }
        d.Finish("threads");
        d.Free(send);
        d.Free(receive);
      }
      d.Healthy(comm);
      d.Ok(grtCommDestroy(comm, kPatience), "destroy");
    });
    Say("threads: every kind by four sizes, right\n");
  }

  // One thread, a group for the operations of all devices.
  void Single() {
    const auto comms = Comms("single");
    int operations = 0;
    for (const uint64_t count : {3ul, 5000ul, 300'000ul, 2'000'000ul}) {
      for (const OpKind kind : kCollectives) {
        p_.At("single: kind %d of %lu", static_cast<int>(kind), static_cast<unsigned long>(count));
        std::vector<Subject> s;
        Each([&](Device& d, size_t) {
          s.push_back(d.Make(kind, count, static_cast<uint32_t>(d.ranks() - 1)));
        });
        for (int round = 0; round < 50; ++round, ++operations) {
          Each([&](Device& d, size_t i) { d.Before(s[i], d.one()); });
          devices_[0]->Ok(grtGroupStart(), "group");
          Each([&](Device& d, size_t i) { d.Ok(d.Call(s[i], comms[i], d.one()), "calling"); });
          devices_[0]->Ok(grtGroupEnd(), "group end");
          Each([&](Device& d, size_t i) { d.After(s[i], d.one()); });
        }
        Each([&](Device& d, size_t) { d.Finish("single"); });
        Each([&](Device& d, size_t i) { d.Free(s[i]); });
      }
    }
    Destroy(comms);
    Say("single: %d operations by one thread in groups, right\n", operations);
  }

  // One thread and no groups: a call on one device returns although the other's has not been made,
  // the first one of a communicator too, while kernels of another one wait.
  void Ungrouped() {
    const auto a = Comms("a"), b = Comms("b");
    double slowest = 0;
    for (const uint64_t count : {1000ul, 2'000'000ul}) {
      std::vector<Subject> first, second;
      Each([&](Device& d, size_t) {
        first.push_back(d.Make(OpKind::kAllReduce, count));
        second.push_back(d.Make(OpKind::kAllReduce, count + 1));
      });
      for (int round = 0; round < 100; ++round) {
        p_.At("ungrouped: %lu, round %d", static_cast<unsigned long>(count), round);
        Each([&](Device& d, size_t i) {
          const double begin = Now();
          d.All(first[i], a[i], d.one());
          d.All(second[i], b[i], d.two());
          slowest = std::max(slowest, Now() - begin);
          if (round % 10 == 0) Sleep(10);  // what was called waits for the next device meanwhile
        });
        if (round % 10 == 9) Each([&](Device& d, size_t) { d.Finish("ungrouped"); });
      }
      Each([&](Device& d, size_t i) {
        d.Finish("ungrouped");
        d.Free(first[i]);
        d.Free(second[i]);
      });
    }
    Destroy(a);
    Destroy(b);
    Say("ungrouped: 400 operations by one thread without groups, right; two calls took %.2f ms at "
        "most\n",
        slowest * 1e3);
  }

  // A graph for each device, captured and launched by one thread; and one graph for all of them.
  void Graphs() {
    const auto comms = Comms("graphs");
    std::vector<Subject> sum, all, beside;
    Each([&](Device& d, size_t) {
      sum.push_back(d.Make(OpKind::kAllReduce, 30'000));
      all.push_back(d.Make(OpKind::kAllGather, 200'000));
      beside.push_back(d.Make(OpKind::kAllReduce, 555));
    });
    const auto body = [&] {
      Each([&](Device& d, size_t i) { d.All(sum[i], comms[i], d.one()); });
      Each([&](Device& d, size_t i) { d.Before(all[i], d.one()); });
      devices_[0]->Ok(grtGroupStart(), "group");
      Each([&](Device& d, size_t i) { d.Ok(d.Call(all[i], comms[i], d.one()), "calling"); });
      devices_[0]->Ok(grtGroupEnd(), "group end");
      Each([&](Device& d, size_t i) { d.After(all[i], d.one()); });
    };
    p_.At("graphs: a graph each");
    std::vector<cudaGraphExec_t> graphs;
    Each([&](Device& d, size_t) { d.Begin(d.one()); });
    body();
    // A capture that is still open forbids to make a graph executable.
    std::vector<cudaGraph_t> captured;
    Each([&](Device& d, size_t) { captured.push_back(d.EndCapture(d.one())); });
    Each([&](Device& d, size_t i) { graphs.push_back(d.Instantiate(captured[i])); });
    for (int i = 0; i < 1000; ++i) {
      p_.At("graphs: launch %d", i);
      Each([&](Device& d, size_t k) { d.Launch(graphs[k], d.one()); });
      if (i % 50 == 3) Each([&](Device& d, size_t k) { d.All(beside[k], comms[k], d.two()); });
      if (i % 500 == 499) Each([&](Device& d, size_t) { d.Finish("graphs"); });
    }
    Each([&](Device& d, size_t) { d.Finish("graphs"); });
    Each([&](Device& d, size_t k) { d.Cuda(cudaGraphExecDestroy(graphs[k]), "destroy"); });
    // One capture, begun on the first device, that the others' streams join.
    p_.At("graphs: one graph");
    Device& first = *devices_[0];
    std::vector<cudaEvent_t> events(devices_.size());
    Each([&](Device& d, size_t i) {
      d.Cuda(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming), "event");
    });
    first.On();
    first.Begin(first.one());
    first.Cuda(cudaEventRecord(events[0], first.one()), "fork");
    Each([&](Device& d, size_t i) {
      if (i != 0) d.Cuda(cudaStreamWaitEvent(d.one(), events[0], 0), "fork");
    });
    body();
    Each([&](Device& d, size_t i) {
      if (i != 0) d.Cuda(cudaEventRecord(events[i], d.one()), "join");
    });
    first.On();
    for (size_t i = 1; i < devices_.size(); ++i)
      first.Cuda(cudaStreamWaitEvent(first.one(), events[i], 0), "join");
    const cudaGraphExec_t together = first.End(first.one());
    for (int i = 0; i < 1000; ++i) {
      p_.At("graphs: launch %d of one graph", i);
      first.Launch(together, first.one());
      if (i % 50 == 3) Each([&](Device& d, size_t k) { d.All(beside[k], comms[k], d.two()); });
      if (i % 500 == 499) Each([&](Device& d, size_t) { d.Finish("graphs"); });
    }
    Each([&](Device& d, size_t) { d.Finish("graphs"); });
    first.Cuda(cudaGraphExecDestroy(together), "destroy");
    Destroy(comms);
    Say("graphs: 1,000 launches of a graph a device and 1,000 of one for all, with calls beside, "
        "right\n");
  }

  // Detached operations in opposite orders with waits for the device between, by one thread: a
  // worker on each device.
  void DetachedOperations() {
    const auto a = Comms("a"), b = Comms("b");
    std::vector<Subject> first, second;
    Each([&](Device& d, size_t) {
      first.push_back(d.Make(OpKind::kAllReduce, 3000));
      second.push_back(d.Make(OpKind::kAllReduce, 70'000));
    });
    for (int round = 0; round < 100; ++round) {
      p_.At("detached: round %d", round);
      std::vector<grtOp_t> ops;
      Each([&](Device& d, size_t i) {
        d.Before(first[i], d.one());
        d.Before(second[i], d.one());
        d.Cuda(cudaDeviceSynchronize(), "inputs");
        for (int k = 0; k < 2; ++k) {
          const bool is_first = (k == 0) == (d.rank() % 2 == 0);
          const Subject& s = is_first ? first[i] : second[i];
          grtOpDesc_t desc = GRT_OP_DESC_INITIALIZER;
          desc.kind = grtKindAllReduce;
          desc.in = s.in;
          desc.out = s.out;
          desc.count = s.count;
          desc.order = grtOrderDetached;
          desc.comm = is_first ? a[i] : b[i];
          ops.emplace_back();
          d.Ok(grtSubmit(&desc, nullptr, &ops.back()), "submit");
          d.Cuda(cudaDeviceSynchronize(), "waiting for the device");
        }
      });
      for (grtOp_t op : ops) {
        devices_[0]->Ok(grtOpWait(op, kPatience), "wait");
        devices_[0]->Ok(grtOpFree(op), "free");
      }
      Each([&](Device& d, size_t i) {
        d.After(first[i], d.one());
        d.After(second[i], d.one());
      });
    }
    Each([&](Device& d, size_t) { d.Finish("detached"); });
    Destroy(a);
    Destroy(b);
    Say("detached: 100 rounds in opposite orders by one thread, right\n");
  }

  // Two communicators in opposite orders on the devices, each on one exclusive stream: by a thread
  // a device, then by one.
  void Order() {
    const auto a = Comms("a"), b = Comms("b");
    std::vector<Subject> first, second;
    Each([&](Device& d, size_t i) {
      first.push_back(d.Make(OpKind::kAllReduce, 1024));
      second.push_back(d.Make(OpKind::kAllReduce, 1024));
      for (const Subject* s : {&first[i], &second[i]})
        d.All(*s, s == &first[i] ? a[i] : b[i], d.two());
    });
    Each([&](Device& d, size_t) {
      d.Finish("order");
      d.Ok(grtStreamExclusive(d.one(), 1), "exclusive");
    });
    const auto pair = [&](Device& d, size_t i) {
      const bool odd = d.rank() % 2 == 1;
      d.Ok(d.Call(odd ? second[i] : first[i], odd ? b[i] : a[i], d.one()), "first");
      d.Ok(d.Call(odd ? first[i] : second[i], odd ? a[i] : b[i], d.one()), "second");
    };
    p_.At("order: threads");
    AtOnce([&](Device& d, size_t i) {
      for (int k = 0; k < 300; ++k) pair(d, i);
      d.Cuda(cudaStreamSynchronize(d.one()), "order");
    });
    for (int k = 0; k < 300; ++k) {
      p_.At("order: one thread, pair %d", k);
      Each(pair);
    }
    Each([&](Device& d, size_t i) {
      d.Cuda(cudaStreamSynchronize(d.one()), "order");
      d.After(first[i], d.two());
      d.After(second[i], d.two());
      d.Finish("order");
      grtStats_t stats = GRT_STATS_INITIALIZER;
      d.Ok(grtGetStats(a[i], &stats), "stats");
      if (stats.helped == 0) p_.Fail("nothing was helped");
    });
    Destroy(a);
    Destroy(b);
    Say("order: 300 pairs in opposite orders by a thread a device, and 300 by one thread, right\n");
  }

  // An operation on all devices but the last: an abort there ends it.
  void Abort() {
    const auto comms = Comms("abort"), others = Comms("others");
    std::vector<Subject> s;
    Each([&](Device& d, size_t i) {
      s.push_back(d.Make(OpKind::kAllReduce, 100'000));
      d.All(s[i], comms[i], d.one());
    });
    Each([&](Device& d, size_t) { d.Finish("abort"); });
    const bool aborts = p_.rank() == p_.ranks() - 1;
    const size_t last = devices_.size() - 1;
    Each([&](Device& d, size_t i) {
      if (!aborts || i != last) d.Ok(d.Call(s[i], comms[i], d.one()), "calling");
    });
    Sleep(200);
    const double begin = Now();
    if (aborts) {
      devices_[last]->Ok(grtCommAbort(comms[last]), "abort");
    }
    Each([&](Device& d, size_t i) {
      if (aborts && i == last) return;
      d.Cuda(cudaStreamSynchronize(d.one()), "the stream goes on");
      grtResult_t error = grtSuccess;
      d.Ok(grtCommGetAsyncError(comms[i], &error), "asking for errors");
      d.Need(error, grtAborted, "after the abort");
      d.Ok(grtCommAbort(comms[i]), "abort");
    });
    const double took = Now() - begin;
    // Others go on.
    Each([&](Device& d, size_t i) { d.All(s[i], others[i], d.two()); });
    Each([&](Device& d, size_t) { d.Finish("others"); });
    Destroy(others);
    Say("abort: the other devices' streams went on after %.2f ms\n", took * 1e3);
  }

  // Outputs that the other devices write directly.
  void Mapped() {
    std::vector<Subject> s;
    Each([&](Device& d, size_t i) {
      s.push_back(d.Make(OpKind::kAllReduce, 3'000'000));
      d.Cuda(cudaFree(s[i].out), "cudaFree");
      void* mapped = nullptr;
      d.Ok(grtMemAlloc(&mapped, s[i].count * 4), "grtMemAlloc");
      s[i].out = static_cast<float*>(mapped);
    });
    const auto comms = Comms("mapped");
    for (int round = 0; round < 200; ++round) {
      p_.At("mapped: round %d", round);
      Each([&](Device& d, size_t i) { d.All(s[i], comms[i], d.one()); });
    }
    Each([&](Device& d, size_t) { d.Finish("mapped"); });
    Destroy(comms);
    Each([&](Device& d, size_t i) { d.Ok(grtMemFree(s[i].out), "grtMemFree"); });
    Say("mapped: 200 operations into memory that the other devices write, right\n");
  }

  // The same in memory of the program's, registered by one thread for all; then on the first device
  // no more.
  void Registered() {
    constexpr uint64_t kBytes = 32 << 20;
    const auto comms = Comms("registered");
    std::vector<Subject> s;
    std::vector<std::unique_ptr<testing::VmmMemory>> memory;
    std::vector<grtReg_t> regs(devices_.size());
    Each([&](Device& d, size_t i) {
      s.push_back(d.Make(OpKind::kAllReduce, 3'000'000));
      memory.push_back(std::make_unique<testing::VmmMemory>());
      if (const std::string why = memory[i]->Make(d.device(), kBytes, 2); !why.empty())
        p_.Fail(why);
      d.Ok(grtCommRegister(comms[i], memory[i]->get(), kBytes, &regs[i]), "registering");
      s[i].out = memory[i]->floats(1 << 20);
    });
    const auto rounds = [&](int from, size_t staged) {
      for (int round = from; round < from + 100; ++round) {
        p_.At("registered: round %d", round);
        Each([&](Device& d, size_t i) { d.All(s[i], comms[i], d.one()); });
      }
      Each([&](Device& d, size_t i) {
        d.Finish("registered");
        grtStats_t stats = GRT_STATS_INITIALIZER;
        d.Ok(grtGetStats(comms[i], &stats), "stats");
        if (stats.direct != 100u + (i < staged ? 0u : static_cast<uint64_t>(from)))
          p_.Fail(std::to_string(stats.direct) + " were direct");
      });
    };
    rounds(0, 0);
    devices_[0]->Ok(grtCommDeregister(comms[0], regs[0]), "deregister");
    rounds(100, 1);
    Destroy(comms);
    Say("registered: 200 operations into memory that the other devices write, of the first device "
        "100, right\n");
  }

  // Two members on one device are refused, and nothing hangs.
  void SameDevice() {
    Device& d = *devices_[0];
    d.On();
    grtUniqueId id = {};
    snprintf(id.internal, sizeof id.internal, "%d same", static_cast<int>(getppid()));
    grtComm_t comms[2] = {};
    for (int r = 0; r < 2; ++r) d.Ok(grtCommInitRankConfig(&comms[r], 2, id, r, nullptr), "making");
    const Subject s = d.Make(OpKind::kAllReduce, 100);
    for (grtComm_t comm : comms)
      d.Need(d.Call(s, comm, d.one()), grtNotSupported, "two members on one device");
    for (grtComm_t comm : comms) d.Ok(grtCommAbort(comm), "abort");
    Say("same_device: refused\n");
  }

  const std::string what_;
  RankProcess& p_;
  std::vector<std::unique_ptr<Device>> devices_;
};

int Main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  int devices = 2, processes = 1;
  bool usage = what.empty();
  for (int i = 2; i < argc; i += 2) {
    const std::string option = argv[i];
    if (i + 1 == argc)
      usage = true;
    else if (option == "--devices")
      devices = atoi(argv[i + 1]);
    else if (option == "--processes")
      processes = atoi(argv[i + 1]);
    else
      usage = true;
  }
  if (usage || devices < 1 || processes < 1 || devices * processes < 2 ||
      devices * processes > testing::kMostRanks) {
    fprintf(stderr, "usage: gordian-runtime-devices-cases CASE [--devices N] [--processes N]\n");
    return 2;
  }
  const int result = testing::RunRanks(processes, 120, 20, 0, [&](RankProcess& process) {
    return Runner(what, devices, process).Run();
  });
  printf("%s %s --devices %d --processes %d\n", result == 0 ? "PASS" : "FAIL", what.c_str(),
         devices, processes);
  return result;
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
