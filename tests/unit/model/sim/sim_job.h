// A small job that really runs: programs of host calls, streams, launches and members that start
// and end by the rules of CUDA and NCCL, one transition at a time in any order. It shares nothing
// with the model under test but the records and rounds that it writes, so that it can serve as its
// reference.
#ifndef GORDIAN_TESTS_UNIT_MODEL_SIM_SIM_JOB_H_
#define GORDIAN_TESTS_UNIT_MODEL_SIM_SIM_JOB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/model/facts/state_block.h"
#include "analyzer/model/match/matcher.h"
#include "analyzer/model/verdict/job_model.h"

namespace gordian::model::testing {

enum class Do : uint8_t {
  kInit,
  kSplit,
  kCollective,
  kSend,
  kRecv,
  kGroupStart,
  kGroupEnd,
  kKernel,
  kHostFunction,
  kEventRecord,
  kEventWait,
  kStreamSync,
  kDeviceSync,
  kEventSync,
  kFree,
  kCopy,
  kPoll,
  kSleep,
  kSpin,
  kExit,
  kKill,
  kStop,
  kAbort,
  kDestroy,
  kFinalize,
  kWindow,
  kGraph,
  kMemoryWait,
  kMemoryWrite,
  kSignal,
  kWaitSignal,
  // Outside of NCCL and CUDA: what time or the outside ends ...
  kNap,
  kRead,
  // ... and what only another thread of the process does.
  kWaitFlag,
  kJoin,
  kSetFlag,
  kAnswer,
  kFork,
  kPollComm,
};

struct Op {
  Do what = Do::kSleep;
  int comm = 0;    // index into SimJob::comms
  int stream = 1;  // 0 is the legacy default stream
  Call call = Call::kAllReduce;
  uint64_t count = 1024;
  uint8_t datatype = 7;
  uint8_t reduce_op = 0;
  int root_or_peer = -1;  // root or peer rank within the communicator; kExit: code; kKill: signal
  int event = 0;
  bool endless = false;   // kernels
  uint64_t after_ns = 0;  // kNap, kRead, kPoll: ends after that; 0: not by itself
  bool flags = false;     // kHostFunction: sets the flag `event`
  MemoryCondition condition =
      MemoryCondition::kGreaterOrEqual;  // kMemoryWait; `event` names the word
  uint64_t value = 1;                    // and kMemoryWrite
  bool own = true;                       // only this process writes it
  bool in_place = false;                 // kCollective
  std::vector<Op> inside;                // kGraph: operations, captured on streams of their own
};

// Short names for programs.
Op Init(int comm);
Op Split(int child);
Op AllReduce(int comm, int stream = 1, uint64_t count = 1024);
Op Collective(Call call, int comm, int stream = 1, int root = -1);
Op Bcast(int comm, int root, int stream = 1);
Op Send(int comm, int peer, int stream = 1, uint64_t count = 1024);
Op Recv(int comm, int peer, int stream = 1, uint64_t count = 1024);
Op GroupStart();
Op GroupEnd();
Op Kernel(int stream = 1, bool endless = false);
Op HostFunction(int stream);  // does not return
Op Record(int event, int stream);
Op WaitEvent(int event, int stream);
Op StreamSync(int stream = 1);
Op DeviceSync();
Op EventSync(int event);
Op Free();
Op Copy(int stream);
Op Poll(int event, uint64_t for_ns = 0);  // with a deadline
Op Sleep();
Op Spin();
Op Exit(int code);
Op Kill(int signal);
Op Stop();
Op Abort(int comm);
Op Destroy(int comm);
Op Finalize(int comm);
Op Window(int comm);
Op WaitValue(int word, int stream, uint64_t value = 1);
Op WriteValue(int word, int stream, uint64_t value = 1);
// RMA: `count` of them.
Op Signal(int comm, int peer, int stream = 1);
Op WaitSignal(int comm, int peer, int stream = 1, uint64_t count = 1);
// Launches a graph, captured when its number is first met. Of the operations inside, those that
// name one stream are in order.
Op Graph(int number, std::vector<Op> inside, int stream = 1);

Op Nap(uint64_t ns);
// Until another process answers on the pipe, or after the time.
Op Read(int pipe, uint64_t ns = 0);
Op Answer(int pipe);
Op WaitFlag(int flag);
Op SetFlag(int flag);
Op FlagFunction(int flag, int stream);  // a host function that sets it
Op Join(int helper);
// A child goes on in the process's place, which exits or waits for it.
Op Fork(bool exits);
// Until the non-blocking communicator is ready.
Op PollComm(int comm);

using Program = std::vector<Op>;

struct SimComm {
  std::vector<int> members;  // processes by rank
  int parent = -1;           // made by a split of this one; else by init
  int color = 0;
  std::string name;
  // Splits of one parent: those with the same number are one call.
  int split = 0;
  // The communicator that it grew from (ncclCommGrow), whose members are among its own; else -1. Of
  // these all but the first know it by another name than the new ones; the first knows both.
  int grown_from = -1;
  bool blocking = true;
  int id = 0;  // what its members' records call it; 0: its place among the job's, from 1 on
};

// The stream's number in records.
constexpr StreamId Id(int stream) { return static_cast<StreamId>(stream + 1); }

class SimJob {
 public:
  SimJob(std::vector<SimComm> comms, std::vector<Program> programs, bool cold = false,
         uint64_t seed = 1);

