#include "analyzer/session/analysis.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "analyzer/report/verdict_json.h"
#include "analyzer/session/session_files.h"
#include "common/log.h"
#include "common/trace_file.h"
#include "testing/jobs/recorded_job.h"

namespace gordian::analyzer {
namespace {

namespace fs = std::filesystem;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Without what a verdict that was decided again does not have.
std::string WithoutStamp(const std::string& verdict_json) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(verdict_json);
  for (const char* key : {"revision", "written", "closed"}) json.erase(key);
  return json.dump(2);
}

class AnalysisTest : public ::testing::Test {
 protected:
  AnalysisTest() {
    SilenceLog();
    std::string pattern = ::testing::TempDir() + "/analysis.XXXXXX";
    session_ = mkdtemp(pattern.data());
  }
  ~AnalysisTest() override { fs::remove_all(session_); }

  AnalysisOptions Options() {
    AnalysisOptions options;
    options.session_dir = session_;
    options.on_verdict = [this](const VerdictUpdate& update) {
      revisions_.push_back(update.revision);
      kinds_.push_back(update.verdict.main.verdict);
      last_json_ = update.json;
      ended_ = update.job_ended;
    };
    return options;
  }

  static void Feed(Analysis* analysis, testing::RecordedJob* job) {
    for (const v1::Event& event : job->Take()) analysis->OnEvent(event);
  }

