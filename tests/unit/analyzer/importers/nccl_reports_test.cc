// Reports of NCCL RAS and files of NCCL Inspector, as NCCL 2.28 to 2.31 write them, each verdict
// beside one that must not be given.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "analyzer/importers/inspector.h"
#include "analyzer/importers/ras.h"
#include "analyzer/importers/sources.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::importers {
namespace {

using model::VerdictKind;

struct M {
  int rank = 0, process = 0;
  int all_reduce = 0, all_gather = 0;
  std::string status =
      R"("init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false)";
};

std::string Member(const M& m) {
  return R"({"rank": )" + std::to_string(m.rank) + R"(, "host": "10.0.0.1", "pid": )" +
         std::to_string(1000 + m.process) + R"(, "cuda_dev": )" + std::to_string(m.process) +
         R"(, "nvml_dev": 0, "status": {)" + m.status +
         R"(}, "collective_counts": {"Broadcast": 0, "Reduce": 0, "AllGather": )" +
         std::to_string(m.all_gather) + R"(, "ReduceScatter": 0, "AllReduce": )" +
         std::to_string(m.all_reduce) + "}}";
}

std::string Missing(int rank, bool dead) {
  return R"({"rank": )" + std::to_string(rank) + R"(, "host": "10.0.0.1", "pid": )" +
         std::to_string(1000 + rank) + R"(, "cuda_dev": )" + std::to_string(rank) +
         R"(, "nvml_dev": 0, "status": {"unresponsive": true, "considered_dead": )" +
         (dead ? "true" : "false") + "}}";
}

std::string Comm(const std::string& hash, int size, const std::vector<M>& members,
                 const std::vector<std::string>& missing = {}) {
  std::string ranks, gone;
  for (const M& m : members) ranks += (ranks.empty() ? "" : ",") + Member(m);
  for (const std::string& m : missing) gone += (gone.empty() ? "" : ",") + m;
  return R"({"hash": ")" + hash + R"(", "secondary_hash": "0x1:0x2", "size": )" +
         std::to_string(size) + R"(, "ranks_count": 0, "missing_ranks_count": 0, "ranks": [)" +
         ranks + R"(], "missing_ranks": [)" + gone + "]}";
}

RasReport Report(const std::string& time, const std::vector<std::string>& comms) {
  std::string all;
  for (const std::string& comm : comms) all += (all.empty() ? "" : ",") + comm;
  const std::string text =
      R"({"nccl_version": "2.28.9", "cuda_runtime_version": 13000, "timestamp": ")" + time +
      R"(", "communicators_count": 1, "communicators": [)" + all +
      R"(], "ras": {"collection_time_sec": 0.001, "timeouts_count": 0}})";
  EXPECT_EQ(SourceOf(text), Source::kRas);
  StatusOr<RasReport> report = ParseRasReport(text);
  EXPECT_TRUE(report.ok()) << report.status().ToString() << "\n" << text;
  return report.ok() ? *report : RasReport{};
}

const char kFirst[] = "2026-11-21 10:00:00", kSecond[] = "2026-11-21 10:01:00";

TEST(Ras, ARankBehindIsNamedOnceNothingMoves) {
  const auto at = [](const char* time, int last) {
    return Report(time, {Comm("0xa", 3, {{0, 0, 10}, {1, 1, 10}, {2, 2, last}})});
  };
  const model::Verdict verdict = DecideRasReports({at(kSecond, 9), at(kFirst, 9)});
  EXPECT_EQ(verdict.main.check, "rank-not-joined");
  EXPECT_EQ(verdict.main.confidence, model::Confidence::kSuspected);
  EXPECT_EQ(verdict.main.culprit_ranks, (std::vector<int>{2}));
  EXPECT_EQ(verdict.main.victim_ranks, (std::vector<int>{0, 1}));
  EXPECT_FALSE(verdict.main.evidence.not_visible.empty());
  // It is on its way: one report does not tell, nor does one report twice, nor two between which it
  // moves.
  for (const auto& reports :
       {std::vector<RasReport>{at(kFirst, 9)}, std::vector<RasReport>{at(kFirst, 9), at(kFirst, 9)},
        std::vector<RasReport>{at(kFirst, 8), at(kSecond, 9)}}) {
    EXPECT_EQ(DecideRasReports(reports).main.verdict, VerdictKind::kInconclusive);
    EXPECT_TRUE(DecideRasReports(reports).main.culprit_ranks.empty());
  }
}

