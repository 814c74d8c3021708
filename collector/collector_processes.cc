// The part of Collector that finds and adopts processes, sees them end, and keeps their ring files.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collector/collector_impl.h"
#include "collector/rings/ring_file.h"
#include "common/ids.h"
#include "common/utf8.h"

namespace gordian::collector {
namespace {

// How soon the collector retries a ring file whose header makes no sense yet.
constexpr uint64_t kRetryUnreadyNs = 20 * kNsPerMs;
// A process that shows no environment for longer is not in an exec.
constexpr uint64_t kMostExecNs = 5000 * kNsPerMs;

// When a process started, in CLOCK_MONOTONIC; early rather than late by the clock's tick.
uint64_t StartMonoNs(const ProcessIdentity& identity) {
  const auto ticks_per_second = static_cast<uint64_t>(std::max(1l, sysconf(_SC_CLK_TCK)));
  const uint64_t tick_ns = kNsPerSecond / ticks_per_second;
  const unsigned __int128 wide = static_cast<unsigned __int128>(identity.start) * tick_ns;
  const uint64_t boot_ns = wide > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(wide);
  const uint64_t asleep_ns = ClockNs(CLOCK_BOOTTIME) - MonoNs();
  const uint64_t early = asleep_ns + 3 * tick_ns;
  return boot_ns > early ? boot_ns - early : 0;
}

v1::ExitKind KindOf(ExitStatus::How how) {
  switch (how) {
    case ExitStatus::How::kCode:
      return v1::EXIT_KIND_CODE;
    case ExitStatus::How::kSignal:
      return v1::EXIT_KIND_SIGNAL;
    case ExitStatus::How::kUnknown:
      break;
  }
  return v1::EXIT_KIND_UNKNOWN;
}

}  // namespace

void Collector::Impl::FindProcesses() {
  std::vector<std::string> names = dir_->Poll();
  for (const std::string& name : names) {
    TryAdopt(name);
  }
  const uint64_t now = MonoNs();
  std::vector<std::string> again;
  for (const auto& [name, unready] : unready_) {
    if (!unready.given_up && unready.next_ns <= now) {
      again.push_back(name);
    }
  }
  for (const std::string& name : again) {
    TryAdopt(name);
  }
  // Without pidfds (old kernels) the collector must look for itself.
  for (auto& [number, followed] : processes_) {
    if (followed.process->watch().pidfd() < 0 && !followed.ended_ns &&
        followed.process->watch().Ended()) {
      followed.ended_ns = now;
    }
  }
}

void Collector::Impl::TryAdopt(const std::string& name) {
  const std::optional<RingName> parsed = ParseRingName(name);
  if (!parsed || by_ring_name_.contains(name) || done_names_.contains(name)) {
    return;
  }
  if (const auto found = unready_.find(name); found != unready_.end() && found->second.given_up) {
    return;
  }
  StatusOr<std::unique_ptr<RingFile>> ring = RingFile::Open(options_.ring_dir + "/" + name);
  Status status = ring.status();
  // A ring file must belong to the process in its name: pid and start time.
  if (ring.ok() && ((*ring)->header().pid != static_cast<uint32_t>(parsed->identity.pid) ||
                    (*ring)->header().process_start != parsed->identity.start)) {
    status = Status::DataLoss(name + " belongs to another process than its name says");
  }
  if (status.ok()) {
    unready_.erase(name);
    ++adopted_;
    keeper_->Link(name);
    Follow(std::make_unique<TrackedProcess>(ProcessNumber(next_number_++), name, *parsed,
                                            std::move(ring).value(), "", &build_ids_));
    return;
  }
  const uint64_t now = MonoNs();
  Unready& unready =
      unready_.try_emplace(name, Unready{.first_ns = now, .next_ns = 0}).first->second;
  unready.next_ns = now + kRetryUnreadyNs;
  if (now - unready.first_ns < options_.unready_ns && status.code() == StatusCode::kDataLoss) {
    return;
  }
  // If that process lives, it is a member of the job that the collector cannot look into; every
  // round reports that.
  auto process =
      std::make_unique<TrackedProcess>(ProcessNumber(next_number_), name, *parsed, nullptr,
                                       CleanUtf8(status.message()), &build_ids_);
  if (status.code() == StatusCode::kNotFound && process->watch().Ended()) {
    // Both a scan and inotify named it, and it has been kept in between: nothing is missing.
    unready_.erase(name);
    return;
  }
  unready.given_up = true;
  ++refused_;
  spdlog::warn("ring file refused: {}", status.ToString());
  if (!process->watch().Ended()) {
    ++next_number_;
    Follow(std::move(process));
  }
}

void Collector::Impl::Follow(std::unique_ptr<TrackedProcess> process) {
  const ProcessIdentity identity = process->name().identity;
  // When a process replaces itself by exec, each image but the last counts as ended by a return.
  // Its files may turn up in any order.
  const auto end_as_returned = [](Followed* image) {
    image->ended_ns = image->ended_ns.value_or(MonoNs());
    image->status = ExitStatus{ExitStatus::How::kCode, 0};
  };
  Followed followed;
  for (auto& [number, other] : processes_) {
    if (other.process->name().identity == identity) {
      end_as_returned(other.process->name().image < process->name().image ? &other : &followed);
    }
  }
  const uint32_t number = process->number().number();
  spdlog::info("process {}: pid {} ({})", number, identity.pid, process->ring_name());
  process->Announce(sink_);
  if (process->watch().Ended()) {
    followed.ended_ns = followed.ended_ns.value_or(MonoNs());
  } else if (process->watch().pidfd() >= 0) {
    // One shot: the descriptor stays readable while the collector waits for the exit status.
    epoll_event event{.events = EPOLLIN | EPOLLONESHOT, .data = {.u64 = kFirstProcessKey + number}};
    epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, process->watch().pidfd(), &event);
  }
  by_ring_name_[process->ring_name()] = number;
  followed.process = std::move(process);
  processes_.emplace(number, std::move(followed));
  PublishStats();
}

