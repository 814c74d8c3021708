#include "analyzer/graph/check_catalogue.h"

#include <cstring>
#include <iterator>

namespace gordian::graph {
namespace {

constexpr Check kChecks[] = {
    {"evidence-missing", VerdictKind::kInconclusive,
     "Something waits, and what could explain it was not seen.",
     "See what is not visible, and run again with it in sight."},
    {"no-nccl-calls", VerdictKind::kInconclusive, "No NCCL call was seen.",
     "Run `gordian doctor`: NCCL may be linked statically, or the job may not use it."},
    {"communicator-order-cycle", VerdictKind::kDeadlock,
     "Operations of several communicators are in different orders at different ranks, and each "
     "holds up the next.",
     "Issue the operations of these communicators in the same order at every rank, or on streams "
     "that do not wait for each other."},
    {"event-cycle", VerdictKind::kDeadlock,
     "Streams that wait for each other's events order operations differently at different ranks.",
     "Remove one of the stream waits in the cycle, or issue the operations in one order at every "
     "rank."},
    {"resource-cycle", VerdictKind::kDeadlock,
     "Operations that no order of streams holds up would wait for each other if they shared hardware "
     "queues, or left each other no multiprocessors.",
     "Use fewer streams, or raise CUDA_DEVICE_MAX_CONNECTIONS; lower NCCL_MAX_CTAS; or issue the "
     "operations in one order at every rank."},
    {"memory-wait-cycle", VerdictKind::kDeadlock,
     "A stream waits for a value in memory, and the write of it stands behind what waits for that "
     "stream.",
     "Issue the write where nothing holds it up that the waiting stream holds up: on a stream of its "
     "own, or before the operations of the cycle."},
    {"host-wait-cycle", VerdictKind::kDeadlock,
     "Host threads wait for operations that end only after calls these threads have yet to make.",
     "Move the host wait behind the calls that the other ranks wait for, or issue the operations "
     "in one order at every rank."},
    {"first-use-order-cycle", VerdictKind::kDeadlock,
     "The first use of a communicator or of a peer connects and holds the host thread; the ranks "
     "do so in different orders.",
     "Make the first uses in the same order at every rank: a warm-up that uses every communicator "
     "in one order is enough. NCCL_RUNTIME_CONNECT=0 connects at init instead."},
    {"point-to-point-order-cycle", VerdictKind::kDeadlock,
     "Receives wait for sends that stand behind them.",
     "Reorder the sends and receives, or put both into one ncclGroupStart/ncclGroupEnd."},
    {"unbuffered-send-cycle", VerdictKind::kDeadlock,
     "Sends wait for receives that stand behind them: it hangs when nothing buffers the data.",
     "Put matching sends and receives into one ncclGroupStart/ncclGroupEnd."},
    {"communicator-init-order", VerdictKind::kInitHang,
     "Ranks make their communicators in different orders; each call waits for all its members.",
     "Make the communicators in the same order at every rank, or all in one group."},
    {"communicator-init-missing", VerdictKind::kInitHang,
     "A communicator-making call waits for members that have not made it.",
     "Have every member make the call: check nranks, the ids handed out, and the branch that the "
     "missing ranks took."},
    {"communicator-call-order", VerdictKind::kDeadlock,
     "Ranks destroy communicators, or register windows, in orders that hold each other up: each such "
     "call waits for all members.",
     "Make these calls in one order at every rank, behind the last operation that others still "
     "wait for."},
    {"communicator-call-missing", VerdictKind::kRankNotJoined,
     "A call that all members of a communicator make waits for some that have not made it.",
     "Have every member register the window, or destroy the communicator; look at what the missing "
     "ranks do instead."},
    {"mismatch-kind", VerdictKind::kMismatch,
     "The members of a communicator call different operations at the same position.",
     "Make every rank call the same operations in the same order on this communicator."},
    {"mismatch-count", VerdictKind::kMismatch, "The members of an operation disagree on the count.",
     "Pass the same count at every rank; agree on sizes before the operation if they vary."},
    {"mismatch-type", VerdictKind::kMismatch,
     "The members of an operation disagree on the data type.",
     "Pass the same data type at every rank."},
    {"mismatch-operator", VerdictKind::kMismatch,
     "The members of an operation disagree on the reduction operator.",
     "Pass the same reduction operator at every rank."},
    {"mismatch-root", VerdictKind::kMismatch, "The members of an operation disagree on the root.",
     "Pass the same root at every rank."},
    {"mismatch-unlocated", VerdictKind::kMismatch,
     "The members of a communicator passed different arguments to an operation that is long past.",
     "Run again without losing records (a longer ring, or fewer calls between), which names it."},
    {"mismatch-transfer", VerdictKind::kMismatch,
     "A send and its receive disagree on how much is sent.",
     "Pass the same count and type to ncclSend and to the matching ncclRecv."},
    {"rank-not-joined", VerdictKind::kRankNotJoined,
     "Others wait in an operation that this rank has not called; it runs code of its own.",
     "Look at what the rank does instead: a branch it took alone, or work that takes far longer "
     "there."},
    {"rank-left", VerdictKind::kRankNotJoined,
     "Others wait in an operation on a communicator that this rank has already destroyed.",
     "Make the number of operations equal at all ranks: somebody issues more than the others."},
    {"host-blocked", VerdictKind::kHostBlocked,
     "Others wait in an operation that this rank has not called; it sleeps outside of NCCL and "
     "CUDA.",
     "Look at what the rank sleeps in: a lock, a file, a data loader, a store, a sleep."},
    {"rank-exited", VerdictKind::kRankExited, "Others wait for a rank that has ended.",
     "Find out why the rank ended: its exit status and its log come first."},
    {"rank-stopped", VerdictKind::kRankStopped, "Others wait for a rank that is stopped.",
     "Send SIGCONT to the stopped process, or detach the debugger."},
    {"rank-aborted", VerdictKind::kRankAborted,
     "Others wait for a rank that has aborted the communicator.",
     "Abort the communicator at every rank when one of them does."},
    {"memory-wait", VerdictKind::kStuckKernel,
     "A stream waits for a value in memory that nobody has written, and others wait for what stands "
     "behind it.",
     "Look at who should write the value: the host, a kernel, another process or device."},
    {"stuck-kernel", VerdictKind::kStuckKernel,
     "Everything that is needed has been issued, and nothing ends.",
     "Look at the device: a kernel that never ends, exhausted SMs, a broken link, or the library."},
    {"job-healthy", VerdictKind::kHealthy, "Nothing is stuck.", ""},
    {"job-finished", VerdictKind::kFinished, "The job has ended.", ""},
};

}  // namespace

const Check& CheckById(const char* id) {
  for (const Check& check : kChecks) {
    if (std::strcmp(check.id, id) == 0) return check;
  }
  return kChecks[0];
}

const Check* AllChecks(size_t* count) {
  *count = std::size(kChecks);
  return kChecks;
}

bool SaysTrouble(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kInconclusive:
    case VerdictKind::kHealthy:
    case VerdictKind::kFinished:
    case VerdictKind::kStraggler:
      return false;
    case VerdictKind::kDeadlock:
    case VerdictKind::kMismatch:
    case VerdictKind::kRankNotJoined:
    case VerdictKind::kRankExited:
    case VerdictKind::kRankStopped:
    case VerdictKind::kRankAborted:
    case VerdictKind::kStuckKernel:
    case VerdictKind::kHostBlocked:
    case VerdictKind::kInitHang:
      return true;
  }
  return true;
}

