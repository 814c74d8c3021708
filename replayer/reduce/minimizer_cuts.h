// Removes something from a schedule, with everything that depended on it, and renumbers ranks,
// communicators, streams, events and graphs. Implementation of minimizer.h.
#ifndef GORDIAN_REPLAYER_REDUCE_MINIMIZER_CUTS_H_
#define GORDIAN_REPLAYER_REDUCE_MINIMIZER_CUTS_H_

#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "replayer/record/schedule.h"

namespace gordian::replayer {

using OpSet = std::unordered_set<OpId>;

// Removes calls. When both ends of a group go, its calls stay as single ones. With the begin of a
// capture go the capture and the launches of its graph; with the making of a communicator, the
// rank's calls on it.
Schedule WithoutOps(const Schedule& schedule, const OpSet& ops);

// Removes ranks (indices into Schedule::ranks), with all transfers with them and operations rooted
// at them.
Schedule WithoutRanks(const Schedule& schedule, const std::set<int>& ranks);

// Removes members (index of the communicator, index of the member) as above, except that the rank
// stays with its calls elsewhere.
Schedule WithoutMembers(const Schedule& schedule, const std::set<std::pair<int, int>>& members);

// Makes communicator `comm` before any thread begins.
Schedule WithReadyComm(const Schedule& schedule, int comm);

// Merges thread `from` of a rank into thread `into`, in an order that the gates allow; a call that
// did not return comes last. Empty if there is no such order.
Schedule WithThreadsMerged(const Schedule& schedule, size_t rank, size_t into, size_t from);

// Moves the work of stream `from` to `into`.
Schedule WithStreamsMerged(const Schedule& schedule, size_t rank, int into, int from);

// The same calls with as few bytes as keep each operation of `groups` (ids that belong together) in
// its size class in `original`, found by id. Counts that differed within a group still differ.
//
// The classes, by the bytes of all members together where NCCL counts so, lie between the bounds at
// which NCCL chooses another protocol (buffers.h) or mismatched operations come to another end
// (mismatch.h).
Schedule WithLeastBytes(const Schedule& schedule, const Schedule& original,
                        const std::vector<std::vector<OpId>>& groups);

// The number of the class, in rising order; 0: no bytes.
size_t ClassOf(const Op& op, size_t members);

// Groups of calls: a collective's calls at all its members, and the two ends of a transfer, as far
// as all ranks call them in one order.
std::vector<std::vector<OpId>> Steps(const Schedule& schedule);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_REDUCE_MINIMIZER_CUTS_H_
