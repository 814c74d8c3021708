// The C API on real GPUs: gordian/runtime.h and CUDA's runtime, as a program uses them.
//   gordian-runtime-api-cases CASE [--ranks N]
// Cases: kinds mismatch order order_twin events detached faults rest. One process a rank, one
// device each.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gordian/runtime.h"
#include "runtime/testing/ranks.h"
#include "tests/gpu/runtime/rank_device.h"
#include "tests/unit/runtime/cuda/reference.h"

namespace gordian::runtime::cuda {
namespace {

using testing::Now;
using testing::RankProcess;

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kPatience = 20 * kSecond;

class Runner {
 public:
  Runner(const std::string& what, RankProcess& process)
      : what_(what), p_(process), n_(process.ranks()), r_(process.rank()) {}

  int Run() {
    Cuda(cudaSetDevice(testing::DeviceOf(r_)), "cudaSetDevice");
    Cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    Cuda(cudaMalloc(reinterpret_cast<void**>(&in_), kBytes), "cudaMalloc");
    Cuda(cudaMalloc(reinterpret_cast<void**>(&out_), kBytes), "cudaMalloc");
    if (what_ == "kinds")
      Kinds();
    else if (what_ == "mismatch")
      Mismatches();
    else if (what_ == "order")
      Order(true);
    else if (what_ == "order_twin")
      Order(false);
    else if (what_ == "events")
      Events();
    else if (what_ == "detached")
      DetachedOrders();
    else if (what_ == "faults")
      Faults();
    else if (what_ == "rest")
      Rest();
    else
      return 2;
    return 0;
  }

 private:
  static constexpr size_t kBytes = 64 << 20;

  void Cuda(cudaError_t e, const char* what) {
    if (e != cudaSuccess) p_.Fail(std::string(what) + ": " + cudaGetErrorString(e));
  }
  void Need(grtResult_t result, grtResult_t wanted, const std::string& what) {
    if (result != wanted) {
      p_.Fail(what + ": " + grtGetErrorString(result) + " (" + std::to_string(result) + "), not " +
              std::to_string(wanted));
    }
  }
  void Ok(grtResult_t result, const std::string& what) { Need(result, grtSuccess, what); }
  template <typename... Arguments>
  void Say(const char* format, Arguments... arguments) {
    if (r_ != 0) return;
    printf(format, arguments...);
    fflush(stdout);
  }

  // Equal on all ranks, another one for each name.
  grtUniqueId Id(const std::string& name) const {
    grtUniqueId id = {};
    snprintf(id.internal, sizeof id.internal, "%d %s", static_cast<int>(getppid()), name.c_str());
    return id;
  }
  grtComm_t Comm(const std::string& name) {
    grtComm_t comm = nullptr;
    Ok(grtCommInitRankConfig(&comm, n_, Id(name), r_, nullptr), "making " + name);
    return comm;
  }

  grtOpDesc_t Describe(const Case& c, grtComm_t comm) {
    grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
    d.kind = static_cast<grtKind_t>(c.kind);
    d.in = in_;
    d.out = c.in_place ? in_ : out_;
    d.count = c.count;
    d.type = static_cast<grtDataType_t>(c.type);
    d.op = static_cast<grtRedOp_t>(c.op);
    d.root_or_peer = static_cast<int>(c.root);
    d.comm = comm;
    return d;
  }
  void Fill(const Case& c, char* at) {
    const size_t size = SizeOf(c.type);
    std::vector<char> host(InputCount(c.kind, c.count, static_cast<uint32_t>(n_)) * size);
    for (size_t i = 0; i * size < host.size(); ++i)
      Encode(c.type, Value(static_cast<uint32_t>(r_), i), host.data() + i * size);
    Cuda(cudaMemcpy(at, host.data(), host.size(), cudaMemcpyHostToDevice), "filling");
  }
  uint64_t Wrong(const Case& c, const char* at, bool has_output) {
    if (!has_output) return 0;
    const size_t size = SizeOf(c.type);
    std::vector<char> host(OutputCount(c.kind, c.count, static_cast<uint32_t>(n_)) * size);
    Cuda(cudaMemcpy(host.data(), at, host.size(), cudaMemcpyDeviceToHost), "reading");
    uint64_t wrong = 0;
    for (size_t i = 0; i * size < host.size(); ++i) {
      char want[8];
      Encode(c.type, Expected(c, static_cast<uint32_t>(n_), static_cast<uint32_t>(r_), i), want);
      if (std::memcmp(want, host.data() + i * size, size) != 0) ++wrong;
    }
    return wrong;
  }
  bool IsUntouched(const char* at, size_t bytes) {
    std::vector<char> host(bytes);
    Cuda(cudaMemcpy(host.data(), at, bytes, cudaMemcpyDeviceToHost), "reading");
    return std::all_of(host.begin(), host.end(), [](char c) { return c == 77; });
  }

