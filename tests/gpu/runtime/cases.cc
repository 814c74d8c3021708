// The CUDA backend on real GPUs, one process a rank. Each case ends by itself: results are compared
// with a reference, a watchdog ends what hangs.
//
//   gordian-runtime-cases CASE [--ranks N] [--seed S] [--iterations N] [--streams N] [--ops N]
//                              [--most-bytes B] [--ipc] [--channels N] [--detached] [--pairs]
//
// --detached: kinds, types and dead by the resident worker instead of the stream; of order's
// operations every third.
// --pairs: of order's operations half are all-to-alls, by a group of sends and receives.
//
// Cases:
//   kinds      every kind, several sizes, in place, misaligned, outputs that peers write directly
//   types      every type and operator by every way of carrying
//   order      random orders: each iteration, --ops operations of 4 communicators, in an order of
//   each
//              rank's own, with random kinds and sizes, on --streams exclusive streams
//   chain      all-reduces whose input is the output of the one before, nothing awaited between;
//   random sizes inversion  two communicators, opposite order, one exclusive stream twin       the
//   same without an exclusive stream: must hang, is aborted, and must then leave group      sends
//   and receives of a group that would wait for each other one by one crowd      an operation of a
//   communicator of its own waits on each of twelve streams, until the other ranks come to the
//              last one first: kernels that wait must leave room for those that are waited for.
//              Needs CUDA_DEVICE_MAX_CONNECTIONS=32: a kernel that waits keeps its hardware queue
//   dead       a rank is killed in the middle: the others' kernels must leave and calls fail
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/cuda/domain/communicator.h"
#include "runtime/cuda/domain/domain.h"
#include "runtime/testing/patterns.h"
#include "runtime/testing/ranks.h"
#include "tests/gpu/runtime/rank_device.h"
#include "tests/gpu/runtime/wait_cases.h"
#include "tests/unit/runtime/cuda/reference.h"

namespace gordian::runtime::cuda {
namespace {

using testing::RankProcess;

class Runner : WaitCases {
 public:
  Runner(const CaseOptions& options, RankProcess& process) : WaitCases(options, process) {}

  int Run() {
    DomainConfig config;
    config.name = "cases-" + o_.what + "-" + std::to_string(getppid());
    config.rank = p_.rank();
    config.ranks = p_.ranks();
    config.device = testing::DeviceOf(p_.rank());
    config.user_bytes =
        o_.what == "order" ? uint64_t(o_.ops) * o_.most_bytes / 2 + (64 << 20) : 64ull << 20;
    config.use_ipc = o_.ipc;
    if (o_.what == "types") {  // each way of carrying with little data: it is compared on the host
      config.thresholds.one_shot = config.thresholds.move_lines = 64 << 10;
      config.thresholds.two_shot_lines = 256 << 10;
    }
    if (o_.what == "crowd") config.communicators = kCrowd;
    config.resident_streams = std::max(config.resident_streams, o_.streams);
    if (o_.channels > 0) config.thresholds.most_channels = o_.channels;
    p_.At("making the domain");
    Must(Domain::Create(config, &domain_));
    if (p_.rank() == 0) printf("heap by %s\n", domain_->is_ipc() ? "cudaIpc" : "descriptors");
    Must(testing::PreloadPatterns());
    for (int c = 0; c < config.communicators; ++c) {
      std::vector<int> members;
      for (int r = 0; r < p_.ranks(); ++r) members.push_back(r);
      comms_.emplace_back();
      Must(Communicator::Create(domain_.get(), c, members, &comms_.back()));
    }
    Must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    if (o_.what == "kinds")
      Kinds();
    else if (o_.what == "types")
      Types();
    else if (o_.what == "order")
      Order();
    else if (o_.what == "chain")
      Chain();
    else if (o_.what == "inversion")
      Inversion(true);
    else if (o_.what == "twin")
      Inversion(false);
    else if (o_.what == "group")
      Group();
    else if (o_.what == "crowd")
      Crowd();
    else if (o_.what == "dead")
      Dead();
    else
      p_.Fail("no such case");
    comms_.clear();
    domain_.reset();
    return 0;
  }

