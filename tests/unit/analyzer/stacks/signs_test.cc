// Signs, each beside what looks like it and must not make one.
#include <gtest/gtest.h>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/stacks/sign_book.h"
#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::analyzer {
namespace {

using namespace model;           // NOLINT: the programs below are all words of it
using namespace model::testing;  // NOLINT

// Three ranks, of which rank 1 does not come; or all do.
struct Book {
  explicit Book(bool hangs = true) {
    const Program usual = {Init(0), AllReduce(0), StreamSync(), AllReduce(0), StreamSync()};
    SimJob job(
        Comms(1, 3),
        {usual, hangs ? Program{Init(0), AllReduce(0), StreamSync(), Sleep()} : usual, usual});
    job.Run();
    job.Rounds(&model, 6);
    Name(1, "ncclAllReduce");
    Name(2, "ncclReduce");
    Name(3, "cudaStreamSynchronize");
    Name(4, "ncclCommInitRank");
  }
  void Name(uint32_t number, const char* symbol) {
    v1::Event event;
    event.mutable_call_name()->set_call(number);
    event.mutable_call_name()->set_symbol(symbol);
    book.OnEvent(event);
  }
  void Start(uint32_t process, const std::vector<std::string>& settings = {}) {
    v1::Event event;
    event.mutable_process_started()->set_process(process);
    for (const std::string& setting : settings)
      event.mutable_process_started()->add_settings(setting);
    book.OnEvent(event);
  }
  void End(uint32_t process, uint32_t call, int result) {
    CallRecord record;
    record.process = process;
    record.kind = RecordKind::kEnd;
    record.call_id = static_cast<uint16_t>(call);
    record.payload = ring::EndPayload{.result = result};
    book.OnRecord(record);
  }
  void Operation(uint32_t process, Call call, int root) {
    CallRecord record;
    record.process = process;
    record.kind = RecordKind::kBegin;
    record.call = Call::kCommInit;
    record.payload = ring::CommInitPayload{.comm = 1, .rank = static_cast<int>(process) - 1};
    book.OnRecord(record);
    record.call = call;
    record.payload = ring::OperationPayload{.comm = 1, .root_or_peer = root};
    book.OnRecord(record);
  }
  std::vector<std::string> Checks() const {
    Verdict verdict = model.Current();
    book.AddTo(model, &verdict);
    std::vector<std::string> checks;
    for (const Sign& sign : verdict.signs) {
      EXPECT_NE(FindCheck(sign.check), nullptr);
      EXPECT_FALSE(sign.text.empty());
      checks.push_back(sign.check);
    }
    return checks;
  }

