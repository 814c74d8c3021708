// What each process called and enqueued, as far as it is not known to be done: threads with their
// open calls, streams with their ordered work, events, launches of NCCL.
//
// Applies records in the order of their process and retires whatever evidence shows done, so that
// its size follows what is unfinished, not the length of the job.
#ifndef GORDIAN_ANALYZER_MODEL_FACTS_EXECUTION_GRAPH_H_
#define GORDIAN_ANALYZER_MODEL_FACTS_EXECUTION_GRAPH_H_

#include <algorithm>
#include <array>
#include <boost/container/deque.hpp>
#include <boost/container/flat_map.hpp>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyzer/model/facts/event.h"
#include "analyzer/model/facts/id_table.h"
#include "analyzer/model/facts/launch_table.h"
#include "analyzer/model/facts/record_merger.h"
#include "analyzer/model/facts/round_gaps.h"
#include "analyzer/model/facts/state_block.h"
#include "analyzer/model/match/matcher.h"

namespace gordian::model {

// A place on a stream: this ordinal and, since streams are in order, everything before it.
struct StreamPosition {
  StreamId stream = 0;
  uint64_t ordinal = 0;
};

// Mostly one: kept in place.
using StreamPositions = boost::container::small_vector<StreamPosition, 1>;

// A wait for, or a write of, a value in memory (W10).
struct MemoryOp {
  uint64_t address = 0;
  uint64_t value = 0;
  uint8_t flags = 0;  // kMemoryCondition and its kin

  uint64_t Bytes() const { return (flags & kMemory64) != 0 ? 8 : 4; }
};
// Whether the write may make the wait's condition true; one that covers the word only in part may.
bool MaySatisfy(const MemoryOp& write, const MemoryOp& wait);
bool SameWord(const MemoryOp& a, const MemoryOp& b);

struct WrittenWord {
  std::vector<std::pair<MemoryOp, StreamPosition>> writes;
  bool forgotten = false;  // there were more
};

struct WorkItem {
  uint64_t ordinal = 0;
  WorkKind kind = WorkKind::kNoWork;  // kNone: NCCL
  boost::container::small_vector<LaunchId, 1>
      launches;                        // NCCL: those that use this position (several in a group)
  std::vector<StreamPosition> legacy;  // W13: what the legacy stream, or blocking ones, hold it for
  StreamPositions event;               // W3: what the event stood behind when the wait was issued
  MemoryOp memory;                     // kMemoryWait, kMemoryWrite
  bool graph = false;                  // a launch of a graph, with whatever else is in it
  uint64_t order = 0;                  // of its record
  uint64_t site = 0;
  bool certain = false;  // `event` is the process's own account: no lost record can have changed it
};

// Several to an allocation: they come and go with every operation.
using WorkItems = boost::container::deque<
    WorkItem, void, boost::container::deque_options<boost::container::block_bytes<2048>>::type>;

struct StreamQueue {
  StreamId id = 0;
  int device = -1;
  uint32_t flags = 0;
  uint64_t handle = 0;
  uint32_t connections = 0;  // CUDA_DEVICE_MAX_CONNECTIONS; 0: not set
  uint64_t last = 0;         // highest ordinal known
  uint64_t done = 0;         // evidence: every ordinal up to it is done
  uint64_t soft = 0;  // every ordinal up to it is done, or kernels that nothing but kernels precede
  // The last that may run code of the program on the host (a host function or a graph); the last host
  // function.
  uint64_t host_code = 0, host_function = 0;
  WorkItems items;  // ordinals above soft
  uint64_t last_progress_ns = 0;
  StreamState now;  // of the last round
  bool destroyed = false;
  mutable uint32_t first_node = 0;  // of `items`, in the WaitForGraph that is being made

