// Runs the operations of one device of one process. Workers are the threads of our own streams
// (carriers: each prefers its own unit, and helps others while that is not ready) and one resident
// thread for operations that no carrier runs. A worker runs steps of any published operation;
// another worker may continue one that it leaves.
//
// The engine publishes operations that have their inputs: units whose turn in their stream has
// come, detached operations, and, once a worker finds nothing ready, those that may begin early
// (StreamOrder). An operation may not begin early if it reads what an earlier unfinished one
// writes. If it only writes what an earlier one uses, the engine renames it: executes it into
// memory of our own, and copies the result when its turn comes.
//
// Workers poll nothing while no operation is outstanding. While operations are outstanding but none
// is ready, a worker looks a few times more, and then sleeps on the doorbell, for 10 ms at most.
// Before that it looks once more at all operations, and announces what it waits for: to other ranks
// on the boards (Board::waits_for), to other workers at the channels that they run (kClaimAwaited).
//
// Threads: any. Ownership: an engine lives as long as its process. Errors: grtResult_t.
#ifndef GORDIAN_RUNTIME_CPU_ENGINE_H_
#define GORDIAN_RUNTIME_CPU_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cpu/doorbell.h"
#include "runtime/cpu/task.h"
#include "runtime/include/gordian/runtime.h"

namespace gordian::runtime {

class Courier;

class Engine {
 public:
  // Made at the first call for a device, and again in a forked child.
  static Engine* Of(int device);

  // Takes a unit to run its operations in its stream's order. On an error nothing has happened.
  grtResult_t Submit(const std::shared_ptr<Unit>& unit);
  // Takes operations that wait for no stream.
  void SubmitDetached(const std::shared_ptr<Unit>& unit);

  // The unit's driver calls it when the unit's turn has come. Never blocks.
  void Turn(const std::shared_ptr<Unit>& unit);
  // A driver's thread works here until the unit is done.
  void Carry(const std::shared_ptr<Unit>& unit);

  Doorbell& bell() { return *bell_; }

  // Blocks until the task is done or the deadline.
  static bool Await(const Task& task, int64_t deadline_ns);
  // Calls `fn` when the task is done, on a thread on which no operation depends; at once on this
  // one if the task is done already.
  static void OnDone(Task& task, std::function<void(grtResult_t)> fn);
  // The longest sleep with work outstanding. For tests: without a bound, a ring that was lost is a
  // hang.
  static void SetLongestSleep(int64_t ns);
  // grtFrontEarly, of all engines. False: some engine is being changed.
  static bool Early(grtFrontName_t* names, uint32_t most, uint32_t* count);
  // Unfinished operations of a communicator.
  std::vector<std::shared_ptr<Task>> UnfinishedOf(const Comm& comm);

 private:
  using TaskPtr = std::shared_ptr<Task>;
  using UnitPtr = std::shared_ptr<Unit>;
  struct Worker {
    uint64_t version = 0;
    std::vector<TaskPtr> tasks;    // published, in the order of looking
    uint32_t fruitless = 0;        // rounds
    bool announces = false;        // it is about to sleep: announces what it waits for
    int64_t stalled_since_ns = 0;  // 0: it is not
    int64_t looked_at_life_ns = 0;
    const Task* last = nullptr;  // where it last did a step
    Courier* helps = nullptr;    // between BeginHelp and EndHelp
  };
  struct Delayed {
    int64_t deadline_ns;
    UnitPtr unit;
    std::shared_ptr<Comm> comm;
  };

  struct Engines;
  static Engines* All();

  struct Through {
    grtFrontName_t name;
    std::shared_ptr<Unit> unit;
  };

  explicit Engine(int device);
  void TurnOf(const UnitPtr& unit);
  void Publish(const UnitPtr& unit);
  bool PublishEarly();
  bool MayBeginEarly(const Unit& unit, std::vector<TaskPtr>* renamed) const;
  bool Rename(Task& task);
  void EnsureResident();
  void ResidentMain();
  // Steps of whatever is ready. True if there was any.
  bool Round(Worker& worker, const Unit* own);
  bool Work(Worker& worker, const TaskPtr& task, uint32_t position);
  bool WorkOnChannel(Worker& worker, Task& task, uint32_t channel, uint64_t spins);
  bool TryBegin(Worker& worker, Task& task);
  // Takes the claim for the worker. If another worker has it and this one announces, the other one
  // rings the bell when it leaves.
  static bool TakeClaim(Worker& worker, std::atomic_ref<uint32_t> claim);
  void LeaveClaim(std::atomic_ref<uint32_t> claim);
  void GiveUp(Task& task, grtResult_t code, const std::string& why = std::string());
  bool TryClose(Worker& worker, const TaskPtr& task);
  void Finish(const TaskPtr& task, grtResult_t result);
  // Wakes the threads that wait for the task.
  void Complete(Task& task, grtResult_t result);
  // The unit's driver did not take it.
  void Refuse(const UnitPtr& unit, grtResult_t result);
  void PartDone(const UnitPtr& unit, grtResult_t result);
  void UnitDone(const UnitPtr& unit);
  // After a round without a step: waits a little, publishes early, looks for dead peers, sleeps.
  void Pause(Worker& worker, const Unit* own);
  // Moves what goes between nodes, if its operations need that. True: look again.
  static bool HelpCourier(Worker& worker, const Unit* own);
  static void EndHelp(Worker& worker);
  void LookAtLife(Worker& worker);
  int64_t ReleaseDelayed();
  bool HasWork(const Worker& worker);

  const int device_;
  const std::shared_ptr<Doorbell> bell_;
  std::atomic<uint64_t> version_{1};
  std::atomic<uint64_t> shadow_bytes_{0};
  std::mutex mutex_;                 // what is below
  std::vector<TaskPtr> published_;   // sorted by ComesBefore
  std::vector<TaskPtr> unfinished_;  // in the order of calls
  std::deque<UnitPtr> waiting_;      // strict, not published yet
  std::vector<Delayed> delayed_;     // failed units that still hold their stream
  std::vector<Through> through_;     // finished before their turn
  uint64_t next_number_ = 1;
  bool resident_ = false;
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_ENGINE_H_
