// The unkind half of shim_torture. Everything here has one outcome, however it is scheduled, and
// the outcome goes into the digest.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tests/stress/torture.h"

extern char** environ;

namespace torture {
namespace {

constexpr unsigned kChildSeconds = 60;  // a child that hangs is a failure, not a hang of the test
constexpr int kThreads = 12;

int WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) != pid) NEED(errno == EINTR);
  return status;
}

void BeginChild() {
  signal(SIGALRM, SIG_DFL);
  alarm(kChildSeconds);
}

// In a child, of a parent that uses CUDA: errors, but always the same ones.
int CallsOfAChild(const Lane& lane) {
  int device = 0, version = 0;
  const int first = cudaGetDevice(&device);
  const int second = cudaStreamQuery(lane.stream);
  const int third = ncclGetVersion(&version);
  return (first * 31 + second * 7 + third + version) & 0x7f;
}

void ForkThatEnds(const Options& options, Lane* lane) {
  const pid_t child = fork();
  NEED(child >= 0);
  if (child == 0) {
    BeginChild();
    _exit(options.tame ? 5 : CallsOfAChild(*lane));
  }
  lane->digest.Add(static_cast<uint64_t>(WaitFor(child)));
}

// As loaders of data are: made by the hundred, and killed when nobody wants them any more.
void ForkThatIsKilled(const Options& options, Lane* lane) {
  int ready[2];
  NEED(pipe(ready) == 0);
  const pid_t child = fork();
  NEED(child >= 0);
  if (child == 0) {
    BeginChild();
    const char code = static_cast<char>(options.tame ? 5 : CallsOfAChild(*lane));
    if (write(ready[1], &code, 1) != 1) _exit(71);
    for (;;) pause();
  }
  close(ready[1]);
  char code = 0;
  ssize_t got = 0;
  while ((got = read(ready[0], &code, 1)) < 0 && errno == EINTR) {
  }
  NEED(got == 1);
  close(ready[0]);
  NEED(kill(child, SIGKILL) == 0);
  lane->digest.Add(static_cast<uint64_t>(WaitFor(child)));
  lane->digest.Add(static_cast<uint64_t>(code));
}

// A process of its own; as a daemon it outlives who started it.
void ForkAndExec(Lane* lane, uint64_t seed, bool daemon) {
  int answer[2];
  NEED(pipe(answer) == 0);
  const std::string number = std::to_string(seed);
  const std::string descriptor = std::to_string(answer[1]);
  const char* arguments[] = {"shim_torture", "--leaf", number.c_str(), descriptor.c_str(), nullptr};
  const pid_t child = fork();
  NEED(child >= 0);
  if (child == 0) {
    if (daemon) {
      setsid();
      const pid_t inner = fork();
      if (inner != 0) _exit(inner > 0 ? 0 : 72);
    }
    alarm(kChildSeconds);
    execv("/proc/self/exe", const_cast<char**>(arguments));
    _exit(73);
  }
  close(answer[1]);
  lane->digest.Add(static_cast<uint64_t>(WaitFor(child)));
  uint64_t result = 0;
  ssize_t got = 0;
  while ((got = read(answer[0], &result, sizeof result)) < 0 && errno == EINTR) {
  }
  NEED(got == sizeof result);
  char more = 0;  // until it has ended
  while ((got = read(answer[0], &more, 1)) < 0 && errno == EINTR) {
  }
  NEED(got == 0);
  close(answer[0]);
  lane->digest.Add(result);
}

void Spawn(Lane* lane) {
  pid_t child = 0;
  const char* arguments[] = {"true", nullptr};
  NEED(posix_spawnp(&child, "true", nullptr, nullptr, const_cast<char**>(arguments), environ) == 0);
  lane->digest.Add(static_cast<uint64_t>(WaitFor(child)));
}

template <typename Function>
Function* Find(void* handle, const char* name) {
  auto* found = reinterpret_cast<Function*>(dlsym(handle, name));
  NEED(found != nullptr);
  return found;
}

