// Each rank has a thread that ends it when an all-reduce takes too long, as PyTorch's watchdog does.
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/e2e/jobs/job.h"

namespace {

constexpr double kPatience = 4;  // longer than it takes to suspect

enum class Ends { kAborts, kExits, kExitsWell };

// Rank 1 does not come.
void Watched(job::Context& c, Ends how) {
  const ncclComm_t dp = c.MakeComm("dp", c.All()), tp = c.MakeComm("tp", c.All());
  const cudaStream_t s = c.Stream();
  c.Warm(dp, s);
  c.Warm(tp, s);
  std::atomic<bool> over = false, aborts = false;
  c.Begin(s);
  std::thread watchdog([&] {
    for (double waited = 0; waited < kPatience && !over; waited += 0.05) usleep(50'000);
    if (over) return;
    if (how == Ends::kAborts) {
      aborts = true;
      ncclCommAbort(dp);
      ncclCommAbort(tp);
    }
    std::_Exit(how == Ends::kExitsWell ? 0 : 1);
  });
  if (!c.twin && c.rank == 1) c.SleepInUserCode(3600);
  c.AllReduce(dp, s);
  c.Sync(s);
  while (aborts) pause();  // an abort has ended the wait, and the watchdog ends the process
  c.AllReduce(tp, s);
  c.Sync(s);
  over = true;
  watchdog.join();
}

}  // namespace

JOB(watchdogs_abort, 3) { Watched(c, Ends::kAborts); }
JOB(watchdogs_exit, 3) { Watched(c, Ends::kExits); }
JOB(watchdogs_exit_well, 3) { Watched(c, Ends::kExitsWell); }
