#include "collector/collector.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>
#include <vector>

#include "collector/collector_impl.h"
#include "common/source_excerpt.h"
#include "common/utf8.h"
#include "common/version.h"
#include "proto/ring/calls.h"
#include "proto/ring/layout.h"

namespace gordian::collector {
namespace {

// A pass drains at most so many records of one process, so that every process gets its turn.
constexpr uint64_t kDrainAtOnce = 16384;
// More passes than a whole ring file needs. The bound stops a process that writes faster than the
// collector reads.
constexpr int kMostTurns = 64;
static_assert(kMostTurns * kDrainAtOnce > 4 * ring::kMaxFileBytes / sizeof(ring::Record));
// A batch is sent at this size: well below gRPC's limit of 4 MiB a message.
constexpr uint64_t kBatchBytes = 256u << 10;
// Pauses between passes: none while rings fill fast, short while records flow, longer when idle.
constexpr uint64_t kBusyRecords = 2048;
constexpr uint64_t kBusySleepNs = 1 * kNsPerMs;
constexpr uint64_t kIdleSleepNs = 10 * kNsPerMs;
constexpr uint64_t kStatsEveryNs = 20 * kNsPerMs;
// The pause while waiting for the watchers' answers.
constexpr uint64_t kAnswerPollNs = 50 * kNsPerUs;
constexpr uint64_t kAnswerPollMaxNs = 500 * kNsPerUs;
constexpr uint64_t kAskWhyAfterNs = 5 * kNsPerMs;

void SleepNs(uint64_t ns) {
  timespec time{.tv_sec = static_cast<time_t>(ns / kNsPerSecond),
                .tv_nsec = static_cast<long>(ns % kNsPerSecond)};
  nanosleep(&time, nullptr);
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? std::string(name) : std::string("?");
}

}  // namespace

Status Collector::Impl::Start() {
  if (started_) {
    return Status::Internal("the collector is already started");
  }
  if (options_.channel == nullptr && !options_.fleet) {
    return Status::InvalidArgument("the collector needs a channel to an analyzer");
  }
  StatusOr<std::unique_ptr<RingDirWatch>> dir = RingDirWatch::Open(options_.ring_dir);
  GORDIAN_RETURN_IF_ERROR(dir.status());
  dir_ = std::move(dir).value();
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (wake_fd_ < 0 || epoll_fd_ < 0) {
    return Status::FromErrno(errno, "cannot start the collector");
  }
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kWakeKey}};
  epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &event);
  if (dir_->fd() >= 0) {
    event.data.u64 = kDirKey;
    epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, dir_->fd(), &event);
  }
  StatusOr<OwnedFolder> rings = OwnedFolder::Open(options_.ring_dir);
  GORDIAN_RETURN_IF_ERROR(rings.status());
  rings_ = std::move(rings).value();
  std::shared_ptr<const OwnedFolder> session = options_.session_folder;
  if (session == nullptr && !options_.session_dir.empty()) {
    if (StatusOr<OwnedFolder> held = OwnedFolder::Adopt(options_.session_dir); held.ok()) {
      session = std::make_shared<const OwnedFolder>(std::move(held).value());
    } else {
      spdlog::warn("ring files will not be kept: {}", held.status().message());
    }
  }
  keeper_ = std::make_unique<RingKeeper>(&*rings_, session.get());

  v1::Hello hello;
  hello.set_protocol(kIngestProtocol);
  hello.set_gordian_version(kVersion);
  hello.set_host(CleanUtf8(options_.host.empty() ? HostName() : options_.host));
  const ClockPair now = ReadClockPair();
  hello.set_now_mono_ns(now.mono_ns);
  hello.set_now_real_ns(now.real_ns);
  std::string name = options_.session;
  if (name.empty()) {
    name = options_.session_dir.substr(options_.session_dir.rfind('/') + 1);
  }
  hello.set_session(CleanUtf8(std::move(name)));
  hello.set_command_line(CleanUtf8(options_.command_line));
  for (const std::string& variable : options_.environment) {
    hello.add_environment(CleanUtf8(variable));
  }
  MakeLink(std::move(hello));
  uplink_->Start();
  started_ = true;
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "gordian-collect");
    Run();
  });
  return Status::Ok();
}

