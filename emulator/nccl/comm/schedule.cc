#include "emulator/nccl/comm/schedule.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "emulator/nccl/comm/comm.h"
#include "emulator/nccl/comm/futex.h"

namespace gordian::emu::nccl {
namespace {

void Ignore(const char* path, const std::string& why) {
  std::fprintf(stderr, "gordian emulator: GORDIAN_EMU_SCHEDULE: %s: %s; the schedule is ignored\n",
               path, why.c_str());
}

}  // namespace

Schedule* Schedule::Get() {
  static Schedule* schedule = []() -> Schedule* {
    const char* path = std::getenv("GORDIAN_EMU_SCHEDULE");
    if (path == nullptr || *path == '\0') return nullptr;
    JobState* job = GetEngine().Job();
    if (job == nullptr) return nullptr;  // the process that failed to make it has reported it
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      Ignore(path, "cannot be read");
      return nullptr;
    }
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    std::vector<ScheduleStep> steps;
    std::string error;
    if (!ParseSchedule(text, &steps, &error)) {
      Ignore(path, error);
      return nullptr;
    }
    uint64_t hash = 0xcbf29ce484222325;
    for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    uint64_t first = 0;
    if (!job->schedule_hash.compare_exchange_strong(first, hash | 1) && first != (hash | 1)) {
      Ignore(path, "another process of the job has read another text");
      return nullptr;
    }
    return new Schedule(job, std::move(steps));
  }();
  return schedule;
}

std::vector<uint32_t> Schedule::StepsOf(const Comm& comm, bool operation) {
  std::lock_guard lock(mutex_);
  int rank = comm.job_rank();
  uint64_t call = ++calls_[rank];
  auto& threads = threads_[rank];
  auto self = std::find_if(threads.begin(), threads.end(),
                           [](const auto& t) { return t.first == std::this_thread::get_id(); });
  if (self == threads.end()) {
    threads.emplace_back(std::this_thread::get_id(), 0);
    self = threads.end() - 1;
  }
  uint64_t thread = self - threads.begin() + 1;
  uint64_t thread_call = ++self->second;
  uint64_t comm_operation = operation ? comm.CountSubmitted() : 0;
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    const ScheduleStep& step = steps_[i];
    if (step.rank != rank) continue;
    bool named = false;
    if (step.on_comm) {
      bool this_comm =
          step.comm >= 0 ? step.comm == comm.job_ordinal() : step.comm_name == comm.config().name;
      named = operation && this_comm && step.number == comm_operation;
    } else if (step.thread != 0) {
      named = step.thread == thread && step.number == thread_call;
    } else {
      named = step.number == call;
    }
    if (named) found.push_back(i);
  }
  return found;
}

void Schedule::Await(uint32_t step) {
  auto may_enter = [&] { return job_.cursor.load() >= step || job_.released.load() != 0; };
  uint32_t seen = job_.schedule_event.load();
  if (may_enter()) return;
  HostWait wait;
  wait.kind = "schedule";
  wait.word = &job_.schedule_event;
  wait.seen.store(seen);
  wait.forced = true;
  wait.describe = [step] { return "\"step\": " + std::to_string(step + 1); };
  GetEngine().BeginWait(&wait);
  for (;;) {
    seen = job_.schedule_event.load();
    if (may_enter()) break;
    wait.seen.store(seen);
    FutexWait(&job_.schedule_event, seen);
  }
  GetEngine().EndWait(&wait);
}

void Schedule::Pass(const std::vector<uint32_t>& steps) {
  for (uint32_t step : steps) job_.passed[step].store(1);
  uint32_t cursor = job_.cursor.load();
  bool moved = false;
  // Several processes may advance it: each moves it over one passed step.
  while (cursor < steps_.size() && job_.passed[cursor].load() != 0) {
    if (job_.cursor.compare_exchange_strong(cursor, cursor + 1)) {
      ++cursor;
      moved = true;
    }
  }
  if (!moved) return;
  FutexBump(&job_.schedule_event);
  GetEngine().NoteActivity();
}

void Turn::Await() {
  if (steps_.empty()) return;
  Schedule::Get()->Await(*std::min_element(steps_.begin(), steps_.end()));
}

void Turn::Pass() {
  if (steps_.empty()) return;
  Schedule::Get()->Pass(steps_);
  steps_.clear();
}

}  // namespace gordian::emu::nccl
