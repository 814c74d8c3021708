#include "analyzer/incidents/incident_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "common/clock.h"

namespace gordian::incidents {
namespace {

namespace fs = std::filesystem;

class StoreTest : public testing::Test {
 protected:
  StoreTest() : folder_(OwnedFolder::Make(testing::TempDir(), "incidents-").value()) {}
  ~StoreTest() override { (void)folder_.RemoveTree(); }

  std::string path() const { return folder_.path() + "/" + kStoreFile; }

  std::unique_ptr<IncidentStore> Open(const StoreOptions& options = {}) {
    StatusOr<std::unique_ptr<IncidentStore>> store = IncidentStore::Open(folder_, options);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return store.ok() ? std::move(store).value() : nullptr;
  }
  Status WhyNot() {
    StatusOr<std::unique_ptr<IncidentStore>> store = IncidentStore::Open(folder_);
    return store.ok() ? Status::Ok() : store.status();
  }
  void Sql(const std::string& statements) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    sqlite3_close(db);
  }

  OwnedFolder folder_;
};

const Writer kWriter{.host = "node7", .pid = 4711, .start = 99};

Incident Hang(const std::string& id, uint64_t opened_ns = RealNs()) {
  return {.id = id,
          .job = "train",
          .session = "train.2",
          .opened_ns = opened_ns,
          .facts = {.verdict = "deadlock",
                    .confidence = "suspected",
                    .check = "communicator-order-cycle",
                    .summary = "Ranks 2 and 3 wait for each other",
                    .advice = "Issue them in one order",
                    .culprits = {{.rank = 3, .pid = 4712, .node = "node8"}, {.rank = 2}},
                    .victims = "0-1,3"},
          .last_revision = 4};
}

Revision RevisionOf(const Incident& incident) {
  return {.revision = incident.last_revision,
          .time_ns = incident.opened_ns,
          .confidence = incident.facts.confidence,
          .verdict = incident.facts.verdict,
          .check = incident.facts.check,
          .summary = incident.facts.summary};
}

Alert AlertOf(const std::string& incident, const std::string& what) {
  return {.incident = incident,
          .what = what,
          .target = "0123456789abcdef",
          .shown = "slack at https://hooks.slack.com",
          .document = "{}",
          .queued_ns = RealNs(),
          .state = kPending};
}

TEST_F(StoreTest, AnIncidentIsReadBackAfterItWasOpenedAgain) {
  Incident incident = Hang("aa11");
  {
    const auto store = Open();
    const Revision revision = RevisionOf(incident);
    const Alert alert = AlertOf("aa11", kSuspected);
    ASSERT_TRUE(store->Write(incident, kWriter, &revision, {&alert, 1}).ok());
  }
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms(0600));
  const auto store = Open();
  const std::optional<Incident> open = store->Latest("train.2").value();
  ASSERT_TRUE(open);
  EXPECT_EQ(open->facts, incident.facts);
  EXPECT_EQ(open->ended_ns, 0u);
  EXPECT_EQ(open->last_revision, 4u);
  EXPECT_FALSE(store->Latest("train").value());
  ASSERT_EQ(store->Pending().value().size(), 1u);

  incident.confirmed_ns = incident.ended_ns = RealNs();
  incident.how_ended = kDisproved;
  incident.facts.confidence = "confirmed";
  incident.last_revision = 5;
  const Revision second = RevisionOf(incident);
  ASSERT_TRUE(store->Write(incident, kWriter, &second, {}).ok());
  ASSERT_TRUE(store->SetAlertState(AlertOf("aa11", kSuspected), kSent).ok());
  EXPECT_TRUE(store->Pending().value().empty());
  const auto records = store->List({}).value();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].incident.how_ended, "disproved");
  EXPECT_EQ(records[0].revisions.size(), 2u);
  EXPECT_EQ(records[0].nodes, std::vector<std::string>{"node8"});
  EXPECT_EQ(records[0].writer, kWriter);
  EXPECT_EQ(records[0].alerts.at(0).state, kSent);
  EXPECT_TRUE(store->List({.open_only = true}).value().empty());
  EXPECT_TRUE(store->List({.job = "other"}).value().empty());
  EXPECT_TRUE(store->List({.since_ns = RealNs() + kNsPerSecond}).value().empty());
}

TEST_F(StoreTest, AnAlertIsKeptOnce) {
  const auto store = Open();
  const Alert alert = AlertOf("aa11", kConfirmed);
  ASSERT_TRUE(store->Write(Hang("aa11"), kWriter, nullptr, {&alert, 1}).ok());
  ASSERT_TRUE(store->SetAlertState(alert, kSent).ok());
  ASSERT_TRUE(store->Write(Hang("aa11"), kWriter, nullptr, {&alert, 1}).ok());
  EXPECT_TRUE(store->Pending().value().empty());
}