void Collector::Impl::MakeLink(v1::Hello hello) {
  const auto on_round = [this](uint64_t round) {
    {
      const std::lock_guard lock(mutex_);
      round_wanted_ = round;  // gives up waiting for an older, unanswered one
    }
    Wake();
  };
  const auto on_stacks = [this](const v1::StacksRequest& request) {
    {
      const std::lock_guard lock(mutex_);
      if (request.request() <= stacks_asked_) {
        return;  // the analyzer repeats it after a cut
      }
      stacks_asked_ = request.request();
      stacks_wanted_ = request;
    }
    Wake();
  };
  if (!options_.fleet) {
    Uplink::Options uplink;
    uplink.channel = options_.channel;
    uplink.max_queued_bytes = options_.uplink_bytes;
    uplink.hello = std::move(hello);
    uplink.on_round = on_round;
    uplink.on_stacks = on_stacks;
    uplink.on_failed = [this] { Wake(); };
    uplink_ = std::make_unique<Uplink>(std::move(uplink));
    return;
  }
  const FleetOptions& fleet = *options_.fleet;
  hello.set_job(CleanUtf8(fleet.job));
  hello.set_node(fleet.node.empty() ? hello.host() : CleanUtf8(fleet.node));
  hello.set_nodes_expected(fleet.nodes_expected);
  hello.set_node_rank(fleet.node_rank);
  FleetLink::Options link;
  link.target = fleet.target;
  link.access = fleet.access;
  link.hello = std::move(hello);
  link.spool_dir = fleet.spool_dir;
  link.spool_bytes = fleet.spool_bytes;
  link.memory_bytes = options_.uplink_bytes;
  link.on_round = on_round;
  link.on_stacks = on_stacks;
  link.on_unfinished = fleet.on_unfinished;
  link.on_verdict = fleet.on_verdict;
  link.on_notice = fleet.on_notice;
  auto made = std::make_unique<FleetLink>(std::move(link));
  fleet_ = made.get();
  uplink_ = std::move(made);
}

void Collector::Impl::JobEnded(v1::ExitKind kind, int value, bool killed) {
  if (!started_ || stopped_) {
    return;
  }
  std::unique_lock lock(mutex_);
  job_end_ = JobEnd{kind, value, killed};
  Wake();
  job_end_sent_.wait_for(lock, std::chrono::nanoseconds(options_.stop_ns),
                         [this] { return job_end_done_; });
}

Status Collector::Impl::Stop() {
  if (!started_ || stopped_) {
    return uplink_ != nullptr ? uplink_->status() : Status::Ok();
  }
  stopped_ = true;
  stop_ = true;
  Wake();
  if (thread_.joinable()) {  // Start may have failed to make it
    thread_.join();
  }
  const Status status =
      uplink_->Finish(options_.fleet ? options_.fleet->deliver_ns : options_.stop_ns);
  if (!status.ok()) {
    spdlog::warn("{}", status.ToString());
  }
  PublishStats();
  return status;
}

Collector::Stats Collector::Impl::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Collector::Impl::Run() {
  for (uint32_t call = ring::kCallNone + 1; call < ring::kEveryCallCount; ++call) {
    v1::Event event;
    event.mutable_call_name()->set_call(call);
    event.mutable_call_name()->set_symbol(ring::RowOf(static_cast<uint16_t>(call)).name);
    Emit(std::move(event));
  }
  Flush();
  uint64_t sleep_ns = kBusySleepNs;
  while (!stop_) {
    Wait(sleep_ns);
    FindProcesses();
    const uint64_t drained = DrainAll(/*even_if_full=*/false);
    FinishEnded(/*no_grace=*/false);
    std::optional<uint64_t> round;
    std::optional<JobEnd> job_end;
    std::optional<v1::StacksRequest> stacks;
    {
      const std::lock_guard lock(mutex_);
      round = std::exchange(round_wanted_, std::nullopt);
      stacks = std::exchange(stacks_wanted_, std::nullopt);
      job_end = job_end_done_ ? std::nullopt : job_end_;
    }
    if (round) {
      AnswerRound(*round);
    }
    if (stacks) {
      AskForStacks(*stacks);
    }
    TellStacks();
    if (job_end) {
      job_ending_ = true;
      NoteEnded();
      FinishEnded(/*no_grace=*/false);
      if (!AnyEnded()) {
        v1::Event event;
        v1::JobEnded* const ended = event.mutable_job_ended();
        ended->set_kind(job_end->kind);
        ended->set_exit_value(job_end->value);
        ended->set_time_ns(MonoNs());
        ended->set_killed_by_gordian(job_end->killed);
        DrainAll(/*even_if_full=*/true);
        Emit(std::move(event));
        Flush();
        const std::lock_guard lock(mutex_);
        job_end_done_ = true;
        job_end_sent_.notify_all();
      }
    }
    if (MonoNs() - flushed_ns_ >= uplink_->GatherNs()) {
      Flush();
    }
    if (!round) {
      SalvageSome(1);
    }
    if (MonoNs() - stats_published_ns_ >= kStatsEveryNs) {
      PublishStats();
    }
    sleep_ns = drained >= kBusyRecords ? 0
               : drained > 0 || job_end || !to_salvage_.empty()
                   ? kBusySleepNs
                   : std::clamp(sleep_ns * 2, kBusySleepNs, kIdleSleepNs);
  }
  EndAll();
}