int Severity(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kFinished:
      return 0;
    case VerdictKind::kHealthy:
      return 1;
    case VerdictKind::kInconclusive:
      return 2;
    case VerdictKind::kStraggler:
      return 3;
    case VerdictKind::kStuckKernel:
      return 4;
    case VerdictKind::kHostBlocked:
      return 5;
    case VerdictKind::kRankNotJoined:
      return 6;
    case VerdictKind::kInitHang:
      return 7;
    case VerdictKind::kRankStopped:
      return 8;
    case VerdictKind::kRankExited:
      return 9;
    case VerdictKind::kRankAborted:
      return 10;
    case VerdictKind::kDeadlock:
      return 11;
    case VerdictKind::kMismatch:
      return 12;
  }
  return 0;
}

const char* Name(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kInconclusive:
      return "inconclusive";
    case VerdictKind::kHealthy:
      return "healthy";
    case VerdictKind::kFinished:
      return "finished";
    case VerdictKind::kDeadlock:
      return "deadlock";
    case VerdictKind::kMismatch:
      return "mismatch";
    case VerdictKind::kRankNotJoined:
      return "rank_not_joined";
    case VerdictKind::kRankExited:
      return "rank_exited";
    case VerdictKind::kRankStopped:
      return "rank_stopped";
    case VerdictKind::kRankAborted:
      return "rank_aborted";
    case VerdictKind::kStraggler:
      return "straggler";
    case VerdictKind::kStuckKernel:
      return "stuck_kernel";
    case VerdictKind::kHostBlocked:
      return "host_blocked";
    case VerdictKind::kInitHang:
      return "init_hang";
  }
  return "inconclusive";
}

const char* Name(Confidence confidence) {
  switch (confidence) {
    case Confidence::kPossible:
      return "possible";
    case Confidence::kSuspected:
      return "suspected";
    case Confidence::kConfirmed:
      return "confirmed";
  }
  return "suspected";
}

}  // namespace gordian::graph
