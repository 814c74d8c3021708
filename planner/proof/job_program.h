// Builds the program of all ranks, streams, events, host threads and rendezvous, as moments of a
// WaitProgram. Part of the implementation of proof.h.
#ifndef GORDIAN_PLANNER_PROOF_JOB_PROGRAM_H_
#define GORDIAN_PLANNER_PROOF_JOB_PROGRAM_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/model/collective.h"
#include "analyzer/model/facts/event.h"
#include "planner/proof/wait_program.h"

namespace gordian::planner {

inline constexpr uint64_t kLinkStreams = uint64_t{1}
                                         << 32;  // streams of links: beyond all recorded ids

// Identifies an operation to its counterparts on the other ranks.
struct Meeting {
  int comm = -1;
  int size = 0;
  model::Role role;
  model::OpSignature signature;
  std::string send;  // which of the plan's sends; empty: a call of the job
  std::string what;  // for people
};

class JobProgram {
 public:
  // strict: broadcasts and reduces end nowhere before all members have begun, and a send ends with
  // its receive.
  explicit JobProgram(bool strict) : strict_(strict) {}

  Moment Add(int rank, std::string what) {
    const Moment moment = program_.Add();
    told_.push_back({rank, std::move(what)});
    return moment;
  }
  void Wait(Moment moment, Moment on) { program_.Wait(moment, on); }

  // Adds an operation; returns its start and its end.
  std::pair<Moment, Moment> Operation(int job_rank, const std::vector<Meeting>& meetings);

  // Call after all operations: adds the waits between members. Returns a description of the first
  // place where members call different operations, or "".
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

  // Adds work that a thread puts on a stream and that also waits for `after`. Returns its end.
  Moment Work(uint64_t stream, model::ThreadId thread, const std::vector<Moment>& after,
              std::string what);
  // Adds an operation that occupies all of `streams`.
  Moment Operation(const std::vector<uint64_t>& streams, model::ThreadId thread,
                   const std::vector<Moment>& after, const std::vector<Meeting>& meetings);
  // Makes the thread wait for these moments.
  void HostWait(model::ThreadId thread, const std::vector<Moment>& on, std::string what);

  std::optional<Moment> Tail(uint64_t stream) const;
  std::vector<Moment> Tails() const;

 private:
  void Order(uint64_t stream, model::ThreadId thread, Moment start);

  JobProgram& program_;
  const int rank_;
  std::map<uint64_t, Moment> tails_;
  std::map<uint64_t, uint32_t> flags_;
  std::map<model::ThreadId, Moment> threads_;
};

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_PROOF_JOB_PROGRAM_H_
