// What NCCL's RAS subsystem says of a job (`ncclras -f json`, NCCL 2.28.7 and later): of each
// communicator, how often each member has launched each of five functions, and who does not answer.
//
// Facts of the format: NCCL's src/ras/client_support.cc. The counts are of host launches, not of
// ends; they leave out operations captured into CUDA graphs, sends and receives, and whatever NCCL
// lowers to other work (all-to-all, gather, scatter). There is no order, no size, no time of a
// call: one report is one moment.
#ifndef GORDIAN_ANALYZER_IMPORTERS_RAS_H_
#define GORDIAN_ANALYZER_IMPORTERS_RAS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/graph/verdict.h"
#include "common/status.h"

namespace gordian::importers {

struct RasMember {
  int rank = -1;         // in the communicator
  std::string process;   // "host:pid:device"; "" where RAS does not know it
  bool answered = true;  // false: a missing rank, without the counts below
  bool dead = false;     // RAS has lost its process
  bool aborted = false;
  bool left = false;  // finalize or destroy has begun
  int async_error = 0;
  std::map<std::string, uint64_t> counts;  // by function

  uint64_t Total() const;
};

struct RasCommunicator {
  std::string key;  // both hashes: the first alone need not be unique
  int size = 0;
  std::vector<RasMember> members;  // by rank; who is in neither list is not among them
};

struct RasReport {
  std::string path;
  std::string nccl_version;
  std::string time;  // as RAS writes it, local, to the second
  std::vector<RasCommunicator> communicators;
};

// One report's bytes. Errors name what is wrong with them, not the file.
StatusOr<RasReport> ParseRasReport(std::string_view bytes);

// Reports of one job, at least one, in any order.
//
// One report blames nobody but for processes that are dead or have aborted: who is behind may be on
// its way. Counts that are the same in two reports, at everybody, stand; then, by the wait model's
// rules: who is behind on a communicator is waited for by those that are ahead; who is behind
// somewhere and ahead nowhere is where the waiting ends, and ranks that are both go in a circle.
// Every finding is a suspicion.
graph::Verdict DecideRasReports(std::vector<RasReport> reports);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_RAS_H_