  std::string session_;
  std::vector<uint64_t> revisions_;
  std::vector<model::VerdictKind> kinds_;
  std::string last_json_;
  bool ended_ = false;
};

TEST_F(AnalysisTest, AnInversionIsADeadlockInAllFiles) {
  testing::RecordedJob job = testing::TwoRanks(/*inverted=*/true);
  for (int i = 0; i < 4; ++i) {
    job.Sleep(20'000'000);
    job.Round();
  }
  Analysis analysis(Options());
  Feed(&analysis, &job);
  ASSERT_FALSE(kinds_.empty());
  EXPECT_EQ(kinds_.back(), model::VerdictKind::kDeadlock);
  const std::string text = ReadAll(session_ + "/verdict.json");
  EXPECT_EQ(text, last_json_);
  StatusOr<VerdictDocument> document = ParseVerdict(text);
  ASSERT_TRUE(document.ok()) << document.status().ToString();
  const model::Finding& main = document->verdict.main;
  EXPECT_EQ(main.confidence, model::Confidence::kConfirmed);
  EXPECT_EQ(main.culprit_ranks, (std::vector<int>{0, 1}));
  ASSERT_EQ(main.cycle.size(), 2u);
  EXPECT_EQ(main.evidence.ranks_seen, 2);
  EXPECT_TRUE(main.evidence.not_visible.empty());
  EXPECT_TRUE(ReadAll(session_ + "/report.txt").starts_with("gordian: DEADLOCK (confirmed"));

  // The trace is readable now, not only after the end, and says the same.
  StatusOr<AnalysisResult> replayed = AnalyzeTrace(session_);
  ASSERT_TRUE(replayed.ok()) << replayed.status().ToString();
  EXPECT_FALSE(replayed->complete);
  EXPECT_EQ(replayed->verdict.main.verdict, model::VerdictKind::kDeadlock);
  EXPECT_EQ(replayed->verdict.main.confidence, model::Confidence::kConfirmed);
}

TEST_F(AnalysisTest, TheTraceReplaysToTheSameVerdict) {
  for (bool inverted : {true, false}) {
    testing::RecordedJob job = testing::TwoRanks(inverted);
    for (int i = 0; i < 3; ++i) job.Round();
    for (int rank : {0, 1}) job.EndProcess(rank, 0);
    job.EndJob(0);
    Analysis analysis(Options());
    Feed(&analysis, &job);
    analysis.Finish();
    EXPECT_TRUE(ended_);
    StatusOr<AnalysisResult> replayed = AnalyzeTrace(session_ + "/trace.gtrace");
    ASSERT_TRUE(replayed.ok()) << replayed.status().ToString();
    EXPECT_TRUE(replayed->complete) << replayed->ending;
    EXPECT_EQ(replayed->events, analysis.stats().events);
    const std::string written = ReadAll(session_ + "/verdict.json");
    EXPECT_EQ(WithoutStamp(VerdictToText(replayed->verdict, replayed->sites())),
              WithoutStamp(written));
    StatusOr<VerdictDocument> document = ParseVerdict(written);
    ASSERT_TRUE(document.ok());
    EXPECT_EQ(document->closed, true);
    EXPECT_TRUE(document->written.ends_with("Z")) << document->written;
    EXPECT_EQ(kinds_.back(),
              inverted ? model::VerdictKind::kDeadlock : model::VerdictKind::kFinished);
  }
}

TEST_F(AnalysisTest, TellsOnceAndNotEveryRound) {
  testing::RecordedJob job = testing::TwoRanks(true);
  for (int i = 0; i < 4; ++i) job.Round();
  Analysis analysis(Options());
  Feed(&analysis, &job);
  const size_t told = revisions_.size();
  EXPECT_GE(told, 1u);
  for (int i = 0; i < 50; ++i) job.Round();
  Feed(&analysis, &job);
  EXPECT_EQ(revisions_.size(), told);
  for (size_t i = 0; i < told; ++i) EXPECT_EQ(revisions_[i], i + 1);
  uint64_t revision = 0;
  EXPECT_EQ(analysis.CurrentJson(&revision), last_json_);
  EXPECT_EQ(revision, told);
  // That records are lost is news once, not with each further one.
  for (uint64_t lost = 1; lost <= 5; ++lost) {
    job.Round();
    for (v1::Event& event : job.Take()) {
      for (v1::ProcessState& state : *event.mutable_round()->mutable_processes()) {
        state.set_lost_records(lost);
      }
      analysis.OnEvent(event);
    }
  }
  EXPECT_EQ(revisions_.size(), told + 1);
}

// A thousand nodes that go at once must not each cost a verdict of all of them.
TEST_F(AnalysisTest, NodesThatGoTogetherCostAFewVerdicts) {
  constexpr uint32_t kNodes = 20;  // all are named
  const auto revisions = [&](bool many_nodes) {
    revisions_.clear();
    testing::RecordedJob job = testing::TwoRanks(true);
    AnalysisOptions options = Options();
    options.many_nodes = many_nodes;
    Analysis analysis(std::move(options));
    for (uint32_t node = 0; node < kNodes; ++node) {
      v1::Event joined;
      joined.mutable_node_joined()->set_node(node);
      joined.mutable_node_joined()->set_name("n" + std::to_string(node));
      analysis.OnEvent(joined);
    }
    Feed(&analysis, &job);
    for (uint32_t node = 0; node < kNodes; ++node) {
      v1::Event away;
      away.mutable_node_state()->set_node(node);
      away.mutable_node_state()->set_kind(v1::NODE_STATE_KIND_AWAY);
      analysis.OnEvent(away);
      analysis.Update();
    }
    const size_t at_once = revisions_.size();
    // Tick makes up for what waits.
    const std::vector<std::string> now = analysis.Current().main.evidence.not_visible;
    const auto told = [&] { return ParseVerdict(last_json_)->verdict.main.evidence.not_visible; };
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (told() != now && std::chrono::steady_clock::now() < patience) {
      analysis.Tick();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(told(), now);
    return at_once;
  };
  const size_t plain = revisions(false), many = revisions(true);
  EXPECT_GE(plain, 10u);
  EXPECT_LT(many, plain / 2);
}

// Who reads verdict.json never sees half of one: it appears by rename, and is never written to.
TEST_F(AnalysisTest, VerdictAppearsByRename) {
  const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  ASSERT_GE(watch, 0);
  ASSERT_GE(inotify_add_watch(watch, session_.c_str(), IN_MOVED_TO | IN_MODIFY | IN_CREATE), 0);
  {
    testing::RecordedJob job = testing::TwoRanks(true);
    for (int i = 0; i < 3; ++i) job.Round();
    Analysis analysis(Options());
    Feed(&analysis, &job);
  }
  alignas(inotify_event) char buffer[16384];
  size_t renamed = 0;
  for (ssize_t bytes; (bytes = read(watch, buffer, sizeof(buffer))) > 0;) {
    for (char* at = buffer; at < buffer + bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(at);
      at += sizeof(inotify_event) + event->len;
      if (event->len == 0 || std::string(event->name) != "verdict.json") continue;
      EXPECT_TRUE(event->mask & IN_MOVED_TO) << event->mask;
      ++renamed;
    }
  }
  close(watch);
  EXPECT_EQ(renamed, revisions_.size());
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(session_)) {
    EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 3u);  // trace.gtrace, verdict.json, report.txt
}

// The file that the link leads to stays as it was. (TraceWriter meets /dev/full in its own tests.)
TEST_F(AnalysisTest, ALinkInPlaceOfTheTraceCostsTheTraceOnly) {
  const std::string victim = session_ + "/victim";
  std::ofstream(victim) << "precious";
  ASSERT_EQ(symlink(victim.c_str(), (session_ + "/trace.gtrace").c_str()), 0);
  testing::RecordedJob job = testing::TwoRanks(true);
  for (int i = 0; i < 3; ++i) job.Round();
  Analysis analysis(Options());
  Feed(&analysis, &job);
  EXPECT_TRUE(analysis.stats().session_degraded);
  StatusOr<VerdictDocument> document = ReadVerdictFile(session_ + "/verdict.json");
  ASSERT_TRUE(document.ok()) << document.status().ToString();
  EXPECT_EQ(document->verdict.main.verdict, model::VerdictKind::kDeadlock);
  EXPECT_EQ(document->verdict.main.confidence, model::Confidence::kConfirmed);
  ASSERT_EQ(document->verdict.main.evidence.not_visible.size(), 1u);
  EXPECT_NE(document->verdict.main.evidence.not_visible[0].find("symbolic links"),
            std::string::npos)
      << document->verdict.main.evidence.not_visible[0];
  EXPECT_EQ(ReadAll(victim), "precious");
}

TEST_F(AnalysisTest, ASessionThatCannotBeWrittenCostsItsFilesOnly) {
  fs::remove_all(session_);  // works for root too, whom no read-only folder stops
  testing::RecordedJob job = testing::TwoRanks(true);
  for (int i = 0; i < 3; ++i) job.Round();
  Analysis analysis(Options());
  Feed(&analysis, &job);
  analysis.Finish();
  EXPECT_EQ(kinds_.back(), model::VerdictKind::kDeadlock);
  EXPECT_FALSE(fs::exists(session_));
  StatusOr<VerdictDocument> told = ParseVerdict(last_json_);
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(told->verdict.main.evidence.not_visible.size(), 1u);
}

TEST_F(AnalysisTest, AFolderSwappedForALinkLosesNothing) {
  testing::RecordedJob job = testing::TwoRanks(true);
  for (int i = 0; i < 3; ++i) job.Round();
  const std::string victim = session_ + ".victim";
  const std::string aside = session_ + ".aside";
  fs::create_directory(victim);
  for (const char* name : {"trace.gtrace", "verdict.json", "report.txt"}) {
    std::ofstream(victim + "/" + name) << "precious";
  }
  {
    Analysis analysis(Options());
    fs::rename(session_, aside);
    fs::create_directory_symlink(victim, session_);
    Feed(&analysis, &job);
    analysis.Finish();
  }
  for (const char* name : {"trace.gtrace", "verdict.json", "report.txt"}) {
    EXPECT_EQ(ReadAll(victim + "/" + name), "precious") << name;
    EXPECT_GT(ReadAll(aside + "/" + name).size(), 0u) << name;
  }
  fs::remove(session_);
  fs::rename(aside, session_);
  fs::remove_all(victim);
}

TEST_F(AnalysisTest, ACutTraceIsAnalysedAsFarAsItGoes) {
  testing::RecordedJob job = testing::TwoRanks(false);
  for (int i = 0; i < 3; ++i) job.Round();
  AnalysisOptions options = Options();
  {
    Analysis analysis(options);
    Feed(&analysis, &job);
    for (int rank : {0, 1}) job.EndProcess(rank, 0);
    job.EndJob(0);
    Feed(&analysis, &job);
  }
  const std::string trace = session_ + "/trace.gtrace";
  const auto whole = fs::file_size(trace);
  StatusOr<AnalysisResult> result = AnalyzeTrace(trace);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->verdict.main.verdict, model::VerdictKind::kFinished);
  bool cut_seen = false;
  for (auto size = whole - 1; size > whole / 2; --size) {
    fs::resize_file(trace, size);
    result = AnalyzeTrace(trace);
    if (!result.ok()) continue;  // not even a header: an error, which is fine
    EXPECT_FALSE(result->complete);
    EXPECT_NE(result->verdict.main.verdict, model::VerdictKind::kHealthy);
    EXPECT_FALSE(result->verdict.main.evidence.not_visible.empty());
    cut_seen = true;
  }
  EXPECT_TRUE(cut_seen);
}