  JobModel model;
  SignBook book;
};

using Checks = std::vector<std::string>;

TEST(Signs, ACallThatFailed) {
  Book book;
  for (uint32_t p : {1, 2, 3}) book.Start(p);
  book.End(2, 3, 700);
  EXPECT_EQ(book.Checks(), Checks{"call-failed"});
  Book fine;
  for (uint32_t p : {1, 2, 3}) fine.Start(p);
  fine.End(2, 3, 0);
  fine.End(2, 3, 600);  // not ready
  fine.End(2, 1, 7);    // in progress
  EXPECT_EQ(fine.Checks(), Checks{});
}

TEST(Signs, AReduceThatOnlyItsRootCanRead) {
  Book book;
  for (uint32_t p : {1, 2, 3}) book.Start(p);
  book.Operation(2, Call::kReduce, 0);
  EXPECT_EQ(book.Checks(), Checks{"reduced-to-one"});
  book.Operation(2, Call::kAllReduce, -1);  // an all-reduce since
  EXPECT_EQ(book.Checks(), Checks{});
  book.Operation(2, Call::kReduce, 1);  // its own
  EXPECT_EQ(book.Checks(), Checks{});
  book.Operation(3, Call::kReduce, 0);  // of a rank that has come
  EXPECT_EQ(book.Checks(), Checks{});
}

TEST(Signs, Settings) {
  Book book;
  book.Start(1, {"NCCL_PROTO=LL"});
  book.Start(2);
  book.Start(3, {"NCCL_PROTO=LL", "CUDA_LAUNCH_BLOCKING=1", "NCCL_DEBUG=INFO"});
  EXPECT_EQ(book.Checks(), (Checks{"blocking-launches", "settings-differ"}));
  Book same;
  for (uint32_t p : {1, 2, 3}) same.Start(p, {"NCCL_PROTO=LL", "CUDA_LAUNCH_BLOCKING=0"});
  EXPECT_EQ(same.Checks(), Checks{});
  // Of a job that is well nothing is said of settings.
  Book healthy(/*hangs=*/false);
  healthy.Start(1, {"NCCL_PROTO=LL"});
  healthy.Start(2);
  EXPECT_EQ(healthy.Checks(), Checks{});
}

Checks OfStack(std::vector<StackFrame> frames, int rank = 1, uint32_t tid = 402) {
  Verdict verdict;
  verdict.main.verdict = VerdictKind::kHostBlocked;
  verdict.main.culprit_ranks = {1};
  verdict.stacks = {{.ranks = {rank},
                     .threads = {{.rank = rank, .pid = 402, .tid = tid, .name = "t"}},
                     .frames = std::move(frames)}};
  AddStackSigns(&verdict);
  Checks checks;
  for (const Sign& sign : verdict.signs) checks.push_back(sign.check);
  return checks;
}

StackFrame Native(const char* function) { return {.function = function}; }
StackFrame Python(const char* function, const char* file) {
  return {.function = function, .file = file, .line = 1, .python = true};
}

TEST(Signs, WhatStacksTell) {
  EXPECT_EQ(OfStack({Native("poll"), Native("MPI_Barrier"), Native("main")}),
            Checks{"waits-in-mpi"});
  EXPECT_EQ(OfStack({Native("wait4"), Native("__run_exit_handlers"), Native("exit")}),
            Checks{"in-teardown"});
  EXPECT_EQ(OfStack({Native("pthread_cond_timedwait"), Native("take_gil")}),
            Checks{"waits-for-gil"});
  EXPECT_EQ(OfStack({Native("poll"), Native("main")}), Checks{"waits-for-input"});
  EXPECT_EQ(OfStack({Native("futex"), Python("wait", "/usr/lib/threading.py"),
                     Python("get", "/usr/lib/queue.py")}),
            Checks{"waits-for-input"});
}

TEST(Signs, WhatStacksDoNotTell) {
  EXPECT_EQ(OfStack({Native("nanosleep"), Native("main")}), Checks{});
  EXPECT_EQ(OfStack({Native("compute"), Native("read_settings"), Native("main")}), Checks{});
  EXPECT_EQ(OfStack({Native("compute"), Native("x"), Native("poll")}),
            Checks{});  // called back from there
  EXPECT_EQ(OfStack({Native("compute"), Python("put", "/usr/lib/queue.py")}), Checks{});
  EXPECT_EQ(OfStack({Native("poll")}, /*rank=*/0), Checks{});               // a victim
  EXPECT_EQ(OfStack({Native("poll")}, /*rank=*/1, /*tid=*/403), Checks{});  // a thread that serves
  Verdict deadlock;
  deadlock.main.verdict = VerdictKind::kDeadlock;
  deadlock.main.culprit_ranks = {1};
  deadlock.stacks = {{.ranks = {1},
                      .threads = {{.rank = 1, .pid = 4, .tid = 4, .name = "t"}},
                      .frames = {Native("poll")}}};
  AddStackSigns(&deadlock);
  EXPECT_TRUE(deadlock.signs.empty());
}

TEST(Signs, AWrongPeer) {
  const auto signs = [](int to, uint64_t wanted) {
    SimJob job(Comms(1, 3), {Program{Init(0), Send(0, to), AllReduce(0), StreamSync()},
                             Program{Init(0), Recv(0, 0, 1, wanted), AllReduce(0), StreamSync()},
                             Program{Init(0), AllReduce(0), StreamSync()}});
    JobModel model;
    job.Run();
    job.Rounds(&model, 1);
    return model.Current().signs;
  };
  const std::vector<Sign> wrong = signs(2, 1024);
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0].check, "wrong-peer");
  EXPECT_EQ(wrong[0].ranks, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(signs(1, 1024).empty());
  EXPECT_TRUE(
      signs(2, 77).empty());  // another length: no more than a send too many and a receive too many
}

