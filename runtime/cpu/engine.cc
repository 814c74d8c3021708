#include "runtime/cpu/engine.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "common/service_thread.h"
#include "runtime/cpu/across/mailboxes.h"
#include "runtime/cpu/callbacks.h"
#include "runtime/cpu/futex.h"
#include "runtime/cpu/streams/stream_driver.h"
#include "runtime/cpu/streams/stream_order.h"

namespace gordian::runtime {
namespace {

// What all renamed operations of a device may take together.
constexpr uint64_t kMostShadowBytes = 256u << 20;

// Leaves word at the own board that a worker of this member sleeps for `wanted`, before it looks
// once more. False: that has been done for all of them.
bool AnnounceWait(const OpView& v, uint64_t wanted, uint64_t* announced) {
  const uint64_t others = wanted & ~(uint64_t{1} << v.me);
  if ((others & ~*announced) == 0) return false;
  *announced |= others;
  // litmus: waits.announce
  std::atomic_ref<uint64_t>(v.port.BoardOf(v.slot, v.me).waits_for)
      .fetch_or(others, std::memory_order_acq_rel);
  // litmus: waits.announced
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return true;
}

// "rank 3 has ended", of the first of these members whose process has.
std::string DeadOf(const Task& t, uint64_t members) {
  const uint64_t dead = members & t.dead.load(std::memory_order_relaxed);
  const auto first = static_cast<size_t>(std::countr_zero(dead));
  return first < t.port->members.size() ? t.comm->NameOf(t.port->members[first]) + " has ended"
                                        : std::string();
}

grtResult_t CodeOf(Progress progress, const Comm& comm) {
  if (progress == Progress::kMismatch) return grtMismatch;
  const grtResult_t code = comm.error();
  return code == grtSuccess ? grtAborted : code;
}

}  // namespace

struct Engine::Engines {
  pid_t pid = getpid();
  std::mutex mutex;
  std::map<int, Engine*> by_device;
};

Engine::Engines* Engine::All() {
  // Never destroyed: resident threads outlive main. A forked child has no threads but its own.
  static std::atomic<Engines*> all{nullptr};
  Engines* engines = all.load(std::memory_order_acquire);
  if (engines == nullptr || engines->pid != getpid()) {
    auto* fresh = new Engines;
    if (all.compare_exchange_strong(engines, fresh)) {
      engines = fresh;
    } else {
      delete fresh;
    }
  }
  return engines;
}

Engine* Engine::Of(int device) {
  Engines* const engines = All();
  const std::lock_guard<std::mutex> lock(engines->mutex);
  Engine*& engine = engines->by_device[device];
  if (engine == nullptr) engine = new Engine(device);
  return engine;
}

Engine::Engine(int device) : device_(device), bell_(Doorbell::Make()) {}

grtResult_t Engine::Submit(const UnitPtr& unit) {
  // One more than there are parts, so that nothing releases it before it is on its stream.
  unit->left = static_cast<uint32_t>(unit->tasks.size() + unit->joins.size()) + 1;
  StreamOrder::Get().Place(unit.get());
  if (unit->gang != nullptr) {
    // What it waits for stands on other streams, too: nothing passes it.
    unit->early = false;
    StreamOrder::Get().Foreign(unit->stream);
    const std::lock_guard<std::mutex> lock(unit->gang->mutex);
    unit->gang->units.push_back(unit);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const TaskPtr& task : unit->tasks) {
      task->number = next_number_++;
      task->unit = unit;
      unfinished_.push_back(task);
    }
  }
  if (!unit->driver->Carries() || !unit->strict) EnsureResident();
  const grtResult_t result = unit->driver->Enqueue(unit);
  if (result != grtSuccess) {
    Refuse(unit, result);
    return result;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (unit->strict && !unit->tasks.empty() && !unit->published) waiting_.push_back(unit);
  }
  for (const TaskPtr& task : unit->joins) {
    bool waits = false;
    {
      const std::lock_guard<std::mutex> lock(task->callbacks_mutex);
      waits = task->done.load(std::memory_order_acquire) == 0;
      if (waits) task->joiners.push_back(unit);
    }
    if (!waits) PartDone(unit, task->result);
  }
  PartDone(unit, grtSuccess);
  bell_->Ring();
  return grtSuccess;
}

void Engine::Refuse(const UnitPtr& unit, grtResult_t result) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Its turn may come all the same, or has come: then its operations end with the communicator's
    // error.
    if (unit->published.exchange(true)) return;
    for (const TaskPtr& task : unit->tasks) {
      std::erase(unfinished_, task);
      task->unit = nullptr;
    }
  }
  for (const TaskPtr& task : unit->tasks) Complete(*task, result);
}

