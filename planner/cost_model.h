// What a collective should take: the alpha-beta model of flat and hierarchical all-gathers and
// reduce-scatters, fitted from samples, and the table of choices that follows from it.
//
// m is the size of p blocks: the output of an all-gather, the input of a reduce-scatter. Sizes and
// times are in any units that the constants agree on; the functions that read samples use bytes and
// microseconds.
//
// Source: PCCL, sections 3 to 5. Its formula for recursive doubling is below the ring's for every
// p, so there would be nothing to choose: here plans other than the ring pay kappa times the ring's
// beta. The cost of the hierarchy is ours (the paper gives none).
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

// Where ring and recursive plans take equally long; ring is faster above. Infinity with kappa 1.
double RingCrossing(const FlatCost& cost, uint32_t p);
// Where the flat ring and the hierarchy do; the ring is faster above. Negative: never.
double HierarchyCrossing(const FlatCost& flat, const HierarchicalCost& cost, InterPlan inter,
                         uint32_t nodes, uint32_t local);

// The constants that meet the ratios PCCL publishes, in units of the flat ring's beta, m in MB. In
// the hierarchy the inter nodes' share, the rings inside nodes and the shuffle are one number: the
// points cannot tell them apart.
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
  std::string missing;  // what could not be fitted for lack of samples; "": nothing
};
inline constexpr double kSmallestFitted = 8192;  // below, time is not a line

// Least squares of relative errors: alpha and beta from rings, then kappa from other plans. Samples
// below kSmallestFitted are left out. `launch` is taken as given: at one p it cannot be told from
// alpha.
CostFit FitCost(const std::vector<CostSample>& samples, double launch = 0);

// Below kSmallestFitted: what was measured, between samples in proportion to the logarithm of the
// size. Negative: there are no two samples of that plan and p that enclose the size.
double TableTime(const std::vector<CostSample>& samples, InterPlan plan, uint32_t p, double bytes);

// --- choosing ---

// One machine, agreed upon by all ranks before anything is computed from it.
struct MachineCost {
  FlatCost flat;
  HierarchicalCost hierarchical;
  uint32_t local = 1;  // ranks a node; 1: no hierarchy
};
// The slowest of each constant over the ranks, rounded to three digits: whatever the order of
// ranks, the same.
MachineCost Agree(const std::vector<MachineCost>& by_rank);

struct Candidate {
  bool hierarchical = false;
  InterPlan inter = InterPlan::kRing;
  double time = 0;
  bool operator==(const Candidate&) const = default;
};
const char* Name(InterPlan inter);
std::string Name(const Candidate& candidate);

// Every plan that p ranks can run, fastest first; equal ones in a fixed order. Doubling where the
// number is a power of two, else Bruck.
std::vector<Candidate> Candidates(const MachineCost& cost, uint32_t p, double m,
                                  bool reduce_scatter);

struct ChoiceRow {
  double m = 0;
  Candidate chosen;
};
// For ascending sizes. A choice stays until another is more than `hysteresis` faster.
inline constexpr double kHysteresis = 0.05;
std::vector<ChoiceRow> ChoiceTable(const MachineCost& cost, uint32_t p,
                                   const std::vector<double>& sizes, bool reduce_scatter,
                                   double hysteresis = kHysteresis);

// Of the table's choices, for comparison between ranks.
uint64_t HashOf(const std::vector<ChoiceRow>& table);

}  // namespace gordian::planner

#endif  // GORDIAN_PLANNER_COST_MODEL_H_
