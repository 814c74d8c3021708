#include "replayer/predict/explore.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "replayer/reduce/model_run.h"
#include "tests/unit/replayer/planted_orders.h"

namespace gordian::replayer {
namespace {

using testing::CountSchedules;
using testing::Planted;
using testing::PlantedOrders;

Predictions Explored(const RecordedOrders& orders, OrderSearchOptions options, WindowState* state) {
  const StatusOr<Predictions> explored = ExploreWindow(orders, options, state);
  EXPECT_TRUE(explored.ok()) << explored.status().ToString();
  return explored.ok() ? *explored : Predictions();
}

// By call sites, which planted jobs do not have: communicators stand for them.
std::vector<std::vector<OpId>> CyclesOf(const Predictions& predictions) {
  std::vector<std::vector<OpId>> cycles;
  for (const Prediction& found : predictions.predicted) cycles.push_back(found.cycle);
  return cycles;
}

TEST(Explore, FindsEachPlantedDeadlockAndNoneInItsTwin) {
  const std::vector<Planted> all = PlantedOrders();
  EXPECT_GE(all.size(), 30u);
  for (const Planted& planted : all) {
    SCOPED_TRACE(planted.name);
    ASSERT_GT(planted.orders.calls, 0u) << "its recorded order hangs";
    WindowState state, bounded, less, twin;
    const Predictions found = Explored(planted.orders, {}, &state);
    ASSERT_FALSE(found.predicted.empty());
    EXPECT_TRUE(found.complete && state.done);
    for (const Prediction& prediction : found.predicted)
      EXPECT_EQ(RunModel(prediction.witness).signature.verdict, "deadlock");

    // It takes as many preemptions as were planted, and not fewer.
    const Predictions within =
        Explored(planted.orders, {.max_preemptions = planted.preemptions}, &bounded);
    ASSERT_FALSE(within.predicted.empty());
    EXPECT_LE(*within.predicted.front().preemptions, planted.preemptions);
    if (planted.preemptions > 0) {
      EXPECT_TRUE(Explored(planted.orders, {.max_preemptions = planted.preemptions - 1}, &less)
                      .predicted.empty());
    }

    const Predictions none = Explored(planted.twin, {}, &twin);
    EXPECT_TRUE(none.judged && none.complete && none.predicted.empty());

    // The benchmark counts for all.
    if (planted.preemptions < 3 || !planted.name.ends_with("AllReduce")) continue;
    const Footprints footprints = FootprintsOf(planted.orders.schedule);
    const double naive = CountSchedules(ScheduleState(planted.orders.schedule, footprints));
    const size_t schedules = state.frontier.counts.Schedules();
    std::printf("%.3g times fewer: %zu schedules for %.3g, %s\n",
                naive / static_cast<double>(schedules), schedules, naive, planted.name.c_str());
    EXPECT_GE(naive, 100 * static_cast<double>(schedules));
  }
}

TEST(Explore, ResultsDependNeitherOnThreadsNorOnStops) {
  for (const Planted& planted : PlantedOrders()) {
    if (planted.preemptions < 2) continue;
    SCOPED_TRACE(planted.name);
    WindowState whole, by_two, state;
    const Predictions one = Explored(planted.orders, {}, &whole);
    const Predictions two = Explored(planted.orders, {.for_each = ByThreads(2)}, &by_two);
    EXPECT_EQ(CyclesOf(one), CyclesOf(two));
    size_t stops = 0;
    Predictions last;
    for (size_t most = 10; !state.done; most += 10, ++stops)
      last = Explored(planted.orders, {.max_states = most}, &state);
    EXPECT_GT(stops, 1u);
    EXPECT_EQ(CyclesOf(one), CyclesOf(last));
    ASSERT_EQ(one.predicted.size(), last.predicted.size());
    for (size_t i = 0; i < one.predicted.size(); ++i) {
      for (const Predictions* const other :
           std::initializer_list<const Predictions*>{&two, &last}) {
        EXPECT_EQ(one.predicted[i].begun, other->predicted[i].begun);
        EXPECT_EQ(one.predicted[i].alike, other->predicted[i].alike);
        EXPECT_EQ(one.predicted[i].preemptions, other->predicted[i].preemptions);
      }
    }
    EXPECT_EQ(whole.frontier.counts.Schedules(), state.frontier.counts.Schedules());
    EXPECT_EQ(whole.frontier.counts.Schedules(), by_two.frontier.counts.Schedules());
  }
}

TEST(Explore, RefusesTheStateOfOtherCalls) {
  const std::vector<Planted> all = PlantedOrders();
  WindowState state;
  Explored(all[0].orders, {.max_states = 1}, &state);
  WindowState twin = state;
  EXPECT_FALSE(ExploreWindow(all[0].twin, {}, &twin).ok());
  WindowState damaged = state;
  damaged.frontier.open.push_back({.then = {0, 0, 0, 0, 0}});
  EXPECT_FALSE(ExploreWindow(all[0].orders, {}, &damaged).ok());
  damaged = state;
  damaged.ends.push_back({.number = 1, .path = {9}});
  EXPECT_FALSE(ExploreWindow(all[0].orders, {}, &damaged).ok());
  EXPECT_TRUE(ExploreWindow(all[0].orders, {}, &state).ok());
}

}  // namespace
}  // namespace gordian::replayer