void Engine::SubmitDetached(const UnitPtr& unit) {
  unit->left = static_cast<uint32_t>(unit->tasks.size());
  unit->strict = false;
  unit->driver = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const TaskPtr& task : unit->tasks) {
      task->number = next_number_++;
      task->unit = unit;
      unfinished_.push_back(task);
    }
  }
  unit->turn.store(true, std::memory_order_release);
  EnsureResident();
  Publish(unit);
}

void Engine::Turn(const UnitPtr& unit) {
  if (unit->gang == nullptr) return TurnOf(unit);
  if (unit->gang->turns_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::vector<UnitPtr> units;
  {
    const std::lock_guard<std::mutex> lock(unit->gang->mutex);
    units.swap(unit->gang->units);
  }
  for (const UnitPtr& each : units) TurnOf(each);
}

void Engine::TurnOf(const UnitPtr& unit) {
  StreamOrder::Get().Turn(unit.get());
  unit->turn.store(true, std::memory_order_release);
  Publish(unit);
  bell_->Ring();
}

void Engine::Publish(const UnitPtr& unit) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (unit->published.exchange(true)) return;
    std::erase(waiting_, unit);
    for (const TaskPtr& task : unit->tasks) {
      if (task->done.load(std::memory_order_acquire) != 0) continue;
      const auto at = std::upper_bound(published_.begin(), published_.end(), task,
                                       [](const TaskPtr& a, const TaskPtr& b) {
                                         return ComesBefore(a->view.desc, b->view.desc);
                                       });
      published_.insert(at, task);
    }
    // litmus: version.publish
    version_.fetch_add(1, std::memory_order_release);
  }
  bell_->Ring();
}

bool Engine::Rename(Task& task) {
  const auto bytes = static_cast<uint64_t>(task.writes.last - task.writes.first);
  if (shadow_bytes_.fetch_add(bytes) + bytes > kMostShadowBytes) {
    shadow_bytes_.fetch_sub(bytes);
    return false;
  }
  task.shadow.reset(new (std::nothrow) unsigned char[bytes]);
  if (task.shadow == nullptr) {
    shadow_bytes_.fetch_sub(bytes);
    return false;
  }
  task.shadow_bytes = bytes;
  task.view.out = task.shadow.get();
  return true;
}

// Under the lock. An operation that is called later and touches the same memory does not matter: it
// waits itself.
bool Engine::MayBeginEarly(const Unit& unit, std::vector<TaskPtr>* renamed) const {
  if (!unit.early || !StreamOrder::Get().HasStarted(unit)) return false;
  for (const TaskPtr& task : unit.tasks) {
    bool rename = false;
    for (const TaskPtr& earlier : unfinished_) {
      if (earlier->number >= unit.tasks.front()->number) break;
      if (earlier->writes.Overlaps(task->reads)) return false;
      rename |= earlier->writes.Overlaps(task->writes) || earlier->reads.Overlaps(task->writes);
    }
    if (rename) renamed->push_back(task);
  }
  return true;
}

bool Engine::PublishEarly() {
  UnitPtr found;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const UnitPtr& unit : waiting_) {
      std::vector<TaskPtr> renamed;
      if (!MayBeginEarly(*unit, &renamed)) continue;
      bool all = true;
      for (const TaskPtr& task : renamed) all = all && Rename(*task);
      if (!all) continue;  // those that were renamed stay so, which does no harm
      for (const TaskPtr& task : unit->tasks) {
        Statistics& statistics = task->comm->statistics();
        statistics.helped.fetch_add(1, std::memory_order_relaxed);
        if (task->shadow != nullptr) statistics.renamed.fetch_add(1, std::memory_order_relaxed);
      }
      found = unit;
      break;
    }
  }
  if (found == nullptr) return false;
  Publish(found);
  return true;
}

void Engine::EnsureResident() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (resident_) return;
    resident_ = true;
  }
  MakeServiceThread("gordian-grt", [this] { ResidentMain(); }).detach();
}

void Engine::ResidentMain() {
  Worker worker;
  for (;;) {
    if (!Round(worker, nullptr)) Pause(worker, nullptr);
  }
}

void Engine::Carry(const UnitPtr& unit) {
  Worker worker;
  while (unit->done.load(std::memory_order_acquire) == 0) {
    if (!Round(worker, unit.get())) Pause(worker, unit.get());
  }
  EndHelp(worker);
}

