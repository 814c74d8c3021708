// Jobs whose processes and threads come and go. The hang is always the same one: two communicators
// in different orders; the twin keeps one order and must end.
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "tests/e2e/jobs/job.h"

namespace {

constexpr int kManyThreads = 300;  // more than the shim has slots for

bool Departs(const job::Context& c) { return !c.twin && c.rank == c.nranks - 1; }

struct Pair {
  ncclComm_t dp, tp;
  cudaStream_t stream;
};

Pair MakePair(job::Context& c) {
  Pair pair = {c.MakeComm("dp", c.All()), c.MakeComm("tp", c.All()), c.Stream()};
  c.Warm(pair.dp, pair.stream);
  c.Warm(pair.tp, pair.stream);
  return pair;
}

void Invert(job::Context& c, const Pair& pair) {
  c.AllReduce(Departs(c) ? pair.tp : pair.dp, pair.stream);
  c.AllReduce(Departs(c) ? pair.dp : pair.tp, pair.stream);
}

// Lives until it is killed. `calls`: after calls that the shim sees and that fail in such a child.
pid_t StartLoader(bool calls) {
  int ready[2];
  if (pipe(ready) != 0) std::_Exit(7);
  const pid_t child = fork();
  if (child == 0) {
    int device = 0, version = 0;
    if (calls && (cudaGetDevice(&device) == cudaErrorMemoryAllocation ||
                  ncclGetVersion(&version) != ncclSuccess)) {
      std::_Exit(7);
    }
    if (write(ready[1], "r", 1) != 1) std::_Exit(7);
    for (;;) pause();
  }
  char word = 0;
  if (child < 0 || read(ready[0], &word, 1) != 1) std::_Exit(7);
  close(ready[0]);
  close(ready[1]);
  return child;
}

void EndLoader(pid_t child) {
  kill(child, SIGKILL);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) std::_Exit(7);
}

bool MainThreadIsGone() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  return line.find(") Z ") != std::string::npos;
}

}  // namespace

// As loaders of data do, children of a rank come, call nothing or little, and are killed. Their
// ends are nobody's exit, and those that sleep through the hang do not explain it.
JOB(inversion_loaders, 2) {
  const Pair pair = MakePair(c);
  std::vector<pid_t> loaders;
  for (int i = 0; i < 6; ++i) loaders.push_back(StartLoader(i % 2 == 0));
  c.Begin(pair.stream);
  EndLoader(loaders[0]);
  EndLoader(loaders[1]);
  Invert(c, pair);
  c.Sync(pair.stream);
  for (size_t i = 2; i < loaders.size(); ++i) EndLoader(loaders[i]);
}

// Who issued the work is gone when it hangs: one thread has ended by pthread_exit, another was
// cancelled.
JOB(inversion_dying_threads, 2) {
  const Pair pair = MakePair(c);
  c.Begin(pair.stream);
  struct Issuer {
    job::Context* c;
    ncclComm_t comm;
    cudaStream_t stream;
    bool exits;
  };
  const ncclComm_t order[2] = {Departs(c) ? pair.tp : pair.dp, Departs(c) ? pair.dp : pair.tp};
  for (int i = 0; i < 2; ++i) {
    Issuer issuer = {&c, order[i], pair.stream, i == 0};
    pthread_t thread;
    const auto issue = [](void* argument) -> void* {
      const Issuer& mine = *static_cast<Issuer*>(argument);
      pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
      CUDA_OK(cudaSetDevice(mine.c->rank));
      mine.c->AllReduce(mine.comm, mine.stream);
      if (mine.exits) pthread_exit(nullptr);
      pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
      for (;;) pause();
    };
    if (pthread_create(&thread, nullptr, issue, &issuer) != 0) std::_Exit(7);
    if (!issuer.exits && pthread_cancel(thread) != 0) std::_Exit(7);
    pthread_join(thread, nullptr);
  }
  c.Sync(pair.stream);
}

// The main thread of each rank has left by pthread_exit: the kernel shows the process as a zombie, and
// another thread does all that the rank does.
JOB(inversion_without_main_thread, 2) {
  static job::Context* context;
  context = &c;
  pthread_t thread;
  const auto body = [](void*) -> void* {
    while (!MainThreadIsGone()) usleep(1000);
    CUDA_OK(cudaSetDevice(context->rank));
    const Pair pair = MakePair(*context);
    context->Begin(pair.stream);
    Invert(*context, pair);
    context->Sync(pair.stream);
    context->Step("end");
    std::_Exit(0);
  };
  if (pthread_create(&thread, nullptr, body, nullptr) != 0) std::_Exit(7);
  pthread_exit(nullptr);
}

// The threads are all there at once; what those beyond the slots do is lost, and nothing else.
JOB(inversion_300_threads, 2) {
  const Pair pair = MakePair(c);
  std::mutex mutex;
  std::condition_variable changed;
  int called = 0;
  bool over = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < kManyThreads; ++i) {
    threads.emplace_back([&] {
      CUDA_OK(cudaSetDevice(c.rank));
      cudaEvent_t event = nullptr;
      CUDA_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      std::unique_lock lock(mutex);
      ++called;
      changed.notify_all();
      changed.wait(lock, [&] { return over; });
      lock.unlock();
      CUDA_OK(cudaEventDestroy(event));
    });
  }
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return called == kManyThreads; });
  }
  c.Begin(pair.stream);
  Invert(c, pair);
  c.Sync(pair.stream);
  {
    const std::lock_guard lock(mutex);
    over = true;
  }
  changed.notify_all();
  for (std::thread& thread : threads) thread.join();
}

// As PyTorch's autograd threads: one more thread has called NCCL, and sleeps until there is more to
// do. Another wait in between keeps the main threads from the call that the other rank waits for.
JOB(inversion_beside_sleeper, 2) {
  const Pair pair = MakePair(c);
  std::mutex mutex;
  std::condition_variable condition;
  int wanted = 0;
  int done = 0;
  bool ends = false;
  std::thread sleeper([&] {
    CUDA_OK(cudaSetDevice(c.rank));
    std::unique_lock lock(mutex);
    for (;;) {
      condition.wait(lock, [&] { return ends || done < wanted; });
      if (ends) return;
      c.AllReduce(pair.dp, pair.stream);
      ++done;
      condition.notify_all();
    }
  });
  const auto by_sleeper = [&] {
    std::unique_lock lock(mutex);
    wanted = done + 1;
    condition.notify_all();
    condition.wait(lock, [&] { return done == wanted; });
  };
  by_sleeper();
  c.Begin(pair.stream);
  c.AllReduce(Departs(c) ? pair.tp : pair.dp, pair.stream);
  c.Sync(pair.stream);
  c.AllReduce(Departs(c) ? pair.dp : pair.tp, pair.stream);
  by_sleeper();
  c.Sync(pair.stream);
  {
    std::lock_guard lock(mutex);
    ends = true;
  }
  condition.notify_all();
  sleeper.join();
}