  bool Blocking() const { return (flags & (kStreamBlocking | kStreamPerThread)) != 0; }
  bool Legacy() const { return (flags & kStreamLegacy) != 0; }
};

// Events in front of and behind captured operations on one stream (W12), by their numbers.
struct GraphMarkerPair {
  StreamId stream = 0;
  uint32_t front = 0;
  uint32_t behind = 0;
  bool reached = false;  // the one in front is done: for this launch
  bool passed = false;   // the one behind is done
};

struct Part {
  PartRef ref;
  OpSignature signature;
  StreamId stream = 0;
  uint64_t site = 0;
  uint64_t order = 0;
  uint64_t time_ns = 0;
  bool elsewhere = false;  // the preemptive runtime has it: NCCL has connected nothing for it
  bool with_all = false;   // of sizes that differ: some of it goes to or comes from every member
};

// Of RMA: one descriptor of a ncclWaitSignal, or the signal that is sent.
struct SignalUse {
  int peer = -1;
  uint64_t channel = 0;  // SignalChannelOf()
  uint64_t count = 0;
  uint32_t number = 0;  // of the first among all of this peer, channel and kind that the process
                        // has called; low 32 bits
};
struct SignalOperation {
  Call call = Call::kOther;
  int rank = -1;
  uint64_t site = 0;
  uint64_t order = 0;
  std::vector<SignalUse> uses;
};

// One launch: an operation called alone, or all of a group's operations on one communicator (W7).
// Collectives of nothing are among its parts and launch nothing: NCCL drops them.
struct Launch {
  LaunchId id = 0;
  ProcessId process = 0;
  ThreadId thread = 0;
  CommId comm = 0;  // at the process
  int comm_index = -1;
  bool in_group = false;
  bool enqueued = false;    // all its positions are known
  bool aborted = false;     // its communicator was aborted: it ends without its peers
  bool deferred = false;    // non-blocking: NCCL launches it at some time after its call
  bool connecting = false;  // deferred, and the first use of something (W15)
  bool follows = true;      // false: where it went is not known
  bool host = false;        // torch.distributed carries it out on the host (W20)
  std::vector<Part> parts;
  std::unique_ptr<SignalOperation> signal;  // RMA, one call each: such a launch has no parts
  std::vector<StreamId> streams;            // distinct ones that it needs: none if all are empty
  std::vector<StreamPosition> positions;    // where it was enqueued
  size_t open_positions = 0;
  bool from_state = false;        // known from the process's state block, not from records
  LaunchId previous_on_comm = 0;  // W8
  // W8, of other communicators; 0: none. What is launched while this is has no order with it.
  LaunchId device_before = 0;  // on any of its device, with NCCL_LAUNCH_ORDER_IMPLICIT
  uint64_t launch_begun = 0, launch_ended = 0;  // orders of the call that launched it
  std::vector<LaunchId> graph_order;  // W12: on each of its captured streams the one before it
  std::vector<GraphMarkerPair>
      graph_markers;            // W12: in the graph that it is a part of; may be none
  uint64_t graph_instance = 0;  // CapturedGraph::instance
  uint64_t launch_order = 0;    // CallRecord::order of the graph's launch
  uint64_t time_ns = 0;         // of the call

