// The nodes and edges of one round's wait-for graph while the rules fill it: what stands for a
// launch, a thread, a place on a stream, and what waits for what.
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_WAIT_NODES_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_WAIT_NODES_H_

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/facts/id_table.h"
#include "analyzer/model/waits/reason.h"

namespace gordian::model {

enum class NodeKind : uint8_t {
  kThread,       // the thread leaves what it is in
  kNotCalled,    // any candidate thread of the process could make a call (W5)
  kWoken,        // any thread of the process that can wake another runs (W19)
  kAnyProcess,   // any process could make a communicator-making call
  kItemDone,     // a kernel, host function or event wait of a stream is done
  kLaunchStart,  // a launch of NCCL starts
  kLaunchDone,   // ... is done
  kAllStarted,   // all members of a collective have started it
  kAllCalled,    // all members of a collective have called it (W15)
  kSignals,      // as many signals as a wait needs of one peer have left (W16)
  kMemory,       // the word that a stream waits for has its value (W10)
  kProcessors,   // one of the operations that hold a device's multiprocessors is done (W6)
  kAnyWork,      // any work of the process runs, or any call of it is made
  kKeySet,       // any process sets a key of the store (W22)
  kInit,         // all members of a call like making a communicator have called it (W11)
  kLeaf,
};

enum class LeafKind : uint8_t {
  kNone,
  kDone,
  kKernel,   // kernels run; they end by themselves
  kRunning,  // a thread in code of its own, or in a call that is not known to wait
  kAsleep,  // a thread outside of NCCL and CUDA that has slept for half the threshold of suspicions
  kUnknown,  // not seen: lost records, no answer, a member that no record names
  kDead,     // W14
  kStopped,
  kAborted,
  kLeft,    // destroyed the communicator
  kMemory,  // a writer of memory that gordian does not see
};
using LeafMask = uint32_t;
constexpr LeafMask Bit(LeafKind kind) { return 1u << static_cast<int>(kind); }

struct WaitNode {
  NodeKind kind = NodeKind::kLeaf;
  LeafKind leaf = LeafKind::kNone;
  // Bits, and members by size: a job of 4,096 ranks has 65,000 nodes, which searches read.
  bool any : 1 = false;          // OR
  bool conjectural : 1 = false;  // rests on what has not been measured, or on what no host can see
  bool by_kernels : 1 = false;   // W16: a kernel might send the signals
  bool used_up : 1 = false;      // W16: other waits use up the signals that came
  ProcessId process = 0;         // 0: belongs to none
  ThreadId thread = 0;
  uint32_t tid = 0;
  StreamId stream = 0;
  int comm = -1;
  LaunchId launch = 0;
  uint64_t ordinal = 0;
  uint64_t sequence = 0;
  CommUid init = 0;
  uint64_t since_ns = 0;  // threads and launches: waiting since, at the earliest
  struct Edge {
    uint32_t to;
    int16_t part = -1;  // of the launch, where the reason is a rendezvous
    Reason reason;
    bool discouraged = false;  // true, but an odd thing to show to people
    LaunchId launch = 0;       // of `part`
  };
  boost::container::small_vector<Edge, 2> out;  // mostly one or two: kept in place
};

// Stuck only if what no host can see, or has measured, is so: proves nothing.
inline bool RestsOnConjecture(const WaitNode& node) {
  return node.conjectural || node.kind == NodeKind::kMemory;
}

inline constexpr uint32_t kNoNode = UINT32_MAX;

// Not thread-safe. References into nodes() end with the next node that is added.
class WaitNodes {
 public:
  // memory: of an earlier graph's nodes, to be used again and given back; may be null.
  explicit WaitNodes(std::vector<WaitNode>* memory) : memory_(memory) {
    if (memory_ != nullptr) nodes_.swap(*memory_);
    nodes_.clear();
  }
  ~WaitNodes() {
    if (memory_ != nullptr) memory_->swap(nodes_);
  }
  WaitNodes(const WaitNodes&) = delete;
  WaitNodes& operator=(const WaitNodes&) = delete;

  const std::vector<WaitNode>& all() const { return nodes_; }
  WaitNode& operator[](uint32_t node) { return nodes_[node]; }
  const WaitNode& operator[](uint32_t node) const { return nodes_[node]; }

  uint32_t Add(NodeKind kind, bool any = false);
  uint32_t Leaf(LeafKind kind, ProcessId process, int comm = -1);
  // `node` waits for `on`.
  void Wait(uint32_t node, uint32_t on, Reason reason) {
    nodes_[node].out.push_back({on, -1, reason});
  }
  // ... because of a part of a launch.
  void WaitAsPart(uint32_t node, uint32_t on, Reason reason, int part, LaunchId launch) {
    nodes_[node].out.push_back({on, static_cast<int16_t>(part), reason, false, launch});
  }
  // ... which is true, but shown to people only if nothing else will do.
  void WaitDiscouraged(uint32_t node, uint32_t on, Reason reason) {
    nodes_[node].out.push_back({on, -1, reason, true});
  }

  // The one node of its kind for (a, b). True: it is new, and the caller says what it waits for.
  bool Shared(NodeKind kind, bool any, uint64_t a, uint64_t b, uint32_t* node);

  // The node of all facts that have one is made first, so that rules can name them.
  void AddThread(const Process&, const ThreadState&);
  void AddItems(const Process&, const StreamQueue&);
  // The node of its end is the next one.
  void AddLaunch(const Launch&, uint64_t since_ns);
  void Reserve(size_t nodes, size_t launches);
  // After the last AddThread, before the first ThreadOf.
  void SortThreads();

  uint32_t StartOf(LaunchId launch) const {  // kNoNode: it is over
    const uint32_t* const node = starts_.Find(launch);
    return node == nullptr ? kNoNode : *node;
  }
  uint32_t DoneOf(LaunchId launch) const {
    const uint32_t start = StartOf(launch);
    return start == kNoNode ? kNoNode : start + 1;
  }
  uint32_t ThreadOf(ProcessId, ThreadId) const;  // kNoNode: not in the round
  // Of the last item at or before `ordinal`; kNoNode: there is none.
  static uint32_t ItemNode(const StreamQueue&, uint64_t ordinal);

 private:
  struct Key {
    NodeKind kind;
    uint64_t a, b;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      uint64_t hash = (key.a * 16 + static_cast<uint64_t>(key.kind)) * 0x9e3779b97f4a7c15;
      hash = (hash ^ (hash >> 32) ^ key.b) * 0x9e3779b97f4a7c15;
      return static_cast<size_t>(hash ^ (hash >> 32));
    }
  };

  std::vector<WaitNode>* const memory_;
  std::vector<WaitNode> nodes_;
  std::map<std::tuple<LeafKind, ProcessId, int>, uint32_t> leaves_;
  uint32_t done_leaf_ = kNoNode;
  std::vector<std::tuple<ProcessId, ThreadId, uint32_t>> threads_;
  IdTable<uint32_t> starts_;
  std::unordered_map<Key, uint32_t, KeyHash> shared_;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_WAIT_NODES_H_
