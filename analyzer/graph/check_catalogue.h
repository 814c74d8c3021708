// The checks behind the verdicts: a stable id each, what it means, and what a person should do.
#ifndef GORDIAN_ANALYZER_GRAPH_CHECK_CATALOGUE_H_
#define GORDIAN_ANALYZER_GRAPH_CHECK_CATALOGUE_H_

#include <cstddef>

#include "analyzer/graph/verdict.h"

namespace gordian::graph {

struct Check {
  const char* id;
  VerdictKind verdict;
  const char* meaning;
  const char* advice;
};

// Never fails: an unknown id gives the entry of "evidence-missing".
const Check& CheckById(const char* id);
const Check* AllChecks(size_t* count);

// Worst first: how bad a verdict is when two findings compete; higher is worse.
int Severity(VerdictKind);

// Whether a verdict says that something is wrong with the job: all but healthy, finished, straggler
// and inconclusive.
bool SaysTrouble(VerdictKind);

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_CHECK_CATALOGUE_H_
