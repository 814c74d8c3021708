// Operations that the preemptive runtime has begun before their turn, as processes tell in their
// rounds.
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "tests/unit/model/sim/jobs_harness.h"

namespace gordian::model {
namespace {

using namespace gordian::model::testing;  // NOLINT: the programs below are all words of it

// Ranks 0 and 1 call A and B in opposite orders; rank 2 is busy, and calls neither.
std::vector<Program> Late() {
  return {Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 1), DeviceSync()},
          Inits(2) + Program{AllReduce(1, 1), AllReduce(0, 1), DeviceSync()},
          Inits(2) + Program{Spin()}};
}

// `tell` adds to the states of ranks 0 and 1, whose processes have the numbers 1 and 2; the runtime
// has the operations of the communicators `by_runtime`, NCCL the others'.
Verdict After(const std::function<void(ProcessState*)>& tell,
              const std::vector<Program>& ranks = Late(), std::set<int> by_runtime = {0, 1}) {
  SimJob job(Comms(2, static_cast<int>(ranks.size())), ranks);
  job.elsewhere = std::move(by_runtime);
  JobModel model;
  job.Run();
  job.Feed(&model);
  for (int i = 0; i < 8; ++i) {
    job.Advance(100'000'000);
    Round round = job.MakeRound();
    for (ProcessState& state : round.processes) {
      if (state.process <= 2) tell(&state);
    }
    model.OnRound(round);
  }
  return model.Current();
}

EarlyOperation Of(int comm) { return {.comm = static_cast<CommId>(comm + 1), .sequence = 0}; }

TEST(EarlyStarts, NobodyTellsOfAny) {
  ExpectVerdict(After([](ProcessState*) {}), Deadlock({0, 1}, ""));
}

TEST(EarlyStarts, BothHaveBegunBoth) {
  const Verdict verdict = After([](ProcessState* state) { state->early = {Of(0), Of(1)}; });
  EXPECT_EQ(verdict.main.verdict, VerdictKind::kHealthy) << verdict.main.summary;
}

// One that has begun both breaks the circle: the other's first operation waits for rank 2 alone.
TEST(EarlyStarts, OneHasBegunBoth) {
  const Verdict verdict = After([](ProcessState* state) {
    if (state->process == 1) state->early = {Of(1)};
  });
  EXPECT_EQ(verdict.main.verdict, VerdictKind::kHealthy) << verdict.main.summary;
}

// What has begun is not the operation that the circle goes through.
TEST(EarlyStarts, AnotherHasBegun) {
  const Verdict verdict =
      After([](ProcessState* state) { state->early = {Of(state->process == 1 ? 0 : 1)}; });
  ExpectVerdict(verdict, Deadlock({0, 1}, ""));
}

TEST(EarlyStarts, MoreThanIsTold) {
  const Verdict verdict = After([](ProcessState* state) { state->early_unknown = true; });
  EXPECT_EQ(verdict.main.verdict, VerdictKind::kHealthy) << verdict.main.summary;
}

// Operations that nothing but operations stand before may have begun, and others not.
Verdict OnDevices(const Program& between, bool late, std::set<int> by_runtime = {0, 1}) {
  std::vector<Program> ranks = {
      Inits(2) + Program{AllReduce(0, 1)} + between + Program{AllReduce(1, 1), DeviceSync()},
      Inits(2) + Program{AllReduce(1, 1)} + between + Program{AllReduce(0, 1), DeviceSync()},
      Inits(2) + Program{Spin()}};
  if (!late) ranks.pop_back();
  return After([](ProcessState* state) { state->early_behind_operations = true; }, ranks,
               std::move(by_runtime));
}

TEST(EarlyStarts, DevicesDoNotTell) {
  const Verdict verdict = OnDevices({}, true);
  EXPECT_EQ(verdict.main.verdict, VerdictKind::kHealthy) << verdict.main.summary;
}

TEST(EarlyStarts, DevicesDoNotBeginBehindOtherWork) {
  ExpectVerdict(OnDevices({Kernel(1)}, true), Deadlock({0, 1}, ""));
}

TEST(EarlyStarts, DevicesDoNotBeginWhatIsNotCalled) {
  ExpectVerdict(OnDevices({DeviceSync()}, false), Deadlock({0, 1}, ""));
}

TEST(EarlyStarts, DevicesDoNotBeginWhatNcclHas) {
  ExpectVerdict(OnDevices({}, true, {}), Deadlock({0, 1}, ""));
}

TEST(EarlyStarts, DevicesBeginOneOfBoth) {
  const Verdict verdict = OnDevices({}, true, {1});
  EXPECT_EQ(verdict.main.verdict, VerdictKind::kHealthy) << verdict.main.summary;
}

}  // namespace
}  // namespace gordian::model
