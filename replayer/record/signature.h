// Decides when two hangs are of the same kind.
#ifndef GORDIAN_REPLAYER_RECORD_SIGNATURE_H_
#define GORDIAN_REPLAYER_RECORD_SIGNATURE_H_

#include "analyzer/model/verdict/verdict.h"
#include "replayer/record/schedule.h"

namespace gordian::replayer {

// The signature of a verdict's main finding.
Signature SignatureOf(const model::Verdict& verdict);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_SIGNATURE_H_
