// Runs job.cc's program with the shim in front, in a folder of its own for rings.
#ifndef GORDIAN_TESTS_UNIT_INTERPOSE_JOB_RUNNER_H_
#define GORDIAN_TESTS_UNIT_INTERPOSE_JOB_RUNNER_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/interpose/ring_reader.h"

namespace gordian::test {

// A folder in /dev/shm that goes with its owner.
class RingFolder {
 public:
  RingFolder() {
    char path[] = "/dev/shm/gordian-interpose-test-XXXXXX";
    path_ = mkdtemp(path);
  }
  ~RingFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RingFolder(const RingFolder&) = delete;
  RingFolder& operator=(const RingFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class Job {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  Job(const std::string& program, const std::string& ring_folder, const Environment& extra = {},
      bool with_shim = true) {
    int to_child[2];
    int from_child[2];
    if (pipe(to_child) != 0 || pipe(from_child) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to_child[0], STDIN_FILENO);
      dup2(from_child[1], STDOUT_FILENO);
      for (const int fd : {to_child[0], to_child[1], from_child[0], from_child[1]}) close(fd);
      for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID"}) unsetenv(name);
      if (with_shim) setenv("LD_PRELOAD", GORDIAN_SHIM_PATH, 1);
      if (!ring_folder.empty()) setenv("GORDIAN_RING_DIR", ring_folder.c_str(), 1);
      for (const auto& [name, value] : extra) setenv(name.c_str(), value.c_str(), 1);
      execl(GORDIAN_JOB_PATH, "job", program.c_str(), nullptr);
      _exit(127);
    }
    close(to_child[0]);
    close(from_child[1]);
    input_ = to_child[1];
    output_ = fdopen(from_child[0], "r");
  }
  ~Job() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
    close(input_);
    std::fclose(output_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // The next line that the job prints, without its end; empty at the end of output.
  std::string Line() {
    char line[256];
    if (std::fgets(line, sizeof(line), output_) == nullptr) return "";
    std::string text = line;
    if (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  void Go() { (void)!write(input_, "go\n", 3); }
  void Kill() { kill(pid_, SIGKILL); }
  pid_t pid() const { return pid_; }
  // Exit code, or 1000 + signal.
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1;
  FILE* output_ = nullptr;
};

// Runs a program to its end and reads what it left.
struct Outcome {
  int exit_code;
  std::vector<RingFile> rings;
};
inline Outcome RunAll(const std::string& program, const Job::Environment& extra = {}) {
  RingFolder folder;
  Job job(program, folder.path(), extra);
  Outcome outcome;
  outcome.exit_code = job.Wait();
  for (const std::string& path : RingPaths(folder.path())) outcome.rings.push_back(ReadRing(path));
  return outcome;
}
inline RingFile RunOne(const std::string& program, const Job::Environment& extra = {}) {
  Outcome outcome = RunAll(program, extra);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.rings.size(), 1u);
  return outcome.rings.empty() ? RingFile{} : outcome.rings[0];
}

}  // namespace gordian::test

#endif  // GORDIAN_TESTS_UNIT_INTERPOSE_JOB_RUNNER_H_
