// The checks behind the verdicts: a stable id each, what it means, what it rests on, what can fool
// it and what a person should do. The one source of `gordian checks`, of docs/checks and of a
// finding's advice.
#ifndef GORDIAN_ANALYZER_GRAPH_CHECK_CATALOGUE_H_
#define GORDIAN_ANALYZER_GRAPH_CHECK_CATALOGUE_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "analyzer/graph/verdict.h"

namespace gordian::graph {

// When a check speaks: what is counted, and how much of it is needed.
struct Threshold {
  const char* unit;
  const char* value;
};

struct Check {
  const char* id;
  VerdictKind verdict;  // kHealthy for a sign
  const char* title;    // for lists
  const char* meaning;  // what it says
  Threshold threshold;
  const char* evidence;  // what has to be seen
  const char* fooled;    // what can make it wrong or late
  const char* advice;
  bool sign = false;  // stands beside a verdict (Verdict::signs) and is none
};

// Never fails: an unknown id gives the entry of "evidence-missing".
const Check& CheckById(std::string_view id);
const Check* AllChecks(size_t* count);

// Null for an unknown id.
const Check* FindCheck(std::string_view id);

// Fills in id, verdict and advice.
Finding MakeFinding(const char* check, Confidence confidence);

// Worst first: how bad a verdict is when two findings compete; higher is worse.
int Severity(VerdictKind);

// The surest first, then the worst; of equal ones in their order. At least one.
Verdict WorstFirst(std::vector<Finding> findings);

// Whether a verdict says that something is wrong with the job: all but healthy, finished, straggler
// and inconclusive.
bool SaysTrouble(VerdictKind);

}  // namespace gordian::graph

#endif  // GORDIAN_ANALYZER_GRAPH_CHECK_CATALOGUE_H_
