#include "analyzer/model/waits/cycle_finder.h"

#include <algorithm>
#include <limits>
#include <queue>

namespace gordian::model {
namespace {

// Costs of the steps of a witness, each kind worth more than any number of the next.
constexpr uint64_t kStep = 1;
constexpr uint64_t kRendezvous = 1'000;
constexpr uint64_t kNotCalledStep = 1'000'000;
constexpr uint64_t kDiscouraged = 1'000'000'000;
constexpr uint64_t kFar = std::numeric_limits<uint64_t>::max();

// A search is linear in the start's component; more starts than this find no shorter cycle worth
// the time.
constexpr size_t kMaxStarts = 256;
constexpr size_t kMaxVisits = 2'000'000;

uint64_t Cost(const WaitForGraph& graph, const WaitNode& from, const WaitNode::Edge& edge) {
  if (edge.discouraged) return kDiscouraged;
  const NodeKind to = graph.nodes()[edge.to].kind;
  if (to == NodeKind::kNotCalled && from.kind != NodeKind::kAnyProcess) return kNotCalledStep;
  if (to == NodeKind::kAnyProcess) return kNotCalledStep;
  // Nodes between a waiter and the members it waits for add nothing.
  return IsOrigin(from, edge) ? kRendezvous : kStep;
}

// The strongly connected components of the usable nodes (Tarjan 1972, without recursion): a cycle
// lies within one. Victims, which in a large job are nearly everybody, are components of their own.
class Components {
 public:
  template <typename Usable>
  Components(const WaitForGraph& graph, const Usable& usable) : of_(graph.nodes().size(), kNone) {
    const auto& nodes = graph.nodes();
    std::vector<uint32_t> index(nodes.size(), 0), low(nodes.size(), 0), open;
    struct Frame {
      uint32_t node;
      size_t edge;
    };
    std::vector<Frame> path;
    uint32_t next = 0;
    const auto enter = [&](uint32_t n) {
      index[n] = low[n] = ++next;
      open.push_back(n);
      path.push_back({n, 0});
    };
    for (uint32_t root = 0; root < nodes.size(); ++root) {
      if (index[root] != 0 || !usable(root)) continue;
      enter(root);
      while (!path.empty()) {
        const uint32_t n = path.back().node;
        if (path.back().edge < nodes[n].out.size()) {
          const uint32_t to = nodes[n].out[path.back().edge++].to;
          if (to == n) loops_.push_back(n);
          if (!usable(to)) continue;
          if (index[to] == 0) {
            enter(to);
          } else if (of_[to] == kNone) {
            low[n] = std::min(low[n], index[to]);
          }
          continue;
        }
        path.pop_back();
        if (!path.empty()) low[path.back().node] = std::min(low[path.back().node], low[n]);
        if (low[n] != index[n]) continue;
        uint32_t member;
        uint32_t size = 0;
        do {
          member = open.back();
          open.pop_back();
          of_[member] = static_cast<uint32_t>(sizes_.size());
          ++size;
        } while (member != n);
        sizes_.push_back(size);
      }
    }
  }

