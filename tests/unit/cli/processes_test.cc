#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "cli/job/emulator_check.h"
#include "cli/job/job_environment.h"
#include "cli/job/launcher.h"
#include "cli/job/process_tree.h"
#include "cli/job/ring_folder.h"
#include "cli/job/session.h"
#include "cli/output.h"
#include "cli/run/guardian.h"

namespace gordian::cli {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/gordian-cli-test-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

Environment From(std::vector<Variable> variables) {
  return [variables](std::string_view name) -> std::optional<std::string> {
    for (const auto& [known, value] : variables) {
      if (known == name) return value;
    }
    return std::nullopt;
  };
}

std::string ValueOf(const std::vector<Variable>& variables, const std::string& name) {
  return From(variables)(name).value_or("(not set)");
}

TEST(RingFileName, OnlyThoseOfProcesses) {
  ProcessKey key;
  ASSERT_TRUE(ParseRingFileName("123.4567.ring", &key));
  EXPECT_EQ(key.pid, 123);
  EXPECT_EQ(key.start, 4567u);
  ASSERT_TRUE(ParseRingFileName("12.345.2.ring", &key)) << "after an exec";
  EXPECT_EQ(key, (ProcessKey{.pid = 12, .start = 345}));
  for (const char* bad :
       {"123.ring", "123.4.ring.tmp", ".4.ring", "-1.4.ring", "0.4.ring", "1.x.ring", "1.2.x.ring",
        "1.2.3.4.ring", "ring", "99999999999.1.ring", ""}) {
    EXPECT_FALSE(ParseRingFileName(bad, &key)) << bad;
  }
}

TEST(RingFolder, IsPrivateAndGoesWithItsFiles) {
  Folder base;
  const StatusOr<OwnedFolder> folder = CreateRingFolder(base.path());
  ASSERT_TRUE(folder.ok());
  struct stat info {};
  ASSERT_EQ(stat(folder->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  std::ofstream(folder->path() + "/1.2.ring") << "x";
  std::ofstream(folder->path() + "/1.2.ring.tmp") << "x";
  EXPECT_TRUE(RemoveRingFolder(*folder).ok());
  EXPECT_FALSE(fs::exists(folder->path()));
  EXPECT_FALSE(RemoveRingFolder(*folder).ok()) << "it is gone";
  EXPECT_FALSE(CreateRingFolder(base.path() + "/absent").ok());
}

TEST(RingFolder, FilesOfOthersStayAndAreNamed) {
  Folder base;
  const OwnedFolder folder = CreateRingFolder(base.path()).value();
  std::ofstream(folder.path() + "/1.2.ring") << "x";
  std::ofstream(folder.path() + "/notes.txt") << "x";
  const Status status = RemoveRingFolder(folder);
  EXPECT_NE(status.message().find(folder.path()), std::string::npos) << status.message();
  EXPECT_FALSE(fs::exists(folder.path() + "/1.2.ring"));
  EXPECT_TRUE(fs::exists(folder.path() + "/notes.txt"));
}

// Another folder takes the place of the rings', by a link or by its name, while the job runs.
class SwappedRingFolder : public ::testing::TestWithParam<bool> {
 protected:
  SwappedRingFolder() : rings_(CreateRingFolder(base_.path()).value()) {
    fs::create_directory(victim_);
    for (const char* name : {"passwd", "1.1.ring", "1.1.ring.tmp"}) {
      std::ofstream(victim_ + "/" + name) << "precious";
    }
    std::ofstream(rings_.path() + "/1.1.ring") << "ring";
    fs::rename(rings_.path(), aside_);
    if (GetParam()) {
      fs::create_directory_symlink(victim_, rings_.path());
    } else {
      fs::rename(victim_, rings_.path());
      victim_ = rings_.path();
    }
  }

  void ExpectVictimIsWhole() const {
    for (const char* name : {"passwd", "1.1.ring", "1.1.ring.tmp"}) {
      std::string text;
      std::ifstream(victim_ + "/" + name) >> text;
      EXPECT_EQ(text, "precious") << name;
    }
    EXPECT_EQ(fs::is_symlink(rings_.path()), GetParam());
  }

  Folder base_, session_;
  const OwnedFolder kept_in_ = OwnedFolder::Open(session_.path()).value();
  OwnedFolder rings_;
  std::string victim_ = base_.path() + "/victim";
  const std::string aside_ = base_.path() + "/aside";
};

TEST_P(SwappedRingFolder, IsNotEmptied) {
  const Status status = RemoveRingFolder(rings_);
  EXPECT_NE(status.message().find("another"), std::string::npos) << status.message();
  ExpectVictimIsWhole();
  EXPECT_FALSE(fs::exists(aside_ + "/1.1.ring")) << "our own files go wherever the folder is";
}

TEST_P(SwappedRingFolder, IsNotSwept) {
  EXPECT_EQ(SweepRings(rings_, &kept_in_), 0u);
  ExpectVictimIsWhole();
  std::string kept;
  std::ifstream(session_.path() + "/rings/1.1.ring") >> kept;
  EXPECT_EQ(kept, "ring");
}

TEST_P(SwappedRingFolder, IsLeftAloneByTheGuardian) {
  // `run` is killed: a child starts the guardian and goes without a word to it.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t run = fork();
  if (run == 0) {
    Guardian guardian;
    const bool started = guardian.Start(rings_, &kept_in_).ok();
    const pid_t pid = started ? guardian.pid() : 0;
    (void)!write(ends[1], &pid, sizeof pid);
    _exit(0);
  }
  close(ends[1]);
  pid_t guardian = 0;
  ASSERT_EQ(read(ends[0], &guardian, sizeof guardian), static_cast<ssize_t>(sizeof guardian));
  ASSERT_GT(guardian, 0);
  char end;
  EXPECT_EQ(read(ends[0], &end, 1), 0) << "the guardian holds no descriptor of ours";
  close(ends[0]);
  ASSERT_EQ(waitpid(run, nullptr, 0), run);
  while (kill(guardian, 0) == 0 && ReadProcessStat(guardian) &&
         ReadProcessStat(guardian)->alive()) {
    poll(nullptr, 0, 5);
  }
  ExpectVictimIsWhole();
  EXPECT_FALSE(fs::exists(aside_ + "/1.1.ring"));
}

INSTANTIATE_TEST_SUITE_P(, SwappedRingFolder, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "ByALink" : "ByItsName"; });

TEST(RingFolder, SweepKeepsCopiesOfTheDeadOnly) {
  Folder base, session;
  const OwnedFolder kept_in = OwnedFolder::Open(session.path()).value();
  const OwnedFolder rings = CreateRingFolder(base.path()).value();
  const std::string& folder = rings.path();
  const ProcessStat self = ReadProcessStat(getpid()).value();
  const std::string mine =
      std::to_string(self.key.pid) + "." + std::to_string(self.key.start) + ".ring";
  // The same pid, started at another time: another process, gone.
  const std::string gone = std::to_string(self.key.pid) + ".1.ring";
  std::ofstream(folder + "/" + mine) << "living";
  const std::string after_exec =
      std::to_string(self.key.pid) + "." + std::to_string(self.key.start) + ".1.ring";
  std::ofstream(folder + "/" + after_exec) << "living";
  std::ofstream(folder + "/" + gone) << "dead";
  EXPECT_EQ(SweepRings(rings, &kept_in), 2u);
  EXPECT_TRUE(fs::exists(folder + "/" + mine));
  EXPECT_TRUE(fs::exists(folder + "/" + after_exec));
  EXPECT_FALSE(fs::exists(folder + "/" + gone));
  std::string kept;
  std::ifstream(session.path() + "/rings/" + gone) >> kept;
  EXPECT_EQ(kept, "dead");
  EXPECT_FALSE(fs::exists(session.path() + "/rings/" + mine));
}

TEST(ProcessTree, FindsAndKillsDescendantsButNotTheSpared) {
  // parent (us) -> a -> b (own session), and a spared one.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t a = fork();
  if (a == 0) {
    const pid_t b = fork();
    if (b == 0) {
      setsid();
      pause();
    }
    (void)!write(ends[1], &b, sizeof b);
    pause();
  }
  pid_t b = 0;
  ASSERT_EQ(read(ends[0], &b, sizeof b), static_cast<ssize_t>(sizeof b));
  const pid_t spared = fork();
  if (spared == 0) {
    pause();
  }
  std::vector<pid_t> found;
  for (const ProcessKey& key : Descendants(getpid(), {spared})) {
    found.push_back(key.pid);
  }
  EXPECT_EQ(found, (a < b ? std::vector<pid_t>{a, b} : std::vector<pid_t>{b, a}));
  const ProcessKey key_of_b = ReadProcessStat(b)->key;
  const size_t left = KillUntilGone(
      [&] {
        std::vector<ProcessKey> all = Descendants(getpid(), {spared});
        if (IsAlive(key_of_b)) all.push_back(key_of_b);
        return all;
      },
      [&] { waitpid(a, nullptr, WNOHANG); }, std::chrono::seconds(10));
  EXPECT_EQ(left, 0u);
  EXPECT_FALSE(IsAlive(key_of_b));
  EXPECT_EQ(kill(spared, 0), 0);
  EXPECT_TRUE(IsAlive(ReadProcessStat(spared)->key));
  kill(spared, SIGKILL);
  waitpid(spared, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST(ProcessStat, SurvivesOddNames) {
  const pid_t child = fork();
  if (child == 0) {
    // A name that looks like the fields behind it.
    const int fd = open("/proc/self/comm", O_WRONLY);
    (void)!write(fd, ") Z 1 (", 7);
    close(fd);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  const std::optional<ProcessStat> stat = ReadProcessStat(child);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->parent, getpid());
  EXPECT_EQ(stat->state, 'T');
  EXPECT_GT(stat->key.start, 1000u);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(IsAlive(stat->key));
}

TEST(Guardian, LeavesWhenToldAndTouchesNothing) {
  Folder base, session;
  const OwnedFolder kept_in = OwnedFolder::Open(session.path()).value();
  const OwnedFolder rings = CreateRingFolder(base.path()).value();
  const std::string& folder = rings.path();
  Guardian guardian;
  ASSERT_TRUE(guardian.Start(rings, &kept_in).ok());
  const pid_t pid = guardian.pid();
  guardian.Leave();
  EXPECT_EQ(guardian.pid(), 0);
  EXPECT_NE(kill(pid, 0), 0);
  EXPECT_TRUE(fs::exists(folder));
}

TEST(Guardian, WhenItsOwnerIsKilledItWaitsForTheJobAndCleansUp) {
  Folder base, session;
  const OwnedFolder kept_in = OwnedFolder::Open(session.path()).value();
  const OwnedFolder rings = CreateRingFolder(base.path()).value();
  const std::string& folder = rings.path();
  // A job with a ring; an owner with a guardian.
  const pid_t job = fork();
  if (job == 0) {
    pause();
  }
  const ProcessKey key = ReadProcessStat(job)->key;
  const std::string ring = std::to_string(key.pid) + "." + std::to_string(key.start) + ".ring";
  std::ofstream(folder + "/" + ring) << "ring";
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    Guardian guardian;
    if (!guardian.Start(rings, &kept_in).ok()) _exit(1);
    guardian.SetJob(key);
    const pid_t pid = guardian.pid();
    (void)!write(ends[1], &pid, sizeof pid);
    pause();
  }
  pid_t guard = 0;
  ASSERT_EQ(read(ends[0], &guard, sizeof guard), static_cast<ssize_t>(sizeof guard));
  const std::optional<ProcessStat> guard_stat = ReadProcessStat(guard);
  ASSERT_TRUE(guard_stat);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  usleep(600'000);  // three looks of the guardian
  EXPECT_TRUE(IsAlive(guard_stat->key)) << "it left while the job was running";
  EXPECT_TRUE(fs::exists(folder + "/" + ring));
  kill(job, SIGKILL);
  waitpid(job, nullptr, 0);
  for (int i = 0; i < 1000 && IsAlive(guard_stat->key); ++i) {
    usleep(10'000);
  }
  EXPECT_FALSE(IsAlive(guard_stat->key));
  EXPECT_FALSE(fs::exists(folder));
  EXPECT_TRUE(fs::exists(session.path() + "/rings/" + ring));
  close(ends[0]);
  close(ends[1]);
}

TEST(JobVariables, AppendsTheShimAndPutsTheEmulatorFirst) {
  const InstallPaths paths{.lib_dir = "/l", .shim = "/l/shim.so", .emulator_dir = "/l/emulator"};
  const auto plain = JobVariables(paths, {.ring_dir = "/dev/shm/r"}, From({}));
  EXPECT_EQ(ValueOf(plain, "LD_PRELOAD"), "/l/shim.so");
  EXPECT_EQ(ValueOf(plain, "GORDIAN_RING_DIR"), "/dev/shm/r");
  EXPECT_EQ(ValueOf(plain, "LD_LIBRARY_PATH"), "(not set)");
  EXPECT_EQ(ValueOf(plain, "GORDIAN_SESSION"), "(not set)");
  EXPECT_EQ(ValueOf(plain, "NCCL_SET_THREAD_NAME"), "1");
  // What the user says stands.
  EXPECT_EQ(ValueOf(JobVariables(paths, {}, From({{"NCCL_SET_THREAD_NAME", "0"}})),
                    "NCCL_SET_THREAD_NAME"),
            "(not set)");

  const auto full = JobVariables(
      paths, {.ring_dir = "/r", .session_dir = "/s", .emulator = true, .preload_emulator = true},
      From({{"LD_PRELOAD", "/asan.so /je.so"}, {"LD_LIBRARY_PATH", "/cuda"}}));
  EXPECT_EQ(ValueOf(full, "LD_PRELOAD"),
            "/asan.so /je.so:/l/shim.so:/l/emulator/libcuda.so.1:/l/emulator/libcudart.so.13:"
            "/l/emulator/libnccl.so.2");
  EXPECT_EQ(ValueOf(full, "LD_LIBRARY_PATH"), "/l/emulator:/cuda");
  EXPECT_EQ(ValueOf(full, "GORDIAN_SESSION"), "/s");

  // Again, in a job of a job: nothing is doubled.
  const auto again = JobVariables(
      paths, {.ring_dir = "/r", .session_dir = "/s", .emulator = true, .preload_emulator = true},
      From(full));
  EXPECT_EQ(again, full);
}

TEST(JobVariables, PutsTheFrontEndForPyTorchFirst) {
  const InstallPaths paths{.lib_dir = "/l", .shim = "/l/shim.so", .python = "/l/python"};
  EXPECT_EQ(ValueOf(JobVariables(paths, {}, From({})), "PYTHONPATH"), "/l/python");
  const auto before = JobVariables(paths, {}, From({{"PYTHONPATH", "/own"}}));
  EXPECT_EQ(ValueOf(before, "PYTHONPATH"), "/l/python:/own");
  EXPECT_EQ(ValueOf(JobVariables(paths, {}, From(before)), "PYTHONPATH"), "/l/python:/own");
  EXPECT_EQ(ValueOf(JobVariables(paths, {}, From({{"GORDIAN_TORCH", "0"}})), "PYTHONPATH"),
            "(not set)");
}

TEST(JobVariables, KeepsTheUsersProfilerPluginBehindOurs) {
  const InstallPaths paths{.lib_dir = "/l", .shim = "/l/shim.so", .emulator_dir = "/l/emulator"};
  const auto without = JobVariables(paths, {}, From({{"NCCL_PROFILER_PLUGIN", "own"}}));
  EXPECT_EQ(ValueOf(without, "NCCL_PROFILER_PLUGIN"), "(not set)");
  EXPECT_EQ(ValueOf(without, "GORDIAN_GRAPH_MARKERS"), "(not set)");

  JobEnvironmentOptions options;
  options.nccl_profiler = true;
  options.graph_markers = true;
  const auto plain = JobVariables(paths, options, From({{"NCCL_PROFILER_PLUGIN", "none"}}));
  EXPECT_EQ(ValueOf(plain, "NCCL_PROFILER_PLUGIN"), "/l/shim.so");
  EXPECT_EQ(ValueOf(plain, "GORDIAN_NCCL_PROFILER_PLUGIN"), "(not set)");
  EXPECT_EQ(ValueOf(plain, "GORDIAN_GRAPH_MARKERS"), "1");

  const auto chained = JobVariables(paths, options, From({{"NCCL_PROFILER_PLUGIN", "own"}}));
  EXPECT_EQ(ValueOf(chained, "NCCL_PROFILER_PLUGIN"), "/l/shim.so");
  EXPECT_EQ(ValueOf(chained, "GORDIAN_NCCL_PROFILER_PLUGIN"), "own");
  // In a job of a job ours is not taken for the user's.
  const auto again = JobVariables(paths, options, From(chained));
  EXPECT_EQ(ValueOf(again, "GORDIAN_NCCL_PROFILER_PLUGIN"), "(not set)");
}

TEST(EmulatorCheck, NamesLibrariesFromElsewhere) {
  EXPECT_TRUE(IsReplacedLibrary("/usr/lib/libcudart.so.13.0.48"));
  EXPECT_TRUE(IsReplacedLibrary("libnccl.so.2"));
  EXPECT_TRUE(IsReplacedLibrary("/x/libcuda.so.570.1"));
  EXPECT_FALSE(IsReplacedLibrary("/x/libcudadebugger.so.1"));
  EXPECT_FALSE(IsReplacedLibrary("/x/libnccl.so.2/other.so"));
  EXPECT_FALSE(IsReplacedLibrary("/x/libnccl-net.so"));
  const std::string maps =
      "7f00-7f01 r-xp 00000000 00:01 1    /g/emulator/libnccl.so.2\n"
      "7f01-7f02 r-xp 00000000 00:01 1    /opt/cuda/lib64/libcudart.so.13.0.48\n"
      "7f02-7f03 r--p 00000000 00:01 1    /opt/cuda/lib64/libcudart.so.13.0.48\n"
      "7f03-7f04 rw-p 00000000 00:00 0\n"
      "7f04-7f05 r-xp 00000000 00:01 1    /g/emulator2/libcuda.so.1 (deleted)\n"
      "7f05-7f06 r-xp 00000000 00:00 0    [vdso]\n";
  EXPECT_EQ(ForeignLibraries(maps, "/g/emulator"),
            (std::vector<std::string>{"/opt/cuda/lib64/libcudart.so.13.0.48",
                                      "/g/emulator2/libcuda.so.1"}));
  EXPECT_TRUE(ForeignLibrariesOf(getpid(), "/g/emulator").empty());
}

TEST(FindProgram, LooksAsExecvpDoes) {
  Folder folder;
  const std::string program = folder.Write("tool", "#!/bin/sh\n");
  EXPECT_EQ(FindProgram("tool", folder.path()).error, EACCES);
  chmod(program.c_str(), 0755);
  EXPECT_EQ(FindProgram("tool", "/nowhere:" + folder.path()).path, program);
  EXPECT_EQ(FindProgram(program, "").path, program);
  EXPECT_EQ(FindProgram("tool", "/nowhere").error, ENOENT);
  EXPECT_EQ(FindProgram(folder.path(), "").error, EACCES);
  EXPECT_EQ(FindProgram("", "/bin").error, ENOENT);
  EXPECT_EQ(ExitCodeOfExecError(ENOENT), 127);
  EXPECT_EQ(ExitCodeOfExecError(EACCES), 126);
}

TEST(Output, NumbersAndWords) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(1234567), "1,234,567");
}

// A link takes the place of the session's folder while the job runs.
TEST(SessionFolder, TheManifestGoesToTheFolderThatWasMade) {
  Folder base;
  const std::string victim = base.path() + "/victim";
  fs::create_directory(victim);
  std::ofstream(victim + "/manifest.json") << "precious";
  Session session = Session::Open(base.path() + "/session", "job");
  session.manifest()["a"] = 1;
  fs::rename(base.path() + "/session", base.path() + "/aside");
  fs::create_directory_symlink(victim, base.path() + "/session");
  EXPECT_TRUE(session.WriteManifest().ok());
  std::string text;
  std::ifstream(victim + "/manifest.json") >> text;
  EXPECT_EQ(text, "precious");
  EXPECT_TRUE(ReadManifest(base.path() + "/aside").ok());
}

}  // namespace
}  // namespace gordian::cli