void Collector::Impl::NoteEnded() {
  for (auto& [number, followed] : processes_) {
    if (!followed.ended_ns && followed.process->watch().Ended()) {
      followed.ended_ns = MonoNs();
    }
  }
}

bool Collector::Impl::AnyEnded() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& entry) { return entry.second.ended_ns.has_value(); });
}

bool Collector::Impl::HeirsLive(Followed* ended) {
  TrackedProcess& process = *ended->process;
  const auto gone = [&](const ProcessIdentity& heir) {
    const std::optional<TaskStat> stat = ReadProcessStat(heir.pid);
    // Once it has a ring the analyzer knows it by itself.
    return !stat || stat->start != heir.start || !stat->alive() ||
           std::any_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
             return entry.second.process->name().identity == heir;
           });
  };
  std::erase_if(ended->heirs, gone);
  // The last of them may have left the rank to yet another.
  bool undecided = false;
  if (ended->heirs.empty() && !ended->heirs_sought) {
    RankName name = process.rank_name();
    name.ring_dir = options_.ring_dir;
    const SameRank same = FindByRankName(name);
    for (const pid_t pid : same.pids) {
      const std::optional<TaskStat> stat = ReadProcessStat(pid);
      if (stat) ended->heirs.push_back({.pid = pid, .start = stat->start});
    }
    std::erase_if(ended->heirs, gone);
    if (ended->heirs.empty() && MonoNs() - *ended->ended_ns < kMostExecNs) {
      undecided = std::any_of(same.bare.begin(), same.bare.end(), [&](pid_t pid) {
        const std::optional<TaskStat> stat = ReadProcessStat(pid);
        return stat && stat->alive() && stat->start >= process.name().identity.start;
      });
    }
    ended->heirs_sought = ended->heirs.empty() && !undecided;
  }
  process.SetInherited(undecided || !ended->heirs.empty());
  return undecided || !ended->heirs.empty();
}

void Collector::Impl::FinishEnded(bool no_grace) {
  for (auto it = processes_.begin(); it != processes_.end();) {
    Followed& followed = it->second;
    TrackedProcess& process = *followed.process;
    if (!followed.ended_ns) {
      ++it;
      continue;
    }
    const ProcessIdentity& identity = process.name().identity;
    if (!followed.status) {
      followed.status = process.watch().KernelExitStatus();
      const std::optional<int> note = exits_.Take(identity.pid, StartMonoNs(identity));
      if (!followed.status && note) {
        followed.status = FromWaitStatus(*note);
      }
    }
    const bool killed = KilledByUs(identity);
    if (killed && !followed.status) followed.status = {ExitStatus::How::kSignal, SIGKILL};
    // A parent, or a step of a wrapper, that has ended well may have left its rank to another
    // process, which has not called NCCL yet.
    const bool well = !followed.status || (followed.status->how == ExitStatus::How::kCode &&
                                           followed.status->value == 0);
    if (well && !no_grace && !job_ending_ && HeirsLive(&followed)) {
      ++it;
      continue;
    }
    if (!followed.status && !no_grace &&
        MonoNs() - *followed.ended_ns < options_.exit_status_grace_ns) {
      ++it;
      continue;
    }
    // The dead process writes no more, so one dry drain gets everything.
    DrainDry(&process);
    const ExitStatus status = followed.status.value_or(ExitStatus{});
    // A process that ended by itself just before the kill keeps its own exit code.
    const v1::ExitKind kind = killed && status.how == ExitStatus::How::kSignal
                                  ? v1::EXIT_KIND_GORDIAN
                                  : KindOf(status.how);
    v1::Event event;
    v1::ProcessEnded* const ended = event.mutable_process_ended();
    ended->set_process(it->first);
    ended->set_kind(kind);
    ended->set_exit_value(status.value);
    ended->set_time_ns(*followed.ended_ns);
    ended->set_lost_records(process.lost_records());
    if (const std::string why = process.WhyUnusable(); !why.empty()) ended->add_not_visible(why);
    ended->set_nccl_calls(process.nccl_calls());
    if (!process.ReadFinalBlock(ended->mutable_block())) {
      ended->clear_block();
    }
    Emit(std::move(event));
    spdlog::info("process {} ended: {} {}", it->first, v1::ExitKind_Name(kind), status.value);
    records_before_ += process.records();
    lost_before_ += process.lost_records();
    skipped_before_ += process.skipped_kernels();
    bad_before_ += process.bad_records();
    by_ring_name_.erase(process.ring_name());
    done_names_.insert(process.ring_name());
    to_salvage_.push_back(process.ring_name());
    it = processes_.erase(it);
  }
}

bool Collector::Impl::KilledByUs(const ProcessIdentity& process) {
  const std::lock_guard lock(mutex_);
  return std::find(killed_.begin(), killed_.end(), process) != killed_.end();
}

void Collector::Impl::SalvageSome(size_t files) {
  for (; files > 0 && !to_salvage_.empty(); --files) {
    const std::string name = std::move(to_salvage_.front());
    to_salvage_.pop_front();
    unready_.erase(name);
    if (const Status status = keeper_->Keep(name); !status.ok()) {
      spdlog::warn("{}", status.ToString());
    }
    if (access((options_.ring_dir + "/" + name).c_str(), F_OK) != 0) {
      done_names_.erase(name);
    }
  }
}

}  // namespace gordian::collector