  // Takes one transition; false when none is left.
  bool Step();
  // Steps until nothing moves any more, or so many steps were taken.
  void Run(int steps = 100000);
  // All transitions of this moment, and taking a certain one: for exhaustive searches.
  std::vector<int> Enabled() const;
  void Take(int transition);
  std::string State() const;  // equal for equal states

  void Advance(uint64_t ns) { now_ += ns; }
  uint64_t now() const { return now_; }

  // Facts since the last call, in order; the processes' starts and ends included.
  void Feed(JobModel* model);
  Round MakeRound();
  // Adds what the state blocks say to the processes that lost records; says how many they lost.
  void TellState(Round* round, const std::map<ProcessId, uint64_t>& lost) const;
  // As such a process leaves it.
  std::shared_ptr<const StateBlock> MakeBlock(int process) const;
  // Lets `seconds` pass with a round each `period` and all facts fed.
  void Rounds(JobModel* model, double seconds, double period = 0.1);
  // Another thread of the process, there from the start.
  void AddHelper(int process, Program program);
  // Where nothing moves: lets time pass until something sleeps no longer. False: nothing ever will.
  bool Wake();
  // From outside: a watchdog, a launcher, a person. With a signal, or else with the code.
  void End(int process, int signal, int code = 0);
  void EndJob(JobModel* model, int exit_code = 0);

  // Programs run to their end and all work done, at this process.
  bool Finished(int process) const;
  std::set<int> Unfinished() const;
  // Communicators whose members have called what does not go together.
  std::set<int> Contradictions() const;
  // True unless operations or calls are unfinished, be it of a process that has ended in them.
  bool AllDone() const;
  // From now on a host that is not held makes whatever call others need, at once and for good: each
  // leaves the call it is in, if it can, and goes no further. What is unfinished after running on
  // waits for itself.
  void GrantMissing();

  std::vector<CallRecord> log;
  std::map<int, std::pair<int, int>> env;  // process -> rank, world size
  bool launch_order = false;               // NCCL_LAUNCH_ORDER_IMPLICIT
  bool one_queue = false;                  // CUDA_DEVICE_MAX_CONNECTIONS=1
  int held_comm = -1;                      // whose collectives but the first do not end
  int never_made = -1;                     // a communicator: NCCL does not get on with it
  uint64_t slow_destroy_ns = 0;            // what each takes once nothing holds it up
  int slow_capture = -1;                   // a process: its captured calls take long
  std::set<int> elsewhere;                 // communicators that the preemptive runtime has
  int processors = 0;                      // launches of a process that can run at once; 0: enough
  bool answers = true;
  bool other_thread = false;  // a second application thread, asleep
  ThreadSleep other_sleep = ThreadSleep::kThread;
  bool timer_signals = false;
  bool other_runs = false;
  bool other_has_called = false;  // NCCL, and may call again
  bool other_calls_cuda = false;  // and nothing of NCCL
  bool other_is_library = false;

