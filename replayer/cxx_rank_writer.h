// One rank's function of a replay in C++, and what its writer shares with that of the whole
// program. Implementation of cxx_writer.h.
#ifndef GORDIAN_REPLAYER_CXX_RANK_WRITER_H_
#define GORDIAN_REPLAYER_CXX_RANK_WRITER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "replayer/schedule.h"

namespace gordian::replayer {

// NCCL's name of the operation's type, and how large an element is; its operator.
struct CxxType {
  const char* name;
  uint64_t bytes;
};
CxxType CxxTypeOf(const Op& op);
std::string CxxOperatorOf(const Op& op);
// As a string of C++.
std::string CxxQuoted(const std::string& text);
// For a comment: one line, and no way out of it.
std::string CxxCommented(const std::string& text);

// Marks by what they stand for: the number that the program gives them.
using CxxMarks = std::map<std::pair<OpId, Gate::Moment>, int>;

// All of the function's body, indented by two.
std::string WriteCxxRank(const Schedule& schedule, size_t rank, const CxxMarks& marks);

// The same for a benchmark: what makes graphs is done once, all other calls are repeated, and
// operations, outermost groups and launches of graphs are timed. `timed`: what stands for each of
// these (a group: its start), in order, within `schedule`. No marks; one thread at most.
std::string WriteCxxBenchRank(const Schedule& schedule, size_t rank, std::vector<const Op*>* timed);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_CXX_RANK_WRITER_H_
