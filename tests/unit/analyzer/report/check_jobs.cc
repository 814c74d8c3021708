#include "tests/unit/analyzer/report/check_jobs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "analyzer/stacks/sign_book.h"
#include "tests/unit/model/sim/jobs_harness.h"
#include "tests/unit/model/sim/one_thread.h"

namespace gordian::testing {
namespace {

using namespace model;           // NOLINT: the programs below are all words of it
using namespace model::testing;  // NOLINT

using Set = std::function<void(SimJob*)>;

Verdict Hang(const std::vector<SimComm>& comms, const std::vector<Program>& programs,
             double seconds = 0.7, const Set& set = {}, bool cold = false, uint64_t seed = 1,
             double period = 0.1) {
  SimJob job(comms, programs, cold, seed);
  if (set) set(&job);
  JobModel model;
  job.Run();
  job.Rounds(&model, seconds, period);
  return model.Current();
}

Verdict Absent(const Op& instead, double seconds) {
  const Program usual = {Init(0), AllReduce(0), StreamSync(), AllReduce(0), StreamSync(), Exit(0)};
  return Hang(Comms(1, 4),
              {usual, usual, Program{Init(0), AllReduce(0), StreamSync(), instead, Sleep()}, usual},
              seconds);
}

Verdict Odd(const Op& odd, const Op& base = AllReduce(0)) {
  const Program usual = {Init(0), base, StreamSync()};
  return Hang(Comms(1, 3), {usual, Program{Init(0), odd, StreamSync()}, usual}, 0.5);
}

Op WithType(uint8_t type, uint8_t op) {
  Op out = AllReduce(0);
  out.datatype = type;
  out.reduce_op = op;
  return out;
}

Verdict Unlocated() {
  Program usual = Inits(1), odd = Inits(1);
  usual.push_back(AllReduce(0, 1, 8));
  odd.push_back(AllReduce(0, 1, 9));
  for (int i = 0; i < 30; ++i) {
    usual.push_back(AllReduce(0));
    odd.push_back(AllReduce(0));
  }
  for (Program* program : {&usual, &odd}) *program = *program + Program{StreamSync(), Sleep()};
  SimJob job(Comms(1, 3), {usual, usual, odd});
  JobModel model;
  job.Run();
  constexpr uint64_t kAll = 1000;
  const std::map<ProcessId, uint64_t> lost = {{1, kAll}, {2, kAll}, {3, kAll}};
  for (int p = 0; p < 3; ++p) {
    ProcessInfo info;
    info.process = static_cast<ProcessId>(p + 1);
    info.env_rank = p;
    info.env_world_size = 3;
    model.OnProcessStarted(info);
  }
  for (int r = 0; r < 3; ++r) {
    job.Advance(400'000'000);
    Round round = job.MakeRound();
    job.TellState(&round, lost);
    model.OnRound(round);
  }
  return model.Current();
}

// Hosts only: the launches stay where they are.
Verdict NothingStarts(const std::vector<Program>& programs, double seconds) {
  SimJob job(Comms(1, static_cast<int>(programs.size())), programs);
  JobModel model;
  for (int i = 0; i < 12; ++i) {
    for (int p = 0; p < static_cast<int>(programs.size()); ++p) {
      const std::vector<int> enabled = job.Enabled();
      if (std::find(enabled.begin(), enabled.end(), p) != enabled.end()) job.Take(p);
    }
  }
  job.Rounds(&model, seconds, 0.5);
  return model.Current();
}

// Ranks 0 and 1 wait for a member that nobody has seen: its process has no shim.
Verdict NeverSeen() {
  const Program usual = {Init(0), AllReduce(0), StreamSync()};
  SimJob job(Comms(1, 3), {usual, usual, Program{Init(0), Sleep()}});
  JobModel model;
  for (int p = 0; p < 2; ++p) {
    ProcessInfo info;
    info.process = static_cast<ProcessId>(p + 1);
    model.OnProcessStarted(info);
  }
  job.Run();
  for (const CallRecord& record : job.log) {
    if (record.process <= 2) model.OnRecord(record);
  }
  for (int i = 0; i < 70; ++i) {
    job.Advance(100'000'000);
    Round round = job.MakeRound();
    round.processes.resize(2);
    model.OnRound(round);
  }
  return model.Current();
}

Verdict Ended() {
  const Program usual = {Init(0), AllReduce(0), StreamSync(), Exit(0)};
  SimJob job(Comms(1, 2), {usual, usual});
  JobModel model;
  job.Run();
  job.Rounds(&model, 0.3);
  job.EndJob(&model);
  return model.Current();
}

Verdict Silent() {
  JobModel model;
  Round round;
  round.begin_ns = round.end_ns = 1'000'000'000;
  model.OnRound(round);
  round.begin_ns = round.end_ns = 7'000'000'000;
  model.OnRound(round);
  return model.Current();
}

Verdict NoRoom() {
  const std::vector<Program> programs = {
      Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 2), DeviceSync()},
      Inits(2) + Program{AllReduce(1, 2), AllReduce(0, 1), DeviceSync()}};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Verdict verdict = Hang(
        Comms(2, 2), programs, 8, [](SimJob* job) { job->processors = 1; }, false, seed);
    if (verdict.main.verdict == VerdictKind::kDeadlock) return verdict;
  }
  return {};
}

