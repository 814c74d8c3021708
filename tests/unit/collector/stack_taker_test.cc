// Stacks of real processes, native and Python, that must not notice.
#include "collector/stacks/stack_taker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "collector/process/proc_reader.h"
#include "collector/process/thread_sleep.h"
#include "proto/ring/record.h"

namespace gordian::collector {
namespace {

// A child with pipes at both ends.
class Child {
 public:
  explicit Child(const std::vector<std::string>& command) {
    int in[2], out[2];
    EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      std::vector<char*> argv;
      for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (to_ >= 0) close(to_);
    close(from_);
  }

  std::string Line() {
    std::string line;
    for (char c; read(from_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  // Ends its input; what it says then. `status` as waitpid has it.
  std::string End(int* status) {
    close(to_);
    to_ = -1;
    const std::string last = Line();
    waitpid(pid_, status, 0);
    pid_ = -1;
    return last;
  }
  pid_t pid() const { return pid_; }

  std::vector<StackThread> Threads() const {
    std::vector<StackThread> out;
    for (const TaskState& task : ReadTasks(pid_)) {
      out.push_back({.tid = task.tid, .name = task.stat.name});
    }
    return out;
  }
  v1::StacksTaken Take() const { return TakeStacks(pid_, Threads()); }
  bool AllUntraced() const {
    for (const TaskState& task : ReadTasks(pid_)) {
      if (task.stat.state == 't' || task.stat.state == 'T') return false;
    }
    return true;
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
};

int PlaceOf(const google::protobuf::RepeatedPtrField<v1::StackFrame>& frames,
            const std::string& function) {
  for (int i = 0; i < frames.size(); ++i) {
    if (frames[i].function() == function) return i;
  }
  return -1;
}

const v1::ThreadStack* Of(const v1::StacksTaken& taken, pid_t tid) {
  for (const v1::ThreadStack& thread : taken.threads()) {
    if (thread.tid() == static_cast<uint32_t>(tid)) return &thread;
  }
  return nullptr;
}

TEST(StackTaker, NativeStacksOfAllThreadsAndNobodyNotices) {
  Child child({STACK_TARGET, "still"});
  ASSERT_EQ(child.Line(), "ready");
  std::string epoll_note;
  int seen = 0;
  for (int i = 0; i < 10'000 && seen < 50; ++i) {
    const v1::StacksTaken taken = child.Take();
    ASSERT_EQ(taken.native_refused(), "") << "no permission to trace one's own child?";
    ASSERT_EQ(taken.threads_size(), 3);
    const v1::ThreadStack* const main = Of(taken, child.pid());
    ASSERT_NE(main, nullptr);
    const int inner = PlaceOf(main->native(), "Inner"), outer = PlaceOf(main->native(), "Outer");
    if (inner < 0 && seen == 0) continue;  // still on its way into the call
    ASSERT_GE(inner, 0) << main->DebugString();
    ++seen;
    EXPECT_EQ(outer, inner + 1) << main->DebugString();
    EXPECT_GT(PlaceOf(main->native(), "main"), outer);
    EXPECT_NE(main->native(inner).file().find("stack_target.cc"), std::string::npos);
    EXPECT_GT(main->native(inner).line(), 0);
    for (const v1::ThreadStack& thread : taken.threads()) {
      if (thread.native_note().find("epoll_wait") != std::string::npos) {
        epoll_note = thread.native_note();
        EXPECT_TRUE(thread.native().empty());
      }
    }
    EXPECT_TRUE(child.AllUntraced());
  }
  EXPECT_EQ(seen, 50);
  EXPECT_NE(epoll_note, "") << "the thread in epoll_wait is named";
  int status = -1;
  EXPECT_EQ(child.End(&status), "noticed 0, worked 1");
  EXPECT_EQ(status, 0);
}

// A site is a return address in the process; the lines come from the file that its own line table
// names.
TEST(StackTaker, PlacesOfCallSitesComeWithTheirSource) {
  Child child({STACK_TARGET, "still"});
  ASSERT_EQ(child.Line(), "ready");
  const std::vector<pid_t> main = {child.pid()};
  std::vector<SiteToPlace> sites;
  int line = 0;
  for (int i = 0; i < 10'000 && sites.empty(); ++i) {
    const std::vector<NativeStack> stacks = ReadNativeStacks(child.pid(), main);
    for (const NativeFrame& frame : stacks.front().frames) {
      if (frame.function != "Outer") continue;
      line = frame.line;
      sites = {{.site = frame.address + 1}, {.site = frame.address + 1}, {.site = 1}};
    }
  }
  ASSERT_FALSE(sites.empty());
  const std::string script = testing::TempDir() + "site." + std::to_string(getpid()) + ".py";
  std::ofstream(script) << "first\nsecond\n";
  sites.push_back({.site = ring::kTextSite | 1, .text = script + "\n2\nstep\nall_reduce"});
  sites.push_back({.site = ring::kTextSite | 2, .text = ""});
  const v1::StacksTaken taken = TakeStacks(child.pid(), {}, {}, sites);
  unlink(script.c_str());
  ASSERT_EQ(taken.sites_size(), 3) << taken.DebugString();
  const v1::SitePlace& native = taken.sites(0);
  EXPECT_EQ(native.site(), sites[0].site);
  EXPECT_EQ(native.function(), "Outer");
  EXPECT_TRUE(native.file().ends_with("stack_target.cc")) << native.file();
  EXPECT_EQ(native.line(), line);
  const int at = native.line() - native.first_line();
  ASSERT_GT(native.lines_size(), at);
  EXPECT_NE(native.lines(at).find("Inner()"), std::string::npos) << native.DebugString();
  EXPECT_TRUE(taken.sites(1).lines().empty()) << "each place's lines once";
  EXPECT_EQ(taken.sites(1).line(), line);
  EXPECT_EQ(taken.sites(2).file(), script);
  ASSERT_EQ(taken.sites(2).lines_size(), 2);
  EXPECT_EQ(taken.sites(2).lines(1), "second");
}

TEST(StackTaker, ThreadsThatComeAndGoAreTakenTwoHundredTimes) {
  Child child({STACK_TARGET, "churn"});
  ASSERT_EQ(child.Line(), "ready");
  size_t frames = 0;
  for (int i = 0; i < 200; ++i) {
    const v1::StacksTaken taken = child.Take();
    for (const v1::ThreadStack& thread : taken.threads()) {
      frames += static_cast<size_t>(thread.native_size());
    }
  }
  EXPECT_GT(frames, 200u);
  int status = -1;
  EXPECT_EQ(child.End(&status), "noticed 0, worked 1");
  EXPECT_EQ(status, 0);
}

TEST(StackTaker, WithoutPermissionTheReasonIsNamed) {
  Child child({STACK_TARGET, "hidden"});
  ASSERT_EQ(child.Line(), "ready");
  // In a child without any capability: who runs this may be root.
  const pid_t reader = fork();
  if (reader == 0) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct none[2] = {};
    if (syscall(SYS_capset, &header, none) != 0) _exit(2);
    const std::vector<StackThread> threads = {{.tid = child.pid(), .name = "main"}};
    const v1::StacksTaken taken = TakeStacks(child.pid(), threads);
    _exit(taken.threads_size() == 1 && taken.threads(0).native().empty() &&
                  taken.native_refused().find("not permitted") != std::string::npos
              ? 0
              : 1);
  }
  int status = -1;
  waitpid(reader, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(child.End(&status), "noticed 0, worked 1");
}

TEST(StackTaker, AThreadIsLetGoWhenItsReaderIsKilled) {
  Child child({STACK_TARGET, "still"});
  ASSERT_EQ(child.Line(), "ready");
  for (int i = 0; i < 20; ++i) {
    int ready[2];
    ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
    const pid_t reader = fork();
    if (reader == 0) {
      const char byte = 0;
      for (bool told = false;; told = true) {
        child.Take();
        if (!told && write(ready[1], &byte, 1) != 1) _exit(1);
      }
    }
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    usleep(static_cast<useconds_t>(i * 97));  // somewhere in a taking
    kill(reader, SIGKILL);
    waitpid(reader, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
    EXPECT_TRUE(child.AllUntraced());
  }
  int status = -1;
  EXPECT_EQ(child.End(&status), "noticed 0, worked 1");
  EXPECT_EQ(status, 0);
}

TEST(StackTaker, AnswersWithADoneEvenForProcessesThatAreGone) {
  std::atomic<int> called = 0;
  StackTaker taker([&called] { ++called; });
  Child child({STACK_TARGET, "still"});
  ASSERT_EQ(child.Line(), "ready");
  const std::optional<TaskStat> stat = ReadProcessStat(child.pid());
  ASSERT_TRUE(stat);
  const StackTarget target{.process = 5,
                           .identity = {.pid = child.pid(), .start = stat->start},
                           .threads = child.Threads()};
  StackTarget other = target;
  other.process = 6;
  other.identity.start += 1;  // another process of that number
  taker.Ask(17, {target, other});
  std::vector<v1::Event> events;
  while (events.empty() || !events.back().has_stacks_done()) {
    std::vector<v1::Event> more = taker.Results();
    events.insert(events.end(), more.begin(), more.end());
    usleep(1000);
  }
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].stacks_taken().process(), 5u);
  EXPECT_EQ(events[0].stacks_taken().request(), 17u);
  EXPECT_EQ(events[0].stacks_taken().threads_size(), 3);
  EXPECT_EQ(events[1].stacks_done().request(), 17u);
  EXPECT_EQ(called, 2);
}

// Python: with the interpreter at hand, and those of GORDIAN_TEST_PYTHONS.
std::vector<std::string> Interpreters() {
  std::vector<std::string> out = {"python3"};
  const char* const named = getenv("GORDIAN_TEST_PYTHONS");
  std::string more = named != nullptr ? named : "";
  while (!more.empty()) {
    const size_t end = std::min(more.find(':'), more.size());
    out.push_back(more.substr(0, end));
    more.erase(0, end + 1);
  }
  return out;
}

class PythonTarget : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (system((GetParam() + " -c 'import sys; sys.exit(sys.version_info < (3, 11) or "
                             "sys.version_info >= (3, 14))' 2>/dev/null")
                   .c_str()) != 0) {
      GTEST_SKIP() << GetParam() << " is not there, or not one that can be read";
    }
  }
  Child Start(const std::string& script) { return Child({GetParam(), "-c", script}); }
};

constexpr char kStill[] = R"(import sys, threading
def inner(n):
    if n:
        return inner(n - 1)
    event.set()
    sys.stdin.read()

class Trainer:
    def step(self):
        list(map(lambda n: inner(n), [2]))

def wait():
    barrier.wait()

event, barrier = threading.Event(), threading.Barrier(2)
thread = threading.Thread(target=wait, name="w\u00e9")
thread.start()
def tell():
    event.wait()
    print("ready", flush=True)
threading.Thread(target=tell).start()
Trainer().step()
barrier.wait()
thread.join()
print("fine")
)";

TEST_P(PythonTarget, FramesLinesAndEntriesAreThoseOfTheProgram) {
  Child child = Start(kStill);
  ASSERT_EQ(child.Line(), "ready");
  bool seen_main = false, seen_wait = false;
  for (int i = 0; i < 100 && !(seen_main && seen_wait); ++i) {
    const v1::StacksTaken taken = child.Take();
    EXPECT_EQ(taken.python_refused(), "");
    EXPECT_NE(taken.python_module(), "");
    for (const v1::ThreadStack& thread : taken.threads()) {
      const int step = PlaceOf(thread.python(), "Trainer.step");
      if (step >= 0) {
        ASSERT_EQ(thread.python_size(), step + 2) << thread.DebugString();
        EXPECT_EQ(thread.python(step).line(), 10);
        EXPECT_EQ(thread.python(step).file(), "<string>");
        EXPECT_FALSE(thread.python(step).entry());
        EXPECT_EQ(thread.python(step - 1).function(), "Trainer.step.<locals>.<lambda>");
        EXPECT_TRUE(thread.python(step - 1).entry()) << "called by map, which is C";
        EXPECT_EQ(thread.python(step - 2).line(), 4);
        EXPECT_EQ(thread.python(step - 4).function(), "inner");
        EXPECT_EQ(thread.python(step - 4).line(), 6);
        EXPECT_EQ(thread.python(step + 1).line(), 22);
        EXPECT_TRUE(thread.python(step + 1).entry());
        const auto evaluations =
            std::count_if(thread.native().begin(), thread.native().end(), [](const auto& frame) {
              return frame.function().starts_with("_PyEval_EvalFrameDefault");
            });
        const auto entries = std::count_if(thread.python().begin(), thread.python().end(),
                                           [](const auto& frame) { return frame.entry(); });
        EXPECT_EQ(evaluations, entries) << thread.DebugString();
        seen_main = true;
      }
      const int wait = PlaceOf(thread.python(), "wait");
      seen_wait |= wait >= 0 && thread.python(wait).line() == 13;
    }
  }
  EXPECT_TRUE(seen_main);
  EXPECT_TRUE(seen_wait);
  int status = -1;
  EXPECT_EQ(child.End(&status), "fine");
  EXPECT_EQ(status, 0);
}

constexpr char kChurn[] = R"(import sys, threading, time
stop, wrong, rounds = False, 0, 0
def deep(n):
    return 0 if n == 0 else n + deep(n - 1)
def work(n):
    global wrong
    gen = (deep(k) for k in range(n))
    if sum(gen) != sum(k * (k + 1) // 2 for k in range(n)):
        wrong += 1
    time.sleep(0.0005)
def churn():
    global rounds
    while not stop:
        threads = [threading.Thread(target=work, args=(20 + k,)) for k in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        rounds += 1
churner = threading.Thread(target=churn)
churner.start()
print("ready", flush=True)
sys.stdin.read()
stop = True
churner.join()
print("wrong", wrong, "worked", rounds > 0)
)";

TEST_P(PythonTarget, ThreadsThatComeAndGoAreTakenTwoHundredTimes) {
  Child child = Start(kChurn);
  ASSERT_EQ(child.Line(), "ready");
  size_t frames = 0;
  for (int i = 0; i < 200; ++i) {
    const v1::StacksTaken taken = child.Take();
    for (const v1::ThreadStack& thread : taken.threads()) {
      frames += static_cast<size_t>(thread.python_size());
    }
  }
  EXPECT_GT(frames, 200u);
  int status = -1;
  EXPECT_EQ(child.End(&status), "wrong 0 worked True");
  EXPECT_EQ(status, 0);
}

constexpr char kMonitors[] = R"py(
import os, runpy, sys, tempfile, threading
source = """import threading
class TMonitor(threading.Thread):
    def run(self):
        if self.inner:
            self.inner(self)
        else:
            self.never.wait(1000)
"""
with tempfile.TemporaryDirectory() as folder:
    def monitor(package, inner=None):
        path = os.path.join(folder, package, "_monitor.py")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(source)
        made = runpy.run_path(path)["TMonitor"](daemon=True)
        made.never, made.inner = threading.Event(), inner
        return made
    called = monitor("tqdm")
    threads = [monitor("tqdm"), monitor("mytqdm"), monitor("tqdm", lambda one: one.never.wait(1000)),
               threading.Thread(target=lambda: called.run(), daemon=True)]
    for thread in threads:
        thread.start()
    print(*(thread.native_id for thread in threads), flush=True)
    sys.stdin.read()
)py";

// Not so: another file, one that refreshes a bar, and a function that has called run().
TEST_P(PythonTarget, TqdmsMonitorIsIdleBetweenItsLooks) {
  Child child = Start(kMonitors);
  std::istringstream line(child.Line());
  std::vector<pid_t> tids;
  for (pid_t tid; line >> tid;) tids.push_back(tid);
  ASSERT_EQ(tids.size(), 4u);
  const std::vector<bool> expected = {true, false, false, false};
  ThreadSleeps sleeps(child.pid());
  std::map<pid_t, bool> idle;
  for (int tries = 0; tries < 100 && idle.size() < tids.size(); ++tries) {
    const std::vector<TaskState> tasks = ReadTasks(child.pid());
    sleeps.Begin(tasks);
    for (const TaskState& task : tasks) {
      if (task.stat.state != 'S') continue;
      const ThreadSleeps::Look look = sleeps.Of(task);
      if (look.library || look.sleep == ThreadSleep::kOutside) idle[task.tid] = look.library;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (size_t i = 0; i < tids.size(); ++i) EXPECT_EQ(idle[tids[i]], expected[i]) << i;
  int status = 0;
  child.End(&status);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(StackTaker, PythonTarget, ::testing::ValuesIn(Interpreters()));

}  // namespace
}  // namespace gordian::collector
