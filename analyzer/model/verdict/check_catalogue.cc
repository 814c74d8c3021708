#include "analyzer/model/verdict/check_catalogue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gordian::model {
namespace {

constexpr Threshold kTwoRounds = {"rounds", "2, without progress in between"};
constexpr Threshold kSuspicion = {"seconds without progress", "--suspect-after (5)"};
constexpr Threshold kBoth = {"rounds; seconds without progress",
                             "2 rounds confirm; --suspect-after (5) with a hole in the evidence"};
constexpr Threshold kAssumed = {
    "seconds without progress",
    "--suspect-after (5); never confirmed, since gordian cannot see what it assumes"};
constexpr Threshold kTwoCalls = {"calls", "the k-th of two members of a communicator"};
constexpr Threshold kStacks = {"stacks", "one, read after a verdict"};
constexpr char kCycle[] =
    "Every arrow of the cycle: calls, their order on streams and communicators, events, host "
    "waits, and the device's progress at all ranks of it.";
constexpr char kCycleFooled[] =
    "Nothing known. Lost records, a rank that does not answer, a thread that runs or that time or "
    "the outside may wake, an operation on a non-blocking communicator: then it is a suspicion at "
    "most.";
constexpr char kMismatchEvidence[] =
    "The calls of two members with the same number on one communicator.";
constexpr char kMismatchFooled[] =
    "Nothing known unless records are lost. The check names the minority; if one rank is right and "
    "the others are wrong, it names the right one. Of two members it names the one that departs "
    "from sibling communicators; a sibling that is at another step of its program misleads it.";
constexpr char kAbsence[] =
    "Other ranks wait in an operation that this rank has not called; its threads are outside of "
    "NCCL.";
constexpr char kAbsenceFooled[] =
    "A rank that is only slow: the check names it too, and the verdict goes when it arrives.";
constexpr char kStackEvidence[] =
    "Stacks of a culprit's threads: ptrace, and names of functions in the libraries "
    "(docs/limits.md).";
constexpr char kStackFooled[] =
    "A thread that passes through such a function at the moment of reading; another function of "
    "that name. Hence a sign, and no verdict.";

constexpr Check kChecks[] = {
    {"evidence-missing", VerdictKind::kInconclusive, "Evidence for the wait is missing",
     "Something waits, and gordian did not see what could explain it.", kSuspicion,
     "A wait whose end depends on a rank, record or operation that is not visible.",
     "Nothing: it claims nothing. It ranks above healthy.",
     "Read what is not visible; `gordian doctor -- PROGRAM` says how gordian can see it."},
    {"no-nccl-calls", VerdictKind::kInconclusive, "No NCCL call", "Gordian saw no NCCL call.",
     kSuspicion, "A job that has run for longer than the threshold, or ended.",
     "An NCCL that is linked statically, or bound past the shim.",
     "Run `gordian doctor`: NCCL may be linked statically, or the job may not use it."},
    {"no-progress", VerdictKind::kInconclusive, "Nothing has moved for longer than the threshold",
     "No rank is known to wait for another, and none has called or finished anything that gordian "
     "sees.",
     kSuspicion,
     "The latest call or finished operation of any rank, and what each rank is in now; before the "
     "first call of NCCL, also that no rank uses a processor.",
     "A job that computes on the host, loads data or writes a checkpoint. Hence no rank is "
     "accused.",
     "If that takes too long, look at the stacks; `gordian attach PID` reads them again."},
    {"communicator-order-cycle", VerdictKind::kDeadlock, "Communicators in different orders",
     "Operations of several communicators are in different orders at different ranks, and each "
     "holds up the next.",
     kTwoRounds, kCycle, kCycleFooled,
     "Issue the operations of these communicators in the same order at every rank, or on streams "
     "that do not wait for each other."},
    {"event-cycle", VerdictKind::kDeadlock, "Streams order operations by events in a cycle",
     "Streams that wait for each other's events order operations differently at different ranks.",
     kTwoRounds, kCycle, kCycleFooled,
     "Remove one of the stream waits in the cycle, or issue the operations in one order at every "
     "rank."},
    {"resource-cycle", VerdictKind::kDeadlock, "Hardware queues or multiprocessors in a cycle",
     "Operations that no stream order holds up would wait for each other if they shared "
     "hardware queues, or ran out of multiprocessors.",
     kAssumed,
     "Launches that do not end although nothing else holds them up, on more streams than queues, "
     "or in "
     "a row.",
     "Any other reason why launches do not end: gordian cannot see the device's queues from the "
     "host.",
     "Use fewer streams, or raise CUDA_DEVICE_MAX_CONNECTIONS; lower NCCL_MAX_CTAS; or issue the "
     "operations in one order at every rank."},
    {"memory-wait-cycle", VerdictKind::kDeadlock, "A write to memory behind the wait for it",
     "A stream waits for a value in memory, and the write of that value stands behind operations "
     "that wait for the "
     "stream.",
     kAssumed, "Stream waits and writes of memory that, as far as known, only this process writes.",
     "Another writer: a network card, a kernel of another process, an operation of NCCL.",
     "Issue the write where the waiting stream does not hold it up: on a stream of "
     "its own, or before the operations of the cycle."},
    {"signal-order-cycle", VerdictKind::kDeadlock, "Signals in a cycle",
     "A rank waits for a signal (ncclWaitSignal) that its peer sends only after something that "
     "waits for this rank.",
     kAssumed,
     "Calls that send signals or wait for them, their order on streams, host waits, and "
     "the device's progress at "
     "all ranks of the cycle.",
     "A kernel that sends the signal by NCCL's device functions; a wait that does not consume the "
     "signal of an earlier one, as nccl.h says it does (both named under `assumed`).",
     "Send each signal before the operations that wait for the other rank, or on a stream that "
     "does not wait for "
     "it."},
    {"host-wait-cycle", VerdictKind::kDeadlock, "Host waits between calls in a cycle",
     "Host threads wait for operations that end only after calls these threads have yet to make.",
     kTwoRounds, kCycle, kCycleFooled,
     "Move the host wait after the calls that the other ranks wait for, or issue the operations "
     "in one order at every rank."},
    {"first-use-order-cycle", VerdictKind::kDeadlock, "First uses in different orders",
     "The first use of a communicator or of a peer connects, and blocks the host thread; the ranks "
     "do so in different orders.",
     kTwoRounds,
     "Threads inside their first call on a communicator or to a peer, for 100 ms at least.",
     kCycleFooled,
     "Make the first uses in the same order at every rank: a warm-up that uses every communicator "
     "in one order is enough. Or set NCCL_RUNTIME_CONNECT=0, which connects all but sends and "
     "receives at "
     "init."},
    {"group-missing", VerdictKind::kDeadlock, "One thread, several ranks, no group",
     "One thread calls an operation for several ranks, one after the other, and waits for the "
     "first before it makes the next call.",
     kTwoRounds,
     "Both rounds see the thread in the wait, the ranks that its process holds and has not called "
     "for, and no other thread that has called NCCL.",
     kCycleFooled,
     "Put the thread's calls for all of its ranks between ncclGroupStart and ncclGroupEnd, and "
     "wait for the device after the last of them."},
    {"point-to-point-order-cycle", VerdictKind::kDeadlock,
     "Receives before the sends that they need",
     "Receives wait for sends that are queued behind them.", kTwoRounds, kCycle, kCycleFooled,
     "Reorder the sends and receives, or put both into one ncclGroupStart/ncclGroupEnd."},
    {"unbuffered-send-cycle", VerdictKind::kDeadlock, "Sends without a buffer",
     "Sends wait for receives that are queued behind them: the job hangs if nothing buffers the "
     "data.",
     kAssumed, "Sends that do not end, whose receives are queued behind other sends.",
     "NCCL buffers most sends; gordian cannot see whether it buffers these.",
     "Put matching sends and receives into one ncclGroupStart/ncclGroupEnd."},
    {"communicator-init-order", VerdictKind::kInitHang, "Communicators made in different orders",
     "Ranks make their communicators in different orders; each call waits for all its members.",
     kBoth, "Which thread is inside which call that makes a communicator.",
     "The missing member might be a process that gordian does not see: then it is a suspicion.",
     "Make the communicators in the same order at every rank, or all in one group."},
    {"communicator-init-mismatch",
     VerdictKind::kInitHang,
     "Callers disagree on the communicator that they make",
     "Callers of ncclCommInitRank pass the same rank, or different numbers of ranks, with one id: "
     "NCCL makes no communicator of them, and tells none of them. Or a caller passes an id that "
     "has made a communicator before.",
     {"calls; seconds",
      "two that contradict each other, 0.3 s after the second; --suspect-after (5) for an old id"},
     "The id, the rank and the number of ranks that each caller passed.",
     "The check names the fewer callers; if one is right and the others are wrong, it names the "
     "right one. Of two that pass the same rank it names both, unless RANK says which one errs.",
     "Pass every member its own rank, and all of them the same new id and number of ranks."},
    {"communicator-init-missing", VerdictKind::kInitHang, "A member does not make its communicator",
     "A communicator-making call waits for members that have not made it.", kSuspicion,
     "A thread inside a call that makes a communicator, and the number of members that it names.",
     "A rank that is only slow. The check names ranks without RANK in their environment by their "
     "position only.",
     "Have every member make the call: check nranks, the distributed ids, and the branch that the "
     "missing ranks took. One thread that makes several members puts its calls into one group."},
    {"communicator-init-stuck",
     VerdictKind::kInitHang,
     "All members make the communicator, and the call does not return",
     "Every member has entered the call that makes a communicator, and at some members it "
     "does not return.",
     {"seconds inside the call", "twelve times --suspect-after (60)"},
     "The call of every member, and that it has not returned.",
     "A start of many ranks over a slow network. The check does not say which link, host or "
     "setting is "
     "at fault.",
     "Set NCCL_DEBUG=INFO to see how far each rank came. Likely causes: an interface that "
     "the hosts do not share (NCCL_SOCKET_IFNAME, NCCL_IB_HCA), a firewall between them, a link "
     "that is down."},
    {"communicator-call-order", VerdictKind::kDeadlock, "Destroys or windows in a cycle",
     "Ranks destroy communicators, or register windows, in orders that hold each other up: each "
     "such call waits for all members.",
     kTwoRounds, "Threads inside these calls, for a second at least where they destroy.",
     "Destroys wait for each other by implementation, not by contract (measured up to NCCL 2.28).",
     "Make these calls in one order at every rank, after the last operation that others still "
     "wait for."},
    {"communicator-call-missing",
     VerdictKind::kRankNotJoined,
     "A member does not make a collective call",
     "A call that all members of a communicator make waits for some that have not made it.",
     {"seconds without progress", "--suspect-after (5); twelve times that for ncclCommDestroy"},
     "A thread inside such a call, and members that have not made it.",
     "A rank that spends longer than the threshold on other work before it destroys.",
     "Have every member register the window, or destroy the communicator; see what the missing "
     "ranks do instead."},
    {"mismatch-kind", VerdictKind::kMismatch, "Different operations at one place",
     "The members of a communicator call different operations at the same position.", kTwoCalls,
     kMismatchEvidence, kMismatchFooled,
     "Make every rank call the same operations in the same order on this communicator."},
    {"mismatch-count", VerdictKind::kMismatch, "Different counts",
     "The members of an operation disagree on the count.", kTwoCalls, kMismatchEvidence,
     kMismatchFooled,
     "Pass the same count at every rank; agree on sizes before the operation if they vary."},
    {"mismatch-type", VerdictKind::kMismatch, "Different data types",
     "The members of an operation disagree on the data type.", kTwoCalls, kMismatchEvidence,
     kMismatchFooled, "Pass the same data type at every rank."},
    {"mismatch-operator", VerdictKind::kMismatch, "Different reduction operators",
     "The members of an operation disagree on the reduction operator.", kTwoCalls,
     kMismatchEvidence, kMismatchFooled, "Pass the same reduction operator at every rank."},
    {"mismatch-root", VerdictKind::kMismatch, "Different roots",
     "The members of an operation disagree on the root.", kTwoCalls, kMismatchEvidence,
     kMismatchFooled, "Pass the same root at every rank."},
    {"mismatch-grouping",
     VerdictKind::kMismatch,
     "Different groups of collectives",
     "The members call an operation in groups with different other operations of the same "
     "communicator.",
     {"seconds without progress", "--suspect-after (5)"},
     "Equal calls at all members, launched and not done, of which some stand alone and some in one "
     "group: NCCL launches one "
     "kernel for a group, which does not pair with the kernels of single calls.",
     "The hang was measured on H200s with NCCL 2.28.9 and two all-reduces; it may pass "
     "elsewhere, or end later.",
     "Group the same collectives at every rank, or none."},
    {"mismatch-unlocated",
     VerdictKind::kMismatch,
     "Different arguments in a past operation",
     "The members of a communicator passed different arguments to an operation whose records are "
     "gone.",
     {"hashes", "of all that two members have passed, differ"},
     "The hashes in the state blocks of two processes that lost records.",
     "The check skips operators that the program made itself.",
     "Run again without losing records (a longer ring, or fewer calls in between): gordian then "
     "names the operation."},
    {"mismatch-transfer",
     VerdictKind::kMismatch,
     "A send and its receive differ",
     "A send and its receive disagree on the number of bytes.",
     {"calls", "the k-th send and the k-th receive of a pair of ranks"},
     "Both calls. The check compares bytes, not types.",
     "A program that deliberately sends less than it receives.",
     "Pass the same count and type to ncclSend and to the matching ncclRecv."},
    {"rank-not-joined",
     VerdictKind::kRankNotJoined,
     "A rank runs its own code",
     "Other ranks wait in an operation that this rank has not called; it runs its own code.",
     {"seconds without progress",
      "--suspect-after (5); three times that while the rank makes other calls"},
     kAbsence,
     kAbsenceFooled,
     "See what the rank does instead: a branch it took alone, or work that takes far longer "
     "there."},
    {"rank-left",
     VerdictKind::kRankNotJoined,
     "A rank has left the communicator",
     "Other ranks wait in an operation on a communicator that this rank has already destroyed.",
     {"seconds", "1, so that all leaving ranks have left"},
     "The destroy, and pending operations of other ranks.",
     kCycleFooled,
     "Make the number of operations equal at all ranks: some rank issues more than the others."},
    {"host-blocked", VerdictKind::kHostBlocked, "A rank sleeps elsewhere",
     "Other ranks wait in an operation that this rank has not called; it sleeps outside of NCCL "
     "and "
     "CUDA.",
     kSuspicion, kAbsence, kAbsenceFooled,
     "See what the rank sleeps in: a lock, a file, a data loader, a store, a sleep."},
    {"rank-exited", VerdictKind::kRankExited, "A rank has ended",
     "Other ranks wait for a rank that has ended.", kTwoRounds,
     "The end of the process, and operations that wait for it.",
     "Of several ended ranks the check names the first that failed. Where all ended with code 0, a "
     "waiting rank may make a call too many: the check names the smaller side, or both. If a "
     "launcher restarts a rank, gordian withdraws the verdict.",
     "Find out why the rank ended: look at its exit status and its log first."},
    {"rank-stopped", VerdictKind::kRankStopped, "A rank is stopped",
     "Other ranks wait for a rank that is stopped.", kSuspicion,
     "State T in /proc, while other ranks run.",
     "A person with a debugger, who may continue it at any time.",
     "Send SIGCONT to the stopped process, or detach the debugger."},
    {"rank-aborted", VerdictKind::kRankAborted, "A rank has aborted",
     "Other ranks wait for a rank that has aborted the communicator.", kTwoRounds,
     "ncclCommAbort or ncclCommRevoke of one member, and operations of others.",
     "Of several aborts the check names the first it saw; another rank may have aborted earlier, "
     "unseen.",
     "Abort the communicator at every rank when one of them does."},
    {"memory-wait", VerdictKind::kStuckKernel, "A value in memory is not written",
     "A stream waits for a value in memory, gordian saw no write of it, and other ranks wait for "
     "work "
     "behind that wait.",
     kAssumed, "A stream's wait for a value without a known write, at the head of its stream.",
     "A writer that is only slow.",
     "Check the writer of the value: the host, a kernel, another process or device."},
    {"kernel-in-front",
     VerdictKind::kStuckKernel,
     "A kernel of the program does not end",
     "All ranks have made the needed calls; a kernel of the program, or a host function, "
     "precedes a rank's part and does not end.",
     {"seconds without progress", "ten times --suspect-after (50)"},
     "Kernels before an NCCL operation on a stream, the device's progress there, and the absence "
     "of any "
     "other obstacle.",
     "A kernel that takes so long and ends. A device that is frozen looks the same: nothing on it "
     "ends.",
     "Look at that rank's device: a kernel that spins for a value that never comes, or a device "
     "that has stopped (its log, Xid errors, power at full utilisation). Of a host function, look "
     "at the stacks."},
    {"stuck-kernel",
     VerdictKind::kStuckKernel,
     "All ranks have called, and nothing ends",
     "All ranks have made the needed calls, and no operation ends.",
     {"seconds without progress", "three times --suspect-after (15)"},
     "Equal calls with equal arguments at all members, none of them done, and no kernel or wait in "
     "front.",
     "An operation that takes so long and ends. The check cannot tell a fabric fault from a fault "
     "of "
     "the library or of the device.",
     "Look at the device: a kernel that never ends, no free multiprocessors, a broken link, or the "
     "library."},
    {"job-healthy",
     VerdictKind::kHealthy,
     "Nothing is stuck",
     "Nothing is stuck.",
     {"rounds", "1"},
     "Every process answers, and each wait can end.",
     "With records lost or ranks unseen it is suspected only.",
     ""},
    {"job-finished",
     VerdictKind::kFinished,
     "The job has ended",
     "The job has ended.",
     {"ends", "1"},
     "The end of the job, with no unfinished operation that a rank waited for.",
     "With records lost or ranks unseen it is suspected only.",
     ""},
    // Signs.
    {"call-failed",
     VerdictKind::kHealthy,
     "A call failed",
     "A call of NCCL, or a host wait in CUDA, has returned an error at this rank.",
     {"calls", "1"},
     "The value that a recorded call returned, except ncclInProgress and polling results.",
     "A program that makes a call knowing that it may fail.",
     "Look at the first error: later ones may follow from it. NCCL_DEBUG=WARN says more.",
     true},
    {"reduced-to-one",
     VerdictKind::kHealthy,
     "Went on after a reduce whose result only the root has",
     "The last collective of a missing rank was a reduce to another rank, so the missing rank does "
     "not "
     "have the result.",
     {"calls", "the last collective of a culprit"},
     "The calls of a rank that others wait for.",
     "A program that asks only the root for the result.",
     "If every rank decides by the result, reduce it to all: ncclAllReduce.",
     true},
    {"wrong-peer",
     VerdictKind::kHealthy,
     "A send without a receive beside a receive without a send",
     "A rank's send has no receive, while another rank's receive, as long, waits for a send of "
     "that rank.",
     {"calls", "one of each, of equal length on one communicator"},
     "Sends and receives of one communicator, with a verdict.",
     "A matching receive that the program would have called later.",
     "Compare the peer of the send with the rank of the receive.",
     true},
    {"group-left-open",
     VerdictKind::kHealthy,
     "A group that its rank has not ended",
     "A rank that others wait for has called operations in a group that it has not ended, so that "
     "none of them is launched.",
     {"calls", "1 since an ncclGroupStart, outside of the ncclGroupEnd"},
     "The calls of a culprit, with a verdict.",
     "A program that would have ended the group later.",
     "Call ncclGroupEnd on every way out of a group: an early return or an exception between the "
     "two leaves it open, and "
     "all that its thread calls from then on.",
     true},
    {"divergent-calls",
     VerdictKind::kHealthy,
     "One call extra, missing, or swapped with the next",
     "Except for one call that is extra, missing or swapped with the next, a member calls what the "
     "others do.",
     {"calls", "the next 16 from a mismatch on, of which two at least agree"},
     "Arguments of the collectives of one communicator, with a mismatch.",
     "Calls with equal arguments at different lines of the program.",
     "Compare the two programs at this call: a branch that one rank takes alone, a loop of another "
     "length.",
     true},
    {"blocking-launches",
     VerdictKind::kHealthy,
     "Launches block their thread",
     "CUDA_LAUNCH_BLOCKING is set: a launch holds its thread until it is done, so that streams "
     "order nothing apart.",
     {"settings", "1"},
     "The environment with which the process started.",
     "A process that changed it before it used CUDA.",
     "Run without CUDA_LAUNCH_BLOCKING, or give operations of several communicators one order.",
     true},
    {"settings-differ",
     VerdictKind::kHealthy,
     "Ranks run with different settings",
     "A variable of NCCL or CUDA that all members must agree on has different values at different "
     "ranks.",
     {"settings", "1 that differs"},
     "The environments with which the processes started.",
     "Intended differences. The check compares neither configuration files nor libraries.",
     "Start every rank with the same settings.",
     true},
    {"waits-in-mpi", VerdictKind::kHealthy, "A culprit is in MPI",
     "A thread of a rank that others wait for is inside a function of MPI.", kStacks,
     kStackEvidence, kStackFooled,
     "MPI and NCCL must not wait for each other: finish the NCCL operations, or order both alike "
     "at all ranks.",
     true},
    {"waits-for-gil", VerdictKind::kHealthy, "A culprit waits for Python's lock",
     "A thread of a rank that others wait for waits for Python's interpreter lock, which another "
     "thread holds.",
     kStacks, kStackEvidence, kStackFooled,
     "Look at the rank's other threads: native code that does not release the lock.", true},
    {"waits-for-input", VerdictKind::kHealthy, "A culprit waits for input",
     "The main thread of a rank that others wait for waits for a queue, a pipe, a socket or a "
     "file.",
     kStacks, kStackEvidence, kStackFooled,
     "Look at the source of the input: a data loader, a store, a file system.", true},
    {"in-teardown", VerdictKind::kHealthy, "A culprit is ending",
     "The main thread of a rank that others wait for is in its exit handlers, or ends the "
     "interpreter.",
     kStacks, kStackEvidence, kStackFooled,
     "See why the rank ends early, and what its exit waits for.", true},
};

}  // namespace