 private:
  // One operation on host data, compared element by element.
  void RunCase(const Case& c, bool direct) {
    const auto ranks = static_cast<uint32_t>(p_.ranks());
    const auto me = static_cast<uint32_t>(p_.rank());
    Case mine = c;
    int peer = static_cast<int>(c.root);
    if (c.kind == OpKind::kSend) {  // the root sends to the next rank
      if (ranks == 1) {             // nobody but itself, which is refused, and nothing is enqueued
        for (const OpKind kind : {OpKind::kSend, OpKind::kRecv}) {
          char* const some = Scratch(0, 4096);
          const Status s = comms_[0]->Launch({kind, some, some, 1, c.type, c.op, 0}, stream_);
          if (s.code() != StatusCode::kInvalidArgument)
            p_.Fail("a transfer with oneself was taken");
        }
        return;
      }
      const uint32_t to = (c.root + 1) % ranks;
      if (me != c.root && me != to) return;
      mine.kind = me == to ? OpKind::kRecv : OpKind::kSend;
      peer = static_cast<int>(me == to ? c.root : to);
    }
    p_.At("%s%s", c.Name().c_str(), direct ? " direct" : "");
    const uint64_t size = SizeOf(c.type);
    const uint64_t ins = InputCount(mine.kind, c.count, ranks),
                   outs = OutputCount(mine.kind, c.count, ranks);
    const uint64_t bytes = (std::max(ins, outs) + 64) * size;
    char* in = Scratch(0, bytes);
    char* out = direct ? static_cast<char*>(domain_->Allocate(bytes)) : Scratch(1, bytes);
    char* const heap = direct ? out : nullptr;
    if (out == nullptr) p_.Fail("no user memory left");
    in += c.misaligned;
    out += c.misaligned;
    Must(cudaMemsetAsync(out, 0x55, outs * size, stream_));
    if (c.in_place) {
      const bool own = mine.kind == OpKind::kAllGather || mine.kind == OpKind::kGather;
      if (ins <= outs)
        in = out + (own ? me * c.count * size : 0);
      else
        out = in + me * c.count * size;
    }
    if (HasInput(mine.kind, static_cast<int32_t>(c.root), me) && mine.kind != OpKind::kRecv) {
      std::vector<char> values(ins * size);
      for (uint64_t i = 0; i < ins; ++i) Encode(c.type, Value(me, i), values.data() + i * size);
      Must(cudaMemcpyAsync(in, values.data(), values.size(), cudaMemcpyHostToDevice, stream_));
      Must(cudaStreamSynchronize(stream_));
    }
    if (o_.detached) {
      Must(cudaStreamSynchronize(stream_));  // the output is cleared
      Detached operation;
      Must(comms_[0]->Detach({mine.kind, in, out, c.count, c.type, c.op, peer}, 0, &operation));
      Must(operation.Wait(10'000'000'000));
    } else {
      Must(comms_[0]->Launch({mine.kind, in, out, c.count, c.type, c.op, peer}, stream_));
      Must(cudaStreamSynchronize(stream_));
    }
    const bool has_output =
        mine.kind == OpKind::kRecv ||
        (mine.kind != OpKind::kSend && HasOutput(mine.kind, static_cast<int32_t>(c.root), me));
    ++done_;
    if (has_output) {
      std::vector<char> got(outs * size);
      Must(cudaMemcpy(got.data(), out, got.size(), cudaMemcpyDeviceToHost));
      uint64_t wrong = 0, first = 0;
      char want[8];
      for (uint64_t i = 0; i < outs; ++i) {
        Encode(c.type, Expected(mine, ranks, me, i), want);
        if (memcmp(want, got.data() + i * size, size) != 0 && wrong++ == 0) first = i;
      }
      if (wrong > 0) {
        printf("WRONG rank %u %s%s: %lu of %lu, first %lu\n", me, c.Name().c_str(),
               direct ? " direct" : "", wrong, outs, first);
        fflush(stdout);
        ++wrong_;
      }
    }
    domain_->Free(heap);
  }

  char* Scratch(int which, uint64_t bytes) {
    auto& [at, have] = scratch_[which];
    if (have < bytes) {
      if (at != nullptr) Must(cudaFree(at));  // the stream is idle
      Must(cudaMalloc(reinterpret_cast<void**>(&at), bytes));
      have = bytes;
    }
    return at;
  }

  void Kinds() {
    for (const uint64_t count : {1, 2, 3, 1000, 16384, 16385, 50000, 100003, 262144 + 3, 1500000}) {
      for (const OpKind kind : kAll) {
        for (const uint32_t root : {0u, static_cast<uint32_t>(p_.ranks() - 1)}) {
          Case c;
          c.kind = kind;
          c.count = count;
          c.root = root;
          RunCase(c, false);
          RunCase(c, true);
          if (count < 100000) {
            c.misaligned = 4;
            RunCase(c, false);
            RunCase(c, true);
            c.misaligned = 0;
          }
          if (kind == OpKind::kAllToAll || kind == OpKind::kSend) continue;
          c.in_place = true;
          RunCase(c, false);
          RunCase(c, true);
        }
      }
    }
    Verdict();
  }

  void Types() {
    for (int type = 0; type < kDataTypes; ++type) {
      for (int op = 0; op < kOperators; ++op) {
        for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kReduce}) {
          for (const uint64_t bytes : {264, 160 << 10, 520 << 10}) {
            Case c;
            c.kind = kind;
            c.type = static_cast<DataType>(type);
            c.op = static_cast<Operator>(op);
            c.count = bytes / SizeOf(c.type) + 1;
            RunCase(c, false);
          }
        }
      }
    }
    Verdict();
  }