  // As new, with the memory of its lists.
  void Clear() {
    Launch fresh;
    fresh.parts.swap(parts);
    fresh.streams.swap(streams);
    fresh.positions.swap(positions);
    constexpr size_t kKept = 16;  // a group of thousands would hold on to a lot
    if (fresh.parts.capacity() > kKept) fresh.parts = {};
    fresh.parts.clear();
    fresh.streams.clear();
    fresh.positions.clear();
    *this = std::move(fresh);
  }
};

inline Role RoleOf(const Part& part) {
  const bool transfer = part.ref.kind != PartKind::kCollective;
  return {part.signature.call, part.ref.rank, transfer ? part.ref.peer : part.signature.root,
          part.signature.count};
}

inline constexpr int32_t kInProgress = 7;  // ncclInProgress: a non-blocking communicator took it
inline bool Took(int32_t result) { return result == 0 || result == kInProgress; }

struct OpenCall {
  CallRecord record;
  StreamPositions covered;  // host waits
  bool covered_known = true;
  bool certain = false;  // `covered` is the process's own account
  CommUid init = 0;      // calls that all members make
  int init_rank = -1;
  LaunchId launch = 0;  // operations outside a group; what a wait for an operation is for
};

struct PendingInit {
  CommUid uid = 0;
  int rank = -1;
};

// What was captured together: one launch each time that its graph is launched (W12).
struct CapturedLaunch {
  CommId comm = 0;
  ThreadId thread = 0;
  bool in_group = false;
  uint32_t group = 0;
  std::vector<StreamId> streams;  // captured ones
  std::vector<Part> parts;        // without sequence numbers
  std::vector<GraphMarkerPair> markers;
};

struct CapturedGraph {
  std::vector<CapturedLaunch> launches;  // in the order of their calls
  uint64_t instance = 0;                 // of executable graphs: unique
};

// An operation that its call, or its group's end, captures: it may be the first use of what it
// needs.
struct Capturing {
  CommId comm = 0;
  bool in_group = false;
  bool waits = true;  // false: on a communicator whose calls do not block
  Part part;          // without a sequence number
};

struct Thread {
  ThreadId id = 0;
  std::optional<OpenCall> open;
  std::vector<LaunchId> group_launches;
  uint16_t group = 0;  // low bits of the number of the group that they are of; 0: not known
  std::vector<PendingInit> group_inits;
  LaunchId signal_call = 0;  // RMA: that is being called right now
  LaunchId group_call = 0;   // the operation inside the group that is being called right now
  uint64_t capture = 0;      // the operation that is being called right now goes into it
  std::vector<Capturing> capturing;  // by the call or group that it is in
  bool in_group_end = false;
  uint64_t last_ns = 0;
  Call last_call = Call::kOther;
  uint64_t last_site = 0;
  bool calls_nccl = false;  // has done so
};

// Positions of the operations of one communicator, or of one of its pairs. The process numbers what
// it calls; what graphs launched in between is not among that.
struct PartNumbers {
  uint64_t next = 0;      // of the calls
  uint64_t launched = 0;  // by graphs
  // The orders of the calls seen last in their process, their low halves, the newest first.
  std::array<uint32_t, 8> latest = {};
  // Numbers of calls whose records were lost, [first, second), until the state block has said what
  // became of them.
  std::vector<std::pair<uint64_t, uint64_t>> missing;

  // The call with number n was seen.
  void See(uint64_t n, uint64_t order) {
    if (n > next) missing.emplace_back(next, n);
    next = std::max(next, n + 1);
    std::copy_backward(latest.begin(), latest.end() - 1, latest.end());
    latest[0] = static_cast<uint32_t>(order);
  }
};

struct LocalComm {
  CommId id = 0;
  CommUid uid = 0;
  CommId parent = 0;
  int index = -1;  // into Matcher::comms(), -1: not known (being made, or its record was lost)
  int rank = -1;
  int color = -1;
  int device = -1;
  int init_rank = -1;            // rank in the communicator-making call
  bool collective_used = false;  // connected for those that are not carried out as transfers
  std::set<std::pair<int, bool>> peers_used;  // connected with a peer, and whether to send to it
  bool elsewhere = false;                     // the preemptive runtime has had operations of it
  LaunchId last_launch = 0;
  uint64_t windows = 0;  // registrations begun
  PartNumbers collectives;
  std::map<std::pair<int, bool>, PartNumbers> transfers;  // by peer, and whether it sends
  bool launch_order = false;                              // NCCL_LAUNCH_ORDER_IMPLICIT is on
  bool host = false;                                      // of torch.distributed, without NCCL
  bool unsettled = false;   // non-blocking, made but perhaps not ready
  bool finalizing = false;  // non-blocking: NCCL finalizes it by itself
  std::string name;