  void One(const Case& c, grtComm_t comm) {
    p_.At("%s", c.Name().c_str());
    Fill(c, in_);
    Cuda(cudaMemset(out_, 77, 64), "clearing");
    Cuda(cudaDeviceSynchronize(), "before");
    grtOpDesc_t d = Describe(c, comm);
    char scalar[8] = {};
    Encode(c.type, Scalar(static_cast<uint32_t>(r_)), scalar);
    d.scalar = scalar;
    grtOp_t op = nullptr;
    Ok(grtSubmit(&d, stream_, &op), c.Name());
    Ok(grtOpWait(op, kPatience), c.Name());
    Ok(grtOpFree(op), "free");
    const bool has_output =
        HasOutput(c.kind, static_cast<int32_t>(c.root), static_cast<uint32_t>(r_));
    if (const uint64_t wrong = Wrong(c, static_cast<char*>(d.out), has_output); wrong != 0) {
      p_.Fail(c.Name() + ": " + std::to_string(wrong) + " wrong");
    }
    ++done_;
  }

  void Kinds() {
    grtComm_t comm = Comm("kinds");
    // The order of making does not matter, and a communicator that is never used waits for nobody.
    grtComm_t other = Comm(r_ == 0 ? "only rank 0's" : "only the others'");
    for (const uint64_t count : {1, 1000, 70000, 1500000}) {
      for (const OpKind kind : kAll) {
        if (kind == OpKind::kSend) continue;
        for (const DataType type :
             {DataType::kFloat, DataType::kInt32, DataType::kBfloat16, DataType::kDouble}) {
          if (count > 100000 && type != DataType::kFloat) continue;
          for (const Operator op :
               {Operator::kSum, Operator::kMax, Operator::kAverage, Operator::kPreMulSum}) {
            if (!Reduces(kind) && op != Operator::kSum) continue;
            Case c;
            c.kind = kind;
            c.type = type;
            c.op = op;
            c.count = count;
            c.root = static_cast<uint32_t>(n_ - 1);
            One(c, comm);
          }
        }
      }
    }
    Say("kinds: %d operations right\n", done_);
    Ok(grtCommDestroy(comm, kPatience), "destroy");
    Ok(grtCommDestroy(other, kPatience), "destroy");
  }

