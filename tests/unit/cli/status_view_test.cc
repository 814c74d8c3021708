#include "cli/status/status_view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/status/status_words.h"

namespace gordian::cli {
namespace {

using nlohmann::ordered_json;

ordered_json Rank(int rank, const std::string& state, const std::string& call) {
  return {{"rank", rank}, {"pid", 100 + rank}, {"node", "n0"},        {"state", state},
          {"call", call}, {"operation", ""},   {"since_s", 3 + rank}, {"site", ""}};
}

ordered_json EightRanks() {
  ordered_json status = {
      {"verdict", "rank_not_joined"},
      {"confidence", "suspected"},
      {"summary", "Rank 6 is late"},
      {"detected_after_s", 5.0},
      {"culprit_ranks", {6}},
      {"job_ended", false},
      {"since_progress_s", 75.5},
      {"evidence", {{"ranks_seen", 8}, {"ranks_expected", 8}, {"nccl_calls", 12345}}}};
  for (int rank = 0; rank < 8; ++rank) {
    status["ranks"].push_back(rank == 6 ? Rank(6, "running", "")
                                        : Rank(rank, "in_call", "ncclAllReduce"));
  }
  status["communicators"].push_back({{"name", "tp"},
                                     {"size", 4},
                                     {"ranks", {0, 2, 4}},
                                     {"ranks_seen", 3},
                                     {"site", "groups.cc:5 Make()"},
                                     {"sequence_min", 2},
                                     {"sequence_max", 2},
                                     {"behind", ordered_json::array()}});
  status["communicators"].push_back({{"name", "dp"},
                                     {"size", 8},
                                     {"ranks", {0, 1, 2, 3, 4, 5, 6, 7}},
                                     {"ranks_seen", 8},
                                     {"sequence_min", -1},
                                     {"sequence_max", 0},
                                     {"behind", {6}}});
  return status;
}

TEST(StatusViewTest, EqualRanksShareALine) {
  EXPECT_EQ(StatusScreen(EightRanks(), {.width = 100, .title = "session s"}),
            "gordian: RANK NOT JOINED (suspected after 5.00 s): rank 6 is late\n"
            "session s, 8 ranks, 12,345 NCCL calls, no progress for 1 min 15 s\n"
            "cause: look at rank 6 first\n"
            "\n"
            "RANK   PID  STATE    SINCE  CALL           NODE\n"
            "0-5,7       in call  10 s   ncclAllReduce  n0\n"
            "6      106  running  9 s                   n0\n"
            "\n"
            "COMMUNICATOR  RANKS          LAST COLLECTIVE  BEHIND  MADE AT\n"
            "dp            0-7            none to #0       rank 6\n"
            "tp            0,2,4: 3 of 4  #2                       groups.cc:5 Make()\n");
}

TEST(StatusViewTest, AJobThatRunsHasHadProgress) {
  ordered_json status = EightRanks();
  status["verdict"] = "healthy";
  EXPECT_NE(StatusScreen(status, {}).find(", last progress 1 min 15 s ago\n"), std::string::npos);
}

// Wrapped, not cut and told once more below.
TEST(StatusViewTest, ALongSummaryIsToldOnce) {
  ordered_json status = EightRanks();
  status["summary"] =
      "Rank 6 sleeps in a lock of the data loader; ranks 0 to 5 and 7 wait in AllReduce #0 on dp.";
  for (const bool color : {false, true}) {
    const std::string screen =
        StatusScreen(status, {.color = color, .width = 80, .title = "session s"});
    const std::string style = color ? "\033[1;33m" : "", plain = color ? "\033[0m" : "";
    EXPECT_TRUE(screen.starts_with(
        style +
        "gordian: RANK NOT JOINED (suspected after 5.00 s): rank 6 sleeps in a lock of\n"
        "  the data loader; ranks 0 to 5 and 7 wait in AllReduce #0 on dp." +
        plain + "\nsession s,"))
        << screen;
    EXPECT_EQ(screen.find("sleeps", screen.find("sleeps") + 1), std::string::npos) << screen;
  }
}

TEST(StatusViewTest, SaysThatRanksCameBack) {
  ordered_json status = EightRanks();
  status["ranks"][3]["incarnation"] = 2;
  EXPECT_NE(StatusScreen(status, {}).find("NCCL calls, restarted once, no progress"),
            std::string::npos);
  status["ranks"][5]["incarnation"] = 4;
  EXPECT_NE(StatusScreen(status, {}).find(", restarted 3 times, no progress"), std::string::npos);
}

TEST(StatusViewTest, FoldsRanks) {
  EXPECT_EQ(FoldRanks({}), "");
  EXPECT_EQ(FoldRanks({3}), "3");
  EXPECT_EQ(FoldRanks({1, 0}), "0,1");
  EXPECT_EQ(FoldRanks({7, 0, 1, 2, 3, 4, 5, 5}), "0-5,7");
  EXPECT_EQ(FoldRanks({-1, 2}), "?,2");
}

TEST(StatusViewTest, ExitCodes) {
  ordered_json status = EightRanks();
  EXPECT_EQ(ExitCodeOfJobStatus(status), 1);
  for (const char* verdict : {"healthy", "finished"}) {
    status["verdict"] = verdict;
    EXPECT_EQ(ExitCodeOfJobStatus(status), 0) << verdict;
  }
  status["further"] = {{{"verdict", "mismatch"}, {"confidence", "confirmed"}, {"summary", ""}}};
  EXPECT_EQ(ExitCodeOfJobStatus(status), 1);
  status["further"] = ordered_json::array();
  status["verdict"] = "inconclusive";
  EXPECT_EQ(ExitCodeOfJobStatus(status), 3);
  status["verdict"] = "of another version";
  EXPECT_EQ(ExitCodeOfJobStatus(status), 3);
}

// What comes from an analyzer elsewhere may be anything.
TEST(StatusViewTest, TakesWrongTypesForUnknown) {
  ordered_json status;
  const ordered_json whole = EightRanks();
  for (const auto& [key, value] : whole.items()) {
    for (const ordered_json& other :
         {ordered_json(), ordered_json(1), ordered_json("\033[2J"), ordered_json({1, "x"}),
          ordered_json({{"a", 1}}), ordered_json::array({ordered_json::object()})}) {
      status = whole;
      status[key] = other;
      const std::string screen = StatusScreen(status, {.width = 80});
      EXPECT_EQ(screen.find('\033'), std::string::npos) << key;
      (void)ExitCodeOfJobStatus(status);
    }
  }
  EXPECT_FALSE(StatusScreen(ordered_json::object(), {}).empty());
}

TEST(StatusViewTest, NoLineIsWiderThanTheScreen) {
  ordered_json status = EightRanks();
  status["summary"] = std::string(500, 'x');
  status["evidence"]["not_visible"] = {std::string(300, 'y')};
  for (ordered_json& rank : status["ranks"]) {
    rank["site"] = std::string(200, 's');
    rank["operation"] = std::string(200, 'o') + std::to_string(rank["rank"].get<int>());
  }
  std::istringstream lines(StatusScreen(status, {.width = 80, .title = std::string(300, 't')}));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

}  // namespace
}  // namespace gordian::cli
