#include "tests/unit/analyzer/report/sample_verdicts.h"

#include <fmt/format.h>

namespace gordian::testing {
namespace {

using model::Confidence;
using model::Finding;
using model::OperationMember;
using model::PartState;
using model::StuckOperation;
using model::Verdict;
using model::VerdictKind;
using model::WaitEdge;

constexpr model::CommUid kData = 0xda7a'0000'0000'0001;
constexpr model::CommUid kTensor = 0x7e45'0000'0000'0002;

model::Site At(uint32_t process, uint64_t address) {
  return {.process = process, .address = address};
}

model::Evidence Seen(int ranks) {
  return {.ranks_seen = ranks, .ranks_expected = ranks, .records = 8328, .nccl_calls = 2048};
}

Verdict TwoRanks() {
  Verdict verdict;
  Finding& main = verdict.main;
  main.verdict = VerdictKind::kDeadlock;
  main.check = "communicator-order-cycle";
  main.confidence = Confidence::kConfirmed;
  main.summary =
      "Ranks 0 and 1 wait for each other: rank 0 is in AllReduce #12 on dp and has not "
      "reached AllGather #3 on tp; rank 1 is in AllGather #3 on tp and has not reached "
      "AllReduce #12 on dp.";
  main.advice =
      "Let all ranks call AllReduce on dp and AllGather on tp in the same order: rank 1 "
      "departs at train.cc:91. Or put them on two streams with CUDA work between them "
      "ordered by events.";
  main.culprit_ranks = {0, 1};
  main.culprit_processes = {{.rank = 0, .pid = 4711, .node = "node7"},
                            {.rank = 1, .pid = 4712, .node = "node8"}};
  main.victim_ranks = {2, 3};
  main.cycle = {
      WaitEdge{.rank = 0,
               .waits_for_rank = 1,
               .reason = model::Reason::kStartedCollective,
               .op = "AllReduce",
               .comm = kData,
               .comm_name = "dp",
               .sequence = 12,
               .stream = 7,
               .bytes = 4194304,
               .site = At(1, 0x88),
               .detail = "rank 1 starts AllReduce #12 on dp only after AllGather #3 on tp: on the "
                         "same stream"},
      WaitEdge{.rank = 1,
               .waits_for_rank = 0,
               .reason = model::Reason::kStartedCollective,
               .op = "AllGather",
               .comm = kTensor,
               .comm_name = "tp",
               .sequence = 3,
               .stream = 9,
               .bytes = 1536,
               .site = At(2, 0x91),
               .detail = ""},
  };
  main.operations = {
      StuckOperation{
          .op = "AllReduce",
          .comm = kData,
          .comm_name = "dp",
          .sequence = 12,
          .bytes = 4194304,
          .members = {OperationMember{.rank = 0, .state = PartState::kAtHead, .site = At(1, 0x88)},
                      OperationMember{
                          .rank = 1, .state = PartState::kEnqueued, .site = At(2, 0x95)},
                      OperationMember{.rank = 2, .state = PartState::kAtHead, .site = At(3, 0x88)},
                      OperationMember{
                          .rank = 3, .state = PartState::kAtHead, .site = At(4, 0x88)}}},
      StuckOperation{.op = "AllGather",
                     .comm = kTensor,
                     .comm_name = "tp",
                     .sequence = 3,
                     .bytes = 1536,
                     .members = {OperationMember{.rank = 0,
                                                 .state = PartState::kNotCalled,
                                                 .instead = "is in cudaStreamSynchronize",
                                                 .site = At(1, 0x99)},
                                 OperationMember{
                                     .rank = 1, .state = PartState::kAtHead, .site = At(2, 0x91)}}},
  };
  main.communicators = {
      {.comm = kData,
       .name = "dp",
       .ranks = {0, 1, 2, 3},
       .size = 4,
       .made_by = 0,
       .made_at = At(1, 0x40)},
      {.comm = kTensor,
       .name = "tp",
       .ranks = {0, 1},
       .size = 2,
       .made_by = 0,
       .made_at = At(1, 0x41)},
  };
  main.stalled_at_ns = 123'456'789'000;
  main.detected_after_s = 0.2148;
  main.evidence = Seen(4);
  return verdict;
}

Verdict ManyRanks() {
  Verdict verdict = TwoRanks();
  Finding& main = verdict.main;
  main.summary = "Ranks 0-11 wait for each other.";
  main.cycle.clear();
  for (int rank = 0; rank < 12; ++rank) {
    main.cycle.push_back(WaitEdge{.rank = rank,
                                  .waits_for_rank = (rank + 1) % 12,
                                  .reason = model::Reason::kReceive,
                                  .op = "Recv",
                                  .comm = kData,
                                  .sequence = rank,
                                  .stream = 1,
                                  .bytes = 64,
                                  .site = At(1, 0x88)});
  }
  main.culprit_ranks = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  main.victim_ranks = {12};
  main.operations.clear();
  return verdict;
}

Verdict Suspected() {
  Verdict verdict = TwoRanks();
  Finding& main = verdict.main;
  main.confidence = Confidence::kSuspected;
  main.evidence.ranks_seen = 3;
  main.evidence.records_lost = 17;
  main.evidence.not_visible = {"statically linked NCCL in rank 3", "rank 2 did not answer"};
  main.evidence.assumes = {"no other thread of rank 1 calls"};
  Finding further;
  further.verdict = VerdictKind::kMismatch;
  further.check = "count-mismatch";
  further.confidence = Confidence::kConfirmed;
  further.summary = "AllReduce #4 on dp: rank 2 passed 1024 elements, the others 2048.";
  further.culprit_ranks = {2};
  further.evidence = main.evidence;
  verdict.findings.push_back(further);
  return verdict;
}

Verdict HostCycle() {
  Verdict verdict = TwoRanks();
  Finding& main = verdict.main;
  main.check = "host-wait-cycle";
  main.cycle.insert(main.cycle.begin() + 1, WaitEdge{.rank = 1,
                                                     .waits_for_rank = 1,
                                                     .reason = model::Reason::kHostSync,
                                                     .op = "cudaDeviceSynchronize",
                                                     .site = At(2, 0x99)});
  return verdict;
}

Verdict Simple(VerdictKind kind, const std::string& check, const std::string& summary,
               std::vector<int> culprits, std::vector<int> victims, PartState state,
               const std::string& instead) {
  Verdict verdict;
  Finding& main = verdict.main;
  main.verdict = kind;
  main.check = check;
  main.confidence = Confidence::kConfirmed;
  main.summary = summary;
  main.advice = "See what the rank does instead.";
  main.culprit_ranks = culprits;
  main.victim_ranks = victims;
  StuckOperation operation{
      .op = "AllReduce", .comm = kData, .comm_name = "dp", .sequence = 5, .bytes = 1 << 20};
  for (int rank : victims) {
    operation.members.push_back(
        OperationMember{.rank = rank, .state = PartState::kAtHead, .site = At(1, 0x88)});
  }
  for (int rank : culprits) {
    operation.members.push_back(OperationMember{.rank = rank, .state = state, .instead = instead});
  }
  main.operations.push_back(operation);
  main.stalled_at_ns = 5'000'000'000;
  main.detected_after_s = 3.04;
  main.evidence = Seen(4);
  return verdict;
}

Verdict Quiet(VerdictKind kind, const std::string& summary) {
  Verdict verdict;
  verdict.main.verdict = kind;
  verdict.main.check = model::Name(kind);
  verdict.main.confidence = Confidence::kConfirmed;
  verdict.main.summary = summary;
  verdict.main.evidence = Seen(4);
  return verdict;
}

Verdict Hostile() {
  Verdict verdict = TwoRanks();
  Finding& main = verdict.main;
  main.cycle[0].comm_name = "dp\033[31m\n\xff\xfe\"quoted\"";
  main.cycle[1].op = std::string(300, 'A');
  main.cycle[1].site = At(9, 0x1);
  main.victim_ranks = {-1};
  main.detected_after_s = 1e300;
  main.advice.clear();
  return verdict;
}

}  // namespace

std::vector<Sample> Samples() {
  std::vector<Sample> samples;
  samples.push_back({"deadlock_two_ranks", TwoRanks()});
  samples.push_back({"deadlock_many_ranks", ManyRanks()});
  samples.push_back({"deadlock_suspected", Suspected()});
  samples.push_back({"deadlock_host_wait", HostCycle()});
  samples.push_back({"deadlock_hostile_names", Hostile()});
  samples.push_back(
      {"mismatch", Simple(VerdictKind::kMismatch, "count-mismatch",
                          "AllReduce #5 on dp: rank 2 passed 1024 elements, the others 2048.", {2},
                          {0, 1, 3}, PartState::kAtHead, "")});
  samples.push_back(
      {"rank_not_joined", Simple(VerdictKind::kRankNotJoined, "rank-not-joined",
                                 "Rank 3 runs its own code; ranks 0, 1 and 2 wait in AllReduce #5 "
                                 "on dp.",
                                 {3}, {0, 1, 2}, PartState::kNotCalled,
                                 "runs its own code and sleeps outside of NCCL and CUDA")});
  samples.push_back(
      {"rank_exited", Simple(VerdictKind::kRankExited, "rank-exited",
                             "Rank 3 was killed by signal 9; ranks 0, 1 and 2 wait in AllReduce #5 "
                             "on dp.",
                             {3}, {0, 1, 2}, PartState::kNotCalled, "was killed by signal 9")});
  samples.push_back(
      {"rank_stopped", Simple(VerdictKind::kRankStopped, "rank-stopped", "Rank 1 is stopped.", {1},
                              {0}, PartState::kEnqueued, "is stopped")});
  samples.push_back({"rank_aborted",
                     Simple(VerdictKind::kRankAborted, "rank-aborted",
                            "Rank 1 aborted the communicator; rank 0 waits in AllReduce #5 on dp.",
                            {1}, {0}, PartState::kNotCalled, "has aborted the communicator")});
  samples.push_back({"stuck_kernel", Simple(VerdictKind::kStuckKernel, "stuck-kernel",
                                            "A kernel of rank 0 has not ended for 30 s.", {0}, {1},
                                            PartState::kEnqueued, "")});
  samples.push_back(
      {"host_blocked",
       Simple(VerdictKind::kHostBlocked, "host-blocked", "Rank 1 sleeps outside of NCCL and CUDA.",
              {1}, {0, 2, 3}, PartState::kNotCalled, "sleeps outside of NCCL and CUDA")});
  samples.push_back({"init_hang", Simple(VerdictKind::kInitHang, "communicator-init-missing",
                                         "Rank 3 has not joined in making comm dp.", {3}, {0, 1, 2},
                                         PartState::kNotCalled, "runs its own code")});
  samples.push_back({"inconclusive", Quiet(VerdictKind::kInconclusive,
                                           "No rank was seen: is NCCL linked statically?")});
  samples.back().verdict.main.confidence = Confidence::kSuspected;
  samples.back().verdict.main.evidence = {.ranks_expected = 4,
                                          .not_visible = {"statically linked NCCL in all ranks"}};
  samples.push_back({"healthy", Quiet(VerdictKind::kHealthy, "All operations have finished.")});
  samples.push_back({"finished", Quiet(VerdictKind::kFinished,
                                       "The job ended with code 0; nothing was left waiting.")});
  samples.push_back({"finished_restarted", samples.back().verdict});
  samples.back().verdict.restarts = {
      .times = 2, .ranks = {0, 1, 2, 3}, .because = "rank 1 was killed by signal 9"};
  samples.push_back({"finished_disproved", samples.back().verdict});
  samples.back().verdict.restarts = {};
  samples.back().verdict.disproved = {samples.front().verdict.main};
  return samples;
}

analyzer::SiteResolver SampleSites() {
  return [](const model::Site& site) -> std::string {
    if (site.address == 0) return "";
    if (site.process == 9) return std::string(150, 'x') + "+0x1 (" + std::string(200, 'y') + ")";
    return fmt::format("train.cc:{:x} step()", site.address);
  };
}

}  // namespace gordian::testing
