// The two phases of a recovery, over ranks that are played by threads: all go on, or none does.
#include "collector/recovery/recovery.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/ring/recovery.h"

namespace gordian::collector {
namespace {

using ring::RecoveryOrder;
using ring::RecoveryReply;

// A process that lives until the test ends it.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ == 0) {
      pause();
      _exit(0);
    }
  }
  ~Child() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  uint32_t pid() const { return static_cast<uint32_t>(pid_); }

 private:
  pid_t pid_;
};

// Answers as an armed shim does.
class Shim {
 public:
  Shim(const std::string& dir, uint32_t pid, RecoveryReply prepare, RecoveryReply commit,
       uint64_t first = 1)
      : prepare_(prepare), commit_(commit), first_(first) {
    const std::string path = dir + "/" + ring::kRecoveryFile + std::to_string(pid);
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT_EQ(ftruncate(fd, sizeof(ring::RecoveryFile)), 0);
    file_ = static_cast<ring::RecoveryFile*>(
        mmap(nullptr, sizeof(ring::RecoveryFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    file_->pid = pid;
    file_->magic = ring::kRecoveryMagic;
    thread_ = std::thread([this] { Answer(); });
  }
  ~Shim() {
    stop_ = true;
    thread_.join();
    munmap(file_, sizeof(ring::RecoveryFile));
  }

  std::atomic<int> prepared = 0, committed = 0, cancelled = 0;
  std::atomic<uint32_t> units = 0, comms = 0;

 private:
  void Answer() {
    uint32_t answered = 0;
    while (!stop_) {
      const uint32_t request = __atomic_load_n(&file_->request, __ATOMIC_ACQUIRE);
      if (request == answered) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        continue;
      }
      RecoveryReply reply = RecoveryReply::kDone;
      switch (static_cast<RecoveryOrder>(file_->order)) {
        case RecoveryOrder::kPrepare:
          ++prepared;
          units = file_->unit_count;
          comms = file_->comm_count;
          reply = prepare_;
          file_->place = 0;
          file_->missing = 4096;
          file_->first_count = 1;
          file_->first[0] = {file_->comm[0], 0, first_};
          break;
        case RecoveryOrder::kCommit:
          ++committed;
          reply = commit_;
          break;
        default:
          ++cancelled;
          break;
      }
      answered = request;
      if (reply == RecoveryReply::kNone) continue;  // never answers
      file_->reply = static_cast<uint32_t>(reply);
      __atomic_store_n(&file_->answer, request, __ATOMIC_RELEASE);
    }
  }

  const RecoveryReply prepare_, commit_;
  const uint64_t first_;
  ring::RecoveryFile* file_ = nullptr;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() {
    std::string name = std::filesystem::temp_directory_path() / "gordian-recovery-XXXXXX";
    dir_ = mkdtemp(name.data());
    for (int rank = 0; rank < 2; ++rank) {
      options_.units.push_back({.pid = children_[rank].pid(),
                                .rank = rank,
                                .communicator = 7,
                                .comm = static_cast<uint32_t>(rank + 1),
                                .stream = 1,
                                .sequence = 1,
                                .ordinal = 1,
                                .early = false,
                                .after = {},
                                .operation = "AllReduce #1 on dp"});
      options_.members.push_back({children_[rank].pid(), rank, 7, static_cast<uint32_t>(rank + 1)});
    }
    options_.session_dir = dir_;
    options_.prepare_ns = 300'000'000;
    options_.progress_ns = 300'000'000;
    options_.cause_ns = 300'000'000;
    options_.on_begin = [this] { begun_ = true; };
    options_.on_end = [this](const RecoveryOutcome& outcome) { outcome_ = outcome; };
  }
  ~RecoveryTest() override { std::filesystem::remove_all(dir_); }

  void Shims(RecoveryReply prepare, RecoveryReply commit, uint64_t first = 1,
             RecoveryReply other_commit = RecoveryReply::kDone) {
    shims_[0] =
        std::make_unique<Shim>(dir_, children_[0].pid(), RecoveryReply::kReady, other_commit);
    shims_[1] = std::make_unique<Shim>(dir_, children_[1].pid(), prepare, commit, first);
  }
  RecoveryOutcome Run() {
    const RecoveryRun run(options_);
    while (!run.over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return outcome_;
  }
  void ExpectRefused(const RecoveryOutcome& outcome, const char* condition, int rank) {
    EXPECT_EQ(outcome.how, RecoveryOutcome::How::kRefused);
    EXPECT_EQ(outcome.condition, condition) << outcome.why;
    EXPECT_EQ(outcome.rank, rank) << outcome.why;
    EXPECT_FALSE(begun_);
    for (const auto& shim : shims_) {
      if (shim == nullptr) continue;
      EXPECT_EQ(shim->committed, 0);
      // The order to cancel is written, and read a moment later.
      for (int i = 0; i < 1000 && shim->prepared > shim->cancelled; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_GE(shim->cancelled, shim->prepared);
    }
  }

  std::string dir_;
  Child children_[2];
  std::unique_ptr<Shim> shims_[2];
  RecoveryRun::Options options_;
  bool begun_ = false;
  RecoveryOutcome outcome_;
};

TEST_F(RecoveryTest, AllGoOn) {
  Shims(RecoveryReply::kReady, RecoveryReply::kDone);
  const RecoveryOutcome outcome = Run();
  EXPECT_EQ(outcome.how, RecoveryOutcome::How::kRecovered) << outcome.why;
  EXPECT_TRUE(begun_);
  for (const auto& shim : shims_) {
    EXPECT_EQ(shim->units, 1u);
    EXPECT_EQ(shim->committed, 1);
    EXPECT_EQ(shim->cancelled, 0);
  }
}

// A member that has called nothing leaves NCCL's communicator with the others.
TEST_F(RecoveryTest, OneHasNoUnits) {
  options_.units.pop_back();
  Shims(RecoveryReply::kReady, RecoveryReply::kDone);
  const RecoveryOutcome outcome = Run();
  EXPECT_EQ(outcome.how, RecoveryOutcome::How::kRecovered) << outcome.why;
  EXPECT_EQ(shims_[1]->units, 0u);
  EXPECT_EQ(shims_[1]->comms, 1u);
  EXPECT_EQ(shims_[1]->committed, 1);
}

TEST_F(RecoveryTest, OneRefusesAndNoneGoesOn) {
  Shims(RecoveryReply::kInPlace, RecoveryReply::kDone);
  ExpectRefused(Run(), "R3", 1);
}

TEST_F(RecoveryTest, OneHasNoCopyOfAnInput) {
  Shims(RecoveryReply::kInPlace, RecoveryReply::kDone);
  const RecoveryOutcome outcome = Run();
  ExpectRefused(outcome, "R3", 1);
  EXPECT_EQ(outcome.unit, 1u);
  EXPECT_NE(outcome.why.find("input of AllReduce #1 on dp, "), std::string::npos) << outcome.why;
  EXPECT_NE(outcome.why.find("lacked 4096 bytes"), std::string::npos) << outcome.why;
}

TEST_F(RecoveryTest, OneIsNotArmed) {
  shims_[0] =
      std::make_unique<Shim>(dir_, children_[0].pid(), RecoveryReply::kReady, RecoveryReply::kDone);
  ExpectRefused(Run(), "R5", 1);
}

TEST_F(RecoveryTest, OneDoesNotAnswer) {
  Shims(RecoveryReply::kNone, RecoveryReply::kDone);
  ExpectRefused(Run(), "R5", 1);
}

TEST_F(RecoveryTest, OneHasFinishedWhatTheOtherHasNot) {
  Shims(RecoveryReply::kReady, RecoveryReply::kDone, 2);
  ExpectRefused(Run(), "R3", options_.units[0].pid < options_.units[1].pid ? 1 : 0);
}

TEST_F(RecoveryTest, OneEndsBeforeItAnswers) {
  Shims(RecoveryReply::kNone, RecoveryReply::kDone);
  children_[1].Kill();
  ExpectRefused(Run(), "R5", 1);
}

TEST_F(RecoveryTest, OneFailsInTheMiddle) {
  Shims(RecoveryReply::kReady, RecoveryReply::kFailed);
  const RecoveryOutcome outcome = Run();
  EXPECT_EQ(outcome.how, RecoveryOutcome::How::kFailed);
  EXPECT_EQ(outcome.condition, "failed");
  EXPECT_EQ(outcome.rank, 1);
  EXPECT_TRUE(begun_);
}

// Its peer fails as well, and is heard first.
TEST_F(RecoveryTest, OneAbortsInTheMiddle) {
  Shims(RecoveryReply::kReady, RecoveryReply::kAborted, 1, RecoveryReply::kFailed);
  const RecoveryOutcome outcome = Run();
  EXPECT_EQ(outcome.how, RecoveryOutcome::How::kFailed);
  EXPECT_EQ(outcome.rank, 1);
  EXPECT_NE(outcome.why.find("the program of rank 1 has aborted a communicator"), std::string::npos)
      << outcome.why;
}

TEST_F(RecoveryTest, OneStaysBehindInTheMiddle) {
  Shims(RecoveryReply::kReady, RecoveryReply::kNone);
  const RecoveryOutcome outcome = Run();
  EXPECT_EQ(outcome.how, RecoveryOutcome::How::kFailed);
  EXPECT_EQ(outcome.rank, 1);
  EXPECT_NE(outcome.why.find("0 of 2 operations were executed"), std::string::npos) << outcome.why;
}

}  // namespace
}  // namespace gordian::collector
