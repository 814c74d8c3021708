// How many schedules the explorer tries for each planted deadlock of the tests, beside how many
// there are, and how much faster two threads are than one.
//
//   bench_explore [PAIRS]      (default: 15)
//
// The ratio comes first. Of schedules: those of a search without any reduction, counted and not run,
// by those of the explorer. Of threads: the time of one by the time of two, of pairs of searches,
// one behind the other; the median, and the quartiles. The clock says it only where two processors
// have nothing else to do. Of the processor's time, two take the part that one thread does alone,
// and half of the rest. Exits with 1 where a deadlock is not found.
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

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

double SecondsOf(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Took {
  size_t states = 0;
  double seconds = 0, processor_seconds = 0;
  double alone_seconds = 0;  // of the processor's, those in which other threads have nothing to do
};

Took Search(const replayer::RecordedOrders& orders, size_t max_states, size_t threads) {
  const auto by_threads = replayer::ByThreads(threads);
  const std::thread::id caller = std::this_thread::get_id();
  double shared = 0;  // the caller's part of what is shared out
  const auto for_each = [&](size_t count, const std::function<void(size_t)>& work) {
    by_threads(count, [&](size_t i) {
      if (threads == 1 || std::this_thread::get_id() != caller) return work(i);
      const double before = SecondsOf(CLOCK_THREAD_CPUTIME_ID);
      work(i);
      shared += SecondsOf(CLOCK_THREAD_CPUTIME_ID) - before;
    });
  };
  replayer::WindowState state;
  const auto begin = std::chrono::steady_clock::now();
  const double all = SecondsOf(CLOCK_PROCESS_CPUTIME_ID);
  const double callers = SecondsOf(CLOCK_THREAD_CPUTIME_ID);
  const auto result =
      replayer::ExploreWindow(orders, {.max_states = max_states, .for_each = for_each}, &state);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (!result.ok()) {
    std::fprintf(stderr, "bench_explore: %s\n", result.status().ToString().c_str());
    exit(1);
  }
  return {state.frontier.counts.states, took.count(), SecondsOf(CLOCK_PROCESS_CPUTIME_ID) - all,
          SecondsOf(CLOCK_THREAD_CPUTIME_ID) - callers - shared};
}

double Quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

std::string Spread(const std::vector<double>& ratios) {
  char text[64];
  std::snprintf(text, sizeof text, "%9.2f  (%.2f to %.2f)", Quantile(ratios, 0.5),
                Quantile(ratios, 0.25), Quantile(ratios, 0.75));
  return text;
}

void CompareThreads(const char* what, const replayer::RecordedOrders& orders, size_t max_states,
                    size_t pairs) {
  const size_t states = Search(orders, max_states, 2).states;
  std::vector<double> by_clock, by_processor, alone;
  for (size_t i = 0; i < pairs; ++i) {
    // Which one is first changes from pair to pair.
    Took one, two;
    if (i % 2 == 0) one = Search(orders, max_states, 1);
    two = Search(orders, max_states, 2);
    if (i % 2 != 0) one = Search(orders, max_states, 1);
    by_clock.push_back(one.seconds / two.seconds);
    const double longest = two.alone_seconds + (two.processor_seconds - two.alone_seconds) / 2;
    by_processor.push_back(one.processor_seconds / longest);
    alone.push_back(two.alone_seconds / two.processor_seconds);
  }
  std::printf(
      "%s times as fast by two threads, by processor time; %.1f %% are one thread's alone: %s\n",
      Spread(by_processor).c_str(), 100 * Quantile(alone, 0.5), what);
  std::printf("%s times as fast by two threads, by the clock; %zu pairs of %zu states: %s\n",
              Spread(by_clock).c_str(), pairs, states, what);
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) {
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
  const size_t pairs = argc > 1 ? strtoul(argv[1], nullptr, 10) : 15;
  bench::CompareThreads("a planted deadlock at 7 ranks, all orders",
                        replayer::testing::PlantedAtMany(7), 1'000'000, pairs);
  bench::CompareThreads("two threads of two ranks that race, the first orders",
                        replayer::testing::RacingThreads(40), 20'000, pairs);
}
