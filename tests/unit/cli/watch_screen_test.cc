#include "cli/watch/watch_screen.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analyzer/report/verdict_json.h"

namespace gordian::cli {
namespace {

using nlohmann::ordered_json;

ordered_json Rank(int rank, const std::string& call, const std::string& site) {
  return {{"rank", rank},       {"pid", 100 + rank}, {"incarnation", 1}, {"node", "n0"},
          {"state", "in_call"}, {"call", call},      {"operation", ""},  {"ending", ""},
          {"since_s", 3},       {"site", site},      {"nccl_calls", 5}};
}

// Eight ranks, of which 6 is late.
SeenStatus EightRanks() {
  SeenStatus seen;
  seen.running = true;
  seen.status = {{"verdict", "rank_not_joined"},
                 {"check", "rank-left"},
                 {"confidence", "suspected"},
                 {"summary", "Rank 6 is late"},
                 {"detected_after_s", 5.0},
                 {"culprit_ranks", {6}},
                 {"victim_ranks", {0, 1}},
                 {"job_ended", false},
                 {"since_progress_s", 75.5},
                 {"evidence",
                  {{"ranks_seen", 8},
                   {"ranks_expected", 8},
                   {"nccl_calls", 12345},
                   {"not_visible", {"3 records of rank 1"}}}}};
  for (int rank = 0; rank < 8; ++rank) {
    seen.status["ranks"].push_back(rank == 6 ? Rank(rank, "cudaMemcpy", "load.cc:7 Load()")
                                             : Rank(rank, "ncclAllReduce", "train.cc:88 Step()"));
  }
  seen.status["communicators"].push_back({{"name", "tp"},
                                          {"uid", "a"},
                                          {"size", 4},
                                          {"ranks", {0, 2, 4}},
                                          {"ranks_seen", 3},
                                          {"sequence_min", 2},
                                          {"sequence_max", 2},
                                          {"behind", ordered_json::array()}});
  seen.status["communicators"].push_back({{"name", "dp"},
                                          {"uid", "b"},
                                          {"size", 8},
                                          {"ranks", {0, 1, 2, 3, 4, 5, 6, 7}},
                                          {"ranks_seen", 8},
                                          {"made_by_rank", 0},
                                          {"site", "groups.cc:5 Make()"},
                                          {"sequence_min", 1},
                                          {"sequence_max", 3},
                                          {"behind", {6}},
                                          {"behind_by", {2}}});
  return seen;
}

// With what the verdict has beside the status: a cycle of two ranks, and a stack.
SeenStatus Inversion() {
  SeenStatus seen = EightRanks();
  model::Verdict verdict;
  verdict.main.verdict = model::VerdictKind::kDeadlock;
  verdict.main.check = "communicator-order-cycle";
  verdict.main.confidence = model::Confidence::kConfirmed;
  verdict.main.summary = "Ranks 2 and 3 wait for each other";
  verdict.main.advice = "Issue them in one order.";
  verdict.main.detected_after_s = 0.2;
  verdict.main.culprit_ranks = {2};
  verdict.main.evidence.not_visible = {"3 records of rank 1"};
  for (const int rank : {2, 3}) {
    verdict.main.cycle.push_back({.rank = rank,
                                  .waits_for_rank = 5 - rank,
                                  .op = "AllReduce",
                                  .comm_name = rank == 2 ? "a" : "b",
                                  .sequence = 0,
                                  .site = {.process = 1, .address = static_cast<uint64_t>(rank)}});
  }
  model::FoldedStack stack;
  stack.ranks = {2};
  stack.threads = {{.rank = 2, .pid = 102, .tid = 102, .name = "python3"}};
  stack.frames = {{.function = "Step", .file = "/src/train.cc", .line = 88}};
  verdict.stacks = {stack};
  auto document = analyzer::ParseVerdict(analyzer::VerdictToText(
      verdict, [](const model::Site& site) { return "train.cc:" + std::to_string(site.address); }));
  EXPECT_TRUE(document.ok()) << document.status().message();
  seen.verdict = std::make_shared<analyzer::VerdictDocument>(std::move(document).value());
  seen.status["culprit_ranks"] = {2};
  return seen;
}

Key Text(const std::string& text) { return {Key::kText, text}; }

class WatchScreenTest : public ::testing::Test {
 protected:
  WatchScreenTest() { screen_.SetSize(40, 100); }

