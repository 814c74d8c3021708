// The experiments of DFCCL (EuroSys '25) and OCCL on this runtime, and some of our own: one process
// a rank.
//
//   gordian-runtime-experiments EXPERIMENT --with NAME[,NAME...] [--ranks N] [--iterations N]
//                               [--seed S] [--blocks N] [--late US] [--ordered] [--patience S]
//                               [--stuck US] [--idle US] [--count N --bytes B]
//
// --stuck, --idle: when a worker quits. NAME: see contenders.h. One run measures all contenders
// that the command names, one after another in each sample or in turn.
//
//   random   8 all-reduces of 256 B to 1 MiB (or --count of --bytes each), each rank in a random
//            order of its own; every result is checked
//   sync     the same, and between two calls cudaDeviceSynchronize, cudaFree or cudaMallocHost, in
//            turn
//   single   one all-reduce, cudaDeviceSynchronize, another one: opposite orders on the ranks
//   calls    time from a call to its end as the host sees it, by size (--kind), with its parts
//   late     161 all-reduces (the gradients of ResNet-50) in one order; the last rank begins --late
//            later, and every call of it is late by a random part of that / 10
//   trace    the same 161, no rank late; without --ordered each rank in an order of its own
//   idle     what is there when nothing is outstanding, and how much of the time the worker is
//            resident
//   beside   arithmetic on all multiprocessors beside an idle and a busy runtime
//
// A rank that makes no progress for --patience seconds prints HANG and where it is, and the program
// exits with 3: that is how the experiment detects a deadlock.
#include <cuda_runtime_api.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/runtime/contenders.h"
#include "runtime/cuda/domain/rendezvous.h"
#include "runtime/testing/checked_rank.h"
#include "runtime/testing/patterns.h"
#include "runtime/testing/ranks.h"

namespace gordian::runtime::cuda {
namespace {

using testing::RankProcess;

struct Options {
  std::string what, with = "detached", kind = "all_reduce";
  int ranks = 2;
  int iterations = 1000;
  uint64_t seed = 1;
  uint32_t blocks = 8;
  int late_us = 200;
  bool ordered = false;
  int patience_s = 15;
  int64_t stuck_us = 200, idle_us = 100;
  uint64_t from = 8, to = 64ull << 20, step = 8;
  uint64_t count = 0, bytes = 1 << 20;
};

double NowUs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

double ProcessorUs() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

// Elements of ResNet-50's parameters: 161 tensors, 256 B to 9 MiB.
std::vector<uint64_t> ResNet50() {
  std::vector<uint64_t> sizes = {64 * 3 * 7 * 7, 64, 64};
  uint64_t in = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const uint64_t middle = 64ull << stage, out = middle * 4;
    for (int b = 0; b < blocks[stage]; ++b) {
      for (const uint64_t size : {in * middle, middle, middle, middle * middle * 9, middle, middle,
                                  middle * out, out, out}) {
        sizes.push_back(size);
      }
      if (b == 0) {
        for (const uint64_t size : {in * out, out, out}) sizes.push_back(size);
      }
      in = out;
    }
  }
  sizes.push_back(2048 * 1000);
  sizes.push_back(1000);
  std::reverse(sizes.begin(), sizes.end());  // as gradients become ready
  return sizes;
}

class Experiment : testing::CheckedRank {
 public:
  Experiment(const Options& options, RankProcess& process) : CheckedRank(process), o_(options) {}

  int Run() {
    Must(cudaSetDevice(p_.rank()));
    Must(testing::PreloadPatterns());
    Must(Rendezvous::Join("experiment-" + std::to_string(getppid()), p_.rank(), p_.ranks(), 30000,
                          &meet_));
    Must(cudaStreamCreateWithFlags(&checks_, cudaStreamNonBlocking));
    Must(cudaMalloc(reinterpret_cast<void**>(&wrong_), 8));
    Must(cudaMemset(wrong_, 0, 8));
    if (o_.what == "random")
      Orders(Between::kNothing);
    else if (o_.what == "sync")
      Orders(Between::kSync);
    else if (o_.what == "single")
      Orders(Between::kSingle);
    else if (o_.what == "calls")
      Calls();
    else if (o_.what == "late")
      Trace(true);
    else if (o_.what == "trace")
      Trace(false);
    else if (o_.what == "idle")
      Idle();
    else if (o_.what == "beside")
      Beside();
    else
      p_.Fail("no such experiment");
    contenders_.clear();
    return 0;
  }

