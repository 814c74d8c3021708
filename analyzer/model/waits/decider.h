// Which nodes of an AND/OR graph can progress: wait-model.md §3. Linear in the edges.
//
// The least fixed point: an AND node can progress once all it waits for can, an OR node once any
// can. What is left over cannot move, whatever the order of things.
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_DECIDER_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_DECIDER_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gordian::model {

class AndOrGraph {
 public:
  enum class Kind : uint8_t {
    kAnd,  // with no edges: can progress
    kOr,   // with no edges: cannot
    kCan,
    kCannot,
  };

  uint32_t AddNode(Kind kind) {
    kinds_.push_back(kind);
    return static_cast<uint32_t>(kinds_.size() - 1);
  }
  void SetKind(uint32_t node, Kind kind) { kinds_[node] = kind; }
  // `from` waits for `to`.
  void AddEdge(uint32_t from, uint32_t to) { edges_.emplace_back(from, to); }

  void Reserve(size_t nodes, size_t edges) {
    kinds_.reserve(nodes);
    edges_.reserve(edges);
  }

  size_t size() const { return kinds_.size(); }

  // can[i] tells whether node i can progress. Asked again with other kinds of nodes, it need not
  // look at the edges anew. Not thread-safe, for that reason.
  std::vector<bool> Decide() const;

 private:
  std::vector<Kind> kinds_;
  std::vector<std::pair<uint32_t, uint32_t>> edges_;

  void Index() const;
  // Of the last Decide(): conditions of each node, and the waiters of node i, by_target_[first_[i],
  // first_[i + 1]).
  mutable std::vector<uint32_t> conditions_, first_, by_target_;
  // Decide() keeps their memory for the next call: malloc takes milliseconds to find a large block
  // in a heap full of small ones.
  mutable std::vector<uint32_t> unmet_, work_;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_DECIDER_H_
