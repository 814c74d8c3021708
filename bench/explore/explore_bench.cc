// How many schedules the explorer tries for each planted deadlock of the tests, beside how many
// there are.
//
//   bench_explore
//
// The ratio comes first: schedules of a search without any reduction, counted and not run, by those
// of the explorer. Exits with 1 where a deadlock is not found.
#include <chrono>
#include <cstdio>
#include <string>

#include "replayer/predict/explore.h"
#include "tests/unit/replayer/planted_orders.h"

namespace gordian::bench {
namespace {

using replayer::testing::Planted;

struct Explored {
  double seconds = 0;
  size_t schedules = 0;
  bool found = false;
};

Explored Explore(const Planted& planted) {
  replayer::WindowState state;
  const auto begin = std::chrono::steady_clock::now();
  const StatusOr<replayer::Predictions> result =
      replayer::ExploreWindow(planted.orders, {}, &state);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return {took.count(), state.frontier.counts.Schedules(),
          result.ok() && !result->predicted.empty()};
}

}  // namespace
}  // namespace gordian::bench

int main() {
  using namespace gordian;  // NOLINT
  for (const replayer::testing::Planted& planted : replayer::testing::PlantedOrders()) {
    const replayer::Footprints footprints = replayer::FootprintsOf(planted.orders.schedule);
    const double all = replayer::testing::CountSchedules(
        replayer::ScheduleState(planted.orders.schedule, footprints));
    const bench::Explored explored = bench::Explore(planted);
    if (!explored.found) {
      std::fprintf(stderr, "bench_explore: not found: %s\n", planted.name.c_str());
      return 1;
    }
    std::printf("%9.3g  %5zu schedules for %9.3g, %.4f s, %s\n",
                all / static_cast<double>(explored.schedules), explored.schedules, all,
                explored.seconds, planted.name.c_str());
  }
}