  // The last rank does something else. Told to all within a second, outputs as they were; the twin
  // is right.
  void Mismatches() {
    enum Slip { kNothing, kCount, kFarCount, kType, kOperator, kKind, kRoot, kSlips };
    double slowest = 0;
    for (int slip = kNothing; slip < kSlips; ++slip) {
      for (const uint64_t count : {1000, 1000000}) {
        const std::string name = "mismatch " + std::to_string(slip) + " " + std::to_string(count);
        p_.At("%s", name.c_str());
        grtComm_t comm = Comm(name);
        Case c;
        c.count = count;
        c.kind = slip == kRoot ? OpKind::kReduce : OpKind::kAllReduce;
        One(c, comm);
        if (r_ == n_ - 1) {
          if (slip == kCount) c.count -= 1;
          if (slip == kFarCount) c.count = count == 1000 ? 1000000 : 1000;  // carried another way
          if (slip == kType) c.type = DataType::kInt32;
          if (slip == kOperator) c.op = Operator::kMax;
          if (slip == kKind) c.kind = OpKind::kAllGather;
          if (slip == kRoot) c.root = 1;
        }
        Fill(c, in_);
        Cuda(cudaMemset(out_, 77, kBytes), "clearing");
        Cuda(cudaDeviceSynchronize(), "before");
        const double begin = Now();
        grtOpDesc_t d = Describe(c, comm);
        grtOp_t op = nullptr;
        const grtResult_t called = grtSubmit(&d, stream_, &op);
        const grtResult_t result = called == grtSuccess ? grtOpWait(op, kPatience) : called;
        const double took = Now() - begin;
        Need(result, slip == kNothing ? grtSuccess : grtMismatch, name);
        if (op != nullptr) grtOpFree(op);
        if (slip != kNothing) {
          if (took > 1) p_.Fail(name + ": told after " + std::to_string(took) + " s");
          slowest = std::max(slowest, took);
          if (!IsUntouched(out_, 64)) p_.Fail(name + ": an output was written");
          Need(grtSubmit(&d, stream_, nullptr), grtMismatch, name + ": the next call");
          Cuda(cudaStreamSynchronize(stream_), "the stream goes on");
          Ok(grtCommAbort(comm), "abort");
        } else {
          Ok(grtCommDestroy(comm, kPatience), "destroy");
        }
      }
    }
    Say("mismatch: all told, the slowest after %.1f ms; the twin right\n", slowest * 1e3);
  }

  // Two communicators in opposite orders on one stream.
  void Order(bool exclusive) {
    grtComm_t a = Comm("a"), b = Comm("b");
    if (r_ % 2 == 1) std::swap(a, b);
    Case c;
    c.count = 1024;
    One(c, r_ % 2 == 1 ? b : a);
    One(c, r_ % 2 == 1 ? a : b);
    if (exclusive) Ok(grtStreamExclusive(stream_, 1), "exclusive");
    const int pairs = exclusive ? 500 : 1;
    char* second = out_ + (32 << 20);
    Fill(c, in_);
    const double begin = Now();
    grtOp_t op = nullptr;
    for (int i = 0; i < pairs; ++i) {
      p_.At("pair %d", i);
      Ok(grtAllReduce(in_, out_, c.count, grtFloat32, grtSum, a, stream_), "first");
      grtOpDesc_t d = Describe(c, b);
      d.out = second;
      Ok(grtSubmit(&d, stream_, i + 1 == pairs ? &op : nullptr), "second");
    }
    const grtResult_t result = grtOpWait(op, exclusive ? kPatience : 3 * kSecond);
    if (!exclusive) {
      // As with NCCL; abort ends it.
      Need(result, grtTimeout, "the twin");
      Ok(grtCommAbort(a), "abort");
      Ok(grtCommAbort(b), "abort");
      Cuda(cudaStreamSynchronize(stream_), "the stream goes on");
      Need(grtOpWait(op, kSecond), grtAborted, "after the abort");
      Say("order_twin: hangs as it must, and abort ends it\n");
      return;
    }
    Ok(result, "the last one");
    if (Wrong(c, out_, true) != 0 || Wrong(c, second, true) != 0) p_.Fail("wrong results");
    Ok(grtOpFree(op), "free");
    // Both write one buffer, sums and maxima: in the end it holds what the stream's last operation
    // gives.
    for (const uint64_t count : {1024, 1000000}) {
      Case last;
      last.count = count;
      last.op = r_ % 2 == 0 ? Operator::kMax : Operator::kSum;
      Fill(last, in_);
      // Not more at a time than there is room for renamed outputs.
      for (int i = 0; i < 50; ++i) {
        p_.At("one buffer, %d of %lu", i, static_cast<unsigned long>(count));
        const bool waits = i == 49 || (count > 100000 && i % 3 == 2);
        Ok(grtAllReduce(in_, out_, count, grtFloat32, r_ % 2 == 0 ? grtSum : grtMax, a, stream_),
           "first");
        grtOpDesc_t d = Describe(last, b);
        Ok(grtSubmit(&d, stream_, waits ? &op : nullptr), "second");
        if (!waits) continue;
        Ok(grtOpWait(op, kPatience), "one buffer");
        Ok(grtOpFree(op), "free");
      }
      if (const uint64_t wrong = Wrong(last, out_, true); wrong != 0)
        p_.Fail("one buffer: " + std::to_string(wrong) + " wrong");
    }
    grtStats_t stats = GRT_STATS_INITIALIZER;
    Ok(grtGetStats(a, &stats), "stats");
    const uint64_t helped = p_.Sum(stats.helped);
    if (helped == 0) p_.Fail("nothing was helped");
    Say("order: %d pairs in opposite orders, %.1f us an operation, %llu channels helped\n", pairs,
        (Now() - begin) / pairs / 2 * 1e6, static_cast<unsigned long long>(helped));
    Ok(grtCommDestroy(a, kPatience), "destroy");
    Ok(grtCommDestroy(b, kPatience), "destroy");
  }