TEST_F(AnalysisTest, ErrorsNameTheFile) {
  StatusOr<AnalysisResult> result = AnalyzeTrace(session_);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("trace.gtrace"), std::string::npos);
  std::ofstream(session_ + "/trace.gtrace") << "something else";
  EXPECT_FALSE(AnalyzeTrace(session_).ok());
}

TEST_F(AnalysisTest, WritesNothingWithoutASession) {
  AnalysisOptions options = Options();
  options.session_dir.clear();
  testing::RecordedJob job = testing::TwoRanks(true);
  for (int i = 0; i < 3; ++i) job.Round();
  Analysis analysis(options);
  Feed(&analysis, &job);
  EXPECT_EQ(analysis.Current().main.verdict, model::VerdictKind::kDeadlock);
  EXPECT_FALSE(last_json_.empty());
  EXPECT_FALSE(analysis.stats().session_degraded);
  EXPECT_TRUE(fs::is_empty(session_));
}

TEST_F(AnalysisTest, NotesArePartOfTheEvidence) {
  Analysis analysis(Options());
  analysis.AddNotVisible("the collector on node1 went away");
  analysis.AddNotVisible("the collector on node1 went away");
  EXPECT_EQ(analysis.Current().main.evidence.not_visible,
            (std::vector<std::string>{"the collector on node1 went away"}));
}

TEST(SessionFiles, ReplacesInOneStepAndCleansUp) {
  std::string pattern = ::testing::TempDir() + "/session.XXXXXX";
  const std::string folder = mkdtemp(pattern.data());
  const std::string path = folder + "/file";
  EXPECT_TRUE(ReplaceFile(path, "one").ok());
  EXPECT_TRUE(ReplaceFile(path, "").ok());
  EXPECT_EQ(ReadAll(path), "");
  EXPECT_TRUE(ReplaceFile(path, "two").ok());
  EXPECT_EQ(ReadAll(path), "two");
  // A folder in the way: an error that names it, and nothing is left behind.
  fs::create_directories(folder + "/in_the_way/x");
  const Status status = ReplaceFile(folder + "/in_the_way", "three");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("in_the_way"), std::string::npos);
  size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) ++entries;
  EXPECT_EQ(entries, 2u);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace gordian::analyzer
