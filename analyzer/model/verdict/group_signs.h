// Signs: groups that a rank has left open.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_GROUP_SIGNS_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_GROUP_SIGNS_H_

#include <vector>

#include "analyzer/model/facts/execution_graph.h"
#include "analyzer/model/verdict/names.h"
#include "analyzer/model/verdict/verdict.h"

namespace gordian::model {

// "group-left-open": a thread of a culprit has called operations since an ncclGroupStart, and is
// not in the ncclGroupEnd that would launch them. At most a few, one per thread, by rank. Linear in
// the threads of all processes.
std::vector<Sign> GroupSigns(const ExecutionGraph&, const Names&, const Finding&);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_GROUP_SIGNS_H_
