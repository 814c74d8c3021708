// Which members have come to use what NCCL connects at its first use (W15): a communicator's
// collectives, or a peer in one direction.
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_BEGUN_USES_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_BEGUN_USES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/match/matcher.h"

namespace gordian::model {

// Not thread-safe: it keeps what it has looked up.
class BegunUses {
 public:
  BegunUses(const ExecutionGraph& execution, const Matcher& matcher)
      : execution_(execution), matcher_(matcher) {}

  // Whether the member has come to use the communicator's collectives, or (`peer`: rank, and
  // whether to send to it) that peer. False for a member that has ended or aborted.
  bool HasBegun(int comm, int rank, const std::optional<std::pair<int, bool>>& peer) const;
  // The order of the call in which the member uses the communicator's collectives now, captured or
  // not.
  std::optional<uint64_t> Order(int comm, int rank) const;

 private:
  // What calls that a process is in use: communicators' collectives, with the order of the first
  // such call, and sends to peers or receives from them.
  struct Begun {
    std::map<CommId, uint64_t> collectives;
    std::set<std::tuple<CommId, int, bool>> peers;
  };
  const Begun& By(const Process&) const;

  const ExecutionGraph& execution_;
  const Matcher& matcher_;
  mutable std::unordered_map<ProcessId, Begun> begun_;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_BEGUN_USES_H_
