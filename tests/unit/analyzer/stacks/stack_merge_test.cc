#include "analyzer/stacks/stack_merge.h"

#include <gtest/gtest.h>

#include "analyzer/report/verdict_json.h"
#include "analyzer/stacks/stack_book.h"
#include "analyzer/stacks/stack_text.h"

namespace gordian::analyzer {
namespace {

constexpr char kPython[] = "/usr/lib/libpython3.12.so.1.0";
constexpr char kLibc[] = "/lib/libc.so.6";
constexpr char kCuda[] = "/cuda/libcudart.so.13";

struct F {
  std::string function, module;
  bool entry = false;
};

v1::ThreadStack Thread(const std::vector<F>& native, const std::vector<F>& python = {}) {
  v1::ThreadStack out;
  out.set_name("python3");
  for (const F& frame : native) {
    v1::StackFrame* const to = out.add_native();
    to->set_function(frame.function);
    to->set_module(frame.module);
  }
  int line = 10;
  for (const F& frame : python) {
    v1::StackFrame* const to = out.add_python();
    to->set_function(frame.function);
    to->set_file(frame.module);
    to->set_line(line++);
    to->set_entry(frame.entry);
  }
  return out;
}

std::vector<std::string> Functions(const std::vector<model::StackFrame>& frames) {
  std::vector<std::string> out;
  for (const model::StackFrame& frame : frames) out.push_back(frame.function);
  return out;
}

using Names = std::vector<std::string>;

TEST(StackMerge, PythonFramesTakeThePlacesOfTheInterpreter) {
  const v1::ThreadStack thread = Thread({{"futex_wait", kLibc},
                                         {"cudaStreamSynchronize", kCuda},
                                         {"ext_sync", "/job/ext.so"},
                                         {"cfunction_call", kPython},
                                         {"_PyEval_EvalFrameDefault", kPython},
                                         {"ext_map", "/job/ext.so"},
                                         {"_PyEval_EvalFrameDefault.cold", kPython},
                                         {"Py_RunMain", kPython},
                                         {"__libc_start_main", kLibc},
                                         {"_start", "/usr/bin/python3"}},
                                        {{"inner", "a.py"},
                                         {"<lambda>", "a.py", true},
                                         {"main", "a.py"},
                                         {"<module>", "a.py", true}});
  EXPECT_EQ(Functions(MergeFrames(thread, kPython)),
            (Names{"futex_wait", "cudaStreamSynchronize", "ext_sync", "inner", "<lambda>",
                   "ext_map", "main", "<module>"}));
}

// The emulator's devices are not the program's, except where one runs its host function.
TEST(StackMerge, AnEmulatedDeviceIsShownOnlyInTheProgramsCode) {
  v1::ThreadStack idle = Thread({{"futex_wait", kLibc}, {"Device::Run", kCuda}});
  v1::ThreadStack works = Thread({{"usleep", kLibc}, {"Poll", "/job/train"}, {"Run", kCuda}});
  idle.set_name("emu-host");
  works.set_name("emu-host");
  v1::StacksTaken taken;
  *taken.add_threads() = idle;
  *taken.add_threads() = works;
  const std::vector<model::FoldedStack> folded = FoldStacks({{{1}, 7, &taken}}, {1});
  ASSERT_EQ(folded.size(), 1u);
  EXPECT_EQ(folded.front().frames[1].function, "Poll");
}

TEST(StackMerge, WhatDoesNotMatchStandsBetweenCalledAndCaller) {
  const v1::ThreadStack thread = Thread({{"read", kLibc},
                                         {"", kPython},
                                         {"", kPython},
                                         {"embed_run", "/job/host"},
                                         {"main", "/job/host"},
                                         {"_start", "/job/host"}},
                                        {{"load", "a.py"}, {"<module>", "a.py", true}});
  EXPECT_EQ(Functions(MergeFrames(thread, kPython)),
            (Names{"read", "load", "<module>", "embed_run", "main"}));
}

TEST(StackMerge, OneOfTheTwoAlone) {
  EXPECT_EQ(Functions(MergeFrames(Thread({}, {{"load", "a.py"},
                                              {"Thread.run", "/lib/threading.py", true},
                                              {"Thread._bootstrap_inner", "/lib/threading.py"},
                                              {"Thread._bootstrap", "/lib/threading.py", true}}),
                                  kPython)),
            Names{"load"});
  EXPECT_EQ(
      Functions(MergeFrames(
          Thread({{"_ZN7Trainer4stepEi", "/job/train"}, {"main", "/job/train"}, {"", kLibc}}), "")),
      (Names{"Trainer::step", "main"}));
  EXPECT_TRUE(MergeFrames(Thread({}), "").empty());
  // Nothing but beginnings: better than nothing.
  EXPECT_EQ(Functions(MergeFrames(Thread({{"clone3", kLibc}}), "")), Names{"clone3"});
}

TEST(StackMerge, NamelessNeighboursAreOne) {
  EXPECT_EQ(
      MergeFrames(Thread({{"", kLibc}, {"", kLibc}, {"", kCuda}, {"f", "/job/a"}}), "").size(), 3u);
}

TEST(StackMerge, TheShimIsNotShownBetweenTheProgramAndWhatItCalls) {
  constexpr char kShim[] = "/opt/lib/libgordian_interpose.so";
  EXPECT_EQ(Functions(MergeFrames(Thread({{"wait", kCuda},
                                          {"cudaStreamSynchronize", kCuda},
                                          {"cudaStreamSynchronize", kShim},
                                          {"step", "/job/t"}}),
                                  "")),
            (Names{"wait", "cudaStreamSynchronize", "step"}));
  EXPECT_EQ(
      Functions(MergeFrames(Thread({{"syscall", kLibc}, {"Watch", kShim}, {"clone3", kLibc}}), "")),
      (Names{"syscall", "Watch"}));
}

TEST(StackMerge, TheEmulatorIsNotShownInsideACall) {
  EXPECT_EQ(Functions(MergeFrames(Thread({{"futex_wait", kLibc},
                                          {"gordian::emu::Doorbell::Wait", kCuda},
                                          {"gordian::emu::Stream::Synchronize", kCuda},
                                          {"cudaStreamSynchronize", kCuda},
                                          {"gordian::emu_like::Step", "/job/t"}}),
                                  "")),
            (Names{"futex_wait", "cudaStreamSynchronize", "gordian::emu_like::Step"}));
  // A thread of the emulator's own begins there.
  EXPECT_EQ(Functions(MergeFrames(Thread({{"usleep", kLibc},
                                          {"Poll", "/job/t"},
                                          {"gordian::emu::HostFunction::Run", kCuda},
                                          {"gordian::emu::Device::Run", kCuda}}),
                                  "")),
            (Names{"usleep", "Poll", "gordian::emu::Device::Run"}));
}

TEST(StackMerge, RanksAreFolded) {
  EXPECT_EQ(FoldedRanks({}), "");
  EXPECT_EQ(FoldedRanks({4}), "4");
  EXPECT_EQ(FoldedRanks({0, 1, 2, 3, 5}), "0-3,5");
  EXPECT_EQ(FoldedRanks({0, 1, 7, 8, 9}), "0,1,7-9");
}

v1::StacksTaken Taken(uint32_t process, const v1::ThreadStack& thread) {
  v1::StacksTaken taken;
  taken.set_process(process);
  taken.set_request(1);
  *taken.add_threads() = thread;
  return taken;
}

TEST(StackMerge, EqualStacksAreOneAndTheCulpritsComeFirst) {
  const v1::ThreadStack waits = Thread({{"cudaStreamSynchronize", kCuda}, {"step", "/job/t"}});
  const v1::ThreadStack reads = Thread({{"read", kLibc}, {"load", "/job/t"}});
  std::vector<v1::StacksTaken> taken;
  for (uint32_t rank = 0; rank < 6; ++rank) {
    taken.push_back(Taken(rank + 1, rank == 4 ? reads : waits));
  }
  std::vector<ProcessStacks> processes;
  for (int rank = 5; rank >= 0; --rank) {
    processes.push_back({.ranks = {rank},
                         .pid = 100u + static_cast<uint32_t>(rank),
                         .taken = &taken[static_cast<size_t>(rank)]});
  }
  const std::vector<model::FoldedStack> folded = FoldStacks(processes, {4});
  ASSERT_EQ(folded.size(), 2u);
  EXPECT_EQ(WhoseStack(folded[0]), "rank 4");
  EXPECT_EQ(Functions(folded[0].frames), (Names{"read", "load"}));
  EXPECT_EQ(WhoseStack(folded[1]), "ranks 0-3,5");
  EXPECT_EQ(folded[1].threads.size(), 5u);
}

// A thread that waits for a lock may tell why it makes no call.
TEST(StackMerge, AThreadThatWaitsForALockComesBeforeThoseThatTellNothing) {
  const auto order = [](const std::vector<F>& second) {
    v1::StacksTaken taken;
    *taken.add_threads() = Thread({{"poll", kLibc}, {"Serve", "/job/t"}});
    *taken.add_threads() = Thread(second);
    for (v1::ThreadStack& thread : *taken.mutable_threads()) thread.set_tid(8);
    const std::vector<model::FoldedStack> folded =
        FoldStacks({{.ranks = {0}, .pid = 7, .taken = &taken}}, {});
    return folded.size() == 2 ? folded[0].frames[0].function : "";
  };
  EXPECT_EQ(order({{"__lll_lock_wait", kLibc}, {"pthread_mutex_lock", kLibc}, {"f", "/job/t"}}),
            "__lll_lock_wait");
  EXPECT_EQ(order({{"futex_wait", kLibc}, {"pthread_cond_wait", kLibc}, {"f", "/job/t"}}), "poll");
  // A lock far below what the thread does now is not what it waits for.
  EXPECT_EQ(order({{"read", kLibc},
                   {"a", "/job/t"},
                   {"b", "/job/t"},
                   {"c", "/job/t"},
                   {"pthread_mutex_lock", kLibc}}),
            "poll");
}

TEST(StackMerge, WhatWasRefusedIsSaidOnceForAllRanks) {
  std::vector<v1::StacksTaken> taken(3);
  for (v1::StacksTaken& one : taken)
    one.set_native_refused("the kernel does not permit ptrace (EPERM)");
  taken[2].set_native_refused("");
  *taken[2].add_threads() = Thread({});
  taken[2].mutable_threads(0)->set_native_note("it is in epoll_wait");
  std::vector<ProcessStacks> processes;
  for (int rank = 0; rank < 3; ++rank) {
    processes.push_back({.ranks = {rank}, .pid = 7, .taken = &taken[static_cast<size_t>(rank)]});
  }
  EXPECT_EQ(StacksNotVisible(processes),
            (Names{"native stacks of ranks 0,1: the kernel does not permit ptrace (EPERM)",
                   "the native stack of thread python3 of rank 2: it is in epoll_wait"}));
}

TEST(StackText, ShortOnesTellWhatTheProgramCalled) {
  model::FoldedStack stack;
  stack.ranks = {0, 1, 2};
  for (uint32_t i = 0; i < 3; ++i) {
    stack.threads.push_back({.rank = static_cast<int>(i), .pid = i, .tid = i, .name = "train"});
  }
  stack.frames = {{.function = "futex", .module = kLibc},
                  {.function = "wait", .module = kCuda},
                  {.function = "cudaStreamSynchronize", .module = kCuda},
                  {.function = "step", .file = "/home/u/train.py", .line = 8, .python = true},
                  {.function = "<module>", .file = "/home/u/train.py", .line = 30, .python = true}};
  EXPECT_EQ(StacksInShort({stack}),
            (Names{"  ranks 0-2, thread train", "    cudaStreamSynchronize() in libcudart.so.13",
                   "    train.py:8 step()", "    train.py:30 <module>"}));
  EXPECT_EQ(StacksInFull({stack}).size(), 6u);
  EXPECT_EQ(StacksInFull({stack})[4], "    /home/u/train.py:8 step()");
  const std::vector<std::string> many = StacksInShort(std::vector<model::FoldedStack>(9, stack));
  EXPECT_EQ(many.back(), "  5 more, see `gordian explain`");
}

TEST(StackText, NamesOfAHostileProgramDoNotReachTheTerminal) {
  EXPECT_EQ(FrameText({.function = "a\033[2Jb", .file = "x\ny.py", .line = 1, .python = true}, true)
                .find('\033'),
            std::string::npos);
}

TEST(StackJson, StacksComeBackAsTheyWent) {
  model::Verdict verdict;
  model::FoldedStack& stack = verdict.stacks.emplace_back();
  stack.ranks = {0, 2};
  stack.threads = {{.rank = 0, .pid = 10, .tid = 11, .name = "a"},
                   {.rank = 2, .pid = 20, .tid = 21}};
  stack.frames = {{.function = "f", .file = "a.py", .line = 3, .python = true},
                  {.function = "g", .module = "/lib/x.so"}};
  const auto none = [](const model::Site&) { return std::string(); };
  const std::string text = VerdictToText(verdict, none);
  EXPECT_NE(text.find("\"folded_ranks\": \"0,2\""), std::string::npos);
  const StatusOr<VerdictDocument> back = ParseVerdict(text);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(VerdictToText(back->verdict, none), text);
  EXPECT_EQ(back->verdict.stacks[0].frames, stack.frames);
}

TEST(StackJson, FilesWithoutStacksAreStillRead) {
  const auto none = [](const model::Site&) { return std::string(); };
  std::string text = VerdictToText({}, none);
  const size_t at = text.find(",\n  \"stacks\": []");
  ASSERT_NE(at, std::string::npos);
  text.erase(at, std::string(",\n  \"stacks\": []").size());
  EXPECT_TRUE(ParseVerdict(text).ok());
}

v1::Event Event(const v1::StacksTaken& taken, uint64_t request) {
  v1::Event event;
  *event.mutable_stacks_taken() = taken;
  event.mutable_stacks_taken()->set_request(request);
  return event;
}
v1::Event Done(uint64_t request) {
  v1::Event event;
  event.mutable_stacks_done()->set_request(request);
  return event;
}

std::optional<v1::StacksRequest> Want(StackBook* book, const model::JobModel& model,
                                      const model::Finding& main) {
  model::Verdict verdict;
  verdict.main = main;
  return book->Want(model, verdict, [](const model::Site& site) {
    return "train.py:" + std::to_string(site.address);
  });
}

TEST(StackBook, AsksOnceForAKindOfVerdictAndAgainAfterItWasWithdrawn) {
  model::JobModel model{model::ModelOptions{}};
  StackBook book;
  model::Finding healthy, hang;
  healthy.verdict = model::VerdictKind::kHealthy;
  hang.verdict = model::VerdictKind::kDeadlock;
  hang.check = "communicator-order-cycle";
  EXPECT_FALSE(Want(&book, model, healthy));
  const auto first = Want(&book, model, hang);
  ASSERT_TRUE(first);
  EXPECT_TRUE(book.awaited());
  EXPECT_FALSE(Want(&book, model, hang));
  hang.confidence = model::Confidence::kConfirmed;
  const auto second = Want(&book, model, hang);
  ASSERT_TRUE(second);
  EXPECT_GT(second->request(), first->request());
  book.OnEvent(Done(first->request()));
  EXPECT_TRUE(book.awaited());
  book.OnEvent(Done(second->request()));
  EXPECT_FALSE(book.awaited());
  EXPECT_FALSE(Want(&book, model, healthy));
  EXPECT_TRUE(Want(&book, model, hang));
}

// The analyzer asks for the source of the calls that the verdict names, one of those at a line.
TEST(StackBook, AsksForTheSitesOfTheVerdict) {
  model::JobModel model{model::ModelOptions{}};
  StackBook book;
  model::Finding hang;
  hang.verdict = model::VerdictKind::kDeadlock;
  hang.cycle.resize(4);
  hang.cycle[0].site = {.process = 1, .address = 88};
  hang.cycle[1].site = {.process = 2, .address = 90};
  hang.cycle[2].site = {.process = 3, .address = 88};
  const auto request = Want(&book, model, hang);
  ASSERT_TRUE(request);
  ASSERT_EQ(request->sites_size(), 2) << "the fourth is not known, and the third is at the first's";
  EXPECT_EQ(request->sites(0).process(), 1u);
  EXPECT_EQ(request->sites(0).site(), 88u);
  EXPECT_EQ(request->sites(1).process(), 2u);
}

// What may just be slow is explained by stacks as well, a few times in a job.
TEST(StackBook, AsksAFewTimesAboutWhatIsSlow) {
  model::JobModel model{model::ModelOptions{}};
  StackBook book;
  model::Finding healthy, still;
  healthy.verdict = model::VerdictKind::kHealthy;
  still.verdict = model::VerdictKind::kInconclusive;
  still.confidence = model::Confidence::kPossible;
  still.check = "no-progress";
  int asked = 0;
  for (int i = 0; i < 100; ++i) {
    asked += Want(&book, model, still).has_value();
    EXPECT_FALSE(Want(&book, model, still));
    EXPECT_FALSE(Want(&book, model, healthy));
  }
  EXPECT_GT(asked, 1);
  EXPECT_LT(asked, 20);
  const v1::StacksTaken one = Taken(1, Thread({{"one", "/job/a"}}));
  EXPECT_TRUE(Want(&book, model, [] {
    model::Finding hang;
    hang.verdict = model::VerdictKind::kDeadlock;
    return hang;
  }()));
  book.OnEvent(Event(one, UINT64_MAX));
  book.OnEvent(Done(UINT64_MAX));
  model::Verdict verdict;
  verdict.main = still;
  book.AddTo(model, &verdict);
  EXPECT_FALSE(verdict.stacks.empty());
}

TEST(StackBook, OnlyTheLatestRequestCounts) {
  model::JobModel model{model::ModelOptions{}};
  StackBook book;
  const v1::StacksTaken one = Taken(1, Thread({{"one", "/job/a"}}));
  const v1::StacksTaken two = Taken(2, Thread({{"two", "/job/a"}}));
  book.OnEvent(Event(one, 5));
  book.OnEvent(Done(5));
  model::Verdict verdict;
  verdict.main.verdict = model::VerdictKind::kHostBlocked;
  book.AddTo(model, &verdict);
  ASSERT_EQ(verdict.stacks.size(), 1u);
  const uint64_t before = book.changes();
  book.OnEvent(Event(two, 6));
  book.OnEvent(Event(one, 5));  // late
  book.OnEvent(Done(6));
  EXPECT_GT(book.changes(), before);
  book.AddTo(model, &verdict);
  ASSERT_EQ(verdict.stacks.size(), 1u);
  EXPECT_EQ(verdict.stacks[0].frames[0].function, "two");
  model::Verdict healthy;
  healthy.main.verdict = model::VerdictKind::kHealthy;
  book.AddTo(model, &healthy);
  EXPECT_TRUE(healthy.stacks.empty());
}

}  // namespace
}  // namespace gordian::analyzer