  // A communicator on a stream of its own each, and one stream waits for the other's event: another
  // one on odd ranks (departs), the same on all, or none. The first ends by help across streams,
  // and hangs where the library is not told that the streams carry nothing else.
  void Events() {
    cudaStream_t other = nullptr;
    cudaEvent_t event = nullptr;
    Cuda(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "cudaStreamCreate");
    Cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    Case c;
    c.count = 1024;
    char* second = out_ + (32 << 20);
    Fill(c, in_);
    enum { kNone, kSame, kDeparts, kDepartsUntold };
    for (const int how : {kNone, kSame, kDeparts, kDepartsUntold}) {
      grtComm_t a = Comm("a" + std::to_string(how)), b = Comm("b" + std::to_string(how));
      One(c, a);
      One(c, b);
      Fill(c, in_);
      Cuda(cudaDeviceSynchronize(), "inputs");
      const bool hangs = how == kDepartsUntold;
      for (const cudaStream_t s : {stream_, other})
        Ok(grtStreamExclusive(s, hangs ? 0 : 1), "exclusive");
      const bool turned = how >= kDeparts && r_ % 2 == 1;
      const cudaStream_t first_stream = turned ? other : stream_,
                         second_stream = turned ? stream_ : other;
      p_.At("events, %d", how);
      grtOp_t op = nullptr;
      grtOpDesc_t d = Describe(c, turned ? b : a);
      d.out = turned ? second : out_;
      Ok(grtSubmit(&d, first_stream, nullptr), "first");
      if (how != kNone) {
        Ok(grtEventRecorded(event, first_stream), "record");
        Cuda(cudaEventRecord(event, first_stream), "record");
        Ok(grtEventAwaited(event, second_stream), "wait");
        Cuda(cudaStreamWaitEvent(second_stream, event, 0), "wait");
      }
      d = Describe(c, turned ? a : b);
      d.out = turned ? out_ : second;
      Ok(grtSubmit(&d, second_stream, &op), "second");
      const grtResult_t result = grtOpWait(op, hangs ? 3 * kSecond : kPatience);
      if (hangs) {
        Need(result, grtTimeout, "streams that wait for each other");
        Ok(grtCommAbort(a), "abort");
        Ok(grtCommAbort(b), "abort");
      } else {
        Ok(result, "the second one");
      }
      for (const cudaStream_t s : {stream_, other})
        Cuda(cudaStreamSynchronize(s), "the stream goes on");
      if (!hangs && (Wrong(c, out_, true) != 0 || Wrong(c, second, true) != 0))
        p_.Fail("wrong results");
      Ok(grtOpFree(op), "free");
      for (const cudaStream_t s : {stream_, other}) Ok(grtStreamExclusive(s, 0), "not exclusive");
      for (const grtComm_t comm : {a, b}) {
        if (!hangs) Ok(grtCommDestroy(comm, kPatience), "destroy");
      }
    }
    Say("events: two streams go on without waits, with the same, and with opposite ones; where the "
        "library is not told of the streams the last hang, and abort ends it\n");
  }

