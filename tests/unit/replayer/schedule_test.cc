#include "replayer/record/schedule.h"

#include <gtest/gtest.h>

#include "replayer/write/identifier.h"
#include "tests/unit/replayer/hand_made.h"

namespace gordian::replayer {
namespace {

using testing::SampleOf;
using testing::Samples;

TEST(Schedule, CheckFindsNothingInWhatIsWhole) {
  for (const testing::Sample& sample : Samples()) {
    const std::vector<std::string> problems = Check(sample.schedule);
    EXPECT_TRUE(problems.empty()) << sample.name << ": " << problems.front();
  }
}

TEST(Schedule, CheckNamesWhatMakesNoSense) {
  const std::vector<testing::Sample> samples = Samples();
  const auto broken = [&](const std::string& name, auto change) {
    Schedule schedule = SampleOf(samples, name);
    change(&schedule);
    return Check(schedule).size();
  };
  EXPECT_GT(broken("inversion", [](Schedule* s) { s->ranks[0].threads[0].ops[0].comm = 7; }), 0u);
  EXPECT_GT(broken("inversion", [](Schedule* s) { s->ranks[0].threads[0].ops[0].stream = 3; }), 0u);
  EXPECT_GT(broken("inversion", [](Schedule* s) { s->ranks[2].threads[0].ops[0].comm = 1; }),
            0u);  // no member
  EXPECT_GT(broken("inversion", [](Schedule* s) { s->ranks[0].threads[0].ops[1].id = 1; }), 0u);
  EXPECT_GT(broken("inversion", [](Schedule* s) { s->comms[1].name = "dp"; }), 0u);
  EXPECT_GT(broken("transfers",
                   [](Schedule* s) {
                     s->ranks[1].threads[0].ops.erase(s->ranks[1].threads[0].ops.begin());
                   }),
            0u);
  EXPECT_GT(
      broken("transfers", [](Schedule* s) { s->ranks[0].threads[0].ops[0].root_or_peer = 3; }), 0u);
  EXPECT_GT(broken("graph",
                   [](Schedule* s) {
                     s->ranks[0].threads[0].ops.erase(s->ranks[0].threads[0].ops.begin() + 3);
                   }),
            0u);
  EXPECT_GT(broken("events", [](Schedule* s) { s->ranks[0].events = 0; }), 0u);
  EXPECT_GT(broken("threads",
                   [](Schedule* s) {
                     s->ranks[0].threads[0].ops.erase(s->ranks[0].threads[0].ops.begin());
                   }),
            0u);
}

TEST(Schedule, AGateMovesToWhatCameBeforeInItsThread) {
  const Schedule before = SampleOf(Samples(), "threads");
  Schedule after = before;
  // The second thread's operation goes: who awaited its call has nothing before it there to wait
  // for.
  std::vector<Op>& second = after.ranks[0].threads[1].ops;
  second.erase(second.begin());
  DropDanglingGates(before, &after);
  EXPECT_TRUE(after.ranks[0].threads[0].ops[1].gates.empty());
  EXPECT_EQ(after.ranks[1].threads[0].ops[1].gates.size(), 1u);
  EXPECT_TRUE(Check(after).empty());

  Schedule longer = before;
  Op extra = longer.ranks[0].threads[1].ops[0];
  extra.id = 100;
  extra.gates.clear();
  longer.ranks[0].threads[1].ops.insert(longer.ranks[0].threads[1].ops.begin(), extra);
  after = longer;
  after.ranks[0].threads[1].ops.erase(after.ranks[0].threads[1].ops.begin() + 1);
  DropDanglingGates(longer, &after);
  const std::vector<Gate> wanted = {{100, Gate::Moment::kReturned}};
  EXPECT_EQ(after.ranks[0].threads[0].ops[1].gates, wanted);
}

TEST(Schedule, CountsAndSignatures) {
  const std::vector<testing::Sample> samples = Samples();
  EXPECT_EQ(CountOperations(SampleOf(samples, "inversion")), 8u);
  EXPECT_EQ(CountOperations(SampleOf(samples, "transfers")), 3u);
  EXPECT_EQ(CountCalls(SampleOf(samples, "transfers")), 8u);
  EXPECT_EQ(Describe(Signature{"deadlock", {"first_use", "receive"}}),
            "deadlock (first_use, receive)");
  EXPECT_EQ(Describe(Signature{"rank_exited", {}}), "rank_exited");
}

TEST(Identifier, IsOneInBothLanguages) {
  EXPECT_EQ(Identifier("dp"), "dp");
  EXPECT_EQ(Identifier("comm A"), "comm_a");
  EXPECT_EQ(Identifier("7 TP/group-3!"), "tp_group_3");
  EXPECT_EQ(Identifier(""), "comm_");
  EXPECT_EQ(Identifier("\"; system(0); //"), "system_0");
  EXPECT_EQ(Identifier("class"), "class_");
  EXPECT_EQ(Identifier("s1"), "s1_");  // a stream's
  UniqueNames names;
  EXPECT_EQ(names.Take("dp"), "dp");
  EXPECT_EQ(names.Take("dp"), "dp_2");
  EXPECT_EQ(names.Take("dp"), "dp_3");
}

}  // namespace
}  // namespace gordian::replayer