 private:
  enum class Between { kNothing, kSync, kSingle };
  struct Named {
    std::string name;
    std::unique_ptr<Contender> one;
  };

  void Make(ContenderOptions options) {
    options.blocks = o_.blocks;
    options.stuck_quit_us = o_.stuck_us;
    options.idle_quit_us = o_.idle_us;
    std::istringstream names(o_.with);
    for (std::string name; std::getline(names, name, ',');) {
      contenders_.push_back({name, MakeContender(name, options, &p_)});
    }
  }
  // Inputs with two patterns, taken in turn, so that a result of before is not taken for a new one.
  void MakeBuffers(const std::vector<uint64_t>& counts) {
    counts_ = counts;
    const uint64_t most = *std::max_element(counts.begin(), counts.end());
    for (int salt = 0; salt < 2; ++salt) {
      Must(cudaMalloc(reinterpret_cast<void**>(&in_[salt]), most * 4));
      Must(testing::FillPattern(in_[salt], most, static_cast<uint32_t>(p_.rank()),
                                static_cast<uint32_t>(salt) + 3, checks_));
    }
    for (const uint64_t count : counts) {
      out_.push_back(nullptr);
      Must(cudaMalloc(reinterpret_cast<void**>(&out_.back()), count * 4));
    }
    Must(cudaStreamSynchronize(checks_));
  }
  void Check(int salt) {
    for (size_t i = 0; i < counts_.size(); ++i) {
      const testing::Expectation e{OpKind::kAllReduce,
                                   static_cast<uint32_t>(p_.ranks()),
                                   static_cast<uint32_t>(p_.rank()),
                                   0,
                                   static_cast<uint32_t>(salt) + 3,
                                   counts_[i],
                                   0};
      Must(testing::CheckPattern(out_[i], e, wrong_, checks_));
    }
    Must(cudaStreamSynchronize(checks_));
  }
  uint64_t Wrong() {
    uint64_t wrong = 0;
    Must(cudaMemcpyAsync(&wrong, wrong_, 8, cudaMemcpyDeviceToHost, checks_));
    Must(cudaStreamSynchronize(checks_));
    return wrong;
  }
  // The sum over all ranks.
  double Sum(double own) {
    std::vector<std::string> all;
    Must(meet_->AllGather(std::string(reinterpret_cast<const char*>(&own), sizeof own), 60000,
                          &all));
    double sum = 0, one;
    for (const std::string& text : all) {
      memcpy(&one, text.data(), sizeof one);
      sum += one;
    }
    return sum;
  }
  struct Times {
    double median = 0, p1 = 0, p99 = 0;
  };
  // Of each sample the slowest rank.
  Times Slowest(const std::vector<double>& own) {
    std::vector<std::string> all;
    Must(meet_->AllGather(
        std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(double)), 60000,
        &all));
    std::vector<double> slowest(own.size(), 0);
    for (const std::string& text : all) {
      for (size_t i = 0; i < own.size(); ++i) {
        double us;
        memcpy(&us, text.data() + i * sizeof us, sizeof us);
        slowest[i] = std::max(slowest[i], us);
      }
    }
    std::sort(slowest.begin(), slowest.end());
    const auto at = [&](double q) {
      return slowest[static_cast<size_t>(q * static_cast<double>(slowest.size() - 1))];
    };
    return {at(0.5), at(0.01), at(0.99)};
  }

