// A job that an elastic launcher starts again: what it does depends on how often that happened.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "tests/e2e/jobs/job.h"

namespace {

int Number(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

// JOB_DIES names a rank, which dies in the middle of the first JOB_DEATHS (1) incarnations;
// JOB_EXIT is the code it exits with, none: SIGKILL. The incarnation after that ends, unless it is
// the guilty one: then the last rank takes two communicators in the other order than the rest.
//
// The communicators count the ranks from the other end, so that only RANK says who is who.
JOB(elastic, 2) {
  const int incarnation = Number("TORCHELASTIC_RESTART_COUNT", 0);
  const bool last_life = incarnation >= Number("JOB_DEATHS", 1);
  std::vector<int> members = c.All();
  std::reverse(members.begin(), members.end());
  const std::string suffix = "." + std::to_string(incarnation);
  ncclComm_t a = c.MakeComm("dp" + suffix, members);
  ncclComm_t b = c.MakeComm("tp" + suffix, members);
  cudaStream_t stream = c.Stream();
  c.Warm(a, stream);
  c.Warm(b, stream);
  for (int step = 0; step < 20; ++step) {
    if (!last_life && step == 10 && c.rank == Number("JOB_DIES", -1)) {
      c.Step("die");
      const int code = Number("JOB_EXIT", -1);
      if (code >= 0) std::_Exit(code);
      raise(SIGKILL);
    }
    c.AllReduce(a, stream);
    c.Sync(stream);
  }
  const bool other = !c.twin && c.rank == c.nranks - 1;
  c.AllReduce(other ? b : a, stream);
  c.AllReduce(other ? a : b, stream);
  c.Sync(stream);
}