// What is said of the last of three ranks, or of two, beside those that call `usual`.
std::vector<Sign> Divergence(const Program& usual, const Program& odd, int ranks = 3) {
  std::vector<Program> programs(ranks, Program{Init(0)} + usual + Program{StreamSync()});
  programs.back() = Program{Init(0)} + odd + Program{StreamSync()};
  SimJob job(Comms(1, ranks), programs);
  JobModel model;
  job.Run();
  job.Rounds(&model, 1);
  return model.Current().signs;
}

TEST(Signs, CallsThatPart) {
  const Op a = AllReduce(0), b = Collective(Call::kAllGather, 0),
           c = Collective(Call::kReduceScatter, 0), d = AllReduce(0, 1, 64);
  const auto text = [&](const Program& odd, int ranks = 3) {
    const std::vector<Sign> signs = Divergence({a, b, c, d}, odd, ranks);
    if (signs.size() != 1) return std::to_string(signs.size()) + " signs";
    EXPECT_EQ(signs[0].check, "divergent-calls");
    EXPECT_EQ(signs[0].ranks, (ranks == 3 ? std::vector<int>{2} : std::vector<int>{0, 1}));
    return signs[0].text;
  };
  EXPECT_EQ(text({a, d, b, c, d}),
            "rank 2 calls AllReduce #1 on A in addition: its calls after it are what the others "
            "call from #1 on (3 compared)");
  EXPECT_EQ(text({a, c, d}),
            "rank 2 leaves out AllGather #1 on A, which the others call: its calls are those from "
            "#2 on (2 compared)");
  EXPECT_EQ(text({a, c, b, d}),
            "rank 2 calls ReduceScatter and AllGather on A as #1 and #2, the others the other way "
            "round (3 compared)");
  EXPECT_EQ(text({a, c, b}),
            "rank 2 calls ReduceScatter and AllGather on A as #1 and #2, the others the other way "
            "round (2 compared)");
  EXPECT_EQ(text({a, c, d}, 2),
            "rank 1 leaves out AllGather #1 on A, which rank 0 calls: its calls are those from #2 "
            "on (2 compared)");
  EXPECT_EQ(text({a, d, c, d}), "0 signs");  // another operation
  EXPECT_EQ(text({a, c}), "0 signs");        // left out, or swapped and the second not called yet
  EXPECT_EQ(text({a, d, c, b}), "0 signs");  // no one change
  EXPECT_EQ(text({a, b, c, d}), "0 signs");
  EXPECT_EQ(text({a, d}), "0 signs");  // two left out
}

TEST(Signs, CallsThatAreAlikeTellNothing) {
  const Op a = AllReduce(0), b = Collective(Call::kAllGather, 0);
  EXPECT_TRUE(
      Divergence({a, a, a, a}, {a, b, a, a}).empty());  // as well one in addition as another one
}

TEST(Signs, AGroupThatIsLeftOpen) {
  const auto signs = [](Program last) {
    const Program usual = {Init(0),      GroupStart(), AllReduce(0),
                           AllReduce(0), GroupEnd(),   StreamSync()};
    SimJob job(Comms(1, 3), {usual, usual, std::move(last)});
    JobModel model;
    job.Run();
    job.Rounds(&model, 6);
    std::vector<Sign> found = model.Current().signs;
    std::erase_if(found, [](const Sign& sign) { return sign.check != "group-left-open"; });
    return found;
  };
  const std::vector<Sign> open = signs(
      {Init(0), GroupStart(), AllReduce(0), AllReduce(0), StreamSync(), AllReduce(0), Sleep()});
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0].ranks, std::vector<int>{2});
  EXPECT_NE(open[0].text.find("3 operations, AllReduce #0"), std::string::npos) << open[0].text;
  EXPECT_EQ(signs({Init(0), GroupStart(), AllReduce(0), Exit(0)}).size(), 1u);
  EXPECT_TRUE(signs({Init(0), Sleep()}).empty());
  EXPECT_TRUE(signs({Init(0), GroupStart(), AllReduce(0), GroupEnd(), Sleep()}).empty());
  EXPECT_TRUE(signs({Init(0), GroupStart(), Sleep()}).empty());  // nothing is in it
}

}  // namespace
}  // namespace gordian::analyzer
