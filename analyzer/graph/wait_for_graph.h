// Who waits for whom at a round, and why: the nodes and edges of wait-model.md §1 and §2 for all
// that is unfinished. Built afresh each round; linear in what is unfinished.
#ifndef GORDIAN_ANALYZER_GRAPH_WAIT_FOR_GRAPH_H_
#define GORDIAN_ANALYZER_GRAPH_WAIT_FOR_GRAPH_H_

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/graph/decider.h"
#include "analyzer/graph/execution_graph.h"
#include "analyzer/graph/id_table.h"
#include "analyzer/graph/job_model.h"
#include "analyzer/graph/matcher.h"

namespace gordian::graph {

enum class NodeKind : uint8_t {
  kThread,       // the thread leaves what it is in
  kNotCalled,    // any candidate thread of the process could make a call (W5)
  kAnyProcess,   // any process could make a communicator-making call
  kItemDone,     // a kernel, host function or event wait of a stream is done
  kKernelStart,  // a launch of NCCL starts
  kKernelDone,   // ... is done
  kAllStarted,   // all members of a collective have started it
  kAllCalled,    // all members of a collective have called it (W15)
  kSignals,      // as many signals as a wait needs of one peer have left (W16)
  kMemory,       // the word that a stream waits for has its value (W10)
  kProcessors,   // one of the operations that hold a device's multiprocessors is done (W6)
  kAnyWork,      // any work of the process runs, or any call of it is made
  kInit,         // all members of a call like making a communicator have called it (W11)
  kLeaf,
};

enum class LeafKind : uint8_t {
  kNone,
  kDone,
  kKernel,   // kernels run; they end by themselves
  kRunning,  // a thread in code of its own, or in a call that is not known to wait
  kAsleep,  // a thread outside of NCCL and CUDA that has slept for half the threshold of suspicions
  kUnknown,  // not seen: lost records, no answer, a member nobody saw
  kDead,     // W14
  kStopped,
  kAborted,
  kLeft,    // destroyed the communicator
  kMemory,  // a writer of memory that nobody sees
};
using LeafMask = uint32_t;
constexpr LeafMask Bit(LeafKind kind) { return 1u << static_cast<int>(kind); }

enum class Reason : uint8_t {
  kStartedCollective,
  kFirstUse,
  kReceive,
  kSend,
  kStreamOrder,
  kEventWait,
  kHostSync,
  kHostFree,
  kHostCopy,
  kCommunicatorOrder,
  kCommunicatorInit,
  kCommunicatorCall,
  kNotCalled,
  kOpenGroup,
  kLegacyStream,
  kPolling,
  kGraphOrder,
  kMemoryWait,
  kLaunchOrder,
  kResources,
  kSignal,
};
const char* Name(Reason);  // as in WaitEdge::reason

struct WaitNode {
  NodeKind kind = NodeKind::kLeaf;
  LeafKind leaf = LeafKind::kNone;
  bool any = false;          // OR
  bool conjectural = false;  // rests on what has not been measured
  ProcessId process = 0;     // 0: belongs to none
  ThreadId thread = 0;
  uint32_t tid = 0;
  KernelId kernel = 0;
  StreamId stream = 0;
  uint64_t ordinal = 0;
  int comm = -1;
  uint64_t sequence = 0;
  CommUid init = 0;
  uint64_t since_ns = 0;  // threads and launches: waiting since, at the earliest
  struct Edge {
    uint32_t to;
    int16_t part = -1;  // of the launch, where the reason is a rendezvous
    Reason reason;
    bool discouraged = false;  // true, but an odd thing to show to people
    KernelId kernel = 0;       // of `part`
  };
  boost::container::small_vector<Edge, 2> out;  // mostly one or two: kept in place
};

// Stuck only if what nobody can see, or has measured, is so: proves nothing.
inline bool RestsOnConjecture(const WaitNode& node) {
  return node.conjectural || node.kind == NodeKind::kMemory;
}

// What nobody can see, taken to be so: a circle that needs it is a suspicion.
enum class Conjecture : uint8_t {
  kNone,
  kUnbuffered,    // sends wait for their receives (§5)
  kSharedQueue,   // W6: a device with more streams than hardware queues has one queue for all of
                  // them
  kNoProcessors,  // W6: an operation of NCCL leaves no multiprocessors to later ones of its device
};

class WaitForGraph {
 public:
  // now_ns: when the round began. memory: of an earlier graph's nodes, to be used again and given
  // back; may be null.
  WaitForGraph(const ExecutionGraph& execution, const Matcher& matcher, const ModelOptions& options,
               uint64_t now_ns, Conjecture conjecture = Conjecture::kNone,
               std::vector<WaitNode>* memory = nullptr);
  ~WaitForGraph() {
    if (memory_ != nullptr) memory_->swap(nodes_);
  }
  WaitForGraph(const WaitForGraph&) = delete;
  WaitForGraph& operator=(const WaitForGraph&) = delete;

