// Searches the orders that threads are free to call in for those in which nothing moves any more.
//
// It reduces the orders that it tries:
//   - Source sets (P. Abdulla, S. Aronis, B. Jonsson, K. Sagonas, Optimal Dynamic Partial Order
//     Reduction, POPL 2014): in a state it begins only with moves of which each order has one that
//     may come first. All calls of a recorded thread are known beforehand, so the sets come from
//     what each thread has left (persistent sets: P. Godefroid, Partial-Order Methods for the
//     Verification of Concurrent Systems, LNCS 1032, 1996, chapter 4) and not, as there, from races
//     in orders that were tried before. So no part of the search needs another one's results, which
//     lets threads share it, files keep it, and bounds cut it without a loss.
//   - Sleep sets (Godefroid, chapter 5): it leaves out a move that an earlier branch began with, as
//     long as only independent moves came since.
//   - Equal states: it goes by layers, of states whose threads have made equally much. Equal states
//     are in one layer and become one, which leaves out only what all ways there leave out.
//
// Why it meets each end: let `w` lead from a state to an end, with no move that may come first in
// `w` asleep. The source set has moves that may; the first of these is awake, so it is made. A move
// that may come first in the rest of `w` and is asleep there would have been asleep here, or be an
// earlier one of these. So the rest of `w` begins with none, and so on to the end.
//
// Preemptions (M. Musuvathi, S. Qadeer, Iterative Context Bounding, PLDI 2007): a thread loses its
// turn to another one of its rank, though it could make another call (Actor::yields). With a bound
// of these all calls of a rank count as dependent: equivalent orders then have equally many,
// without which bound and reduction do not go together (K. Coons, M. Musuvathi, K. McKinley,
// Bounded Partial-Order Reduction, OOPSLA 2013).
//
// Pure except for the callbacks; its results do not depend on the number of threads.
#ifndef GORDIAN_ANALYZER_EXPLORE_EXPLORER_H_
#define GORDIAN_ANALYZER_EXPLORE_EXPLORER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "analyzer/explore/explorable.h"

namespace gordian::explore {

struct ExploreCounts {
  size_t states = 0;  // that it went on from, or ended in
  size_t ends = 0;    // states in which no actor can move
  size_t merged = 0;  // branches that came to a state which another one had come to
  size_t asleep = 0;  // ... in which all that was left to do was asleep
  size_t cut = 0;     // ... that a bound cut off

  // Ways that were begun and gone to their end, wherever that was.
  size_t Schedules() const { return ends + merged + asleep + cut; }
};

// A state to go on from. Plain, so that files can hold it. The way there is an order of actors that
// move; most states share its beginning with the state before them.
struct OpenState {
  size_t same = 0;               // it begins with so many moves of the state before
  std::vector<uint32_t> then;    // actors that moved after those
  std::vector<uint32_t> asleep;  // actors, ascending
  size_t preemptions = 0;
  uint64_t parent = 0;  // these two give its place among others of its layer
  uint32_t branch = 0;
};
struct Frontier {
  std::vector<OpenState> open;
  ExploreCounts counts;
};

struct ExploreOptions {
  std::optional<size_t> max_preemptions;  // of all ranks together
  std::optional<size_t> max_calls;        // no order is followed beyond so many calls
  size_t max_states = 1'000'000;
  // Calls work(i) once for each i below `count`, in any order or from several threads at once.
  // Empty: one after the other. The explorer's destructor calls it, too.
  std::function<void(size_t count, const std::function<void(size_t)>& work)> for_each;
  // Copies of states to keep, in bytes; others are made again from their path.
  size_t max_bytes = 512 * 1024 * 1024;
  // Called with each state in which no actor can move, the way there and its preemptions, as
  // for_each calls. `number` grows in an order that does not depend on threads.
  std::function<void(uint64_t number, const Explorable& state, const std::vector<Step>& path,
                     size_t preemptions)>
      on_end;
  // Called every few moves, by the thread that called Run(); returning false ends the search. May
  // be empty.
  std::function<bool(const ExploreCounts&, size_t open)> on_batch;
};

// Not thread-safe.
class Explorer {
 public:
  // `root` must outlive it.
  Explorer(const Explorable& root, ExploreOptions options);
  ~Explorer();
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  // Begins there, not at the root. False: it holds moves that the machine cannot make.
  bool Resume(const Frontier& frontier);
  // Returns whether nothing was left to try, or only what a bound cut off.
  bool Run();
  const ExploreCounts& counts() const;
  // What is left to try: in on_batch or after Run().
  Frontier Save() const;

 private:
  class Search;
  const std::unique_ptr<Search> search_;
};

}  // namespace gordian::explore

#endif  // GORDIAN_ANALYZER_EXPLORE_EXPLORER_H_
