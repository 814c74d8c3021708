// Which operations the preemptive runtime has begun before their turn, as each process says in the
// round (docs/runtime.md).
#ifndef GORDIAN_ANALYZER_MODEL_WAITS_BEGUN_EARLY_H_
#define GORDIAN_ANALYZER_MODEL_WAITS_BEGUN_EARLY_H_

#include <cstdint>
#include <tuple>
#include <vector>

#include "analyzer/model/facts/execution_graph.h"

namespace gordian::model {

class BegunEarly {
 public:
  explicit BegunEarly(const ExecutionGraph&);

  // The process says so of a part of the launch, or cannot say which operations it has begun.
  bool Says(const Process&, const Launch& launch) const;

 private:
  // Communicator, kind, rank, peer, number.
  using Key = std::tuple<int, PartKind, int, int, uint64_t>;
  static Key KeyOf(const PartRef&);
  std::vector<Key> parts_;  // sorted
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_WAITS_BEGUN_EARLY_H_