  const std::vector<WaitNode>& nodes() const { return nodes_; }

  // can[i]: node i can progress when leaves of the kinds in `progressing` do (kDone always does).
  // Nodes in `forced` (may be empty) do in any case.
  std::vector<bool> Decide(LeafMask progressing, const std::vector<bool>& forced = {}) const;

  // Nodes of what people care about: NCCL launches being done and threads in a blocking call.
  const std::vector<uint32_t>& waiters() const { return waiters_; }

  const ExecutionGraph& execution() const { return execution_; }
  const Matcher& matcher() const { return matcher_; }

  // The part behind a rendezvous edge; null for others.
  const Part* PartOf(const WaitNode::Edge&) const;
  // Whether the member has come to use what connects: its collectives, or (`peer`) its sends to a
  // peer or receives from it. Not of one that has ended, or aborted the communicator.
  bool HasBegunUse(int comm, int rank, const std::optional<std::pair<int, bool>>& peer) const;
  // Of a thread that waits for the first use of what it captures; else null.
  const Part* CapturedPartOf(const WaitNode& from, const WaitNode::Edge&) const;

  // Nodes of streams' waits for values in memory.
  const std::vector<uint32_t>& memory_waits() const { return memory_waits_; }

  // True where the thread is blocked in something that this page knows to wait (its node has
  // edges).
  const WaitNode* ThreadNode(ProcessId, ThreadId) const;

 private:
  static constexpr uint32_t kNoNode = UINT32_MAX;

