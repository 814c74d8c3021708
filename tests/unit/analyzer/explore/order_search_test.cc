#include "analyzer/explore/order_search.h"

#include <gtest/gtest.h>

#include <set>

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
      actor.finished = at_[i] == program_[i].size();
      if (actor.finished) continue;
      actor.enabled = program_[i][at_[i]] < 0 || !held_.contains(program_[i][at_[i]]);
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
  const std::vector<size_t>& at() const { return at_; }

 private:
  static Footprint Of(int lock) { return {0, uint64_t{1} << std::abs(lock)}; }

  const Program& program_;
  std::vector<size_t> at_;
  std::set<int> held_;
  const bool with_keys_;
};

std::set<std::vector<size_t>> Ends(const Program& program, bool with_keys, size_t* states) {
  std::set<std::vector<size_t>> ends;
  SearchOptions options;
  options.on_end = [&](const Explorable& state, const std::vector<Step>&) {
    ends.insert(static_cast<const Locks&>(state).at());
    return true;
  };
  const SearchReport report = SearchOrders(Locks(program, with_keys), options);
  EXPECT_TRUE(report.complete);
  *states = report.states;
  return ends;
}

const Program kOpposite = {{1, 2, -2, -1}, {2, 1, -1, -2}};
const Program kAlike = {{1, 2, -2, -1}, {1, 2, -2, -1}};
const std::vector<size_t> kAllDone = {4, 4}, kEachHoldsOne = {1, 1};

TEST(OrderSearch, MeetsTheDeadlockOfTwoLocks) {
  size_t states = 0;
  for (const bool with_keys : {false, true}) {
    EXPECT_EQ(Ends(kOpposite, with_keys, &states), (std::set{kAllDone, kEachHoldsOne}));
    EXPECT_EQ(Ends(kAlike, with_keys, &states), std::set{kAllDone});
  }
}

TEST(OrderSearch, TriesOneOrderOfIndependentCalls) {
  size_t states = 0;
  const Program apart = {{1, -1, 1, -1}, {2, -2, 2, -2}};
  EXPECT_EQ(Ends(apart, false, &states), std::set{kAllDone});
  EXPECT_EQ(states, 9u);
}

TEST(OrderSearch, StopsAtItsBudgetAndSaysSo) {
  SearchOptions options;
  options.max_states = 3;
  EXPECT_FALSE(SearchOrders(Locks(kOpposite, true), options).complete);
  options.max_states = 1000;
  options.on_state = [](size_t states) { return states < 3; };
  const SearchReport report = SearchOrders(Locks(kOpposite, true), options);
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.states, 3u);
}

TEST(OrderSearch, FollowsWishes) {
  Locks state(kOpposite, true);
  // Each takes its second lock only after the other has taken its first.
  const std::vector<Wish> wishes = {{{0, 1}, {1, 0}}, {{1, 1}, {0, 0}}};
  const std::vector<Step> path = Follow(&state, wishes);
  EXPECT_EQ(path.size(), 2u);
  EXPECT_EQ(state.at(), kEachHoldsOne);
}

}  // namespace
}  // namespace gordian::explore
