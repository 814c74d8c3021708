#include "analyzer/incidents/incident_book.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyzer/model/verdict/check_catalogue.h"
#include "common/clock.h"
#include "common/json_text.h"

namespace gordian::incidents {
namespace {

using model::Confidence;
using model::VerdictKind;

// An incident book whose alerts go to exec: commands, which are only written down.
class BookTest : public testing::Test {
 protected:
  BookTest() : folder_(OwnedFolder::Make(testing::TempDir(), "book-").value()) {}
  ~BookTest() override {
    book_.reset();
    (void)folder_.RemoveTree();
  }

  void Start(bool suspected = false, bool of_a_server = true) {
    book_.reset();
    BookOptions options;
    options.open_folder = [this] { return OwnedFolder::Adopt(folder_.path()); };
    options.writer = {.host = "here", .pid = getpid()};
    if (!of_a_server) options.runs = [](const Writer& writer) { return writer.pid == getpid(); };
    options.targets = {ParseAlertTarget("exec:true").value()};
    options.alert_suspected = suspected;
    options.sender.first_wait = std::chrono::milliseconds(5);
    options.sender.run_command = [this](const std::string&, const AlertEnvironment& environment) {
      const std::lock_guard lock(mutex_);
      for (const auto& [name, value] : environment) {
        if (name == "GORDIAN_ALERT") sent_.push_back(value);
      }
      return exit_code_;
    };
    options.on_line = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
    book_ = std::make_unique<IncidentBook>(std::move(options));
    book_->OpenStore();
  }