const Check* FindCheck(std::string_view id) {
  for (const Check& check : kChecks) {
    if (id == check.id) return &check;
  }
  return nullptr;
}

const Check& CheckById(std::string_view id) {
  const Check* const check = FindCheck(id);
  return check == nullptr ? kChecks[0] : *check;
}

const Check* AllChecks(size_t* count) {
  *count = std::size(kChecks);
  return kChecks;
}

Finding MakeFinding(const char* id, Confidence confidence) {
  const Check& check = CheckById(id);
  Finding finding;
  finding.verdict = check.verdict;
  finding.check = check.id;
  finding.confidence = confidence;
  finding.advice = check.advice;
  return finding;
}

namespace {

// Where ranks wait, that is what the job has: a mismatch that all have completed, and that nothing
// is known to wait behind, comes after it.
bool ComesAfter(const Finding& finding, const Finding& other) {
  return IsOver(finding) && !IsOver(other) && SaysTrouble(other.verdict) &&
         other.confidence != Confidence::kPossible;
}

// Operators alone change neither which ranks wait for which nor what an operation leaves for the
// next one, as counts and kinds may.
bool HoldsNothingUp(const Finding& finding) {
  return finding.check == "mismatch-operator" && IsOver(finding);
}

}  // namespace

Verdict WorstFirst(std::vector<Finding> findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    if (ComesAfter(a, b) || ComesAfter(b, a)) return ComesAfter(b, a);
    if (a.confidence != b.confidence) return a.confidence > b.confidence;
    if (const bool waits = HoldsNothingUp(b); waits != HoldsNothingUp(a)) return waits;
    return Severity(a.verdict) > Severity(b.verdict);
  });
  Verdict verdict;
  verdict.main = std::move(findings.front());
  verdict.findings.assign(std::make_move_iterator(findings.begin() + 1),
                          std::make_move_iterator(findings.end()));
  return verdict;
}

}  // namespace gordian::model
