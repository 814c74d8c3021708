// D2: the stage solver against every assignment, and whole schedules against a timeline that is
// simulated here, with nothing shared but the types.
#include "planner/schedule/stage_solver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "planner/proof/generation_machine.h"

namespace gordian::planner {
namespace {

constexpr double kMu = 1.65;

StageProblem RandomProblem(std::mt19937_64& random) {
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  StageProblem problem;
  problem.links = 2;
  const int n = pick(1, 9);
  const int longest = pick(3, 60);
  problem.deadline = pick(5, longest * 4);
  std::vector<Micros> releases;
  const bool old = pick(0, 3) == 0;  // all gradients are there
  for (int i = 0; i < n; ++i)
    releases.push_back(old ? 0 : pick(0, static_cast<int>(problem.deadline)));
  std::sort(releases.rbegin(), releases.rend());
  for (int i = 0; i < n; ++i) {
    const Micros c = pick(0, longest);
    problem.items.push_back({.value = c,
                             .weight = {c, std::llround(kMu * static_cast<double>(c))},
                             .release = releases[i]});
  }
  if (pick(0, 1) == 1) problem.busy = {pick(0, 30), pick(0, 30)};
  return problem;
}

// When the last of these ends, sent as soon as they are ready.
Micros EndOf(const StageProblem& problem, const std::vector<int>& link_of, int link) {
  std::vector<std::pair<Micros, Micros>> jobs;  // release, length
  for (size_t j = 0; j < link_of.size(); ++j) {
    if (link_of[j] == link) {
      jobs.emplace_back(problem.items[j].release, problem.items[j].weight[link - 1]);
    }
  }
  if (jobs.empty()) return 0;
  std::sort(jobs.begin(), jobs.end());
  Micros now = problem.busy[link - 1];
  for (const auto& [release, length] : jobs) now = std::max(now, release) + length;
  return now;
}

bool Meets(const StageProblem& problem, const std::vector<int>& link_of) {
  return EndOf(problem, link_of, 1) <= problem.deadline &&
         EndOf(problem, link_of, 2) <= problem.deadline;
}

// All 3^n assignments, with a clock for each link: items in the order in which they become ready.
struct BruteForce {
  explicit BruteForce(const StageProblem& p) : problem(p), at(p.items.size(), 0) {
    Assign(at.size(), {problem.busy[0], problem.busy[1]}, {0, 0, 0}, 1);
  }

  // worth: on both links, on the first, and minus the place among equally good ones.
  void Assign(size_t left, std::array<Micros, 2> clock, std::array<int64_t, 3> worth,
              int64_t digit) {
    if (left == 0) {
      if (worth > best_worth) {
        best_worth = worth;
        best = at;
      }
      return;
    }
    const size_t j = left - 1;
    const StageItem& item = problem.items[j];
    for (const int link : {1, 2, 0}) {
      at[j] = link;
      std::array<Micros, 2> later = clock;
      if (link != 0) {
        Micros& now = later[link - 1];
        now = std::max(now, item.release) + item.weight[link - 1];
        if (now > problem.deadline) continue;
      }
      const int64_t place = link == 0 ? 2 : link - 1;
      Assign(j, later,
             {worth[0] + (link != 0 ? item.value : 0), worth[1] + (link == 1 ? item.value : 0),
              worth[2] - place * digit},
             digit * 3);
    }
  }

