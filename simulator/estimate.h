// Estimators of how likely a round is to deadlock. Each says how it counted and what it leaves out.
// Results depend on the configuration, the seed and the number of rounds, on nothing else.
#ifndef GORDIAN_SIMULATOR_ESTIMATE_H_
#define GORDIAN_SIMULATOR_ESTIMATE_H_

#include <cstdint>
#include <string>

#include "simulator/interval.h"
#include "simulator/parallel.h"
#include "simulator/sampler.h"
#include "simulator/topology.h"

namespace gordian::simulator {

inline constexpr int64_t kBlock = 4096;  // rounds that one thread does in one go

struct RunControl {
  int threads = 1;
  StopAsked stop;     // may be empty
  Progress progress;  // may be empty; blocks
};

struct Estimate {
  double ratio = 0;
  Interval interval;  // 95 %
  int64_t hits = 0;   // deadlocks seen, forced ones too
  int64_t n = 0;      // rounds, or forced samples
  std::string method;
  double variance = 0;   // of one sample; 0 where the method counts hits
  double residual = 0;   // relative bound of what the method leaves out
  bool complete = true;  // not stopped before its n
};

struct PlainCounts {
  int64_t rounds = 0;
  int64_t by_default = 0;
  int64_t exact = 0;
  int64_t not_exact = 0;  // by default, but not exact
  bool complete = true;
};

// Rounds [0, n) as the process makes them.
PlainCounts CountPlain(const Problem&, const SamplerOptions&, uint64_t seed, int64_t n,
                       const RunControl&);
// Only the blocks that `first_round`, a multiple of kBlock, begins.
PlainCounts CountPlainFrom(const Problem&, const SamplerOptions&, uint64_t seed,
                           int64_t first_round, int64_t n, const RunControl&);
Estimate PlainEstimate(int64_t hits, const PlainCounts& counts);

// Exact, StreamWithSync without capacity, one common order: forces a skip, the wait after it and a
// wait of another GPU at a site drawn at random, counts with weight one over the sites that show.
// Leaves out deadlocks without any such site; `plain_rounds` > 0 adds those from so many plain
// rounds.
Estimate ForcedPair(const Problem&, const SamplerOptions&, uint64_t seed, int64_t n,
                    int64_t plain_rounds, const RunControl&);

// Where nothing deadlocks without a skip: forces one, drawn at random. `exact` false: the published
// detector of the model Single, on lists of one rhythm.
Estimate ForcedSwap(const Problem&, const SamplerOptions&, bool exact, uint64_t seed, int64_t n,
                    const RunControl&);

// StreamWithSync: draws the number of waits among those numbers that a deadlock by default needs at
// least (2; 3 with p = 0), then their places. `exact` false: the published detector.
Estimate ConditionedCounts(const Problem&, const SamplerOptions&, bool exact, uint64_t seed,
                           int64_t n, const RunControl&);

// How many places a skip (of more than none) or a wait can have, over all copies.
uint64_t SkipPlaces(const Problem&);
uint64_t WaitPlaces(const Problem&);
uint64_t ForcedPairSites(const Problem&);

// A sample that ForcedPair makes: a round of one component with a deadlock likely. False: no site.
bool DrawForcedPair(const Problem&, const SamplerOptions&, uint64_t seed, uint64_t sample,
                    size_t* component, Perturbations* drawn);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_ESTIMATE_H_
