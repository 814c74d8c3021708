// gordian plan --collectives: how long a session's collectives took, and how long they should take.
#ifndef GORDIAN_CLI_PLAN_COLLECTIVES_H_
#define GORDIAN_CLI_PLAN_COLLECTIVES_H_

#include <string>

namespace gordian::cli {

struct CollectivesFlags {
  std::string path;     // a session, or a trace
  std::string samples;  // to fit the cost from; "": from the session itself
  double launch_us = 0;
  bool json = false;
};

// An exit code.
int RunCollectives(const CollectivesFlags& flags);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PLAN_COLLECTIVES_H_
