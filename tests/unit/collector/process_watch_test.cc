#include "collector/process/process_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "collector/process/proc_reader.h"
#include "common/clock.h"
#include "tests/unit/collector/fake_shim.h"

namespace gordian::collector {
namespace {

using testing_support::TemporaryDir;

pid_t Spawn(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    _exit(body());
  }
  return pid;
}

ProcessIdentity IdentityOf(pid_t pid) {
  const auto stat = ReadProcessStat(pid);
  return {.pid = pid, .start = stat ? stat->start : 0};
}

// Waits on the condition itself, not for a time; the bound only ends a test that has failed.
bool Eventually(const std::function<bool()>& condition) {
  for (const uint64_t end = MonoNs() + 20 * kNsPerSecond; MonoNs() < end;) {
    if (condition()) {
      return true;
    }
    usleep(500);
  }
  return false;
}

TEST(ParseRingNameTest, OnlyRingNames) {
  const auto name = ParseRingName("12.345.ring");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->identity, (ProcessIdentity{.pid = 12, .start = 345}));
  EXPECT_EQ(name->image, 0u);
  EXPECT_EQ(ParseRingName("12.345.2.ring")->image, 2u);
  for (const char* bad :
       {"", ".ring", "12.ring", "12.345", "12.345.ring.tmp", "-1.345.ring", "12.-3.ring",
        "12.345.x.ring", "12.345.1.2.ring", "a.b.ring", "0.1.ring", "12..ring", "12.345..ring",
        "99999999999.1.ring", "12 .3.ring", "12.345.ring/../x"}) {
    EXPECT_FALSE(ParseRingName(bad)) << bad;
  }
}

TEST(ProcReaderTest, TaskStatWithHostileName) {
  const std::string tail =
      " S 1 1 1 0 -1 4194304 147 0 0 0 11 31 0 0 20 0 10 0 266104 81334272 640 "
      "18446744073709551615 1 1 1 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 1 1 1 1 1 1 1 256";
  const auto stat = ParseTaskStat("77 (a) R (b\n) 1 2" + tail);
  ASSERT_FALSE(stat) << "the state must be one letter";
  const auto good = ParseTaskStat("77 (x) R (y)" + tail);
  ASSERT_TRUE(good);
  EXPECT_EQ(good->name, "x) R (y");
  EXPECT_EQ(good->state, 'S');
  EXPECT_EQ(good->cpu_ticks, 42u);
  EXPECT_EQ(good->start, 266104u);
  EXPECT_EQ(good->exit_status, 256);
  EXPECT_EQ(good->threads, 10u);
  EXPECT_FALSE(ParseTaskStat(""));
  EXPECT_FALSE(ParseTaskStat(")("));
  EXPECT_FALSE(ParseTaskStat("1 (a) S 1 2 3"));
}

TEST(ProcReaderTest, OwnThreads) {
  std::atomic<pid_t> tid = 0;
  std::atomic<bool> stop = false;
  std::thread other([&] {
    prctl(PR_SET_NAME, "test-other");
    tid = gettid();
    while (!stop) {
      usleep(1000);
    }
  });
  while (tid == 0) {
    sched_yield();
  }
  const auto find = [&] {
    const std::vector<TaskState> tasks = ReadTasks(getpid());
    const auto found = std::find_if(tasks.begin(), tasks.end(),
                                    [&](const TaskState& task) { return task.tid == tid; });
    return found == tasks.end() ? TaskState() : *found;
  };
  const TaskState first = find();
  EXPECT_EQ(first.stat.name, "test-other");
  EXPECT_GT(first.context_switches, 0u);
  // It sleeps and wakes: its counter moves.
  EXPECT_TRUE(Eventually([&] { return find().context_switches > first.context_switches; }));
  stop = true;
  other.join();
  EXPECT_TRUE(ReadTasks(999'999'999).empty());
}

TEST(ProcReaderTest, MapsHaveThisFunction) {
  const auto here = reinterpret_cast<uint64_t>(&ParseMaps);
  const std::vector<ExecutableMapping> maps = ReadMaps(getpid());
  const auto found = std::find_if(maps.begin(), maps.end(), [&](const ExecutableMapping& mapping) {
    return here >= mapping.start && here < mapping.end;
  });
  ASSERT_NE(found, maps.end());
  EXPECT_EQ(found->path, ReadExecutable(getpid()));
  const std::vector<ExecutableMapping> parsed = ParseMaps(
      "1000-2000 r--p 00000000 08:01 1 /bin/a b\n"
      "2000-3000 r-xp 00001000 08:01 1                  /bin/a b (deleted)\n"
      "3000-4000 r-xp 00000000 00:00 0 [vdso]\n"
      "garbage\n\n"
      "5000 r-xp 0 0 0 /x\n");
  ASSERT_EQ(parsed.size(), 1u);
  EXPECT_EQ(parsed[0].path, "/bin/a b");
  EXPECT_EQ(parsed[0].file_offset, 0x1000u);
}