  static model::Verdict Says(VerdictKind kind, Confidence confidence, size_t disproved = 0) {
    model::Verdict verdict;
    verdict.main.verdict = kind;
    verdict.main.confidence = confidence;
    verdict.main.check = "a-check";
    verdict.main.summary = "it hangs";
    verdict.main.culprit_ranks = {3};
    verdict.disproved.resize(disproved);
    return verdict;
  }
  JobNews News(bool ended = false) {
    return {.job = "train", .session = "train", .revision = ++revision_, .job_ended = ended};
  }
  void Hang(Confidence confidence = Confidence::kConfirmed) {
    book_->OnVerdict(News(), Says(VerdictKind::kDeadlock, confidence));
  }
  void Heal(size_t disproved = 0) {
    book_->OnVerdict(News(), Says(VerdictKind::kHealthy, Confidence::kConfirmed, disproved));
  }
  void Wait() {
    const uint64_t deadline = MonoNs() + 60 * kNsPerSecond;
    while (!book_->Idle() && MonoNs() < deadline) usleep(1000);
    ASSERT_TRUE(book_->Idle());
  }
  std::vector<std::string> sent() {
    const std::lock_guard lock(mutex_);
    return sent_;
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  // How each incident ended, the latest first; "": it is open.
  std::vector<std::string> Ends() {
    Wait();
    std::vector<std::string> ends;
    const auto json = ParseJson<nlohmann::json>(book_->Json(""));
    for (const auto& one : json["incidents"]) ends.push_back(one["how_ended"]);
    return ends;
  }

  OwnedFolder folder_;
  uint64_t revision_ = 0;
  std::mutex mutex_;
  std::vector<std::string> sent_, lines_;
  int exit_code_ = 0;
  std::unique_ptr<IncidentBook> book_;
};

using Texts = std::vector<std::string>;

TEST_F(BookTest, SeesWhatAnotherProcessAcknowledges) {
  Start();
  Hang();
  Wait();
  const std::string id = ParseJson<nlohmann::json>(book_->Json(""))["incidents"].at(0)["id"];
  const uint64_t before = book_->changes();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(book_->Json("").empty());
  EXPECT_EQ(book_->changes(), before) << "reading changes nothing";
  const auto other = IncidentStore::Open(folder_);
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  ASSERT_TRUE((*other)->Acknowledge(id, {.time_ns = RealNs(), .who = "bob"}).ok());
  const uint64_t after = book_->changes();
  EXPECT_GT(after, before);
  EXPECT_EQ(book_->changes(), after);
}

TEST_F(BookTest, ARunWithoutIncidentsIsNotChangedByOthers) {
  Start(/*suspected=*/false, /*of_a_server=*/false);
  Wait();
  EXPECT_EQ(book_->changes(), 0u);
  const auto other = IncidentStore::Open(folder_);
  ASSERT_TRUE(other.ok()) << other.status().ToString();
  const Incident theirs{.id = "aaaaaaaaaaaa", .job = "other", .session = "other", .opened_ns = 1};
  ASSERT_TRUE((*other)->Write(theirs, {.host = "here", .pid = 1}, nullptr, {}).ok());
  EXPECT_EQ(book_->changes(), 0u);
}

TEST_F(BookTest, TakesAcknowledgementsOfItsSessionAlone) {
  Start();
  EXPECT_EQ(book_->changes(), 0u);
  EXPECT_EQ(book_->Acknowledge("", "5f0c", {.who = "ann"}).status().code(), StatusCode::kNotFound);
  Hang();
  Wait();
  const uint64_t before = book_->changes();
  EXPECT_GT(before, 0u);
  const auto incident = [this] {
    return ParseJson<nlohmann::json>(book_->Json(""))["incidents"].at(0);
  };
  const std::string id = incident()["id"];
  EXPECT_EQ(book_->Acknowledge("other", id, {.who = "ann"}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(book_->Acknowledge("train", "", {.who = "ann"}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(book_->changes(), before);
  const Acknowledgement by{.time_ns = RealNs(), .who = "ann\n\xff", .note = std::string(5000, 'x')};
  EXPECT_EQ(*book_->Acknowledge("train", id, by), id);
  EXPECT_EQ(*book_->Acknowledge("", id, {.time_ns = RealNs(), .who = "bob"}), id);
  EXPECT_EQ(book_->changes(), before + 2);
  const nlohmann::json kept = incident()["acknowledgements"];
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0]["who"], "ann ?");
  EXPECT_EQ(kept[0]["note"], std::string(4096, 'x'));
  EXPECT_EQ(kept[1]["who"], "bob");
}

TEST_F(BookTest, OneTroubleIsOneIncidentAndOneAlert) {
  Start();
  Heal();
  Hang(Confidence::kSuspected);
  Hang();
  Hang();
  EXPECT_EQ(Ends(), Texts{""});
  EXPECT_EQ(sent(), Texts{"confirmed"});
  book_->OnVerdict(News(/*ended=*/true), Says(VerdictKind::kDeadlock, Confidence::kConfirmed));
  EXPECT_EQ(Ends(), Texts{"job ended"});
  EXPECT_EQ(sent(), Texts{"confirmed"});
  EXPECT_TRUE(lines().empty());
}

TEST_F(BookTest, AHealthyJobHasNone) {
  Start(/*suspected=*/true);
  Heal();
  book_->OnVerdict(News(), Says(VerdictKind::kDeadlock, Confidence::kPossible));
  book_->OnVerdict(News(), Says(VerdictKind::kInconclusive, Confidence::kConfirmed));
  book_->OnVerdict(News(/*ended=*/true), Says(VerdictKind::kFinished, Confidence::kConfirmed));
  EXPECT_EQ(Ends(), Texts{});
  EXPECT_TRUE(sent().empty());
}

TEST_F(BookTest, SuspicionsAreAlertedOnlyWhereAsked) {
  Start();
  Hang(Confidence::kSuspected);
  EXPECT_EQ(Ends(), Texts{""});
  EXPECT_TRUE(sent().empty());
  Start(/*suspected=*/true);
  revision_ = 0;
  (void)folder_.RemoveFile(kStoreFile);
  Start(/*suspected=*/true);
  Hang(Confidence::kSuspected);
  Hang(Confidence::kSuspected);
  Hang();
  Hang(Confidence::kSuspected);
  EXPECT_EQ(Ends(), Texts{""});
  EXPECT_EQ(sent(), (Texts{"suspected", "confirmed"}));
}

TEST_F(BookTest, HowItEnded) {
  Start();
  Hang(Confidence::kSuspected);
  Heal();
  EXPECT_EQ(Ends(), Texts{"withdrawn"});
  Hang();
  Heal(/*disproved=*/1);
  EXPECT_EQ(Ends(), (Texts{"disproved", "withdrawn"}));
  // That one was disproved is no news any more.
  book_->OnVerdict(News(), Says(VerdictKind::kDeadlock, Confidence::kConfirmed, 1));
  book_->OnVerdict(News(), Says(VerdictKind::kInconclusive, Confidence::kConfirmed, 1));
  EXPECT_EQ(Ends().front(), "");  // it cannot say: nothing has ended
  JobNews killed = News(/*ended=*/true);
  killed.killed_by_gordian = true;
  book_->OnVerdict(killed, Says(VerdictKind::kDeadlock, Confidence::kConfirmed, 1));
  EXPECT_EQ(Ends().front(), "killed");
  EXPECT_EQ(sent().size(), 2u);
}

TEST_F(BookTest, ProcessesThatAUserEndsAreNoTrouble) {
  Start();
  Heal();
  JobNews news = News();
  news.interrupted = true;
  book_->OnVerdict(news, Says(VerdictKind::kRankExited, Confidence::kConfirmed));
  EXPECT_EQ(Ends(), Texts{});
  book_->OnVerdict(News(), Says(VerdictKind::kRankExited, Confidence::kConfirmed));
  EXPECT_EQ(Ends(), Texts{""});
}

TEST_F(BookTest, ARestartGoesOnWithTheSameIncident) {
  Start();
  Hang();
  EXPECT_EQ(Ends(), Texts{""});
  Start();  // as if it had been killed: nothing was closed
  book_->Resume(News(), Says(VerdictKind::kDeadlock, Confidence::kConfirmed));
  book_->Resumed();
  Hang(Confidence::kSuspected);  // a node is away
  Hang();
  EXPECT_EQ(Ends(), Texts{""});
  EXPECT_EQ(sent(), Texts{"confirmed"});
}

TEST_F(BookTest, AVerdictThatIsQuickerThanResumeOpensNoSecond) {
  Start();
  Hang();
  Wait();
  Start();
  const JobNews resumed = News();
  Hang();
  book_->Resume(resumed, Says(VerdictKind::kDeadlock, Confidence::kConfirmed));
  book_->Resumed();
  EXPECT_EQ(Ends(), Texts{""});
  EXPECT_EQ(sent(), Texts{"confirmed"});
}

TEST_F(BookTest, ATroubleThatWasNotWrittenDownIsAlertedAfterTheRestart) {
  Start();
  book_->Resume(News(), Says(VerdictKind::kDeadlock, Confidence::kConfirmed));
  book_->Resumed();
  EXPECT_EQ(Ends(), Texts{""});
  EXPECT_EQ(sent(), Texts{"confirmed"});
}

TEST_F(BookTest, AnAlertThatWasNotSentIsSentAfterTheRestart) {
  Start();
  exit_code_ = 1;
  Hang();
  const uint64_t deadline = MonoNs() + 60 * kNsPerSecond;
  while (sent().empty() && MonoNs() < deadline) usleep(1000);
  book_->Stop();
  {
    const std::lock_guard lock(mutex_);
    exit_code_ = 0;
    sent_.clear();
  }
  Start();
  book_->Resume(News(), Says(VerdictKind::kDeadlock, Confidence::kConfirmed));
  book_->Resumed();
  EXPECT_EQ(Ends(), Texts{""});
  EXPECT_EQ(sent(), Texts{"confirmed"});
  Start();  // and not once more
  book_->Resumed();
  EXPECT_EQ(Ends(), Texts{"not known"});  // that job did not come back
  EXPECT_EQ(sent(), Texts{"confirmed"});
}

TEST_F(BookTest, AnotherJobInTheSameFolderHasAnIncidentOfItsOwn) {
  Start();
  Hang();
  Hang();
  Wait();
  Start();
  revision_ = 0;
  Hang();
  EXPECT_EQ(Ends(), (Texts{"", "not known"}));
  EXPECT_EQ(sent().size(), 2u);
}

TEST_F(BookTest, RunsOfOneStoreLeaveEachOtherAloneUnlessOneWasKilled) {
  Start(false, /*of_a_server=*/false);
  Hang();
  Wait();
  {
    const auto store = IncidentStore::Open(folder_).value();
    Incident other{.id = "other", .job = "x", .session = "/x", .opened_ns = RealNs()};
    ASSERT_TRUE(store->Write(other, {.host = "here", .pid = 1}, nullptr, {}).ok());
    other.id = "far";
    ASSERT_TRUE(store->Write(other, {.host = "elsewhere", .pid = 1}, nullptr, {}).ok());
  }
  Start(false, /*of_a_server=*/false);
  EXPECT_EQ(Ends(), (Texts{"", "not known", ""}));
}

TEST_F(BookTest, WithoutAStoreAlertsAreSentAndOneLineSaysSo) {
  std::ofstream(folder_.path() + "/" + kStoreFile) << std::string(5000, 'x');
  Start();
  Hang();
  Hang();
  Wait();
  EXPECT_EQ(sent(), Texts{"confirmed"});
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_NE(lines()[0].find("incidents are not kept"), std::string::npos) << lines()[0];
}

}  // namespace
}  // namespace gordian::incidents
