// What a replay does: the calls of NCCL and CUDA that each host thread of each rank makes, in
// order, and what has to be forced between threads and ranks for the interleaving that was
// recorded.
//
// Plain data, and whole in itself: made from a trace (extract.h), cut down (witness.h), written as
// a program (cxx_writer.h). Everything is named by its place in a vector, but for operations: these
// have an id that stays when others are taken out, so that a gate names the same one before and
// after.
//
// Times are nanoseconds, sizes elements of `datatype`, unless the name says otherwise.
#ifndef GORDIAN_REPLAYER_SCHEDULE_H_
#define GORDIAN_REPLAYER_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gordian::replayer {

using OpId = uint32_t;  // unique within the schedule; 0: none

enum class OpKind : uint8_t {
  // Operations of NCCL. Order matters: kAllReduce..kScatter are collectives.
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
  // Communicators. kCommSplit: `comm` is what this rank gets out of it, -1 for nothing.
  kCommInit,
  kCommSplit,
  kCommFinalize,
  kCommDestroy,
  kCommAbort,
  kWindowRegister,
  // Work of streams, beside operations. kKernel of `duration_ns`.
  kEventRecord,
  kStreamWaitEvent,
  kKernel,
  kHostFunction,
  kGraphLaunch,
  // Between these two, what is called on a stream of the capture goes into the graph.
  kCaptureBegin,
  kCaptureEnd,
  // Waits of the host. kFree stands for all calls that wait for the device by implementation,
  // kCopy for copies between the device and pageable memory, kPoll for asking again and again
  // whether
  // an event, or all of a stream, is done.
  kStreamSync,
  kEventSync,
  kDeviceSync,
  kFree,
  kCopy,
  kPoll,
  // What a thread does that makes no further call: sleeps, or computes, for ever.
  kSleep,
  kSpin,
  // What becomes of the whole process: leaves with `exit_code`, dies of or is stopped by a signal.
  kExit,
  kKill,
  kStop,
};

constexpr bool IsCollective(OpKind kind) { return kind <= OpKind::kScatter; }
constexpr bool IsTransfer(OpKind kind) { return kind == OpKind::kSend || kind == OpKind::kRecv; }
// Calls that are made on a communicator and on a stream.
constexpr bool IsOperation(OpKind kind) { return kind <= OpKind::kRecv; }
// Collectives that one member gives to, or gets from, all others.
constexpr bool HasRoot(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kReduce || kind == OpKind::kGather ||
         kind == OpKind::kScatter;
}
// Collectives that NCCL carries out as sends and receives; members are connected as by these.
constexpr bool IsPairwise(OpKind kind) {
  return kind == OpKind::kAllToAll || kind == OpKind::kGather || kind == OpKind::kScatter;
}
// Collectives that add something up.
constexpr bool Reduces(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter || kind == OpKind::kReduce;
}
// Collectives of which some member's buffer holds `count` elements for each member.
constexpr bool HoldsAllShares(OpKind kind) {
  return kind == OpKind::kAllGather || kind == OpKind::kReduceScatter || IsPairwise(kind);
}
constexpr bool IsHostWait(OpKind kind) {
  return kind >= OpKind::kStreamSync && kind <= OpKind::kPoll;
}
// Nothing stands behind it in its thread.
constexpr bool EndsThread(OpKind kind) { return kind >= OpKind::kSleep; }

// "AllReduce", "GroupStart", "StreamWaitEvent": the enumerator without its k.
const char* Name(OpKind kind);

// The calls of other threads, of this rank or of another, that come before one. A gate holds back a
// thread on the host; what waits on a stream is never gated.
struct Gate {
  enum class Moment : uint8_t {
    kCalled,    // the other thread has come to it: it never returned, or not before this one
    kReturned,  // the call has returned
  };
  OpId after = 0;
  Moment moment = Moment::kReturned;

  friend bool operator==(const Gate&, const Gate&) = default;
};

