#include "analyzer/report/status_json.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyzer/session/analysis.h"
#include "common/log.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::analyzer {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kSecond = 1'000'000'000;

StatusFacts TwoRankFacts() {
  StatusFacts facts;
  facts.verdict.main.verdict = model::VerdictKind::kRankNotJoined;
  facts.verdict.main.check = "rank-not-joined";
  facts.verdict.main.confidence = model::Confidence::kSuspected;
  facts.verdict.main.summary = "Rank 1 has not come";
  facts.verdict.main.culprit_ranks = {1};
  facts.verdict.main.victim_ranks = {0};
  facts.verdict.main.evidence.ranks_seen = 2;
  facts.verdict.findings.emplace_back().summary = "and more";
  facts.revision = 3;
  facts.now_ns = 100 * kSecond;
  facts.snapshot.last_progress_ns = 98 * kSecond;
  facts.snapshot.ranks.push_back({.rank = 0,
                                  .process = 1,
                                  .pid = 11,
                                  .state = model::RankState::kInCall,
                                  .call_id = 7,
                                  .call = "a host wait",
                                  .operation = "AllReduce #4 on dp",
                                  .ending = "",
                                  .since_ns = 98'500'000'000,
                                  .site = {.process = 1, .address = 0x10},
                                  .nccl_calls = 5});
  facts.snapshot.ranks.push_back({.rank = 1,
                                  .process = (1u << 20) + 1,
                                  .pid = 12,
                                  .state = model::RankState::kEnded,
                                  .call_id = 7,
                                  .call = "a host wait",
                                  .operation = "",
                                  .ending = "exited with code 3",
                                  .since_ns = 0,
                                  .site = {},
                                  .nccl_calls = 4});
  facts.snapshot.communicators.push_back({.name = "dp",
                                          .uid = 0xab,
                                          .color = 0,
                                          .size = 2,
                                          .ranks = {0, 1},
                                          .ranks_seen = 2,
                                          .made_by = 0,
                                          .made_at = {.process = 1, .address = 0x20},
                                          .destroyed = false,
                                          .sequence_min = 3,
                                          .sequence_max = 4,
                                          .behind = {1},
                                          .behind_by = {2}});
  facts.nodes = {{.index = 0, .name = "n0", .number = 0},
                 {.index = 1, .name = "n1", .number = 1, .away = true}};
  facts.sites = [](const model::Site& site) {
    return site.address == 0x10 ? "train.cc:8" : "groups.cc:5";
  };
  facts.symbol = [](uint16_t call) { return call == 7 ? "cudaStreamSynchronize" : ""; };
  return facts;
}

TEST(StatusJsonTest, HasEveryFieldInItsOrder) {
  EXPECT_EQ(StatusToText(TwoRankFacts()), R"({
  "schema": "gordian.status.v1",
  "verdict": "rank_not_joined",
  "check": "rank-not-joined",
  "confidence": "suspected",
  "summary": "Rank 1 has not come",
  "culprit_ranks": [
    1
  ],
  "victim_ranks": [
    0
  ],
  "detected_after_s": 0.0,
  "further": [
    {
      "verdict": "inconclusive",
      "confidence": "suspected",
      "summary": "and more"
    }
  ],
  "revision": 3,
  "job_ended": false,
  "since_progress_s": 2.0,
  "nodes": [
    {
      "name": "n0",
      "number": 0,
      "away": false,
      "ended": false
    },
    {
      "name": "n1",
      "number": 1,
      "away": true,
      "ended": false
    }
  ],
  "ranks": [
    {
      "rank": 0,
      "pid": 11,
      "incarnation": 1,
      "node": "n0",
      "state": "in_call",
      "call": "cudaStreamSynchronize",
      "operation": "AllReduce #4 on dp",
      "ending": "",
      "since_s": 1.5,
      "site": "train.cc:8",
      "nccl_calls": 5
    },
    {
      "rank": 1,
      "pid": 12,
      "incarnation": 1,
      "node": "n1",
      "state": "ended",
      "call": "",
      "operation": "",
      "ending": "exited with code 3",
      "since_s": -1.0,
      "site": "",
      "nccl_calls": 4
    }
  ],
  "communicators": [
    {
      "name": "dp",
      "uid": "00000000000000ab",
      "size": 2,
      "ranks": [
        0,
        1
      ],
      "ranks_seen": 2,
      "made_by_rank": 0,
      "site": "groups.cc:5",
      "destroyed": false,
      "sequence_min": 3,
      "sequence_max": 4,
      "behind": [
        1
      ],
      "behind_by": [
        2
      ]
    }
  ],
  "evidence": {
    "ranks_seen": 2,
    "ranks_expected": 0,
    "records": 0,
    "records_lost": 0,
    "nccl_calls": 0,
    "not_visible": [],
    "assumes": []
  }
}
)");
}

