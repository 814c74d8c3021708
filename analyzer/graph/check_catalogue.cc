#include "analyzer/graph/check_catalogue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gordian::graph {
namespace {

constexpr Threshold kTwoRounds = {"rounds", "2, without progress in between"};
constexpr Threshold kSuspicion = {"seconds without progress", "--suspect-after (5)"};
constexpr Threshold kBoth = {"rounds; seconds without progress",
                             "2 rounds confirm; --suspect-after (5) with a hole in the evidence"};
constexpr Threshold kAssumed = {
    "seconds without progress",
    "--suspect-after (5); never confirmed, since what it assumes cannot be seen"};
constexpr Threshold kTwoCalls = {"calls", "the k-th of two members of a communicator"};
constexpr Threshold kStacks = {"stacks", "one, read after a verdict"};
constexpr char kCircle[] =
    "Every arrow of the circle: calls, their order on streams and communicators, events, host "
    "waits, and the "
    "device's progress at all ranks of it.";
constexpr char kCircleFooled[] =
    "A thread that was never seen to call NCCL and makes the missing call after all (named under "
    "`assumed`). "
    "Lost records, a rank that does not answer, or a thread that runs: then it is a suspicion at "
    "most.";
constexpr char kMismatchEvidence[] =
    "The calls of two members with the same number on one communicator.";
constexpr char kMismatchFooled[] =
    "Nothing known where no records are lost. The minority is named; where one rank is right and "
    "the "
    "others wrong, the right one is.";
constexpr char kAbsence[] =
    "Others stand in an operation that this rank has not called, and the rank's threads outside of "
    "NCCL.";
constexpr char kAbsenceFooled[] =
    "A rank that is only slow: it is named all the same, and the verdict goes when it arrives.";
constexpr char kStackEvidence[] =
    "Stacks of a culprit's threads: ptrace, and names of functions in the libraries "
    "(docs/limits.md).";
constexpr char kStackFooled[] =
    "A thread that passes through such a function at the moment of reading; a function of that "
    "name that is "
    "another one. Hence a sign, and no verdict.";

constexpr Check kChecks[] = {
    {"evidence-missing", VerdictKind::kInconclusive, "What explains the wait was not seen",
     "Something waits, and what could explain it was not seen.", kSuspicion,
     "A wait whose end lies with a rank, record or operation that is not visible.",
     "Nothing: it claims nothing. It ranks above healthy.",
     "See what is not visible, and run again with it in sight."},
    {"no-nccl-calls", VerdictKind::kInconclusive, "No NCCL call", "No NCCL call was seen.",
     kSuspicion, "A job that has run for longer than the threshold, or ended.",
     "NCCL that is linked statically or bound past the shim.",
     "Run `gordian doctor`: NCCL may be linked statically, or the job may not use it."},
    {"communicator-order-cycle", VerdictKind::kDeadlock, "Communicators in different orders",
     "Operations of several communicators are in different orders at different ranks, and each "
     "holds up the next.",
     kTwoRounds, kCircle, kCircleFooled,
     "Issue the operations of these communicators in the same order at every rank, or on streams "
     "that do not wait for each other."},
    {"event-cycle", VerdictKind::kDeadlock, "Streams order operations by events in a circle",
     "Streams that wait for each other's events order operations differently at different ranks.",
     kTwoRounds, kCircle, kCircleFooled,
     "Remove one of the stream waits in the cycle, or issue the operations in one order at every "
     "rank."},
    {"resource-cycle", VerdictKind::kDeadlock, "Hardware queues or multiprocessors in a circle",
     "Operations that no order of streams holds up would wait for each other if they shared "
     "hardware "
     "queues, or left each other no multiprocessors.",
     kAssumed,
     "Launches that nothing else holds up and that do not end, on more streams than queues, or in "
     "a row.",
     "Any other reason for which launches do not end: the device's queues cannot be seen from the "
     "host.",
     "Use fewer streams, or raise CUDA_DEVICE_MAX_CONNECTIONS; lower NCCL_MAX_CTAS; or issue the "
     "operations in one order at every rank."},
    {"memory-wait-cycle", VerdictKind::kDeadlock, "A write in memory behind what waits for it",
     "A stream waits for a value in memory, and the write of it stands behind what waits for that "
     "stream.",
     kAssumed, "Stream waits and writes of memory that only this process is known to write.",
     "Another writer: a network card, a kernel of another process, an operation of NCCL.",
     "Issue the write where nothing holds it up that the waiting stream holds up: on a stream of "
     "its "
     "own, or before the operations of the cycle."},
    {"signal-order-cycle", VerdictKind::kDeadlock, "Signals in a circle",
     "A rank waits for a signal (ncclWaitSignal) that its peer sends only after something that "
     "waits for this rank.",
     kTwoRounds,
     "Signals that were called for, sent and waited for, their order on streams, host waits, and "
     "the device's progress at "
     "all ranks of the circle.",
     "A kernel that sends the signal by NCCL's device functions (named under `assumed`); lost "
     "records. Where only a wait that "
     "uses up what an earlier one waited for explains it, it is a suspicion: nccl.h says so, no "
     "NCCL with these calls has been measured.",
     "Send each signal before what waits for the other rank, or on a stream that does not wait for "
     "it."},
    {"host-wait-cycle", VerdictKind::kDeadlock, "Host waits between calls in a circle",
     "Host threads wait for operations that end only after calls these threads have yet to make.",
     kTwoRounds, kCircle, kCircleFooled,
     "Move the host wait behind the calls that the other ranks wait for, or issue the operations "
     "in one order at every rank."},
    {"first-use-order-cycle", VerdictKind::kDeadlock, "First uses in different orders",
     "The first use of a communicator or of a peer connects and holds the host thread; the ranks "
     "do so in different orders.",
     kTwoRounds,
     "Threads inside their first call on a communicator or to a peer, for 100 ms at least.",
     kCircleFooled,
     "Make the first uses in the same order at every rank: a warm-up that uses every communicator "
     "in one order is enough. NCCL_RUNTIME_CONNECT=0 connects what is not a send or receive at "
     "init "
     "instead."},
    {"point-to-point-order-cycle", VerdictKind::kDeadlock, "Receives ahead of the sends they need",
     "Receives wait for sends that stand behind them.", kTwoRounds, kCircle, kCircleFooled,
     "Reorder the sends and receives, or put both into one ncclGroupStart/ncclGroupEnd."},
    {"unbuffered-send-cycle", VerdictKind::kDeadlock, "Sends that nothing buffers",
     "Sends wait for receives that stand behind them: it hangs when nothing buffers the data.",
     kAssumed, "Sends that do not end, whose receives stand behind other sends.",
     "NCCL buffers sends in most cases: whether it does here cannot be seen.",
     "Put matching sends and receives into one ncclGroupStart/ncclGroupEnd."},
    {"communicator-init-order", VerdictKind::kInitHang, "Communicators made in different orders",
     "Ranks make their communicators in different orders; each call waits for all its members.",
     kBoth, "Threads inside calls that make communicators, and who is in which.",
     "A process that was never seen might be the member that is missing: then it is a suspicion.",
     "Make the communicators in the same order at every rank, or all in one group."},
    {"communicator-init-missing", VerdictKind::kInitHang, "A member does not make its communicator",
     "A communicator-making call waits for members that have not made it.", kSuspicion,
     "A thread inside a call that makes a communicator, and the number of members that it names.",
     "A rank that is only slow. Ranks without RANK in their environment may be named by their "
     "place alone.",
     "Have every member make the call: check nranks, the ids handed out, and the branch that the "
     "missing ranks took."},
    {"communicator-init-stuck",
     VerdictKind::kInitHang,
     "A communicator is not made although all members make it",
     "Every member is in the call that makes a communicator, or through with it, and at some it "
     "does not come back.",
     {"seconds inside the call", "twelve times --suspect-after (60)"},
     "The call of every member, and that it has not returned.",
     "A start of many ranks over a slow network. It does not tell which link, host or setting is "
     "at "
     "fault.",
     "Look at NCCL's own start: NCCL_DEBUG=INFO tells how far each rank came. An interface that "
     "the "
     "hosts do not share (NCCL_SOCKET_IFNAME, NCCL_IB_HCA), a firewall between them, or a link "
     "that "
     "is down."},
    {"communicator-call-order", VerdictKind::kDeadlock, "Destroys or windows in a circle",
     "Ranks destroy communicators, or register windows, in orders that hold each other up: each "
     "such "
     "call waits for all members.",
     kTwoRounds, "Threads inside these calls, for a second at least where they destroy.",
     "That destroys wait for each other is so by implementation, up to NCCL 2.28 as far as tried.",
     "Make these calls in one order at every rank, behind the last operation that others still "
     "wait for."},
    {"communicator-call-missing",
     VerdictKind::kRankNotJoined,
     "A member does not make a call of all",
     "A call that all members of a communicator make waits for some that have not made it.",
     {"seconds without progress", "--suspect-after (5); twelve times that for ncclCommDestroy"},
     "A thread inside such a call, and members that have not made it.",
     "A rank that writes its results for longer than the threshold before it destroys.",
     "Have every member register the window, or destroy the communicator; look at what the missing "
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
     "The members of an operation have it in groups with different other operations of the same "
     "communicator.",
     {"seconds without progress", "--suspect-after (5)"},
     "Equal calls at all members, launched and not done, of which some stand alone and some in one "
     "group: NCCL makes one "
     "kernel of those in a group, which does not meet the kernels of single calls.",
     "That it hangs is measured on H200s with NCCL 2.28.9, with two all-reduces; it may pass "
     "elsewhere, and end later.",
     "Group the same collectives at every rank, or none."},
    {"mismatch-unlocated",
     VerdictKind::kMismatch,
     "Different arguments, long past",
     "The members of a communicator passed different arguments to an operation that is long past.",
     {"hashes", "of all that two members have passed, differ"},
     "The hashes in the state blocks of two processes that lost records.",
     "Operators that the program made itself are left out.",
     "Run again without losing records (a longer ring, or fewer calls between), which names it."},
    {"mismatch-transfer",
     VerdictKind::kMismatch,
     "A send and its receive differ",
     "A send and its receive disagree on how much is sent.",
     {"calls", "the k-th send and the k-th receive of a pair of ranks"},
     "Both calls. Bytes are compared, not types.",
     "A program that sends less than is received on purpose.",
     "Pass the same count and type to ncclSend and to the matching ncclRecv."},
    {"rank-not-joined",
     VerdictKind::kRankNotJoined,
     "A rank runs elsewhere",
     "Others wait in an operation that this rank has not called; it runs code of its own.",
     {"seconds without progress",
      "--suspect-after (5); three times that while the rank makes other calls"},
     kAbsence,
     kAbsenceFooled,
     "Look at what the rank does instead: a branch it took alone, or work that takes far longer "
     "there."},
    {"rank-left",
     VerdictKind::kRankNotJoined,
     "A rank has left the communicator",
     "Others wait in an operation on a communicator that this rank has already destroyed.",
     {"seconds", "1, so that all that leave have left"},
     "The destroy, and operations that others have pending.",
     kCircleFooled,
     "Make the number of operations equal at all ranks: somebody issues more than the others."},
    {"host-blocked", VerdictKind::kHostBlocked, "A rank sleeps elsewhere",
     "Others wait in an operation that this rank has not called; it sleeps outside of NCCL and "
     "CUDA.",
     kSuspicion, kAbsence, kAbsenceFooled,
     "Look at what the rank sleeps in: a lock, a file, a data loader, a store, a sleep."},
    {"rank-exited", VerdictKind::kRankExited, "A rank has ended",
     "Others wait for a rank that has ended.", kTwoRounds,
     "The end of the process, and operations that wait for it.",
     "Of several that end, the first that ended badly is named. One that a launcher starts again "
     "takes the "
     "verdict back.",
     "Find out why the rank ended: its exit status and its log come first."},
    {"rank-stopped", VerdictKind::kRankStopped, "A rank is stopped",
     "Others wait for a rank that is stopped.", kSuspicion,
     "State T in /proc, while other ranks run.",
     "A person with a debugger; it may be continued at any time.",
     "Send SIGCONT to the stopped process, or detach the debugger."},
    {"rank-aborted", VerdictKind::kRankAborted, "A rank has aborted",
     "Others wait for a rank that has aborted the communicator.", kTwoRounds,
     "ncclCommAbort or ncclCommRevoke of one member, and operations of others.",
     "Of several that abort, the first is named: another may have aborted before out of sight.",
     "Abort the communicator at every rank when one of them does."},
    {"memory-wait", VerdictKind::kStuckKernel, "A value in memory does not come",
     "A stream waits for a value in memory that nobody has written, and others wait for what "
     "stands "
     "behind it.",
     kAssumed,
     "A stream's wait for a value that is not known to be written, at the head of its stream.",
     "A writer that is only slow.",
     "Look at who should write the value: the host, a kernel, another process or device."},
    {"kernel-in-front",
     VerdictKind::kStuckKernel,
     "A kernel of the program does not end",
     "Everything that is needed has been called; a kernel that is not NCCL's, or a host function, "
     "stands in "
     "front of a rank's part and does not end.",
     {"seconds without progress", "ten times --suspect-after (50)"},
     "Kernels before an NCCL operation on a stream, the device's progress there, and that nothing "
     "else is "
     "in the way.",
     "A kernel that takes so long and ends. A device that is frozen looks the same: nothing on it "
     "ends.",
     "Look at that rank's device: a kernel that spins for something that does not come, or a "
     "device that has "
     "stopped (its log, Xid errors, power at full utilisation)."},
    {"stuck-kernel",
     VerdictKind::kStuckKernel,
     "All have called, nothing ends",
     "Everything that is needed has been issued, and nothing ends.",
     {"seconds without progress", "three times --suspect-after (15)"},
     "Equal calls with equal arguments at all members, none of them done, and no kernel or wait in "
     "front.",
     "An operation that takes so long and ends. It does not tell a fabric fault from a fault of "
     "the library "
     "or of the device.",
     "Look at the device: a kernel that never ends, exhausted SMs, a broken link, or the library."},
    {"job-healthy",
     VerdictKind::kHealthy,
     "Nothing is stuck",
     "Nothing is stuck.",
     {"rounds", "1"},
     "Every process answers, and each wait can end.",
     "With records lost it is suspected only.",
     ""},
    {"job-finished",
     VerdictKind::kFinished,
     "The job has ended",
     "The job has ended.",
     {"ends", "1"},
     "The end of the job, with nothing left undone that somebody waited for.",
     "With records lost it is suspected only.",
     ""},
    // Signs.
    {"call-failed",
     VerdictKind::kHealthy,
     "A call failed",
     "A call of NCCL, or a host wait in CUDA, has returned an error at this rank.",
     {"calls", "1"},
     "The value that a seen call returned; ncclInProgress and what polling returns are none.",
     "A program that tries what it knows may fail.",
     "Look at the first error: later ones may follow from it. NCCL_DEBUG=WARN says more.",
     true},
    {"reduced-to-one",
     VerdictKind::kHealthy,
     "Went on after a reduce that only its root can read",
     "The last collective of a rank that does not come was a reduce to another rank, whose result "
     "it has not.",
     {"calls", "the last collective of a culprit"},
     "The calls of a rank that others wait for.",
     "A program that asks only the root for the result.",
     "If every rank decides by the result, reduce it to all: ncclAllReduce.",
     true},
    {"wrong-peer",
     VerdictKind::kHealthy,
     "A send that nobody receives beside a receive without a send",
     "A rank's send has no receive, while another rank's receive, as long, waits for a send of "
     "that rank.",
     {"calls", "one of each, of equal length on one communicator"},
     "Sends and receives of one communicator, with a verdict.",
     "A receive that would have come later.",
     "Compare the peer of the send with the rank of the receive.",
     true},
    {"group-left-open",
     VerdictKind::kHealthy,
     "A group that was begun and not ended",
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
     "One call more, one fewer, or two swapped",
     "But for one call that is extra, missing or swapped with the next, a member calls what the "
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
     "Differences that are meant. Configuration files and other nodes' libraries are not compared.",
     "Start every rank with the same settings.",
     true},
    {"waits-in-mpi", VerdictKind::kHealthy, "A culprit is in MPI",
     "A thread of a rank that others wait for is inside a function of MPI.", kStacks,
     kStackEvidence, kStackFooled,
     "MPI and NCCL must not wait for each other: finish the NCCL operations, or order both alike "
     "at all ranks.",
     true},
    {"waits-for-gil", VerdictKind::kHealthy, "A culprit waits for Python's lock",
     "A thread of a rank that others wait for waits for the interpreter's lock, which another "
     "thread holds.",
     kStacks, kStackEvidence, kStackFooled,
     "Look at the rank's other threads: native code that does not release the lock.", true},
    {"waits-for-input", VerdictKind::kHealthy, "A culprit waits for input",
     "The main thread of a rank that others wait for waits for a queue, a pipe, a socket or a "
     "file.",
     kStacks, kStackEvidence, kStackFooled,
     "Look at who should deliver: a data loader, a store, a file system.", true},
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

// Operators alone change neither who waits for whom nor what an operation leaves behind for the
// next one, as counts and kinds may: a stall that is proven has another reason, and comes first.
bool HoldsNothingUp(const Finding& finding) {
  return finding.check == "mismatch-operator" && IsOver(finding);
}

}  // namespace

Verdict WorstFirst(std::vector<Finding> findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
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

}  // namespace gordian::graph
