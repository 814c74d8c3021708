// What a replay does: the calls of NCCL and CUDA that each host thread of each rank makes, in
// order, and the gates between threads and ranks that force the recorded interleaving.
//
// Plain and self-contained data: made from a trace (extract.h), reduced (witness.h), written as a
// program (cxx_writer.h). Indices into vectors name everything except operations; these have an id
// that survives the removal of others, so that a gate keeps its meaning.
//
// Times are nanoseconds, sizes elements of `datatype`, unless the name says otherwise.
#ifndef GORDIAN_REPLAYER_RECORD_SCHEDULE_H_
#define GORDIAN_REPLAYER_RECORD_SCHEDULE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/collective.h"

namespace gordian::replayer {

using OpId = uint32_t;  // unique within the schedule; 0: none

enum class OpKind : uint8_t {
  // NCCL's operations. Order matters: kAllReduce..kScatter are collectives.
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kRecv,
  kGroupStart,
  kGroupEnd,
  // Communicators. kCommSplit: `comm` is the communicator that this rank gets, -1 for none.
  kCommInit,
  kCommSplit,
  kCommFinalize,
  kCommDestroy,
  kCommAbort,
  kWindowRegister,
  // Work on streams other than operations. kKernel runs for `duration_ns`.
  kEventRecord,
  kStreamWaitEvent,
  kKernel,
  kHostFunction,
  kGraphLaunch,
  // Calls between these two on a stream of the capture go into the graph.
  kCaptureBegin,
  kCaptureEnd,
  // Waits of the host. kFree is any call that waits for the device by implementation, kCopy a copy
  // between the device and pageable memory, kPoll a loop that queries whether an event, or all of a
  // stream, is done.
  kStreamSync,
  kEventSync,
  kDeviceSync,
  kFree,
  kCopy,
  kPoll,
  // How a thread goes on that makes no further call: it sleeps or computes for ever.
  kSleep,
  kSpin,
  // How the process goes on: it exits with `exit_code`, or a signal kills or stops it.
  kExit,
  kKill,
  kStop,
};

// Calls that are made on a communicator and on a stream.
constexpr bool IsOperation(OpKind kind) { return kind <= OpKind::kRecv; }
// The model's name of an operation, and back. The predicates below ask the model's contract.
constexpr model::Call CallOf(OpKind kind) {
  return IsOperation(kind) ? static_cast<model::Call>(static_cast<int>(kind) +
                                                      static_cast<int>(model::Call::kAllReduce))
                           : model::Call::kOther;
}
constexpr OpKind KindOf(model::Call operation) {
  return static_cast<OpKind>(static_cast<int>(operation) -
                             static_cast<int>(model::Call::kAllReduce));
}
static_assert(CallOf(OpKind::kAllReduce) == model::Call::kAllReduce &&
              CallOf(OpKind::kScatter) == model::Call::kScatter &&
              CallOf(OpKind::kRecv) == model::Call::kRecv);
constexpr bool IsCollective(OpKind kind) { return model::IsCollective(CallOf(kind)); }
constexpr bool IsTransfer(OpKind kind) { return model::IsTransfer(CallOf(kind)); }
constexpr bool HasRoot(OpKind kind) { return model::HasRoot(CallOf(kind)); }
constexpr bool IsPairwise(OpKind kind) { return model::IsPairwise(CallOf(kind)); }
constexpr bool Reduces(OpKind kind) { return model::Reduces(CallOf(kind)); }
constexpr bool IsHostWait(OpKind kind) {
  return kind >= OpKind::kStreamSync && kind <= OpKind::kPoll;
}
// No call of its thread may follow it.
constexpr bool EndsThread(OpKind kind) { return kind >= OpKind::kSleep; }

// "AllReduce", "GroupStart", "StreamWaitEvent": the enumerator without its k.
const char* Name(OpKind kind);

// A call of another thread, of this or another rank, that must come before an operation. A gate
// holds back a thread on the host; waits on streams are never gated.
struct Gate {
  enum class Moment : uint8_t {
    kCalled,    // the other thread has entered the call: it never returned, or not before this one
    kReturned,  // the call has returned
  };
  OpId after = 0;
  Moment moment = Moment::kReturned;

  friend bool operator==(const Gate&, const Gate&) = default;
};

struct Op {
  OpId id = 0;
  OpKind kind = OpKind::kSleep;
  // Indices into Schedule::comms and RankProgram::streams; events and graphs count from 0 to
  // RankProgram::events and ::graphs. -1: not used by this kind of call.
  int comm = -1;
  int parent = -1;  // kCommSplit: the parent communicator
  int stream = -1;
  int event = -1;
  int graph = -1;
  // Operations, as for NCCL: ncclDataType_t, ncclRedOp_t (255: none), and ranks of the communicator
  // (indices into Communicator::members, which change when an earlier member is removed).
  uint64_t count = 0;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;
  int root_or_peer = -1;
  int color = -1;  // kCommSplit; -1: joins no child
  int key = 0;
  uint64_t duration_ns = 0;  // kKernel
  int exit_code = 0;         // kExit; for kKill the signal
  bool in_group = false;     // between its thread's kGroupStart and kGroupEnd
  bool captured = false;     // goes into a graph
  bool unfinished = false;   // had not returned when the record ends
  bool not_reached = false;  // not recorded: other ranks' calls show that it would
                             // have been (not_reached.h)
  bool witness = false;      // the verdict names it: it is in the cycle, or part of what is stuck
  std::string symbol;        // the original's call: "cudaFreeHost"; empty: made up
  std::string site;          // the original's: "train.cc:88 step()"; empty: unknown
  std::string site_file;     // as its debug information or Python gives it; empty: unknown
  int site_line = 0;         // 0: unknown
  std::vector<Gate> gates;   // all must pass before the call

