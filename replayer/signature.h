// What makes two hangs one of the same kind.
#ifndef GORDIAN_REPLAYER_SIGNATURE_H_
#define GORDIAN_REPLAYER_SIGNATURE_H_

#include "analyzer/graph/verdict.h"
#include "replayer/schedule.h"

namespace gordian::replayer {

// Of a verdict's main finding.
Signature SignatureOf(const graph::Verdict& verdict);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_SIGNATURE_H_
