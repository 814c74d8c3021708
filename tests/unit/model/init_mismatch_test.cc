// Callers of ncclCommInitRank that contradict each other, from their records alone.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "analyzer/model/verdict/job_model.h"

namespace gordian::model {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

struct Caller {
  int rank = 0;
  int nranks = 4;
  CommUid uid = 7;
};

// Process p + 1 calls for `callers[p]`; each has one thread and makes one call after another.
class Job {
 public:
  explicit Job(size_t processes, bool ranked = false) : next_comm_(processes, 1) {
    for (size_t p = 0; p < processes; ++p) {
      model_.OnProcessStarted({.process = static_cast<ProcessId>(p + 1),
                               .pid = static_cast<uint32_t>(100 + p),
                               .env_rank = ranked ? static_cast<int>(p) : -1,
                               .env_world_size = ranked ? static_cast<int>(processes) : -1});
    }
  }

  void Begin(size_t p, const Caller& caller) {
    CallRecord record = At(p, RecordKind::kBegin);
    record.payload = ring::CommInitPayload{.comm = next_comm_[p],
                                           .nranks = caller.nranks,
                                           .rank = caller.rank,
                                           .device = 0,
                                           .uid = caller.uid,
                                           .color = -1};
    model_.OnRecord(record);
    last_[p] = caller;
  }

  void End(size_t p, int result = 0) {
    CallRecord record = At(p, RecordKind::kEnd);
    record.payload = ring::EndPayload{.result = result,
                                      .comm = next_comm_[p]++,
                                      .nranks = last_[p].nranks,
                                      .rank = last_[p].rank,
                                      .device = 0};
    model_.OnRecord(record);
  }

  Verdict After(uint64_t ns) {
    now_ += ns;
    Round round;
    round.begin_ns = round.end_ns = now_;
    model_.OnRound(round);
    return model_.Current();
  }

 private:
  CallRecord At(size_t p, RecordKind kind) {
    CallRecord record;
    record.process = static_cast<ProcessId>(p + 1);
    record.thread = 1;
    record.kind = kind;
    record.call = Call::kCommInit;
    record.order = ++orders_[p];
    record.time_ns = ++now_;
    return record;
  }

  JobModel model_;
  std::vector<CommId> next_comm_;
  std::map<size_t, Caller> last_;
  std::map<size_t, uint64_t> orders_;
  uint64_t now_ = kSecond;
};

std::vector<int> Culprits(const Verdict& verdict) {
  if (verdict.main.check != "communicator-init-mismatch") return {-1};
  return verdict.main.culprit_ranks;
}

TEST(InitMismatch, TheFewerOfTwoSizesAreNamed) {
  Job job(4);
  for (int p = 0; p < 4; ++p) job.Begin(p, {.rank = p, .nranks = p == 3 ? 5 : 4});
  EXPECT_EQ(Culprits(job.After(kSecond / 10)), (std::vector<int>{-1})) << "more may call";
  const Verdict verdict = job.After(kSecond);
  EXPECT_EQ(Culprits(verdict), (std::vector<int>{3}));
  EXPECT_EQ(verdict.main.confidence, Confidence::kConfirmed);
  EXPECT_EQ(verdict.main.victim_ranks, (std::vector<int>{0, 1, 2}));
}

TEST(InitMismatch, OfTwoSizesInATieAllAreNamed) {
  Job job(4);
  for (int p = 0; p < 4; ++p) job.Begin(p, {.rank = p, .nranks = p < 2 ? 4 : 5});
  EXPECT_EQ(Culprits(job.After(kSecond)), (std::vector<int>{0, 1, 2, 3}));
}

TEST(InitMismatch, BothThatPassOneRankAreNamed) {
  Job job(4);
  for (int p = 0; p < 4; ++p) job.Begin(p, {.rank = p == 2 ? 1 : p});
  EXPECT_EQ(Culprits(job.After(kSecond)), (std::vector<int>{1, 2}));
}

TEST(InitMismatch, TheLaunchersRankSaysWhichOfTheTwoErrs) {
  Job job(4, /*ranked=*/true);
  for (int p = 0; p < 4; ++p) job.Begin(p, {.rank = p == 2 ? 1 : p});
  EXPECT_EQ(Culprits(job.After(kSecond)), (std::vector<int>{2}));
}

TEST(InitMismatch, LastsWhileOneWaitsAndIsGoneWhenAllHaveFailed) {
  Job job(3);
  for (int p = 0; p < 3; ++p) job.Begin(p, {.rank = p, .nranks = p == 2 ? 4 : 3});
  job.End(2, 6);
  EXPECT_EQ(Culprits(job.After(kSecond)), (std::vector<int>{2})) << "the others wait still";
  job.End(0, 6);
  job.End(1, 6);
  EXPECT_EQ(Culprits(job.After(kSecond)), (std::vector<int>{-1}));
}

// Innocent: one id for every communicator (NCCL_COMM_ID), with ranks in another order each time,
// and the next call's records before the first one's ends.
TEST(InitMismatch, OneIdMayServeAgain) {
  Job job(2);
  job.Begin(0, {.rank = 0, .nranks = 2});
  job.Begin(1, {.rank = 1, .nranks = 2});
  job.End(0);
  job.Begin(0, {.rank = 0, .nranks = 2});
  job.End(1);
  EXPECT_EQ(Culprits(job.After(kSecond)), (std::vector<int>{-1}));
  job.Begin(1, {.rank = 1, .nranks = 2});
  job.End(0);
  job.End(1);
  const Verdict verdict = job.After(kSecond);
  EXPECT_EQ(verdict.main.verdict, VerdictKind::kHealthy) << verdict.main.summary;
}

}  // namespace
}  // namespace gordian::model
