#include "emulator/engine/process/quiescence.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulator/engine/process/futex.h"
#include "emulator/engine/process/host_threads.h"
#include "emulator/engine/process/host_waits.h"

namespace gordian::emu {
namespace {

// A thread outside of the emulator does not announce that it goes to sleep. The monitor polls at
// doubling intervals, so that a computing process costs next to nothing.
constexpr int64_t kFirstLookNs = 1'000'000;
constexpr int64_t kLastLookNs = 200'000'000;
// How soon to look while another process is awake: it may be killed without notice.
constexpr int64_t kLivenessNs = 250'000'000;

}  // namespace

Quiescence::Quiescence(Job& job, Scheduler& scheduler)
    : job_(job), state_(*job.state()), scheduler_(scheduler) {
  if (const char* path = getenv("GORDIAN_EMU_QUIESCENCE"); path != nullptr && *path != '\0') {
    path_ = std::string(path) + "." + std::to_string(getpid());
    folder_.emplace(path_);
  }
  if (const char* names = getenv("GORDIAN_EMU_IGNORE_THREADS")) ignored_ = names;
  if (const char* count = getenv("GORDIAN_EMU_PROCESSES")) {
    expected_ = static_cast<uint32_t>(strtoul(count, nullptr, 10));
  }
}

void Quiescence::Start() {
  if (!StartThread("emu-quiescence", [this] { Main(); })) {
    fprintf(stderr, "gordian emulator: cannot start the thread that watches for quiescence\n");
  }
}

void Quiescence::Poke() {
  std::atomic<uint32_t>& event = job_.self().event;
  event.fetch_add(1);
  FutexWakeAll(&event);
}

void Quiescence::Main() {
  JobProcess& self = job_.self();
  int64_t pause_ns = kFirstLookNs;
  for (;;) {
    uint32_t seen = self.event.load();
    int64_t timeout_ns = INT64_MAX;
    if (self.answered.load() != state_.round.load()) Answer();
    if (reported_ != 0 && state_.quiescent.load() != reported_) RemoveReport();
    if (state_.quiescent.load() == 0) {
      uint64_t fingerprint = 0;
      const Sleep sleep = Look(&fingerprint);
      if (sleep == Sleep::kThreadsMove) {
        timeout_ns = pause_ns;
        pause_ns = std::min(2 * pause_ns, kLastLookNs);
      } else if (sleep == Sleep::kAsleep) {
        pause_ns = kFirstLookNs;
        // Another monitor, of a process that has left since, may have found and revoked it.
        if (!FindQuiescent() || state_.quiescent.load() == 0) {
          timeout_ns = kLivenessNs;
          // A request wakes every monitor, this thread too: it would not sleep while another
          // process is awake.
          seen = self.event.load();
          if (self.answered.load() != state_.round.load()) continue;
        }
      } else {
        pause_ns = kFirstLookNs;
        // A process killed between a change and its wake-up wakes no thread.
        if (HostWaits::Get().WakeTheChanged()) timeout_ns = kLivenessNs;
      }
    }
    const uint32_t quiescent = state_.quiescent.load();
    if (quiescent != 0 && reported_ != quiescent) WriteReport();
    FutexWait(&self.event, seen, timeout_ns == INT64_MAX ? INT64_MAX : NowNs() + timeout_ns);
  }
}

Quiescence::Sleep Quiescence::Look(uint64_t* fingerprint) {
  if (!scheduler_.IsIdle() || !HostWaits::Get().AllAsleep()) return Sleep::kMoves;
  std::vector<ThreadView> threads;
  if (!LookAtThreads(ignored_, &threads)) {
    if (!said_unreadable_) {
      fprintf(stderr,
              "gordian emulator: cannot read /proc/self/task/*/syscall, and so cannot say "
              "when the job is quiescent\n");
    }
    said_unreadable_ = true;
    return Sleep::kMoves;
  }
  uint64_t hash = 0xcbf29ce484222325;
  bool asleep = true;
  for (const ThreadView& thread : threads) {
    if (thread.name == "emu-device") continue;  // IsIdle speaks for it
    asleep &= thread.asleep;
    hash = (hash ^ static_cast<uint64_t>(thread.thread)) * 0x100000001b3;
    hash = (hash ^ thread.switches) * 0x100000001b3;
  }
  *fingerprint = hash;
  // Some thread may have been woken during the look.
  if (!scheduler_.IsIdle() || !HostWaits::Get().AllAsleep()) return Sleep::kMoves;
  return asleep ? Sleep::kAsleep : Sleep::kThreadsMove;
}

void Quiescence::Answer() {
  JobProcess& self = job_.self();
  const uint32_t round = state_.round.load();
  uint64_t fingerprint = 0;
  const bool asleep = Look(&fingerprint) == Sleep::kAsleep;
  uint32_t forced = 0;
  HostWaits::Get().ForEach([&](const HostWait& wait) { forced += wait.forced ? 1 : 0; });
  self.forced.store(forced);
  self.fingerprint.store(fingerprint);
  self.asleep.store(asleep ? 1 : 0);
  self.answered.store(round);
  job_.WakeMonitors();
}

bool Quiescence::AskRound(uint64_t activity, std::vector<uint64_t>* fingerprints) {
  JobProcess& self = job_.self();
  const uint32_t round = state_.round.fetch_add(1) + 1;
  job_.WakeMonitors();
  for (;;) {
    const uint32_t seen = self.event.load();
    // Two processes may ask at once: a later round answers this one too.
    if (self.answered.load() != state_.round.load()) Answer();
    if (state_.activity.load() != activity) return false;
    fingerprints->clear();
    bool all = true;
    const uint32_t used = state_.processes_used.load();
    if (used < expected_) return false;
    for (uint32_t i = 0; i < used; ++i) {
      const JobProcess& process = state_.processes[i];
      const bool answered = static_cast<int32_t>(process.answered.load() - round) >= 0;
      if (answered && process.asleep.load() == 0 && Job::IsAlive(process)) return false;
      if (!answered) {
        if (!Job::IsAlive(process)) continue;
        all = false;
      }
      fingerprints->push_back(process.fingerprint.load());
    }
    if (all) return state_.activity.load() == activity;
    FutexWait(&self.event, seen, NowNs() + kLivenessNs);
  }
}

bool Quiescence::FindQuiescent() {
  const uint64_t activity = state_.activity.load();
  std::vector<uint64_t> first;
  std::vector<uint64_t> second;
  if (!AskRound(activity, &first) || !AskRound(activity, &second) || first != second) return false;
  uint32_t forced = 0;
  const uint32_t used = state_.processes_used.load();
  for (uint32_t i = 0; i < used; ++i) {
    if (Job::IsAlive(state_.processes[i])) forced += state_.processes[i].forced.load();
  }
  if (forced > 0 && state_.released.load() == 0) {
    ReleaseSchedule();
    return false;
  }
  uint32_t moving = 0;
  // Another monitor may have found it in the same rounds.
  if (state_.quiescent.compare_exchange_strong(moving, state_.round.load())) {
    // A thread that moved since the last look had nothing to revoke yet.
    if (state_.activity.load() != activity) {
      state_.quiescent.store(0);
      return false;
    }
  }
  job_.WakeMonitors();
  return true;
}

void Quiescence::ReleaseSchedule() {
  fprintf(
      stderr,
      "gordian emulator: GORDIAN_EMU_SCHEDULE: cannot be followed: no thread of the job can move "
      "before step %u, which no thread reaches; the rest runs unforced\n",
      state_.cursor.load() + 1);
  state_.released.store(1);
  state_.schedule_event.fetch_add(1);
  FutexWakeAll(&state_.schedule_event);
  job_.NoteActivity();
}

// --- The report ---

void Quiescence::WriteReport() {
  const uint32_t round = state_.quiescent.load();
  const std::lock_guard<std::mutex> lock(report_mutex_);
  if (round == 0 || leaving_) return;
  if (!path_.empty()) {
    const std::string text = ReportText();
    if (const int error = folder_->Replace(text); error != 0) {
      fprintf(stderr, "gordian emulator: GORDIAN_EMU_QUIESCENCE: cannot write %s: %s\n",
              path_.c_str(), strerror(error));
    }
  }
  reported_ = round;
}

void Quiescence::Leave() {
  {
    const std::lock_guard<std::mutex> lock(report_mutex_);
    leaving_ = true;
  }
  RemoveReport();
}

void Quiescence::RemoveReport() {
  const std::lock_guard<std::mutex> lock(report_mutex_);
  if (reported_ != 0 && folder_) folder_->Remove();
  reported_ = 0;
}

std::string Quiescence::ReportText() {
  std::string text = "{\"schema\": \"gordian.emu.quiescence.v1\", \"pid\": ";
  text += std::to_string(getpid()) + ", \"round\": " + std::to_string(state_.quiescent.load());
  text += ",\n \"processes\": [";
  const uint32_t used = state_.processes_used.load();
  for (uint32_t i = 0; i < used; ++i) {
    const JobProcess& process = state_.processes[i];
    if (i > 0) text += ", ";
    text += "{\"pid\": " + std::to_string(process.pid) +
            ", \"alive\": " + (Job::IsAlive(process) ? "true" : "false") + "}";
  }
  text += "],\n \"operations\": [";
  std::vector<const void*> tasks;
  std::vector<std::string> lines;
  std::vector<int> sleeping;
  HostWaits::Get().ForEach([&](const HostWait& wait) {
    std::string line = "{\"thread\": " + std::to_string(wait.thread) + ", \"in\": \"";
    line += wait.kind;
    line += "\", \"call\": ";
    line += wait.call == nullptr ? "null" : "\"" + std::string(wait.call) + "\"";
    if (wait.forced) line += ", \"forced\": true";
    if (wait.describe != nullptr) line += ", " + wait.describe();
    lines.push_back(line);
    tasks.push_back(wait.task);
    sleeping.push_back(wait.thread);
  });
  const std::vector<Scheduler::OperationView> operations = scheduler_.LookAtOperations(tasks);
  for (size_t i = 0; i < operations.size(); ++i) {
    text += i > 0 ? ",\n  " : "\n  ";
    text += "{\"device\": " + std::to_string(operations[i].device) +
            ", \"started\": " + (operations[i].started ? "true" : "false");
    const std::string more = operations[i].op->Describe();
    text += (more.empty() ? "" : ", " + more) + "}";
  }
  text += "],\n \"waits\": [";
  for (size_t i = 0; i < lines.size(); ++i) {
    text += i > 0 ? ",\n  " : "\n  ";
    text += lines[i];
    if (tasks[i] != nullptr) {
      // Earlier operations, as indices into "operations".
      text += ", \"behind\": [";
      bool first = true;
      for (size_t j = 0; j < operations.size(); ++j) {
        const auto& holds = operations[j].holds;
        if (std::find(holds.begin(), holds.end(), i) == holds.end()) continue;
        text += (first ? "" : ", ") + std::to_string(j);
        first = false;
      }
      text += "]";
    }
    text += "}";
  }
  text += "],\n \"outside\": [";
  std::vector<ThreadView> threads;
  LookAtThreads(ignored_, &threads);
  bool first = true;
  for (const ThreadView& thread : threads) {
    const bool inside =
        std::find(sleeping.begin(), sleeping.end(), thread.thread) != sleeping.end();
    if (inside || thread.name.rfind("emu-", 0) == 0) continue;
    text += std::string(first ? "\n  " : ",\n  ") +
            "{\"thread\": " + std::to_string(thread.thread) + ", \"system_call\": \"" +
            thread.system_call + "\"}";
    first = false;
  }
  return text + "]}\n";
}

}  // namespace gordian::emu
