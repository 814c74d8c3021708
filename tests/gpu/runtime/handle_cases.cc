// How operations that no stream carries end, on real GPUs, through gordian/runtime.h: aborts and
// deaths, what is awake meanwhile, callbacks, ports.
//   gordian-runtime-handle-cases CASE [--ranks N] [--queue]
// --queue: streams wait by their hardware queue, not by a kernel. One process a rank, one device
// each.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "gordian/runtime.h"
#include "tests/gpu/runtime/order_member.h"

namespace gordian::runtime::cuda {
namespace {

using testing::kPatience;
using testing::kSecond;
using testing::Now;
using testing::Sleep;
using testing::Subject;

class Runner : public testing::OrderMember {
 public:
  using OrderMember::OrderMember;

  // What never comes: abort by another rank, and by the waiting one; streams go on.
  void Faults() {
    const Subject x = Make(OpKind::kAllReduce, 100'000), behind = Make(OpKind::kAllReduce, 100'000);
    double slowest = 0;
    for (int i = 0; i < 6; ++i) {
      p_.At("fault %d", i);
      const grtComm_t a = Comm("a" + std::to_string(i)), b = Comm("b" + std::to_string(i));
      for (const grtComm_t comm : {a, b}) AwaitOp(Do(x, comm, nullptr, grtOrderDetached, true));
      Meet();
      if (r_ == 0) {
        grtOp_t op = Do(x, a, one_, i % 2 == 0 ? grtOrderDeferred : grtOrderDetached, true);
        Ok(grtOpStreamWait(op, one_), "stream wait");
        Ok(grtOpStreamWait(op, two_), "another stream's");
        Before(behind, one_);
        Need(grtOpWait(op, kSecond / 20), grtTimeout, "a wait with a deadline");
        Need(grtCommDestroy(a, kSecond / 20), grtTimeout, "a destroy with a deadline");
        if (cudaStreamQuery(one_) != cudaErrorNotReady) p_.Fail("the stream did not wait");
        const double begin = Now();
        if (i < 3) Ok(grtCommAbort(a), "abort");
        if (i >= 3) Meet();
        Sync(one_, "the stream goes on");
        Sync(two_, "the other one too");
        slowest = std::max(slowest, Now() - begin);
        Need(grtOpWait(op, kPatience), grtAborted, "after an abort");
        Ok(grtOpFree(op), "free");
        if (i >= 3) Ok(grtCommAbort(a), "abort");
        if (i < 3) Meet();
      } else {
        Meet();
        Ok(grtCommAbort(a), "abort");
      }
      // The others go on.
      Before(x, one_);
      Do(x, b, one_, grtOrderDeferred);
      Ok(grtStreamJoin(one_), "join");
      After(x, one_);
      Finish("after a fault");
      Close({b});
    }
    Say("faults: streams that waited went on %.1f ms after an abort at the latest\n",
        slowest * 1e3);
  }

