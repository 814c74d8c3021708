// gordian_corpus_job PROGRAM [RESULTS [bytes]]: runs a corpus job (program.h), a process a rank. An
// ordinary program of NCCL and CUDA that knows nothing of gordian. With RESULTS, each rank leaves
// RESULTS.RANK when it ends well, and with "bytes" all of its memory in RESULTS.RANK.bytes.
// RESULTS.calls holds a `Calls` a rank, while they run and after.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/corpus/executor/rank.h"

namespace {

// Zeroes, shared with the children; of a file, which gets the bytes, unless the path is empty.
void* Map(size_t bytes, const std::string& path) {
  const bool in_file = !path.empty();
  int fd = -1;
  if (in_file) {
    fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) corpus::Fail(path);
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | (in_file ? 0 : MAP_ANONYMOUS), fd, 0);
  if (memory == MAP_FAILED) corpus::Fail("no shared memory");
  if (in_file) close(fd);
  return memory;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4 || (argc == 4 && std::strcmp(argv[3], "bytes") != 0)) {
    std::fprintf(stderr, "usage: %s PROGRAM [RESULTS [bytes]]\n", argv[0]);
    return 2;
  }
  const corpus::Program program = corpus::Load(argv[1]);
  if (program.comms.size() > corpus::kMaxComms) corpus::Fail("too many communicators");
  for (const corpus::RankProgram& each : program.ranks) {
    if (each.threads.size() > corpus::kMaxThreads) corpus::Fail("too many threads");
  }
  auto* const shared = static_cast<corpus::Shared*>(Map(sizeof(corpus::Shared), ""));
  auto* const calls =
      static_cast<corpus::Calls*>(Map(program.ranks.size() * sizeof(corpus::Calls),
                                      argc >= 3 ? std::string(argv[2]) + ".calls" : ""));
  const pid_t parent = getpid();
  std::vector<pid_t> ranks;
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    const pid_t pid = fork();
    if (pid == 0) {
      // Whoever kills the job by its first process leaves nothing behind.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) std::_Exit(1);
      corpus::Rank rank(program, static_cast<int>(r), shared, &calls[r]);
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
