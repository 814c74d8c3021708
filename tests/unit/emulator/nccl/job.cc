#include "tests/unit/emulator/nccl/job.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>

#include "emulator/nccl/comm/shared_layout.h"

namespace gordian::emu::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kQuiet = std::chrono::milliseconds(300);
constexpr auto kGiveUp =
    std::chrono::seconds(300);  // a loaded machine; CTest has limits of its own

void Futex(std::atomic<uint32_t>* word, int operation, uint32_t value) {
  syscall(SYS_futex, word, operation, value, nullptr, nullptr, 0);
}

// Adds the context switches of all threads to `*switches`; false when one of them runs.
bool AllAsleep(pid_t pid, uint64_t* switches) {
  std::string folder = "/proc/" + std::to_string(pid) + "/task";
  DIR* tasks = opendir(folder.c_str());
  if (tasks == nullptr) return true;
  bool asleep = true;
  while (const dirent* entry = readdir(tasks)) {
    if (entry->d_name[0] == '.') continue;
    std::ifstream status(folder + "/" + entry->d_name + "/status");
    std::string line;
    while (std::getline(status, line)) {
      if (line.starts_with("State:"))
        asleep &= line.find('S') != std::string::npos && line[7] == 'S';
      size_t colon = line.find("ctxt_switches:");
      if (colon != std::string::npos) {
        *switches +=
            std::strtoull(line.c_str() + colon + std::strlen("ctxt_switches:"), nullptr, 10);
      }
    }
  }
  closedir(tasks);
  return asleep;
}

pid_t StartRank(Rank rank, const Body& body, const Environment& environment) {
  std::fflush(nullptr);
  pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& [name, value] : environment) {
    setenv(name.c_str(), value == "%r" ? std::to_string(rank.rank()).c_str() : value.c_str(), 1);
  }
  if (getenv("CUDA_VISIBLE_DEVICES") == nullptr) rank.UseDevice(rank.rank());
  body(rank);
  std::fflush(nullptr);
  std::exit(0);
}

}  // namespace

void Die(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: in rank process %d: %s\n", file, line, getpid(), what);
  _exit(3);
}

void RequireNccl(ncclResult_t result, const char* file, int line, const char* what) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s: %s\n", ncclGetErrorString(result), ncclGetLastError(nullptr));
  Die(file, line, what);
}

void RequireCuda(CUresult result, const char* file, int line, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "CUresult %d\n", result);
  Die(file, line, what);
}

void Rank::UseDevice(int device) const {
  CUcontext context = nullptr;
  REQUIRE_CUDA(cuInit(0));
  REQUIRE_CUDA(cuDevicePrimaryCtxRetain(&context, device));
  REQUIRE_CUDA(cuCtxSetCurrent(context));
}

void Rank::Barrier() {
  uint32_t round = shared_->barrier_round.load();
  if (shared_->barrier_arrived.fetch_add(1) + 1 == static_cast<uint32_t>(size_)) {
    shared_->barrier_arrived.store(0);
    shared_->barrier_round.fetch_add(1);
    Futex(&shared_->barrier_round, FUTEX_WAKE, INT_MAX);
  } else {
    while (shared_->barrier_round.load() == round)
      Futex(&shared_->barrier_round, FUTEX_WAIT, round);
  }
}

ncclComm_t Rank::Init(int id_index, int nranks, int rank) const {
  ncclComm_t comm = nullptr;
  REQUIRE_NCCL(ncclCommInitRank(&comm, nranks, Id(id_index), rank));
  return comm;
}

void Rank::WaitForExitOf(int other) const {
  // Opened while the parent may not have reaped it yet; a pidfd of an ended process is readable.
  int fd = static_cast<int>(syscall(SYS_pidfd_open, shared_->pids[other].load(), 0));
  if (fd < 0) return;
  pollfd wait = {fd, POLLIN, 0};
  while (poll(&wait, 1, -1) < 0) {
  }
  close(fd);
}

