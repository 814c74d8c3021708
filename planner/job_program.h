// The program of all ranks under construction: streams, events, host threads and rendezvous, as
// moments of a WaitProgram. Implementation of proof.h.
#ifndef GORDIAN_PLANNER_JOB_PROGRAM_H_
#define GORDIAN_PLANNER_JOB_PROGRAM_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/graph/event.h"
#include "planner/wait_program.h"

namespace gordian::planner {

inline constexpr uint64_t kLinkStreams = uint64_t{1}
                                         << 32;  // streams of links: beyond all recorded ids

// What an operation is to the others that must make the same one.
struct Meeting {
  int comm = -1;
  int rank = 0;  // in the communicator
  int size = 0;
  graph::Call call = graph::Call::kOther;
  int root_or_peer = -1;
  std::string signature;  // equal at all members
  std::string what;       // for people
};

class JobProgram {
 public:
  // strict: broadcasts and reduces end at nobody before all have begun, and sends with their
  // receives.
  explicit JobProgram(bool strict) : strict_(strict) {}

  Moment Add(int rank, std::string what) {
    const Moment moment = program_.Add();
    told_.push_back({rank, std::move(what)});
    return moment;
  }
  void Wait(Moment moment, Moment on) { program_.Wait(moment, on); }

  // An operation that starts and ends; returns both.
  std::pair<Moment, Moment> Operation(int job_rank, const std::vector<Meeting>& meetings);

  // After all operations: who waits for whom among members. A member that makes another operation
  // than the rest at the same place is told: "".
  std::string Meet();

  WaitDecision Decide() const { return program_.Decide(); }
  size_t operations() const { return operations_; }
  size_t waits() const { return program_.waits(); }
  int RankOf(Moment moment) const { return told_[moment].first; }
  const std::string& What(Moment moment) const { return told_[moment].second; }

 private:
  struct Part {
    Meeting meeting;
    int job_rank = 0;
    Moment start = 0, done = 0;
  };
  using P2pKey = std::tuple<int, int, int, uint64_t>;  // comm, from, to, which

  const bool strict_;
  WaitProgram program_;
  std::vector<std::pair<int, std::string>> told_;
  std::map<std::pair<int, uint64_t>, std::vector<Part>> collectives_;
  std::map<P2pKey, std::pair<std::optional<Part>, std::optional<Part>>> transfers_;
  std::map<std::pair<int, int>, uint64_t> next_;                       // (comm, rank)
  std::map<std::tuple<int, int, int, bool>, uint64_t> next_transfer_;  // (comm, rank, peer, sends)
  std::map<std::pair<int, int>, Moment> last_on_comm_;                 // W8
  size_t operations_ = 0;
};

// One rank's streams, events and threads while its program is written down.
class RankProgram {
 public:
  RankProgram(JobProgram* program, int rank) : program_(*program), rank_(rank) {}

  int rank() const { return rank_; }
  void SetFlags(uint64_t stream, uint32_t flags) { flags_[stream] = flags; }

  // Work on a stream, called by a thread; it also waits for `after`. Returns its end.
  Moment Work(uint64_t stream, graph::ThreadId thread, const std::vector<Moment>& after,
              std::string what);
  // An operation that needs all of `streams`.
  Moment Operation(const std::vector<uint64_t>& streams, graph::ThreadId thread,
                   const std::vector<Moment>& after, const std::vector<Meeting>& meetings);
  // The thread goes on when these have come.
  void HostWait(graph::ThreadId thread, const std::vector<Moment>& on, std::string what);

  std::optional<Moment> Tail(uint64_t stream) const;
  std::vector<Moment> Tails() const;

 private:
  void Order(uint64_t stream, graph::ThreadId thread, Moment start);

  JobProgram& program_;
  const int rank_;
  std::map<uint64_t, Moment> tails_;
  std::map<uint64_t, uint32_t> flags_;
  std::map<graph::ThreadId, Moment> threads_;
};

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_JOB_PROGRAM_H_
