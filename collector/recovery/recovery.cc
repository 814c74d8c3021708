#include "collector/recovery/recovery.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "common/clock.h"
#include "proto/ring/recovery.h"

namespace gordian::collector {
namespace {

using ring::RecoveryReply;

constexpr auto kPoll = std::chrono::microseconds(500);

// One process's file. Reads and writes it by system calls: another process may cut it at any moment.
class Rank {
 public:
  Rank(uint32_t pid, int rank) : pid_(pid), rank_(rank) {}
  ~Rank() {
    if (mapped_ != MAP_FAILED) munmap(mapped_, sizeof(ring::RecoveryFile));
    if (fd_ >= 0) close(fd_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  bool Open(const std::string& session_dir) {
    const std::string path = session_dir + "/" + ring::kRecoveryFile + std::to_string(pid_);
    fd_ = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    ring::RecoveryFile file;
    if (fd_ < 0 || fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
        !Read(&file, sizeof file, 0) || file.magic != ring::kRecoveryMagic || file.pid != pid_) {
      return false;
    }
    request_ = file.request;
    // For the futex alone.
    mapped_ = mmap(nullptr, sizeof file, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    return mapped_ != MAP_FAILED;
  }

  bool Order(ring::RecoveryOrder order) {
    const uint32_t count = static_cast<uint32_t>(units.size());
    const uint32_t comm_count = static_cast<uint32_t>(comms.size());
    if (order == ring::RecoveryOrder::kPrepare &&
        (!Write(&count, sizeof count, offsetof(ring::RecoveryFile, unit_count)) ||
         !Write(&comm_count, sizeof comm_count, offsetof(ring::RecoveryFile, comm_count)) ||
         !Write(comms.data(), comms.size() * sizeof comms[0], offsetof(ring::RecoveryFile, comm)) ||
         !Write(units.data(), units.size() * sizeof units[0],
                offsetof(ring::RecoveryFile, unit)))) {
      return false;
    }
    ++request_;
    if (!Write(&order, sizeof order, offsetof(ring::RecoveryFile, order)) ||
        !Write(&request_, sizeof request_, offsetof(ring::RecoveryFile, request))) {
      return false;
    }
    char* const word = static_cast<char*>(mapped_) + offsetof(ring::RecoveryFile, request);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    return true;
  }

  // The file, if the latest order is answered.
  bool Answered(ring::RecoveryFile* file) const {
    return Read(file, sizeof *file, 0) && file->answer == request_;
  }
  uint32_t Executed() const {
    uint32_t executed = 0;
    Read(&executed, sizeof executed, offsetof(ring::RecoveryFile, executed));
    return executed;
  }
  bool Lives() const { return kill(static_cast<pid_t>(pid_), 0) == 0; }
  int rank() const { return rank_; }

  std::vector<ring::RecoveryUnit> units;
  std::vector<size_t> orders;  // of the units: places in Options::units
  std::vector<uint32_t> comms;
  std::vector<int> communicators;  // of `comms`

 private:
  bool Read(void* into, size_t bytes, off_t offset) const {
    return pread(fd_, into, bytes, offset) == static_cast<ssize_t>(bytes);
  }
  bool Write(const void* from, size_t bytes, off_t offset) const {
    return pwrite(fd_, from, bytes, offset) == static_cast<ssize_t>(bytes);
  }

  const uint32_t pid_;
  const int rank_;
  int fd_ = -1;
  void* mapped_ = MAP_FAILED;
  uint32_t request_ = 0;
};

RecoveryOutcome Refused(const char* condition, std::string why, int rank) {
  return {RecoveryOutcome::How::kRefused, condition, std::move(why), rank, 0};
}

std::string Who(const Rank& rank) { return "rank " + std::to_string(rank.rank()); }

RecoveryOutcome RefusedBy(const Rank& rank, const ring::RecoveryFile& file,
                          const std::vector<RecoveryUnitOrder>& units) {
  const std::string who = Who(rank);
  const bool named = file.place < rank.orders.size();
  const std::string operation =
      named ? units[rank.orders[file.place]].operation : "an operation that was called later";
  const auto refused = [&](const char* condition, const std::string& why) {
    RecoveryOutcome outcome = Refused(condition, why, rank.rank());
    if (named) outcome.unit = rank.orders[file.place];
    return outcome;
  };
  switch (static_cast<RecoveryReply>(file.reply)) {
    case RecoveryReply::kNotArmed:
      return refused("R4", who + " has operations without gates on such a communicator");
    case RecoveryReply::kMoved:
      return refused("R6", who + " does not hold the operations that its records name");
    case RecoveryReply::kInCall:
      return refused("R1", who + " is in a call on such a communicator and does not leave it");
    case RecoveryReply::kOverlaps:
      return refused("hard", who + " reads in " + operation + " what one in front of it writes");
    case RecoveryReply::kInPlace:
      return refused("R3", who + " has no copy of the input of " + operation +
                               ", which NCCL has perhaps written over: its pool lacked " +
                               std::to_string(file.missing) + " bytes (GORDIAN_RECOVERY_POOL_MB)");
    case RecoveryReply::kMemory:
      return refused("R4", who + " has no device memory for the outputs");
    case RecoveryReply::kRegistered:
      return refused("R4", who + " has registered memory with such a communicator");
    case RecoveryReply::kRoute:
      return refused("R4", "the runtime has a communicator of " + who + " already");
    case RecoveryReply::kOneEnded:
      return refused("R3",
                     who + " has called " + operation + ", which may be finished at one end alone");
    default:
      return refused("R6", who + " does not understand what it is asked");
  }
}

class Run {
 public:
  Run(const RecoveryRun::Options& options, const std::atomic<bool>& stop)
      : options_(options), stop_(stop) {}

  RecoveryOutcome Go() {
    const uint64_t begin = MonoNs();
    RecoveryOutcome outcome = Meet();
    if (!outcome.condition.empty()) return outcome;
    outcome = Prepare();
    if (!outcome.condition.empty()) {
      for (const auto& [pid, rank] : ranks_) rank->Order(ring::RecoveryOrder::kCancel);
      return outcome;
    }
    if (options_.on_begin) options_.on_begin();
    outcome = Commit();
    outcome.ms = static_cast<double>(MonoNs() - begin) * 1e-6;
    return outcome;
  }

 private:
  RecoveryOutcome Meet() {
    for (const RecoveryMemberOrder& member : options_.members) {
      std::unique_ptr<Rank>& rank = ranks_[member.pid];
      if (rank == nullptr) {
        rank = std::make_unique<Rank>(member.pid, member.rank);
        if (!rank->Open(options_.session_dir)) {
          return Refused("R5", Who(*rank) + " is not armed for recovery on this host", member.rank);
        }
      }
      if (rank->comms.size() == ring::kMaxRecoveryComms) {
        return Refused("R6", Who(*rank) + " has more such communicators than one order holds",
                       member.rank);
      }
      rank->comms.push_back(member.comm);
      rank->communicators.push_back(member.communicator);
    }
    for (const RecoveryUnitOrder& unit : options_.units) {
      const std::unique_ptr<Rank>& rank = ranks_.at(unit.pid);
      if (rank->units.size() == ring::kMaxRecoveryUnits) {
        return Refused("R6", Who(*rank) + " has more unfinished operations than one order holds",
                       unit.rank);
      }
      ring::RecoveryUnit& to = rank->units.emplace_back();
      to = {unit.comm, unit.stream, unit.sequence, unit.ordinal, 0, 0, {}};
      if (unit.early && unit.after.size() <= ring::kMaxRecoveryAfter) {
        to.early = 1;
        for (const uint32_t place : unit.after) to.after[to.after_count++] = place;
      }
      rank->orders.push_back(static_cast<size_t>(&unit - options_.units.data()));
    }
    return {};
  }

  RecoveryOutcome Prepare() {
    for (const auto& [pid, rank] : ranks_) {
      if (!rank->Order(ring::RecoveryOrder::kPrepare)) {
        return Refused("R5", "the file of " + Who(*rank) + " cannot be written", rank->rank());
      }
    }
    std::map<int, std::pair<uint64_t, int>> first;  // by communicator: number, whose
    const uint64_t deadline = MonoNs() + options_.prepare_ns;
    for (const auto& [pid, rank] : ranks_) {
      ring::RecoveryFile file;
      while (!rank->Answered(&file)) {
        if (stop_ || !rank->Lives()) {
          return Refused("R5", Who(*rank) + " has ended", rank->rank());
        }
        if (MonoNs() >= deadline) {
          return Refused("R5", Who(*rank) + " does not answer", rank->rank());
        }
        std::this_thread::sleep_for(kPoll);
      }
      if (static_cast<RecoveryReply>(file.reply) != RecoveryReply::kReady) {
        return RefusedBy(*rank, file, options_.units);
      }
      // What is done at one rank and not at another cannot be executed again.
      for (uint32_t i = 0; i < file.first_count && i < ring::kMaxRecoveryComms; ++i) {
        int communicator = -1;
        for (size_t c = 0; c < rank->comms.size(); ++c) {
          if (rank->comms[c] == file.first[i].comm) communicator = rank->communicators[c];
        }
        const auto [known, added] =
            first.try_emplace(communicator, file.first[i].sequence, rank->rank());
        if (!added && known->second.first != file.first[i].sequence) {
          return Refused("R3",
                         Who(*rank) + " and rank " + std::to_string(known->second.second) +
                             " have not finished the same operations",
                         rank->rank());
        }
      }
    }
    return {};
  }

  RecoveryOutcome Commit() {
    for (const auto& [pid, rank] : ranks_) rank->Order(ring::RecoveryOrder::kCommit);
    size_t units = 0;
    for (const auto& [pid, rank] : ranks_) units += rank->units.size();
    uint64_t moved_ns = MonoNs();
    uint64_t executed = 0;
    // A rank whose peer has aborted fails too, and may be heard first.
    std::optional<RecoveryOutcome> failure;
    uint64_t failed_ns = 0;
    for (;;) {
      const Rank* open = nullptr;
      uint64_t now_executed = 0;
      for (const auto& [pid, rank] : ranks_) {
        const bool lives = rank->Lives();  // before the rest is read: what it has done counts
        const uint64_t rank_executed = rank->Executed();
        now_executed += rank_executed;
        ring::RecoveryFile file;
        if (rank->Answered(&file)) {
          const auto reply = static_cast<RecoveryReply>(file.reply);
          if (reply == RecoveryReply::kAborted) {
            return Failed(
                "the program of " + Who(*rank) + " has aborted a communicator in the middle",
                rank->rank(), now_executed, units);
          }
          if (reply != RecoveryReply::kDone && !failure) {
            const std::string why =
                reply == RecoveryReply::kPeerLeft
                    ? "since another member has ended or aborted"
                    : "(result " + std::to_string(file.detail) + " of the runtime)";
            failure = Failed(Who(*rank) + " could not execute its operations " + why, rank->rank(),
                             now_executed, units);
            failed_ns = MonoNs();
          }
          continue;
        }
        if (!lives) {
          if (rank_executed == rank->units.size()) continue;  // the program went on, and ended
          return Failed(Who(*rank) + " has ended in the middle", rank->rank(), now_executed, units);
        }
        open = rank.get();
      }
      if (failure && (open == nullptr || stop_ || MonoNs() - failed_ns > options_.cause_ns)) {
        return *failure;
      }
      if (open == nullptr) return {RecoveryOutcome::How::kRecovered, "", "", -1, 0};
      if (now_executed != executed) moved_ns = MonoNs();
      executed = now_executed;
      if (stop_ || MonoNs() - moved_ns > options_.progress_ns) {
        return Failed(Who(*open) + " waits for operations that are not executed", open->rank(),
                      executed, units);
      }
      std::this_thread::sleep_for(kPoll);
    }
  }

  static RecoveryOutcome Failed(const std::string& why, int rank, uint64_t executed, size_t units) {
    return {RecoveryOutcome::How::kFailed, "failed",
            why + "; " + std::to_string(executed) + " of " + std::to_string(units) +
                " operations were executed, and what waits for the others stays stopped",
            rank, 0};
  }

  const RecoveryRun::Options& options_;
  const std::atomic<bool>& stop_;
  std::map<uint32_t, std::unique_ptr<Rank>> ranks_;
};

}  // namespace

RecoveryRun::RecoveryRun(Options options) : options_(std::move(options)) {
  thread_ = std::thread([this] {
    const RecoveryOutcome outcome = Run(options_, stop_).Go();
    if (options_.on_end) options_.on_end(outcome);
    over_ = true;
  });
}

RecoveryRun::~RecoveryRun() {
  stop_ = true;
  thread_.join();
}

}  // namespace gordian::collector