TEST(Ras, WhoIsBehindAndAheadElsewhereIsAVictim) {
  // Rank 1 lacks in "0xa" because it waits in "0xb" for rank 2.
  const auto at = [](const char* time, int last) {
    return Report(time, {Comm("0xa", 3, {{0, 0, 10}, {1, 1, 9}, {2, 2, 9}}),
                         Comm("0xb", 2, {{0, 1, 5}, {1, 2, last}})});
  };
  EXPECT_EQ(DecideRasReports({at(kFirst, 4), at(kSecond, 4)}).main.culprit_ranks,
            (std::vector<int>{2}));
  // With equal counts there, both are waited for and wait for nobody.
  EXPECT_EQ(DecideRasReports({at(kFirst, 5), at(kSecond, 5)}).main.culprit_ranks,
            (std::vector<int>{1, 2}));
}

TEST(Ras, AheadAndBehindInACircle) {
  const auto at = [](const char* time, int b) {
    return Report(
        time, {Comm("0xa", 2, {{0, 0, 10}, {1, 1, 9}}), Comm("0xb", 2, {{0, 0, 4}, {1, 1, b}})});
  };
  const model::Verdict verdict = DecideRasReports({at(kFirst, 5), at(kSecond, 5)});
  EXPECT_EQ(verdict.main.check, "communicator-order-cycle");
  EXPECT_EQ(verdict.main.culprit_ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(verdict.main.confidence, model::Confidence::kSuspected);
  EXPECT_FALSE(verdict.main.evidence.assumes.empty());
  EXPECT_EQ(DecideRasReports({at(kFirst, 4), at(kSecond, 4)}).main.check, "rank-not-joined");
}

TEST(Ras, EqualTotalsOfDifferentKinds) {
  const auto at = [](const char* time, int gather) {
    return Report(time,
                  {Comm("0xa", 3, {{0, 0, 10, 3}, {1, 1, 10, 3}, {2, 2, 13 - gather, gather}})});
  };
  const model::Verdict verdict = DecideRasReports({at(kFirst, 4), at(kSecond, 4)});
  EXPECT_EQ(verdict.main.check, "mismatch-kind");
  EXPECT_EQ(verdict.main.culprit_ranks, (std::vector<int>{2}));
  EXPECT_EQ(DecideRasReports({at(kFirst, 3), at(kSecond, 3)}).main.verdict,
            VerdictKind::kInconclusive);
  EXPECT_EQ(DecideRasReports({at(kSecond, 4)}).main.verdict,
            VerdictKind::kInconclusive);  // counts are read one by one
}

TEST(Ras, DeadAbortedAndSilent) {
  const M aborted{
      1, 1, 10, 0,
      R"("init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": true)"};
  EXPECT_EQ(DecideRasReports({Report(kFirst, {Comm("0xa", 2, {{0, 0, 10}, aborted})})}).main.check,
            "rank-aborted");
  const model::Verdict dead =
      DecideRasReports({Report(kFirst, {Comm("0xa", 2, {{0, 0, 10}}, {Missing(1, true)})})});
  EXPECT_EQ(dead.main.check, "rank-exited");
  EXPECT_EQ(dead.main.culprit_ranks, (std::vector<int>{1}));
  // All of a communicator have aborted it: as it should be.
  M both = aborted;
  both.rank = both.process = 0;
  EXPECT_EQ(DecideRasReports({Report(kFirst, {Comm("0xa", 2, {both, aborted})})}).main.verdict,
            VerdictKind::kInconclusive);
  // Who did not answer is named and not blamed, and nobody who may wait for it is.
  const auto silent = [](const char* time) {
    return Report(time, {Comm("0xa", 3, {{0, 0, 10}, {1, 1, 9}}, {Missing(2, false)}),
                         Comm("0xb", 2, {{0, 1, 4}}, {Missing(1, false)})});
  };
  const model::Verdict hidden = DecideRasReports({silent(kFirst), silent(kSecond)});
  EXPECT_EQ(hidden.main.verdict, VerdictKind::kInconclusive) << hidden.main.summary;
  EXPECT_TRUE(hidden.main.culprit_ranks.empty());
}

TEST(Ras, WhatIsNoReportIsRefusedInWords) {
  for (
      const char* text :
      {"", "[]", "{}", R"({"nccl_version": "2.28.9"})",
       R"({"nccl_version": "2.28.9", "communicators": [{"hash": "0x1", "size": 2, "ranks": [{"rank": 5}]}]})",
       R"({"nccl_version": "2.28.9", "communicators": [{"hash": "0x1", "size": -2}]})",
       R"({"nccl_version": "2.28.9", "communicators": [{"hash": "0x1", "size": 2, "missing_ranks": [{"rank": 1}, {"rank": 1}]}]})"}) {
    const StatusOr<RasReport> report = ParseRasReport(text);
    EXPECT_FALSE(report.ok()) << text;
    EXPECT_FALSE(report.status().message().empty());
  }
}

std::string Line(int rank, const std::string& function, int sequence, int bytes, int ranks = 3) {
  return R"({"header": {"id": "0xabc", "comm_name": "dp", "rank": )" + std::to_string(rank) +
         R"(, "n_ranks": )" + std::to_string(ranks) +
         R"(, "nnodes": 1}, "metadata": {"inspector_output_format_version": "v4.2", "git_rev": "",
"rec_mechanism": "nccl_profiler_interface", "dump_timestamp_us": 1, "hostname": "n", "pid": 5}, "coll_perf": {"coll": ")" +
         function + R"(", "coll_sn": )" + std::to_string(sequence) +
         R"(, "coll_msg_size_bytes": )" + std::to_string(bytes) +
         R"(, "coll_exec_time_us": 5, "coll_algobw_gbs": 1.5}})";
}

