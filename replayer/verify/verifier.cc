#include "replayer/verify/verifier.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "analyzer/model/verdict/verdict.h"
#include "common/owned_folder.h"
#include "common/read_file.h"
#include "replayer/record/extract.h"

namespace gordian::replayer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kOutputKept = 2000;

// Removes its folder at the end.
class TemporaryFolder {
 public:
  static StatusOr<std::unique_ptr<TemporaryFolder>> Make() {
    const char* const base = getenv("TMPDIR");
    StatusOr<OwnedFolder> folder =
        OwnedFolder::Make(base != nullptr && *base != 0 ? base : "/tmp", "gordian-replay-");
    GORDIAN_RETURN_IF_ERROR(folder.status());
    return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(std::move(folder).value()));
  }
  // Processes of a killed job may write there for a moment longer. A folder that cannot be removed
  // stays, without harm.
  ~TemporaryFolder() {
    for (int tries = 0; tries < 100; ++tries) {
      if (folder_.RemoveTree().ok()) return;
      usleep(10000);
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const OwnedFolder& folder() const { return folder_; }

 private:
  explicit TemporaryFolder(OwnedFolder folder) : folder_(std::move(folder)) {}
  const OwnedFolder folder_;
};

// Runs a program in its own process group, with its output in a file of `logs`. The destructor kills
// it and waits for it if it still runs.
class Child {
 public:
  static StatusOr<std::unique_ptr<Child>> Start(const std::vector<std::string>& command,
                                                const OwnedFolder& logs, const std::string& output,
                                                const OwnedFolder& folder) {
    const int log = logs.Overwrite(output);
    if (log < 0) return Status::FromErrno(errno, "cannot write " + logs.path() + "/" + output);
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    int failure[2];
    if (pipe2(failure, O_CLOEXEC) != 0) {
      const int error = errno;
      close(log);
      return Status::FromErrno(error, "cannot start " + command[0]);
    }
    // Not posix_spawn: it changes into a folder only since glibc 2.29.
    const pid_t pid = fork();
    if (pid == 0) Become(arguments.data(), log, folder.fd(), failure[1]);
    int error = pid < 0 ? errno : 0;
    close(failure[1]);
    if (pid > 0 && read(failure[0], &error, sizeof error) > 0) waitpid(pid, nullptr, 0);
    close(failure[0]);
    close(log);
    if (error != 0) return Status::FromErrno(error, "cannot start " + command[0]);
    return std::unique_ptr<Child>(new Child(pid, logs.path() + "/" + output));
  }
  ~Child() {
    if (!ended_) Kill();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Returns true once it has ended; exit_code() is then valid.
  bool Ended() {
    int status = 0;
    if (ended_ || waitpid(pid_, &status, WNOHANG) != pid_) return ended_;
    ended_ = true;
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
  }
  void Kill() {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    ended_ = true;
  }
  double Age() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
  int exit_code() const { return exit_code_; }
  std::string Output() const {
    const StatusOr<std::string> text = ReadWholeFile(output_);
    if (!text.ok()) return "";
    return text->size() <= kOutputKept ? *text : text->substr(text->size() - kOutputKept);
  }

 private:
  // In the child. Writes errno to `failure` where it cannot become the program.
  [[noreturn]] static void Become(char* const* arguments, int log, int folder, int failure) {
    const int null = open("/dev/null", O_RDONLY);
    if (null >= 0 && dup2(null, 0) == 0 && dup2(log, 1) == 1 && dup2(log, 2) == 2 &&
        fchdir(folder) == 0 && setpgid(0, 0) == 0) {
      execvp(arguments[0], arguments);
    }
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failure, &error, sizeof error);
    _exit(127);
  }

  Child(pid_t pid, std::string output)
      : pid_(pid), output_(std::move(output)), started_(Clock::now()) {}
  const pid_t pid_;
  const std::string output_;
  const Clock::time_point started_;
  bool ended_ = false;
  int exit_code_ = -1;
};

void Nap() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

struct Running {
  std::unique_ptr<Child> child;
  std::string session;
  double patience_s;
};

// On a busy machine a run that hung may end before gordian has proven why.
constexpr double kMorePatience = 4;

VerifyRun Finished(const Running& running, const VerifyTools& tools) {
  VerifyRun run;
  run.exit_code = running.child->exit_code();
  run.output = running.child->Output();
  // Reads the verdict from the trace, as for the recorded job: both then ignore what the watchdog's
  // kills add.
  ExtractOptions options;
  options.model.suspect_after_ns = static_cast<uint64_t>(tools.suspect_after_s * 1e9);
  const StatusOr<Extracted> extracted = Extract(running.session, options);
  if (extracted.ok()) {
    run.signature = extracted->schedule.origin.signature;
    run.proven =
        extracted->schedule.origin.confidence == model::Name(model::Confidence::kConfirmed);
  } else {
    run.output += "\n" + extracted.status().message();
  }
  return run;
}

Status Stopped(const VerifyTools& tools) {
  return tools.stopped && tools.stopped() ? Status::Unavailable("interrupted") : Status::Ok();
}

std::string Seconds(double seconds) {
  std::string text = std::to_string(seconds);
  return text.substr(0, text.find('.') + 3);
}

// The programs run in a folder of their own.
std::string Absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

}  // namespace