  void Verdict() {
    Barrier();
    if (wrong_ > 0) p_.Fail(std::to_string(wrong_) + " operations gave wrong results");
    Say("%s: %d operations right on rank 0\n", o_.what.c_str(), done_);
  }

  void Order() {
    const auto ranks = static_cast<uint32_t>(p_.ranks());
    const auto me = static_cast<uint32_t>(p_.rank());
    const uint64_t most = o_.most_bytes / 4;  // elements of the larger buffer
    const uint64_t pattern = most + 4096;
    float* in = nullptr;
    uint64_t* wrong = nullptr;
    std::vector<float*> outs;
    Must(cudaMalloc(reinterpret_cast<void**>(&in), pattern * 4));
    Must(cudaMalloc(reinterpret_cast<void**>(&wrong), 8));
    Must(cudaMemset(wrong, 0, 8));
    Must(testing::FillPattern(in, pattern, me, 7, stream_));
    for (int i = 0; i < o_.ops; ++i) {
      float* out = nullptr;
      if (i % 4 == 3)
        out = static_cast<float*>(domain_->Allocate(most * 4));  // some are written directly
      if (out == nullptr) Must(cudaMalloc(reinterpret_cast<void**>(&out), most * 4));
      outs.push_back(out);
    }
    std::vector<cudaStream_t> streams;
    for (int i = 0; i < o_.streams; ++i) {
      streams.emplace_back();
      Must(cudaStreamCreateWithFlags(&streams.back(), cudaStreamNonBlocking));
      Must(domain_->SetExclusive(streams.back(), true));
    }
    Must(cudaDeviceSynchronize());
    std::mt19937_64 common(o_.seed), own(o_.seed * 1000 + me);
    std::uniform_real_distribution<double> unit(0, 1);
    const double begin = Now();
    uint64_t operations = 0, bytes = 0;
    for (int iteration = 0; iteration < o_.iterations; ++iteration) {
      p_.At("iteration %d", iteration);
      struct One {
        int comm;
        testing::Expectation e;
        float* out;
        bool detached;
      };
      std::vector<std::vector<One>> what(comms_.size());
      for (int i = 0; i < o_.ops; ++i) {
        const int c = static_cast<int>(common() % comms_.size());
        const OpKind kind = o_.pairs && common() % 2 == 0 ? OpKind::kAllToAll : kAll[common() % 8];
        const double size = 8 * std::pow(static_cast<double>(o_.most_bytes) / 8, unit(common));
        uint64_t count = std::max<uint64_t>(static_cast<uint64_t>(size) / 4, 2);
        if (InputCount(kind, 1, ranks) > 1 || OutputCount(kind, 1, ranks) > 1)
          count = std::max<uint64_t>(count / ranks, 1);
        const auto root = static_cast<uint32_t>(common() % ranks);
        const uint64_t offset = common() % 1024 * 4;
        what[c].push_back({c,
                           {kind, ranks, me, root, 7, count, offset},
                           outs[i],
                           o_.detached && common() % 3 == 0});
      }
      std::vector<int> order;
      for (size_t c = 0; c < what.size(); ++c)
        order.insert(order.end(), what[c].size(), static_cast<int>(c));
      std::shuffle(order.begin(), order.end(), own);
      std::vector<int> stream_of(comms_.size());
      for (int& s : stream_of) s = static_cast<int>(own() % streams.size());
      // A communicator that moves to another stream waits for the old one: not within an iteration.
      std::vector<size_t> next(what.size(), 0);
      std::vector<One> launched;
      std::vector<Detached> detached;
      for (const int c : order) {
        const One& one = what[c][next[c]++];
        const auto root = static_cast<int>(one.e.root);
        if (one.detached) {
          detached.emplace_back();
          Must(comms_[c]->Detach({one.e.kind, in + one.e.offset, one.out, one.e.count,
                                  DataType::kFloat, Operator::kSum, root},
                                 0, &detached.back()));
        } else if (o_.pairs && one.e.kind == OpKind::kAllToAll) {
          Must(domain_->GroupStart());
          for (int peer = 0; peer < p_.ranks(); ++peer) {
            if (peer == p_.rank()) continue;
            const uint64_t at = static_cast<uint64_t>(peer) * one.e.count;
            Must(comms_[c]->Launch({OpKind::kSend, in + one.e.offset + at, nullptr, one.e.count,
                                    DataType::kFloat, Operator::kSum, peer},
                                   streams[stream_of[c]]));
            Must(comms_[c]->Launch({OpKind::kRecv, nullptr, one.out + at, one.e.count,
                                    DataType::kFloat, Operator::kSum, peer},
                                   streams[stream_of[c]]));
          }
          Must(domain_->GroupEnd());
        } else {
          Must(comms_[c]->Launch({one.e.kind, in + one.e.offset, one.out, one.e.count,
                                  DataType::kFloat, Operator::kSum, root},
                                 streams[stream_of[c]]));
        }
        launched.push_back(one);
        ++operations;
        bytes += one.e.count * 4;
      }
      for (const cudaStream_t stream : streams) Must(cudaStreamSynchronize(stream));
      for (Detached& one : detached) Must(one.Wait(10'000'000'000));
      for (const One& one : launched) {
        if (o_.pairs && one.e.kind == OpKind::kAllToAll &&
            !one.detached) {  // nobody sends to itself
          const uint64_t at = me * one.e.count;
          Must(cudaMemcpyAsync(one.out + at, in + one.e.offset + at, one.e.count * 4,
                               cudaMemcpyDeviceToDevice, stream_));
        }
        Must(testing::CheckPattern(one.out, one.e, wrong, stream_));
      }
      uint64_t bad = 0;
      Must(cudaMemcpyAsync(&bad, wrong, 8, cudaMemcpyDeviceToHost, stream_));
      Must(cudaStreamSynchronize(stream_));
      if (bad != 0)
        p_.Fail(std::to_string(bad) + " elements wrong in iteration " + std::to_string(iteration));
      // Outputs may be written by peers that are an iteration ahead.
      Barrier();
    }
    HelpCounts counts;
    Must(domain_->Helped(&counts));
    const uint64_t helped = p_.Sum(counts.helped);
    Say("order: %d iterations, %lu operations, %.1f MiB each (mean), %d streams, %lu channels "
        "helped, "
        "%.1f s, 0 hangs, 0 wrong\n",
        o_.iterations, operations,
        static_cast<double>(bytes) / static_cast<double>(operations) / (1 << 20), o_.streams,
        helped, Now() - begin);
    if (p_.ranks() > 1 && helped == 0 && o_.iterations >= 100)
      p_.Fail("nothing was helped: the orders were no test");
  }

  void Chain() {
    constexpr int kLinks = 6;
    const auto ranks = static_cast<uint32_t>(p_.ranks());
    const auto me = static_cast<uint32_t>(p_.rank());
    const uint64_t most = std::min<uint64_t>(o_.most_bytes, 16 << 20) / 4;
    float* buffers[3] = {};
    Must(cudaMalloc(reinterpret_cast<void**>(&buffers[0]), most * 4));
    Must(cudaMalloc(reinterpret_cast<void**>(&buffers[1]), most * 4));
    buffers[2] = static_cast<float*>(domain_->Allocate(most * 4));  // peers write there
    if (buffers[2] == nullptr) p_.Fail("no user memory left");
    const auto value = [](uint32_t rank, uint64_t i) {
      return static_cast<float>((i * 7 + rank * 5) % 13);
    };
    std::mt19937_64 common(o_.seed);
    std::uniform_real_distribution<double> unit(0, 1);
    std::vector<float> host(most);
    for (int iteration = 0; iteration < o_.iterations; ++iteration) {
      p_.At("chain %d", iteration);
      const auto count =
          static_cast<uint64_t>(2 * std::pow(static_cast<double>(most) / 2, unit(common)));
      const uint64_t first = common();
      for (uint64_t i = 0; i < count; ++i) host[i] = value(me, first + i);
      Must(cudaMemcpyAsync(buffers[0], host.data(), count * 4, cudaMemcpyHostToDevice, stream_));
      Barrier();  // a peer writes to buffers[2] as soon as all are at it
      int at = 0;
      for (int link = 0; link < kLinks; ++link) {
        const int to = common() % 4 == 0
                           ? at
                           : static_cast<int>((at + 1 + common() % 2) % 3);  // some in place
        Must(comms_[0]->Launch({OpKind::kAllReduce, buffers[at], buffers[to], count,
                                DataType::kFloat, Operator::kSum, 0},
                               stream_));
        at = to;
      }
      Must(cudaMemcpyAsync(host.data(), buffers[at], count * 4, cudaMemcpyDeviceToHost, stream_));
      Must(cudaStreamSynchronize(stream_));
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < count; ++i) {
        float want = 0;  // whole numbers below 2^24: exact
        for (uint32_t r = 0; r < ranks; ++r) want += value(r, first + i);
        for (int link = 1; link < kLinks; ++link) want *= static_cast<float>(ranks);
        if (host[i] != want) ++wrong;
      }
      if (wrong != 0)
        p_.Fail(std::to_string(wrong) + " of " + std::to_string(count) +
                " elements wrong in iteration " + std::to_string(iteration));
    }
    Barrier();
    Say("chain: %d iterations of %d all-reduces, right\n", o_.iterations, kLinks);
  }

  std::map<int, std::pair<char*, uint64_t>> scratch_;
  int done_ = 0, wrong_ = 0;
};

int Main(int argc, char** argv) {
  CaseOptions o;
  if (argc > 1) o.what = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&] { return i + 1 < argc ? strtoull(argv[++i], nullptr, 0) : 0; };
    if (name == "--ranks")
      o.ranks = static_cast<int>(value());
    else if (name == "--seed")
      o.seed = value();
    else if (name == "--iterations")
      o.iterations = static_cast<int>(value());
    else if (name == "--streams")
      o.streams = static_cast<int>(value());
    else if (name == "--ops")
      o.ops = static_cast<int>(value());
    else if (name == "--most-bytes")
      o.most_bytes = value();
    else if (name == "--channels")
      o.channels = static_cast<uint32_t>(value());
    else if (name == "--ipc")
      o.ipc = true;
    else if (name == "--detached")
      o.detached = true;
    else if (name == "--pairs")
      o.pairs = true;
    else {
      fprintf(stderr, "unknown option %s\n", name.c_str());
      return 2;
    }
  }
  if (o.what.empty() || o.ranks < 1 || o.ranks > static_cast<int>(kMaxRanks)) {
    fprintf(stderr, "usage: gordian-runtime-cases CASE [--ranks N] [...]\n");
    return 2;
  }
  const uint32_t may_die = o.what == "dead" ? 1u << (o.ranks - 1) : 0;
  const int result = testing::RunRanks(
      o.ranks, 240, 15, may_die, [&](RankProcess& process) { return Runner(o, process).Run(); });
  printf("%s %s --ranks %d --streams %d --seed %lu%s\n", result == 0 ? "PASS" : "FAIL",
         o.what.c_str(), o.ranks, o.streams, o.seed, o.ipc ? " --ipc" : "");
  return result;
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
