#include "emulator/engine/process/job.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "emulator/engine/process/futex.h"
#include "emulator/engine/process/peer_process.h"

namespace gordian::emu {
namespace {

std::string FromEnvironment(const char* name) {
  const char* text = getenv(name);
  return text == nullptr ? "" : text;
}

// Two processes that work in different folders may mean the same file by different names.
std::string Absolute(const std::string& path) {
  if (path.empty() || path[0] == '/') return path;
  char folder[4096];
  return getcwd(folder, sizeof(folder)) == nullptr ? path : std::string(folder) + "/" + path;
}

std::string PathOfJob(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  char path[80];
  // Not the prefix of rendezvous files, which have other rules for sweeping.
  snprintf(path, sizeof(path), "/dev/shm/gordian-emujob-%u-%016lx", getuid(), hash);
  return path;
}

bool AnybodyAlive(const JobState& state) {
  const uint32_t used = state.processes_used.load();
  for (uint32_t i = 0; i < used && i < kMaxJobProcesses; ++i) {
    if (Job::IsAlive(state.processes[i])) return true;
  }
  return false;
}

// Killed jobs could not remove their files.
void SweepDeadJobs() {
  DIR* const folder = opendir("/dev/shm");
  if (folder == nullptr) return;
  const std::string prefix = "gordian-emujob-" + std::to_string(getuid()) + "-";
  while (const dirent* entry = readdir(folder)) {
    if (strncmp(entry->d_name, prefix.c_str(), prefix.size()) != 0) continue;
    const int fd = openat(dirfd(folder), entry->d_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat info = {};
    // The holder of the lock is just joining.
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 &&
        info.st_size == static_cast<off_t>(sizeof(JobState))) {
      void* const memory = mmap(nullptr, sizeof(JobState), PROT_READ, MAP_SHARED, fd, 0);
      if (memory != MAP_FAILED) {
        const auto* state = static_cast<const JobState*>(memory);
        if (state->magic == kJobMagic && state->version == kJobVersion && !AnybodyAlive(*state)) {
          unlinkat(dirfd(folder), entry->d_name, 0);
        }
        munmap(memory, sizeof(JobState));
      }
    }
    close(fd);
  }
  closedir(folder);
}

}  // namespace

bool Job::IsAlive(const JobProcess& process) {
  const uint32_t state = process.state.load(std::memory_order_acquire);
  if (state == JobProcess::kFree || state == JobProcess::kLeft) return false;
  // A process that died while it joined has no pid yet or a dead one.
  return process.pid != 0 && StartTimeOf(process.pid) == process.start_time;
}

std::unique_ptr<Job> Job::Join() {
  const std::string schedule = FromEnvironment("GORDIAN_EMU_SCHEDULE");
  const std::string quiescence = FromEnvironment("GORDIAN_EMU_QUIESCENCE");
  if (schedule.empty() && quiescence.empty()) return nullptr;
  SweepDeadJobs();
  std::unique_ptr<Job> job(new Job);
  job->path_ = PathOfJob(FromEnvironment("GORDIAN_EMU_JOB") + "\n" + Absolute(schedule) + "\n" +
                         Absolute(quiescence));
  for (;;) {
    const int fd =
        open(job->path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat opened = {};
    struct stat named = {};
    bool usable = fd >= 0 && fstat(fd, &opened) == 0;
    if (usable && (!S_ISREG(opened.st_mode) || opened.st_uid != geteuid() || opened.st_nlink > 1)) {
      usable = false;  // it would be cut below
      errno = EPERM;
    }
    if (!usable || flock(fd, LOCK_EX) != 0 || fstat(fd, &opened) != 0) {
      fprintf(stderr, "gordian emulator: no shared state for the job (%s): %s\n",
              job->path_.c_str(), strerror(errno));
      if (fd >= 0) close(fd);
      return nullptr;
    }
    // The last process of an earlier job may have removed it during the wait for the lock.
    if (lstat(job->path_.c_str(), &named) != 0 || named.st_ino != opened.st_ino) {
      close(fd);
      continue;
    }
    bool fresh = opened.st_size < static_cast<off_t>(sizeof(JobState));
    void* memory = MAP_FAILED;
    if (ftruncate(fd, sizeof(JobState)) == 0) {
      memory = mmap(nullptr, sizeof(JobState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (memory == MAP_FAILED) {
      fprintf(stderr, "gordian emulator: no shared state for the job: %s\n", strerror(errno));
      close(fd);
      return nullptr;
    }
    auto* state = static_cast<JobState*>(memory);
    fresh |= state->magic != kJobMagic || state->version != kJobVersion;
    if (fresh || !AnybodyAlive(*state)) {
      // All earlier members died without leaving: this is another job.
      memset(memory, 0, sizeof(JobState));
      state->magic = kJobMagic;
      state->version = kJobVersion;
    }
    const uint32_t index = state->processes_used.load();
    if (index >= kMaxJobProcesses) {
      fprintf(stderr, "gordian emulator: more than %u processes in one job\n", kMaxJobProcesses);
      munmap(memory, sizeof(JobState));
      close(fd);  // and with it the lock
      return nullptr;
    }
    JobProcess& self = state->processes[index];
    self.pid = getpid();
    self.start_time = StartTimeOf(getpid());
    self.state.store(JobProcess::kHere, std::memory_order_release);
    state->processes_used.store(index + 1);
    job->state_ = state;
    job->self_ = index;
    flock(fd, LOCK_UN);  // the mapping keeps the open file, and so would keep the lock
    close(fd);
    job->NoteActivity();
    return job;
  }
}

void Job::Leave() {
  if (self().pid != getpid()) return;  // a forked child does not leave for its parent
  self().state.store(JobProcess::kLeft);
  if (!AnybodyAlive(*state_)) unlink(path_.c_str());
  state_->activity.fetch_add(1);
  WakeMonitors();
}

void Job::WakeMonitors() {
  const uint32_t used = state_->processes_used.load();
  for (uint32_t i = 0; i < used; ++i) {
    std::atomic<uint32_t>& event = state_->processes[i].event;
    event.fetch_add(1);
    FutexWakeAll(&event);
  }
}

void Job::NoteActivity() {
  state_->activity.fetch_add(1);
  if (state_->quiescent.load() != 0 && state_->quiescent.exchange(0) != 0) WakeMonitors();
}

}  // namespace gordian::emu
