// Writes one rank's function of a C++ replay, and holds what it shares with the writer of the whole
// program. Implementation of cxx_writer.h.
#ifndef GORDIAN_REPLAYER_WRITE_CXX_RANK_WRITER_H_
#define GORDIAN_REPLAYER_WRITE_CXX_RANK_WRITER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "replayer/record/schedule.h"

namespace gordian::replayer {

// NCCL's name of the operation's type (of one that it does not have: ncclUint8) and operator.
std::string CxxTypeOf(const Op& op);
std::string CxxOperatorOf(const Op& op);
// Quotes text as a C++ string.
std::string CxxQuoted(const std::string& text);
// Makes text safe for a comment: one line that cannot end the comment.
std::string CxxCommented(const std::string& text);

// The program's number for each mark.
using CxxMarks = std::map<std::pair<OpId, Gate::Moment>, int>;

// Writes the function's body, indented by two.
std::string WriteCxxRank(const Schedule& schedule, size_t rank, const CxxMarks& marks);

// The same for a benchmark: builds graphs once, repeats all other calls, and times operations,
// outermost groups and launches of graphs. Sets `timed` to those (a group: its start), in order,
// within `schedule`. No marks; at most one thread.
std::string WriteCxxBenchRank(const Schedule& schedule, size_t rank, std::vector<const Op*>* timed);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_WRITE_CXX_RANK_WRITER_H_