bool Outcome::Succeeded() const {
  for (int status : statuses) {
    if (status != 0) return false;
  }
  return !hung;
}

Outcome RunJob(int size, const Body& body, const Environment& environment) {
  return RunJob(size, body, environment, 0, nullptr);
}

Outcome RunJob(int size, const Body& body, const Environment& environment, uint32_t during_mark,
               const std::function<void(const std::vector<pid_t>&)>& during) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = new (memory) Shared{};
  std::vector<pid_t> pids;
  Body with_ids = [&](Rank& rank) {
    shared->pids[rank.rank()].store(getpid());
    if (rank.rank() == 0) {
      for (ncclUniqueId& id : shared->ids) REQUIRE_NCCL(ncclGetUniqueId(&id));
    }
    rank.Barrier();
    body(rank);
  };
  for (int r = 0; r < size; ++r)
    pids.push_back(StartRank(Rank(r, size, shared), with_ids, environment));

  Outcome outcome;
  outcome.statuses.assign(size, -1);
  std::vector<bool> ended(size);
  int left = size;
  uint64_t last_switches = 0;
  Clock::time_point quiet_since = Clock::now(), start = quiet_since;
  bool called = during == nullptr;
  while (left > 0) {
    bool asleep = true;
    uint64_t switches = 0;
    bool all_marked = true;
    for (int r = 0; r < size; ++r) {
      all_marked &= shared->marks[r].load() >= during_mark;
      if (ended[r]) continue;
      if (waitpid(pids[r], &outcome.statuses[r], WNOHANG) == pids[r]) {
        ended[r] = true;
        --left;
        asleep = false;
      } else {
        asleep &= AllAsleep(pids[r], &switches);
      }
    }
    Clock::time_point now = Clock::now();
    if (!called && all_marked) {
      called = true;
      during(pids);
      asleep = false;
    }
    if (!asleep || switches != last_switches) quiet_since = now;
    last_switches = switches;
    if (left > 0 && (now - quiet_since > kQuiet || now - start > kGiveUp)) {
      // Giving up on a job that still moves is no proof of a hang: let the test fail.
      outcome.hung = now - quiet_since > kQuiet;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  outcome.left = RendezvousFiles(pids);
  outcome.pids = pids;
  for (int r = 0; r < size; ++r) {
    outcome.marks.push_back(shared->marks[r].load());
    if (ended[r]) continue;
    kill(pids[r], SIGKILL);
    waitpid(pids[r], nullptr, 0);
    outcome.statuses[r] = -1;
  }
  munmap(memory, sizeof(Shared));
  return outcome;
}

std::vector<std::string> RendezvousFiles(const std::vector<pid_t>& creators) {
  std::vector<std::string> found;
  DIR* folder = opendir("/dev/shm");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    if (std::strncmp(entry->d_name, "gordian-emu-", 12) != 0) continue;
    std::ifstream file(std::string("/dev/shm/") + entry->d_name, std::ios::binary);
    alignas(nccl::Header) char bytes[sizeof(nccl::Header)];
    if (!file.read(bytes, sizeof(bytes))) continue;
    pid_t creator = reinterpret_cast<const nccl::Header*>(bytes)->creator_pid;
    if (std::find(creators.begin(), creators.end(), creator) != creators.end()) {
      found.emplace_back(entry->d_name);
    }
  }
  closedir(folder);
  return found;
}

Buffer::Buffer(size_t bytes) { REQUIRE_CUDA(cuMemAlloc(&pointer_, bytes == 0 ? 1 : bytes)); }
Buffer::~Buffer() { cuMemFree(pointer_); }

cudaStream_t MakeStream() {
  CUstream stream = nullptr;
  REQUIRE_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

void Synchronize(cudaStream_t stream) { REQUIRE_CUDA(cuStreamSynchronize(stream)); }

}  // namespace gordian::emu::test
