// The scheduler's state for the quiescence report.
#include <algorithm>
#include <set>

#include "emulator/engine/device/scheduler.h"
#include "emulator/engine/process/quiescence.h"

namespace gordian::emu {

void Scheduler::PokeQuiescence() {
  if (Quiescence* quiescence = quiescence_.load(std::memory_order_acquire)) quiescence->Poke();
}

void Scheduler::NoteActivity() {
  if (Quiescence* quiescence = quiescence_.load(std::memory_order_acquire)) {
    quiescence->NoteActivity();
  }
}

bool Scheduler::IsIdle() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!to_run_.empty() || cancels_asked_ != 0 || !timers_.empty()) return false;
  if (!worker_started_) return true;
  if (doorbell_->load() != polled_bell_) return false;
  if (polled_.empty()) return worker_wakes_ns_ == INT64_MAX;
  // The worker polls memory and sees nothing new.
  return worker_wakes_ns_ != 0 &&
         std::none_of(polled_.begin(), polled_.end(),
                      [](const auto& task) { return task->cancelled || task->satisfied(); });
}

std::vector<Scheduler::OperationView> Scheduler::LookAtOperations(
    const std::vector<const void*>& waits) {
  std::vector<std::pair<TaskPtr, OperationView>> found;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [op, task] : ops_) {
      OperationView view;
      view.op = task->op;
      view.device = task->device;
      view.started = task->held_sms > 0;
      std::vector<const Task*> open = {task.get()};
      std::set<const Task*> reached = {task.get()};
      while (!open.empty()) {
        const Task* at = open.back();
        open.pop_back();
        const auto wait = std::find(waits.begin(), waits.end(), at);
        if (wait != waits.end()) view.holds.push_back(wait - waits.begin());
        for (const TaskPtr& dependent : at->dependents) {
          if (reached.insert(dependent.get()).second) open.push_back(dependent.get());
        }
      }
      found.emplace_back(task, std::move(view));
    }
  }
  // Started ones first, then in order of submission.
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    if (a.second.started != b.second.started) return a.second.started;
    return a.first->submitted < b.first->submitted;
  });
  std::vector<OperationView> views;
  for (auto& [task, view] : found) {
    if (view.op != nullptr) views.push_back(std::move(view));
  }
  return views;
}

}  // namespace gordian::emu
