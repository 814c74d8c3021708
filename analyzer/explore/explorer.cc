#include "analyzer/explore/explorer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace gordian::explore {
namespace {

// A way without branches is one move up to so many steps; then it may meet another one.
constexpr size_t kMostSteps = 32;
// So many states are gone on from between two calls of on_batch, and more of small ones: threads
// wait for each other behind each batch.
constexpr size_t kLeastBatch = 128, kMostBatch = 1024;
constexpr size_t kMoreBytes = 32 * 1024 * 1024;
// States that wait are shared out by their keys, so that several threads can put them there.
constexpr size_t kShards = 32;
// Fewer are put there by one thread.
constexpr size_t kLeastShared = 256;

// The part of a way that one branch added.
struct Trail {
  std::shared_ptr<const Trail> before;
  std::vector<Step> steps;

  Trail(std::shared_ptr<const Trail> before, std::vector<Step> steps)
      : before(std::move(before)), steps(std::move(steps)) {}
  // Not link by link in a recursion, which could be too deep.
  ~Trail() {
    while (before != nullptr && before.use_count() == 1) {
      std::shared_ptr<const Trail> next = before->before;
      before = std::move(next);
    }
  }
  Trail(const Trail&) = delete;
  Trail& operator=(const Trail&) = delete;
};

struct Node {
  std::unique_ptr<Explorable> state;  // null: to be made again
  size_t bytes = 0;                   // of it
  uint32_t shard = 0;
  std::shared_ptr<const Trail> trail;
  std::vector<uint32_t> asleep;  // ascending
  PreemptionCounter preemptions;
  uint64_t parent = 0;
  uint32_t branch = 0;

  auto Place() const { return std::tuple(preemptions.preemptions(), parent, branch); }
};

std::vector<Step> PathOf(const Node& node) {
  std::vector<const Trail*> trails;
  for (const Trail* trail = node.trail.get(); trail != nullptr; trail = trail->before.get())
    trails.push_back(trail);
  std::vector<Step> path;
  for (auto trail = trails.rbegin(); trail != trails.rend(); ++trail)
    path.insert(path.end(), (*trail)->steps.begin(), (*trail)->steps.end());
  return path;
}

struct Arrival {
  Node node;
  std::string key;
  size_t layer = 0;
};

using States = std::unordered_map<std::string, Node>;  // by key

// What a shard holds of all layers.
struct Tally {
  size_t kept = 0;     // bytes of states
  size_t waiting = 0;  // states
};

struct Expansion {
  std::vector<Arrival> arrivals;
  ExploreCounts counts;
};

struct Choice {
  bool end = true;  // no actor can move
  std::vector<size_t> awake;
};

}  // namespace

class Explorer::Search {
 public:
  Search(const Explorable& root, ExploreOptions options)
      : root_(root), options_(std::move(options)) {
    Node node;
    node.state = root_.Clone();
    PushAlone(Arrive(std::move(node)));
  }

