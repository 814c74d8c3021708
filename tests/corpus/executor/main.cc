// gordian_corpus_job PROGRAM [RESULTS [bytes]]: runs a corpus job (program.h), a process a rank. An
// ordinary program of NCCL and CUDA that knows nothing of gordian. With RESULTS, each rank leaves
// RESULTS.RANK when it ends well, and with "bytes" all of its memory in RESULTS.RANK.bytes.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/corpus/executor/rank.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4 || (argc == 4 && std::strcmp(argv[3], "bytes") != 0)) {
    std::fprintf(stderr, "usage: %s PROGRAM [RESULTS [bytes]]\n", argv[0]);
    return 2;
  }
  const corpus::Program program = corpus::Load(argv[1]);
  if (program.comms.size() > corpus::kMaxComms) corpus::Fail("too many communicators");
  void* shared = mmap(nullptr, sizeof(corpus::Shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("mmap");
    return 2;
  }
  const pid_t parent = getpid();
  std::vector<pid_t> ranks;
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    const pid_t pid = fork();
    if (pid == 0) {
      // Whoever kills the job by its first process leaves nothing behind.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) std::_Exit(1);
      corpus::Rank rank(program, static_cast<int>(r), static_cast<corpus::Shared*>(shared));
      rank.Run();
      if (argc >= 3) rank.WriteResults(argv[2], argc == 4);
      std::exit(0);  // with handlers: who still destroys communicators learns of it
    }
    ranks.push_back(pid);
  }
  int result = 0;
  for (const pid_t pid : ranks) {
    int status = 0;
    waitpid(pid, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (result == 0) result = code;
  }
  return result;
}
