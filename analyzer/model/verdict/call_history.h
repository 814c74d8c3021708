// In which order a rank has made its last calls, by the numbers that it gave them.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_CALL_HISTORY_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_CALL_HISTORY_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "analyzer/model/waits/wait_for_graph.h"

namespace gordian::model {

// The order of call number `n`, its low half; nothing where it is not kept any more.
std::optional<uint32_t> OrderOf(const PartNumbers&, uint64_t n);

// The source's and the destination's rank of a transfer; of a collective (-1, -1).
std::pair<int, int> EndsOf(const PartRef&);

// How many calls with these numbers came before their process's call with this order.
std::optional<uint64_t> CountBefore(const PartNumbers&, uint32_t order);

// The end of the part's operation that the other member has.
PartRef EndOf(const PartRef&, int rank);

class CallHistory {
 public:
  explicit CallHistory(const WaitForGraph& graph) : graph_(graph) {}

  // The member's process, unless records of it were lost; else null.
  const Process* Complete(const CommMember&) const;

  // How the member numbers the calls of its end; null where that may be wrong, or it has made none.
  const PartNumbers* NumbersOf(const PartRef& end) const;

 private:
  const WaitForGraph& graph_;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_CALL_HISTORY_H_