  // What a worker has done since `before`, for all ranks together.
  struct Work {
    double instances = 0, visits = 0, progress = 0, switches = 0, preemptions = 0;
    HelpCounts help{};
  };
  Work Look(Contender* c) {
    Work w;
    w.help = c->helped();
    if (c->worker() == nullptr) return w;
    const Worker::Stats s = c->worker()->stats();
    w = {static_cast<double>(s.instances),
         static_cast<double>(s.visits),
         static_cast<double>(s.progress),
         static_cast<double>(s.switches),
         0,
         {}};
    if (c->dfccl() != nullptr) w.preemptions = Counters(c).preemptions;
    return w;
  }
  DfcclDevice Counters(Contender* c) {
    DfcclDevice device;
    Must(c->dfccl()->Read(&device));
    return device;
  }
  // Of carriers, for one operation and rank.
  void SayHelp(const HelpCounts& before, const HelpCounts& now, double operations) {
    const double all = operations * p_.ranks();
    const auto each = [&](uint64_t HelpCounts::*what) {
      return Sum(static_cast<double>(now.*what - before.*what)) / all;
    };
    const double walks = each(&HelpCounts::walks), visits = each(&HelpCounts::visits),
                 progress = each(&HelpCounts::progress);
    const double helped = each(&HelpCounts::helped), switches = each(&HelpCounts::switches);
    const double walk_us = each(&HelpCounts::walk_ns) * 1e-3,
                 waiting_us = each(&HelpCounts::waiting_ns) * 1e-3;
    Say("    an operation and rank: %.1f walks (%.1f us of blocks in them, %.1f between), %.1f "
        "channels claimed, %.1f with a step, %.2f left half way, %.1f finished\n",
        walks, walk_us, waiting_us, visits, progress, switches, helped);
  }
  void SayWork(Contender* c, const Work& before, double operations) {
    if (c->stream() != nullptr && c->worker() == nullptr)
      SayHelp(before.help, c->helped(), operations);
    if (c->worker() == nullptr) return;
    usleep(20000);  // it has quit: its counts are there
    const Work w = Look(c);
    const double instances = Sum(w.instances - before.instances),
                 visits = Sum(w.visits - before.visits);
    const double switches = Sum(w.switches - before.switches),
                 preemptions = Sum(w.preemptions - before.preemptions);
    const double n = p_.ranks();
    Say("    per rank: %.0f instances of the kernel", instances / n);
    if (c->dfccl() != nullptr)
      Say(", %.0f preemptions (%.1f a block and operation)", preemptions / n,
          preemptions / n / operations / o_.blocks);
    else
      Say(", %.0f channels served in %.0f visits, %.2f switches an operation",
          Sum(w.progress - before.progress) / n, visits / n, switches / n / operations);
    Say("\n");
  }

  // E1, E2, E3.
  void Orders(Between between) {
    std::vector<uint64_t> counts;
    if (between == Between::kSingle)
      counts = {1024, 1024};
    else if (o_.count > 0)
      counts.assign(o_.count, std::max<uint64_t>(o_.bytes / 4, 1));
    else
      for (const uint64_t bytes : {256, 1024, 4096, 16384, 65536, 262144, 524288, 1048576})
        counts.push_back(bytes / 4);
    ContenderOptions options;
    options.operations = static_cast<int>(counts.size());
    Make(options);
    MakeBuffers(counts);
    for (Named& c : contenders_) {
      const Work before = Look(c.one.get());
      std::mt19937_64 random(o_.seed * 1000 + static_cast<uint64_t>(p_.rank()));
      std::vector<int> order(counts.size());
      std::iota(order.begin(), order.end(), 0);
      if (between == Between::kSingle && p_.rank() % 2 == 1)
        std::reverse(order.begin(), order.end());
      double us = 0;
      for (int it = 0; it < o_.iterations; ++it) {
        p_.At("%s, %s, iteration %d", o_.what.c_str(), c.name.c_str(), it);
        if (between != Between::kSingle && !o_.ordered)
          std::shuffle(order.begin(), order.end(), random);
        const double begin = NowUs();
        for (size_t i = 0; i < order.size(); ++i) {
          if (i % 16 == 15)
            p_.At("%s, %s, iteration %d, submitting number %zu", o_.what.c_str(), c.name.c_str(),
                  it, i);
          c.one->Submit(order[i], OpKind::kAllReduce, in_[it & 1], out_[order[i]],
                        counts[order[i]]);
          if (between != Between::kNothing && i + 1 < order.size())
            WaitForDevice(between == Between::kSingle ? 0 : (it + static_cast<int>(i)) % 3);
        }
        p_.At("%s, %s, iteration %d, waiting", o_.what.c_str(), c.name.c_str(), it);
        c.one->Wait();
        us += NowUs() - begin;
        Check(it & 1);
      }
      const double operations =
          static_cast<double>(o_.iterations) * static_cast<double>(counts.size());
      const double wrong = Sum(static_cast<double>(Wrong()));
      Say("%-10s %-18s seed %lu: %d iterations of %zu all-reduces, %.1f us an iteration, %.0f "
          "wrong elements\n",
          o_.what.c_str(), c.name.c_str(), o_.seed, o_.iterations, counts.size(),
          us / o_.iterations, wrong);
      SayWork(c.one.get(), before, operations);
      if (wrong != 0) p_.Fail("wrong results");
    }
  }
  void WaitForDevice(int how) {
    void* memory = nullptr;
    if (how == 0) {
      Must(cudaDeviceSynchronize());
    } else if (how == 1) {
      Must(cudaMalloc(&memory, 4096));
      Must(cudaFree(memory));
    } else {
      Must(cudaMallocHost(&memory, 4096));
      Must(cudaFreeHost(memory));
    }
  }