bool Engine::Round(Worker& worker, const Unit* own) {
  // litmus: version.look
  if (worker.version != version_.load(std::memory_order_acquire)) {
    const std::lock_guard<std::mutex> lock(mutex_);
    worker.version = version_.load(std::memory_order_relaxed);
    worker.tasks = published_;
  }
  bool any = false;
  uint32_t position = 0;
  if (own != nullptr && own->turn.load(std::memory_order_acquire)) {
    for (const TaskPtr& task : own->tasks) any |= Work(worker, task, position++);
  }
  if (!any) {
    for (const TaskPtr& task : worker.tasks) any |= Work(worker, task, position++);
  }
  if (any) {
    worker.fruitless = 0;
    worker.stalled_since_ns = 0;
  }
  return any;
}

bool Engine::Work(Worker& worker, const TaskPtr& task, uint32_t position) {
  Task& t = *task;
  if (t.done.load(std::memory_order_acquire) != 0) return false;
  if (t.failed.load(std::memory_order_acquire) != 0 ||
      t.channels_left.load(std::memory_order_acquire) == 0) {
    return TryClose(worker, task);
  }
  bool any = false;
  if (!t.begun.load(std::memory_order_acquire)) {
    any = TryBegin(worker, t);
    if (!t.begun.load(std::memory_order_acquire)) return any;
  }
  const grtConfig_t& config = t.comm->config();
  uint64_t spins = 1;
  if (config.policy == static_cast<int>(Policy::kSpinThreshold)) {
    SpinParameters p;
    if (config.spin_head != 0) p.head = config.spin_head;
    spins = std::max(SpinsAt(p, position), t.spins.load(std::memory_order_relaxed));
  }
  for (uint32_t channel = 0; channel < t.channels.size(); ++channel) {
    any |= WorkOnChannel(worker, t, channel, spins);
  }
  if (t.failed.load(std::memory_order_acquire) != 0 ||
      t.channels_left.load(std::memory_order_acquire) == 0) {
    any |= TryClose(worker, task);
  }
  return any;
}

bool Engine::TakeClaim(Worker& worker, std::atomic_ref<uint32_t> claim) {
  for (uint32_t now = kFree;; now = kFree) {
    // litmus: claim.take
    if (claim.compare_exchange_strong(now, kClaimed, std::memory_order_acq_rel)) return true;
    if (!worker.announces || now != kClaimed) return false;
    // litmus: claim.await
    if (claim.compare_exchange_strong(now, kClaimAwaited, std::memory_order_acq_rel)) return false;
  }
}

void Engine::LeaveClaim(std::atomic_ref<uint32_t> claim) {
  // litmus: claim.leave
  if (claim.exchange(kFree, std::memory_order_acq_rel) == kClaimAwaited) bell_->Ring();
}

bool Engine::TryBegin(Worker& worker, Task& t) {
  const std::atomic_ref<uint32_t> claim(t.begin_claim);
  if (!TakeClaim(worker, claim)) return false;
  bool begun = false;
  if (!t.begun.load(std::memory_order_relaxed)) {
    uint64_t wanted = 0, announced = 0;
    Progress progress = Progress::kNotReady;
    if (!t.port->segment->ReserveLanes(t.view.slot, t.view.me)) {
      GiveUp(t, grtSystemError);
    } else {
      do {
        progress = Begin(t.view, &wanted);
      } while (worker.announces && progress == Progress::kNotReady &&
               AnnounceWait(t.view, wanted, &announced));
      t.wanted.store(wanted, std::memory_order_relaxed);
      if (progress == Progress::kAdvanced) {
        begun = true;
        if (t.port->outbox != nullptr) t.port->outbox->Begun(t.view);
        t.begun.store(true, std::memory_order_release);
        t.comm->RingWaiters(*t.port, t.view.slot);
      } else if (progress != Progress::kNotReady) {
        // A mismatch is found once the operation is on the board: it must be taken off again.
        if (progress == Progress::kMismatch) t.begun.store(true, std::memory_order_release);
        GiveUp(t, CodeOf(progress, *t.comm));
      } else if ((wanted & t.dead.load(std::memory_order_acquire)) != 0) {
        GiveUp(t, grtPeerDead, DeadOf(t, wanted));
      }
    }
  }
  LeaveClaim(claim);
  return begun;
}