TEST(StatusJsonTest, OfAVeryLongJobOnlySomeOfTheDestroyedCommunicatorsAreTold) {
  StatusFacts facts = TwoRankFacts();
  model::CommSnapshot gone = facts.snapshot.communicators.front();
  gone.destroyed = true;
  facts.snapshot.communicators.insert(facts.snapshot.communicators.begin(), 1000, gone);
  const ordered_json json = StatusToJson(facts);
  EXPECT_EQ(json["communicators"].size(), 257u);
  EXPECT_EQ(json["communicators"].back()["destroyed"], false);
}

class StatusOfJob : public ::testing::Test {
 protected:
  StatusOfJob() {
    SilenceLog();
    std::string pattern = ::testing::TempDir() + "/status.XXXXXX";
    session_ = mkdtemp(pattern.data());
  }
  ~StatusOfJob() override { std::filesystem::remove_all(session_); }

  std::string session_;
};

TEST_F(StatusOfJob, NamesWhoIsBehindOnWhichCommunicator) {
  testing::RecordedJob job = testing::TwoRanks(/*inverted=*/true);
  for (int i = 0; i < 4; ++i) {
    job.Sleep(20'000'000);
    job.Round();
  }
  Analysis analysis({.session_dir = session_});
  v1::TraceHeader header;
  header.set_host("here");
  analysis.Begin(header);
  for (const v1::Event& event : job.events()) analysis.OnEvent(event);
  uint64_t revision = 0;
  const ordered_json live = ordered_json::parse(analysis.StatusJson(&revision));
  EXPECT_GT(revision, 0u);
  analysis.Flush();
  StatusOr<AnalysisResult> replayed = AnalyzeTrace(session_, {.want_status = true});
  ASSERT_TRUE(replayed.ok());
  for (const ordered_json& status : {live, ordered_json::parse(replayed->status_json)}) {
    SCOPED_TRACE(status.dump());
    EXPECT_EQ(status["verdict"], "deadlock");
    ASSERT_EQ(status["ranks"].size(), 2u);
    for (int rank : {0, 1}) {
      EXPECT_EQ(status["ranks"][rank]["rank"], rank);
      EXPECT_EQ(status["ranks"][rank]["node"], "here");
      EXPECT_EQ(status["ranks"][rank]["state"], "in_call");
      EXPECT_EQ(status["ranks"][rank]["call"], "cudaStreamSynchronize");
    }
    ASSERT_EQ(status["communicators"].size(), 2u);
    EXPECT_EQ(status["communicators"][0]["name"], "A");
    EXPECT_EQ(status["communicators"][1]["name"], "B");
    // Both have called both; nobody is behind, and both wait for the other's first.
    EXPECT_EQ(status["ranks"][0]["operation"], "AllReduce #1 on A");
    EXPECT_EQ(status["ranks"][1]["operation"], "AllReduce #1 on B");
    EXPECT_EQ(status["communicators"][0]["sequence_max"], 1);
    EXPECT_EQ(status["communicators"][0]["behind"].size(), 0u);
  }
}

TEST_F(StatusOfJob, TellsThatAJobHasEnded) {
  testing::RecordedJob job = testing::TwoRanks(/*inverted=*/false);
  job.Round();
  for (int rank : {0, 1}) job.EndProcess(rank, 0);
  job.EndJob(0);
  Analysis analysis({.session_dir = session_});
  for (const v1::Event& event : job.events()) analysis.OnEvent(event);
  const ordered_json status = ordered_json::parse(analysis.StatusJson(nullptr));
  EXPECT_EQ(status["verdict"], "finished");
  EXPECT_EQ(status["job_ended"], true);
  EXPECT_EQ(status["ranks"][1]["state"], "ended");
  EXPECT_EQ(status["ranks"][1]["ending"], "exited with code 0");
  EXPECT_EQ(status["ranks"][1]["call"], "");
}

TEST_F(StatusOfJob, ATraceThatIsStillWrittenIsNotHeldAgainstTheJob) {
  testing::RecordedJob job = testing::TwoRanks(/*inverted=*/false);
  job.Round();
  Analysis analysis({.session_dir = session_});
  for (const v1::Event& event : job.events()) analysis.OnEvent(event);
  analysis.Flush();
  for (bool still_written : {true, false}) {
    StatusOr<AnalysisResult> replayed =
        AnalyzeTrace(session_, {.still_written = still_written, .want_status = true});
    ASSERT_TRUE(replayed.ok());
    const ordered_json status = ordered_json::parse(replayed->status_json);
    EXPECT_EQ(status["verdict"], still_written ? "healthy" : "inconclusive");
    EXPECT_EQ(status["job_ended"], false);
  }
}

}  // namespace
}  // namespace gordian::analyzer