Status CompileReplay(const OwnedFolder& folder, const std::string& source,
                     const std::string& binary, const VerifyTools& tools) {
  folder.RemoveFile(binary);  // a link of that name is not written through
  const StatusOr<std::unique_ptr<TemporaryFolder>> own = TemporaryFolder::Make();
  GORDIAN_RETURN_IF_ERROR(own.status());
  std::vector<std::string> command = {tools.compiler, "-std=c++17", "-O0",  "-Wall", "-Wextra",
                                      "-Werror",      "-pthread",   source, "-o",    binary};
  for (const std::string& include : tools.include_dirs)
    command.insert(command.end(), {"-isystem", include});
  command.insert(command.end(), {"-L" + tools.library_dir, "-lnccl", "-lcudart",
                                 "-Wl,-rpath-link," + tools.library_dir});
  StatusOr<std::unique_ptr<Child>> child =
      Child::Start(command, (*own)->folder(), "compiler", folder);
  GORDIAN_RETURN_IF_ERROR(child.status());
  while (!(*child)->Ended()) {
    GORDIAN_RETURN_IF_ERROR(Stopped(tools));
    if ((*child)->Age() > tools.limit_s)
      return Status::Deadline(tools.compiler + " took longer than " + Seconds(tools.limit_s) +
                              " s");
    Nap();
  }
  if ((*child)->exit_code() == 0) return Status::Ok();
  return Status::InvalidArgument(tools.compiler + " refused the replay: " + (*child)->Output());
}

StatusOr<Verified> VerifyReplay(const std::string& binary, const Signature& wanted, int count,
                                bool free_running, const VerifyTools& tools,
                                const std::function<void(int done)>& progress) {
  const StatusOr<std::unique_ptr<TemporaryFolder>> folder = TemporaryFolder::Make();
  GORDIAN_RETURN_IF_ERROR(folder.status());
  Verified verified;
  std::vector<Running> running;
  std::vector<double> to_start(static_cast<size_t>(count), tools.patience_s);
  int started = 0;
  while (static_cast<int>(verified.runs.size()) < count) {
    while (!to_start.empty() && static_cast<int>(running.size()) < tools.at_once) {
      const double patience_s = to_start.back();
      to_start.pop_back();
      const std::string number = std::to_string(++started);
      const std::string name = (*folder)->folder().path() + "/" + number;
      std::vector<std::string> command = {tools.gordian,
                                          "run",
                                          "--emulator",
                                          "--session",
                                          name + ".session",
                                          "--suspect-after",
                                          Seconds(tools.suspect_after_s),
                                          "--",
                                          Absolute(binary),
                                          "--patience",
                                          Seconds(patience_s)};
      if (free_running) command.push_back("--free");
      StatusOr<std::unique_ptr<Child>> child =
          Child::Start(command, (*folder)->folder(), number + ".output", (*folder)->folder());
      GORDIAN_RETURN_IF_ERROR(child.status());
      running.push_back({std::move(*child), name + ".session", patience_s});
    }
    Nap();
    GORDIAN_RETURN_IF_ERROR(Stopped(tools));
    for (auto each = running.begin(); each != running.end();) {
      const bool late = each->child->Age() > tools.limit_s;
      if (!late && !each->child->Ended()) {
        ++each;
        continue;
      }
      if (late) each->child->Kill();
      VerifyRun run = Finished(*each, tools);
      const bool hung = run.exit_code == kReproduced, same = run.signature == wanted;
      const bool again = hung && !same && !run.proven && each->patience_s == tools.patience_s;
      each = running.erase(each);
      if (again) {
        to_start.push_back(kMorePatience * tools.patience_s);
        continue;
      }
      verified.hung += hung;
      verified.same += hung && same;
      verified.runs.push_back(std::move(run));
      if (progress) progress(static_cast<int>(verified.runs.size()));
    }
  }
  return verified;
}

std::string Describe(const Verified& verified, const Signature& wanted) {
  const std::string all = std::to_string(verified.runs.size());
  std::string text = std::to_string(verified.hung) + " of " + all +
                     " runs under the emulator hung, and gordian's verdict on " +
                     std::to_string(verified.same) + " was " + Describe(wanted);
  for (const VerifyRun& run : verified.runs) {
    if (run.exit_code != kReproduced) {
      return text + "; one exited with " + std::to_string(run.exit_code);
    }
    if (!(run.signature == wanted))
      return text + "; the verdict on one was " + Describe(run.signature);
  }
  return text;
}

}  // namespace gordian::replayer
