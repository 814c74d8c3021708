#include "analyzer/explore/collective_order_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

namespace gordian::explore {
namespace {

using Node = uint32_t;
constexpr uint32_t kNone = UINT32_MAX;

// Of call i: it is called, its work starts, its work is done.
constexpr Node Called(uint32_t call) { return 3 * call; }
constexpr Node Start(uint32_t call) { return 3 * call + 1; }
constexpr Node Done(uint32_t call) { return 3 * call + 2; }

// So many arrows are looked at; that takes a second or so.
constexpr size_t kMostVisits = 100'000'000;

class Graph {
 public:
  explicit Graph(const std::vector<OrderedCall>& calls)
      : calls_(calls), count_(static_cast<uint32_t>(calls.size())) {
    Order();
    NoteUses();
    uint32_t instances = 0;
    for (const OrderedCall& call : calls_) {
      for (const uint32_t instance : call.instances) instances = std::max(instances, instance + 1);
    }
    nodes_ = 3 * count_ + instances;
    AddArrows();
  }

  Candidates Find(size_t most) {
    Components();
    NoteClasses();
    Candidates candidates;
    for (uint32_t first = 0; first < count_; ++first) {
      if (!FindFrom(first, most, &candidates)) break;
    }
    return candidates;
  }

 private:
  // A thread that uses a resource.
  struct Uses {
    uint32_t actor = 0;
    std::vector<uint32_t> adds;                             // positions in the thread, ascending
    std::vector<uint32_t> awaits;                           // ... of calls that do not add as well
    uint32_t reached_adds = kNone, reached_awaits = kNone;  // FindPath(): all from there on are
  };
  // Calls of a thread that fold alike, use the same resources, and start in one component.
  struct Class {
    uint32_t actor = 0, fold = 0;
    std::vector<uint32_t> calls;
  };

  // Numbers the calls of each thread, and notes how many calls of each of the rank's threads come
  // before a call in every run (a vector clock).
  void Order() {
    size_t actors = 0;
    for (const OrderedCall& call : calls_) actors = std::max(actors, call.actor + 1);
    threads_.resize(actors);
    place_.resize(actors);
    std::unordered_map<size_t, uint32_t> in_group;
    position_.resize(count_);
    for (uint32_t i = 0; i < count_; ++i) {
      std::vector<uint32_t>& own = threads_[calls_[i].actor];
      if (own.empty()) place_[calls_[i].actor] = in_group[calls_[i].group]++;
      position_[i] = static_cast<uint32_t>(own.size());
      own.push_back(i);
    }
    width_ = 0;
    for (const auto& [group, threads] : in_group) width_ = std::max(width_, threads);
    clocks_.assign(size_t{count_} * width_, 0);
    for (uint32_t i = 0; i < count_; ++i) {
      const auto join = [&](uint32_t earlier) {
        for (uint32_t t = 0; t < width_; ++t)
          ClockOf(i)[t] = std::max(ClockOf(i)[t], ClockOf(earlier)[t]);
        uint32_t& own = ClockOf(i)[place_[calls_[earlier].actor]];
        own = std::max(own, position_[earlier] + 1);
      };
      if (position_[i] > 0) join(threads_[calls_[i].actor][position_[i] - 1]);
      for (const size_t earlier : calls_[i].after) join(static_cast<uint32_t>(earlier));
    }
  }
  uint32_t* ClockOf(uint32_t call) { return &clocks_[size_t{call} * width_]; }
  const uint32_t* ClockOf(uint32_t call) const { return &clocks_[size_t{call} * width_]; }

  // Returns the first call of a thread of its rank that does not come before `call` in every run.
  uint32_t Bound(uint32_t call, uint32_t actor) const {
    if (calls_[call].actor == actor) return position_[call] + 1;
    return ClockOf(call)[place_[actor]];
  }
  // In every run `first` is called before `second`. Both are of one rank.
  bool Fixed(uint32_t first, uint32_t second) const {
    return ClockOf(second)[place_[calls_[first].actor]] > position_[first];
  }

