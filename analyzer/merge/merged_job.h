// One verdict over a job of which several tools hold parts: a session of gordian some ranks,
// PyTorch's Flight Recorder others, and of further ones NCCL RAS has counted the calls.
//
// Where two tools hold a rank, gordian decides by the session's records, which know more. The other
// tool confirms or contradicts them. What only dumps say is suspected at most; where sources
// contradict each other it is possible at most, and a rank that contradictions are about is not
// blamed.
//
// Pure. Not thread-safe.
#ifndef GORDIAN_ANALYZER_MERGE_MERGED_JOB_H_
#define GORDIAN_ANALYZER_MERGE_MERGED_JOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/importers/flight_recorder.h"
#include "analyzer/importers/ras.h"
#include "analyzer/merge/session_calls.h"
#include "analyzer/model/verdict/verdict.h"
#include "common/status.h"

namespace gordian::merge {

enum class Tool : uint8_t { kGordian, kFlightRecorder, kRas };
const char* Name(Tool);  // "gordian", "flight-recorder", "ras"

struct SessionInput {
  std::string path;
  SessionCalls calls;
  model::Verdict verdict;  // on the session alone
  int64_t newest_ns = 0;   // wall clock of its last record, ns since 1970; 0: unknown
};

struct DumpInput {
  std::string path;  // as the person named it
  std::vector<importers::FlightDump> dumps;
};

struct RasInput {
  std::vector<std::string> paths;
  std::vector<importers::RasReport> reports;  // of one job; empty: none
};

struct Source {
  Tool tool = Tool::kGordian;
  std::string path;
  std::vector<int> ranks;   // whose part of the verdict rests on it
  std::vector<int> others;  // that it holds, too, and another source holds better
  int64_t newest_ns = 0;    // as in SessionInput
  std::vector<std::string> not_visible;
};

// A communicator that sources hold parts of.
struct SharedGroup {
  std::string session, dumps;  // its names there
  std::string by;              // "members", "members and name", "members and calls"
  bool verified = false;       // operations with one number are the same in both
};

struct MergedJob {
  model::Verdict verdict;
  std::vector<Source> sources;
  std::vector<SharedGroup> communicators;
  std::vector<std::string> counted;         // which communicator of RAS is which; one line each
  std::vector<std::string> contradictions;  // one line each
  std::vector<std::string> unclear;         // communicators that are not taken together, and why
};

// A session, or dumps, and more. Errors name the paths: two dumps of one rank, or jobs of two
// sizes.
StatusOr<MergedJob> Merge(std::optional<SessionInput> session, std::vector<DumpInput> dumps,
                          RasInput ras = {});

}  // namespace gordian::merge

#endif  // GORDIAN_ANALYZER_MERGE_MERGED_JOB_H_
