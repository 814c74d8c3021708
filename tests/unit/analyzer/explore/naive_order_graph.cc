#include "tests/unit/analyzer/explore/naive_order_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace gordian::explore::testing {
namespace {

using Node = size_t;

// Of call i: it is called, its work starts, its work is done.
constexpr Node Called(size_t call) { return 3 * call; }
constexpr Node Start(size_t call) { return 3 * call + 1; }
constexpr Node Done(size_t call) { return 3 * call + 2; }

// So many arrows are looked at; that takes a second or so.
constexpr size_t kMostVisits = 100'000'000;

class Graph {
 public:
  explicit Graph(const std::vector<OrderedCall>& calls) : calls_(calls) {
    Order();
    uint32_t instances = 0;
    for (const OrderedCall& call : calls_) {
      for (const uint32_t instance : call.instances) instances = std::max(instances, instance + 1);
    }
    next_.resize(3 * calls_.size() + instances);
    for (size_t i = 0; i < calls_.size(); ++i) AddCall(i);
    AddConflicts();
  }

  Candidates Find(size_t most) {
    Candidates candidates;
    Components();
    std::set<std::tuple<size_t, uint64_t, uint64_t>> folded;
    for (const auto& [first, second] : reversals_) {
      if (component_[Done(first)] != component_[Start(second)]) continue;
      const std::tuple fold(calls_[first].group, calls_[first].fold, calls_[second].fold);
      if (folded.contains(fold)) continue;
      if (candidates.found.size() == most || visited_ > kMostVisits) {
        candidates.all = false;
        break;
      }
      if (!FindPath(first, second)) continue;
      folded.insert(fold);
      candidates.found.push_back(Cycle(first, second));
    }
    return candidates;
  }

 private:
  // Numbers the calls of each thread, and notes which calls of the rank's other threads come before
  // a call in every run.
  void Order() {
    std::map<size_t, uint32_t> made;  // by thread
    std::map<size_t, size_t> last;
    position_.resize(calls_.size());
    before_.resize(calls_.size());
    for (size_t i = 0; i < calls_.size(); ++i) {
      const OrderedCall& call = calls_[i];
      const auto join = [&](size_t earlier) {
        for (const auto& [actor, count] : before_[earlier]) {
          uint32_t& known = before_[i][actor];
          known = std::max(known, count);
        }
        uint32_t& own = before_[i][calls_[earlier].actor];
        own = std::max(own, position_[earlier] + 1);
      };
      position_[i] = made[call.actor]++;
      if (const auto previous = last.find(call.actor); previous != last.end())
        join(previous->second);
      for (const size_t earlier : call.after) join(earlier);
      last[call.actor] = i;
    }
  }
  // In every run `first` is called before `second`.
  bool Fixed(size_t first, size_t second) const {
    const auto known = before_[second].find(calls_[first].actor);
    return known != before_[second].end() && known->second > position_[first];
  }

  // That the work of `first` comes before that of `second` may be new.
  bool Reverses(size_t first, size_t second) const {
    const OrderedCall &u = calls_[first], &v = calls_[second];
    return first > second || (u.returned > v.begun && v.returned > u.begun);
  }

  void Arrow(Node from, Node to) { next_[from].push_back(to); }

  void AddCall(size_t i) {
    const OrderedCall& call = calls_[i];
    Arrow(Called(i), Start(i));
    Arrow(Start(i), Done(i));
    for (const size_t earlier : call.after) Arrow(Called(earlier), Called(i));
    for (const uint32_t instance : call.instances) {
      Arrow(Start(i), 3 * calls_.size() + instance);
      Arrow(3 * calls_.size() + instance, Done(i));
    }
    const auto previous = previous_.find(call.actor);
    if (previous != previous_.end()) {
      Arrow(Called(previous->second), Called(i));
      if (calls_[previous->second].blocks) Arrow(Done(previous->second), Called(i));
    }
    previous_[call.actor] = i;
  }

  // D(u) -> S(v) where v, or its work, may find work of u before it on a resource.
  void AddConflicts() {
    std::map<std::pair<size_t, uint32_t>, std::pair<std::vector<size_t>, std::vector<size_t>>> uses;
    for (size_t i = 0; i < calls_.size(); ++i) {
      for (const uint32_t resource : calls_[i].adds)
        uses[{calls_[i].group, resource}].first.push_back(i);
      for (const uint32_t resource : calls_[i].awaits)
        uses[{calls_[i].group, resource}].second.push_back(i);
    }
    std::set<std::pair<size_t, size_t>> done;
    for (const auto& [resource, use] : uses) {
      const auto& [adding, awaiting] = use;
      for (const size_t u : adding) {
        for (const std::vector<size_t>* const second : {&adding, &awaiting}) {
          for (const size_t v : *second) {
            if (u == v || Fixed(v, u) || !done.insert({u, v}).second) continue;
            Arrow(Done(u), Start(v));
            if (Reverses(u, v)) reversals_.emplace_back(u, v);
          }
        }
      }
    }
  }