  bool Same(uint32_t a, uint32_t b) const { return of_[a] == of_[b]; }
  bool OnCycle(uint32_t n) const {
    return of_[n] != kNone &&
           (sizes_[of_[n]] > 1 || std::find(loops_.begin(), loops_.end(), n) != loops_.end());
  }

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> of_;     // by node
  std::vector<uint32_t> sizes_;  // by component
  std::vector<uint32_t> loops_;  // nodes that wait for themselves
};

}  // namespace

bool IsOrigin(const WaitNode& node, const WaitNode::Edge& edge) {
  if (!IsRendezvous(edge.reason)) return false;
  return node.kind == NodeKind::kLaunchDone || node.kind == NodeKind::kThread ||
         node.kind == NodeKind::kItemDone;
}

std::vector<WitnessStep> FindWitness(const WaitForGraph& graph, const std::vector<bool>& can,
                                     const std::vector<bool>& except) {
  const auto& nodes = graph.nodes();
  auto usable = [&](uint32_t n) { return !can[n] && (except.empty() || !except[n]); };
  if (std::none_of(graph.waiters().begin(), graph.waiters().end(), usable)) return {};
  const Components components(graph, usable);
  std::vector<uint32_t> starts;
  for (uint32_t n : graph.waiters()) {
    if (components.OnCycle(n)) starts.push_back(n);
  }
  // Those that have waited longest first: a hang begins there.
  std::stable_sort(starts.begin(), starts.end(),
                   [&](uint32_t a, uint32_t b) { return nodes[a].since_ns < nodes[b].since_ns; });
  if (starts.size() > kMaxStarts) starts.resize(kMaxStarts);
  // One that waits for itself may hold up launches and threads without being held up by them.
  for (uint32_t n : graph.memory_waits()) {
    if (components.OnCycle(n) && starts.size() < 2 * kMaxStarts) starts.push_back(n);
  }

  std::vector<uint64_t> distance(nodes.size(), kFar);
  std::vector<WitnessStep> via(nodes.size());
  std::vector<uint32_t> touched;
  std::vector<WitnessStep> best;
  uint64_t best_cost = kFar;
  size_t visits = 0;
  using Entry = std::pair<uint64_t, uint32_t>;
  for (uint32_t start : starts) {
    if (visits > kMaxVisits) break;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (uint32_t n : touched) distance[n] = kFar;
    touched.clear();
    // The start itself stays at "far", so that coming back to it is found like any other node.
    auto relax = [&](uint32_t from, uint64_t base) {
      for (const WaitNode::Edge& edge : nodes[from].out) {
        if (!components.Same(edge.to, start)) continue;
        const uint64_t cost = base + Cost(graph, nodes[from], edge);
        if (cost >= distance[edge.to] || cost >= best_cost) continue;
        if (distance[edge.to] == kFar) touched.push_back(edge.to);
        distance[edge.to] = cost;
        via[edge.to] = {from, edge};
        queue.push({cost, edge.to});
      }
    };
    relax(start, 0);
    while (!queue.empty()) {
      const auto [cost, node] = queue.top();
      queue.pop();
      if (cost != distance[node]) continue;
      ++visits;
      if (node == start) break;
      relax(node, cost);
    }
    if (distance[start] >= best_cost) continue;
    std::vector<WitnessStep> cycle;
    bool rendezvous = false;
    for (uint32_t n = start; cycle.empty() || n != start; n = via[n].node) {
      cycle.push_back(via[n]);
      rendezvous |= IsRendezvous(via[n].edge.reason);
    }
    if (!rendezvous) continue;
    best_cost = distance[start];
    std::reverse(cycle.begin(), cycle.end());
    best = std::move(cycle);
  }
  if (best.empty()) return best;
  // Begin with something that waits for another rank.
  for (size_t i = 0; i < best.size(); ++i) {
    if (IsOrigin(nodes[best[i].node], best[i].edge)) {
      std::rotate(best.begin(), best.begin() + static_cast<ptrdiff_t>(i), best.end());
      break;
    }
  }
  return best;
}

namespace {

std::vector<uint32_t> Close(const WaitForGraph& graph, const std::vector<bool>& can,
                            std::vector<uint32_t> proof, std::vector<bool> chosen,
                            std::vector<uint32_t>* leaves) {
  const auto& nodes = graph.nodes();
  std::vector<bool> in(nodes.size(), false);
  for (uint32_t n : proof) in[n] = true;
  auto add = [&](uint32_t n) {
    if (in[n]) return;
    in[n] = true;
    if (nodes[n].kind == NodeKind::kLeaf) {
      if (leaves != nullptr) leaves->push_back(n);
    } else {
      proof.push_back(n);
    }
  };
  for (size_t i = 0; i < proof.size(); ++i) {
    const uint32_t n = proof[i];
    if (nodes[n].any) {
      for (const WaitNode::Edge& edge : nodes[n].out) add(edge.to);
      continue;
    }
    if (chosen[n]) continue;  // the witness names what it waits for
    const WaitNode::Edge* known = nullptr;
    for (const WaitNode::Edge& edge : nodes[n].out) {
      if (can[edge.to]) continue;
      if (known == nullptr || (in[edge.to] && !in[known->to])) known = &edge;
    }
    if (known != nullptr) add(known->to);
  }
  return proof;
}

}  // namespace

std::vector<uint32_t> ProofOf(const WaitForGraph& graph, const std::vector<bool>& can,
                              const std::vector<WitnessStep>& witness,
                              std::vector<uint32_t>* leaves) {
  std::vector<uint32_t> proof;
  std::vector<bool> chosen(graph.nodes().size(), false);
  for (const WitnessStep& step : witness) {
    proof.push_back(step.node);
    chosen[step.node] = true;
  }
  return Close(graph, can, std::move(proof), std::move(chosen), leaves);
}

std::vector<uint32_t> ProofOf(const WaitForGraph& graph, const std::vector<bool>& can,
                              uint32_t node, std::vector<uint32_t>* leaves) {
  return Close(graph, can, {node}, std::vector<bool>(graph.nodes().size(), false), leaves);
}

}  // namespace gordian::model