bool Engine::WorkOnChannel(Worker& worker, Task& t, uint32_t channel, uint64_t spins) {
  ChanCtx& ctx = t.channels[channel];
  const std::atomic_ref<uint32_t> owner(ctx.owner);
  if (!TakeClaim(worker, owner)) return false;
  if (ctx.state == kChanDone) {
    LeaveClaim(owner);
    return false;
  }
  uint64_t steps = 0, fruitless = 0, wanted = 0, announced = 0;
  Progress progress;
  const uint64_t dead = t.dead.load(std::memory_order_acquire);
  for (;;) {
    progress = TryStep(t.view, channel, ctx, &wanted);
    if (progress == Progress::kAdvanced) {
      ++steps;
      t.comm->RingWaiters(*t.port, t.view.slot);
      if (fruitless != 0 && spins > 1) {
        SpinParameters p;
        if (t.comm->config().spin_grow != 0) p.grow = t.comm->config().spin_grow;
        t.spins.store(SpinsAfterSuccess(p, t.spins.load(std::memory_order_relaxed), fruitless),
                      std::memory_order_relaxed);
      }
      fruitless = 0;
    } else if (progress != Progress::kNotReady) {
      break;
    } else if (++fruitless >= spins) {
      if (!worker.announces || !AnnounceWait(t.view, wanted, &announced)) break;
    }
  }
  const bool finished = progress == Progress::kDone;
  LeaveClaim(owner);

  Statistics& statistics = t.comm->statistics();
  if (steps != 0) {
    statistics.steps.fetch_add(steps, std::memory_order_relaxed);
    if (worker.last != nullptr && worker.last != &t) {
      statistics.preemptions.fetch_add(1, std::memory_order_relaxed);
    }
    worker.last = &t;
  } else {
    statistics.probes.fetch_add(fruitless, std::memory_order_relaxed);
  }
  if (finished) {
    if (worker.last == &t) worker.last = nullptr;
    t.channels_left.fetch_sub(1, std::memory_order_acq_rel);
    return true;
  }
  if (progress == Progress::kNotReady) {
    t.wanted.store(wanted, std::memory_order_relaxed);
    // The look above was after it was known that they are dead: what they have left is used up.
    if ((wanted & dead) != 0) GiveUp(t, grtPeerDead, DeadOf(t, wanted & dead));
  } else {
    GiveUp(t, CodeOf(progress, *t.comm));
  }
  return steps != 0;
}

void Engine::GiveUp(Task& t, grtResult_t code, const std::string& why) {
  int fine = 0;
  if (!t.failed.compare_exchange_strong(fine, code, std::memory_order_acq_rel)) return;
  if (code == grtMismatch) t.comm->statistics().mismatches.fetch_add(1, std::memory_order_relaxed);
  t.comm->Fail(code, why);
}

// Ends a task whose channels are all done, or one that has failed once no worker runs a step of it.
bool Engine::TryClose(Worker& worker, const TaskPtr& task) {
  Task& t = *task;
  if (t.closing.exchange(true, std::memory_order_acq_rel)) return false;
  const auto failed = static_cast<grtResult_t>(t.failed.load(std::memory_order_acquire));
  if (failed != grtSuccess) {
    if (!t.quiesced) {
      size_t claimed = 0;
      for (; claimed < t.channels.size(); ++claimed) {
        if (!TakeClaim(worker, std::atomic_ref<uint32_t>(t.channels[claimed].owner))) break;
      }
      if (claimed < t.channels.size()) {  // another worker runs a step: try again later
        while (claimed > 0) LeaveClaim(std::atomic_ref<uint32_t>(t.channels[--claimed].owner));
        t.closing.store(false, std::memory_order_release);
        return false;
      }
      for (ChanCtx& ctx : t.channels) {
        const std::atomic_ref<uint32_t> owner(ctx.owner);
        if (owner.exchange(kClosed, std::memory_order_acq_rel) == kClaimAwaited) bell_->Ring();
      }
      t.quiesced = true;
      if (t.begun.load(std::memory_order_acquire)) runtime::Finish(t.view);
      t.comm->RingWaiters(*t.port, t.view.slot);
    }
    // The caller may free its memory afterwards.
    if (t.view.in_here || t.view.out_here) {
      bool inside = OthersInside(t.view);
      uint64_t announced = 0;
      if (inside && worker.announces &&
          AnnounceWait(t.view, AllMembers(t.view.port.geometry().members), &announced)) {
        inside = OthersInside(t.view);
      }
      if (inside) {
        t.closing.store(false, std::memory_order_release);
        return false;
      }
    }
    Finish(task, failed);
    return true;
  }
  // The slot is free for the next operation, also while a renamed one waits for its turn.
  bool advanced = false;
  if (!t.freed_slot.exchange(true, std::memory_order_acq_rel)) {
    runtime::Finish(t.view);
    t.comm->RingWaiters(*t.port, t.view.slot);
    advanced = true;
  }
  if (t.shadow != nullptr && !t.unit->turn.load(std::memory_order_acquire)) {
    t.closing.store(false, std::memory_order_release);
    bell_->Ring();  // the window slot is free for this member's next operation too
    return advanced;
  }
  Finish(task, grtSuccess);
  return true;
}