std::string OneLine(std::string text) {
  std::erase(text, '\n');
  return text + "\n";
}

TEST(Inspector, SizesThatDiffer) {
  const auto decide = [](int odd) {
    InspectorJob job;
    for (int rank : {0, 1, 2}) {
      const std::string text = OneLine(Line(rank, "AllReduce", 1, 8192)) +
                               OneLine(Line(rank, "AllReduce", 2, rank == 2 ? odd : 8192));
      EXPECT_EQ(SourceOf(text), Source::kInspector);
      EXPECT_TRUE(job.Add(text).ok());
    }
    return job.Decide();
  };
  const model::Verdict verdict = decide(16384);
  EXPECT_EQ(verdict.main.check, "mismatch-count");
  EXPECT_EQ(verdict.main.confidence, model::Confidence::kSuspected);
  EXPECT_EQ(verdict.main.culprit_ranks, (std::vector<int>{2}));
  EXPECT_EQ(decide(8192).main.verdict, VerdictKind::kInconclusive);
}

TEST(Inspector, NumbersCountEachFunctionByItself) {
  InspectorJob job;
  // The first of each kind, of different sizes: no mismatch.
  for (int rank : {0, 1, 2}) {
    EXPECT_TRUE(job.Add(OneLine(Line(rank, "AllReduce", 1, 8192)) +
                        OneLine(Line(rank, "AllGather", 1, 65536)))
                    .ok());
  }
  EXPECT_EQ(job.Decide().main.verdict, VerdictKind::kInconclusive);
}

