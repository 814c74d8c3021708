// gordian plan --collectives: compares how long recorded collectives took with the cost model.
#ifndef GORDIAN_CLI_PLAN_PLAN_COLLECTIVES_H_
#define GORDIAN_CLI_PLAN_PLAN_COLLECTIVES_H_

#include <string>

namespace gordian::cli {

struct CollectivesFlags {
  std::string path;       // a session, a trace, or traces of PyTorch's profiler
  bool profiler = false;  // it is the last
  std::string samples;    // samples to fit the cost model to; "": from the session
  double launch_us = 0;
  bool json = false;
};

// Prints the report and returns an exit code.
int RunCollectives(const CollectivesFlags& flags);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PLAN_PLAN_COLLECTIVES_H_