void Collector::Impl::Wait(uint64_t ns) {
  {
    const std::lock_guard lock(mutex_);
    if (round_wanted_) {
      return;
    }
  }
  epoll_event events[64];
  const int n = epoll_wait(epoll_fd_, events, std::size(events),
                           static_cast<int>((ns + kNsPerMs - 1) / kNsPerMs));
  for (int i = 0; i < n; ++i) {
    const uint64_t key = events[i].data.u64;
    if (key == kWakeKey) {
      uint64_t ignored;
      while (read(wake_fd_, &ignored, sizeof(ignored)) > 0) {
      }
    } else if (key >= kFirstProcessKey) {
      const auto found = processes_.find(static_cast<uint32_t>(key - kFirstProcessKey));
      if (found != processes_.end() && !found->second.ended_ns &&
          found->second.process->watch().Ended()) {
        found->second.ended_ns = MonoNs();
      }
    }
  }
}

uint64_t Collector::Impl::DrainAll(bool even_if_full) {
  // Without an analyzer the records stay in the rings, for the session's copy.
  if (uplink_->failed()) {
    return 0;
  }
  uint64_t drained = 0;
  for (auto& [number, followed] : processes_) {
    if (!even_if_full && uplink_->Full()) {
      break;
    }
    drained += followed.process->Drain(kDrainAtOnce, sink_);
  }
  return drained;
}

void Collector::Impl::DrainDry(TrackedProcess* process) {
  for (int turns = 0;
       turns < kMostTurns && !uplink_->failed() && process->Drain(kDrainAtOnce, sink_) > 0;
       ++turns) {
  }
}

void Collector::Impl::AwaitWatchers() {
  std::vector<TrackedProcess*> waiting;
  for (auto& [number, followed] : processes_) {
    if (!followed.ended_ns && followed.process->AskWatcher()) {
      waiting.push_back(followed.process.get());
    }
  }
  const uint64_t begin = MonoNs();
  uint64_t pause = kAnswerPollNs;
  bool asked_why = false;
  for (;;) {
    std::erase_if(waiting, [](TrackedProcess* process) { return process->WatcherAnswered(); });
    const uint64_t waited = MonoNs() - begin;
    if (waiting.empty() || waited >= options_.round_answer_ns) {
      return;
    }
    if (waited >= kAskWhyAfterNs && !asked_why) {
      asked_why = true;
      std::erase_if(waiting, [](TrackedProcess* process) {
        return process->watch().Ended() || process->WatcherCannotAnswer();
      });
      continue;
    }
    SleepNs(pause);
    pause = std::min(pause * 2, kAnswerPollMaxNs);
    DrainAll(/*even_if_full=*/false);  // keeps the rings from filling up meanwhile
  }
}

void Collector::Impl::AnswerRound(uint64_t number) {
  const uint64_t begin = MonoNs();
  NoteEnded();
  FinishEnded(/*no_grace=*/false);
  v1::Event event;
  v1::Round* const round = event.mutable_round();
  round->set_round(number);
  round->set_begin_ns(begin);
  AwaitWatchers();
  {
    // Under the lock no thread looks stopped because the stack taker holds it.
    const std::lock_guard lock(taker_.while_held());
    for (auto& [process_number, followed] : processes_) {
      followed.process->ReadState(round->add_processes());
    }
  }
  // Sends every record published before the states were read ahead of the round. Bounded: those
  // records fit in the rings, and a slot that cannot be drained does not count.
  int at = 0;
  for (auto& [process_number, followed] : processes_) {
    v1::ProcessState* const state = round->mutable_processes(at++);
    for (int turns = 0;
         turns < kMostTurns && !uplink_->failed() && !followed.process->CaughtUp(*state) &&
         followed.process->Drain(kDrainAtOnce, sink_) > 0;
         ++turns) {
    }
    followed.process->FillCollected(state);
  }
  Flush();
  round->set_end_ns(MonoNs());
  Emit(std::move(event));
  Flush();
  ++rounds_;
  last_round_ns_ = MonoNs() - begin;
}

