#include "planner/stage_solver.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace gordian::planner {
namespace {

// What an item that is sent with `load` behind it (items of lower index, sent later) must leave room
// for: its own release, or the older items on the link, whichever ends last.
bool Fits(const StageProblem& problem, const StageItem& item, int link, Micros load) {
  return load + item.weight[link] <=
         problem.deadline - std::max(item.release, problem.busy[link]);
}

struct Loads {
  Micros first = 0, second = 0;
  bool operator==(const Loads&) const = default;
};
struct LoadsHash {
  size_t operator()(const Loads& loads) const {
    uint64_t h = static_cast<uint64_t>(loads.first) * 0x9E3779B97F4A7C15u;
    h ^= static_cast<uint64_t>(loads.second) + 0x7F4A7C15u + (h << 6) + (h >> 2);
    return static_cast<size_t>(h * 0xBF58476D1CE4E5B9u);
  }
};

// What the items from one place on can still bring: in all, and on the first link.
struct Gain {
  Micros all = -1, first = -1;
  bool Better(const Gain& other) const {
    return all != other.all ? all > other.all : first > other.first;
  }
  bool operator==(const Gain&) const = default;
};

class ExactSearch {
 public:
  explicit ExactSearch(const StageProblem& problem)
      : problem_(problem), layers_(problem.items.size()) {}

  // False: too many states.
  bool Run() {
    // Forward: which loads can be reached before each item. Backward: what each is worth.
    const size_t n = problem_.items.size();
    std::unordered_map<Loads, Gain, LoadsHash> reached{{Loads{}, Gain{}}};
    size_t states = 1;
    for (size_t j = 0; j < n; ++j) {
      layers_[j] = reached;
      std::unordered_map<Loads, Gain, LoadsHash> next = reached;
      for (const auto& [loads, unused] : reached) {
        for (int link = 0; link < problem_.links; ++link) {
          if (const Loads* to = After(j, loads, link)) next.emplace(*to, Gain{});
        }
      }
      reached = std::move(next);
      states += reached.size();
      if (states > kMostStates) return false;
    }
    for (auto& [loads, gain] : reached) gain = {0, 0};
    last_ = std::move(reached);
    for (size_t j = n; j-- > 0;) {
      for (auto& [loads, gain] : layers_[j]) {
        gain = At(j + 1, loads);
        for (int link = 0; link < problem_.links; ++link) {
          const Gain sent = Sent(j, loads, link);
          if (sent.Better(gain)) gain = sent;
        }
      }
    }
    return true;
  }

  StageChoice Read() const {
    StageChoice choice;
    Loads loads;
    for (size_t j = 0; j < problem_.items.size(); ++j) {
      const Gain best = At(j, loads);
      int chosen = 0;
      for (int link = 0; link < problem_.links && chosen == 0; ++link) {
        if (Sent(j, loads, link) == best) chosen = link + 1;
      }
      if (chosen != 0) loads = *After(j, loads, chosen - 1);
      choice.link.push_back(chosen);
    }
    return choice;
  }

 private:
  // Where sending item j on `link` leads; null: it does not fit.
  const Loads* After(size_t j, const Loads& loads, int link) const {
    const StageItem& item = problem_.items[j];
    if (!Fits(problem_, item, link, link == 0 ? loads.first : loads.second)) return nullptr;
    after_ = loads;
    (link == 0 ? after_.first : after_.second) += item.weight[link];
    return &after_;
  }

  Gain At(size_t j, const Loads& loads) const {
    return (j == layers_.size() ? last_ : layers_[j]).at(loads);
  }

  Gain Sent(size_t j, const Loads& loads, int link) const {
    const Loads* to = After(j, loads, link);
    if (to == nullptr) return {};
    Gain gain = At(j + 1, *to);
    gain.all += problem_.items[j].value;
    if (link == 0) gain.first += problem_.items[j].value;
    return gain;
  }

  const StageProblem& problem_;
  std::vector<std::unordered_map<Loads, Gain, LoadsHash>> layers_;
  std::unordered_map<Loads, Gain, LoadsHash> last_;
  mutable Loads after_;
};

}  // namespace

Micros StageChoice::Value(const StageProblem& problem) const {
  Micros sum = 0;
  for (size_t j = 0; j < link.size(); ++j) {
    if (link[j] != 0) sum += problem.items[j].value;
  }
  return sum;
}

bool StageChoice::All() const {
  return std::all_of(link.begin(), link.end(), [](int l) { return l != 0; });
}

bool Feasible(const StageProblem& problem, const StageChoice& choice) {
  for (int link = 0; link < problem.links; ++link) {
    Micros load = 0;
    for (size_t j = 0; j < problem.items.size(); ++j) {
      if (choice.link[j] != link + 1) continue;
      if (!Fits(problem, problem.items[j], link, load)) return false;
      load += problem.items[j].weight[link];
    }
  }
  return true;
}

StageChoice SolveGreedy(const StageProblem& problem) {
  StageChoice choice{.link = std::vector<int>(problem.items.size(), 0)};
  std::vector<size_t> longest(problem.items.size());
  std::iota(longest.begin(), longest.end(), size_t{0});
  std::stable_sort(longest.begin(), longest.end(), [&](size_t a, size_t b) {
    return problem.items[a].value > problem.items[b].value;
  });
  for (int link = problem.links; link >= 1; --link) {  // the slow one has the smaller capacity
    for (const size_t j : longest) {
      if (choice.link[j] != 0) continue;
      choice.link[j] = link;
      if (!Feasible(problem, choice)) choice.link[j] = 0;
    }
  }
  return choice;
}

StageChoice SolveExact(const StageProblem& problem) {
  ExactSearch search(problem);
  if (search.Run()) return search.Read();
  StageChoice greedy = SolveGreedy(problem);
  greedy.exact = false;
  return greedy;
}

StageChoice Solve(const StageProblem& problem, Solver solver) {
  return solver == Solver::kExact ? SolveExact(problem) : SolveGreedy(problem);
}

}  // namespace gordian::planner