  // E5, E7, E8.
  void Calls() {
    const OpKind kind = o_.kind == "all_gather"       ? OpKind::kAllGather
                        : o_.kind == "reduce_scatter" ? OpKind::kReduceScatter
                                                      : OpKind::kAllReduce;
    ContenderOptions options;
    options.equal_order = true;
    options.stage_bytes = 32ull << 20;
    Make(options);
    float *in = nullptr, *out = nullptr;
    Must(cudaMalloc(reinterpret_cast<void**>(&in), o_.to + 4096));
    Must(cudaMalloc(reinterpret_cast<void**>(&out), o_.to + 4096));
    Must(testing::FillPattern(in, o_.to / 4, static_cast<uint32_t>(p_.rank()), 3, checks_));
    Must(cudaStreamSynchronize(checks_));
    cudaEvent_t begin, end;
    Must(cudaEventCreate(&begin));
    Must(cudaEventCreate(&end));
    Say("%s, us from the call to its end, as the host sees it: median (p1 p99); on the stream: "
        "median\n",
        o_.kind.c_str());
    for (uint64_t bytes = o_.from; bytes <= o_.to; bytes *= o_.step) {
      const auto n = static_cast<uint32_t>(p_.ranks());
      const uint64_t factor = std::max(InputCount(kind, 1, n), OutputCount(kind, 1, n));
      const uint64_t count = std::max<uint64_t>(bytes / 4 / factor, 1);
      for (Named& c : contenders_) {
        p_.At("calls, %s, %lu bytes", c.name.c_str(), bytes);
        std::vector<double> whole, core;
        for (int it = -20; it < o_.iterations; ++it) {
          const cudaStream_t stream = c.one->stream();
          const double start = NowUs();
          c.one->Submit(0, kind, in, out, count);
          c.one->Wait();
          if (it >= 0) whole.push_back(NowUs() - start);
          if (stream == nullptr) continue;
          // Another call for the events, which would be part of what is measured.
          Must(cudaEventRecord(begin, stream));
          c.one->Submit(0, kind, in, out, count);
          Must(cudaEventRecord(end, stream));
          c.one->Wait();
          float ms = 0;
          Must(cudaEventElapsedTime(&ms, begin, end));
          if (it >= 0) core.push_back(ms * 1000);
        }
        const testing::Expectation e{kind, n, static_cast<uint32_t>(p_.rank()), 0, 3, count, 0};
        Must(testing::CheckPattern(out, e, wrong_, checks_));
        const double wrong = Sum(static_cast<double>(Wrong()));
        const Times w = Slowest(whole);
        Say("%12lu  %-22s %9.2f (%8.2f %8.2f)", bytes, c.name.c_str(), w.median, w.p1, w.p99);
        if (!core.empty()) Say("  %9.2f", Slowest(core).median);
        if (kind == OpKind::kAllReduce && wrong != 0) Say("  %.0f WRONG", wrong);
        Say("\n");
        if (wrong != 0) p_.Fail("wrong results");
      }
    }
    for (Named& c : contenders_) {
      if (c.one->dfccl() == nullptr) continue;
      usleep(20000);
      const DfcclDevice d = Counters(c.one.get());
      const auto mean = [](uint32_t ns, uint32_t times) {
        return times == 0 ? 0.0 : ns * 1e-3 / times;
      };
      Say("%-22s a block reads a submission in %.2f us, prepares an operation in %.2f, tells a "
          "completion in %.2f (%u)\n",
          c.name.c_str(), mean(d.fetch_ns, d.fetches), mean(d.prepare_ns, d.prepares),
          mean(d.complete_ns, d.completes), d.completes);
    }
  }

