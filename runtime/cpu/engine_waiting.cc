// What a worker does that finds nothing ready: looks again, begins operations early, looks for dead
// peers, sleeps.
#include <sched.h>

#include <algorithm>
#include <utility>

#include "runtime/cpu/across/bridge.h"
#include "runtime/cpu/across/courier.h"
#include "runtime/cpu/engine.h"
#include "runtime/cpu/futex.h"

namespace gordian::runtime {
namespace {

// Rounds without a step before a worker sleeps. In between it yields the processor, which another
// rank may need.
constexpr uint32_t kPatientRounds = 16;
// How long nothing must be ready before operations may begin before their turn: peers are often
// late by less, and renaming costs memory.
constexpr int64_t kPatienceNs = 300'000;
// The longest sleep: a worker that cannot ring a peer's bell relies on it, and it finds dead peers.
std::atomic<int64_t> longest_sleep_ns{10'000'000};
constexpr int64_t kLifeEveryNs = 20'000'000;
// How long after its last step a worker moves messages between nodes itself: some round trips of a
// local network.
constexpr int64_t kHelpNs = 200'000;

}  // namespace

void Engine::SetLongestSleep(int64_t ns) { longest_sleep_ns.store(ns, std::memory_order_relaxed); }

int64_t Engine::ReleaseDelayed() {
  std::vector<UnitPtr> over;
  int64_t next = kForever;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (delayed_.empty()) return next;
    const int64_t now = NowNs();
    for (auto at = delayed_.begin(); at != delayed_.end();) {
      if (at->deadline_ns <= now || at->comm->abandoned()) {
        over.push_back(std::move(at->unit));
        at = delayed_.erase(at);
      } else {
        next = std::min(next, at->deadline_ns);
        ++at;
      }
    }
  }
  for (const UnitPtr& unit : over) UnitDone(unit);
  return next;
}

void Engine::LookAtLife(Worker& worker) {
  const int64_t now = NowNs();
  if (now - worker.looked_at_life_ns < kLifeEveryNs) return;
  worker.looked_at_life_ns = now;
  for (const TaskPtr& task : worker.tasks) {
    const uint64_t wanted = task->wanted.load(std::memory_order_relaxed);
    if (wanted == 0) continue;
    const uint64_t dead = task->comm->Dead(*task->port, wanted);
    if (dead != 0) task->dead.fetch_or(dead, std::memory_order_acq_rel);
  }
}

bool Engine::HasWork(const Worker& worker) {
  if (!worker.tasks.empty()) return true;
  return worker.version != version_.load(std::memory_order_acquire);
}

bool Engine::HelpCourier(Worker& worker, const Unit* own) {
  if (worker.helps == nullptr) {
    const Bridge* bridge = nullptr;
    if (own != nullptr && !own->tasks.empty()) bridge = own->tasks.front()->comm->bridge();
    for (const TaskPtr& task : worker.tasks) {
      if (bridge == nullptr) bridge = task->comm->bridge();
    }
    if (bridge == nullptr) return false;
    worker.helps = bridge->courier();
    worker.helps->BeginHelp();
  }
  const bool moved = worker.helps->Help();
  // Whatever it moves for others, after that time it does what is below in Pause.
  const int64_t now = NowNs();
  if (worker.stalled_since_ns == 0) worker.stalled_since_ns = now;
  if (now - worker.stalled_since_ns >= kHelpNs) return false;
  if (!moved) sched_yield();
  return true;
}

void Engine::EndHelp(Worker& worker) {
  if (Courier* const courier = std::exchange(worker.helps, nullptr)) courier->EndHelp();
}

void Engine::Pause(Worker& worker, const Unit* own) {
  const bool outstanding = HasWork(worker) || own != nullptr;
  if (outstanding && HelpCourier(worker, own)) return;
  if (outstanding && ++worker.fruitless < kPatientRounds) {
    sched_yield();
    return;
  }
  int64_t wake_ns = ReleaseDelayed();
  if (outstanding) {
    const int64_t now = NowNs();
    if (worker.stalled_since_ns == 0) worker.stalled_since_ns = now;
    const bool stalled = now - worker.stalled_since_ns >= kPatienceNs;
    if (stalled && PublishEarly()) return;
    const int64_t longest = longest_sleep_ns.load(std::memory_order_relaxed);
    wake_ns = std::min(wake_ns, stalled ? (longest == kForever ? kForever : now + longest)
                                        : worker.stalled_since_ns + kPatienceNs);
    LookAtLife(worker);
  }
  EndHelp(worker);
  const uint32_t bell = bell_->Value();
  bell_->Announce();
  const bool own_done = own != nullptr && own->done.load(std::memory_order_acquire) != 0;
  worker.announces = true;
  const bool sleeps = !own_done && !Round(worker, own);
  worker.announces = false;
  if (sleeps) {
    for (const TaskPtr& task : worker.tasks) {
      task->comm->statistics().sleeps.fetch_add(1, std::memory_order_relaxed);
      break;
    }
    bell_->Sleep(bell, wake_ns);
  }
  bell_->Withdraw();
}

}  // namespace gordian::runtime
