// The checks behind the verdicts: for each a stable id, its meaning, the evidence it needs, what
// can fool it and what a person should do. `gordian checks`, docs/checks and a finding's advice all
// come from here.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_CHECK_CATALOGUE_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_CHECK_CATALOGUE_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "analyzer/model/verdict/verdict.h"

namespace gordian::model {

// When a check reports: the quantity, and how much of it.
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
  const char* evidence;  // what gordian must have seen
  const char* fooled;    // what can make it wrong or late
  const char* advice;
  bool sign = false;  // is no verdict, but stands beside one (Verdict::signs)
};

// Never fails: an unknown id gives the entry of "evidence-missing".
const Check& CheckById(std::string_view id);
const Check* AllChecks(size_t* count);

// Null for an unknown id.
const Check* FindCheck(std::string_view id);

// Fills in id, verdict and advice.
Finding MakeFinding(const char* check, Confidence confidence);

// How bad a verdict is when two findings compete; higher is worse.
int Severity(VerdictKind);

// Sorts by confidence, then by severity; ties keep their order. `findings` must not be empty.
Verdict WorstFirst(std::vector<Finding> findings);

// True for verdicts that report a problem: all but healthy, finished and inconclusive.
bool SaysTrouble(VerdictKind);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_CHECK_CATALOGUE_H_