TEST_F(StoreTest, AcknowledgementsTakeTheBeginningOfAnId) {
  const auto store = Open();
  for (const char* id : {"aa11", "aa22", "bb33"}) {
    ASSERT_TRUE(store->Write(Hang(id), kWriter, nullptr, {}).ok());
  }
  EXPECT_EQ(store->Acknowledge("b", {RealNs(), "ada", "it's mine; --"}).value(), "bb33");
  EXPECT_EQ(store->Acknowledge("aa11", {RealNs(), "ada", ""}).value(), "aa11");
  EXPECT_EQ(store->Acknowledge("aa", {}).status().code(), StatusCode::kInvalidArgument);
  for (const char* id : {"", "cc", "%", "' OR 1=1 --"}) {
    EXPECT_EQ(store->Acknowledge(id, {}).status().code(), StatusCode::kNotFound) << id;
  }
  const auto records = store->List({}).value();
  for (const IncidentRecord& record : records) {
    EXPECT_EQ(record.acknowledgements.size(), record.incident.id == "aa22" ? 0u : 1u);
  }
}

TEST_F(StoreTest, SeveralProcessesWriteAtOnce) {
  constexpr int kProcesses = 4, kEach = 25;
  for (int process = 0; process < kProcesses; ++process) {
    if (fork() != 0) continue;
    const auto folder = OwnedFolder::Open(folder_.path());  // as another program would
    auto store = IncidentStore::Open(*folder, {.busy_ms = 60'000});
    bool ok = store.ok();
    for (int i = 0; i < kEach && ok; ++i) {
      const std::string id = std::to_string(process) + "-" + std::to_string(i);
      ok = (*store)->Write(Hang(id), kWriter, nullptr, {}).ok();
    }
    _exit(ok ? 0 : 1);
  }
  for (int process = 0; process < kProcesses; ++process) {
    int status = 0;
    ASSERT_GT(wait(&status), 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(Open()->List({}).value().size(), kProcesses * kEach);
}

TEST_F(StoreTest, ANewerSchemaIsRefusedByNameAndLeftAlone) {
  Open();
  Sql("PRAGMA user_version=7");
  const Status status = WhyNot();
  EXPECT_EQ(status.code(), StatusCode::kNewerVersion);
  EXPECT_NE(status.message().find(path()), std::string::npos);
  EXPECT_NE(status.message().find("newer gordian"), std::string::npos);
  Sql("PRAGMA user_version=1");
  EXPECT_TRUE(WhyNot().ok());
}

TEST_F(StoreTest, AForeignOrDamagedFileIsAnErrorThatNamesIt) {
  Sql("CREATE TABLE theirs(x)");
  EXPECT_EQ(WhyNot().code(), StatusCode::kDataLoss);
  for (const char* name : {"", "-wal", "-shm"}) fs::remove(path() + name);
  std::ofstream(path()) << std::string(100'000, 'x');
  const Status status = WhyNot();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find(path()), std::string::npos);
}

// Whichever page is damaged: an error, or what can be read of it, and no crash.
TEST_F(StoreTest, AnyDamagedPageIsAnErrorAtMost) {
  {
    const auto store = Open();
    for (int i = 0; i < 50; ++i) {
      const Incident incident = Hang("id" + std::to_string(i));
      const Revision revision = RevisionOf(incident);
      ASSERT_TRUE(store->Write(incident, kWriter, &revision, {}).ok());
    }
  }
  std::string whole;
  {
    std::ifstream in(path(), std::ios::binary);
    whole.assign((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  }
  ASSERT_GT(whole.size(), 8u * 4096);
  for (size_t page = 0; page < whole.size() / 4096; ++page) {
    std::string damaged = whole;
    for (size_t i = page == 0 ? 100 : 0; i < 4096; i += 3) damaged[page * 4096 + i] ^= 0x5A;
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << damaged;
    StatusOr<std::unique_ptr<IncidentStore>> store = IncidentStore::Open(folder_);
    if (!store.ok()) continue;
    (void)(*store)->List({});
    (void)(*store)->Write(Hang("new"), kWriter, nullptr, {});
    (void)(*store)->Pending();
  }
}

TEST_F(StoreTest, ALinkIsNotFollowed) {
  const std::string target = folder_.path() + "/target";
  fs::create_symlink(target, path());
  EXPECT_EQ(WhyNot().code(), StatusCode::kPermissionDenied);
  EXPECT_FALSE(fs::exists(target));
  fs::remove(path());
  // Nor are links in the places of the log and its shared memory.
  fs::create_symlink(target, path() + "-wal");
  fs::create_symlink(target, path() + "-shm");
  EXPECT_FALSE(WhyNot().ok());
  EXPECT_FALSE(fs::exists(target));
}

TEST_F(StoreTest, TheFolderIsTheOneThatWasOpened) {
  const std::string before = folder_.path(), moved = before + ".moved";
  ASSERT_EQ(rename(before.c_str(), moved.c_str()), 0);
  ASSERT_EQ(mkdir(before.c_str(), 0700), 0);
  ASSERT_TRUE(Open()->Write(Hang("aa11"), kWriter, nullptr, {}).ok());
  EXPECT_TRUE(fs::is_empty(before));
  EXPECT_TRUE(fs::exists(moved + "/" + kStoreFile));
  ASSERT_EQ(rmdir(before.c_str()), 0);
  ASSERT_EQ(rename(moved.c_str(), before.c_str()), 0);
}

TEST_F(StoreTest, AReaderMakesNothing) {
  EXPECT_EQ(IncidentStore::Open(folder_, {.read_only = true}).status().code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(folder_.Names().empty());
  ASSERT_TRUE(Open()->Write(Hang("aa11"), kWriter, nullptr, {}).ok());
  const auto reader = Open({.read_only = true});
  EXPECT_EQ(reader->List({}).value().size(), 1u);
  EXPECT_FALSE(reader->Write(Hang("bb22"), kWriter, nullptr, {}).ok());
}

// A limit on the sizes of files stands in for a full disk; in a process of its own, since it cannot
// be taken back.
TEST_F(StoreTest, WhenTheDiskIsFullWritesFailAndAllElseStays) {
  ASSERT_TRUE(Open()->Write(Hang("aa11"), kWriter, nullptr, {}).ok());
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const auto folder = OwnedFolder::Open(folder_.path());
    auto store = IncidentStore::Open(*folder);
    const rlimit tight{200'000, 200'000};
    if (!store.ok() || setrlimit(RLIMIT_FSIZE, &tight) != 0) _exit(2);
    Status status;
    for (int i = 0; i < 1000 && status.ok(); ++i) {
      Incident incident = Hang("x" + std::to_string(i));
      incident.facts.summary.assign(10'000, 'x');
      status = (*store)->Write(incident, kWriter, nullptr, {});
    }
    const bool readable = (*store)->Latest("train.2").ok();
    _exit(!status.ok() && status.code() == StatusCode::kUnavailable && readable ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto store = Open();
  EXPECT_GE(store->List({}).value().size(), 1u);
  EXPECT_TRUE(store->Write(Hang("bb22"), kWriter, nullptr, {}).ok());
}

TEST_F(StoreTest, WhatIsOldIsForgotten) {
  const uint64_t now = RealNs(), day = 24ull * 3600 * kNsPerSecond;
  const auto store = Open();
  ASSERT_TRUE(store->Write(Hang("old", now - 91 * day), kWriter, nullptr, {}).ok());
  ASSERT_TRUE(store->Write(Hang("new", now - 89 * day), kWriter, nullptr, {}).ok());
  ASSERT_TRUE(store->Retain(now).ok());
  const auto left = store->List({}).value();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].incident.id, "new");
}

TEST_F(StoreTest, AFileThatIsTooLargeLosesTheOldestAndShrinks) {
  const uint64_t now = RealNs();
  const StoreOptions small{.most_bytes = 1 << 20};
  {
    const auto store = Open();  // as large as it likes
    for (uint64_t i = 0; i < 300; ++i) {
      Incident incident = Hang(std::to_string(1000 + i), now - (1000 - i) * kNsPerSecond);
      incident.facts.summary.assign(10'000, 'x');
      if (i > 0) incident.ended_ns = incident.opened_ns;
      ASSERT_TRUE(store->Write(incident, kWriter, nullptr, {}).ok());
    }
  }
  ASSERT_GT(fs::file_size(path()), 2u << 20);
  { const auto store = Open(small); }
  EXPECT_LE(fs::file_size(path()), 1u << 20);
  const auto left = Open(small)->List({}).value();
  ASSERT_GT(left.size(), 10u);
  EXPECT_EQ(left.front().incident.id, "1299");  // the newest
  EXPECT_EQ(left.back().incident.id, "1000");   // the oldest, which is open
}

}  // namespace
}  // namespace gordian::incidents