void Engine::Finish(const TaskPtr& task, grtResult_t result) {
  Task& t = *task;
  if (t.shadow != nullptr) {
    if (result == grtSuccess) {
      std::memcpy(const_cast<unsigned char*>(t.writes.first), t.shadow.get(), t.shadow_bytes);
    }
    shadow_bytes_.fetch_sub(t.shadow_bytes);
    t.shadow.reset();
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase(published_, task);
    std::erase(unfinished_, task);
    version_.fetch_add(1, std::memory_order_release);
    if (t.name.word[1] != 0 && t.unit != nullptr && !t.unit->turn.load(std::memory_order_acquire)) {
      std::erase_if(through_, [](const Through& each) {
        return each.unit->turn.load(std::memory_order_acquire);
      });
      through_.push_back({t.name, t.unit});
    }
  }
  t.comm->statistics().operations.fetch_add(1, std::memory_order_relaxed);
  t.comm->statistics().bytes.fetch_add(
      static_cast<uint64_t>(t.reads.last - t.reads.first + (t.writes.last - t.writes.first)),
      std::memory_order_relaxed);
  // The unit holds the task, and the task the unit: no longer.
  const UnitPtr unit = std::exchange(t.unit, nullptr);
  Complete(t, result);
  PartDone(unit, result);
  bell_->Ring();
}

void Engine::Complete(Task& t, grtResult_t result) {
  std::vector<std::function<void(grtResult_t)>> callbacks;
  std::vector<UnitPtr> joiners;
  {
    const std::lock_guard<std::mutex> lock(t.callbacks_mutex);
    t.result = result;
    // litmus: task.done
    t.done.store(1, std::memory_order_release);
    callbacks.swap(t.callbacks);
    joiners.swap(t.joiners);
  }
  FutexWakeAll(&t.done);
  for (const UnitPtr& unit : joiners) PartDone(unit, result);
  RunCallbacks(std::move(callbacks), result);
}

void Engine::PartDone(const UnitPtr& unit, grtResult_t result) {
  if (result != grtSuccess) unit->error.store(result, std::memory_order_release);
  if (unit->left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const bool failed = unit->error.load(std::memory_order_acquire) != 0;
  if (failed && unit->strict && unit->grace_ms != 0 && !unit->tasks.empty()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    delayed_.push_back({NowNs() + int64_t{1'000'000} * unit->grace_ms, unit, unit->tasks[0]->comm});
    bell_->Ring();
    return;
  }
  UnitDone(unit);
}

void Engine::UnitDone(const UnitPtr& unit) {
  unit->done.store(1, std::memory_order_release);
  if (unit->driver != nullptr && unit->strict) unit->driver->Release(unit);
  bell_->Ring();
}

bool Engine::Await(const Task& task, int64_t deadline_ns) {
  // litmus: task.await
  while (task.done.load(std::memory_order_acquire) == 0) {
    if (NowNs() >= deadline_ns) return false;
    FutexWait(&task.done, 0, deadline_ns);
  }
  return true;
}

void Engine::OnDone(Task& task, std::function<void(grtResult_t)> fn) {
  {
    const std::lock_guard<std::mutex> lock(task.callbacks_mutex);
    if (task.done.load(std::memory_order_acquire) == 0) {
      task.callbacks.push_back(std::move(fn));
      return;
    }
  }
  fn(task.result);
}

bool Engine::Early(grtFrontName_t* names, uint32_t most, uint32_t* count) {
  *count = 0;
  Engines* const engines = All();
  const std::unique_lock<std::mutex> lock(engines->mutex, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  for (const auto& [device, engine] : engines->by_device) {
    const std::unique_lock<std::mutex> its(engine->mutex_, std::try_to_lock);
    if (!its.owns_lock()) return false;
    for (const TaskPtr& task : engine->published_) {
      if (task->name.word[1] == 0) continue;
      if (*count < most) names[*count] = task->name;
      ++*count;
    }
    for (const Through& through : engine->through_) {
      if (through.unit->turn.load(std::memory_order_acquire)) continue;
      if (*count < most) names[*count] = through.name;
      ++*count;
    }
  }
  return true;
}

std::vector<std::shared_ptr<Task>> Engine::UnfinishedOf(const Comm& comm) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<TaskPtr> out;
  for (const TaskPtr& task : unfinished_) {
    if (task->comm.get() == &comm) out.push_back(task);
  }
  return out;
}

}  // namespace gordian::runtime