TEST(ProcReaderTest, BuildIdOfOurselvesAndOfOtherFiles) {
  const std::string id = ReadBuildId(ReadExecutable(getpid()));
  EXPECT_TRUE(id.empty() || id.size() >= 16) << id;  // linkers may be told to leave it out
  for (const char c : id) {
    EXPECT_TRUE(std::isxdigit(static_cast<unsigned char>(c)));
  }
  EXPECT_EQ(ReadBuildId("/etc/passwd"), "");
  EXPECT_EQ(ReadBuildId("/dev/zero"), "");
  EXPECT_EQ(ReadBuildId("/no/such/file"), "");
}

TEST(ProcReaderTest, EnvironmentOfAChild) {
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(hold[1]);
    dup2(hold[0], 0);
    const char* const arguments[] = {"cat", nullptr};
    const char* const environment[] = {"GORDIAN_MARKERS=0", "GORDIAN_MARKERS_X=1", nullptr};
    execve("/bin/cat", const_cast<char**>(arguments), const_cast<char**>(environment));
    _exit(1);
  }
  close(hold[0]);
  ASSERT_TRUE(Eventually([&] { return ReadCommandLine(pid) == "cat"; }));
  // The kernel sets the bounds of the one just before those of the other.
  EXPECT_TRUE(Eventually([&] { return ReadEnvironmentVariable(pid, "GORDIAN_MARKERS") == "0"; }));
  EXPECT_EQ(ReadEnvironmentVariable(pid, "GORDIAN"), std::nullopt);
  close(hold[1]);
  waitpid(pid, nullptr, 0);
}

TEST(ProcReaderTest, OneInTheMiddleOfAnExecMayBeOfAnyRank) {
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  const RankName name = {.ring_dir = "/rings", .rank = "1", .meets_at = ""};
  const pid_t pid = fork();
  if (pid == 0) {
    close(hold[1]);
    dup2(hold[0], 0);
    const char* const arguments[] = {"cat", nullptr};
    const char* const environment[] = {nullptr};  // as the kernel shows it in an exec
    execve("/bin/cat", const_cast<char**>(arguments), const_cast<char**>(environment));
    _exit(1);
  }
  close(hold[0]);
  const auto named = [&](const std::vector<pid_t>& pids) {
    return std::find(pids.begin(), pids.end(), pid) != pids.end();
  };
  EXPECT_TRUE(Eventually([&] { return ReadCommandLine(pid) == "cat"; }));
  EXPECT_TRUE(named(FindByRankName(name).bare));
  EXPECT_FALSE(named(FindByRankName(name).pids));
  for (const pid_t bare : FindByRankName(name).bare) EXPECT_NE(bare, 2) << "a thread of the kernel";
  close(hold[1]);
  waitpid(pid, nullptr, 0);
}

TEST(ProcessWatchTest, ExitCodeOfAZombieAndAfterItWasReaped) {
  for (const bool reap_first : {false, true}) {
    int hold[2];
    ASSERT_EQ(pipe(hold), 0);
    const pid_t pid = Spawn([&] {
      close(hold[1]);
      char c;
      (void)!read(hold[0], &c, 1);
      return 42;
    });
    close(hold[0]);
    ProcessWatch watch(IdentityOf(pid));
    EXPECT_FALSE(watch.Ended());
    close(hold[1]);
    if (reap_first) {
      waitpid(pid, nullptr, 0);
    }
    ASSERT_TRUE(Eventually([&] { return watch.Ended(); }));
    const std::optional<ExitStatus> status = watch.KernelExitStatus();
    if (reap_first && !status) {
      GTEST_LOG_(INFO) << "this kernel forgets the status of a reaped process";
    } else {
      ASSERT_TRUE(status);
      EXPECT_EQ(status->how, ExitStatus::How::kCode);
      EXPECT_EQ(status->value, 42);
    }
    if (!reap_first) {
      waitpid(pid, nullptr, 0);
    }
  }
}