  const StageProblem& problem;
  std::vector<int> at, best;
  std::array<int64_t, 3> best_worth{-1, -1, 0};
};

TEST(D2, ExactIsBruteForceAndGreedyIsNeverAbove) {
  std::mt19937_64 random(20260401);
  int greedy_below = 0, sent = 0;
  for (int i = 0; i < 10'000; ++i) {
    const StageProblem problem = RandomProblem(random);
    const StageChoice exact = SolveExact(problem);
    const std::vector<int> brute = BruteForce(problem).best;
    ASSERT_TRUE(exact.exact);
    ASSERT_EQ(exact.link, brute) << "instance " << i;
    ASSERT_TRUE(Meets(problem, exact.link)) << "instance " << i;
    ASSERT_TRUE(Feasible(problem, exact));
    const StageChoice greedy = SolveGreedy(problem);
    ASSERT_TRUE(Meets(problem, greedy.link)) << "instance " << i;
    ASSERT_LE(greedy.Value(problem), exact.Value(problem)) << "instance " << i;
    greedy_below += greedy.Value(problem) < exact.Value(problem);
    sent += exact.Value(problem) > 0;
  }
  // The instances are worth something: in many the greedy choice is not the best.
  EXPECT_GT(greedy_below, 500);
  EXPECT_GT(sent, 5'000);
}

TEST(D2, FeasibleIsTheTimeline) {
  std::mt19937_64 random(7);
  int feasible = 0;
  for (int i = 0; i < 20'000; ++i) {
    const StageProblem problem = RandomProblem(random);
    StageChoice choice;
    for (size_t j = 0; j < problem.items.size(); ++j)
      choice.link.push_back(static_cast<int>(random() % 3));
    ASSERT_EQ(Feasible(problem, choice), Meets(problem, choice.link)) << "instance " << i;
    feasible += Feasible(problem, choice);
  }
  EXPECT_GT(feasible, 2'000);
  EXPECT_LT(feasible, 18'000);
}

TEST(D2, TooManyStatesIsSaid) {
  StageProblem problem;
  problem.links = 2;
  problem.deadline = int64_t{1} << 40;
  for (int i = 0; i < 40; ++i) {
    const Micros c = (int64_t{1} << 30) + (int64_t{1} << (i % 28)) + i;
    problem.items.push_back({.value = c, .weight = {c, 2 * c}});
  }
  const StageChoice choice = SolveExact(problem);
  EXPECT_FALSE(choice.exact);
  EXPECT_EQ(choice.link, SolveGreedy(problem).link);
}

// Runs a schedule: links carry in order what they are given, nothing before its gradient is there.
void RunTimeline(const std::vector<Item>& items, int links, double scale,
                 const std::vector<Iteration>& iterations) {
  Micros forward = 0, backward = 0;
  for (const Item& item : items) {
    forward += item.time.forward;
    backward += item.time.backward;
  }
  std::map<int64_t, std::set<int>> sent;  // generation -> items
  // Iterations in which items of a generation went as soon as they were ready, and afterwards.
  std::map<int64_t, std::set<int64_t>> fresh, late;
  int64_t next_gradient = 0;  // not yet in any update
  for (size_t t = 0; t < iterations.size(); ++t) {
    for (const Stage* stage : {&iterations[t].forward, &iterations[t].backward}) {
      const Micros compute = stage->backward ? backward : forward;
      const auto deadline = static_cast<Micros>(scale * static_cast<double>(compute) + 1e-6);
      Micros end = compute;
      for (int link = 1; link <= links; ++link) {
        Micros now = 0;
        for (const Send& send : stage->sends) {
          if (send.link != link) continue;
          Micros ready = 0;
          (send.ready_in_stage ? fresh : late)[send.generation].insert(static_cast<int64_t>(t));
          if (send.ready_in_stage) {
            ASSERT_TRUE(stage->backward) << "gradients are made in backward passes";
            for (size_t k = send.item; k < items.size(); ++k) ready += items[k].time.backward;
          }
          now = std::max(now, ready);
          const Micros c = items[send.item].time.comm;
          ASSERT_EQ(now, send.begin);
          now += link == 1 ? c : std::llround(kMu * static_cast<double>(c));
          ASSERT_EQ(now, send.end);
          ASSERT_TRUE(sent[send.generation].insert(send.item).second) << "sent twice";
        }
        ASSERT_LE(now, deadline);
        end = std::max(end, now);
      }
      ASSERT_EQ(end, stage->length);
    }
    for (const Update& update : iterations[t].updates) {
      ASSERT_EQ(sent[update.generation].size(), items.size()) << "applied before all was sent";
      // Every gradient goes into one update, in order.
      ASSERT_EQ(update.first_gradient, next_gradient);
      next_gradient += update.merged;
      // What goes as soon as it is ready goes with the newest of them; all else is ready before.
      for (const int64_t when : fresh[update.generation]) ASSERT_EQ(when, next_gradient - 1);
      for (const int64_t when : late[update.generation]) ASSERT_GT(when, next_gradient - 1);
    }
  }
  ASSERT_GT(next_gradient, 0);
}

TEST(D2, SchedulesMeetTheirDeadlines) {
  std::mt19937_64 random(99);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 200; ++i) {
    std::vector<Bucket> buckets;
    const int n = pick(1, 4);
    for (int b = 0; b < n; ++b) buckets.push_back({pick(200, 400), pick(5, 900), pick(1, 1000)});
    const Totals totals = Sum(buckets);
    const std::vector<Item> items = Partition(buckets, SmallestKnapsack(totals, kMu), kMu);
    for (const Solver solver : {Solver::kExact, Solver::kGreedy}) {
      const int links = pick(1, 2);
      const double scale = 1 + 0.1 * pick(0, 4);
      GenerationMachine machine(items, {.links = links, .scale = scale, .solver = solver});
      std::vector<Iteration> iterations;
      for (int t = 0; t < 40; ++t) iterations.push_back(machine.Next());
      RunTimeline(items, links, scale, iterations);
      if (HasFatalFailure()) FAIL() << "instance " << i;
    }
  }
}

TEST(D2, ThePeriodRepeats) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 50; ++i) {
    std::vector<Bucket> buckets;
    for (int b = 0; b < 4; ++b) {
      buckets.push_back({static_cast<Micros>(50 + random() % 200),
                         static_cast<Micros>(50 + random() % 300),
                         static_cast<Micros>(20 + random() % 400)});
    }
    const Totals totals = Sum(buckets);
    const std::vector<Item> items = Partition(buckets, SmallestKnapsack(totals, kMu), kMu);
    const MachineOptions options{.links = 2};
    const PeriodicSchedule schedule = RunUntilPeriodic(items, options);
    ASSERT_FALSE(schedule.period.empty());
    GenerationMachine machine(items, options);
    const auto sends = [](const Stage& stage) {
      std::vector<std::tuple<int, int, Micros, Micros>> all;
      for (const Send& s : stage.sends) all.emplace_back(s.link, s.item, s.begin, s.end);
      return all;
    };
    for (size_t t = 0; t < schedule.warm_up.size() + 3 * schedule.period.size(); ++t) {
      const Iteration now = machine.Next();
      const size_t warm = schedule.warm_up.size();
      const Iteration& planned =
          t < warm ? schedule.warm_up[t] : schedule.period[(t - warm) % schedule.period.size()];
      ASSERT_EQ(sends(now.forward), sends(planned.forward));
      ASSERT_EQ(sends(now.backward), sends(planned.backward));
      ASSERT_EQ(now.updates.size(), planned.updates.size());
    }
  }
}

}  // namespace
}  // namespace gordian::planner
