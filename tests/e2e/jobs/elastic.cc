// A job that an elastic launcher starts again: what it does depends on how often that happened.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

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

// JOB_PASSED names a file. Where it is not there when the job starts, the last rank takes two
// communicators in the other order than the rest, and the file is made.
JOB(hangs_once, 2) {
  const char* const passed = std::getenv("JOB_PASSED");
  const bool hangs = !c.twin && (passed == nullptr || access(passed, F_OK) != 0);
  const std::string suffix = "." + std::to_string(Number("TORCHELASTIC_RESTART_COUNT", 0));
  ncclComm_t a = c.MakeComm("dp" + suffix, c.All());
  ncclComm_t b = c.MakeComm("tp" + suffix, c.All());
  cudaStream_t stream = c.Stream();
  c.Warm(a, stream);
  c.Warm(b, stream);
  c.Sync(stream);  // all have looked for the file
  if (passed != nullptr && c.rank == 0) {
    std::FILE* const file = std::fopen(passed, "w");
    if (file != nullptr) std::fclose(file);
  }
  const bool other = hangs && c.rank == c.nranks - 1;
  c.AllReduce(other ? b : a, stream);
  c.AllReduce(other ? a : b, stream);
  c.Sync(stream);
}