  // Detached operations in opposite orders, with a wait for the device between.
  void DetachedOrders() {
    grtComm_t a = Comm("a"), b = Comm("b");
    if (r_ % 2 == 1) std::swap(a, b);
    Case c;
    c.count = 3000;
    Fill(c, in_);
    char* second = out_ + (32 << 20);
    const int rounds = 200;
    const double begin = Now();
    for (int i = 0; i < rounds; ++i) {
      p_.At("round %d", i);
      grtOp_t ops[2] = {};
      for (int k = 0; k < 2; ++k) {
        grtOpDesc_t d = Describe(c, k == 0 ? a : b);
        d.order = grtOrderDetached;
        if (k == 1) d.out = second;
        Ok(grtSubmit(&d, nullptr, &ops[k]), "submit");
        Cuda(cudaDeviceSynchronize(), "waiting for the device");
      }
      for (grtOp_t op : ops) {
        Ok(grtOpWait(op, kPatience), "wait");
        Ok(grtOpFree(op), "free");
      }
    }
    if (Wrong(c, out_, true) != 0 || Wrong(c, second, true) != 0) p_.Fail("wrong results");
    Say("detached: %d rounds with cudaDeviceSynchronize between, %.0f us a round\n", rounds,
        (Now() - begin) / rounds * 1e6);
    // One that disagrees with its peers.
    grtOpDesc_t d = Describe(c, r_ % 2 == 1 ? b : a);
    d.order = grtOrderDetached;
    if (r_ == n_ - 1) d.count -= 1;
    grtOp_t op = nullptr;
    const grtResult_t called = grtSubmit(&d, nullptr, &op);
    const grtResult_t ended = called == grtSuccess ? grtOpWait(op, kPatience) : called;
    if (ended == grtTimeout) {
      grtStats_t stats = GRT_STATS_INITIALIZER;
      Ok(grtGetStats(d.comm, &stats), "stats");
      printf("rank %d: %llu instances of the worker, %llu switches, %.1f ms resident\n", r_,
             static_cast<unsigned long long>(stats.quits),
             static_cast<unsigned long long>(stats.switches),
             static_cast<double>(stats.residency_ns) * 1e-6);
      fflush(stdout);
    }
    Need(ended, grtMismatch, "a detached mismatch");
    Ok(grtCommAbort(a), "abort");
    Ok(grtCommAbort(b), "abort");
  }

  // An operation that never comes: deadlines, abort by another rank, and the death of one.
  void Faults() {
    Case c;
    c.count = 1000;
    grtComm_t first = Comm("first"), second = Comm("second"), third = Comm("third");
    for (grtComm_t comm : {first, second, third}) One(c, comm);
    grtOpDesc_t d = Describe(c, first);
    grtOp_t op = nullptr;
    const double begin = Now();
    if (r_ == 0) {
      Ok(grtSubmit(&d, stream_, &op), "submit");
      Need(grtOpWait(op, kSecond / 10), grtTimeout, "a wait with a deadline");
      Need(grtCommDestroy(first, kSecond / 10), grtTimeout, "a destroy with a deadline");
      Need(grtOpWait(op, kPatience), grtAborted, "the other one aborts");
      Say("faults: aborted by another rank after %.0f ms\n", (Now() - begin) * 1e3);
      grtOpFree(op);
      Ok(grtCommAbort(first), "abort");
    } else {
      const timespec pause{0, 500'000'000};
      nanosleep(&pause, nullptr);  // until the other ones wait
      Ok(grtCommAbort(first), "abort");
    }
    One(c, second);  // the others go on
    if (r_ == n_ - 1) {
      const timespec pause{0, 300'000'000};
      nanosleep(&pause, nullptr);
      raise(SIGKILL);
    }
    grtOpDesc_t last = Describe(c, third);
    Ok(grtSubmit(&last, stream_, &op), "submit");
    Need(grtOpWait(op, 2 * kSecond), grtPeerDead, "a member dies");
    Say("faults: the death was told\n");
    grtOpFree(op);
    Cuda(cudaStreamSynchronize(stream_), "the stream goes on");
  }