  friend bool operator==(const Op&, const Op&) = default;
};

struct Communicator {
  std::string name;          // a unique identifier: "dp"
  std::string label;         // the job's name for it; empty: it has none
  std::vector<int> members;  // places in Schedule::ranks, in the communicator's order; -1: a member
                             // that was never seen to take part
  int parent = -1;           // split off this one; -1: made of a unique id
  // Made before any thread begins, in the order of Schedule::comms, parents first. Otherwise
  // kCommInit and kCommSplit operations make it.
  bool ready = false;
  // Connected before any thread begins, so that a first use there connects nothing: by collectives;
  // by transfers from the first to the second of these members.
  bool connected = false;
  std::vector<std::pair<int, int>> connected_pairs;

  friend bool operator==(const Communicator&, const Communicator&) = default;
};

// What the operation asks of this member of its communicator.
inline model::Role RoleOf(const Op& op, int member) {
  return {CallOf(op.kind), member, op.root_or_peer, op.count};
}

// The rank's place among the members; -1: it is none.
int MemberOf(const Communicator& comm, int rank);

enum class StreamKind : uint8_t { kNonBlocking, kBlocking, kLegacy, kPerThread };

struct Stream {
  std::string name;  // an identifier, unique within the rank: "s1"
  StreamKind kind = StreamKind::kNonBlocking;
  int device = 0;  // of the original

  friend bool operator==(const Stream&, const Stream&) = default;
};

struct ThreadProgram {
  std::vector<Op> ops;

  friend bool operator==(const ThreadProgram&, const ThreadProgram&) = default;
};

struct RankProgram {
  int rank = -1;  // in the original job
  int device = 0;
  uint32_t pid = 0;  // of the original
  std::vector<Stream> streams;
  // By a communicator's name: on which stream the rank last called its operations, done ones too. A
  // name of none of `streams`: another one, on which nothing is left.
  std::map<std::string, std::string> usual_streams;
  int events = 0;
  int graphs = 0;
  // The first one makes communicators, streams and events, and starts the others. No thread of an
  // extracted schedule is empty; after a reduction any may be.
  std::vector<ThreadProgram> threads;

  friend bool operator==(const RankProgram&, const RankProgram&) = default;
};

// What a replay's verdict must show to be the same hang.
struct Signature {
  std::string verdict;             // as in verdict.json: "deadlock"
  std::vector<std::string> edges;  // kinds of edges in the cycle, sorted, distinct; empty: no cycle

  friend bool operator==(const Signature&, const Signature&) = default;
};
std::string Describe(const Signature& signature);  // "deadlock (stream_order, started_collective)"

// Where a schedule comes from. For people; only the signature takes part in decisions.
struct Origin {
  Signature signature;
  std::string check;       // "communicator-order-cycle"
  std::string confidence;  // "confirmed"
  std::string summary;     // the verdict's one line
  std::string command;     // of the original job
  std::string source;      // name of the session or file
  std::string gordian_version;
  size_t ranks = 0;       // of the original
  size_t operations = 0;  // calls of NCCL's operations in the original
  size_t records = 0;
  std::vector<std::string> notes;  // guesses and omissions, one line each

  friend bool operator==(const Origin&, const Origin&) = default;
};

struct Schedule {
  std::vector<Communicator> comms;  // in order of creation
  std::vector<RankProgram> ranks;
  std::vector<std::pair<std::string, std::string>> environment;  // settings that the hang needs
  Origin origin;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// Calls visit(rank, thread, op) for each operation in order, with indices into the schedule. `op`
// is mutable if the schedule is.
template <typename Program, typename Visit>
void ForEachOp(Program& schedule, Visit visit) {
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (size_t thread = 0; thread < schedule.ranks[rank].threads.size(); ++thread) {
      for (auto& op : schedule.ranks[rank].threads[thread].ops) visit(rank, thread, op);
    }
  }
}

// An id above all ids in use.
OpId NextId(const Schedule& schedule);
// Number of NCCL operations called, without those that were not reached.
size_t CountOperations(const Schedule& schedule);
// Number of calls of all threads, without those that were not reached.
size_t CountCalls(const Schedule& schedule);

// For callers that remove operations: removes gates whose operation is gone, and replaces a removed
// gating call by the last remaining one before it in its thread, as far as `before` has one.
void DropDanglingGates(const Schedule& before, Schedule* after);

// Lists its inconsistencies, one line each: indices out of range, duplicate ids, unclosed groups.
// Empty: a writer can write it.
std::vector<std::string> Check(const Schedule& schedule);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_SCHEDULE_H_
