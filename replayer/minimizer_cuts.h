// Ways to take something out of a schedule so that what is left is one again: what was about it
// goes with it, and ranks, communicators, streams, events and graphs are numbered anew.
// Implementation of minimizer.h.
#ifndef GORDIAN_REPLAYER_MINIMIZER_CUTS_H_
#define GORDIAN_REPLAYER_MINIMIZER_CUTS_H_

#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "replayer/schedule.h"

namespace gordian::replayer {

using OpSet = std::unordered_set<OpId>;

// Calls. What is in a group whose ends are both gone is called by itself. A capture goes with its
// begin, and the launches of its graph with it; calls on a communicator that the rank does not make
// any more go as well.
Schedule WithoutOps(const Schedule& schedule, const OpSet& ops);

// Places in Schedule::ranks. Transfers with them, and operations rooted at them, go with them at
// every other rank.
Schedule WithoutRanks(const Schedule& schedule, const std::set<int>& ranks);

// Members of communicators, as (place of the communicator, place in its members); as above, but
// that the rank stays and calls what it calls elsewhere.
Schedule WithoutMembers(const Schedule& schedule, const std::set<std::pair<int, int>>& members);

// Communicator `comm` is there before any thread begins.
Schedule WithReadyComm(const Schedule& schedule, int comm);

// Thread `from` of a rank becomes part of thread `into`, in an order that their gates allow; a call
// that did not return comes last. Empty: there is no such order.
Schedule WithThreadsMerged(const Schedule& schedule, size_t rank, size_t into, size_t from);

// What was put on stream `from` goes on `into`.
Schedule WithStreamsMerged(const Schedule& schedule, size_t rank, int into, int from);

// The same calls on as few bytes as leave each operation in the size class of `original`, where it
// has the same id. Operations of `groups` (ids of what belongs together) alone. Counts that
// differed within a group still do.
//
// Classes, by bytes of all members together where NCCL counts so: what it moves with its protocols
// for small messages (LL) and medium ones (LL128); for large ones (Simple, buffers.h); and what is
// larger still. The first limit and the last are those at which what a mismatched operation does
// was seen to change (docs/emulator-truth.md).
Schedule WithLeastBytes(const Schedule& schedule, const Schedule& original,
                        const std::vector<std::vector<OpId>>& groups);

enum class SizeClass { kNothing, kSmall, kMedium, kLarge, kHuge };
SizeClass ClassOf(const Op& op, size_t members);

// What belongs together: the shares of each collective at its members, and the two ends of each
// transfer, as far as they are called in one order everywhere.
std::vector<std::vector<OpId>> Steps(const Schedule& schedule);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_MINIMIZER_CUTS_H_
