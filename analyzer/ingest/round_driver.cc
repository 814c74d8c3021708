#include "analyzer/ingest/round_driver.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace gordian::analyzer {
namespace {

constexpr std::chrono::milliseconds kTick(100);  // how often the trace is flushed

// A second reading soon after the first is worth much, the tenth nothing.
constexpr uint32_t kMaxConfirmingInARow = 6;
// What each node adds to the pause between rounds, and to the time for which nodes gather records:
// a round and a batch cost this side a message of every node, whatever they hold. Rounds of a large
// job then take a part of the processors and not all, and its batches are about 2,000 a second.
constexpr std::chrono::microseconds kPauseForNode(500);
constexpr std::chrono::milliseconds kMostGathering(500);

// A job that hangs for hours need not be asked ten times a second.
constexpr uint64_t kQuietRounds = 100;

}  // namespace

RoundDriver::RoundDriver(Analysis* analysis, RoundPace pace, uint64_t first_round)
    : analysis_(analysis), pace_(pace), round_(first_round - 1), thread_([this] { Run(); }) {}

RoundDriver::~RoundDriver() { Stop(); }

void RoundDriver::Join(Node node, Asker request) {
  std::lock_guard lock(mutex_);
  nodes_[node] = std::move(request);
  driver_.notify_all();
}

void RoundDriver::Leave(Node node) {
  std::unique_lock lock(mutex_);
  nodes_.erase(node);
  ended_.wait(lock, [this] { return !requesting_; });
  if (open_ && owing_.erase(node) > 0 && owing_.empty()) EndRound(lock);
}

void RoundDriver::Answer(Node node, v1::Round&& round) {
  std::unique_lock lock(mutex_);
  if (!open_ || round.round() != round_ || owing_.erase(node) == 0) {
    ++ignored_;
    return;
  }
  merged_.set_begin_ns(merged_.begin_ns() == 0 ? round.begin_ns()
                                               : std::min(merged_.begin_ns(), round.begin_ns()));
  merged_.set_end_ns(std::max(merged_.end_ns(), round.end_ns()));
  for (v1::ProcessState& state : *round.mutable_processes()) {
    *merged_.add_processes() = std::move(state);
  }
  if (owing_.empty()) {
    EndRound(lock);
  } else {
    const uint64_t mine = round_;
    ended_.wait(lock, [&] { return stop_ || !open_ || round_ != mine; });
  }
}

void RoundDriver::Delivered(Node node) {
  std::lock_guard lock(mutex_);
  quiet_rounds_ = 0;
  if (const auto found = owing_.find(node); found != owing_.end()) found->second = Clock::now();
  if (idle_) driver_.notify_all();
}

void RoundDriver::Stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    // A round that is open stays without an end: from here on, who has answered it goes on to tell
    // what is newer.
    open_ = false;
    owing_.clear();
    merged_ = v1::Round();
    driver_.notify_all();
    ended_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

uint64_t RoundDriver::rounds() const {
  std::lock_guard lock(mutex_);
  return rounds_;
}
uint64_t RoundDriver::ignored() const {
  std::lock_guard lock(mutex_);
  return ignored_;
}

// Called with the lock held; feeds without it, while `open_` keeps the next round away.
void RoundDriver::EndRound(std::unique_lock<std::mutex>& lock) {
  v1::Event event;
  *event.mutable_round() = std::move(merged_);
  merged_ = v1::Round();
  event.mutable_round()->set_round(round_);
  const bool answered = event.round().end_ns() != 0;
  if (answered) {
    lock.unlock();
    analysis_->OnEvent(event);
    const uint64_t records = analysis_->stats().records;
    lock.lock();
    ++rounds_;
    quiet_rounds_ = records == records_before_ ? quiet_rounds_ + 1 : 0;
    records_before_ = records;
  }
  open_ = false;
  finished_ = Clock::now();
  ended_.notify_all();
  driver_.notify_all();
}

RoundDriver::Clock::time_point RoundDriver::Due(Clock::time_point now) {
  const Clock::time_point soonest =
      finished_ + (analysis_->RuntimeTakesPart() ? pace_.confirming_runtime : pace_.confirming);
  if (!asked_) return now;
  if (analysis_->WantsConfirmation() && confirming_ < kMaxConfirmingInARow) {
    idle_ = false;
    return soonest;
  }
  idle_ = !analysis_->HasUnfinished() || quiet_rounds_ >= kQuietRounds;
  const auto pause =
      std::max<Clock::duration>(idle_ ? pace_.idle : pace_.busy, kPauseForNode * nodes_.size());
  return std::max(soonest, requested_ + pause);
}

void RoundDriver::Request(std::unique_lock<std::mutex>& lock, Clock::time_point now) {
  confirming_ = analysis_->WantsConfirmation() ? confirming_ + 1 : 0;
  ++round_;
  asked_ = true;
  open_ = true;
  requested_ = now;
  deadline_ = now + pace_.round_timeout;
  owing_.clear();
  std::vector<Asker> requests;
  for (const auto& [node, request] : nodes_) {
    owing_.emplace(node, now);
    requests.push_back(request);
  }
  v1::RoundRequest asked;
  asked.set_round(round_);
  asked.set_unfinished(analysis_->HasUnfinished());
  const auto gathering =
      std::min<std::chrono::microseconds>(kPauseForNode * nodes_.size(), kMostGathering);
  asked.set_gather_ms(static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(gathering).count()));
  requesting_ = true;
  lock.unlock();
  for (const Asker& request : requests) request(asked);
  lock.lock();
  requesting_ = false;
  ended_.notify_all();
}

// Called at deadline_, which it puts off to when the next node will have been silent for too long.
void RoundDriver::DropSilent(Clock::time_point now) {
  const Clock::time_point last = requested_ + pace_.round_patience;
  const size_t dropped = std::erase_if(owing_, [&](const auto& owes) {
    return now >= last || now >= owes.second + pace_.round_timeout;
  });
  if (dropped > 0) {
    spdlog::warn("round {}: {} of {} nodes did not answer in time", round_, dropped, nodes_.size());
  }
  deadline_ = last;
  for (const auto& [node, heard] : owing_) {
    deadline_ = std::min(deadline_, heard + pace_.round_timeout);
  }
}

void RoundDriver::Run() {
  std::unique_lock lock(mutex_);
  Clock::time_point next_tick = Clock::now() + kTick;
  while (!stop_) {
    Clock::time_point now = Clock::now();
    if (now >= next_tick) {
      next_tick = now + kTick;
      lock.unlock();
      analysis_->Tick();
      lock.lock();
      continue;
    }
    if (nodes_.empty() && !open_) {
      // No process to ask; but nodes that still send what they saw before wait for the flushes.
      driver_.wait_until(lock, next_tick);
      continue;
    }
    if (open_) {
      if (now >= deadline_ && !owing_.empty()) {
        DropSilent(now);
        if (owing_.empty()) EndRound(lock);
        continue;
      }
      driver_.wait_until(lock, owing_.empty() ? next_tick : std::min(deadline_, next_tick));
      continue;
    }
    const Clock::time_point due = Due(now);
    if (now >= due) {
      Request(lock, now);
      continue;
    }
    driver_.wait_until(lock, std::min(due, next_tick));
  }
}

}  // namespace gordian::analyzer
