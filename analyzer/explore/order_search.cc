#include "analyzer/explore/order_search.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace gordian::explore {
namespace {

// The actors to branch over: of all the persistent sets that one enabled actor needs, the smallest.
std::vector<size_t> Branches(const std::vector<Actor>& actors) {
  std::vector<size_t> all, best;
  for (size_t i = 0; i < actors.size(); ++i) {
    if (actors[i].enabled) all.push_back(i);
  }
  for (const size_t first : all) {
    std::vector<size_t> set = {first};
    bool persistent = true;
    for (size_t i = 0; i < set.size() && persistent; ++i) {
      for (size_t other = 0; other < actors.size(); ++other) {
        if (actors[other].finished || actors[other].group != actors[first].group ||
            std::find(set.begin(), set.end(), other) != set.end() ||
            !Depend(actors[set[i]].next, actors[other].rest))
          continue;
        // What a blocked actor does once others free it, cannot be ordered here.
        persistent &= actors[other].enabled;
        set.push_back(other);
      }
    }
    if (persistent && (best.empty() || set.size() < best.size())) best = std::move(set);
    if (best.size() == 1) break;
  }
  if (best.empty()) return all;
  std::sort(best.begin(), best.end());
  return best;
}

struct Frame {
  std::unique_ptr<Explorable> state;
  std::vector<size_t> branches;
  size_t next = 0;
};

}  // namespace

SearchReport SearchOrders(const Explorable& root, const SearchOptions& options) {
  SearchReport report;
  std::unordered_set<std::string> seen;
  std::vector<Frame> stack;
  std::vector<Step> path;
  bool stopped = false;
  const auto enter = [&](std::unique_ptr<Explorable> state) {
    std::string key = state->Key();
    if (!key.empty() && !seen.insert(std::move(key)).second) return false;
    ++report.states;
    if (options.on_state && !options.on_state(report.states)) stopped = true;
    std::vector<size_t> branches = Branches(state->Actors());
    if (branches.empty()) {
      ++report.ends;
      if (options.on_end && !options.on_end(*state, path)) stopped = true;
      return false;
    }
    // Ranks that begin with different threads are the likeliest to wait for each other.
    if (state->Actors()[branches.front()].group % 2 == 1)
      std::reverse(branches.begin(), branches.end());
    stack.push_back({std::move(state), std::move(branches)});
    return true;
  };
  enter(root.Clone());
  while (!stack.empty() && !stopped) {
    Frame& frame = stack.back();
    if (frame.next == frame.branches.size()) {
      stack.pop_back();
      if (!path.empty()) path.pop_back();
      continue;
    }
    if (report.states >= options.max_states) return report;
    const size_t actor = frame.branches[frame.next++];
    // The last branch needs the state no more.
    std::unique_ptr<Explorable> state =
        frame.next == frame.branches.size() ? std::move(frame.state) : frame.state->Clone();
    path.push_back({actor, state->Actors()[actor].at});
    state->Move(actor);
    if (!enter(std::move(state))) path.pop_back();
  }
  report.complete = !stopped;
  return report;
}

std::vector<Step> Follow(Explorable* state, const std::vector<Wish>& wishes) {
  std::vector<Step> path;
  while (true) {
    const std::vector<Actor> actors = state->Actors();
    const auto begun = [&](const Step& step) {
      const Actor& actor = actors[step.actor];
      return actor.at > step.call || (actor.at == step.call && actor.in_call);
    };
    size_t chosen = actors.size();
    for (size_t i = 0; i < actors.size(); ++i) {
      if (!actors[i].enabled) continue;
      const bool held =
          !actors[i].in_call && std::any_of(wishes.begin(), wishes.end(), [&](const Wish& wish) {
            return wish.later == Step{i, actors[i].at} && !begun(wish.before);
          });
      if (!held) {
        chosen = i;
        break;
      }
      if (chosen == actors.size()) chosen = i;
    }
    if (chosen == actors.size()) return path;
    path.push_back({chosen, actors[chosen].at});
    state->Move(chosen);
  }
}

}  // namespace gordian::explore