  // Calls of one rank: that the work of `first` comes before that of `second` may be new.
  bool Reverses(uint32_t first, uint32_t second) const {
    const OrderedCall &u = calls_[first], &v = calls_[second];
    return first > second || (u.returned > v.begun && v.returned > u.begun);
  }

  void NoteUses() {
    std::map<std::pair<size_t, uint32_t>, uint32_t> numbers;  // by rank and resource
    adds_.resize(count_);
    for (uint32_t i = 0; i < count_; ++i) {
      const OrderedCall& call = calls_[i];
      const auto use = [&](uint32_t resource, bool adds) {
        const auto [number, added] =
            numbers.try_emplace({call.group, resource}, static_cast<uint32_t>(uses_.size()));
        if (added) uses_.emplace_back();
        std::vector<Uses>& users = uses_[number->second];
        auto user = std::find_if(users.begin(), users.end(),
                                 [&](const Uses& of) { return of.actor == call.actor; });
        if (user == users.end())
          user = users.insert(user, {.actor = static_cast<uint32_t>(call.actor)});
        std::vector<uint32_t>& list = adds ? user->adds : user->awaits;
        const bool there = (!user->adds.empty() && user->adds.back() == position_[i]) ||
                           (!list.empty() && list.back() == position_[i]);
        if (!there) list.push_back(position_[i]);
        return number->second;
      };
      for (const uint32_t resource : call.adds) {
        const uint32_t number = use(resource, true);
        if (std::find(adds_[i].begin(), adds_[i].end(), number) == adds_[i].end())
          adds_[i].push_back(number);
      }
      for (const uint32_t resource : call.awaits) use(resource, false);
    }
  }

  void Arrow(Node from, Node to) { arrows_.emplace_back(from, to); }

  void AddArrows() {
    for (uint32_t i = 0; i < count_; ++i) {
      const OrderedCall& call = calls_[i];
      Arrow(Called(i), Start(i));
      Arrow(Start(i), Done(i));
      for (const size_t earlier : call.after)
        Arrow(Called(static_cast<uint32_t>(earlier)), Called(i));
      for (const uint32_t instance : call.instances) {
        Arrow(Start(i), 3 * count_ + instance);
        Arrow(3 * count_ + instance, Done(i));
      }
      if (position_[i] == 0) continue;
      const uint32_t previous = threads_[call.actor][position_[i] - 1];
      Arrow(Called(previous), Called(i));
      if (calls_[previous].blocks) Arrow(Done(previous), Called(i));
    }
    fixed_arrows_ = Sorted();
    AddConflicts();
    all_arrows_ = Sorted();
    arrows_ = {};
  }

  // D(u) -> S(v) where v, or its work, may find work of u before it on a resource. Of these calls
  // of a thread, each adding one leads to the next and to the waits until then: so an arrow to the
  // first, and to the waits before it, reaches them all.
  void AddConflicts() {
    for (uint32_t u = 0; u < count_; ++u) {
      for (const uint32_t resource : adds_[u]) {
        for (const Uses& uses : uses_[resource]) {
          const uint32_t bound = Bound(u, uses.actor);
          const std::vector<uint32_t>& thread = threads_[uses.actor];
          const auto adding = std::lower_bound(uses.adds.begin(), uses.adds.end(), bound);
          if (adding != uses.adds.end()) Arrow(Done(u), Start(thread[*adding]));
          for (auto awaiting = std::lower_bound(uses.awaits.begin(), uses.awaits.end(), bound);
               awaiting != uses.awaits.end() && (adding == uses.adds.end() || *awaiting < *adding);
               ++awaiting) {
            Arrow(Done(u), Start(thread[*awaiting]));
            // All that the thread calls later is behind this one.
            if (calls_[thread[*awaiting]].blocks) break;
          }
        }
      }
    }
  }