struct Op {
  OpId id = 0;
  OpKind kind = OpKind::kSleep;
  // Places in Schedule::comms, and in RankProgram::streams; numbers of events and graphs, which
  // count from 0 to RankProgram::events and ::graphs. -1: not of this kind of call.
  int comm = -1;
  int parent = -1;  // kCommSplit: the communicator that is split
  int stream = -1;
  int event = -1;
  int graph = -1;
  // Operations, as NCCL takes them: of ncclDataType_t, ncclRedOp_t (255: none), ranks of the
  // communicator (places in Communicator::members, so that they change when a member before them is
  // taken out).
  uint64_t count = 0;
  uint8_t datatype = 0;
  uint8_t reduce_op = 255;
  int root_or_peer = -1;
  int color = -1;  // kCommSplit; -1: joins nothing
  int key = 0;
  uint64_t duration_ns = 0;  // kKernel
  int exit_code = 0;         // kExit; of kKill the signal
  bool in_group = false;     // between kGroupStart and kGroupEnd of its thread
  bool captured = false;     // goes into a graph
  bool unfinished = false;   // the call had not returned when the record ends
  bool not_reached = false;  // nobody saw it called: what others have called says that it would
                             // have been (not_reached.h)
  bool witness = false;      // the verdict names it: it is in the cycle, or part of what is stuck
  std::string symbol;        // the call as the original made it: "cudaFreeHost"; empty: made up
  std::string site;          // where: "train.cc:88 step()"; empty: not known
  std::vector<Gate> gates;   // all of them, before it is called

  friend bool operator==(const Op&, const Op&) = default;
};

struct Communicator {
  std::string name;          // fit for an identifier, unique within the schedule: "dp"
  std::string label;         // the job's own name for it; empty: none was told
  std::vector<int> members;  // places in Schedule::ranks, in the communicator's order; -1: a member
                             // that was never seen to take part
  int parent = -1;           // split off this one; -1: made of a unique id
  // Made before any thread begins, in the order of Schedule::comms, parents first. Otherwise by the
  // kCommInit and kCommSplit among the operations.
  bool ready = false;
  // Was used before any thread begins, so that its first use there connects nobody: by collectives;
  // by transfers from the first to the second of these members.
  bool connected = false;
  std::vector<std::pair<int, int>> connected_pairs;

  friend bool operator==(const Communicator&, const Communicator&) = default;
};

// The rank's place among the members; -1: it is none.
int MemberOf(const Communicator& comm, int rank);

enum class StreamKind : uint8_t { kNonBlocking, kBlocking, kLegacy, kPerThread };

struct Stream {
  std::string name;  // fit for an identifier, unique within the rank: "s1"
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
  int events = 0;
  int graphs = 0;
  // The first one makes communicators, streams and events, and starts the others; none is empty
  // when the schedule was extracted, any may be after a cut.
  std::vector<ThreadProgram> threads;

  friend bool operator==(const RankProgram&, const RankProgram&) = default;
};

// What a replay has to be told as, to be one of the same hang.
struct Signature {
  std::string verdict;  // as in verdict.json: "deadlock"
  std::vector<std::string>
      edges;  // kinds of edges in the cycle, sorted, each once; empty: no cycle

  friend bool operator==(const Signature&, const Signature&) = default;
};
std::string Describe(const Signature& signature);  // "deadlock (stream_order, started_collective)"

// Where a schedule comes from. People read it; nothing is decided by it, apart from the signature.
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
  std::vector<std::string> notes;  // what was guessed or left out, one line each

  friend bool operator==(const Origin&, const Origin&) = default;
};

struct Schedule {
  std::vector<Communicator> comms;  // in the order in which they were made
  std::vector<RankProgram> ranks;
  std::vector<std::pair<std::string, std::string>>
      environment;  // settings without which it does not hang
  Origin origin;

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// visit(rank, thread, op), places in the schedule, in order; of a schedule that is to be changed,
// `op` may be.
template <typename Program, typename Visit>
void ForEachOp(Program& schedule, Visit visit) {
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    for (size_t thread = 0; thread < schedule.ranks[rank].threads.size(); ++thread) {
      for (auto& op : schedule.ranks[rank].threads[thread].ops) visit(rank, thread, op);
    }
  }
}

// An id that no operation has, nor any id above it.
OpId NextId(const Schedule& schedule);
// Calls of NCCL's operations that were made.
size_t CountOperations(const Schedule& schedule);
// All calls of all threads.
size_t CountCalls(const Schedule& schedule);

// Takes out the gates whose operation is gone; an operation that was gated by a call that is gone
// is gated by what came last before that in the same thread, as far as `before` knows it. For who
// takes operations out.
void DropDanglingGates(const Schedule& before, Schedule* after);

// What makes no sense in it, one line each: places that do not exist, ids used twice, groups that
// do not close. Empty: a writer can write it.
std::vector<std::string> Check(const Schedule& schedule);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_SCHEDULE_H_
