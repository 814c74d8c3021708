// The first reduction of a schedule, by the verdict alone: keeps the operations that its cycle or
// its stuck operation names, with the groups, graphs and events that they need, and removes those
// that merely queue up behind. The verifier checks that the rest still hangs in the same way.
#ifndef GORDIAN_REPLAYER_VERIFY_WITNESS_H_
#define GORDIAN_REPLAYER_VERIFY_WITNESS_H_

#include "replayer/record/schedule.h"

namespace gordian::replayer {

Schedule CutToWitness(const Schedule& schedule);

// Removes communicators without calls, and ranks that are members of no remaining one and call
// nothing. Renumbers the rest.
void DropUnused(Schedule* schedule);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_VERIFY_WITNESS_H_
