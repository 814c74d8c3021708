// Whatever hangs is made as small as it can be, whatever it is; and what hangs is not for this
// folder to say alone: an interpreter that shares nothing with it (tests/unit/model/sim/sim_job.h)
// runs the same programs.
#include <gtest/gtest.h>

#include <algorithm>

#include "replayer/reduce/minimizer.h"
#include "replayer/reduce/model_run.h"
#include "tests/unit/model/sim/sim_job.h"
#include "tests/unit/replayer/random_schedules.h"

namespace gordian::replayer {
namespace {

namespace sim = model::testing;
using testing::RandomSchedule;

sim::Op ForSimulation(const Op& op) {
  const int stream = op.stream + 1;  // 0 is the legacy default stream there
  switch (op.kind) {
    case OpKind::kSend:
      return sim::Send(op.comm, op.root_or_peer, stream);
    case OpKind::kRecv:
      return sim::Recv(op.comm, op.root_or_peer, stream);
    case OpKind::kEventRecord:
      return sim::Record(op.event, stream);
    case OpKind::kStreamWaitEvent:
      return sim::WaitEvent(op.event, stream);
    case OpKind::kKernel:
      return sim::Kernel(stream);
    case OpKind::kStreamSync:
      return sim::StreamSync(stream);
    case OpKind::kDeviceSync:
      return sim::DeviceSync();
    case OpKind::kFree:
      return sim::Free();
    default:
      break;
  }
  EXPECT_TRUE(IsCollective(op.kind)) << Name(op.kind);
  return sim::Collective(CallOf(op.kind), op.comm, stream, op.root_or_peer);
}

bool HangsInSimulation(const Schedule& schedule, uint64_t seed) {
  std::vector<sim::SimComm> comms;
  for (const Communicator& comm : schedule.comms) comms.push_back({.members = comm.members});
  std::vector<sim::Program> programs;
  for (const RankProgram& rank : schedule.ranks) {
    sim::Program& program = programs.emplace_back();
    for (const Op& op : rank.threads.at(0).ops) program.push_back(ForSimulation(op));
  }
  const bool cold = !schedule.comms[0].connected;
  sim::SimJob job(std::move(comms), std::move(programs), cold, seed);
  job.Run();
  return !job.Unfinished().empty();
}

TEST(RandomSchedules, HangWhereASimulationHangs) {
  int hanging = 0;
  constexpr int kJobs = 3000;
  for (uint64_t number = 0; number < kJobs; ++number) {
    const Schedule schedule = RandomSchedule(number);
    const ModelRun run = RunModel(schedule);
    hanging += run.hangs;
    ASSERT_EQ(run.hangs, HangsInSimulation(schedule, number))
        << "job " << number << ": " << run.summary;
    EXPECT_EQ(RunModel(schedule, ~kFirstFirst).hangs, run.hangs) << "job " << number;
  }
  EXPECT_GT(hanging, kJobs / 10);
  EXPECT_LT(hanging, kJobs * 9 / 10);
}

TEST(RandomSchedules, ComeOutMinimal) {
  int minimised = 0;
  for (uint64_t number = 10'000; number < 10'400; ++number) {
    const Schedule schedule = RandomSchedule(number);
    const ModelRun whole = RunModel(schedule);
    const MinimizeReport report = Minimize(schedule);
    ASSERT_EQ(report.refused.empty(), whole.hangs) << "job " << number;
    if (!whole.hangs) continue;
    ++minimised;
    SCOPED_TRACE("job " + std::to_string(number));
    EXPECT_TRUE(report.minimal);
    EXPECT_TRUE(Check(report.schedule).empty());
    EXPECT_LE(report.calls_after, report.calls_before);
    EXPECT_EQ(Minimize(schedule).schedule, report.schedule);  // the same each time
    const ModelRun run = RunModel(report.schedule);
    EXPECT_EQ(run.check, whole.check);
    EXPECT_EQ(run.signature, whole.signature);
    EXPECT_EQ(run.because, whole.because);
    for (size_t rank = 0; rank < report.schedule.ranks.size(); ++rank) {
      if (report.schedule.ranks[rank].threads.empty()) continue;  // it is waited for, and leaves
      const std::vector<Op>& ops = report.schedule.ranks[rank].threads[0].ops;
      for (size_t i = 0; i < ops.size(); ++i) {
        if (ops[i].not_reached) continue;  // lets it end once it is mended
        Schedule without = report.schedule;
        auto& left = without.ranks[rank].threads[0].ops;
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
        const ModelRun less = RunModel(without);
        EXPECT_FALSE(less.hangs && less.check == whole.check && less.signature == whole.signature &&
                     less.because == whole.because)
            << Name(ops[i].kind) << " of rank " << rank;
      }
    }
  }
  EXPECT_GT(minimised, 40);
}

}  // namespace
}  // namespace gordian::replayer
