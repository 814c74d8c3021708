// Reads reports of NCCL's RAS subsystem (`ncclras -f json` of NCCL 2.28.7 and later; in words of
// 2.24 and later): for each communicator, how often each member has launched each of five
// functions, and which members do not answer.
//
// Facts of the format: NCCL's src/ras/client_support.cc. The counts are of host launches, not of
// completions; they omit operations captured into CUDA graphs, sends and receives, and whatever
// NCCL lowers to other work (all-to-all, gather, scatter). A report shows one moment, without
// order, sizes or times of calls.
#ifndef GORDIAN_ANALYZER_IMPORTERS_RAS_H_
#define GORDIAN_ANALYZER_IMPORTERS_RAS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "common/status.h"

namespace gordian::importers {

struct RasMember {
  int rank = -1;         // in the communicator
  std::string process;   // "host:pid:device"; "" if RAS does not know it
  bool answered = true;  // false: missing, without the counts below
  bool dead = false;     // RAS has lost contact with its process
  bool aborted = false;
  bool left = false;  // finalize or destroy has begun
  int async_error = 0;
  std::map<std::string, uint64_t> counts;  // by function

  uint64_t Total() const;
};

struct RasCommunicator {
  std::string key;  // both hashes: the first alone may not be unique
  int size = 0;
  std::vector<RasMember> members;  // by rank; a member in neither list is absent
};

struct RasReport {
  std::string path;
  std::string nccl_version;
  std::string time;  // as RAS writes it, local, to the second
  // How many commas were put in that NCCL 2.28.7 to 2.28.9 leave out behind `nvml_dev` of a missing
  // rank. It is the only mistake that is repaired.
  size_t repaired_commas = 0;
  bool words = false;  // it has no time, and counts only of members that differ from others
  // What it holds that gordian does not know, of a later release: fields by name, or lines.
  std::set<std::string> unknown;
  std::vector<RasCommunicator> communicators;
};

// Whether a file that begins so is a report in words (ras_words.h).
bool IsRasText(std::string_view beginning);

// Parses one report's bytes, JSON or words. Errors name the fault, not the file.
StatusOr<RasReport> ParseRasReport(std::string_view bytes);

// Reads such files. Errors name the file, too.
StatusOr<std::vector<RasReport>> ReadRasReports(const std::vector<std::string>& paths);

// Decides from the reports of one job, at least one, in any order.
//
// One report blames only dead or aborted processes: a rank that is behind may be on its way. Counts
// that are equal in two reports, at all members, have stopped. Then, by the wait model's rules:
// members that are ahead on a communicator wait for those behind; waiting ends at a rank that is
// behind somewhere and ahead nowhere, and ranks that are both wait in a cycle. Every finding is a
// suspicion.
model::Verdict DecideRasReports(std::vector<RasReport> reports);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_RAS_H_
