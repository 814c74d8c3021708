// The machine that carries out a schedule. Implementation of model_run.h.
//
// Ranks are processes 1, 2, ... of the wait model and their threads 1, 2, ...; communicators and
// streams are indices into the schedule plus one; stream kConnectStream connects communicators
// beforehand.
#ifndef GORDIAN_REPLAYER_REDUCE_MODEL_RUN_MACHINE_H_
#define GORDIAN_REPLAYER_REDUCE_MODEL_RUN_MACHINE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analyzer/model/verdict/job_model.h"
#include "replayer/record/schedule.h"
#include "replayer/reduce/model_run.h"

namespace gordian::replayer {

class Machine {
 public:
  // `schedule` must outlive it.
  explicit Machine(const Schedule& schedule);

  // Runs until nothing moves.
  void Run(Turns turns);
  // Every rank has exited, or was killed.
  bool AllEnded() const;
  // A call cannot return, or work cannot end.
  bool SomethingWaits() const;
  std::vector<OpId> Standing() const;
  model::Verdict Judge() const;

  // One move at a time (model_run_steps.cc), for callers that choose the order. Such a machine logs
  // nothing: it cannot judge.
  void GoStepwise();
  size_t Threads(size_t rank) const { return ranks_[rank].threads.size(); }
  // The call that the thread is in or makes next; null: none is left, or the rank is gone.
  const Op* NextOf(size_t rank, size_t thread) const;
  size_t ReturnedFrom(size_t rank, size_t thread) const { return ranks_[rank].threads[thread].at; }
  bool InCall(size_t rank, size_t thread) const { return ranks_[rank].threads[thread].in_call; }
  // True if Make() would do something.
  bool CanMove(size_t rank, size_t thread) const;
  // Begins the call, or leaves the one that the thread is in; then does all that no order of calls
  // can change: streams run, waits and threads that are through end.
  void Make(size_t rank, size_t thread);
  // Equal for states with the same future; empty where that is not known.
  std::string Key() const;

 private:
  static constexpr model::StreamId kConnectStream = 1000000;

  struct Place {
    int stream = 0;
    size_t ordinal = 0;  // from 1; 0: no work
  };
  // One item of work on a stream. Work other than launches ends as soon as its turn comes.
  struct Item {
    std::vector<Place> after;   // W3, W13
    std::vector<int> launches;  // into launches_
    size_t running = 0;         // of these, not ended
  };
  struct Queue {
    std::vector<Item> items;
    size_t done = 0;    // how many of them are done
    size_t marked = 0;  // the last of these with a marker behind it
  };
  struct Part {
    const Op* op = nullptr;
    uint64_t number = 0;  // among all launches
    uint64_t called = 0;  // among calls, without launches by graphs
  };
  struct Launch {
    int rank = 0;
    int comm = 0;
    std::vector<Part> parts;
    std::vector<Place> places;
    int before = -1;          // on the communicator (W8)
    int issued_before = -1;   // on the device, outside of graphs
    std::vector<int> behind;  // in its graph (W12)
    bool started = false, done = false, aborted = false;
  };
  struct Slot {  // a member's share of an operation
    const Op* op = nullptr;
    bool called = false, started = false, aborted = false;
  };
  // How many members have started a collective, and whether all of these passed the same.
  struct Started {
    size_t members = 0;
    const Op* first = nullptr;
    bool alike = true, aborted = false;
  };
  struct CommState {
    std::vector<std::vector<Slot>> collectives;  // by number and member
    std::vector<Started> started;                // by number, as far as some have started
    std::map<std::pair<int, int>, std::vector<std::pair<Slot, Slot>>>
        transfers;  // by source and destination
  };
  struct Numbers {
    uint64_t launched = 0;  // also by graphs
    uint64_t called = 0;
  };
  // A communicator at one of its members.
  struct Local {
    int place = -1;  // index among the members
    Numbers collectives;
    std::map<std::pair<int, bool>, Numbers> transfers;  // by peer and direction (sends)
    bool used = false;                                  // connected for collectives
    std::set<std::pair<int, bool>> peers;               // connected peers, with direction (sends)
    int last_launch = -1;
    uint64_t windows = 0, splits = 0;
    bool made = false, aborted = false, destroyed = false;
    uint64_t open = 0;  // collectives called and not launched yet
  };
  // A call that all members make: its kind, the communicator (for a split, the parent), and its
  // number.
  using Meeting = std::tuple<OpKind, int, uint64_t>;
  struct Captured {
    int comm = 0;
    uint32_t group = 0;  // 0: not in one
    size_t thread = 0;
    std::vector<const Op*> ops;
    std::vector<int> behind;
  };
  struct Graph {
    std::vector<Captured> launches;
    std::map<int, std::vector<int>> frontier;  // by stream: the launches before the next one
    bool ready = false;
  };
  struct Thread {
    const std::vector<Op>* ops = nullptr;
    size_t at = 0;
    bool in_call = false;
    uint64_t call_order = 0, call_since = 0;
    uint64_t entered = 0, left = 0, published = 0;
    bool called = false;  // anything at all
    bool in_group = false;
    uint32_t group = 0;
    std::vector<Part> parts;           // of the open group, or of the call
    std::vector<const Op*> capturing;  // the same for operations that go into a graph
    std::vector<Meeting> meetings;     // in which the call waits
    std::vector<Place> covered;        // for which the call waits
    std::map<int, int> captures;       // by stream: the graph that it captures
    std::map<int, std::pair<int, std::vector<int>>>
        captured_events;   // the same, and what they stand behind
    bool leaving = false;  // after its last call, waiting for the device
  };
  struct Rank {
    std::vector<Thread> threads;
    std::vector<Queue> queues;
    std::map<int, Local> comms;
    std::vector<std::vector<Place>> events;
    std::vector<Graph> graphs;
    uint64_t order = 0;
    uint64_t connected = 0;  // ordinals on kConnectStream
    int last_issued = -1;
    uint32_t groups = 0;
    bool dead = false, stopped = false, leaves = false;
    int exit_code = 0, exit_signal = 0;
    uint64_t ended_ns = 0;
  };

