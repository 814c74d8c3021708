// Host threads of a rank that launch side by side.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <random>

#include "tests/e2e/jobs/job.h"

namespace {

// Two threads of a rank, and the main thread, which waits for each round.
struct Race {
  job::Context* c;
  ncclComm_t comms[2];
  cudaStream_t stream;
  float* buffers[2];
  int rounds;
  pthread_barrier_t begin, end;
  std::atomic<int> ready[2] = {0, 0};  // rounds that the thread has come to
  std::atomic<int> launched = 0;       // by the first thread: what the twin's second one waits for
  std::mutex one_at_a_time;            // no two calls overlap, in whichever order they come
};

void Launch(Race& race, int thread) {
  CUDA_OK(cudaSetDevice(race.c->rank));
  std::minstd_rand random(static_cast<unsigned>(2 * race.c->rank + thread + 1));
  for (int round = 1; round <= race.rounds; ++round) {
    pthread_barrier_wait(&race.begin);
    race.ready[thread] = round;
    while (race.ready[1 - thread] < round) sched_yield();
    if (race.c->twin && thread == 1) {
      while (race.launched < round) sched_yield();
    } else {
      usleep(random() % 100);  // what it computes takes now longer, now shorter
    }
    {
      const std::lock_guard lock(race.one_at_a_time);
      NCCL_OK(ncclAllReduce(race.buffers[thread], race.buffers[thread], 1024, ncclFloat, ncclSum,
                            race.comms[thread], race.stream));
    }
    if (thread == 0) race.launched = round;
    pthread_barrier_wait(&race.end);
  }
}

}  // namespace

// Nothing orders the all-reduces of the two threads on the stream: sooner or later one rank issues
// them in another order than another rank. In the twin the second thread waits for the first.
JOB(launch_race, 2) {
  static Race race;
  race.c = &c;
  race.stream = c.Stream();
  for (int i = 0; i < 2; ++i) {
    race.comms[i] = c.MakeComm(i == 0 ? "dp" : "tp", c.All());
    race.buffers[i] = c.Buffer(1024);
    c.Warm(race.comms[i], race.stream);
  }
  race.rounds = c.twin ? 50 : 5000;
  pthread_barrier_init(&race.begin, nullptr, 3);
  pthread_barrier_init(&race.end, nullptr, 3);
  c.Begin(race.stream);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) {
    const auto body = [](void* second) -> void* {
      Launch(race, second == nullptr ? 0 : 1);
      return nullptr;
    };
    if (pthread_create(&threads[i], nullptr, body, i == 0 ? nullptr : &race) != 0) std::_Exit(7);
  }
  for (int round = 0; round < race.rounds; ++round) {
    pthread_barrier_wait(&race.begin);
    pthread_barrier_wait(&race.end);
    c.Step("round");
    c.Sync(race.stream);
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
}
