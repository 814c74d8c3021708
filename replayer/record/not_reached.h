// Adds calls that the job did not reach because it hung before them.
#ifndef GORDIAN_REPLAYER_RECORD_NOT_REACHED_H_
#define GORDIAN_REPLAYER_RECORD_NOT_REACHED_H_

#include <cstddef>

#include "replayer/record/schedule.h"

namespace gordian::replayer {

// Adds the calls that ranks would have made next, as far as other ranks show them: collectives that
// another member has called, the other ends of sends and receives, and what makes a communicator.
// They follow the call in which the thread hangs, and do not change the hang; without them a replay
// with its mistake fixed could not end. Returns how many it added.
//
// Adds none to a rank that sleeps, spins, or has ended: it might never have called. Nor to threads
// that wait in no call, nor on communicators that several threads of a rank use, or graphs that are
// launched several times: the order of their calls is unknown.
size_t AddNotReached(Schedule* schedule);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_NOT_REACHED_H_