TEST(ProcessWatchTest, KilledBySignal) {
  const pid_t pid = Spawn([] {
    for (;;) {
      pause();
    }
    return 0;
  });
  ProcessWatch watch(IdentityOf(pid));
  ASSERT_FALSE(watch.Ended());
  kill(pid, SIGKILL);
  ASSERT_TRUE(Eventually([&] { return watch.Ended(); }));
  if (watch.pidfd() >= 0) {
    pollfd fd{.fd = watch.pidfd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&fd, 1, 0), 1);
  }
  const std::optional<ExitStatus> status = watch.KernelExitStatus();
  ASSERT_TRUE(status);
  EXPECT_EQ(status->how, ExitStatus::How::kSignal);
  EXPECT_EQ(status->value, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST(ProcessWatchTest, StoppedIsNotEnded) {
  const pid_t pid = Spawn([] {
    for (;;) {
      pause();
    }
    return 0;
  });
  ProcessWatch watch(IdentityOf(pid));
  kill(pid, SIGSTOP);
  EXPECT_TRUE(Eventually([&] {
    // A sanitizer may run a thread of its own in the child.
    const std::vector<TaskState> tasks = ReadTasks(pid);
    return !tasks.empty() && std::all_of(tasks.begin(), tasks.end(), [](const TaskState& task) {
      return task.stat.state == 'T';
    });
  }));
  EXPECT_FALSE(watch.Ended());
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(watch.Ended());
}

TEST(ProcessWatchTest, AnotherProcessOfThatNumberIsNotIt) {
  ProcessIdentity identity = IdentityOf(getpid());
  ++identity.start;
  ProcessWatch watch(identity);
  EXPECT_TRUE(watch.Ended());
  EXPECT_FALSE(watch.KernelExitStatus());
  ProcessWatch none({.pid = 999'999'999, .start = 1});
  EXPECT_TRUE(none.Ended());
}

TEST(ExitNotesTest, OldNotesAreOfAnotherProcess) {
  ExitNotes notes;
  notes.Note(5, 0, 100);
  EXPECT_FALSE(notes.Take(5, 101));
  EXPECT_EQ(notes.Take(5, 100), 0);
  EXPECT_FALSE(notes.Take(5, 100)) << "taken";
  EXPECT_EQ(FromWaitStatus(3 << 8).value, 3);
  EXPECT_EQ(FromWaitStatus(9).how, ExitStatus::How::kSignal);
}

TEST(RingDirWatchTest, FindsWhatIsThereAndWhatComes) {
  TemporaryDir dir;
  std::ofstream(dir.path() + "/1.1.ring") << "x";
  std::ofstream(dir.path() + "/notes.txt") << "x";
  auto watch = RingDirWatch::Open(dir.path());
  ASSERT_TRUE(watch.ok());
  EXPECT_EQ((*watch)->Poll(), std::vector<std::string>{"1.1.ring"});
  EXPECT_TRUE((*watch)->Poll().empty() || (*watch)->fd() < 0);
  std::ofstream(dir.path() + "/2.2.ring.tmp") << "x";
  EXPECT_EQ(rename((dir.path() + "/2.2.ring.tmp").c_str(), (dir.path() + "/2.2.ring").c_str()), 0);
  const std::vector<std::string> names = (*watch)->Poll();
  EXPECT_NE(std::find(names.begin(), names.end(), "2.2.ring"), names.end());
  EXPECT_EQ(RingDirWatch::Open(dir.path() + "/none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(RingDirWatch::Open(dir.path() + "/notes.txt").status().code(),
            StatusCode::kInvalidArgument);
}

TEST(LibraryThreadTest, ByNameUnlessTheApplicationIsNamedSo) {
  for (const char* name : {"gordian-watch", "emu-gpu0", "NCCL Progress 0", "NCCL Service 0",
                           "cuda-EvtHandlr", "cuda00001400006"}) {
    EXPECT_TRUE(IsLibraryThread(name, "python3", "/usr/bin/python3")) << name;
  }
  for (const char* name : {"python3", "pt_autograd_0", "nccl_tests", "cuda", "NCCLbench", ""}) {
    EXPECT_FALSE(IsLibraryThread(name, "python3", "/usr/bin/python3")) << name;
  }
  // Threads inherit the name of the program: nothing can be said there.
  EXPECT_FALSE(IsLibraryThread("emu-train", "emu-train", "/home/me/emu-train"));
  EXPECT_FALSE(IsLibraryThread("emu-train", "renamed", "/home/me/emu-train"));
  EXPECT_FALSE(IsLibraryThread("emu-gpu0", "emu-train", "/usr/bin/python3"));
}

}  // namespace
}  // namespace gordian::collector