  const Communicator& Comm(int comm) const { return schedule_.comms[static_cast<size_t>(comm)]; }
  Rank& At(size_t rank) { return ranks_[rank]; }
  bool Setting(const char* name, const char* value) const;
  static model::StreamId StreamIdOf(int stream) { return static_cast<model::StreamId>(stream + 1); }
  static uint64_t EventHandle(int event) { return 0x900000u + static_cast<uint64_t>(event); }
  static uint64_t StreamHandle(int stream) { return 0x500000u + static_cast<uint64_t>(stream); }
  static model::CommUid UidOf(const std::tuple<OpKind, int, uint64_t>& meeting);

  // model_run_setup.cc: prepares everything that exists before the first thread.
  void SetUp();
  void EmitMade(size_t rank, int comm);
  void EmitConnected(int comm);
  void EmitConnection(size_t rank, int comm, OpKind kind, int peer);

  // model_run_host.cc: threads.
  bool MoveThread(size_t rank, size_t thread);
  bool RunThread(size_t rank, size_t thread);
  bool MayBegin(const Op& op) const;
  void Begin(size_t rank, size_t thread, const Op& op);
  bool IsIdle(size_t rank, int comm) const;
  bool CanReturn(size_t rank, const Thread& thread, const Op* op) const;
  void Return(size_t rank, size_t thread, const Op& op);
  bool RunEnd(size_t rank, size_t thread);
  void BeginOperation(size_t rank, size_t thread, const Op& op);
  void BeginMaking(size_t rank, size_t thread, const Op& op);
  void BeginHostWait(size_t rank, size_t thread, const Op& op);
  void BeginWork(size_t rank, size_t thread, const Op& op);
  void EndProcess(size_t rank, const Op& op);
  void CoverDevice(const Rank& rank, std::vector<Place>* covered) const;
  bool Connects(size_t rank, const Op& op, const Part* part) const;
  // True if a member uses the communicator's collectives, or (`peer`, and whether it sends)
  // connects with another member, now or before.
  bool Uses(int comm, int member, const std::pair<int, bool>* peer) const;
  // The others whom a part connects with one by one, and whether to send to them.
  model::Role RoleIn(size_t rank, const Op& op) const {
    return RoleOf(op, ranks_[rank].comms.at(op.comm).place);
  }
  model::FirstUses UsesOf(size_t rank, const Op& op) const {
    return model::FirstUsesOf(RoleIn(rank, op), static_cast<int>(Comm(op.comm).members.size()));
  }
  model::CallRecord& Emit(size_t rank, size_t thread, model::RecordKind kind, model::Call call,
                          const Op* op);
  void FillOperation(size_t rank, size_t thread, const Part& part, model::CallRecord* record);
  model::CallRecord& Enter(size_t rank, size_t thread, model::Call call, const Op* op);

  // model_run_work.cc: streams and launches.
  bool RunStreams(size_t rank);
  bool IsDone(const Rank& rank, const Place& place) const;
  std::vector<Place> Legacy(size_t rank, int stream) const;
  Place Append(size_t rank, int stream, std::vector<Place> after);
  void Enqueue(size_t rank, size_t thread, bool group);
  int AddLaunch(size_t rank, int comm);
  Part Number(size_t rank, const Op& op, bool from_graph);
  Slot& SlotOf(size_t rank, const Part& part);
  bool CanStart(const Launch& launch) const;
  bool CanEnd(const Launch& launch) const;
  bool PartCanEnd(const Launch& launch, const Part& part) const;
  void NoteStart(size_t rank, const Part& part);
  static bool EndsBeside(const Op& own, const std::vector<Slot>& others);
  void End(Launch* launch);
  void Capture(size_t rank, size_t thread, const Op& op);
  void LaunchGraph(size_t rank, size_t thread, const Op& op);
  void NoteUsed(size_t rank, const Op& op);

  // model_run_steps.cc
  void Settle();
  // The call that the thread is in is a first use: other threads may go on before it launches, also
  // where all members have come.
  bool MustConnect(size_t rank, const Thread& thread) const;
  void AppendPlace(const Rank& rank, const Place& place, std::string* key) const;
  void AppendQueues(const Rank& rank, std::string* key) const;
  void AppendComms(std::string* key) const;

  model::Round MakeRound(uint64_t number, uint64_t now_ns) const;
  model::ThreadState StateOf(size_t rank, size_t thread, uint64_t round) const;

  const Schedule& schedule_;
  std::vector<Rank> ranks_;
  std::vector<CommState> comms_;
  std::vector<Launch> launches_;
  std::map<Meeting, size_t> meetings_;  // how many members have come
  std::unordered_set<OpId> begun_, returned_;
  std::vector<model::CallRecord> log_;
  bool stepwise_ = false;  // keeps only the last record
  uint64_t now_ns_ = 1'000'000'000;
  bool runtime_connect_ = true;
  bool launch_order_ = false;  // NCCL_LAUNCH_ORDER_IMPLICIT
  bool one_queue_ = false;     // CUDA_DEVICE_MAX_CONNECTIONS=1
};

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_REDUCE_MODEL_RUN_MACHINE_H_
