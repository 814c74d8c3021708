#include "analyzer/model/verdict/hang_classes.h"

#include <iterator>

namespace gordian::model {
namespace {

constexpr Visibility kDetected = Visibility::kDetected;
constexpr Visibility kInferred = Visibility::kInferred;
constexpr Visibility kNotVisible = Visibility::kNotVisible;

constexpr HangClass kClasses[] = {
    {1, "Kind or order of operations differs inside one communicator", kDetected,
     "mismatch-kind, divergent-calls", "e2e.mismatch_kind_hangs, e2e.branch_taken_alone",
     "e2e.mismatch_kind_hangs.twin, e2e.branch_taken_alone.twin", ""},
    {2, "Sizes differ", kDetected, "mismatch-count", "e2e.mismatch_count_hangs",
     "e2e.mismatch_count_hangs.twin", "Whether it hangs or passes with wrong data."},
    {3, "Data types differ", kDetected, "mismatch-type", "e2e.mismatch_type_hangs",
     "e2e.mismatch_type_hangs.twin", ""},
    {4, "Roots differ", kDetected, "mismatch-root", "e2e.mismatch_no_root_hangs",
     "e2e.mismatch_no_root_hangs.twin", ""},
    {5, "Reduction operators differ", kDetected, "mismatch-operator", "e2e.mismatch_operator_ends",
     "e2e.mismatch_operator_ends.twin", "The job ends, with wrong data."},
    {6, "A rank does not call", kDetected, "rank-not-joined, host-blocked, group-left-open",
     "e2e.spinning_rank, e2e.missing_rank, e2e.group_left_open",
     "e2e.spinning_rank.twin, e2e.missing_rank.twin, e2e.group_left_open.twin", ""},
    {7, "A decision from a rank's own value", kDetected, "host-blocked, reduced-to-one",
     "e2e.flag_reduced_to_one", "e2e.flag_reduced_to_one.twin",
     "The sign names the reduce to one rank; whether a branch depended on it is for the reader."},
    {8, "An extra collective, uneven inputs", kDetected, "host-blocked", "e2e.one_too_many",
     "e2e.one_too_many.twin", ""},
    {9, "Compilers make different programs", kDetected, "mismatch-count, mismatch-grouping",
     "e2e.fused_differently, e2e.grouped_by_one",
     "e2e.fused_differently.twin, e2e.grouped_by_one.twin",
     "Gordian locates the difference; it does not know that a compiler made it."},
    {10, "Local control flow in serving", kDetected, "host-blocked, waits-for-input",
     "e2e.one_step_less", "e2e.one_step_less.twin", ""},
    {11, "Sends in opposite order between two ranks", kInferred, "unbuffered-send-cycle",
     "server_checks_test", "",
     "NCCL buffers most sends, so the hang is a suspicion, and e2e.send_send_buffered ends."},
    {12, "A send without receive, at the first use of a peer", kDetected, "host-blocked",
     "e2e.send_never_received", "e2e.send_never_received.twin", ""},
    {13, "Sends and receives that cross", kDetected, "point-to-point-order-cycle",
     "e2e.pipeline_swapped", "e2e.pipeline_swapped.twin", ""},
    {14, "Groups of sends and receives that do not mirror each other", kDetected,
     "point-to-point-order-cycle", "e2e.batch_asymmetric", "e2e.batch_asymmetric.twin", ""},
    {15, "A transfer and a collective in different order", kDetected, "point-to-point-order-cycle",
     "e2e.hybrid_recv_all_reduce", "e2e.hybrid_recv_all_reduce.twin", ""},
    {16, "A wrong peer", kDetected, "point-to-point-order-cycle, wrong-peer", "e2e.wrong_peer",
     "e2e.wrong_peer.twin", "The sign names the send and the receive, not which of them is wrong."},
    {17, "Two communicators in opposite order", kDetected,
     "communicator-order-cycle, host-wait-cycle, first-use-order-cycle",
     "e2e.inversion_one_stream, e2e.inversion_sync, e2e.inversion_cold",
     "e2e.inversion_one_stream.twin, e2e.inversion_sync.twin, e2e.inversion_cold.twin", ""},
    {18, "Host threads race for the order of launches", kDetected, "communicator-order-cycle",
     "e2e.launch_race", "e2e.launch_race.twin",
     "Reports the order of this run; a run that went well gets no warning. Where two calls "
     "overlap, "
     "gordian does not see their order, and says stuck-kernel."},
    {19, "Communicators made in different order, or not by all", kDetected,
     "communicator-init-missing, communicator-init-order", "e2e.split_divergent, e2e.init_order",
     "e2e.split_divergent.twin, e2e.init_order.twin", ""},
    {20, "Communicators destroyed in a cycle", kDetected, "communicator-call-order",
     "e2e.destroy_opposite", "e2e.destroy_opposite.twin", ""},
    {21, "Destroyed early, with work pending", kDetected, "rank-left", "e2e.destroyed_with_pending",
     "e2e.destroyed_with_pending.twin", "Does not cover an abort that does not return."},
    {22, "Init hangs", kDetected, "communicator-init-missing, communicator-init-mismatch",
     "e2e.init_missing, e2e.init_same_rank", "e2e.init_missing.twin, e2e.init_same_rank.twin", ""},
    {23, "A non-blocking communicator used too early", kNotVisible, "host-blocked, call-failed",
     "e2e.unseen", "",
     "NCCL does not define the result. Where it refuses the call, the sign names that call."},
    {24, "Blocking launches", kDetected, "rank-not-joined, blocking-launches",
     "e2e.blocking_launches", "e2e.blocking_launches.twin",
     "A suspicion that names all ranks; the sign gives the setting."},
    {25, "Lazy loading of modules", kNotVisible, "host-blocked", "e2e.unseen", "",
     "Gordian sees the thread in a launch that does not return, but not why."},
    {26, "Memory calls that wait for the device", kDetected, "host-wait-cycle",
     "e2e.inversion_free", "e2e.inversion_free.twin", ""},
    {27, "Host waits between calls that depend on each other", kDetected, "host-wait-cycle",
     "e2e.inversion_sync", "e2e.inversion_sync.twin", ""},
    {28, "Streams ordered wrongly by events", kDetected, "event-cycle", "e2e.event_cycle",
     "e2e.event_cycle.twin", ""},
    {29, "Replays of graphs that share a communicator", kDetected, "mismatch-count",
     "e2e.graphs_share_communicator", "e2e.graphs_share_communicator.twin",
     "If their operations differ; equal ones pair up and pass."},
    {30, "Captured at some ranks, called at others", kDetected, "host-wait-cycle",
     "e2e.graph_against_sync", "e2e.graph_against_sync.twin", ""},
    {31, "A graph that stops inside, on some ranks", kInferred, "stuck-kernel",
     "e2e.graph_stuck_inside", "",
     "Names no rank. Which node, with --graph-markers only (e2e.graph_markers)."},
    {32, "No multiprocessors or channels left", kDetected, "resource-cycle", "e2e.no_processors",
     "e2e.no_processors.twin",
     "A suspicion with its assumption. A kernel that spins on all multiprocessors is "
     "kernel-in-front or stuck-kernel."},
    {33, "A kernel that never ends", kDetected, "kernel-in-front", "e2e.endless_kernel",
     "e2e.endless_kernel.twin", ""},
    {34, "A frozen GPU", kInferred, "stuck-kernel", "e2e.unseen", "",
     "All have called, and nothing ends: no rank is named."},
    {35, "Xid, NVLink or ECC fault", kInferred, "call-failed",
     "server_signs_test:Signs.ACallThatFailed", "",
     "If a host wait returned CUDA's error; gordian does not read the driver's log."},
    {36, "Network fault", kInferred, "stuck-kernel, communicator-init-stuck", "server_checks_test",
     "", "Started everywhere, finished nowhere; gordian does not know which link."},
    {37, "An error of the proxy that never surfaces", kNotVisible, "stuck-kernel", "e2e.unseen", "",
     "Gordian does not watch proxies: it is one of the faults behind stuck-kernel."},
    {38, "Device-initiated waits", kNotVisible, "no-progress", "e2e.unseen", "",
     "Leaves no trace on the host; kernel-in-front where a collective stands behind it."},
    {39, "Settings or versions differ", kDetected, "host-wait-cycle, settings-differ",
     "e2e.settings_differ", "e2e.settings_differ.twin",
     "Settings of the environment: a sign beside the verdict, and no proof. Adapters are not "
     "compared."},
    {40, "A fault of NCCL", kInferred, "stuck-kernel", "server_checks_test", "",
     "All arguments match and all have started: looks like class 36."},
    {41, "Python's lock is held", kDetected, "waits-for-gil", "e2e.stacks", "e2e.stacks",
     "The twin is in the same test."},
    {42, "A stuck watchdog", kNotVisible, "host-blocked", "e2e.unseen", "",
     "A silent watchdog makes no call; gordian reports the hang that it missed."},
    {43, "A data loader or a file", kDetected, "host-blocked, waits-for-input", "e2e.loader_stalls",
     "e2e.loader_stalls.twin", ""},
    {44, "A process died", kDetected, "rank-exited", "e2e.killed_rank", "e2e.killed_rank.twin", ""},
    {45, "Two ranks on one GPU", kDetected, "call-failed", "e2e.same_device",
     "e2e.same_device.twin",
     "NCCL refuses, and the job ends: the sign names the call. Gordian does not detect it for "
     "releases that do not refuse."},
    {46, "MPI's progress tied to NCCL", kDetected, "rank-not-joined, waits-in-mpi", "e2e.mpi",
     "e2e.mpi", "By the name of an MPI function on the stack. The twin is in the same test."},
    {47, "A straggler", kNotVisible, "host-blocked", "e2e.unseen", "",
     "Until it comes, if it is later than the threshold; then withdrawn. `gordian status` shows "
     "which ranks are behind."},
    {48, "Blocked in teardown", kDetected, "host-blocked, in-teardown", "e2e.blocked_in_teardown",
     "e2e.blocked_in_teardown.twin", ""},
    {49, "The monitor blocks or hides", kNotVisible, "host-blocked", "e2e.unseen", "",
     "Gordian adds no collective and no wait; it does not know other monitors, and sees a rank "
     "that "
     "sleeps."},
};

}  // namespace

const HangClass* HangClasses(size_t* count) {
  *count = std::size(kClasses);
  return kClasses;
}

const char* Name(Visibility visibility) {
  switch (visibility) {
    case Visibility::kDetected:
      return "detected";
    case Visibility::kInferred:
      return "inferred";
    case Visibility::kNotVisible:
      return "not visible";
  }
  return "not visible";
}

}  // namespace gordian::model