// What the book of signs says of three ranks, of which rank 1 does not come.
Verdict WithEvents(const std::vector<v1::Event>& events,
                   const std::vector<CallRecord>& records = {}) {
  const Program usual = {Init(0), AllReduce(0), StreamSync(), AllReduce(0), StreamSync()};
  SimJob job(Comms(1, 3), {usual, Program{Init(0), AllReduce(0), StreamSync(), Sleep()}, usual});
  JobModel model;
  job.Run();
  job.Rounds(&model, 6);
  Verdict verdict = model.Current();
  analyzer::SignBook book;
  for (const v1::Event& event : events) book.OnEvent(event);
  for (const CallRecord& record : records) book.OnRecord(record);
  book.AddTo(model, &verdict);
  return verdict;
}

v1::Event Process(uint32_t number, const std::vector<std::string>& settings = {}) {
  v1::Event event;
  event.mutable_process_started()->set_process(number);
  for (const std::string& setting : settings)
    event.mutable_process_started()->add_settings(setting);
  return event;
}

v1::Event CallNamed(uint32_t number, const char* symbol) {
  v1::Event event;
  event.mutable_call_name()->set_call(number);
  event.mutable_call_name()->set_symbol(symbol);
  return event;
}

// The last of three callers passes another number of ranks.
Verdict AnotherSize() {
  JobModel model;
  Round round;
  for (int p = 0; p < 3; ++p) {
    CallRecord init;
    init.process = static_cast<uint32_t>(p + 1);
    init.thread = 1;
    init.kind = RecordKind::kBegin;
    init.call = Call::kCommInit;
    init.order = 1;
    init.time_ns = static_cast<uint64_t>(p + 1);
    init.call_site = 96;
    init.payload = ring::CommInitPayload{
        .comm = 1, .nranks = p == 2 ? 4 : 3, .rank = p, .device = 0, .uid = 7, .color = -1};
    model.OnProcessStarted({.process = init.process, .pid = 100 + init.process});
    model.OnRecord(init);
  }
  round.begin_ns = round.end_ns = 400'000'000;
  model.OnRound(round);
  return model.Current();
}

Verdict CallFailed() {
  CallRecord end;
  end.process = 2;
  end.kind = RecordKind::kEnd;
  end.call_id = 9;
  end.payload = ring::EndPayload{.result = 700};
  return WithEvents({CallNamed(9, "cudaStreamSynchronize"), Process(1), Process(2), Process(3)},
                    {end});
}

