// Which ranks of a cycle depart from what the others do.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_CULPRITS_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_CULPRITS_H_

#include <string>
#include <vector>

#include "analyzer/model/verdict/describe.h"

namespace gordian::model {

struct Culprits {
  std::vector<int> ranks;  // of the job, ascending; all of the cycle where nothing tells them apart
  std::string why;         // a sentence that says what does, where the cycle does not show it
};

Culprits FindCulprits(const WaitForGraph&, const Names&, const std::vector<Arrow>& cycle);

// The ranks that call another one of the cycle's operations first than most do, ascending. Empty:
// there is no majority, or all agree.
std::vector<int> FewerInOrder(const WaitForGraph&, const Names&, const std::vector<Arrow>& cycle);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_CULPRITS_H_
