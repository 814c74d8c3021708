// Signs: sends and receives that miss each other.
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_TRANSFER_SIGNS_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_TRANSFER_SIGNS_H_

#include <vector>

#include "analyzer/model/match/matcher.h"
#include "analyzer/model/verdict/names.h"
#include "analyzer/model/verdict/verdict.h"

namespace gordian::model {

// "wrong-peer": on one communicator, a send without a receive, and another rank's receive of equal
// length that waits for a send of the same rank. At most a few. Linear in the transfers that the
// matcher holds.
std::vector<Sign> TransferSigns(const Matcher&, const Names&);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_TRANSFER_SIGNS_H_
