#include "analyzer/explore/explorer.h"

#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "analyzer/explore/follow.h"

namespace gordian::explore {
namespace {

// Threads that take and leave locks: positive numbers take one, negative ones leave it.
using Program = std::vector<std::vector<int>>;

class Locks : public Explorable {
 public:
  Locks(const Program& program, bool with_keys)
      : program_(program), at_(program.size()), with_keys_(with_keys) {}

  std::unique_ptr<Explorable> Clone() const override { return std::make_unique<Locks>(*this); }
  std::vector<Actor> Actors() const override {
    std::vector<Actor> actors;
    for (size_t i = 0; i < program_.size(); ++i) {
      Actor& actor = actors.emplace_back();
      actor.at = at_[i];
      actor.finished = actor.yields = at_[i] == program_[i].size();
      if (actor.finished) continue;
      actor.enabled = program_[i][at_[i]] < 0 || !held_.contains(program_[i][at_[i]]);
      actor.yields = !actor.enabled;
      actor.next = Of(program_[i][at_[i]]);
      for (size_t at = at_[i]; at < program_[i].size(); ++at) actor.rest |= Of(program_[i][at]);
    }
    return actors;
  }
  void Move(size_t actor) override {
    const int lock = program_[actor][at_[actor]++];
    if (lock < 0) {
      held_.erase(-lock);
    } else {
      held_.insert(lock);
    }
  }
  std::string Key() const override {
    std::string key;
    for (const size_t at : at_) key += std::to_string(at) + ",";
    return with_keys_ ? key : "";
  }
  size_t Bytes() const override { return 1000; }
  const std::vector<size_t>& at() const { return at_; }

 private:
  static Footprint Of(int lock) { return {0, uint64_t{1} << std::abs(lock)}; }

  const Program& program_;
  std::vector<size_t> at_;
  std::set<int> held_;
  const bool with_keys_;
};

struct Met {
  std::set<std::vector<size_t>> ends;
  ExploreCounts counts;
  bool all = false;
};
Met Explored(const Program& program, bool with_keys, ExploreOptions options = {},
             const Frontier* from = nullptr, Frontier* left = nullptr) {
  Met met;
  std::mutex mutex;
  options.on_end = [&](uint64_t, const Explorable& state, const std::vector<Step>&, size_t) {
    const std::lock_guard lock(mutex);
    met.ends.insert(static_cast<const Locks&>(state).at());
  };
  const Locks root(program, with_keys);
  Explorer explorer(root, std::move(options));
  if (from != nullptr) {
    EXPECT_TRUE(explorer.Resume(*from));
  }
  met.all = explorer.Run();
  met.counts = explorer.counts();
  if (left != nullptr) *left = explorer.Save();
  return met;
}

const Program kOpposite = {{1, 2, -2, -1}, {2, 1, -1, -2}};
const Program kAlike = {{1, 2, -2, -1}, {1, 2, -2, -1}};
const std::vector<size_t> kAllDone = {4, 4}, kEachHoldsOne = {1, 1};

TEST(Explorer, MeetsTheDeadlockOfTwoLocks) {
  for (const bool with_keys : {false, true}) {
    EXPECT_EQ(Explored(kOpposite, with_keys).ends, (std::set{kAllDone, kEachHoldsOne}));
    EXPECT_EQ(Explored(kAlike, with_keys).ends, std::set{kAllDone});
  }
}

TEST(Explorer, TriesOneOrderOfIndependentCalls) {
  const Program apart = {{1, -1, 1, -1}, {2, -2, 2, -2}};
  const Met met = Explored(apart, false);
  EXPECT_EQ(met.ends, std::set{kAllDone});
  EXPECT_EQ(met.counts.Schedules(), 1u);
}

TEST(Explorer, EqualStatesAreOne) {
  const Program turns = {{1, -1, 1, -1, 1, -1}, {1, -1, 1, -1, 1, -1}};
  const Met apart = Explored(turns, false), together = Explored(turns, true);
  EXPECT_EQ(apart.ends, together.ends);
  EXPECT_GT(apart.counts.ends, together.counts.ends);
  EXPECT_GT(together.counts.merged, 0u);
}

TEST(Explorer, ABoundOfPreemptionsLeavesOutWhatNeedsMore) {
  // One thread must lose its turn between its two locks.
  const Met none = Explored(kOpposite, true, {.max_preemptions = 0});
  EXPECT_EQ(none.ends, std::set{kAllDone});
  EXPECT_TRUE(none.all);
  EXPECT_GT(none.counts.cut, 0u);
  const Met one = Explored(kOpposite, true, {.max_preemptions = 1});
  EXPECT_EQ(one.ends, (std::set{kAllDone, kEachHoldsOne}));
}

TEST(Explorer, FollowsNoOrderBeyondItsDepth) {
  const Met met = Explored(kOpposite, true, {.max_calls = 2});
  EXPECT_EQ(met.ends, std::set{kEachHoldsOne});
  EXPECT_GT(met.counts.cut, 0u);
}

TEST(Explorer, StopsAtItsBudgetAndGoesOnFromThere) {
  const Met whole = Explored(kOpposite, true);
  for (size_t states = 1; states < whole.counts.states; ++states) {
    Frontier left;
    const Met first = Explored(kOpposite, true, {.max_states = states}, nullptr, &left);
    EXPECT_FALSE(first.all);
    EXPECT_EQ(first.counts.states, states);
    EXPECT_FALSE(left.open.empty());
    Met rest = Explored(kOpposite, true, {}, &left);
    EXPECT_TRUE(rest.all);
    EXPECT_EQ(rest.counts.Schedules(), whole.counts.Schedules());
    rest.ends.insert(first.ends.begin(), first.ends.end());
    EXPECT_EQ(rest.ends, whole.ends);
  }
}

TEST(Explorer, RefusesAFrontierOfAnotherMachine) {
  const Locks root(kOpposite, true);
  Explorer explorer(root, {});
  EXPECT_FALSE(explorer.Resume({.open = {{.then = {0, 0, 7}}}, .counts = {}}));
  // Its second thread cannot take a lock that the first one holds.
  EXPECT_FALSE(explorer.Resume({.open = {{.then = {0, 0, 1}}}, .counts = {}}));
  EXPECT_FALSE(explorer.Resume({.open = {{.then = {0}, .preemptions = 1}}, .counts = {}}));
  // Less is shared than is said to be.
  EXPECT_FALSE(explorer.Resume({.open = {{.then = {0}}, {.same = 2, .then = {0}}}, .counts = {}}));
  EXPECT_TRUE(explorer.Resume({.open = {{.then = {0}}, {.same = 1, .then = {0}}}, .counts = {}}));
}

TEST(Explorer, StatesThatItDoesNotKeepAreMadeAgain) {
  const Met kept = Explored(kOpposite, true), again = Explored(kOpposite, true, {.max_bytes = 0});
  EXPECT_EQ(kept.ends, again.ends);
  EXPECT_EQ(kept.counts.states, again.counts.states);
}

TEST(Follow, KeepsWishes) {
  Locks state(kOpposite, true);
  // Each takes its second lock only after the other has taken its first.
  const std::vector<Wish> wishes = {{{0, 1}, {1, 0}}, {{1, 1}, {0, 0}}};
  const std::vector<Step> path = Follow(&state, wishes);
  EXPECT_EQ(path.size(), 2u);
  EXPECT_EQ(state.at(), kEachHoldsOne);
}

}  // namespace
}  // namespace gordian::explore
