// The first cut of a schedule, by the verdict alone: what its cycle or its stuck operation names
// stays, with the groups, graphs and events that this needs; operations that merely queue up behind
// go. Whether the rest still hangs in the same way is for the verifier to say.
#ifndef GORDIAN_REPLAYER_WITNESS_H_
#define GORDIAN_REPLAYER_WITNESS_H_

#include "replayer/schedule.h"

namespace gordian::replayer {

Schedule CutToWitness(const Schedule& schedule);

// Takes out communicators that nobody calls anything on, and ranks that are members of none that is
// left and call nothing. Renumbers what is left.
void DropUnused(Schedule* schedule);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_WITNESS_H_
