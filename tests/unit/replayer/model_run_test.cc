// Programs of which hardware has said what becomes of them (docs/emulator-truth.md names most), and their twins.
#include "replayer/model_run.h"

#include <gtest/gtest.h>

#include "tests/unit/replayer/schedule_builder.h"

namespace gordian::replayer {
namespace {

using testing::ScheduleBuilder;

std::string Of(ScheduleBuilder& builder) {
  const Schedule schedule = builder.Build();
  const ModelRun run = RunModel(schedule);
  return run.hangs ? run.check + ": " + Describe(run.signature) : "ends: " + run.signature.verdict;
}

TEST(ModelRun, InversionOnOneStream) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job(2);
    const int dp = job.Comm("dp", {0, 1}), tp = job.Comm("tp", {0, 1});
    job.On(0).AllReduce(dp).AllReduce(tp).Sync();
    job.On(1).AllReduce(twin ? dp : tp).AllReduce(twin ? tp : dp).Sync();
    EXPECT_EQ(Of(job), twin ? "ends: finished" : "communicator-order-cycle: deadlock (started_collective, stream_order)");
  }
}

TEST(ModelRun, InversionOnTwoStreamsHangsWithASynchroniseBetween) {
  for (const bool twin : {false, true}) {
    ScheduleBuilder job(2);
    const int dp = job.Comm("dp", {0, 1}), tp = job.Comm("tp", {0, 1});
    testing::Calls first = job.On(0).AllReduce(dp, 0);
    if (!twin) first.Sync(0);
    first.AllReduce(tp, 1).DeviceSync();
    job.On(1).AllReduce(tp, 1).Sync(1).AllReduce(dp, 0).DeviceSync();
    EXPECT_EQ(Of(job), twin ? "ends: finished" : "host-wait-cycle: deadlock (host_sync, not_called, started_collective)");
  }
}

}  // namespace
}  // namespace gordian::replayer
