// Writes the output of `gordian plan`: plan.json (schema gordian.plan.v1), text, pictures.
#ifndef GORDIAN_CLI_PLAN_PLAN_OUTPUT_H_
#define GORDIAN_CLI_PLAN_PLAN_OUTPUT_H_

#include <string>
#include <vector>

#include "planner/proof/proof.h"
#include "planner/schedule/plan.h"

namespace gordian::cli {

struct PlanSource {
  std::string path;    // the input
  std::string comm;    // the data-parallel communicator; "": a table
  int iterations = 0;  // that gave the times
  double spread = 0;
  std::vector<std::string> estimated;  // times that were estimated, not measured
  std::vector<std::string> names;      // of the buckets; none, or as many, "" where there is none
};

// "0123456789abcdef".
std::string HashText(uint64_t hash);

std::string PlanJson(const planner::Plan& plan, const PlanSource& source,
                     const planner::Proof& proof);
std::string PlanText(const planner::Plan& plan, const PlanSource& source,
                     const planner::Proof& proof, bool baselines);
// Explains why there is no plan, with the cycle.
std::string RefusalText(const planner::Proof& proof);

// A timeline: rows for computation and links.
std::string PlanSvg(const planner::Plan& plan);
std::string BaselineSvg(const planner::Plan& plan, const planner::Baseline& baseline,
                        const std::string& title);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PLAN_PLAN_OUTPUT_H_