  void Rest() {
    grtComm_t world = Comm("world");
    // Groups: a ring, and to oneself.
    p_.At("ring");
    Case c;
    c.kind = OpKind::kRecv;
    c.count = 5000;
    const int next = (r_ + 1) % n_, before = (r_ + n_ - 1) % n_;
    Case own;
    own.count = c.count;
    Fill(own, in_);
    Ok(grtGroupStart(), "group");
    Ok(grtSend(in_, c.count, grtFloat32, next, world, stream_), "send");
    Ok(grtRecv(out_, c.count, grtFloat32, before, world, stream_), "recv");
    Ok(grtSend(in_, c.count, grtFloat32, r_, world, stream_), "send to oneself");
    Ok(grtRecv(out_ + (8 << 20), c.count, grtFloat32, r_, world, stream_), "recv from oneself");
    Ok(grtGroupEnd(), "group end");
    Cuda(cudaStreamSynchronize(stream_), "ring");
    c.root = static_cast<uint32_t>(before);
    if (Wrong(c, out_, true) != 0) p_.Fail("ring: wrong");
    c.root = static_cast<uint32_t>(r_);
    if (Wrong(c, out_ + (8 << 20), true) != 0) p_.Fail("to oneself: wrong");
    Need(grtSend(in_, 1, grtFloat32, r_, world, stream_), grtInvalidUsage,
         "a send to oneself alone");
    // Unequal blocks: to rank p, 100 (p + 1) elements.
    p_.At("all-to-all-v");
    std::vector<size_t> out_counts(n_, 100 * static_cast<size_t>(r_ + 1)), in_counts, in_at, out_at;
    size_t at = 0;
    for (int p = 0; p < n_; ++p) {
      in_counts.push_back(100 * static_cast<size_t>(p + 1));
      in_at.push_back(at);
      at += in_counts.back();
      out_at.push_back(out_counts[0] * static_cast<size_t>(p));
    }
    Ok(grtAllToAllv(in_, in_counts.data(), in_at.data(), out_, out_counts.data(), out_at.data(),
                    grtFloat32, world, stream_),
       "all-to-all-v");
    Cuda(cudaStreamSynchronize(stream_), "all-to-all-v");
    std::vector<float> got(out_counts[0] * n_);
    Cuda(cudaMemcpy(got.data(), out_, got.size() * 4, cudaMemcpyDeviceToHost), "reading");
    for (int p = 0; p < n_; ++p) {
      for (size_t i = 0; i < out_counts[0]; ++i) {
        if (got[out_at[p] + i] !=
            static_cast<float>(Value(static_cast<uint32_t>(p), in_at[r_] + i)))
          p_.Fail("all-to-all-v: wrong");
      }
    }
    // A split in reversed order; memory that peers write.
    p_.At("split");
    void* mapped = nullptr;
    Ok(grtMemAlloc(&mapped, 16 << 20), "grtMemAlloc");
    grtComm_t turned = nullptr;
    Ok(grtCommSplit(world, 0, -r_, &turned, nullptr, kPatience), "split");
    int rank = -1;
    Ok(grtCommUserRank(turned, &rank), "rank");
    if (rank != n_ - 1 - r_) p_.Fail("split: rank " + std::to_string(rank));
    p_.At("mapped memory");
    Case big;
    big.count = 2000000;
    Fill(big, in_);
    Ok(grtAllReduce(in_, mapped, big.count, grtFloat32, grtSum, turned, stream_),
       "into mapped memory");
    Cuda(cudaStreamSynchronize(stream_), "mapped");
    if (Wrong(big, static_cast<char*>(mapped), true) != 0) p_.Fail("mapped: wrong");
    // What is not there says so.
    p_.At("not supported");
    cudaStream_t none = nullptr;
    Need(grtStreamCreate(&none), grtNotSupported, "grtStreamCreate");
    // Many communicators, one after another: memory is used again.
    for (int i = 0; i < 40; ++i) {
      p_.At("communicator %d", i);
      grtComm_t comm = Comm("again " + std::to_string(i));
      Case small;
      small.count = 100;
      One(small, comm);
      Ok(grtCommDestroy(comm, kPatience), "destroy");
    }
    // By a thread that has set no device, whatever the rank's is.
    p_.At("another thread");
    std::thread([&] {
      for (const grtOrder_t order : {grtOrderStrict, grtOrderDetached}) {
        Case small;
        small.count = 1000;
        grtOpDesc_t d = Describe(small, world);
        d.order = order;
        d.in = in_;
        d.out = out_;
        grtOp_t op = nullptr;
        Ok(grtSubmit(&d, stream_, &op), "submit");
        Ok(grtOpStreamWait(op, stream_), "stream wait");
        Ok(grtOpWait(op, kPatience), "wait");
        Ok(grtOpFree(op), "free");
      }
      Ok(grtStreamJoin(stream_), "join");
    }).join();
    Cuda(cudaStreamSynchronize(stream_), "another thread");
    OnlyOwnContext();
    size_t free_bytes = 0, total = 0;
    Cuda(cudaMemGetInfo(&free_bytes, &total), "memory");
    Ok(grtMemFree(mapped), "grtMemFree");
    Ok(grtCommDestroy(turned, kPatience), "destroy");
    Ok(grtCommDestroy(world, kPatience), "destroy");
    Say("rest: groups, oneself, all-to-all-v, split, mapped memory, 40 communicators; %zu MiB of "
        "the device in use\n",
        (total - free_bytes) >> 20);
  }