Verdict ReducedToOne() {
  CallRecord init;
  init.process = 2;
  init.kind = RecordKind::kBegin;
  init.call = Call::kCommInit;
  init.payload = ring::CommInitPayload{.comm = 1, .rank = 1};
  CallRecord reduce = init;
  reduce.call = Call::kReduce;
  reduce.payload = ring::OperationPayload{.comm = 1, .root_or_peer = 0};
  return WithEvents({Process(1), Process(2), Process(3)}, {init, reduce});
}

Verdict WithStack(std::vector<StackFrame> frames) {
  Verdict verdict = WithEvents({});
  verdict.stacks = {{.ranks = {1},
                     .threads = {{.rank = 1, .pid = 402, .tid = 402, .name = "train"}},
                     .frames = std::move(frames)}};
  analyzer::AddStackSigns(&verdict);
  return verdict;
}

StackFrame Native(const char* function, const char* module) {
  return {.function = function, .module = module};
}
StackFrame Python(const char* function, const char* file, int line) {
  return {.function = function, .file = file, .line = line, .python = true};
}

const std::map<std::string, std::function<Verdict()>>& Jobs() {
  static const Program kUsual = Inits(2) + Program{AllReduce(0), AllReduce(1), StreamSync()};
  static const Program kOther = Inits(2) + Program{AllReduce(1), AllReduce(0), StreamSync()};
  static const std::map<std::string, std::function<Verdict()>> kJobs = {
      {"evidence-missing", NeverSeen},
      {"no-nccl-calls", Silent},
      {"no-progress",
       [] {
         return Hang(Comms(1, 2),
                     {Inits(1) + Program{AllReduce(0), StreamSync(), Sleep()},
                      Inits(1) + Program{AllReduce(0), StreamSync(), Sleep()}},
                     8);
       }},
      {"communicator-order-cycle",
       [] {
         return Hang(Comms(2, 4), {kUsual, kUsual, kOther, kUsual});
       }},
      {"event-cycle",
       [] {
         return Hang(Comms(2, 2),
                     {Inits(2) + Program{AllReduce(0, 1), Record(1, 1), WaitEvent(1, 2),
                                         AllReduce(1, 2), DeviceSync()},
                      Inits(2) + Program{AllReduce(1, 2), Record(1, 2), WaitEvent(1, 1),
                                         AllReduce(0, 1), DeviceSync()}});
       }},
      {"resource-cycle", NoRoom},
      {"memory-wait-cycle",
       [] {
         return Hang(Comms(2, 2),
                     {Inits(2) + Program{WaitValue(1, 1), AllReduce(0, 1), AllReduce(1, 2),
                                         WriteValue(1, 2), StreamSync(1), StreamSync(2)},
                      kUsual},
                     6);
       }},
      {"signal-order-cycle",
       [] {
         const auto program = [](int peer) {
           return Inits(1) + Program{WaitSignal(0, peer), Signal(0, peer), StreamSync()};
         };
         return Hang(Comms(1, 2), {program(1), program(0)}, 6);
       }},
      {"host-wait-cycle",
       [] {
         return Hang(
             Comms(2, 2),
             {Inits(2) + Program{AllReduce(0, 1), DeviceSync(), AllReduce(1, 2), DeviceSync()},
              Inits(2) + Program{AllReduce(1, 2), DeviceSync(), AllReduce(0, 1), DeviceSync()}});
       }},
      {"first-use-order-cycle",
       [] {
         return Hang(Comms(2, 2),
                     {Inits(2) + Program{AllReduce(0, 1), AllReduce(1, 2), DeviceSync()},
                      Inits(2) + Program{AllReduce(1, 2), AllReduce(0, 1), DeviceSync()}},
                     0.7, {}, true);
       }},
      {"group-missing", [] { return OneThreadForAllRanks(3); }},
      {"point-to-point-order-cycle",
       [] {
         return Hang(Comms(1, 3), {Program{Init(0), Send(0, 1), Recv(0, 1), StreamSync()},
                                   Program{Init(0), Recv(0, 0), Recv(0, 2), Send(0, 2), Send(0, 0),
                                           StreamSync()},
                                   Program{Init(0), Recv(0, 1), Send(0, 1), StreamSync()}});
       }},
      {"unbuffered-send-cycle",
       [] {
         return NothingStarts({Program{Init(0), Send(0, 1), Recv(0, 1), StreamSync()},
                               Program{Init(0), Send(0, 0), Recv(0, 0), StreamSync()}},
                              6);
       }},
      {"communicator-init-order",
       [] {
         return Hang(Comms(2, 2),
                     {Program{Init(0), Init(1), Sleep()}, Program{Init(1), Init(0), Sleep()}});
       }},
      {"communicator-init-mismatch", AnotherSize},
      {"communicator-init-missing",
       [] {
         return Hang(Comms(1, 3), {Program{Init(0)}, Program{Init(0)}, Program{Sleep()}}, 6);
       }},
      {"communicator-init-stuck",
       [] {
         SimJob job(Comms(1, 2), {Program{Init(0)}, Program{Init(0)}});
         job.never_made = 0;
         JobModel model;
         job.Run();
         job.Feed(&model);
         job.Rounds(&model, 61, 0.5);
         return model.Current();
       }},
      {"communicator-call-order",
       [] {
         return Hang(Comms(2, 3), {Inits(2) + Program{Window(0), Window(1)},
                                   Inits(2) + Program{Window(1), Window(0)},
                                   Inits(2) + Program{Window(0), Window(1)}});
       }},
      {"communicator-call-missing",
       [] {
         return Hang(Comms(1, 2), {Program{Init(0), Window(0)}, Program{Init(0), Sleep()}}, 6);
       }},
      {"mismatch-kind", [] { return Odd(Collective(Call::kAllGather, 0)); }},
      {"mismatch-count", [] { return Odd(AllReduce(0, 1, 512)); }},
      {"mismatch-type", [] { return Odd(WithType(6, 0)); }},
      {"mismatch-operator", [] { return Odd(WithType(7, 2)); }},
      {"mismatch-root", [] { return Odd(Bcast(0, 1), Bcast(0, 0)); }},
      {"mismatch-grouping",
       [] {
         const Program usual = {Init(0), AllReduce(0), AllReduce(0), StreamSync()};
         return NothingStarts(
             {usual, usual,
              Program{Init(0), GroupStart(), AllReduce(0), AllReduce(0), GroupEnd(), StreamSync()}},
             6);
       }},
      {"mismatch-unlocated", Unlocated},
      {"mismatch-transfer",
       [] {
         return Hang(Comms(1, 2), {Program{Init(0), Send(0, 1, 1, 100), StreamSync()},
                                   Program{Init(0), Recv(0, 0, 1, 200), StreamSync(), Sleep()}});
       }},
      {"rank-not-joined", [] { return Absent(Spin(), 6); }},
      {"rank-left",
       [] {
         const Program usual = {Init(0), AllReduce(0), StreamSync(), Destroy(0), Exit(0)};
         return Hang(
             Comms(1, 3),
             {usual, Program{Init(0), AllReduce(0), StreamSync(), AllReduce(0), StreamSync()},
              usual},
             3);
       }},
      {"host-blocked", [] { return Absent(Sleep(), 6); }},
      {"rank-exited", [] { return Absent(Kill(9), 0.7); }},
      {"rank-stopped", [] { return Absent(Stop(), 6); }},
      {"rank-aborted", [] { return Absent(Abort(0), 0.7); }},
      {"memory-wait",
       [] {
         return Hang(Comms(2, 2),
                     {Inits(2) + Program{WaitValue(1, 1), AllReduce(0, 1), AllReduce(1, 2),
                                         StreamSync(1), StreamSync(2)},
                      kUsual},
                     6);
       }},
      {"kernel-in-front",
       [] {
         return Hang(Comms(1, 2),
                     {Program{Init(0), AllReduce(0), StreamSync()},
                      Program{Init(0), Kernel(1, true), AllReduce(0), StreamSync()}},
                     55, {}, false, 1, 0.5);
       }},
      {"stuck-kernel",
       [] {
         return NothingStarts({Program{Init(0), AllReduce(0), StreamSync()},
                               Program{Init(0), AllReduce(0), StreamSync()}},
                              17);
       }},
      {"job-healthy",
       [] {
         return Hang(Comms(1, 2),
                     {Program{Init(0), AllReduce(0), StreamSync(), Sleep()},
                      Program{Init(0), AllReduce(0), StreamSync(), Sleep()}},
                     0.5);
       }},
      {"job-finished", Ended},
      {"call-failed", CallFailed},
      {"reduced-to-one", ReducedToOne},
      {"wrong-peer",
       [] {
         return Hang(Comms(1, 3), {Program{Init(0), Send(0, 2), AllReduce(0), StreamSync()},
                                   Program{Init(0), Recv(0, 0), AllReduce(0), StreamSync()},
                                   Program{Init(0), AllReduce(0), StreamSync()}});
       }},
      {"group-left-open",
       [] {
         const Program usual = {Init(0),      GroupStart(), AllReduce(0),
                                AllReduce(0), GroupEnd(),   StreamSync()};
         return Hang(
             Comms(1, 3),
             {usual, usual, Program{Init(0), GroupStart(), AllReduce(0), AllReduce(0), Sleep()}},
             6);
       }},
      {"divergent-calls",
       [] {
         const Program usual = {Init(0), AllReduce(0), Collective(Call::kReduceScatter, 0),
                                AllReduce(0, 1, 64), StreamSync()};
         return Hang(
             Comms(1, 3),
             {usual, usual,
              Program{Init(0), AllReduce(0), Collective(Call::kAllGather, 0),
                      Collective(Call::kReduceScatter, 0), AllReduce(0, 1, 64), StreamSync()}},
             0.7);
       }},
      {"blocking-launches",
       [] {
         return WithEvents({Process(1, {"CUDA_LAUNCH_BLOCKING=1"}),
                            Process(2, {"CUDA_LAUNCH_BLOCKING=1"}),
                            Process(3, {"CUDA_LAUNCH_BLOCKING=0"})});
       }},
      {"settings-differ",
       [] {
         return WithEvents(
             {Process(1, {"NCCL_P2P_DISABLE=1"}), Process(2), Process(3, {"NCCL_P2P_DISABLE=1"})});
       }},
      {"waits-in-mpi",
       [] {
         return WithStack({Native("poll", "/lib/libc.so.6"),
                           Native("opal_progress", "/lib/libopen-pal.so.40"),
                           Native("PMPI_Barrier", "/lib/libmpi.so.40"), Native("main", "/job")});
       }},
      {"waits-for-gil",
       [] {
         return WithStack({Native("pthread_cond_timedwait", "/lib/libc.so.6"),
                           Native("take_gil", "/usr/bin/python3.11"),
                           Python("step", "/job/train.py", 12)});
       }},
      {"waits-for-input",
       [] {
         return WithStack(
             {Native("poll", "/lib/libc.so.6"),
              Python("_poll", "/usr/lib/python3.11/multiprocessing/connection.py", 948),
              Python("get", "/usr/lib/python3.11/multiprocessing/queues.py", 113),
              Python("next_batch", "/job/train.py", 31)});
       }},
      {"in-teardown",
       [] {
         return WithStack({Native("waitpid", "/lib/libc.so.6"), Native("StopWorkers", "/job"),
                           Native("__run_exit_handlers", "/lib/libc.so.6"),
                           Native("exit", "/lib/libc.so.6")});
       }},
  };
  return kJobs;
}

}  // namespace

model::Verdict VerdictOf(const std::string& check) {
  const auto job = Jobs().find(check);
  if (job == Jobs().end()) {
    ADD_FAILURE() << "no job makes " << check << " speak: add one to check_jobs.cc";
    return {};
  }
  return job->second();
}

std::string SiteOfJob(const model::Site& site) {
  return site.address == 0 ? "" : fmt::format("job.cc:{} step()", site.address % 100 + 1);
}

}  // namespace gordian::testing