void Collector::Impl::AskForStacks(const v1::StacksRequest& request) {
  std::vector<StackTarget> targets;
  std::map<uint32_t, std::vector<SiteToPlace>> sites;
  size_t more = kMostExcerpts;  // the analyzer asks for no more
  for (const v1::AskedSite& asked : request.sites()) {
    const auto found = processes_.find(asked.process());
    if (found != processes_.end() && more > 0) {
      --more;
      sites[asked.process()].push_back(
          {.site = asked.site(), .text = found->second.process->TextOfSite(asked.site())});
    }
  }
  for (auto& [number, followed] : processes_) {
    const auto& every = request.every_thread_of();
    if (!followed.ended_ns) {
      targets.push_back({.process = number,
                         .identity = followed.process->name().identity,
                         .threads = followed.process->StuckThreads(
                             std::find(every.begin(), every.end(), number) != every.end()),
                         .sites = std::move(sites[number])});
    }
  }
  spdlog::info("stacks: request {}, {} processes", request.request(), targets.size());
  taker_.Ask(request.request(), std::move(targets));
}

void Collector::Impl::TellStacks() {
  uint64_t done = 0;
  std::vector<v1::Event> events = taker_.Results();
  for (v1::Event& event : events) {
    if (event.has_stacks_done()) {
      done = event.stacks_done().request();
    }
    Emit(std::move(event));
  }
  if (!events.empty()) {
    Flush();
  }
  if (done > stacks_done_) {
    stacks_done_ = done;
  }
}

void Collector::Impl::EndAll() {
  taker_.Finish();
  TellStacks();
  FindProcesses();
  NoteEnded();
  FinishEnded(/*no_grace=*/true);
  DrainAll(/*even_if_full=*/true);
  Flush();
  for (const auto& [number, followed] : processes_) {
    TrackedProcess& process = *followed.process;
    spdlog::warn("process {} (pid {}) outlives the collector", number, process.name().identity.pid);
    records_before_ += process.records();
    lost_before_ += process.lost_records();
    skipped_before_ += process.skipped_kernels();
    bad_before_ += process.bad_records();
    to_salvage_.push_back(process.ring_name());
  }
  processes_.clear();
  for (const auto& [name, unready] : unready_) {
    if (std::find(to_salvage_.begin(), to_salvage_.end(), name) == to_salvage_.end()) {
      to_salvage_.push_back(name);
    }
  }
  SalvageSome(to_salvage_.size());
  const std::lock_guard lock(mutex_);
  job_end_done_ = true;
  job_end_sent_.notify_all();
}

void Collector::Impl::Emit(v1::Event&& event) {
  batch_bytes_ += event.ByteSizeLong() + 4;
  *batch_.add_events() = std::move(event);
  if (batch_bytes_ >= kBatchBytes) {
    Flush();
  }
}

void Collector::Impl::Flush() {
  flushed_ns_ = MonoNs();
  if (batch_.events_size() == 0) {
    return;
  }
  uplink_->Send(std::move(batch_));
  batch_ = v1::EventBatch();
  batch_bytes_ = 0;
}

void Collector::Impl::PublishStats() {
  stats_published_ns_ = MonoNs();
  Stats now;
  now.processes = adopted_;
  now.refused_files = refused_;
  now.records = records_before_;
  now.lost_records = lost_before_;
  now.skipped_kernels = skipped_before_;
  now.bad_records = bad_before_;
  for (const auto& [number, followed] : processes_) {
    now.records += followed.process->records();
    now.lost_records += followed.process->lost_records();
    now.skipped_kernels += followed.process->skipped_kernels();
    now.bad_records += followed.process->bad_records();
  }
  now.rounds = rounds_;
  now.last_round_ns = last_round_ns_;
  now.batches = uplink_->batches();
  now.uplink_failed = uplink_->failed();
  now.uplink_error = uplink_->status().message();
  if (fleet_ != nullptr) {
    const FleetLink::Stats link = fleet_->stats();
    now.acked_batches = link.acked;
    now.connections = link.connections;
  }
  const std::lock_guard lock(mutex_);
  stats_ = std::move(now);
}

Collector::Collector(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Collector::~Collector() = default;
Status Collector::Start() { return impl_->Start(); }
void Collector::NoteExit(pid_t pid, int wait_status) { impl_->NoteExit(pid, wait_status); }
void Collector::NoteKill(pid_t pid, uint64_t start) { impl_->NoteKill({pid, start}); }
void Collector::JobEnded(v1::ExitKind kind, int value, bool killed_by_gordian) {
  impl_->JobEnded(kind, value, killed_by_gordian);
}
Status Collector::Stop() { return impl_->Stop(); }
Collector::Stats Collector::stats() const { return impl_->stats(); }
bool Collector::TakingStacks() const { return impl_->TakingStacks(); }

}  // namespace gordian::collector