  void Show(const SeenStatus& seen) { screen_.SetData(MakeWatchData(seen, "session s", "s")); }
  void Press(std::initializer_list<Key::Kind> keys) {
    for (const Key::Kind key : keys) screen_.Press({key, ""});
  }
  void Type(const std::string& text) {
    for (const char c : text) screen_.Press(Text(std::string(1, c)));
  }
  std::string Shown() const {
    std::string text;
    for (const ShownLine& line : screen_.Frame()) text += line.text + "\n";
    return text;
  }
  bool Shows(const std::string& text) const { return Shown().find(text) != std::string::npos; }
  // The row with the mark.
  std::string Chosen() const {
    std::string chosen;
    for (const ShownLine& line : screen_.Frame()) {
      EXPECT_EQ(line.style == ShownLine::kSelected, line.text.starts_with(">")) << line.text;
      if (line.style == ShownLine::kSelected) chosen += line.text;
    }
    return chosen;
  }

  WatchScreen screen_;
};

TEST_F(WatchScreenTest, TheFirstScreenOfASuspicion) {
  Show(EightRanks());
  screen_.SetSize(24, 100);
  EXPECT_EQ(Shown(),
            "gordian: RANK NOT JOINED (suspected after 5.00 s): rank 6 is late\n"
            "session s, 8 ranks, 12,345 NCCL calls, no progress for 1 min 15 s\n"
            "\n"
            "cause: look at rank 6 first\n"
            "victims: ranks 0 and 1 wait behind this and are not the cause\n"
            "not seen: 3 records of rank 1\n"
            "next: gordian explain s\n"
            "\n"
            "2 Findings: 1 finding\n"
            "   FINDING          CONFIDENCE  LOOK AT  CHECK      SUMMARY\n"
            " + rank not joined  suspected   rank 6   rank-left  Rank 6 is late\n"
            "\n"
            "3 Ranks: 8 ranks\n"
            "   RANK   PID  STATE    SINCE  BEHIND   CALL           NODE  AT\n"
            " + 6 !    106  in call  3 s    2 calls  cudaMemcpy     n0    load.cc:7 Load()\n"
            " + 0-5,7       in call  3 s             ncclAllReduce  n0    train.cc:88 Step()\n"
            "\n"
            "4 Communicators: 2 communicators\n"
            "   COMMUNICATOR  RANKS          LAST COLLECTIVE  BEHIND  MADE AT\n"
            " + dp            0-7            #1 to #3         rank 6  groups.cc:5 Make()\n"
            " + tp            0,2,4: 3 of 4  #2\n"
            "\n"
            "5 Health: what gordian saw\n"
            "1-23/24  q quits, the job runs on  ? keys  Up/Down move  Enter opens  / filter  Tab "
            "section\n");
}

// Verdict, since when, who waits for whom and where, what was not seen, what to change, what next.
TEST_F(WatchScreenTest, TheCardTellsInThePagesOrder) {
  Show(Inversion());
  const std::string shown = Shown();
  size_t at = 0;
  for (const char* const text :
       {"DEADLOCK (confirmed after 0.20 s): rank 2 waits for rank 3", "no progress for 1 min 15 s",
        "rank 2: AllReduce #0 on a", "at train.cc:2", "rank 3: AllReduce #0 on b", "at train.cc:3",
        "cause: look at rank 2 first", "not seen: 3 records of rank 1",
        "what to change: Issue them in one order.", "next: gordian explain s", "2 Findings"}) {
    const size_t found = shown.find(text, at);
    ASSERT_NE(found, std::string::npos) << text << " is not behind what comes before it in\n"
                                        << shown;
    at = found;
  }
}

TEST_F(WatchScreenTest, MovesOverTheRowsOfAllLists) {
  Show(EightRanks());
  EXPECT_EQ(Chosen(), "");
  for (const char* const row : {"rank not joined", "6 !", "0-5,7", "dp", "tp", "not seen"}) {
    Press({Key::kDown});
    EXPECT_TRUE(Chosen().starts_with(std::string(">+ ") + row)) << Chosen();
  }
  Press({Key::kDown});
  EXPECT_TRUE(Chosen().starts_with(">+ not seen")) << "there is no row below";
  Type("kkj");
  EXPECT_TRUE(Chosen().starts_with(">+ tp")) << Chosen();
  Press({Key::kHome});
  EXPECT_EQ(Chosen(), "");
  Press({Key::kTab, Key::kTab});
  EXPECT_TRUE(Chosen().starts_with(">+ 6 !")) << Chosen();
  Press({Key::kBackTab});
  EXPECT_TRUE(Chosen().starts_with(">+ rank not joined")) << Chosen();
  Type("4");
  EXPECT_TRUE(Chosen().starts_with(">+ dp")) << Chosen();
  Type("1");
  EXPECT_EQ(Chosen(), "");
  Press({Key::kEnd});
  EXPECT_TRUE(Chosen().starts_with(">+ not seen")) << Chosen();
}

TEST_F(WatchScreenTest, OpensARank) {
  Show(Inversion());
  Type("3");
  EXPECT_FALSE(Shows("/src/train.cc:88"));
  Press({Key::kEnter});
  EXPECT_TRUE(Chosen().starts_with(">- 2 !")) << Chosen();
  for (const char* const text : {"\n      is in ncclAllReduce\n", "\n      at train.cc:88 Step()\n",
                                 "\n      pid 102 on n0, 5 NCCL calls\n",
                                 "\n        rank 2, thread python3 (102 of pid 102)\n",
                                 "\n          /src/train.cc:88 Step()\n"}) {
    EXPECT_TRUE(Shows(text)) << text << Shown();
  }
  Press({Key::kLeft});
  EXPECT_FALSE(Shows("/src/train.cc:88"));
  Press({Key::kRight});
  EXPECT_TRUE(Shows("/src/train.cc:88"));
  Press({Key::kEscape});
  EXPECT_FALSE(Shows("/src/train.cc:88"));
}

TEST_F(WatchScreenTest, OpensAFoldToItsRanksAndThoseToo) {
  Show(EightRanks());
  Type("3j");
  Press({Key::kEnter});
  EXPECT_TRUE(Shows("\n      ranks 0-5,7\n")) << Shown();
  EXPECT_FALSE(Shows("pid 105 on n0"));
  Press({Key::kDown, Key::kDown, Key::kDown, Key::kDown, Key::kDown, Key::kDown, Key::kEnter});
  EXPECT_TRUE(Chosen().starts_with(">-   5")) << Chosen();
  EXPECT_TRUE(Shows("\n        pid 105 on n0, 5 NCCL calls\n")) << Shown();
  Press({Key::kLeft});
  EXPECT_TRUE(Chosen().starts_with(">+   5")) << "closes the rank first";
  Press({Key::kLeft});
  EXPECT_TRUE(Chosen().starts_with(">+ 0-5,7")) << "and then the row that it is in";
  EXPECT_FALSE(Shows("pid 105 on n0"));
}

TEST_F(WatchScreenTest, OpensACommunicatorAndAFinding) {
  Show(Inversion());
  Type("4");
  Press({Key::kEnter});
  for (const char* const text :
       {"\n      members: 0-7\n", "last collective: #3 of the fastest member, #1 of the slowest",
        "behind: 6, by up to 2 calls", "made by rank 0 at groups.cc:5 Make()", "identity b"}) {
    EXPECT_TRUE(Shows(text)) << text << Shown();
  }
  Type("2");
  Press({Key::kEnter});
  EXPECT_TRUE(Shows("\n        +-> rank 2: AllReduce #0 on a\n")) << Shown();
  EXPECT_TRUE(Shows("check            communicator-order-cycle")) << Shown();
}

TEST_F(WatchScreenTest, AnEndedCommunicatorIsNotShownWhileTheJobRuns) {
  SeenStatus seen = EightRanks();
  seen.status["communicators"][0]["destroyed"] = true;
  Show(seen);
  EXPECT_TRUE(Shows("4 Communicators: 1 communicator\n"));
  seen.status["job_ended"] = true;
  Show(seen);
  EXPECT_TRUE(Shows("4 Communicators: 2 communicators\n"));
}

TEST_F(WatchScreenTest, FiltersWhileOneTypes) {
  Show(EightRanks());
  Type("/memc");
  EXPECT_TRUE(Shows("filter: memc_"));
  EXPECT_TRUE(Shows("3 Ranks: 1 of 8 ranks matches")) << Shown();
  EXPECT_TRUE(Chosen().starts_with(">+ 6 !")) << Chosen();
  EXPECT_FALSE(Shows("0-5,7"));
  Press({Key::kClearLine});
  Type("4-6");
  EXPECT_TRUE(Shows("3 Ranks: 3 of 8 ranks match\n")) << Shown();
  EXPECT_TRUE(Shows(" + 4,5 "));
  Press({Key::kEnter});
  EXPECT_TRUE(Shows("filter: 4-6  ")) << Shown();
  Type("j");
  EXPECT_TRUE(Chosen().starts_with(">+ 4,5 ")) << "a key again, no text: " << Chosen();
  Type("/");
  Press({Key::kBackspace, Key::kBackspace});
  EXPECT_TRUE(Shows("3 Ranks: 1 of 8 ranks matches")) << Shown();
  Press({Key::kEscape});
  EXPECT_TRUE(Shows("3 Ranks: 8 ranks\n"));
  Type("/nothing like it");
  Press({Key::kEnter});
  EXPECT_TRUE(Shows("3 Ranks: 0 of 8 ranks match\n"));
  Press({Key::kEscape});
  EXPECT_TRUE(Shows("3 Ranks: 8 ranks\n")) << "Esc clears a filter that was kept";
}

TEST_F(WatchScreenTest, TheChosenRankStaysChosenWhereverItGoes) {
  SeenStatus seen = EightRanks();
  Show(seen);
  Type("3j");
  Press({Key::kEnter, Key::kDown, Key::kDown});  // rank 1 of 0-5,7
  EXPECT_TRUE(Chosen().starts_with(">+   1 ")) << Chosen();
  // Rank 0, by which the row was opened, goes elsewhere: the row of the others is not the same.
  seen.status["ranks"][1]["call"] = "ncclBroadcast";
  Show(seen);
  EXPECT_TRUE(Chosen().starts_with(">+ 1 ")) << Chosen();
  // It comes back, and the row is open as before.
  seen.status["ranks"][1]["call"] = "ncclAllReduce";
  Show(seen);
  EXPECT_TRUE(Chosen().starts_with(">+   1 ")) << Chosen();
  // A restart changes its process, not which rank it is.
  seen.status["ranks"][1]["pid"] = 4711;
  seen.status["ranks"][1]["incarnation"] = 2;
  Show(seen);
  Press({Key::kEnter});
  EXPECT_TRUE(Shows("pid 4711 on n0, process 2 of this rank")) << Shown();
}

TEST_F(WatchScreenTest, WhenTheChosenThingGoesItsNeighbourIsChosen) {
  SeenStatus seen = EightRanks();
  Show(seen);
  Type("4");
  EXPECT_TRUE(Chosen().starts_with(">+ dp")) << Chosen();
  seen.status["communicators"][1]["destroyed"] = true;
  Show(seen);
  EXPECT_TRUE(Chosen().starts_with(">+ tp")) << Chosen();
}

// A person who reads the lines of an open row goes on reading there.
TEST_F(WatchScreenTest, TheScreenStaysWhereItIsWhenRowsComeAbove) {
  SeenStatus seen = EightRanks();
  screen_.SetSize(12, 100);
  Show(seen);
  Type("4");
  Press({Key::kEnter});
  const auto row_of = [&] {
    const std::vector<ShownLine> frame = screen_.Frame();
    return std::find_if(frame.begin(), frame.end(),
                        [](const ShownLine& line) { return line.style == ShownLine::kSelected; }) -
           frame.begin();
  };
  const auto before = row_of();
  ASSERT_LT(before, 11);
  for (const int rank : {0, 3}) seen.status["ranks"][static_cast<size_t>(rank)]["call"] = "new";
  seen.status["ranks"][3]["site"] = "elsewhere";
  Show(seen);
  EXPECT_EQ(row_of(), before);
}

TEST_F(WatchScreenTest, EachLineOfALongTextCanBeReached) {
  SeenStatus seen = Inversion();
  auto document = *seen.verdict;
  document.verdict.stacks[0].frames.clear();
  for (int i = 0; i < 50; ++i) {
    document.verdict.stacks[0].frames.push_back({.function = "F" + std::to_string(i) + "_"});
  }
  seen.verdict = std::make_shared<analyzer::VerdictDocument>(document);
  Show(seen);
  screen_.SetSize(10, 80);
  Type("3");
  Press({Key::kEnter});
  for (int i = 0; i < 50; ++i) {
    const std::string frame = "F" + std::to_string(i) + "_()";
    for (int tries = 0; tries < 60 && !Shows(frame); ++tries) Press({Key::kDown});
    EXPECT_TRUE(Shows(frame)) << frame << "\n" << Shown();
  }
  for (int i = 49; i >= 0; --i) {
    const std::string frame = "F" + std::to_string(i) + "_()";
    for (int tries = 0; tries < 60 && !Shows(frame); ++tries) Press({Key::kUp});
    EXPECT_TRUE(Shows(frame)) << frame << "\n" << Shown();
  }
  for (int i = 0; i < 200; ++i) Press({Key::kUp});
  EXPECT_TRUE(Shown().starts_with("gordian: DEADLOCK")) << Shown();
  EXPECT_EQ(Chosen(), "");
}

TEST_F(WatchScreenTest, ItsLinesFitAnyTerminal) {
  SeenStatus seen = Inversion();
  seen.status["ranks"][2]["site"] = std::string(300, 's') + ".cc:1";
  seen.status["communicators"][0]["name"] = "\xe8\x8b\xb1\xe8\x8b\xb1 " + std::string(300, 'n');
  Show(seen);
  for (const auto& [rows, columns] : std::initializer_list<std::pair<size_t, size_t>>{
           {5, 20}, {2, 10}, {24, 80}, {10, 37}, {60, 200}}) {
    screen_.SetSize(rows, columns);
    screen_.Press({Key::kHome, ""});
    for (int i = 0; i < 120; ++i) {
      const std::vector<ShownLine> frame = screen_.Frame();
      ASSERT_EQ(frame.size(), rows);
      for (const ShownLine& line : frame) {
        EXPECT_LE(line.text.size(), columns) << line.text;
        EXPECT_EQ(line.text.find_first_of("\n\033"), std::string::npos) << line.text;
      }
      Press({i % 7 == 3 ? Key::kEnter : i % 7 == 5 ? Key::kPageDown : Key::kDown});
      if (i % 11 == 0) Type("?x");
    }
  }
}

TEST_F(WatchScreenTest, PagesThroughAll) {
  Show(EightRanks());
  screen_.SetSize(8, 100);
  std::string all;
  for (int i = 0; i < 6; ++i) {
    all += Shown();
    Press({Key::kPageDown});
  }
  for (const char* const text :
       {"gordian: RANK", "next:", "6 !", "0-5,7", "dp", "tp", "5 Health"}) {
    EXPECT_NE(all.find(text), std::string::npos) << text;
  }
  EXPECT_NE(Chosen(), "");
  for (int i = 0; i < 6; ++i) Press({Key::kPageUp});
  EXPECT_TRUE(Shown().starts_with("gordian: RANK")) << Shown();
}

TEST_F(WatchScreenTest, TheLastLineSaysTheKeysAndWhatIsNot) {
  Show(EightRanks());
  EXPECT_TRUE(Shows("q quits, the job runs on"));
  EXPECT_FALSE(screen_.touched());
  SeenStatus ended = EightRanks();
  ended.running = false;
  Show(ended);
  EXPECT_TRUE(Shows("the job has ended; q quits"));
  Type("?");
  EXPECT_TRUE(Shows("Shift-Tab"));
  Type("x");
  EXPECT_FALSE(Shows("Shift-Tab"));
  EXPECT_TRUE(screen_.touched());
  SeenStatus calm = EightRanks();
  calm.status["verdict"] = "healthy";
  Show(calm);
  Type("2");
  EXPECT_TRUE(Shows("Findings: nothing to say"));
  EXPECT_FALSE(screen_.quit());
  Type("q");
  EXPECT_TRUE(screen_.quit());
}

TEST_F(WatchScreenTest, ASmallTerminalStillSaysHowToQuit) {
  Show(EightRanks());
  screen_.SetSize(5, 20);
  EXPECT_TRUE(Shows("q quits")) << Shown();
}

TEST_F(WatchScreenTest, TheLastFrameIsTheFirstScreen) {
  Show(EightRanks());
  const auto text = [&] {
    std::string all;
    for (const ShownLine& line : screen_.LastFrame()) all += line.text + "\n";
    return all;
  };
  const std::string before = text();
  EXPECT_TRUE(before.starts_with("gordian: RANK NOT JOINED")) << before;
  Type("3");
  Press({Key::kEnter, Key::kDown, Key::kEnter, Key::kEnd});
  EXPECT_EQ(text(), before);
  screen_.SetSize(3, 100);
  EXPECT_NE(text().find("next: gordian explain s"), std::string::npos) << "the card stays whole";
}

TEST_F(WatchScreenTest, NodesOfOneStateShareARow) {
  SeenStatus seen = EightRanks();
  for (int node = 0; node < 5; ++node) {
    seen.status["nodes"].push_back({{"name", "node" + std::to_string(node)},
                                    {"number", node},
                                    {"away", node == 3},
                                    {"ended", false}});
  }
  Show(seen);
  Type("5");
  EXPECT_TRUE(Chosen().starts_with(">+ nodes     1 node away")) << Chosen();
  Press({Key::kEnter});
  EXPECT_TRUE(Shows("3  node3")) << Shown();
  EXPECT_TRUE(Shows("4 nodes connected"));
}

// What comes from an analyzer elsewhere may be anything.
TEST_F(WatchScreenTest, TakesWrongTypesForUnknown) {
  const ordered_json whole = EightRanks().status;
  for (const auto& [key, value] : whole.items()) {
    for (const ordered_json& other :
         {ordered_json(), ordered_json(1), ordered_json("\033[2J"), ordered_json({1, "x"}),
          ordered_json({{"a", 1}}), ordered_json::array({ordered_json::object()})}) {
      SeenStatus seen = EightRanks();
      seen.status[key] = other;
      Show(seen);
      Type("34");
      Press({Key::kEnter});
      EXPECT_EQ(Shown().find('\033'), std::string::npos) << key;
    }
  }
}

}  // namespace
}  // namespace gordian::cli
