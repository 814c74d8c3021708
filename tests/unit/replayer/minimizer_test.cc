#include "replayer/reduce/minimizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "replayer/reduce/minimizer_cuts.h"
#include "replayer/reduce/model_run.h"
#include "tests/unit/replayer/hang_shapes.h"

namespace gordian::replayer {
namespace {

using testing::Bury;
using testing::HangShape;
using testing::HangShapes;
using testing::ScheduleBuilder;

std::string Text(const Schedule& schedule) {
  std::string text;
  for (const Communicator& comm : schedule.comms) {
    text += comm.name + (comm.ready ? "" : " unmade") + (comm.connected ? " connected" : "") + " {";
    for (const int member : comm.members) text += std::to_string(member) + " ";
    text += "} " + std::to_string(comm.connected_pairs.size()) + " pairs\n";
  }
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (const ThreadProgram& thread : schedule.ranks[rank].threads) {
      text += "rank " + std::to_string(rank) + ":";
      for (const Op& op : thread.ops) {
        text += std::string(" ") + Name(op.kind) +
                (op.comm < 0 ? "" : "(" + schedule.comms[static_cast<size_t>(op.comm)].name + ")") +
                (op.stream < 0 ? "" : " s" + std::to_string(op.stream + 1)) +
                (op.gates.empty() ? "" : " gated") + ";";
      }
      text += "\n";
    }
  }
  return text;
}

class Shapes : public ::testing::TestWithParam<HangShape> {};

TEST_P(Shapes, ComesOutMinimal) {
  const HangShape& shape = GetParam();
  for (const auto& [ranks, steps] : {std::pair(0, 0), std::pair(4, 2), std::pair(16, 6)}) {
    const Schedule whole = Bury(shape, /*twin=*/false, ranks, steps);
    const ModelRun before = RunModel(whole);
    EXPECT_TRUE(before.hangs);
    EXPECT_EQ(before.check, shape.check) << before.summary;
    const MinimizeReport report = Minimize(whole);
    ASSERT_EQ(report.refused, "");
    EXPECT_TRUE(report.minimal);
    SCOPED_TRACE(Describe(report) + "\n" + Text(report.schedule));
    EXPECT_EQ(report.schedule.ranks.size(), shape.ranks);
    EXPECT_EQ(CountOperations(report.schedule), shape.operations);
    EXPECT_EQ(CountCalls(report.schedule), shape.calls);
    EXPECT_TRUE(Check(report.schedule).empty());
    const ModelRun after = RunModel(report.schedule);
    EXPECT_TRUE(after.hangs);
    EXPECT_EQ(after.check, before.check);
    EXPECT_EQ(after.signature, before.signature);
  }
}

TEST_P(Shapes, TheTwinIsRefused) {
  for (const int ranks : {0, 16}) {
    const MinimizeReport report = Minimize(Bury(GetParam(), /*twin=*/true, ranks, ranks / 4));
    EXPECT_EQ(report.refused.rfind("by the model the schedule does not hang: ", 0), 0u)
        << report.refused;
    EXPECT_TRUE(report.schedule.ranks.empty());
  }
}

// Without any sophistication: no single call can be left out of the result.
TEST_P(Shapes, NoCallCanBeLeftOut) {
  const MinimizeReport report = Minimize(Bury(GetParam(), /*twin=*/false, 8, 3));
  const ModelRun whole = RunModel(report.schedule);
  for (size_t rank = 0; rank < report.schedule.ranks.size(); ++rank) {
    for (size_t thread = 0; thread < report.schedule.ranks[rank].threads.size(); ++thread) {
      const std::vector<Op>& ops = report.schedule.ranks[rank].threads[thread].ops;
      for (size_t i = 0; i < ops.size(); ++i) {
        // Where it stands; and what lets it end once it is mended.
        if (EndsThread(ops[i].kind) || ops[i].not_reached) continue;
        Schedule without = report.schedule;
        auto& left = without.ranks[rank].threads[thread].ops;
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
        if (!Check(without).empty()) continue;  // one end of a group
        const ModelRun run = RunModel(without);
        EXPECT_FALSE(run.hangs && run.check == whole.check && run.signature == whole.signature &&
                     run.because == whole.because)
            << Name(ops[i].kind) << " of rank " << rank << " is not needed in\n"
            << Text(report.schedule);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Shapes, ::testing::ValuesIn(HangShapes()),
                         [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace gordian::replayer