 private:
  struct Work {
    Do what = Do::kKernel;
    int launch = -1;
    bool done = false;
    bool endless = false;
    std::vector<std::pair<int, uint64_t>> after;  // (stream, ordinal) of the same process
    int word = -1;
    int comm = 0, peer = 0;  // signals
    uint64_t value = 0, number = 0, order = 0;
    MemoryCondition condition = MemoryCondition::kGreaterOrEqual;
  };
  // Markers stand behind NCCL's work and waits for memory only.
  static bool Marked(const Work& work) {
    return work.launch >= 0 || work.what == Do::kMemoryWait || work.what == Do::kSignal ||
           work.what == Do::kWaitSignal;
  }
  struct OpPart {
    Op op;
    uint64_t sequence = 0;
    uint64_t called = 0;  // the same without what graphs launched
    uint64_t order = 0;
  };
  struct Launch {
    int process = 0;
    int comm = 0;
    std::vector<OpPart> parts;
    std::vector<std::pair<int, uint64_t>> places;
    int before = -1;          // on the communicator
    int issued_before = -1;   // at the process, outside graphs
    std::vector<int> behind;  // in its graph
    bool started = false, done = false, aborted = false;
    bool group = false;
  };
  struct HostThread {
    ThreadId thread = 1;
    size_t pc = 0;
    bool in_call = false;
    bool asleep = false;    // outside of calls
    uint64_t wakes_ns = 0;  // 0: not by itself
    uint64_t steps = 0;
    uint64_t call_order = 0, call_since = 0;
    uint64_t entered = 0, left = 0, published = 0;
    bool gpu = false;
    size_t capturing = 0;  // of the graph that is being captured: operations before this one
    std::vector<std::pair<int, uint64_t>> covered;
    bool in_group = false;
    uint32_t group = 0;
    std::vector<OpPart> group_ops;
    bool polled = false;
    size_t granted_from = 0;  // pc when GrantMissing() was called
  };
  struct Proc : HostThread {  // its first thread
    std::vector<HostThread> helpers;
    std::set<int> flags;
    uint32_t child = 0;         // processes that went on in its place before
    bool parent_waits = false;  // the one before is still there
    bool legacy = false;        // uses the legacy default stream
    uint64_t order = 0;
    bool dead = false, stopped = false;
    int exit_code = 0, exit_signal = 0;
    uint64_t ended_ns = 0;
    std::map<int, std::vector<Work>> streams;
    std::map<int, uint64_t> words;  // device memory
    std::map<int, std::vector<std::pair<int, uint64_t>>> events;
    std::map<int, uint64_t> next_sequence;                    // by communicator
    std::map<std::tuple<int, int, bool>, uint64_t> next_p2p;  // (communicator, peer, send)
    std::map<int, int> last_launch;
    int last_issued = -1;
    std::set<int> used, made, aborted, destroyed, finalized;
    std::set<int> captured;         // graphs
    std::map<int, uint64_t> eager;  // collectives called, by communicator
    std::map<std::tuple<int, int, bool>, uint64_t> eager_p2p;  // as next_p2p
    std::map<int, uint64_t> windows;                         // by communicator: registrations begun
    std::map<std::tuple<int, int, bool>, uint64_t> signals;  // (communicator, peer, send): called
    std::set<std::tuple<int, int, bool>> peers;              // communicator, peer, whether to send
  };
  // Puts a thread of the process in the place of its first one, for as long as it lives.
  class Turn {
   public:
    Turn(const SimJob& job, int process, size_t helper);
    ~Turn() { Swap(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    void Swap();
    const SimJob& job_;
    const int process_;
    const size_t helper_;
  };
  ThreadState StateOf(int process) const;  // of the first thread
  ProcessId IdOf(int process) const {
    return static_cast<ProcessId>(process + 1) + 1000 * procs_[process].child;
  }
  bool WakesNow(int process) const;
  bool NothingHoldsUp(int process, const Op& op) const;  // no other rank, nor its own work
  bool CommReady(int process, int comm) const;

  bool Granted(int process) const;
  bool HostEnabled(int process) const;
  void Host(int process);
  bool CallCanEnd(int process, const Op& op) const;
  void EndCall(int process, const Op& op);
  void Begin(int process, const Op& op);
  bool StreamEmptyBefore(const Proc& p, int stream, uint64_t ordinal) const;
  bool DoneTo(const Proc& p, int stream, uint64_t ordinal) const;
  static bool Holds(const Proc& p, const Work& wait);
  bool Arrived(int process, const Work& wait) const;
  bool CanStart(const Launch& launch) const;
  bool CanEnd(const Launch& launch) const;
  bool Started(int comm, int rank, uint64_t sequence) const;
  bool P2pStarted(int comm, int source, int target, uint64_t sequence, bool send) const;
  bool Called(int comm, int rank, uint64_t sequence) const;
  bool P2pCalled(int comm, int source, int target, uint64_t sequence, bool send) const;
  // `sequence`: none of an operation that is captured, which is not numbered.
  bool Connects(int process, const Op& op, std::optional<uint64_t> sequence) const;
  // Whether the member uses the communicator's collectives, or connects with the other in the
  // direction, or has done so before.
  bool Uses(int comm, int rank) const;
  bool UsesPeer(int comm, int rank, int peer, bool send) const;
  // The operations of the call that the process is in.
  std::vector<const Op*> InCall(int process) const;
  // What it is at: of a graph that is captured, the operation.
  const Op& Now(int process) const;
  // The others that a transfer or a collective connects with one by one, in which directions.
  std::vector<std::pair<int, bool>> PairsOf(int process, const Op& op) const;
  void NoteUsed(int process, const Op& op);
  int RankIn(int comm, int process) const;
  CommUid UidOf(int comm) const;
  CommUid NameOf(int comm, int process) const;       // by which the process knows it
  CommUid OtherNameOf(int comm, int process) const;  // 0: none
  uint64_t DoneByMarkers(const Proc& p, int stream) const;
  void Resolve(const Proc& p, int stream, uint64_t ordinal, std::vector<StreamPlace>* places) const;
  std::shared_ptr<const CallDetail> MakeDetail(int process) const;
  void LaunchGraph(int process, const Op& op);
  void Enqueue(int process, std::vector<OpPart> parts, bool group, uint64_t group_number);
  CallRecord& Emit(int process, RecordKind kind, Call call);
  void Cover(Proc* p, int stream, bool and_legacy);
  void FillOperation(CallRecord* r, const OpPart& part, int process);
  OpPart Number(int process, const Op& op);

  std::map<std::tuple<int, int, int>, uint64_t>
      signals_;  // (communicator, source, destination): sent, not taken
  CommId CommIdOf(int comm) const {
    return static_cast<CommId>(comms_[comm].id > 0 ? comms_[comm].id : comm + 1);
  }

  std::vector<SimComm> comms_;
  mutable std::vector<Program> programs_;                      // a Turn exchanges threads
  mutable std::vector<std::vector<Program>> helper_programs_;  // by process
  mutable std::vector<Proc> procs_;
  std::map<int, int> answers_;  // by pipe: not read
  std::vector<Launch> launches_;
  const bool cold_;
  bool grant_ = false;
  uint64_t now_ = 1'000'000'000;
  uint64_t round_ = 0;
  size_t fed_ = 0;
  std::set<ProcessId> introduced_, told_end_;
  std::mt19937_64 random_;
};

}  // namespace gordian::model::testing

#endif  // GORDIAN_TESTS_UNIT_MODEL_SIM_SIM_JOB_H_