  void AddNodes();
  uint32_t Add(NodeKind, bool any = false);
  uint32_t StartOf(KernelId) const;  // kNoNode: it is over
  uint32_t DoneOf(KernelId) const;
  uint32_t ThreadOf(ProcessId, ThreadId) const;  // kNoNode: not in the round
  uint32_t Leaf(LeafKind, ProcessId, int comm = -1);
  uint32_t AddThread(const Process&, const ThreadState&);
  void ThreadWaits(const Process&, const ThreadState&, uint32_t node);
  void HostWait(const Process&, const ThreadState&, const OpenCall&, uint32_t node);
  void Meeting(const OpenCall&, uint32_t node);
  void Polling(const Process&, const ThreadState&, uint32_t node);
  void FirstUse(const Process&, const OpenCall&, const std::vector<KernelId>&, uint32_t node);
  void CapturedFirstUse(const Process&, const OpenCall&, const Thread&, uint32_t node);
  // All members have come to use its collectives.
  uint32_t AllBegun(int comm);
  struct Begun {  // communicators, and sends to peers or receives from them, that a process uses
    std::set<CommId> collectives;
    std::set<std::tuple<CommId, int, bool>> peers;
  };
  const Begun& BegunBy(const Process&) const;
  uint32_t NotCalled(int comm, int rank, const PartRef* part, const InitCall* init = nullptr,
                     bool proven = false);
  // What the process's own state says of a part that no record told of. What graphs launched is not
  // among its numbers.
  enum class Account : uint8_t { kSilent, kCalled, kNotCalled };
  static Account AccountOf(const Process&, const CommMember&, const PartRef&);
  bool NotIn(const Process&, const InitCall&, CommId parent) const;
  // `proven`: its own state says that it has not called, whatever records were lost.
  uint32_t ProcessNotCalled(ProcessId, bool proven = false);
  uint32_t InitNode(const InitCall&);
  uint32_t AllStarted(int comm, uint64_t sequence);
  uint32_t AllCalled(int comm, uint64_t sequence);
  uint32_t SlotStart(const MemberSlot&, int comm, int rank, const PartRef& part);
  uint32_t CalledNode(const MemberSlot&, const PartRef& part);
  uint32_t DoneBy(const Process&, StreamPosition);  // everything up to there is done
  // Of the last item at or before `ordinal`; kNoNode: there is none.
  static uint32_t ItemNode(const StreamQueue&, uint64_t ordinal);
  void Wait(uint32_t node, uint32_t on, Reason, int part = -1, KernelId kernel = 0,
            bool discouraged = false);
  void LaunchWaits(const Kernel&);
  void FindEarly();
  bool StartsEarly(const Process&, const Kernel&) const;
  void EarlyWaits(const Process&, const Kernel&, uint32_t done);
  bool MayStartEarly(const Process&, const Kernel&) const;
  void MayStartWaits(const Process&, const Kernel&, uint32_t start);
  bool OfOneGroup(KernelId, const Kernel& open) const;
  void PartWaits(const Kernel&, int part, uint32_t done);
  void QueueWaits(const Process&, const Kernel&);
  bool MayBeResident(const Process&, const Kernel&) const;
  void ProcessorWaits(const std::vector<KernelId>& kernels);
  void ItemWaits(const Process&, const StreamQueue&, const WorkItem&);
  void SignalWaits(const Kernel&, uint32_t done);
  uint32_t SignalsArrive(const Kernel& wait, size_t index);
  uint64_t SignalsNeeded(const SignalLine&, const Kernel& wait, const SignalUse&) const;
  std::vector<KernelId> SignalsThatMayDo(const SignalLine&, uint64_t missing) const;
  uint32_t MemoryWritten(const Process&, const StreamQueue&, const WorkItem& wait);
  uint32_t AnyWork(const Process&);
  const std::vector<std::pair<const WorkItem*, uint32_t>>& Writes(const Process&);

  const ExecutionGraph& execution_;
  const Matcher& matcher_;
  const ModelOptions& options_;
  const uint64_t now_ns_;
  const Conjecture conjecture_;
  std::vector<WaitNode>* const memory_;
  std::vector<WaitNode> nodes_;
  std::vector<KernelId> kernels_;  // in their order
  // Parts that the preemptive runtime has begun before their turn; sorted. (communicator, kind,
  // rank, peer, number)
  std::vector<std::tuple<int, PartKind, int, int, uint64_t>> early_;
  std::vector<uint32_t> waiters_, memory_waits_;
  std::map<std::tuple<LeafKind, ProcessId, int>, uint32_t> leaves_;
  uint32_t done_leaf_ = kNoNode;
  std::vector<std::tuple<ProcessId, ThreadId, uint32_t>> threads_;  // sorted
  IdTable<uint32_t> starts_;  // by launch; the node of its end is the next one
  IdTable<uint32_t> not_called_;
  std::map<ProcessId, uint32_t> any_work_;
  mutable AndOrGraph decider_;  // filled by the first Decide()
  std::map<ProcessId, std::vector<std::pair<const WorkItem*, uint32_t>>> writes_;  // unfinished
  std::map<CommUid, uint32_t> inits_;
  std::map<std::pair<int, uint64_t>, uint32_t> all_started_, all_called_;
  std::map<int, uint32_t> all_begun_;
  mutable std::unordered_map<ProcessId, Begun> begun_;
};

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_WAIT_FOR_GRAPH_H_