  PartNumbers& Numbers(const PartRef& part) {
    return part.kind == PartKind::kCollective
               ? collectives
               : transfers[{part.peer, part.kind == PartKind::kSend}];
  }
};

struct EventTarget {
  StreamPositions behind;
};

// What the records of a process no longer tell, because some of them were lost. Marked for all
// processes at the end of each round; the rules ask for what they need.
struct Unknown {
  bool calls = false;       // which calls its threads have made, or are in
  bool events = false;      // what an event stands behind: a lost record may have moved it
  bool first_uses = false;  // what it has connected before (W15)
  bool writes = false;      // of values, by its streams or by graphs (W10)
  bool signals = false;     // how many it has sent, or used up (W16)
};

struct Process {
  ProcessInfo info;
  bool ended = false;
  ExitKind exit_kind = ExitKind::kUnknown;
  int exit_value = 0;
  uint64_t ended_ns = 0;
  // What Python's main thread raised and did not catch: "ValueError: text at a.py:3 f()".
  std::string exception;
  uint64_t exception_ns = 0;

  RecordMerger merger;
  uint64_t records = 0;
  uint64_t calls_begun = 0;  // NCCL calls
  uint64_t last_record_ns = 0;
  uint64_t first_call_ns = 0;                    // of NCCL; 0: none yet
  std::unordered_map<ThreadId, Thread> threads;  // none ever leaves
  Thread* latest = nullptr;                      // of the last record
  std::map<StreamId, StreamQueue> streams;
  std::unordered_map<uint64_t, EventTarget> events;
  size_t events_limit = 4096;
  std::map<CommId, LocalComm> comms;
  std::map<CommId, std::string>
      comm_names;  // of torch.distributed, perhaps before the communicator
  std::map<std::tuple<CommId, PartKind, int, uint64_t>, LaunchId> host_launches;  // unfinished
  std::map<int, LaunchId> last_on_device;  // with NCCL_LAUNCH_ORDER_IMPLICIT
  bool lost_sight = false;                 // some operations in graphs are not followed
  std::map<uint64_t, CapturedGraph> captures, graphs, graph_execs;  // with operations in them
  std::unordered_set<uint64_t> graph_bodies;                        // parts of other graphs
  // By address, the latest writes that streams were given: one that has ended may have left the
  // value that a later wait asks for.
  std::map<uint64_t, WrittenWord> written_words;
  bool words_forgotten = false;                // there were more words than are kept
  std::map<uint64_t, uint64_t> shared_memory;  // begin -> end: memory that others may write
  bool records_missing = false;                // how many is not known

  bool has_state = false;  // in the last round
  ProcessState state;
  // As the process left it, or of the last round that had one; null: it sent none.
  std::shared_ptr<const StateBlock> block;
  std::map<std::pair<uint64_t, CommId>, LaunchId> state_launches;  // made from state blocks
  std::set<LaunchId> perhaps_refused;  // by what the state block of the last round said
  bool signals_counted = false;        // the state block of this round accounts for them
  uint64_t stopped_since_ns = 0;
  // A thread that may call was seen to use a processor or to wait for a disk, or was new.
  uint64_t last_busy_ns = 0;
  // By thread id: when each that may call was last seen to run, or to have run since the round
  // before.
  boost::container::flat_map<uint32_t, uint64_t> awake_ns;
  uint64_t last_progress_ns = 0;  // any record, any done operation
  Unknown unknown;                // as of the last round

  // False for what may be a launcher.
  bool CalledNccl() const { return records > 0 || state.nccl_calls > 0; }
  bool Dead() const { return ended || (has_state && !state.alive); }
  bool Lossy() const {
    return merger.lost() > 0 || state.lost_records > 0 || state.lost_streams > 0 ||
           state.lost_comms > 0 || records_missing;
  }
};

// Whether the word is in memory that is the process's own as far as its calls tell.
bool WrittenHereOnly(const Process&, const MemoryOp& word);
// Whether a write that has ended may have left the value that `wait` asks for.
bool WrittenBefore(const Process&, const MemoryOp& wait);

class ExecutionGraph {
 public:
  explicit ExecutionGraph(Matcher* matcher) : matcher_(*matcher) {}

