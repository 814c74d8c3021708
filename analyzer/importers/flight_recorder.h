// Reads PyTorch's Flight Recorder dumps: what each rank had enqueued when its watchdog gave up.
//
// Facts of the format (versions 2.0 to 2.10; later ones of 2 only add to it): torch/csrc/distributed/c10d/FlightRecorderDetail.hpp
// and torch/distributed/flight_recorder. A dump is a pickle or JSON, one file per rank, whose name
// ends in the rank. It identifies operations by process group and sequence number. It holds no
// streams, events or host waits, and by default does not say whether the device has begun an
// operation.
#ifndef GORDIAN_ANALYZER_IMPORTERS_FLIGHT_RECORDER_H_
#define GORDIAN_ANALYZER_IMPORTERS_FLIGHT_RECORDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian::importers {

// The entry behind the operations of a batch: it has their number, and no peer.
inline constexpr std::string_view kFlightEndOfBatch = "coalesced";

// In FlightGroup::ranks: a member whose rank in the job nothing tells. Nothing is known of its calls.
inline constexpr int kUnknownMember = -1;

// A process group. Several may share a name (split_group), so name and ranks together are the key.
struct FlightGroup {
  std::string name;
  std::string description;
  std::vector<int> ranks;  // of the job, in the group's order; empty: unknown

  friend bool operator==(const FlightGroup&, const FlightGroup&) = default;
  std::string Key() const;
  std::string ForPeople() const;  // "default_pg", "group 3" without a description
};

// Whether the device has begun an operation. Dumps say so only of jobs with
// TORCH_NCCL_ENABLE_TIMING: where any open operation of a dump has begun, the others have not.
enum class FlightBegun : uint8_t { kUnknown, kNo, kYes };

struct FlightEntry {
  int64_t record = 0;  // order of the calls at its rank
  int64_t call = -1;   // among all calls of its group at its rank (op_id); -1: unknown
  std::string group;   // FlightGroup::Key()
  bool p2p = false;
  int64_t sequence = 0;   // among the group's collectives; for p2p among sends and receives
  std::string operation;  // "all_reduce"; without the backend, as "nccl:"
  bool sends = false;     // p2p
  int peer = -1;          // p2p: its rank in the group
  int64_t elements_in = -1, elements_out = -1;  // -1: unknown
  bool in_bytes = false;  // both are bytes: a Chakra trace knows no element type
  std::string type;       // of the first input
  bool completed = false;
  bool retired = false;                       // the watchdog has found it complete
  FlightBegun begun = FlightBegun::kUnknown;  // of open ones
  double kernel_us = -1;  // how long its kernel ran; -1: the source does not say
  std::string site;       // "train.py:12 step": the innermost frame; empty: unknown
};

struct FlightStatus {
  int64_t enqueued = -1, completed = -1;  // sequence numbers; -1: none
};

struct FlightDump {
  int rank = 0;
  std::string path;
  std::string version;
  // Wall clock of the latest call or end that it tells of, ns since 1970; 0: unknown.
  int64_t newest_ns = 0;
  std::map<std::string, FlightGroup> groups;   // by key
  std::map<std::string, FlightStatus> status;  // by key, for statuses whose group is known
  std::vector<FlightEntry> entries;            // in the order of the calls
};

// Parses one file's bytes. Errors name the fault, not the file.
StatusOr<FlightDump> ParseFlightDump(std::string_view bytes);

// True for a folder with files named like dumps, and for a file that begins like one.
bool MayBeFlightDumps(const std::string& path);

// Reads all dumps of a folder, or the one file; sorted by rank. An unreadable file is an error that
// names it, since the others may all wait for the rank that it describes.
StatusOr<std::vector<FlightDump>> ReadFlightDumps(const std::string& path);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_FLIGHT_RECORDER_H_