TEST(Inspector, WhoIsBehindIsToldAndNotBlamed) {
  InspectorJob job;
  EXPECT_TRUE(
      job.Add(OneLine(Line(0, "AllReduce", 7, 8192)) + OneLine(Line(1, "AllReduce", 6, 8192)))
          .ok());
  const model::Verdict verdict = job.Decide();
  EXPECT_EQ(verdict.main.check, "evidence-missing");
  EXPECT_TRUE(verdict.main.culprit_ranks.empty());
  EXPECT_NE(verdict.main.summary.find("rank 1"), std::string::npos) << verdict.main.summary;
  EXPECT_EQ(verdict.main.evidence.ranks_expected, 3);
  EXPECT_EQ(verdict.main.evidence.ranks_seen, 2);
}

TEST(Inspector, ALastLineMayBeCutOffAndNoOther) {
  InspectorJob job;
  const std::string whole = OneLine(Line(0, "AllReduce", 1, 8192));
  EXPECT_TRUE(job.Add(whole + whole.substr(0, 50)).ok());
  EXPECT_FALSE(job.Add(whole.substr(0, 50) + "\n" + whole).ok());
  EXPECT_FALSE(job.Add("{\"header\": {\"id\": \"x\", \"rank\": 3, \"n_ranks\": 2}}\n").ok());
  EXPECT_TRUE(
      job.Add(
             R"({"header": {"id": "0xabc", "rank": 1, "n_ranks": 3}, "dump_stats": {"coll_dropped_since_last_dump": 4}})")
          .ok());
  EXPECT_EQ(job.Decide().main.evidence.records_lost, 4u);
}

TEST(NcclReports, AnyBytesAreTakenOrRefused) {
  std::mt19937_64 random(20261121);
  const std::string inspector =
      OneLine(Line(0, "AllReduce", 7, 8192)) + OneLine(Line(1, "AllReduce", 6, 8192));
  const std::string ras =
      R"({"nccl_version": "2.28.9", "timestamp": "t", "communicators_count": 2, "communicators": [)" +
      Comm("0xa", 3, {{0, 0, 10}, {1, 1, 9}}, {Missing(2, false)}) + "," +
      Comm("0xb", 2, {{0, 1, 4}, {1, 2, 5, 2}}) + "]}";
  const std::string words =
      "NCCL version 2.27.7 compiled with CUDA 12.8\nCUDA runtime version 12080, driver version "
      "13000\n\n"
      "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
      "    #  in group  per comm  per node  per comm  in group\n"
      "    0         1         1         3         4         3   RUNNING  INCOMPLETE,MISMATCH\n"
      "\nErrors\n======\n\nDEAD\n  1 job process is considered dead (unreachable)\n"
      "  Process 503 on node 10.0.0.1 managing GPU 3\n\n#0-0 (0000000000000051) INCOMPLETE\n"
      "  Rank 3 -- GPU 3 managed by process 503 on node 10.0.0.1\n\nWarnings\n========\n\n"
      "#0-0 (0000000000000051) MISMATCH\n"
      "  Communicator ranks have different AllReduce operation counts\n"
      "  2 ranks have launched up to operation 6\n"
      "  Rank 2 has launched up to operation 5 -- GPU 2 managed by process 502 on node 10.0.0.1\n";
  const StatusOr<RasReport> in_words = ParseRasReport(words);
  ASSERT_TRUE(in_words.ok()) << in_words.status().ToString();
  EXPECT_EQ(DecideRasReports({*in_words}).main.culprit_ranks, (std::vector<int>{3}));
  for (const std::string& seed : {ras, inspector, words}) {
    fuzz::FuzzNcclReport(reinterpret_cast<const uint8_t*>(seed.data()), seed.size());
    for (int i = 0; i < 5000; ++i) {
      std::string bytes = seed;
      for (uint64_t k = random() % 4 + 1; k > 0; --k) {
        const size_t at = random() % bytes.size();
        switch (random() % 3) {
          case 0:
            bytes[at] = static_cast<char>(random());
            break;
          case 1:
            bytes.erase(at, random() % 8);
            break;
          default:
            bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 16));
            break;
        }
        if (bytes.empty()) bytes = "x";
      }
      fuzz::FuzzNcclReport(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    }
  }
}

}  // namespace
}  // namespace gordian::importers
