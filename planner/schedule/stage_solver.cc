#include "planner/schedule/stage_solver.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <numeric>
#include <utility>

namespace gordian::planner {
namespace {

// Checks the room for an item with `load` after it (items of lower index, sent later): they begin
// after its release and after the older items on the link.
bool Fits(const StageProblem& problem, const StageItem& item, int link, Micros load) {
  return load + item.weight[link] <= problem.deadline - std::max(item.release, problem.busy[link]);
}

struct Loads {
  Micros first = 0, second = 0;
  auto operator<=>(const Loads&) const = default;
};

// The best further gain from the items after a place: in all, and on the first link.
struct Gain {
  Micros all = -1, first = -1;
  auto operator<=>(const Gain&) const = default;
};

constexpr uint32_t kNone = UINT32_MAX;
constexpr int kWays = kMaxLinks + 1;  // on link 1, on link 2, not sent: this order breaks ties

// Dynamic program: the reachable loads before each item (forward), and what each is still worth
// (backward). Keeps loads sorted, so the next item's are a merge of three sorted runs.
class ExactSearch {
 public:
  explicit ExactSearch(const StageProblem& problem) : problem_(problem) {}

  // Returns false if there are too many states.
  bool Run() {
    const size_t n = problem_.items.size();
    layers_.resize(n + 1);
    layers_[0].loads = {Loads{}};
    size_t states = 1;
    for (size_t j = 0; j < n; ++j) {
      Expand(j);
      states += layers_[j + 1].loads.size();
      if (states > kMostStates) return false;
    }
    layers_[n].gain.assign(layers_[n].loads.size(), {0, 0});
    for (size_t j = n; j-- > 0;) {
      Layer& layer = layers_[j];
      layer.gain.resize(layer.loads.size());
      for (uint32_t i = 0; i < layer.loads.size(); ++i) {
        for (int way = 0; way < kWays; ++way) {
          layer.gain[i] = std::max(layer.gain[i], Worth(j, i, way));
        }
      }
    }
    return true;
  }

  StageChoice Read() const {
    StageChoice choice;
    uint32_t at = 0;
    for (size_t j = 0; j < problem_.items.size(); ++j) {
      int way = 0;
      while (Worth(j, at, way) != layers_[j].gain[at]) ++way;
      choice.link.push_back(way == kMaxLinks ? 0 : way + 1);
      at = layers_[j].next[at][way];
    }
    return choice;
  }

 private:
  struct Layer {
    std::vector<Loads> loads;
    std::vector<std::array<uint32_t, kWays>> next;  // indices in the next layer
    std::vector<Gain> gain;
  };

  // Where `way` leads from these loads; false if the item does not fit.
  bool After(const StageItem& item, int way, Loads* loads) const {
    if (way == kMaxLinks) return true;
    if (way >= problem_.links) return false;
    Micros& load = way == 0 ? loads->first : loads->second;
    if (!Fits(problem_, item, way, load)) return false;
    load += item.weight[way];
    return true;
  }

  void Expand(size_t j) {
    const StageItem& item = problem_.items[j];
    Layer& layer = layers_[j];
    std::vector<Loads>& to = layers_[j + 1].loads;
    layer.next.assign(layer.loads.size(), {kNone, kNone, kNone});
    std::array<uint32_t, kWays> at{};  // the next state that each way starts from
    while (true) {
      std::array<Loads, kWays> heads;
      int least = -1;
      for (int way = 0; way < kWays; ++way) {
        for (; at[way] < layer.loads.size(); ++at[way]) {
          heads[way] = layer.loads[at[way]];
          if (After(item, way, &heads[way])) break;
        }
        if (at[way] == layer.loads.size()) continue;
        if (least < 0 || heads[way] < heads[least]) least = way;
      }
      if (least < 0) return;
      if (to.empty() || to.back() != heads[least]) to.push_back(heads[least]);
      layer.next[at[least]++][least] = static_cast<uint32_t>(to.size() - 1);
    }
  }

  // The worth of going `way` with item j from state i.
  Gain Worth(size_t j, uint32_t i, int way) const {
    const uint32_t to = layers_[j].next[i][way];
    if (to == kNone) return {};
    Gain gain = layers_[j + 1].gain[to];
    if (way != kMaxLinks) gain.all += problem_.items[j].value;
    if (way == 0) gain.first += problem_.items[j].value;
    return gain;
  }

  const StageProblem& problem_;
  std::vector<Layer> layers_;
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