  // What is left may be much.
  ~Search() {
    ForEach(kShards, [this](size_t shard) {
      for (auto& [number, layer] : layers_) States().swap(layer[shard]);
      for (size_t i = shard; i < layer_.size(); i += kShards) layer_[i].state.reset();
    });
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  bool Resume(const Frontier& frontier) {
    layers_.clear();
    layer_.clear();
    next_ = 0;
    tallies_.fill({});
    std::vector<uint32_t> path;
    for (const OpenState& open : frontier.open) {
      if (open.same > path.size()) return false;
      path.resize(open.same);
      path.insert(path.end(), open.then.begin(), open.then.end());
      Node node;
      node.state = root_.Clone();
      std::vector<Step> steps;
      std::vector<Actor> actors = node.state->Actors();
      for (const uint32_t actor : path) {
        if (actor >= actors.size() || !actors[actor].enabled) return false;
        Make(actors, actor, &node, &steps);
        actors = node.state->Actors();
      }
      for (const uint32_t actor : open.asleep) {
        if (actor >= actors.size() || !actors[actor].enabled) return false;
      }
      if (!std::is_sorted(open.asleep.begin(), open.asleep.end())) return false;
      if (node.preemptions.preemptions() != open.preemptions) return false;
      node.trail = std::make_shared<const Trail>(nullptr, std::move(steps));
      node.asleep = open.asleep;
      node.parent = open.parent;
      node.branch = open.branch;
      PushAlone(Arrive(std::move(node)));
    }
    counts_ = frontier.counts;
    return true;
  }

  bool Run() {
    while (next_ < layer_.size() || !layers_.empty()) {
      if (next_ == layer_.size()) NextLayer();
      const size_t left = options_.max_states - std::min(options_.max_states, counts_.states);
      if (left == 0) return false;
      const size_t count = std::min(BatchSize(), left);
      Take(ExpandAll(count));
      counts_.states += count;
      next_ += count;
      if (options_.on_batch && !options_.on_batch(counts_, Open())) return Open() == 0;
    }
    return true;
  }

  const ExploreCounts& counts() const { return counts_; }

  Frontier Save() const {
    std::vector<const Node*> nodes;
    for (size_t i = next_; i < layer_.size(); ++i) nodes.push_back(&layer_[i]);
    for (const auto& [number, layer] : layers_) {
      for (const States& states : layer) {
        for (const auto& [key, node] : states) nodes.push_back(&node);
      }
    }
    // Siblings come one behind the other, with most of their way in common.
    std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) {
      return std::tie(a->parent, a->branch) < std::tie(b->parent, b->branch);
    });
    Frontier frontier{.open = {}, .counts = counts_};
    std::vector<Step> before;
    for (const Node* const node : nodes) {
      std::vector<Step> path = PathOf(*node);
      const auto [differs, there] =
          std::mismatch(path.begin(), path.end(), before.begin(), before.end());
      OpenState& open = frontier.open.emplace_back();
      open.same = static_cast<size_t>(differs - path.begin());
      for (auto step = differs; step != path.end(); ++step)
        open.then.push_back(static_cast<uint32_t>(step->actor));
      open.asleep = node->asleep;
      open.preemptions = node->preemptions.preemptions();
      open.parent = node->parent;
      open.branch = node->branch;
      before = std::move(path);
    }
    return frontier;
  }

 private:
  size_t Waiting() const {
    return std::accumulate(tallies_.begin(), tallies_.end(), size_t{0},
                           [](size_t sum, const Tally& tally) { return sum + tally.waiting; });
  }
  size_t Open() const { return layer_.size() - next_ + Waiting(); }
  bool Bounded() const { return options_.max_preemptions.has_value(); }

  bool Dependent(const Actor& a, const Actor& b) const {
    return a.group == b.group && (Bounded() || Depend(a.next, b.next));
  }

  // Takes, of the source sets that each enabled actor needs, the one with the fewest actors that
  // are awake; without any, all enabled actors.
  Choice Choose(const std::vector<Actor>& actors, const std::vector<uint32_t>& asleep) const {
    const auto sleeps = [&](size_t actor) {
      return std::binary_search(asleep.begin(), asleep.end(), static_cast<uint32_t>(actor));
    };
    Choice choice;
    bool found = false;
    for (size_t first = 0; first < actors.size(); ++first) {
      if (!actors[first].enabled) continue;
      choice.end = false;
      std::vector<size_t> set = {first};
      bool closed = true;
      for (size_t i = 0; i < set.size() && closed; ++i) {
        for (size_t other = 0; other < actors.size(); ++other) {
          if (actors[other].finished || actors[other].group != actors[first].group ||
              std::find(set.begin(), set.end(), other) != set.end() ||
              (!Bounded() && !Depend(actors[set[i]].next, actors[other].rest)))
            continue;
          // What a blocked actor does once others free it, cannot be ordered here.
          closed &= actors[other].enabled;
          set.push_back(other);
        }
      }
      if (!closed) continue;
      std::erase_if(set, sleeps);
      if (found && choice.awake.size() <= set.size()) continue;
      found = true;
      choice.awake = std::move(set);
      if (choice.awake.size() <= 1) break;
    }
    if (found) {
      std::sort(choice.awake.begin(), choice.awake.end());
      return choice;
    }
    for (size_t i = 0; i < actors.size(); ++i) {
      if (actors[i].enabled && !sleeps(i)) choice.awake.push_back(i);
    }
    return choice;
  }

  // A bound forbids the move.
  bool Cuts(const std::vector<Actor>& actors, size_t actor, const Node& node) const {
    if (Bounded() &&
        node.preemptions.preemptions() + (node.preemptions.Preempts(actors, actor) ? 1 : 0) >
            *options_.max_preemptions)
      return true;
    if (!options_.max_calls || actors[actor].in_call) return false;
    size_t begun = 0;
    for (const Actor& each : actors) begun += each.at + (each.in_call ? 1 : 0);
    return begun >= *options_.max_calls;
  }

  static void Make(const std::vector<Actor>& actors, size_t actor, Node* node,
                   std::vector<Step>* steps) {
    node->preemptions.Count(actors, actor);
    steps->push_back({actor, actors[actor].at});
    node->state->Move(actor);
  }

  // `before`: branches of the same state that came before this one.
  std::vector<uint32_t> Asleep(const std::vector<Actor>& actors, size_t actor,
                               const std::vector<uint32_t>& asleep, const size_t* before,
                               size_t count) const {
    std::vector<uint32_t> then;
    for (const uint32_t each : asleep) {
      if (!Dependent(actors[each], actors[actor])) then.push_back(each);
    }
    for (size_t i = 0; i < count; ++i) {
      if (!Dependent(actors[before[i]], actors[actor]))
        then.push_back(static_cast<uint32_t>(before[i]));
    }
    std::sort(then.begin(), then.end());
    return then;
  }

  Arrival Arrive(Node&& node) const {
    Arrival arrival;
    const std::vector<Actor> actors = node.state->Actors();
    for (const Actor& actor : actors) arrival.layer += 2 * actor.at + (actor.in_call ? 1 : 0);
    arrival.key = node.state->Key();
    if (arrival.key.empty()) {
      // A key of its own. No machine's keys are that short.
      arrival.key = std::to_string(node.parent) + "/" + std::to_string(node.branch);
    } else if (Bounded()) {
      arrival.key += node.preemptions.Key(actors);
    }
    node.bytes = node.state->Bytes();
    node.shard = static_cast<uint32_t>(std::hash<std::string>()(arrival.key) % kShards);
    arrival.node = std::move(node);
    return arrival;
  }

  void ForEach(size_t count, const std::function<void(size_t)>& work) const {
    if (options_.for_each) {
      options_.for_each(count, work);
    } else {
      for (size_t i = 0; i < count; ++i) work(i);
    }
  }

  // Changes nothing but its shard. Returns whether the state is a new one.
  bool Push(Arrival&& arrival, std::vector<States>* layer) {
    Node& node = arrival.node;
    Tally& tally = tallies_[node.shard];
    const auto [known, added] = (*layer)[node.shard].try_emplace(std::move(arrival.key));
    if (added) {
      ++tally.waiting;
      if (tally.kept + node.bytes > options_.max_bytes / kShards) {
        node.state.reset();
      } else {
        tally.kept += node.bytes;
      }
      known->second = std::move(node);
      return true;
    }
    Node& there = known->second;
    std::vector<uint32_t> both;
    std::set_intersection(there.asleep.begin(), there.asleep.end(), node.asleep.begin(),
                          node.asleep.end(), std::back_inserter(both));
    if (node.Place() < there.Place()) {
      // Either both keep a state, or none.
      if (there.state == nullptr) {
        node.state.reset();
      } else {
        tally.kept += node.bytes - there.bytes;
      }
      there = std::move(node);
    } else {
      node.state.reset();
    }
    there.asleep = std::move(both);
    return false;
  }

  std::vector<States>* LayerAt(size_t number) {
    return &layers_.try_emplace(number, kShards).first->second;
  }

  void PushAlone(Arrival&& arrival) {
    std::vector<States>* const layer = LayerAt(arrival.layer);
    if (!Push(std::move(arrival), layer)) ++counts_.merged;
  }

  void NextLayer() {
    std::vector<States>& states = layers_.begin()->second;
    std::vector<std::vector<Node>> nodes(kShards);
    const auto take = [&](size_t shard) {
      for (auto& [key, node] : states[shard]) nodes[shard].push_back(std::move(node));
      States().swap(states[shard]);
    };
    size_t count = 0;
    for (const States& shard : states) count += shard.size();
    if (count >= kLeastShared) {
      ForEach(kShards, take);
    } else {
      for (size_t shard = 0; shard < kShards; ++shard) take(shard);
    }
    layers_.erase(layers_.begin());
    layer_.clear();
    next_ = 0;
    layer_.reserve(count);
    for (size_t shard = 0; shard < kShards; ++shard) {
      tallies_[shard].waiting -= nodes[shard].size();
      std::move(nodes[shard].begin(), nodes[shard].end(), std::back_inserter(layer_));
    }
    std::sort(layer_.begin(), layer_.end(),
              [](const Node& a, const Node& b) { return a.Place() < b.Place(); });
  }

  void Take(std::vector<Expansion>&& expansions) {
    struct Placed {
      Arrival* arrival = nullptr;
      std::vector<States>* layer = nullptr;
    };
    std::vector<std::vector<Placed>> placed(kShards);
    size_t arrivals = 0;
    for (Expansion& expansion : expansions) {
      counts_.ends += expansion.counts.ends;
      counts_.asleep += expansion.counts.asleep;
      counts_.cut += expansion.counts.cut;
      arrivals += expansion.arrivals.size();
      for (Arrival& arrival : expansion.arrivals)
        placed[arrival.node.shard].push_back({&arrival, LayerAt(arrival.layer)});
    }
    std::array<size_t, kShards> merged{};
    const auto push = [&](size_t shard) {
      for (const Placed& each : placed[shard])
        merged[shard] += Push(std::move(*each.arrival), each.layer) ? 0 : 1;
    };
    if (arrivals >= kLeastShared) {
      ForEach(kShards, push);
    } else {
      for (size_t shard = 0; shard < kShards; ++shard) push(shard);
    }
    counts_.merged += std::accumulate(merged.begin(), merged.end(), size_t{0});
  }

  size_t BatchSize() const {
    const size_t left = layer_.size() - next_;
    size_t count = std::min(left, kLeastBatch), bytes = 0;
    for (; count < std::min(left, kMostBatch); ++count) {
      bytes += layer_[next_ + count].bytes;
      if (bytes > kMoreBytes) break;
    }
    return count;
  }

  // The next `count` states of the layer at hand.
  std::vector<Expansion> ExpandAll(size_t count) {
    for (size_t i = next_; i < next_ + count; ++i) {
      if (layer_[i].state != nullptr) tallies_[layer_[i].shard].kept -= layer_[i].bytes;
    }
    std::vector<Expansion> expansions(count);
    ForEach(count, [&](size_t i) {
      expansions[i] = Expand(std::move(layer_[next_ + i]), counts_.states + i);
    });
    return expansions;
  }

  Expansion Expand(Node node, uint64_t number) const {
    Expansion expansion;
    if (node.state == nullptr) {
      node.state = root_.Clone();
      for (const Step& step : PathOf(node)) node.state->Move(step.actor);
    }
    const std::vector<Actor> actors = node.state->Actors();
    const Choice choice = Choose(actors, node.asleep);
    if (choice.end) {
      ++expansion.counts.ends;
      if (options_.on_end)
        options_.on_end(number, *node.state, PathOf(node), node.preemptions.preemptions());
      return expansion;
    }
    if (choice.awake.empty()) ++expansion.counts.asleep;
    for (size_t i = 0; i < choice.awake.size(); ++i) {
      const size_t actor = choice.awake[i];
      if (Cuts(actors, actor, node)) {
        ++expansion.counts.cut;
        continue;
      }
      Node next;
      next.state = i + 1 == choice.awake.size() ? std::move(node.state) : node.state->Clone();
      next.asleep = Asleep(actors, actor, node.asleep, choice.awake.data(), i);
      next.preemptions = node.preemptions;
      next.parent = number;
      next.branch = static_cast<uint32_t>(i);
      std::vector<Step> steps;
      Make(actors, actor, &next, &steps);
      if (!GoOn(&next, &steps, &expansion.counts)) continue;
      next.trail = std::make_shared<const Trail>(node.trail, std::move(steps));
      expansion.arrivals.push_back(Arrive(std::move(next)));
    }
    return expansion;
  }

  // Makes moves as long as there is one choice. Returns whether there is more to do then.
  bool GoOn(Node* node, std::vector<Step>* steps, ExploreCounts* counts) const {
    while (true) {
      const std::vector<Actor> actors = node->state->Actors();
      const Choice choice = Choose(actors, node->asleep);
      if (choice.end) return true;
      if (choice.awake.empty()) {
        ++counts->asleep;
        return false;
      }
      if (choice.awake.size() > 1 || steps->size() == kMostSteps) return true;
      const size_t actor = choice.awake.front();
      if (Cuts(actors, actor, *node)) {
        ++counts->cut;
        return false;
      }
      node->asleep = Asleep(actors, actor, node->asleep, nullptr, 0);
      Make(actors, actor, node, steps);
    }
  }

  const Explorable& root_;
  const ExploreOptions options_;
  ExploreCounts counts_;
  std::array<Tally, kShards> tallies_{};
  // By how many moves the state's actors have made, and by shard.
  std::map<size_t, std::vector<States>> layers_;
  std::vector<Node> layer_;  // the one at hand, from next_ on
  size_t next_ = 0;
};

Explorer::Explorer(const Explorable& root, ExploreOptions options)
    : search_(std::make_unique<Search>(root, std::move(options))) {}
Explorer::~Explorer() = default;
bool Explorer::Resume(const Frontier& frontier) { return search_->Resume(frontier); }
bool Explorer::Run() { return search_->Run(); }
const ExploreCounts& Explorer::counts() const { return search_->counts(); }
Frontier Explorer::Save() const { return search_->Save(); }

}  // namespace gordian::explore