  // Arrows by the node that they begin at: those of node n are to[first[n]] up to to[first[n + 1]].
  struct Arrows {
    std::vector<uint32_t> first;
    std::vector<Node> to;
  };
  Arrows Sorted() const {
    Arrows sorted;
    sorted.first.assign(nodes_ + 1, 0);
    for (const auto& [from, to] : arrows_) ++sorted.first[from + 1];
    for (uint32_t i = 0; i < nodes_; ++i) sorted.first[i + 1] += sorted.first[i];
    sorted.to.resize(arrows_.size());
    std::vector<uint32_t> next(sorted.first.begin(), sorted.first.end() - 1);
    for (const auto& [from, to] : arrows_) sorted.to[next[from]++] = to;
    return sorted;
  }

  // Strongly connected components (R. Tarjan, SIAM Journal on Computing 1(2), 1972).
  void Components() {
    component_.assign(nodes_, kNone);
    std::vector<uint32_t> index(nodes_, kNone), low(nodes_, 0);
    std::vector<uint32_t> at(all_arrows_.first.begin(), all_arrows_.first.end() - 1);
    std::vector<Node> stack, path;
    uint32_t visited = 0, components = 0;
    for (Node root = 0; root < nodes_; ++root) {
      if (index[root] != kNone) continue;
      path.push_back(root);
      while (!path.empty()) {
        const Node node = path.back();
        if (index[node] == kNone) {
          index[node] = low[node] = visited++;
          stack.push_back(node);
        }
        if (at[node] < all_arrows_.first[node + 1]) {
          const Node next = all_arrows_.to[at[node]++];
          if (index[next] == kNone) {
            path.push_back(next);
          } else if (component_[next] == kNone) {
            low[node] = std::min(low[node], index[next]);
          }
          continue;
        }
        path.pop_back();
        if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[node]);
        if (low[node] != index[node]) continue;
        while (component_[node] == kNone) {
          component_[stack.back()] = components;
          stack.pop_back();
        }
        ++components;
      }
    }
    all_arrows_ = {};
  }

  // Folds each thread's calls, of those that are in a cycle.
  void NoteClasses() {
    std::vector<uint32_t> sizes;
    for (const uint32_t component : component_) {
      if (sizes.size() <= component) sizes.resize(component + 1, 0);
      ++sizes[component];
    }
    std::map<std::pair<uint64_t, std::vector<uint32_t>>, uint32_t> kinds;  // by fold and resources
    std::unordered_map<uint64_t, uint32_t> folds;
    std::map<std::tuple<size_t, uint32_t, uint32_t>, uint32_t> classes, doers;
    fold_.resize(count_);
    doer_.assign(count_, kNone);
    for (uint32_t i = 0; i < count_; ++i) {
      const uint32_t start = component_[Start(i)], done = component_[Done(i)];
      if (sizes[start] == 1 && sizes[done] == 1) continue;
      const OrderedCall& call = calls_[i];
      fold_[i] = folds.try_emplace(call.fold, static_cast<uint32_t>(folds.size())).first->second;
      std::vector<uint32_t> resources = call.adds;
      resources.push_back(kNone);
      resources.insert(resources.end(), call.awaits.begin(), call.awaits.end());
      const uint32_t kind =
          kinds.try_emplace({call.fold, std::move(resources)}, static_cast<uint32_t>(kinds.size()))
              .first->second;
      if (sizes[start] > 1) {
        const auto [known, added] =
            classes.try_emplace({call.actor, kind, start}, static_cast<uint32_t>(classes_.size()));
        if (added) {
          classes_.push_back({static_cast<uint32_t>(call.actor), fold_[i], {}});
          of_component_[{call.group, start}].push_back(known->second);
        }
        classes_[known->second].calls.push_back(i);
      }
      if (sizes[done] > 1)
        doer_[i] = doers.try_emplace({call.actor, kind, done}, static_cast<uint32_t>(doers.size()))
                       .first->second;
    }
    open_.resize(doers.size());
  }

