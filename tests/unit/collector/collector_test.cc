#include "collector/collector.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "collector/process/proc_reader.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/record_block.h"
#include "common/version.h"
#include "proto/ring/calls.h"
#include "tests/unit/collector/fake_ingest.h"
#include "tests/unit/collector/fake_shim.h"

extern char** environ;

namespace gordian::collector {
namespace {

using testing_support::FakeIngest;
using testing_support::FakeShim;
using testing_support::TemporaryDir;
using Events = std::vector<v1::Event>;

constexpr uint64_t kPatienceNs = 20 * kNsPerSecond;

class CollectorTest : public testing::Test {
 protected:
  void SetUp() override {
    SilenceLog();
    Restart(OptionsHere());
  }
  void TearDown() override {
    for (const pid_t pid : children_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  Collector::Options OptionsHere() {
    Collector::Options options;
    options.ring_dir = rings_.path();
    options.session_dir = session_.path();
    options.host = "here";
    options.command_line = "fake_job";
    options.environment = {"NCCL_DEBUG=WARN"};
    options.channel = ingest_.Channel();
    // A machine that is busy with other things is late with everything; that is no failure here.
    // A test in which nobody answers, tells or comes sets its own.
    options.round_answer_ns = kPatienceNs;
    options.exit_status_grace_ns = kPatienceNs;
    options.unready_ns = kPatienceNs;
    options.stop_ns = kPatienceNs;
    return options;
  }
  void Restart(Collector::Options options) {
    collector_ = std::make_unique<Collector>(std::move(options));
  }
  void Start() {
    const Status status = collector_->Start();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  void Stop() {
    const Status status = collector_->Stop();
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(ingest_.faults(), "");
  }

  // Starts fake_job; with `await_ready` waits until it says so.
  pid_t Spawn(std::vector<std::string> arguments, bool await_ready = false) {
    int out[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    std::vector<char*> argv;
    std::string program = FAKE_JOB;
    arguments.insert(arguments.begin(), {program, rings_.path()});
    for (std::string& argument : arguments) {
      argv.push_back(argument.data());
    }
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    pid_t pid = -1;
    EXPECT_EQ(posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    if (await_ready) {
      char text[6];
      EXPECT_EQ(read(out[0], text, sizeof(text)), 6);
    }
    close(out[0]);
    children_.push_back(pid);
    return pid;
  }
  int Reap(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    std::erase(children_, pid);
    return status;
  }

  static const v1::ProcessStarted* StartedOf(const Events& events, pid_t pid, int which = 0) {
    for (const v1::Event& event : events) {
      if (event.has_process_started() &&
          event.process_started().pid() == static_cast<uint32_t>(pid) && which-- == 0) {
        return &event.process_started();
      }
    }
    return nullptr;
  }
  static const v1::ProcessEnded* EndedOf(const Events& events, uint32_t process) {
    for (const v1::Event& event : events) {
      if (event.has_process_ended() && event.process_ended().process() == process) {
        return &event.process_ended();
      }
    }
    return nullptr;
  }
  static const v1::Round* RoundOf(const Events& events, uint64_t number) {
    for (const v1::Event& event : events) {
      if (event.has_round() && event.round().round() == number) {
        return &event.round();
      }
    }
    return nullptr;
  }
  static size_t CountEnded(const Events& events) {
    return static_cast<size_t>(std::count_if(
        events.begin(), events.end(), [](const v1::Event& e) { return e.has_process_ended(); }));
  }
  static v1::OsState OsStateOf(const v1::ProcessState& state, pid_t tid) {
    for (const v1::ThreadState& thread : state.threads()) {
      if (thread.tid() == static_cast<uint32_t>(tid)) {
        return thread.os_state();
      }
    }
    return v1::OS_STATE_UNSPECIFIED;
  }
  // The state of the only process, in a round asked for now.
  v1::ProcessState AskState(uint64_t round) {
    ingest_.AskRound(round);
    EXPECT_TRUE(ingest_.Await([&](const Events& e) { return RoundOf(e, round) != nullptr; }));
    const Events events = ingest_.events();
    const v1::Round* const found = RoundOf(events, round);
    EXPECT_NE(found, nullptr);
    EXPECT_EQ(found->processes_size(), 1);
    return found->processes_size() == 1 ? found->processes(0) : v1::ProcessState();
  }

  TemporaryDir rings_;
  TemporaryDir session_;
  FakeIngest ingest_;
  std::vector<pid_t> children_;
  std::unique_ptr<Collector> collector_;
};

TEST_F(CollectorTest, SaysHelloAndNamesCalls) {
  Start();
  ASSERT_TRUE(
      ingest_.Await([](const Events& e) { return e.size() >= ring::kEveryCallCount - 1u; }));
  Stop();
  ASSERT_EQ(ingest_.hellos().size(), 1u);
  const v1::Hello hello = ingest_.hellos()[0];
  EXPECT_EQ(hello.protocol(), kIngestProtocol);
  EXPECT_EQ(hello.host(), "here");
  EXPECT_EQ(hello.command_line(), "fake_job");
  EXPECT_EQ(hello.environment(0), "NCCL_DEBUG=WARN");
  EXPECT_GT(hello.now_real_ns(), hello.now_mono_ns());
  EXPECT_EQ(hello.session(), std::filesystem::path(session_.path()).filename());
  std::map<uint32_t, std::string> names;
  for (const v1::Event& event : ingest_.events()) {
    names[event.call_name().call()] = event.call_name().symbol();
  }
  EXPECT_EQ(names[ring::kCall_ncclAllReduce], "ncclAllReduce");
  EXPECT_EQ(names.size(), ring::kEveryCallCount - 1u);
}

TEST_F(CollectorTest, EveryRecordOfAProcessArrivesInOrderAndBeforeItsEnd) {
  constexpr uint64_t kRecords = 20'000;
  constexpr uint32_t kThreads = 3;
  Start();
  const pid_t pid = Spawn({"write", std::to_string(kRecords), std::to_string(kThreads), "7"});
  ASSERT_TRUE(ingest_.Await([](const Events& e) { return CountEnded(e) == 1; }));
  collector_->NoteExit(pid, Reap(pid));
  collector_->JobEnded(v1::EXIT_KIND_CODE, 7, false);
  Stop();

  const Events events = ingest_.events();
  const v1::ProcessStarted* const started = StartedOf(events, pid);
  ASSERT_NE(started, nullptr);
  EXPECT_EQ(started->executable(), std::filesystem::canonical(FAKE_JOB));
  EXPECT_NE(started->command_line().find("write 20000 3 7"), std::string::npos);
  EXPECT_EQ(started->env_rank(), 3);
  EXPECT_EQ(started->env_world_size(), 4);
  EXPECT_EQ(started->env_local_rank(), 1);
  EXPECT_EQ(started->shim_build_id(), "fake 1");
  EXPECT_TRUE(started->markers_enabled());

  std::map<uint32_t, uint64_t> next;
  std::vector<std::pair<uint64_t, uint64_t>> modules;
  uint64_t call_site = 0;
  bool over = false;
  for (const v1::Event& event : events) {
    if (event.has_records()) {
      EXPECT_FALSE(over) << "a record after the end";
      ForEachRecord(event.records(), [&](const ring::Record& record) {
        EXPECT_EQ(record.payload.work.ordinal, ++next[record.thread]);
        call_site = record.call_site;
        EXPECT_GT(record.ticks, 0u);
      });
    } else if (event.has_process_ended()) {
      over = true;
    } else if (event.has_module()) {
      modules.emplace_back(event.module().start(), event.module().end());
    }
  }
  ASSERT_EQ(next.size(), kThreads);
  for (const auto& [thread, count] : next) {
    EXPECT_EQ(count, kRecords);
  }
  EXPECT_TRUE(std::any_of(modules.begin(), modules.end(), [&](const auto& module) {
    return call_site >= module.first && call_site < module.second;
  })) << "the call site lies in a module";
  const v1::ProcessEnded* const ended = EndedOf(events, started->process());
  ASSERT_NE(ended, nullptr);
  EXPECT_EQ(ended->kind(), v1::EXIT_KIND_CODE);
  EXPECT_EQ(ended->exit_value(), 7);
  ASSERT_TRUE(events.back().has_job_ended());
  EXPECT_EQ(events.back().job_ended().exit_value(), 7);
  const Collector::Stats stats = collector_->stats();
  EXPECT_EQ(stats.records, kRecords * kThreads);
  EXPECT_EQ(stats.bad_records, 0u);
  // The ring file is in the session, and no longer in memory.
  EXPECT_TRUE(std::filesystem::is_empty(rings_.path()));
  size_t kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator(session_.path() + "/rings")) {
    EXPECT_FALSE(std::filesystem::is_symlink(entry.path()));
    EXPECT_GT(entry.file_size(), 0u);
    ++kept;
  }
  EXPECT_EQ(kept, 1u);
}

TEST_F(CollectorTest, ProcessThatWasDeadBeforeWeLooked) {
  const pid_t pid = Spawn({"write", "100", "1", "3"});
  const int status = Reap(pid);
  Start();
  collector_->NoteExit(pid, status);
  ASSERT_TRUE(ingest_.Await([](const Events& e) { return CountEnded(e) == 1; }));
  Stop();
  const Events events = ingest_.events();
  const v1::ProcessStarted* const started = StartedOf(events, pid);
  ASSERT_NE(started, nullptr);
  const v1::ProcessEnded* const ended = EndedOf(events, started->process());
  ASSERT_NE(ended, nullptr);
  EXPECT_EQ(ended->kind(), v1::EXIT_KIND_CODE);
  EXPECT_EQ(ended->exit_value(), 3);
  EXPECT_EQ(collector_->stats().records, 100u);
}

TEST_F(CollectorTest, NobodyKnowsHowItEnded) {
  Collector::Options options = OptionsHere();
  options.exit_status_grace_ns = 50 * kNsPerMs;
  Restart(std::move(options));
  const pid_t pid = Spawn({"write", "1", "1", "3"});
  Reap(pid);  // and tells nobody
  Start();
  ASSERT_TRUE(ingest_.Await([](const Events& e) { return CountEnded(e) == 1; }));
  Stop();
  EXPECT_EQ(EndedOf(ingest_.events(), 1)->kind(), v1::EXIT_KIND_UNKNOWN);
}

TEST_F(CollectorTest, RoundShowsStateAfterTheRecords) {
  Start();
  const pid_t pid = Spawn({"hang"}, /*await_ready=*/true);
  ASSERT_TRUE(ingest_.Await([&](const Events& e) { return StartedOf(e, pid) != nullptr; }));
  // It says "ready" on its way to sleep: ask until it has arrived.
  uint64_t number = 11;
  v1::ProcessState state = AskState(number);
  for (const uint64_t end = MonoNs() + kPatienceNs;
       OsStateOf(state, pid) != v1::OS_STATE_SLEEPING && MonoNs() < end;) {
    state = AskState(++number);
  }
  EXPECT_TRUE(state.alive());
  EXPECT_TRUE(state.answered());
  EXPECT_FALSE(state.stopped());
  EXPECT_EQ(state.nccl_calls(), 5u);
  EXPECT_EQ(state.not_visible_size(), 0) << state.not_visible(0);
  ASSERT_EQ(state.streams_size(), 1);
  EXPECT_EQ(state.streams(0).enqueued(), 4u);
  EXPECT_EQ(state.streams(0).done(), 3u);
  ASSERT_EQ(state.comms_size(), 1);
  EXPECT_EQ(state.comms(0).next_sequence(), 4u);
  int with_slot = 0, bystanders = 0, watchers = 0;
  for (const v1::ThreadState& thread : state.threads()) {
    if (thread.thread() != 0) {
      ++with_slot;
      EXPECT_EQ(thread.thread(), 1u);
      EXPECT_EQ(thread.tid(), static_cast<uint32_t>(pid));
      EXPECT_EQ(thread.call(), ring::kCall_cudaStreamSynchronize);
      EXPECT_EQ(thread.call_order(), 1u);
      EXPECT_EQ(thread.entered(), 1u);
      EXPECT_EQ(thread.published(), 1u);
      EXPECT_EQ(thread.collected(), 1u);
      EXPECT_TRUE(thread.gpu_thread());
      EXPECT_GT(thread.since_ns(), 0u);
      EXPECT_EQ(thread.os_state(), v1::OS_STATE_SLEEPING);
      EXPECT_FALSE(thread.library_thread());
      EXPECT_GT(thread.context_switches(), 0u);
    } else if (thread.library_thread()) {
      EXPECT_EQ(thread.name(), "gordian-watch");
      ++watchers;
    } else {
      ++bystanders;
    }
  }
  EXPECT_EQ(with_slot, 1);
  EXPECT_EQ(watchers, 1);
  EXPECT_EQ(bystanders, 1);
  // On the wire: the record came before the round.
  bool record_seen = false;
  for (const v1::Event& event : ingest_.events()) {
    record_seen = record_seen || event.has_records();
    if (event.has_round()) {
      EXPECT_TRUE(record_seen);
      EXPECT_LE(event.round().begin_ns(), event.round().end_ns());
    }
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(AskState(++number).answered()) << number;
  }
  Stop();
  EXPECT_GE(collector_->stats().rounds, 21u);
}

TEST_F(CollectorTest, EightProcessesAnswerEveryRound) {
  Start();
  for (int i = 0; i < 8; ++i) {
    Spawn({"hang"}, true);
  }
  ASSERT_TRUE(ingest_.Await([&](const Events& e) {
    return std::count_if(e.begin(), e.end(),
                         [](const v1::Event& x) { return x.has_process_started(); }) == 8;
  }));
  std::vector<uint64_t> took_us;
  for (uint64_t number = 1; number <= 20; ++number) {
    ingest_.AskRound(number);
    ASSERT_TRUE(ingest_.Await([&](const Events& e) { return RoundOf(e, number) != nullptr; }));
    const Events events = ingest_.events();
    const v1::Round* const round = RoundOf(events, number);
    ASSERT_EQ(round->processes_size(), 8);
    for (const v1::ProcessState& state : round->processes()) {
      EXPECT_TRUE(state.alive());
      EXPECT_TRUE(state.answered()) << "round " << number << ", process " << state.process();
    }
    took_us.push_back((round->end_ns() - round->begin_ns()) / kNsPerUs);
  }
  Stop();
  // No bound on the time: the machine may be busy. The report of the test has it.
  std::sort(took_us.begin(), took_us.end());
  RecordProperty("median_round_us", static_cast<int>(took_us[took_us.size() / 2]));
  std::printf("median round of 8 processes: %lu us\n", took_us[took_us.size() / 2]);
}

TEST_F(CollectorTest, WatchersThatDoNotAnswer) {
  Collector::Options options = OptionsHere();
  options.round_answer_ns = 100 * kNsPerMs;
  Restart(std::move(options));
  Start();
  const pid_t deaf = Spawn({"hang", "deaf"}, true);
  ASSERT_TRUE(ingest_.Await([&](const Events& e) { return StartedOf(e, deaf) != nullptr; }));
  const uint64_t begin = MonoNs();
  const v1::ProcessState state = AskState(1);
  EXPECT_FALSE(state.answered());
  EXPECT_TRUE(state.alive());
  EXPECT_GE(MonoNs() - begin, 100 * kNsPerMs);
  Stop();
}

TEST_F(CollectorTest, NoWatcherButWorkInFlight) {
  Start();
  const pid_t pid = Spawn({"hang", "nowatcher"}, true);
  ASSERT_TRUE(ingest_.Await([&](const Events& e) { return StartedOf(e, pid) != nullptr; }));
  EXPECT_FALSE(AskState(1).answered());
  Stop();
}

TEST_F(CollectorTest, StoppedContinuedKilled) {
  Start();
  const pid_t pid = Spawn({"hang"}, true);
  ASSERT_TRUE(ingest_.Await([&](const Events& e) { return StartedOf(e, pid) != nullptr; }));
  kill(pid, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, WUNTRACED), pid);
  v1::ProcessState state = AskState(1);
  EXPECT_TRUE(state.stopped());
  EXPECT_FALSE(state.answered());
  EXPECT_TRUE(state.alive());
  kill(pid, SIGCONT);
  state = AskState(2);
  EXPECT_FALSE(state.stopped());
  EXPECT_TRUE(state.answered());
  kill(pid, SIGKILL);
  ASSERT_TRUE(ingest_.Await([](const Events& e) { return CountEnded(e) == 1; }));
  collector_->NoteExit(pid, Reap(pid));
  Stop();
  const Events events = ingest_.events();
  const v1::ProcessEnded* const ended = EndedOf(events, StartedOf(events, pid)->process());
  EXPECT_EQ(ended->kind(), v1::EXIT_KIND_SIGNAL);
  EXPECT_EQ(ended->exit_value(), SIGKILL);
}

TEST_F(CollectorTest, ExecIsAnEndAndABeginning) {
  Start();
  const pid_t pid = Spawn({"exec"});
  ASSERT_TRUE(ingest_.Await([](const Events& e) { return CountEnded(e) == 2; }));
  Reap(pid);
  Stop();
  const Events events = ingest_.events();
  const v1::ProcessStarted* const first = StartedOf(events, pid, 0);
  const v1::ProcessStarted* const second = StartedOf(events, pid, 1);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first->process(), second->process());
  std::map<uint32_t, uint64_t> records;
  for (const v1::Event& event : events) {
    ForEachRecord(event.records(), [&](const ring::Record& record) {
      records[event.records().process()] += record.payload.work.ordinal;
    });
  }
  EXPECT_EQ(records[first->process()], 1u);
  EXPECT_EQ(records[second->process()], 2u);
}

TEST_F(CollectorTest, ExecBeforeWeLooked) {
  const pid_t pid = Spawn({"exec"});
  const int status = Reap(pid);
  Start();
  collector_->NoteExit(pid, status);
  ASSERT_TRUE(ingest_.Await([](const Events& e) { return CountEnded(e) == 2; }));
  Stop();
  const Events events = ingest_.events();
  std::map<uint64_t, const v1::ProcessEnded*> end_by_ordinal;
  for (const v1::Event& event : events) {
    ForEachRecord(event.records(), [&](const ring::Record& record) {
      end_by_ordinal[record.payload.work.ordinal] = EndedOf(events, event.records().process());
    });
  }
  ASSERT_EQ(end_by_ordinal.size(), 2u);
  EXPECT_EQ(end_by_ordinal[1]->kind(), v1::EXIT_KIND_CODE);
  EXPECT_EQ(end_by_ordinal[1]->exit_value(), 0) << "the image that was replaced";
  EXPECT_EQ(end_by_ordinal[2]->kind(), v1::EXIT_KIND_CODE);
  EXPECT_EQ(end_by_ordinal[2]->exit_value(), 5) << "the one that ended";
}

TEST_F(CollectorTest, ManyShortLivedProcesses) {
  constexpr int kProcesses = 200;
  Start();
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t pid = Spawn({"write", "5", "1", std::to_string(i % 100)});
    collector_->NoteExit(pid, Reap(pid));
  }
  ASSERT_TRUE(ingest_.Await([&](const Events& e) { return CountEnded(e) == kProcesses; }));
  collector_->JobEnded(v1::EXIT_KIND_CODE, 0, false);
  Stop();
  std::map<int32_t, int> codes;
  for (const v1::Event& event : ingest_.events()) {
    if (event.has_process_ended()) {
      EXPECT_EQ(event.process_ended().kind(), v1::EXIT_KIND_CODE);
      ++codes[event.process_ended().exit_value()];
    }
  }
  EXPECT_EQ(codes.size(), 100u);
  EXPECT_EQ(codes[42], 2);
  EXPECT_EQ(collector_->stats().records, 5u * kProcesses);
  EXPECT_TRUE(std::filesystem::is_empty(rings_.path()));
}

TEST_F(CollectorTest, HostileFilesAreNamedAndOthersGoOn) {
  Collector::Options options = OptionsHere();
  options.unready_ns = 50 * kNsPerMs;
  Restart(std::move(options));
  const pid_t hostile = Spawn({"none", "0"});  // no ring of its own
  Reap(hostile);
  std::mt19937 random(1);
  std::string garbage(100'000, '\0');
  for (char& c : garbage) {
    c = static_cast<char>(random());
  }
  std::ofstream(rings_.path() + "/123456.1.ring") << garbage;  // of no process
  // Of this process, which lives: it is named in rounds.
  const auto stat = ReadProcessStat(getpid());
  std::ofstream(rings_.path() + "/" + std::to_string(getpid()) + "." + std::to_string(stat->start) +
                ".ring")
      << garbage;
  std::ofstream(rings_.path() + "/README") << "not ours";
  Start();
  const pid_t good = Spawn({"write", "1000", "1", "0"});
  ASSERT_TRUE(ingest_.Await([&](const Events& e) {
    const v1::ProcessStarted* const started = StartedOf(e, good);
    return started != nullptr && EndedOf(e, started->process()) != nullptr &&
           StartedOf(e, getpid()) != nullptr;
  }));
  collector_->NoteExit(good, Reap(good));
  const v1::ProcessState state = AskState(1);
  EXPECT_TRUE(state.alive());
  EXPECT_FALSE(state.answered());
  ASSERT_EQ(state.not_visible_size(), 1);
  EXPECT_NE(state.not_visible(0).find("not a usable ring file"), std::string::npos);
  EXPECT_GT(state.threads_size(), 0);
  for (const uint64_t end = MonoNs() + kPatienceNs;
       collector_->stats().refused_files < 2 && MonoNs() < end;) {
    usleep(500);
  }
  Stop();
  EXPECT_EQ(collector_->stats().refused_files, 2u);
  EXPECT_EQ(collector_->stats().records, 1000u);
  EXPECT_TRUE(std::filesystem::exists(rings_.path() + "/README"));
}

TEST_F(CollectorTest, FileThatIsNotCompleteYet) {
  const auto stat = ReadProcessStat(getpid());
  const std::string name = std::to_string(getpid()) + "." + std::to_string(stat->start) + ".ring";
  Start();
  std::ofstream(rings_.path() + "/" + name) << "half a hea";
  usleep(50'000);  // long enough to be looked at; shorter fails nothing
  FakeShim shim(rings_.path(), getpid(), 64, 1);
  ASSERT_TRUE(ingest_.Await([](const Events& e) { return StartedOf(e, getpid()) != nullptr; }));
  Stop();
  EXPECT_EQ(collector_->stats().refused_files, 0u);
  EXPECT_EQ(collector_->stats().processes, 1u);
}

TEST_F(CollectorTest, RingCutWhileInUse) {
  FakeShim shim(rings_.path(), getpid(), 64, 1);
  shim.AddThread(0, getpid());
  ASSERT_TRUE(shim.Publish(0, FakeShim::Point(1)));
  Start();
  ASSERT_TRUE(ingest_.Await([](const Events& e) {
    return std::any_of(e.begin(), e.end(), [](const v1::Event& x) { return x.has_records(); });
  }));
  ASSERT_EQ(truncate(shim.path().c_str(), 0), 0);
  const v1::ProcessState state = AskState(1);
  ASSERT_GE(state.not_visible_size(), 1);
  EXPECT_NE(state.not_visible(0).find("truncated"), std::string::npos);
  EXPECT_FALSE(state.answered());
  // The writer's own mapping is of the cut file as well: give it back what it needs to end.
  ASSERT_EQ(truncate(shim.path().c_str(), static_cast<off_t>(shim.bytes())), 0);
  Stop();
}

TEST_F(CollectorTest, WithoutAnAnalyzerRingsAreKept) {
  ingest_.RefuseEverybody("not today");
  Start();
  const pid_t pid = Spawn({"write", "500", "1", "0"});
  collector_->NoteExit(pid, Reap(pid));
  collector_->JobEnded(v1::EXIT_KIND_CODE, 0, false);
  const Status status = collector_->Stop();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("not today"), std::string::npos) << status.message();
  EXPECT_TRUE(collector_->stats().uplink_failed);
  EXPECT_FALSE(std::filesystem::is_empty(session_.path() + "/rings"));
  EXPECT_TRUE(std::filesystem::is_empty(rings_.path()));
}

TEST_F(CollectorTest, BadOptions) {
  Collector::Options options = OptionsHere();
  options.ring_dir += "/none";
  EXPECT_EQ(Collector(options).Start().code(), StatusCode::kNotFound);
  options = OptionsHere();
  options.channel = nullptr;
  EXPECT_EQ(Collector(options).Start().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gordian::collector