  // E9, E10.
  void Trace(bool late) {
    const std::vector<uint64_t> counts = ResNet50();
    ContenderOptions options;
    options.operations = static_cast<int>(counts.size());
    options.equal_order = late || o_.ordered;
    Make(options);
    MakeBuffers(counts);
    std::mt19937_64 random(o_.seed * 1000 + static_cast<uint64_t>(p_.rank()));
    std::vector<int> order(counts.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<std::vector<double>> us(contenders_.size());
    std::vector<Work> before;
    for (Named& c : contenders_) before.push_back(Look(c.one.get()));
    for (int it = 0; it < o_.iterations; ++it) {
      if (!options.equal_order) std::shuffle(order.begin(), order.end(), random);
      for (size_t k = 0; k < contenders_.size(); ++k) {
        Contender& c = *contenders_[k].one;
        p_.At("%s, %s, iteration %d", o_.what.c_str(), contenders_[k].name.c_str(), it);
        Must(meet_->Barrier(60000));
        const bool mine = late && p_.rank() == p_.ranks() - 1;
        const double begin = NowUs();
        if (mine) Spin(o_.late_us);
        for (const int i : order) {
          if (mine) Spin(static_cast<double>(random() % 1000) / 1000 * o_.late_us / 10);
          p_.At("%s, %s, iteration %d, submitting %d", o_.what.c_str(), contenders_[k].name.c_str(),
                it, i);
          c.Submit(i, OpKind::kAllReduce, in_[it & 1], out_[i], counts[i]);
        }
        p_.At("%s, %s, iteration %d, waiting", o_.what.c_str(), contenders_[k].name.c_str(), it);
        c.Wait();
        us[k].push_back(NowUs() - begin);
        if (it % 10 == 0) Check(it & 1);
      }
    }
    const double wrong = Sum(static_cast<double>(Wrong()));
    Say("%s%s, %zu all-reduces of %lu B to %.1f MiB, %d iterations, us an iteration: median (p1 "
        "p99)\n",
        o_.what.c_str(), options.equal_order ? ", one order" : ", an order for each rank",
        counts.size(), *std::min_element(counts.begin(), counts.end()) * 4,
        static_cast<double>(*std::max_element(counts.begin(), counts.end())) * 4 / 1048576,
        o_.iterations);
    for (size_t k = 0; k < contenders_.size(); ++k) {
      const Times t = Slowest(us[k]);
      Say("  %-22s %10.1f (%10.1f %10.1f), %.0f wrong elements\n", contenders_[k].name.c_str(),
          t.median, t.p1, t.p99, wrong);
      SayWork(contenders_[k].one.get(), before[k],
              static_cast<double>(o_.iterations) * static_cast<double>(counts.size()));
    }
    if (wrong != 0) p_.Fail("wrong results");
  }
  static void Spin(double us) {
    const double until = NowUs() + us;
    while (NowUs() < until) {
    }
  }

  // E13, and that nothing is there when nothing is outstanding.
  void Idle() {
    ContenderOptions options;
    options.operations = 8;
    Make(options);
    MakeBuffers(std::vector<uint64_t>(8, 64 << 10));
    for (Named& c : contenders_) {
      if (c.one->worker() == nullptr) continue;
      const auto burst = [&] {
        for (int i = 0; i < 8; ++i)
          c.one->Submit(i, OpKind::kAllReduce, in_[0], out_[i], counts_[i]);
        c.one->Wait();
      };
      burst();
      usleep(100000);
      Must(meet_->Barrier(20000));
      const Worker::Stats before = c.one->worker()->stats();
      const double processor = ProcessorUs();
      p_.At("idle, %s", c.name.c_str());
      sleep(2);
      const double used = Sum(ProcessorUs() - processor) / p_.ranks();
      Worker::Stats after = c.one->worker()->stats();
      const double instances = Sum(static_cast<double>(after.instances - before.instances));
      Say("idle       %-18s 2 s with nothing outstanding: %.0f instances, %.0f us of processor "
          "time a rank\n",
          c.name.c_str(), instances, used);
      for (const int pause_us : {0, 1000, 10000}) {
        Must(meet_->Barrier(20000));
        const Worker::Stats first = c.one->worker()->stats();
        const double begin = NowUs();
        double busy = 0;
        const int bursts = pause_us == 0 ? 2000 : pause_us == 1000 ? 500 : 50;
        for (int it = 0; it < bursts; ++it) {
          const double start = NowUs();
          burst();
          busy += NowUs() - start;
          if (pause_us > 0) usleep(static_cast<useconds_t>(pause_us));
        }
        usleep(2000);
        const double all = NowUs() - begin - 2000;
        after = c.one->worker()->stats();
        const double resident = static_cast<double>(after.resident_ns - first.resident_ns) * 1e-3;
        Say("           bursts of 8 all-reduces of 256 KiB, pauses of %5d us: resident %.1f %% of "
            "the time, busy %.1f %%, %.2f instances a burst\n",
            pause_us, resident / all * 100, busy / all * 100,
            static_cast<double>(after.instances - first.instances) / bursts);
      }
    }
  }

  // E13.
  void Beside() {
    ContenderOptions options;
    options.operations = 8;
    Make(options);
    std::vector<uint64_t> counts(8, 64);
    counts[7] = 16 << 20;
    MakeBuffers(counts);
    cudaStream_t stream;
    cudaEvent_t begin, end;
    Must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    Must(cudaEventCreate(&begin));
    Must(cudaEventCreate(&end));
    const auto arithmetic = [&] {
      Must(LaunchArithmetic(132 * 8, 200000, wrong_as_sink(), stream));
    };
    arithmetic();
    Must(cudaStreamSynchronize(stream));
    // kind: 0 alone, 1 with small operations one after another, 2 with large ones.
    const auto measure = [&](Contender* c, int kind) {
      std::vector<double> us;
      for (int it = 0; it < 20; ++it) {
        p_.At("beside, kind %d, iteration %d", kind, it);
        Must(meet_->Barrier(20000));
        Must(cudaEventRecord(begin, stream));
        arithmetic();
        Must(cudaEventRecord(end, stream));
        for (int i = 0; kind != 0 && i < (kind == 1 ? 400 : 40); ++i) {
          const int op = kind == 1 ? i % 7 : 7;
          c->Submit(op, OpKind::kAllReduce, in_[0], out_[op], counts_[op]);
          if (kind == 1) c->Wait();
        }
        if (c != nullptr) c->Wait();
        Must(cudaEventSynchronize(end));
        float ms = 0;
        Must(cudaEventElapsedTime(&ms, begin, end));
        us.push_back(ms * 1000);
      }
      return Slowest(us).median;
    };
    const double alone = measure(nullptr, 0);
    Say("beside     arithmetic on 132 x 8 blocks alone: %.1f us\n", alone);
    for (Named& c : contenders_) {
      const double idle = measure(c.one.get(), 0), small = measure(c.one.get(), 1),
                   large = measure(c.one.get(), 2);
      Say("beside     %-18s idle %+.2f %%, small all-reduces one by one %+.2f %%, 64 MiB "
          "all-reduces %+.2f %%\n",
          c.name.c_str(), (idle / alone - 1) * 100, (small / alone - 1) * 100,
          (large / alone - 1) * 100);
    }
  }
  float* wrong_as_sink() { return reinterpret_cast<float*>(wrong_); }

  const Options& o_;
  std::unique_ptr<Rendezvous> meet_;
  std::vector<Named> contenders_;
  std::vector<uint64_t> counts_;
  float* in_[2] = {nullptr, nullptr};
  std::vector<float*> out_;
  cudaStream_t checks_ = nullptr;
  uint64_t* wrong_ = nullptr;
};

int Main(int argc, char** argv) {
  Options o;
  if (argc > 1) o.what = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i];
    const auto text = [&]() -> const char* { return i + 1 < argc ? argv[++i] : ""; };
    const auto value = [&] { return strtoull(text(), nullptr, 0); };
    if (name == "--with")
      o.with = text();
    else if (name == "--kind")
      o.kind = text();
    else if (name == "--ranks")
      o.ranks = static_cast<int>(value());
    else if (name == "--iterations")
      o.iterations = static_cast<int>(value());
    else if (name == "--seed")
      o.seed = value();
    else if (name == "--blocks")
      o.blocks = static_cast<uint32_t>(value());
    else if (name == "--late")
      o.late_us = static_cast<int>(value());
    else if (name == "--ordered")
      o.ordered = true;
    else if (name == "--patience")
      o.patience_s = static_cast<int>(value());
    else if (name == "--stuck")
      o.stuck_us = static_cast<int64_t>(value());
    else if (name == "--idle")
      o.idle_us = static_cast<int64_t>(value());
    else if (name == "--from")
      o.from = value();
    else if (name == "--to")
      o.to = value();
    else if (name == "--step")
      o.step = value();
    else if (name == "--count")
      o.count = value();
    else if (name == "--bytes")
      o.bytes = value();
    else {
      fprintf(stderr, "unknown option %s\n", name.c_str());
      return 2;
    }
  }
  if (o.what.empty() || o.ranks < 1 || o.ranks > static_cast<int>(kMaxRanks) || o.iterations < 1 ||
      o.step < 2) {
    fprintf(stderr, "usage: gordian-runtime-experiments EXPERIMENT --with NAMES [...]\n");
    return 2;
  }
  return testing::RunRanks(o.ranks, 240, o.patience_s, 0,
                           [&](RankProcess& process) { return Experiment(o, process).Run(); });
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
