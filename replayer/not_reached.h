// Calls that nobody saw because the job hung before them.
#ifndef GORDIAN_REPLAYER_NOT_REACHED_H_
#define GORDIAN_REPLAYER_NOT_REACHED_H_

#include <cstddef>

#include "replayer/schedule.h"

namespace gordian::replayer {

// Adds what ranks would have called next, as far as others tell: collectives that another member
// has called, and the other ends of sends and receives. They stand behind what the thread hangs in,
// and change nothing about the hang; without them a replay could not end once its mistake is
// mended. Says how many were added.
//
// A rank that sleeps, spins, or has ended gets none: nobody knows that it would have called.
// Neither do threads that stand in no call, nor communicators whose calls come from several threads
// of a rank, or out of graphs: their order is not known.
size_t AddNotReached(Schedule* schedule);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_NOT_REACHED_H_