  // Half a GiB of another's device otherwise.
  void OnlyOwnContext() {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) p_.Fail("libcuda.so.1 cannot be loaded");
    const auto state = reinterpret_cast<decltype(&::cuDevicePrimaryCtxGetState)>(
        dlsym(driver, "cuDevicePrimaryCtxGetState"));
    int devices = 0;
    Cuda(cudaGetDeviceCount(&devices), "devices");
    for (int device = 0; device < devices; ++device) {
      unsigned flags = 0;
      int active = 0;
      if (state(device, &flags, &active) != CUDA_SUCCESS) p_.Fail("cuDevicePrimaryCtxGetState");
      if (active != 0 && device != testing::DeviceOf(r_))
        p_.Fail("a context on device " + std::to_string(device));
    }
  }

  const std::string what_;
  RankProcess& p_;
  const int n_, r_;
  cudaStream_t stream_ = nullptr;
  char *in_ = nullptr, *out_ = nullptr;
  int done_ = 0;
};

int Main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  int ranks = 2;
  if (argc == 4 && std::string(argv[2]) == "--ranks") ranks = atoi(argv[3]);
  if (what.empty() || ranks < 2 || ranks > testing::kMostRanks) {
    fprintf(stderr, "usage: gordian-runtime-api-cases CASE [--ranks N]\n");
    return 2;
  }
  const uint32_t may_die = what == "faults" ? 1u << (ranks - 1) : 0;
  const int result = testing::RunRanks(
      ranks, 120, 30, may_die, [&](RankProcess& process) { return Runner(what, process).Run(); });
  printf("%s %s --ranks %d\n", result == 0 ? "PASS" : "FAIL", what.c_str(), ranks);
  return result;
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
