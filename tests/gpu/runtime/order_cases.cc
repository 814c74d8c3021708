// What an operation waits for and what waits for it, on real GPUs, through gordian/runtime.h:
// deferred and detached operations, streams that wait for them, priorities.
//   gordian-runtime-order-cases CASE [--ranks N] [--queue]
// --queue: streams wait by their hardware queue, not by a kernel. One process a rank, one device
// each.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>
#include <utility>
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

  // Eight operations and one that is larger behind them; how many of the eight are done when that
  // is. With equal numbers, and with its own before theirs.
  void Priority() {
    std::vector<grtComm_t> comms;
    std::vector<Subject> large;
    for (int i = 0; i < 8; ++i) {
      comms.push_back(Comm("large" + std::to_string(i)));
      large.push_back(Make(OpKind::kAllReduce, 2 << 20));
    }
    const grtComm_t urgent = Comm("urgent");
    const Subject larger = Make(OpKind::kAllReduce, 4 << 20);
    constexpr int kRounds = 8;
    uint64_t done[2] = {};
    double took[2] = {};
    for (int round = 0; round < 2 * kRounds; ++round) {
      const bool equal = round % 2 == 0;
      p_.At("round %d", round);
      for (const Subject& s : large) Before(s, one_);
      Before(larger, one_);
      Sync(one_, "inputs");
      Meet();
      std::vector<grtOp_t> ops(large.size());
      for (size_t i = 0; i < large.size(); ++i) {
        grtOpDesc_t d = Describe(large[i], comms[i], grtOrderDetached);
        d.priority = equal ? 0 : 5;
        Ok(grtSubmit(&d, nullptr, &ops[i]), "large");
      }
      const double begin = Now();
      grtOp_t op = Do(larger, urgent, nullptr, grtOrderDetached, true);
      while (grtOpQuery(op) == grtInProgress) {
      }
      took[equal] += Now() - begin;
      for (const grtOp_t other : ops) done[equal] += grtOpQuery(other) == grtSuccess ? 1 : 0;
      AwaitOp(op);
      for (const grtOp_t other : ops) AwaitOp(other);
      for (const Subject& s : large) After(s, one_);
      After(larger, one_);
    }
    Finish("priority");
    const uint64_t with = p_.Sum(done[0]), without = p_.Sum(done[1]);
    Say("priority: of %d others %llu were done before the urgent one (%.0f us), without "
        "priorities %llu (%.0f us)\n",
        8 * kRounds * n_, static_cast<unsigned long long>(with), took[0] / kRounds * 1e6,
        static_cast<unsigned long long>(without), took[1] / kRounds * 1e6);
    if (with * 2 >= without) p_.Fail("the urgent one came no earlier");
    for (const grtComm_t comm : comms) Ok(grtCommDestroy(comm, kPatience), "destroy");
    Close({urgent});
  }

  // Two communicators in opposite orders on one stream, between kernels that write inputs and check
  // outputs.
  void DeferredOrders() {
    grtComm_t a = Comm("a"), b = Comm("b");
    const Subject x = Make(OpKind::kAllReduce, 3000), y = Make(OpKind::kAllReduce, 500'000);
    const double begin = Now();
    const int rounds = 300;
    for (int i = 0; i < rounds; ++i) {
      p_.At("round %d", i);
      Before(x, one_);
      Before(y, one_);
      if (r_ % 2 == 0) Do(x, a, one_, grtOrderDeferred);
      Do(y, b, one_, grtOrderDeferred);
      if (r_ % 2 == 1) Do(x, a, one_, grtOrderDeferred);
      Ok(grtStreamJoin(one_), "join");
      After(x, one_);
      After(y, one_);
      if (i % 50 == 49) Finish("deferred");
    }
    Finish("deferred");
    const double took = Now() - begin;
    // The twin: nobody joins, and the other rank is late, so the check comes too early.
    Before(x, one_);
    if (r_ == n_ - 1) {
      Sync(one_, "the late one's input");
      Sleep(200);
    }
    const grtOp_t op = Do(x, a, one_, grtOrderDeferred, true);
    After(x, one_);
    Sync(one_, "the check waits for nothing");
    AwaitOp(op);
    const uint64_t wrong = TakeWrong();
    if (r_ != n_ - 1 && wrong == 0) p_.Fail("a stream that did not wait found a result");
    Say("deferred: %d rounds in opposite orders, %.0f us each; without a join %llu elements were "
        "not there\n",
        rounds, took / rounds * 1e6, static_cast<unsigned long long>(wrong));
    Close({a, b});
  }

  // Detached operations behind a stream's work; the order of one communicator's calls on streams
  // that come to them the other way round.
  void Behind() {
    grtComm_t a = Comm("a"), b = Comm("b");
    const Subject x = Make(OpKind::kAllReduce, 100'000), y = Make(OpKind::kAllReduce, 3000);
    for (int i = 0; i < 100; ++i) {
      p_.At("round %d", i);
      const bool slow_first = i % 2 == 0;
      if (slow_first) Delay(one_, 512);
      Before(x, one_);
      Before(y, two_);
      if (!slow_first) Delay(two_, 512);
      const grtOp_t first = Do(x, a, one_, grtOrderDetached, true);
      const grtOp_t second = Do(y, a, two_, grtOrderDetached, true);
      AwaitOp(second);
      AwaitOp(first);
      After(x, one_);
      After(y, two_);
    }
    Finish("behind");
    // The twin: without a stream it waits for nothing, and takes what the input was before.
    uint64_t wrong = 0;
    for (int i = 0; i < 20; ++i) {
      Delay(one_, 2048);
      Before(x, one_);
      AwaitOp(Do(x, b, nullptr, grtOrderDetached, true));
      After(x, one_);
      wrong += TakeWrong() != 0 ? 1 : 0;
    }
    if (wrong == 0) p_.Fail("what waits for nothing had its input all the same");
    Say("behind: 100 pairs right; without a stream %llu of 20 took old inputs\n",
        static_cast<unsigned long long>(wrong));
    Close({a, b});
  }

  // Whoever needs a result has it: a strict operation, one that overlaps, another stream, in chains
  // of three.
  void Joins() {
    grtComm_t a = Comm("a"), b = Comm("b"), c = Comm("c");
    // An all-gather's output is written over by a broadcast of the same bytes, and so on: each
    // result is the next one's input.
    Subject x = Make(OpKind::kAllReduce, 200'000), y = Make(OpKind::kBroadcast, 200'000),
            z = Make(OpKind::kAllReduce, 200'000);
    y.in = x.out;  // every rank has the sum, so the root's copy of it is what all have
    Subject sum = x;
    sum.out = y.out;
    for (int i = 0; i < 100; ++i) {
      p_.At("round %d", i);
      Before(x, one_);
      Do(x, a, one_, grtOrderDeferred);
      Do(y, b, one_, grtOrderStrict);  // reads it: joined
      After(sum, one_);
      Before(x, one_);
      Do(x, a, one_, grtOrderDeferred);
      Do(y, b, one_, grtOrderDeferred);  // reads it: a join comes in between
      Ok(grtStreamJoin(one_), "join");
      After(sum, one_);
      // On another stream.
      Before(z, one_);
      Sync(one_, "input");
      const grtOp_t op = Do(z, c, two_, i % 2 == 0 ? grtOrderDeferred : grtOrderDetached, true);
      Ok(grtOpStreamWait(op, one_), "stream wait");
      After(z, one_);
      Ok(grtOpFree(op), "free");
      if (i % 10 == 9) Finish("joins");
    }
    Finish("joins");
    Say("joins: 100 rounds by strict operations, overlaps and other streams right\n");
    Close({a, b, c});
  }

  // In groups: published together, joined at the end, beside strict ones.
  void Groups() {
    std::vector<grtComm_t> comms;
    std::vector<Subject> subjects;
    for (int i = 0; i < 6; ++i) {
      comms.push_back(Comm("g" + std::to_string(i)));
      subjects.push_back(Make(OpKind::kAllReduce, i % 2 == 0 ? 1000 : 300'000));
    }
    uint64_t random = 17 + static_cast<uint64_t>(r_);
    for (int i = 0; i < 100; ++i) {
      p_.At("round %d", i);
      std::vector<size_t> order = {0, 1, 2, 3, 4, 5};
      for (size_t k = order.size(); k > 1; --k) {
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        std::swap(order[k - 1], order[(random >> 33) % k]);
      }
      for (const Subject& s : subjects) Before(s, one_);
      Ok(grtGroupStart(), "group");
      for (const size_t k : order)
        Do(subjects[k], comms[k], one_, k < 4 ? grtOrderDeferred : grtOrderStrict);
      Ok(grtGroupEnd(), "group end");
      for (const Subject& s : subjects) After(s, one_);
    }
    Finish("groups");
    // What needs an order within a group is refused.
    Subject reads = subjects[4];
    reads.in = subjects[0].out;
    Ok(grtGroupStart(), "group");
    Do(subjects[0], comms[0], one_, grtOrderDeferred);
    const grtOpDesc_t d = Describe(reads, comms[4], grtOrderStrict);
    Ok(grtSubmit(&d, one_, nullptr), "strict");
    Need(grtGroupEnd(), grtInvalidUsage, "one that reads what a deferred one of its group writes");
    Say("groups: 100 in orders of the ranks' own, deferred and strict ones, right\n");
    for (const grtComm_t comm : comms) Ok(grtCommDestroy(comm, kPatience), "destroy");
  }

  // Behind streams, in opposite orders, with a wait for the device between.
  void Syncs() {
    grtComm_t a = Comm("a"), b = Comm("b");
    const Subject x = Make(OpKind::kAllReduce, 3000), y = Make(OpKind::kAllReduce, 500'000);
    const int rounds = 100;
    const double begin = Now();
    for (int i = 0; i < rounds; ++i) {
      p_.At("round %d", i);
      Before(x, one_);
      Before(y, one_);
      const grtOrder_t order = i % 2 == 0 ? grtOrderDetached : grtOrderDeferred;
      grtOp_t ops[2] = {};
      ops[0] = r_ % 2 == 0 ? Do(x, a, one_, order, true) : Do(y, b, one_, order, true);
      Cuda(cudaDeviceSynchronize(), "the device, between");
      ops[1] = r_ % 2 == 0 ? Do(y, b, one_, order, true) : Do(x, a, one_, order, true);
      for (const grtOp_t op : ops) Ok(grtOpStreamWait(op, two_), "stream wait");
      After(x, two_);
      After(y, two_);
      for (const grtOp_t op : ops) AwaitOp(op);
      Sync(two_, "the checks");  // before the next inputs
    }
    Finish("syncs");
    Say("syncs: %d rounds with cudaDeviceSynchronize between, %.0f us each\n", rounds,
        (Now() - begin) / rounds * 1e6);
    Close({a, b});
  }

  // Many streams that wait, more than there are hardware queues, while what they wait for cannot
  // begin: it begins all the same. By rank 1's being late, and with work behind the waits.
  void Queues() {
    const int streams = 48;
    const grtComm_t a = Comm("a");
    std::vector<cudaStream_t> all(streams);
    for (cudaStream_t& s : all)
      Cuda(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
    std::vector<Subject> subjects;
    for (int i = 0; i < streams; ++i)
      subjects.push_back(Make(OpKind::kAllReduce, i % 3 == 0 ? 200'000 : 1000));
    AwaitOp(Do(subjects[0], a, nullptr, grtOrderDetached, true));
    const double begin = Now();
    for (int round = 0; round < 6; ++round) {
      p_.At("round %d", round);
      Meet();
      if (r_ == round % n_) Sleep(100);
      std::vector<grtOp_t> ops;
      for (int i = 0; i < streams; ++i) {
        Before(subjects[i], all[i]);
        const grtOp_t op =
            Do(subjects[i], a, all[i], round % 2 == 0 ? grtOrderDeferred : grtOrderDetached, true);
        // The stream that waits is the operation's own, or another one: which has its work before
        // its own wait then.
        const cudaStream_t waits = round < 4 ? all[i] : all[(i + 1) % streams];
        Ok(grtOpStreamWait(op, waits), "stream wait");
        if (round < 4) After(subjects[i], all[i]);
        ops.push_back(op);
      }
      for (const grtOp_t op : ops) AwaitOp(op);
      for (int i = 0; i < streams && round >= 4; ++i) After(subjects[i], all[i]);
      Cuda(cudaDeviceSynchronize(), "the streams go on");
    }
    Finish("queues");
    Say("queues: %d streams wait, 6 rounds in %.0f ms\n", streams, (Now() - begin) * 1e3);
    Close({a});
  }

  // What calls cost, and an operation between them.
  void Cost() {
    const grtComm_t a = Comm("a");
    const char* names[] = {"strict", "deferred, joined each", "deferred, eight joined together",
                           "detached, waited for each"};
    for (const uint64_t count : {2ul, 500'000ul}) {
      std::vector<Subject> eight;
      for (int i = 0; i < 8; ++i) eight.push_back(Make(OpKind::kAllReduce, count));
      for (int how = 0; how < 4; ++how) {
        const int rounds = 160;  // not more than the device's queues take
        double submits = 0, joins = 0, begin = 0;
        for (int i = -40; i < rounds; ++i) {
          p_.At("%s %d", names[how], i);
          if (i == 0) {
            Sync(one_, "before");
            Meet();
            submits = joins = 0;
            begin = Now();
          }
          const double called = Now();
          const grtOrder_t order = how == 0   ? grtOrderStrict
                                   : how == 3 ? grtOrderDetached
                                              : grtOrderDeferred;
          const grtOp_t op = Do(eight[static_cast<size_t>(how == 2 ? i + 40 : 0) % 8], a,
                                how == 3 ? nullptr : one_, order, how == 3);
          submits += Now() - called;
          const double submitted = Now();
          if (how == 1 || (how == 2 && (i + 40) % 8 == 7)) Ok(grtStreamJoin(one_), "join");
          if (how == 3) AwaitOp(op);
          joins += Now() - submitted;
        }
        Sync(one_, "the end");
        Say("cost: %llu B, %s: %.1f us an operation; to submit it %.1f us, to join or wait %.1f "
            "us\n",
            static_cast<unsigned long long>(count * 4), names[how], (Now() - begin) / rounds * 1e6,
            submits / rounds * 1e6, joins / rounds * 1e6);
      }
      for (const Subject& s : eight) Free(s);
    }
    Close({a});
  }

  // Every kind, deferred.
  void Kinds() {
    const grtComm_t a = Comm("a");
    int done = 0;
    for (const OpKind kind :
         {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kBroadcast,
          OpKind::kReduce, OpKind::kAllToAll, OpKind::kGather, OpKind::kScatter}) {
      for (const uint64_t count : {1ul, 1000ul, 70'000ul, 1'500'000ul}) {
        p_.At("kind %d, %lu", static_cast<int>(kind), static_cast<unsigned long>(count));
        const Subject s = Make(kind, count, static_cast<uint32_t>(n_ - 1));
        for (int i = 0; i < 3; ++i, ++done) {
          Before(s, one_);
          Do(s, a, one_, grtOrderDeferred);
          Ok(grtStreamJoin(one_), "join");
          After(s, one_);
        }
        Finish("kinds");
        Free(s);
      }
    }
    Say("kinds: %d right\n", done);
    Close({a});
  }

  static constexpr testing::Case<Runner> kCases[] = {
      {"priority", &Runner::Priority}, {"deferred", &Runner::DeferredOrders},
      {"behind", &Runner::Behind},     {"joins", &Runner::Joins},
      {"groups", &Runner::Groups},     {"syncs", &Runner::Syncs},
      {"queues", &Runner::Queues},     {"cost", &Runner::Cost},
      {"kinds", &Runner::Kinds},
  };
};

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) {
  return gordian::testing::RunCase<gordian::runtime::cuda::Runner>(
      argc, argv, "gordian-runtime-order-cases", "");
}