// Another copy of NCCL, opened, used and closed, while other threads may do the same.
void OpenAnotherNccl(Lane* lane, uint64_t seed) {
  const char* path = std::getenv("TORTURE_SECOND_NCCL");
  if (path == nullptr) return;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  NEED(library != nullptr);
  ncclComm_t comm = nullptr;
  int device = 0;
  NEED(cudaGetDevice(&device) == cudaSuccess);
  NEED(Find<decltype(ncclCommInitAll)>(library, "ncclCommInitAll")(&comm, 1, &device) ==
       ncclSuccess);
  const auto reduce = Find<decltype(ncclAllReduce)>(library, "ncclAllReduce");
  const uint64_t times = 1 + seed % 5;
  for (uint64_t i = 0; i < times; ++i) {
    NEED(reduce(lane->in, lane->out, CountOf(i), ncclFloat, ncclSum, comm, lane->stream) ==
         ncclSuccess);
  }
  NEED(cudaStreamSynchronize(lane->stream) == cudaSuccess);
  NEED(Find<decltype(ncclCommDestroy)>(library, "ncclCommDestroy")(comm) == ncclSuccess);
  NEED(dlclose(library) == 0);
  lane->digest.Add(times);
}

void LookUp(Lane* lane, Random* random) {
  static const char* const kNames[] = {
      "ncclAllReduce", "ncclGetVersion",     "cudaMalloc",    "cudaStreamSynchronize",
      "cuEventQuery",  "ncclNoSuchFunction", "cudaNoSuchOne", "malloc"};
  void* library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
  NEED(library != nullptr);
  for (uint32_t i = 0; i < 20; ++i) {
    const char* name = kNames[random->Below(8)];
    errno = 77;
    for (void* handle : {library, static_cast<void*>(RTLD_DEFAULT)}) {
      lane->digest.Add(dlsym(handle, name) != nullptr);
    }
    lane->digest.Add(static_cast<uint64_t>(errno));
    lane->digest.Add(dlerror() != nullptr);
  }
  int version = 0;
  NEED(Find<decltype(ncclGetVersion)>(library, "ncclGetVersion")(&version) == ncclSuccess);
  lane->digest.Add(static_cast<uint64_t>(version));
  NEED(dlclose(library) == 0);
}

struct ShortLife {
  int device;
  int way;  // to end
};

void* LiveShortly(void* argument) {
  const ShortLife& life = *static_cast<ShortLife*>(argument);
  NEED(cudaSetDevice(life.device) == cudaSuccess);
  cudaEvent_t event = nullptr;
  NEED(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  NEED(cudaEventQuery(event) == cudaSuccess);
  NEED(cudaEventDestroy(event) == cudaSuccess);
  if (life.way == 1) pthread_exit(argument);
  if (life.way == 2) {
    for (;;) pause();  // until it is cancelled
  }
  return argument;
}

void Threads(const Options& options, Lane* lane, Random* random) {
  int device = 0;
  NEED(cudaGetDevice(&device) == cudaSuccess);
  pthread_t threads[kThreads];
  ShortLife lives[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    lives[i] = {device, static_cast<int>(random->Below(options.forks ? 3 : 2))};
    NEED(pthread_create(&threads[i], nullptr, LiveShortly, &lives[i]) == 0);
  }
  for (int i = 0; i < kThreads; ++i) {
    if (lives[i].way == 2) NEED(pthread_cancel(threads[i]) == 0);
    void* result = nullptr;
    NEED(pthread_join(threads[i], &result) == 0);
    // Cancelled amid its calls or in pause(): the same to us.
    NEED(result == (lives[i].way == 2 ? PTHREAD_CANCELED : static_cast<void*>(&lives[i])));
    lane->digest.Add(static_cast<uint64_t>(lives[i].way));
  }
}

// The C library sends a signal of its own to every thread, the shim's included, and waits for all.
void ChangeOwner(Lane* lane) {
  const auto same = static_cast<uid_t>(-1);
  lane->digest.Add(static_cast<uint64_t>(setresuid(same, same, same)));
}

}  // namespace

void Mischief(const Options& options, Lane* lane, Random* random) {
  const uint64_t seed = random->Next() >> 1;
  const uint32_t drawn = random->Below(11);
  if (!options.forks && drawn < 5) return;
  switch (drawn) {
    case 0:
      return ForkThatEnds(options, lane);
    case 1:
      return ForkThatIsKilled(options, lane);
    case 2:
      return ForkAndExec(lane, seed, false);
    case 3:
      return ForkAndExec(lane, seed, true);
    case 4:
      return Spawn(lane);
    case 5:
    case 6:
      return OpenAnotherNccl(lane, seed);
    case 7:
      return LookUp(lane, random);
    case 8:
      return ChangeOwner(lane);
    case 9:
      NEED(kill(getpid(), SIGUSR1) == 0);
      return;
    default:
      return Threads(options, lane, random);
  }
}

}  // namespace torture