  void Death() {
    const Subject x = Make(OpKind::kAllReduce, 100'000);
    const grtComm_t a = Comm("a");
    AwaitOp(Do(x, a, nullptr, grtOrderDetached, true));
    Meet();
    if (r_ == n_ - 1) {
      Sleep(200);
      _exit(7);
    }
    const grtOp_t op = Do(x, a, one_, grtOrderDeferred, true);
    Ok(grtStreamJoin(one_), "join");
    const double begin = Now();
    Sync(one_, "the stream goes on");
    Need(grtOpWait(op, kPatience), grtPeerDead, "after a death");
    Ok(grtOpFree(op), "free");
    Ok(grtCommAbort(a), "abort");
    Say("death: the stream that waited went on %.0f ms after the call; the peer ended after 200\n",
        (Now() - begin) * 1e3);
  }

  // A wait that is pending for a second: other streams' work goes on, and the worker is there only
  // now and then.
  void Late() {
    const grtComm_t a = Comm("a"), b = Comm("b");
    const Subject x = Make(OpKind::kAllReduce, 1000), y = Make(OpKind::kAllReduce, 1000);
    AwaitOp(Do(x, a, nullptr, grtOrderDetached, true));
    AwaitOp(Do(y, b, nullptr, grtOrderDetached, true));
    Meet();
    grtStats_t before = GRT_STATS_INITIALIZER, after = GRT_STATS_INITIALIZER;
    Ok(grtGetStats(a, &before), "stats");
    const double begin = Now();
    Before(x, one_);
    if (r_ == n_ - 1) {
      Sleep(1000);
      AwaitOp(Do(x, a, one_, grtOrderDeferred, true));
    } else {
      const grtOp_t op = Do(x, a, one_, grtOrderDeferred, true);
      Ok(grtStreamJoin(one_), "join");
      After(x, one_);
      timespec cpu_before, cpu_after;
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_before);
      Sleep(500);
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_after);
      const double cpu = static_cast<double>(cpu_after.tv_sec - cpu_before.tv_sec) +
                         static_cast<double>(cpu_after.tv_nsec - cpu_before.tv_nsec) * 1e-9;
      const double other = Now();
      Before(y, two_);
      Sync(two_, "another stream");
      const double took = Now() - other;
      AwaitOp(op);
      Ok(grtGetStats(a, &after), "stats");
      Say("late: op after %.0f ms; %llu instances, resident %.1f ms; another stream's kernels took "
          "%.2f ms; %.1f ms of CPU in 500\n",
          (Now() - begin) * 1e3, static_cast<unsigned long long>(after.quits - before.quits),
          static_cast<double>(after.residency_ns - before.residency_ns) * 1e-6, took * 1e3,
          cpu * 1e3);
    }
    if (r_ == n_ - 1) After(x, one_);
    Finish("late");
    // Nothing is outstanding now: nobody is awake.
    timespec cpu_before, cpu_after;
    Sleep(50);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_before);
    Sleep(500);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_after);
    const double idle = static_cast<double>(cpu_after.tv_sec - cpu_before.tv_sec) +
                        static_cast<double>(cpu_after.tv_nsec - cpu_before.tv_nsec) * 1e-9;
    Say("late: %.2f ms of CPU in 500 with nothing outstanding\n", idle * 1e3);
    if (idle > 0.01) p_.Fail("somebody is awake");
    Close({a, b});
  }

  // On streams that are captured: refused, and the capture goes on.
  void Refused() {
    const grtComm_t a = Comm("a");
    const Subject x = Make(OpKind::kAllReduce, 1000), y = Make(OpKind::kAllReduce, 1000);
    AwaitOp(Do(x, a, nullptr, grtOrderDetached, true));
    Before(x, two_);
    Sync(two_, "input");
    const grtOp_t op =
        r_ == 0 ? Do(x, a, two_, grtOrderDeferred, true) : nullptr;  // the others come later
    Begin(one_);
    Before(y, one_);
    for (const grtOrder_t order : {grtOrderDeferred, grtOrderDetached}) {
      const grtOpDesc_t d = Describe(y, a, order);
      Need(grtSubmit(&d, one_, nullptr), grtNotSupported, "on a captured stream");
    }
    if (op != nullptr)
      Need(grtOpStreamWait(op, one_), grtNotSupported, "a captured stream that waits");
    Ok(grtStreamJoin(one_), "nothing to join");
    const cudaGraphExec_t graph = End(one_);
    Launch(graph, one_);
    Sync(one_, "the graph");
    Meet();
    if (op == nullptr) {
      AwaitOp(Do(x, a, two_, grtOrderDeferred, true));
    } else {
      AwaitOp(op);
    }
    After(x, two_);
    Finish("refused");
    Cuda(cudaGraphExecDestroy(graph), "destroy");
    Say("refused: captured streams are\n");
    Close({a});
  }

  // Called once each, with the result, whatever the order; one that blocks holds no operation back.
  void Callbacks() {
    const grtComm_t a = Comm("a"), b = Comm("b");
    struct Called {
      std::atomic<int> times{0}, wrong{0};
      std::atomic<bool> blocks{false}, goes_on{false};
      grtResult_t wanted = grtSuccess;
    };
    static Called called;
    const Subject x = Make(OpKind::kAllReduce, 1000);
    const auto count = [](void* user, grtResult_t result) {
      Called& c = *static_cast<Called*>(user);
      if (result != c.wanted) ++c.wrong;
      ++c.times;
    };
    const grtOrder_t orders[] = {grtOrderStrict, grtOrderDeferred, grtOrderDetached};
    int wanted = 0;
    for (int i = 0; i < 300; ++i) {
      p_.At("callback %d", i);
      const grtOp_t op = Do(x, a, one_, orders[i % 3], true);
      Ok(grtOpOnDone(op, count, &called), "on done");
      ++wanted;
      if (i % 7 == 0) {
        Ok(grtOpWait(op, kPatience), "wait");
        Ok(grtOpOnDone(op, count, &called), "on done, when it is");
        ++wanted;
      }
      Ok(grtOpFree(op), "free");  // they are called all the same
    }
    const double begin = Now();
    while (called.times < wanted && Now() - begin < 10) Sleep(1);
    Sleep(20);
    if (called.times != wanted || called.wrong != 0) {
      p_.Fail(std::to_string(called.times) + " calls, not " + std::to_string(wanted) + ", " +
              std::to_string(called.wrong) + " with another result");
    }
    grtOp_t op = Do(x, a, one_, grtOrderDetached, true);
    Ok(grtOpOnDone(
           op,
           [](void* user, grtResult_t) {
             Called& c = *static_cast<Called*>(user);
             c.blocks = true;
             while (!c.goes_on) Sleep(1);
           },
           &called),
       "on done");
    Ok(grtOpFree(op), "free");
    for (int i = 0; i < 50; ++i) AwaitOp(Do(x, a, one_, orders[i % 3], true));
    called.goes_on = true;
    // One that never comes, and is aborted.
    called.wanted = grtAborted;
    called.times = 0;
    Meet();
    if (r_ == 0) {
      op = Do(x, b, one_, grtOrderDeferred, true);
      Ok(grtOpOnDone(op, count, &called), "on done");
      Sleep(50);
      if (called.times != 0) p_.Fail("called before it was done");
      Ok(grtCommAbort(b), "abort");
      const double aborted = Now();
      while (called.times == 0 && Now() - aborted < 10) Sleep(1);
      if (called.times != 1 || called.wrong != 0) p_.Fail("not told of an abort");
      Ok(grtOpFree(op), "free");
      Meet();
    } else {
      Meet();
      Ok(grtCommAbort(b), "abort");
    }
    Say("callbacks: %d, once each\n", wanted + 1);
    Close({a});
  }

  // Ports in an order of each rank's own, operations of all kinds of order on them in opposite
  // orders, and as many as there are.
  void Ports() {
    const grtComm_t a = Comm("a");
    grtPort_t none = nullptr;
    Need(grtPortOpen(a, 0, nullptr, &none), grtInvalidArgument, "the communicator's own port");
    const uint32_t tags[] = {7, 1000000, 3};
    grtPort_t ports[3] = {};
    for (int i = 0; i < 3; ++i) {
      const int k = r_ % 2 == 0 ? i : 2 - i;
      Ok(grtPortOpen(a, tags[k], nullptr, &ports[k]), "open");
    }
    Need(grtPortOpen(a, 7, nullptr, &none), grtInvalidUsage, "a tag twice");
    // Opened by this rank alone: waits for nobody.
    if (r_ == 0) Ok(grtPortOpen(a, 99, nullptr, &none), "alone");
    std::vector<Subject> subjects;
    for (int i = 0; i < 4; ++i)
      subjects.push_back(Make(OpKind::kAllReduce, i % 2 == 0 ? 3000 : 400'000));
    const auto call = [&](int k, grtOrder_t order, cudaStream_t stream, grtOp_t* op) {
      grtOpDesc_t d = Describe(subjects[static_cast<size_t>(k)], a, order);
      d.port = k < 3 ? ports[k] : nullptr;
      Ok(grtSubmit(&d, stream, op), "submit on a port");
    };
    for (int i = 0; i < 100; ++i) {
      p_.At("round %d", i);
      for (const Subject& s : subjects) Before(s, one_);
      if (i % 3 == 2) Sync(one_, "inputs");
      grtOp_t ops[4] = {};
      if (i % 3 == 1) Ok(grtGroupStart(), "group");
      for (int j = 0; j < 4; ++j) {
        const int k = r_ % 2 == 0 ? j : 3 - j;
        call(k,
             i % 3 == 0   ? grtOrderDeferred
             : i % 3 == 1 ? grtOrderStrict
                          : grtOrderDetached,
             i % 3 == 2 ? nullptr : one_, &ops[k]);
      }
      if (i % 3 == 1) Ok(grtGroupEnd(), "group end");
      for (grtOp_t op : ops) AwaitOp(op);
      for (const Subject& s : subjects) After(s, one_);
    }
    Finish("ports");
    // Sends and receives have no port of their own.
    const Subject sends = Make(OpKind::kAllReduce, 5000), receives = Make(OpKind::kAllReduce, 5000);
    Cuda(cudaMemsetAsync(sends.in, r_ + 1, 20'000, one_), "input");
    Ok(grtGroupStart(), "group");
    for (const bool is_send : {true, false}) {
      grtOpDesc_t d = Describe(is_send ? sends : receives, a, grtOrderStrict);
      d.kind = is_send ? grtKindSend : grtKindRecv;
      d.root_or_peer = (r_ + (is_send ? 1 : n_ - 1)) % n_;
      d.port = r_ == 0 ? ports[0] : nullptr;
      Ok(grtSubmit(&d, one_, nullptr), "a pair's");
    }
    Ok(grtGroupEnd(), "group end");
    std::vector<char> got(20'000);
    Cuda(cudaMemcpyAsync(got.data(), receives.out, got.size(), cudaMemcpyDeviceToHost, one_),
         "reading");
    Sync(one_, "a pair's");
    for (const char c : got) {
      if (c != (r_ + n_ - 1) % n_ + 1) p_.Fail("another rank's data");
    }
    // All that there are: alike on all ranks, which ask in orders of their own.
    Meet();
    uint64_t opened = 0, digest = 0;
    for (uint32_t i = 0; i < 80; ++i) {
      const uint32_t tag = 2000 + (r_ % 2 == 0 ? i : 79 - i);
      const grtResult_t result = grtPortOpen(a, tag, nullptr, &none);
      if (result != grtOutOfPorts) Ok(result, "open");
      opened += result == grtSuccess ? 1 : 0;
      digest += result == grtSuccess ? tag * tag : 0;
    }
    const uint64_t all = p_.Sum(digest);
    if (opened != 60 || all != digest * static_cast<uint64_t>(n_))
      p_.Fail("ranks differ about " + std::to_string(opened) + " ports");
    grtStats_t stats = GRT_STATS_INITIALIZER;
    Ok(grtGetStats(a, &stats), "stats");
    if (stats.operations != 402) p_.Fail(std::to_string(stats.operations) + " operations");
    Close({a});
    // A mismatch on a port, and an abort: of the communicator as a whole. The twin's is right.
    for (const bool mismatch : {false, true}) {
      const grtComm_t b = Comm(mismatch ? "mismatch" : "abort");
      grtPort_t port = nullptr;
      Ok(grtPortOpen(b, 5, nullptr, &port), "open");
      grtOpDesc_t d = Describe(subjects[0], b, grtOrderDeferred);
      d.port = port;
      grtOp_t op = nullptr;
      Ok(grtSubmit(&d, one_, &op), "the twin");
      AwaitOp(op);
      if (mismatch && r_ == n_ - 1) d.count -= 1;
      if (mismatch || r_ == 0) {
        Ok(grtSubmit(&d, one_, &op), "submit");
        const grtResult_t result = grtOpWait(op, mismatch ? kPatience : kSecond / 10);
        Need(result, mismatch ? grtMismatch : grtTimeout, "on a port");
        Ok(grtOpFree(op), "free");
        grtResult_t error = grtSuccess;
        Ok(grtCommGetAsyncError(b, &error), "error");
        Need(error, mismatch ? grtMismatch : grtSuccess, "the communicator's error");
      }
      Meet();
      Ok(grtCommAbort(b), "abort");
      Sync(one_, "the stream goes on");
    }
    Say("ports: 100 rounds in opposite orders, 64 of them, mismatch and abort\n");
  }

  static constexpr testing::Case<Runner> kCases[] = {
      {"faults", &Runner::Faults},   {"death", &Runner::Death},         {"late", &Runner::Late},
      {"refused", &Runner::Refused}, {"callbacks", &Runner::Callbacks}, {"ports", &Runner::Ports},
  };
};

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) {
  return gordian::testing::RunCase<gordian::runtime::cuda::Runner>(
      argc, argv, "gordian-runtime-handle-cases", "death");
}
