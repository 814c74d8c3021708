// Estimates how likely a round is to deadlock. Each estimate names its method and what it omits.
// Results depend only on the configuration, the seed and the number of rounds.
#ifndef GORDIAN_SIMULATOR_SAMPLING_ESTIMATE_H_
#define GORDIAN_SIMULATOR_SAMPLING_ESTIMATE_H_

#include <cstdint>
#include <string>

#include "simulator/parallel.h"
#include "simulator/sampling/interval.h"
#include "simulator/sampling/sampler.h"
#include "simulator/topology.h"

namespace gordian::simulator {

inline constexpr int64_t kBlock = 4096;  // rounds that a thread runs at a time

struct RunControl {
  int threads = 1;
  StopAsked stop;     // may be empty
  Progress progress;  // may be empty; blocks
};

struct Estimate {
  double ratio = 0;
  Interval interval;  // 95 %
  int64_t hits = 0;   // deadlocks found, including forced ones
  int64_t n = 0;      // rounds, or forced samples
  std::string method;
  double variance = 0;   // of one sample; 0 if the method counts hits
  double residual = 0;   // relative bound of what the method omits
  bool complete = true;  // ran all n
};

struct PlainCounts {
  int64_t rounds = 0;
  int64_t by_default = 0;
  int64_t exact = 0;
  int64_t not_exact = 0;  // deadlocks by default that are none by the exact detector
  bool complete = true;
};

// Counts rounds [0, n), drawn as the process draws them.
PlainCounts CountPlain(const Problem&, const SamplerOptions&, uint64_t seed, int64_t n,
                       const RunControl&);
// Counts only the blocks from `first_round` on, a multiple of kBlock.
PlainCounts CountPlainFrom(const Problem&, const SamplerOptions&, uint64_t seed,
                           int64_t first_round, int64_t n, const RunControl&);
Estimate PlainEstimate(int64_t hits, const PlainCounts& counts);

// Exact, StreamWithSync without capacity, one common order: forces a skip, the wait after it and a
// wait of another GPU at a random site, and weights the round by one over its sites that show.
// Omits deadlocks without such a site; with `plain_rounds` > 0 estimates those from so many plain
// rounds.
Estimate ForcedPair(const Problem&, const SamplerOptions&, uint64_t seed, int64_t n,
                    int64_t plain_rounds, const RunControl&);

// For configurations that never deadlock without a skip: forces a random one. `exact` false: the
// published detector of the model Single, on lists of one rhythm.
Estimate ForcedSwap(const Problem&, const SamplerOptions&, bool exact, uint64_t seed, int64_t n,
                    const RunControl&);

// StreamWithSync: draws the number of waits among those large enough for a deadlock by default (2;
// 3 if p = 0), then their places. `exact` false: the published detector.
Estimate ConditionedCounts(const Problem&, const SamplerOptions&, bool exact, uint64_t seed,
                           int64_t n, const RunControl&);

// After how many rounds a look at RunControl::stop costs little beside them; a power of two.
int64_t RoundsBetweenLooks(const Problem&);

// How many places a skip (of at least one) or a wait can have, over all copies.
uint64_t SkipPlaces(const Problem&);
uint64_t WaitPlaces(const Problem&);
uint64_t ForcedPairSites(const Problem&);

// Draws a sample of ForcedPair: a round of one component with a deadlock likely. Returns false if
// there is no site.
bool DrawForcedPair(const Problem&, const SamplerOptions&, uint64_t seed, uint64_t sample,
                    size_t* component, Perturbations* drawn);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_SAMPLING_ESTIMATE_H_