  // Strongly connected components (R. Tarjan, SIAM Journal on Computing 1(2), 1972).
  void Components() {
    const size_t n = next_.size();
    component_.assign(n, SIZE_MAX);
    std::vector<size_t> index(n, SIZE_MAX), low(n, 0), at(n, 0);
    std::vector<Node> stack, path;
    size_t visited = 0, components = 0;
    for (Node root = 0; root < n; ++root) {
      if (index[root] != SIZE_MAX) continue;
      path.push_back(root);
      while (!path.empty()) {
        const Node node = path.back();
        if (index[node] == SIZE_MAX) {
          index[node] = low[node] = visited++;
          stack.push_back(node);
        }
        if (at[node] < next_[node].size()) {
          const Node next = next_[node][at[node]++];
          if (index[next] == SIZE_MAX) {
            path.push_back(next);
          } else if (component_[next] == SIZE_MAX) {
            low[node] = std::min(low[node], index[next]);
          }
          continue;
        }
        path.pop_back();
        if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[node]);
        if (low[node] != index[node]) continue;
        while (component_[node] == SIZE_MAX) {
          component_[stack.back()] = components;
          stack.pop_back();
        }
        ++components;
      }
    }
  }

  // `call` is `last`, or comes before it in every run.
  bool UpTo(size_t call, size_t last) const { return call == last || Fixed(call, last); }

  // The shortest path from the start of `second` to the end of `first`, left in from_, of arrows
  // that can hold where `first` is called before `second`. Returns whether there is one.
  bool FindPath(size_t first, size_t second) {
    from_.assign(next_.size(), SIZE_MAX);
    std::vector<Node> front = {Start(second)};
    from_[Start(second)] = Start(second);
    for (size_t i = 0; i < front.size() && from_[Done(first)] == SIZE_MAX; ++i) {
      const Node node = front[i];
      visited_ += next_[node].size();
      for (const Node next : next_[node]) {
        if (from_[next] != SIZE_MAX || component_[next] != component_[Done(first)]) continue;
        if (IsOrder(node, next) && UpTo(next / 3, first) && UpTo(second, node / 3)) continue;
        from_[next] = node;
        front.push_back(next);
      }
    }
    return from_[Done(first)] != SIZE_MAX;
  }

  // True for an arrow of AddConflicts.
  bool IsOrder(Node from, Node to) const {
    return from < 3 * calls_.size() && to < 3 * calls_.size() && from == Done(from / 3) &&
           to == Start(to / 3);
  }

  // After FindPath().
  Candidate Cycle(size_t first, size_t second) const {
    std::vector<Node> cycle = {Done(first)};
    while (cycle.back() != Start(second)) cycle.push_back(from_[cycle.back()]);
    cycle.push_back(Done(first));
    std::reverse(cycle.begin(), cycle.end());
    Candidate candidate;
    for (size_t i = 0; i + 1 < cycle.size(); ++i) {
      const Node node = cycle[i], next = cycle[i + 1];
      if (node >= 3 * calls_.size()) continue;
      const size_t call = node / 3;
      if (!calls_[call].instances.empty() &&
          std::find(candidate.calls.begin(), candidate.calls.end(), call) == candidate.calls.end())
        candidate.calls.push_back(call);
      if (!IsOrder(node, next)) continue;
      const size_t waits = next / 3;
      if (calls_[call].actor == calls_[waits].actor) continue;
      (Reverses(call, waits) ? candidate.reversals : candidate.as_recorded)
          .emplace_back(call, waits);
    }
    return candidate;
  }

  const std::vector<OrderedCall>& calls_;
  std::vector<uint32_t> position_;                  // of each call in its thread
  std::vector<std::map<size_t, uint32_t>> before_;  // how many calls of each thread
  std::map<size_t, size_t> previous_;               // by thread
  std::vector<std::vector<Node>> next_;
  std::vector<Reversal> reversals_;
  std::vector<size_t> component_;
  std::vector<Node> from_;  // of FindPath(): the node before each one that it reached
  size_t visited_ = 0;      // arrows
};

}  // namespace

Candidates FindNaively(const std::vector<OrderedCall>& calls, size_t most) {
  return Graph(calls).Find(most);
}

}  // namespace gordian::explore::testing
