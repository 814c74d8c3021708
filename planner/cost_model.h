// Predicts how long a collective takes: the alpha-beta model of flat and hierarchical all-gathers
// and reduce-scatters, fitted to samples, and the table of choices that follows from it.
//
// m is the size of p blocks: the output of an all-gather, the input of a reduce-scatter. Sizes and
// times may have any units that the constants agree on; functions that read samples use bytes and
// microseconds.
//
// Source: PCCL, sections 3 to 5. Its formula puts recursive doubling below the ring for every p,
// which leaves no choice: here plans other than the ring pay kappa times the ring's beta. The cost
// of the hierarchy is gordian's own (the paper gives none).
#ifndef GORDIAN_PLANNER_COST_MODEL_H_
#define GORDIAN_PLANNER_COST_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/core/step_plan.h"

namespace gordian::planner {

using runtime::InterPlan;

// Steps of a flat plan over n ranks: n - 1 in a ring, else ceil(log2 n).
uint32_t Latencies(InterPlan inter, uint32_t n);

struct FlatCost {
  double launch = 0;     // T0
  double alpha = 0;      // each step
  double beta = 0;       // each unit of m
  double kappa = 1;      // on beta, of plans that are no ring
  double reduction = 0;  // gamma: reduce-scatter only
};
double FlatTime(const FlatCost& cost, InterPlan inter, uint32_t p, double m,
                bool reduce_scatter = false);

struct HierarchicalCost {
  double launch = 0;
  double alpha_inter = 0,
         beta_inter = 0;  // beta_inter: each rank's share of its node's network cards
  double kappa = 1;
  double alpha_intra = 0, beta_intra = 0;
  double shuffle = 0;  // gamma: 0 where blocks are addressed where they belong
};
double HierarchicalTime(const HierarchicalCost& cost, InterPlan inter, uint32_t nodes,
                        uint32_t local, double m);

// The m where ring and recursive plans take equally long; above it the ring is faster. Infinity if
// kappa is 1.
double RingCrossing(const FlatCost& cost, uint32_t p);
// The m where the flat ring and the hierarchy take equally long; above it the ring is faster.
// Negative: nowhere.
double HierarchyCrossing(const FlatCost& flat, const HierarchicalCost& cost, InterPlan inter,
                         uint32_t nodes, uint32_t local);

// Constants that reproduce the ratios PCCL publishes, in units of the flat ring's beta, m in MB.
// One number covers the inter nodes' share, the rings inside nodes and the shuffle of the
// hierarchy: the published points cannot separate them.
struct PublishedFit {
  FlatCost flat;
  HierarchicalCost hierarchical;
  uint32_t local = 0;  // M
};
PublishedFit FrontierAllGather();
PublishedFit FrontierReduceScatter();
PublishedFit PerlmutterAllGather();

// --- fitting ---

struct CostSample {
  InterPlan plan = InterPlan::kRing;
  uint32_t p = 2;
  double bytes = 0;  // m
  double us = 0;
};

struct CostFit {
  FlatCost cost;           // us and bytes; kappa 1 without samples of other plans
  double worst_error = 0;  // relative, over the samples used
  int used = 0;
  std::string missing;  // constants that too few samples left unfitted; "": none
};
inline constexpr double kSmallestFitted = 8192;  // below, time is not linear in size

// Fits by least squares of relative errors: alpha and beta to rings, then kappa to other plans.
// Ignores samples below kSmallestFitted. Takes `launch` as given: samples of one p cannot separate
// it from alpha.
CostFit FitCost(const std::vector<CostSample>& samples, double launch = 0);

// Interpolates the samples below kSmallestFitted by the logarithm of the size. Returns a negative
// number unless two samples of that plan and p enclose the size.
double TableTime(const std::vector<CostSample>& samples, InterPlan plan, uint32_t p, double bytes);

// --- choosing ---

// The cost of one machine, on which all ranks agree before they compute anything from it.
struct MachineCost {
  FlatCost flat;
  HierarchicalCost hierarchical;
  uint32_t local = 1;  // ranks a node; 1: no hierarchy
};
// Takes the slowest of each constant over the ranks, rounded to three digits, so that the order of
// the ranks does not matter.
MachineCost Agree(const std::vector<MachineCost>& by_rank);

struct Candidate {
  bool hierarchical = false;
  InterPlan inter = InterPlan::kRing;
  double time = 0;
  bool operator==(const Candidate&) const = default;
};
const char* Name(InterPlan inter);
std::string Name(const Candidate& candidate);

// Returns every plan that p ranks can run, fastest first; ties in a fixed order. Doubling if the
// number of ranks is a power of two, else Bruck.
std::vector<Candidate> Candidates(const MachineCost& cost, uint32_t p, double m,
                                  bool reduce_scatter);

struct ChoiceRow {
  double m = 0;
  Candidate chosen;
};
// Chooses for ascending sizes, and keeps a choice until another is more than `hysteresis` faster.
inline constexpr double kHysteresis = 0.05;
std::vector<ChoiceRow> ChoiceTable(const MachineCost& cost, uint32_t p,
                                   const std::vector<double>& sizes, bool reduce_scatter,
                                   double hysteresis = kHysteresis);

// Hashes the table's choices, for comparison between ranks.
uint64_t HashOf(const std::vector<ChoiceRow>& table);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_COST_MODEL_H_
