// The simulator's decisions once more, in the plainest way: sets and lists, nothing clever, no code
// shared with the engines.
#ifndef GORDIAN_TESTING_SIMULATOR_NAIVE_JUDGE_H_
#define GORDIAN_TESTING_SIMULATOR_NAIVE_JUDGE_H_

#include <cstdint>
#include <vector>

#include "simulator/config.h"

namespace gordian::simulator {

inline constexpr int kWait = -1;

// Of each GPU the collectives (numbered group by group) and waits in the order in which it makes
// them.
using Sequences = std::vector<std::vector<int>>;

// The lists without disorder, interleaved.
Sequences NaiveLists(const std::vector<GroupSpec>& groups, int gpus);

// Whether some GPU cannot finish when each has at most `capacity` (0: any number) collectives
// started and incomplete.
bool NaiveDeadlock(const std::vector<GroupSpec>& groups, const Sequences& sequences, int capacity);

// The published simulation of StreamWithSync on these sequences: a turn is one entry; a wait with
// nothing outstanding takes its turn and no more. `ring`: a deadlock is a circle; else the default
// detector's.
bool NaiveTurns(const std::vector<GroupSpec>& groups, const Sequences& sequences, bool ring);

}  // namespace gordian::simulator

#endif  // GORDIAN_TESTING_SIMULATOR_NAIVE_JUDGE_H_