  Process& Start(const ProcessInfo&);
  void End(ProcessId, ExitKind, int exit_value, uint64_t time_ns);
  void FinalCounts(ProcessId, uint64_t lost_records, uint64_t nccl_calls);
  // The state block of a process whose end is about to be reported.
  void FinalBlock(ProcessId, std::shared_ptr<const StateBlock> block);
  void RecordsMissing(ProcessId);
  // Texts that records refer to.
  void NameComm(ProcessId, CommId, const std::string& name);
  void NameKey(uint64_t key, const std::string& name);
  void NoteException(ProcessId, const std::string& text, uint64_t time_ns);

  // Whether the preemptive runtime has had any operation.
  bool any_elsewhere() const { return any_elsewhere_; }

  // W22: of a torch.distributed.Store. Whether any process has set the key, and its name ("" where no
  // record told it).
  bool WasSet(uint64_t key) const { return keys_forgotten_ || keys_set_.contains(key); }
  const std::string& KeyName(uint64_t key) const;
  void Record(const CallRecord&);

  // Takes over the states of a round: what is done, who is alive. now_ns: the round's begin.
  // The overload takes the states out of the round; numbers and times stay.
  void TakeRound(Round*);
  void TakeRound(const Round& round) {
    Round copy = round;
    TakeRound(&copy);
  }

  // Notes the begin of a round, as RoundGaps does; call it before TakeRound.
  void NoteRound(uint64_t begin_ns, uint64_t longest_ns) { gaps_.OnRound(begin_ns, longest_ns); }
  // How long something has lasted, without the time in which gordian did not look.
  uint64_t Lasted(uint64_t since_ns, uint64_t now_ns) const {
    return gaps_.Between(since_ns, now_ns);
  }

  const std::map<ProcessId, Process>& processes() const { return processes_; }
  std::map<ProcessId, Process>& processes() { return processes_; }
  Process* Find(ProcessId);
  const Process* Find(ProcessId) const;
  const Launch* FindLaunch(LaunchId) const;
  const LaunchTable<Launch>& launches() const { return launches_; }

  // The last unfinished work at or before a position; null when nothing unfinished stands there.
  static const WorkItem* ItemAt(const Process&, StreamPosition);
  // W13: what work that is put on the stream now stands behind on others.
  static std::vector<StreamPosition> LegacyOrder(const Process&, const StreamQueue&);

  // A launch that a proof says will never be done. If it is, and was not aborted, DoneAfterAll()
  // gets it.
  void Watch(LaunchId launch) { watched_.insert(launch); }
  const std::set<LaunchId>& DoneAfterAll() const { return done_after_all_; }

  // Everything held for unfinished work: what memory grows with.
  size_t Held() const;
  // There were more unfinished launches than are held, and some are not followed.
  bool beyond() const { return beyond_; }

 private:
  friend class StateMerge;
  friend class SignalMerge;

