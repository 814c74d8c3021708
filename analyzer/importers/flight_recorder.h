// PyTorch's Flight Recorder dumps: what each rank had enqueued when its watchdog gave up.
//
// Facts of the format (versions 2.0 to 2.10): torch/csrc/distributed/c10d/FlightRecorderDetail.hpp
// and torch/distributed/flight_recorder. A dump is a pickle or JSON, one file a rank, its name
// ending in the rank. It knows operations by process group and sequence number. It knows no
// streams, events and host waits, and by default keeps only what is not complete, and not even
// whether the device has begun it.
#ifndef GORDIAN_ANALYZER_IMPORTERS_FLIGHT_RECORDER_H_
#define GORDIAN_ANALYZER_IMPORTERS_FLIGHT_RECORDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian::importers {

// A process group. Several may share a name (split_group), so that name and ranks together are the
// key.
struct FlightGroup {
  std::string name;
  std::string description;
  std::vector<int> ranks;  // of the job, in the group's order; empty: the dumps do not say

  friend bool operator==(const FlightGroup&, const FlightGroup&) = default;
  std::string Key() const;
};

struct FlightEntry {
  int64_t record = 0;  // order of the calls at its rank
  std::string group;   // FlightGroup::Key()
  bool p2p = false;
  int64_t sequence = 0;   // of collectives of the group; of sends and receives where p2p
  std::string operation;  // "all_reduce"; without "nccl:"
  bool sends = false;     // p2p
  int peer = -1;          // p2p: its rank in the group
  int64_t elements_in = -1, elements_out = -1;  // -1: not told
  std::string type;                             // of the first input
  bool completed = false;
  std::string site;  // "train.py:12 step": the innermost frame; empty: not told
};

struct FlightStatus {
  int64_t enqueued = -1, completed = -1;  // sequence numbers; -1: none
};

struct FlightDump {
  int rank = 0;
  std::string path;
  std::string version;
  std::map<std::string, FlightGroup> groups;   // by key
  std::map<std::string, FlightStatus> status;  // by key, where the group of a status is known
  std::vector<FlightEntry> entries;            // in the order of the calls
};

// One file's bytes. Errors name what is wrong with them, not the file.
StatusOr<FlightDump> ParseFlightDump(std::string_view bytes);

// True for a folder with files that can be dumps by their names, and for a file that begins like
// one.
bool MayBeFlightDumps(const std::string& path);

// All dumps of a folder, or the one file; by rank. A file that cannot be read is an error that
// names it, since a rank that is left out could be the one that everybody waits for.
StatusOr<std::vector<FlightDump>> ReadFlightDumps(const std::string& path);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_FLIGHT_RECORDER_H_