  // The classes of other threads that a call may come before, and be in a cycle then.
  std::vector<uint32_t>& OpenOf(uint32_t call) {
    auto& [known, open] = open_[doer_[call]];
    if (known) return open;
    known = true;
    const auto classes = of_component_.find({calls_[call].group, component_[Done(call)]});
    if (classes == of_component_.end()) return open;
    for (const uint32_t one : classes->second) {
      if (classes_[one].actor != calls_[call].actor && Conflict(call, classes_[one].calls.front()))
        open.push_back(one);
    }
    return open;
  }

  // The cycles in which `first` comes before a call that it came after. Returns false once there
  // may be more than are looked for.
  bool FindFrom(uint32_t first, size_t most, Candidates* candidates) {
    if (doer_[first] == kNone) return true;
    const OrderedCall& call = calls_[first];
    std::vector<uint32_t>& open = OpenOf(first);
    for (size_t i = 0; i < open.size();) {
      const Class& one = classes_[open[i]];
      const std::tuple fold(call.group, fold_[first], one.fold);
      bool found = found_.contains(fold);
      const auto begin = std::lower_bound(
          one.calls.begin(), one.calls.end(), Bound(first, one.actor),
          [this](uint32_t of, uint32_t position) { return position_[of] < position; });
      for (auto second = begin; !found && second != one.calls.end() &&
                                (*second < first || calls_[*second].begun < call.returned);
           ++second) {
        if (!Reverses(first, *second)) continue;
        if (candidates->found.size() == most || visited_ > kMostVisits) {
          candidates->all = false;
          return false;
        }
        found = FindPath(first, *second);
        if (!found) continue;
        found_.insert(fold);
        candidates->found.push_back(Cycle(first, *second));
      }
      if (found) {
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    return true;
  }

  // The first adds to what the second adds to or waits for.
  bool Conflict(uint32_t first, uint32_t second) const {
    const OrderedCall &u = calls_[first], &v = calls_[second];
    return std::any_of(u.adds.begin(), u.adds.end(), [&](uint32_t resource) {
      return std::find(v.adds.begin(), v.adds.end(), resource) != v.adds.end() ||
             std::find(v.awaits.begin(), v.awaits.end(), resource) != v.awaits.end();
    });
  }

  // `call` is `last`, or comes before it in every run. Both are of one rank.
  bool UpTo(uint32_t call, uint32_t last) const { return call == last || Fixed(call, last); }

  // The shortest path from the start of `second` to the end of `first`, left in from_, of arrows
  // that can hold where `first` is called before `second`. Returns whether there is one. The calls
  // of a thread that an order's arrows lead to are the last ones on the resource, so that each is
  // looked at once.
  bool FindPath(uint32_t first, uint32_t second) {
    if (from_.empty()) from_.assign(nodes_, kNone);
    for (const Node node : front_) from_[node] = kNone;
    for (Uses* const uses : touched_) uses->reached_adds = uses->reached_awaits = kNone;
    touched_.clear();
    front_ = {Start(second)};
    from_[Start(second)] = Start(second);
    const uint32_t component = component_[Done(first)];
    const auto reach = [&](Node from, Node to) {
      if (from_[to] != kNone || component_[to] != component) return;
      from_[to] = from;
      front_.push_back(to);
    };
    for (size_t i = 0; i < front_.size() && from_[Done(first)] == kNone; ++i) {
      const Node node = front_[i];
      for (uint32_t at = fixed_arrows_.first[node]; at < fixed_arrows_.first[node + 1]; ++at)
        reach(node, fixed_arrows_.to[at]);
      visited_ += 1 + fixed_arrows_.first[node + 1] - fixed_arrows_.first[node];
      if (node >= 3 * count_ || node % 3 != 2) continue;
      const uint32_t call = node / 3;
      // Work behind that of `second` is not before that of `first`.
      const bool behind = calls_[call].group == calls_[first].group && UpTo(second, call);
      for (const uint32_t resource : adds_[call]) {
        for (Uses& uses : uses_[resource]) {
          uint32_t bound = Bound(call, uses.actor);
          if (behind) bound = std::max(bound, Bound(first, uses.actor));
          if (uses.reached_adds == kNone && uses.reached_awaits == kNone) touched_.push_back(&uses);
          const auto suffix = [&](const std::vector<uint32_t>& positions, uint32_t* reached) {
            const auto begin = std::lower_bound(positions.begin(), positions.end(), bound);
            const auto end = *reached == kNone ? positions.end() : positions.begin() + *reached;
            for (auto position = begin; position < end; ++position)
              reach(node, Start(threads_[uses.actor][*position]));
            *reached = std::min(*reached, static_cast<uint32_t>(begin - positions.begin()));
            visited_ += begin < end ? static_cast<size_t>(end - begin) : 0;
          };
          suffix(uses.adds, &uses.reached_adds);
          suffix(uses.awaits, &uses.reached_awaits);
        }
      }
    }
    return from_[Done(first)] != kNone;
  }

  // True for an arrow of AddConflicts.
  bool IsOrder(Node from, Node to) const {
    return from < 3 * count_ && to < 3 * count_ && from == Done(from / 3) && to == Start(to / 3);
  }

  // After FindPath().
  Candidate Cycle(uint32_t first, uint32_t second) const {
    std::vector<Node> cycle = {Done(first)};
    while (cycle.back() != Start(second)) cycle.push_back(from_[cycle.back()]);
    cycle.push_back(Done(first));
    std::reverse(cycle.begin(), cycle.end());
    Candidate candidate;
    for (size_t i = 0; i + 1 < cycle.size(); ++i) {
      const Node node = cycle[i], next = cycle[i + 1];
      if (node >= 3 * count_) continue;
      const size_t call = node / 3;
      if (!calls_[call].instances.empty() &&
          std::find(candidate.calls.begin(), candidate.calls.end(), call) == candidate.calls.end())
        candidate.calls.push_back(call);
      if (!IsOrder(node, next)) continue;
      const size_t waits = next / 3;
      if (calls_[call].actor == calls_[waits].actor) continue;
      (Reverses(node / 3, next / 3) ? candidate.reversals : candidate.as_recorded)
          .emplace_back(call, waits);
    }
    return candidate;
  }

  const std::vector<OrderedCall>& calls_;
  const uint32_t count_;
  uint32_t nodes_ = 0;
  uint32_t width_ = 0;                          // most threads of a rank
  std::vector<uint32_t> position_;              // of each call in its thread
  std::vector<std::vector<uint32_t>> threads_;  // calls of each
  std::vector<uint32_t> place_;                 // of each thread in its rank
  std::vector<uint32_t> clocks_;                // by call and thread of the rank
  std::vector<std::vector<Uses>> uses_;         // of each resource of each rank
  std::vector<std::vector<uint32_t>> adds_;     // of each call: indices of uses_
  std::vector<std::pair<Node, Node>> arrows_;   // while they are made
  Arrows fixed_arrows_, all_arrows_;            // without and with those of AddConflicts()
  std::vector<uint32_t> component_;
  std::vector<uint32_t> fold_;  // of each call, numbered
  std::vector<uint32_t> doer_;  // of each call: index into open_; kNone: its end is in no cycle
  std::vector<Class> classes_;
  std::map<std::pair<size_t, uint32_t>, std::vector<uint32_t>> of_component_;  // ... and of a rank
  // For each set of a thread's calls that fold alike, use the same and end in one component:
  // whether the graph has looked for a cycle there, and the classes that have none so far.
  std::vector<std::pair<bool, std::vector<uint32_t>>> open_;
  std::set<std::tuple<size_t, uint32_t, uint32_t>> found_;
  std::vector<Node> from_;   // of FindPath(): the node before each one that it reached
  std::vector<Node> front_;  // ... those that it reached
  std::vector<Uses*> touched_;
  size_t visited_ = 0;  // arrows
};

}  // namespace

Candidates FindCandidates(const std::vector<OrderedCall>& calls, size_t most) {
  return Graph(calls).Find(most);
}

}  // namespace gordian::explore
