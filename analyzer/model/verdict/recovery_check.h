// Decides whether a confirmed cycle could be broken by executing its operations in the preemptive
// runtime, without a change that the program can observe, and names the first condition that fails.
//
// Pure. It proves what the records of the job show; the shim knows the buffers, and may still refuse
// (interpose/route/recovery.h).
#ifndef GORDIAN_ANALYZER_MODEL_VERDICT_RECOVERY_CHECK_H_
#define GORDIAN_ANALYZER_MODEL_VERDICT_RECOVERY_CHECK_H_

#include <vector>

#include "analyzer/model/verdict/hangs.h"
#include "analyzer/model/verdict/recovery.h"
#include "analyzer/model/waits/cycle_finder.h"

namespace gordian::model {

// True for operations that are finished at all members or at none.
bool FinishesTogether(Call call);

// Linear in what is unfinished, times the operations that one rank has in the cycle.
Recovery CheckRecovery(const RoundView& view, const std::vector<WitnessStep>& witness);

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_VERDICT_RECOVERY_CHECK_H_
