// A job written down by hand: calls of ranks in, the events out that a collector would have sent.
// Each rank is one process with one thread and one device. Keeps the books that the shim and the
// collector keep (orders, ordinals, sequence numbers, thread and stream states), so that the events
// are those of a run that could have been. Shared by tests and benchmarks.
#ifndef GORDIAN_TESTING_JOBS_RECORDED_JOB_H_
#define GORDIAN_TESTING_JOBS_RECORDED_JOB_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gordian/v1/event.pb.h"
#include "proto/ring/record.h"

namespace gordian::testing {

class RecordedJob {
 public:
  // Announces the calls, then one process for each rank. Each record is an event of its own. Every
  // process maps `module` (see CallSiteOf), unless it is empty. start_ns: time of the first event.
  explicit RecordedJob(int ranks, std::string module = "", uint64_t start_ns = 1'000'000'000);

  // Collective: every member makes the communicator, one after the other has entered.
  void MakeCommunicator(uint64_t uid, const std::vector<int>& ranks, const std::string& name);
  uint32_t MakeStream(int rank);  // 1 is the first

  // Call sites of calls made from now on. An address of the mapped module is its file offset plus
  // kModuleStart.
  static constexpr uint64_t kModuleStart = 0x5500'0000'0000;
  void CallSiteOf(int rank, uint64_t address) { At(rank).site = address; }

  // Calls made from now on are this thread's; 1 at first, and the only one that rounds report.
  void AsThread(int rank, uint32_t thread) { At(rank).thread = thread; }

  // The thread's operations between these two are a group.
  void BeginGroup(int rank);
  void EndGroup(int rank);

  // Enqueues; returns the ordinal, in a group 0. `symbol` is a collective of NCCL's.
  uint64_t Collective(int rank, const std::string& symbol, uint64_t uid, uint32_t stream,
                      uint64_t count);
  uint64_t Send(int rank, uint64_t uid, int peer, uint32_t stream, uint64_t count);
  uint64_t Receive(int rank, uint64_t uid, int peer, uint32_t stream, uint64_t count);
  void Kernels(int rank, uint32_t stream);  // coalesced as the shim does
  void RecordEvent(int rank, uint32_t stream, uint64_t event);
  uint64_t WaitEvent(int rank, uint32_t stream, uint64_t event);  // the stream waits

  // The host waits for all of a stream; End when it came back.
  void BeginSynchronize(int rank, uint32_t stream);
  void EndSynchronize(int rank);

  // What the device did: everything on the stream up to `ordinal` is done, and the next operation,
  // if there is one, has started.
  void Done(int rank, uint32_t stream, uint64_t ordinal);
  uint64_t Enqueued(int rank, uint32_t stream) { return At(rank).streams.at(stream).enqueued; }
  void AllDone();  // on every stream of every rank

  // Threads of NCCL and CUDA that every process has and that rounds report; none at first.
  void SetLibraryThreads(int count) { library_threads_ = count; }

  // Appends a round with the present state of all processes. `number` 0: one more than the last
  // round's. A collector that was asked for round n passes n.
  void Round(uint64_t number = 0);

  void EndProcess(int rank, int exit_code);
  void EndJob(int exit_code);

  void Sleep(uint64_t ns) { now_ns_ += ns; }

  const std::vector<v1::Event>& events() const { return events_; }
  // Events since the last Take. The caller sends them on.
  std::vector<v1::Event> Take();
  // The same for jobs that are too large to be kept: events() and Take() know nothing of them
  // afterwards.
  std::vector<v1::Event> Drain();
  // A Round event for request `number`, not appended to events(); of these ranks only.
  v1::Event RoundEvent(uint64_t number) { return RoundEvent(number, 0, processes_.size()); }
  v1::Event RoundEvent(uint64_t number, size_t first, size_t end);

 private:
  struct Stream {
    uint64_t enqueued = 0, head = 0, done = 0;
    bool last_is_kernels = false;
  };
  struct Communicator {
    uint32_t id = 0;
    uint64_t next = 0;
    std::map<std::pair<int, bool>, uint64_t> transfers;  // (peer, send) -> next
  };
  struct Process {
    uint64_t order = 0, published = 0, entered = 0, left = 0, nccl_calls = 0;
    uint32_t thread = 1;
    uint32_t call = 0;
    uint64_t call_order = 0, since_ns = 0, site = 0;
    uint32_t wait_stream = 0;
    bool alive = true;
    std::map<uint32_t, uint32_t> groups;           // so many, of each thread
    std::map<uint32_t, std::set<uint32_t>> group;  // streams of the open group, by thread
    std::map<uint32_t, Stream> streams;
    std::map<uint64_t, Communicator> comms;
    uint32_t tracked_since_kernels = 0;
  };

  Process& At(int rank) { return processes_.at(static_cast<size_t>(rank)); }
  uint32_t Call(const std::string& symbol) const { return calls_.at(symbol); }
  // The next record of the rank, without its payload; Put makes an event of it.
  ring::Record Next(int rank, ring::RecordKind kind, const std::string& symbol);
  void Put(int rank, const ring::Record& record);
  void PutWork(int rank, const std::string& symbol, uint32_t stream, ring::WorkKind kind,
               uint64_t ordinal, uint64_t event);
  void Enter(int rank, const std::string& symbol);
  void Leave(int rank);
  uint64_t Enqueue(int rank, const std::string& symbol, uint64_t uid, uint32_t stream,
                   uint64_t count, int peer, uint64_t sequence);
  uint64_t Tick() { return now_ns_ += 1'000; }

  std::map<std::string, uint32_t> calls_;
  std::vector<Process> processes_;
  std::vector<v1::Event> events_;
  size_t taken_ = 0;
  uint64_t now_ns_;
  uint64_t round_ = 0;
  int library_threads_ = 0;
};

// The same events as a collector sends them, which drains one process after the other: between any
// two events that are no records, the records of each process in as few blocks as can be.
std::vector<v1::Event> AsCollected(std::vector<v1::Event> events);

// Two ranks with two communicators, "A" (uid 1) and "B" (uid 2), both used before, on one stream
// each: rank 0 calls A then B, rank 1 B then A, and both wait for their stream. Nothing moves after
// that. Healthy up to the last step when `inverted` is false: then both call A, then B, and it all
// ends.
RecordedJob TwoRanks(bool inverted, const std::string& module = "");

}  // namespace gordian::testing

#endif  // GORDIAN_TESTING_JOBS_RECORDED_JOB_H_