  void Apply(Process&, const CallRecord&);
  void ApplyOperationBegin(Process&, Thread&, const CallRecord&);
  void NoteKeySet(uint64_t key);
  void ApplyHostOperation(Process&, const CallRecord&);
  // The launch that a wait for an operation names; 0: it is over, or was never seen.
  static LaunchId HostLaunch(const Process&, const ring::HostWaitPayload&);
  void ApplyOperationEnd(Process&, Thread&, const CallRecord&);
  void ApplyGroupEnd(Process&, Thread&, const CallRecord&);
  // A record shows the thread in the group of this number (0: not known), or in none. What it had
  // in an earlier one is past its end, whose record was lost: its launch has no known place,
  // or refused.
  void InGroup(Process&, Thread&, uint32_t number);
  void InNoGroup(Process&, Thread&);
  void ApplySignal(Process&, Thread&, const CallRecord&);
  void ApplySignalEnd(Process&, Thread&, const CallRecord&);
  // An RMA operation is done, or was refused.
  void SignalsOver(const Launch&, bool done);
  // Where it went is not known.
  void UnplacedSignal(LaunchId);
  void ApplyEnqueue(Process&, Thread&, const CallRecord&);
  void ApplyInitBegin(Process&, Thread&, const CallRecord&);
  void ApplyGrowth(Process&, const CallRecord&);
  // Two names of one communicator: who knows it by `other` knows it by `uid` from here on.
  void Unite(CommUid other, CommUid uid);
  void ApplyInitEnd(Process&, Thread&, const CallRecord&, CommUid, int init_rank);
  void ApplyCommCall(Process&, Thread&, const CallRecord&);
  void ApplyMeeting(Process&, Thread&, LocalComm&, const CallRecord&);
  void ApplyWork(Process&, const CallRecord&);
  void ApplyMemoryShared(Process&, const CallRecord&);
  void NoteWrite(Process&, const MemoryOp&, StreamPosition);
  void ApplyHostWait(Process&, Thread&, const CallRecord&);
  void ApplyCaptured(Process&, Thread&, const CallRecord&, const LocalComm&, Part);
  void EndCaptured(Process&, Thread&, const CallRecord&);
  void NoteElsewhere(const CallRecord& end, Part*);
  void ApplyGraphCall(Process&, const CallRecord&);
  void ApplyGraphLaunch(Process&, const CallRecord&, WorkItem);
  void ApplyGraphMarkers(Process&, const CallRecord&);
  void ApplyGraphProgress(Process&, const CallRecord&);
  Launch* LaunchCaptured(Process&, const CapturedLaunch&, const CallRecord&, uint32_t place);
  void LoseSight(Process&, const CapturedGraph&);
  void LoseSight(Process&, CommId);
  // False, and the communicator is not followed any more: too much is unfinished.
  bool HaveRoom(Process&, CommId);
  void Withdraw(Process&, const Launch&, const Part&);
  void Post(const Part&, LaunchId, uint32_t place);
  static void NoteCaller(InitCall*, int rank, const Process&, const Thread&, const LocalComm&,
                         const CallRecord&);
  void PlaceLaunch(Process&, Launch&, StreamPosition);
  // As the process itself tells, without the order by way of the legacy stream, whose state at the
  // call is not known any more.
  void PlaceFromState(Process&, Launch&, StreamPosition);
  void Enqueued(Process&, Launch&);
  void OrderAmongComms(Process&, const Thread&, const CallRecord& end, Launch&);
  LaunchId Before(const Launch&, LaunchId last, LaunchId Launch::*before) const;
  void NoteUsed(Process&, CommId, const Part&);
  void Deferred(const Process&, Launch*);
  void DropLaunch(LaunchId, bool accepted);
  void LaunchDone(LaunchId);
  void CommDone(Process&, CommId, uint64_t now_ns);
  void MarkDone(Process&, StreamPosition, uint64_t now_ns);
  void Soften(Process&);
  static void Append(StreamQueue&, WorkItem&&);
  void AppendNothing(Process&, StreamPosition);
  StreamQueue& Stream(Process&, StreamId, int device);
  void Behind(const Process&, const StreamQueue&, StreamPositions*) const;
  Process& Known(ProcessId);
  void TrimEvents(Process&);

  Matcher& matcher_;
  std::map<ProcessId, Process> processes_;
  Process* latest_ = nullptr;  // whose record came last: most come in runs
  IdTable<Process*> by_id_;    // of processes_
  LaunchTable<Launch> launches_;
  std::set<LaunchId> watched_, done_after_all_;
  std::unordered_set<uint64_t> keys_set_;
  bool keys_forgotten_ = false;  // more were set than are held
  bool any_elsewhere_ = false;
  std::unordered_map<uint64_t, std::string> key_names_;
  uint64_t next_instance_ = 1;
  RoundGaps gaps_;
  bool beyond_ = false;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_FACTS_EXECUTION_GRAPH_H_
