// A verdict that was recorded, from whatever a person names: a session, or a trace.
#ifndef GORDIAN_CLI_RECORDED_H_
#define GORDIAN_CLI_RECORDED_H_

#include <string>

#include "analyzer/graph/verdict.h"
#include "analyzer/server/call_sites.h"
#include "common/status.h"

namespace gordian::cli {

struct RecordedVerdict {
  graph::Verdict verdict;
  server::SiteResolver sites;
  std::string session;  // folder; empty: a lone trace
  std::string note;     // one line on what could not be read whole; empty: nothing
};

// Who wrote what lies at a path, by how its files begin. Errors: files of more than one tool.
enum class RecordedBy {
  kGordian,
  kFlightRecorder,
  kRas,
  kInspector
};  // kGordian also where nothing is known
StatusOr<RecordedBy> WhoRecorded(const std::string& path);

// Whether the `gordian run` of a session is still at work.
bool IsRunning(const std::string& session);

// Decides again, from the trace; where `gordian run` was killed, from the ring files that its
// guardian kept, too. A session of which neither can be read falls back on its verdict.json, and
// says so.
StatusOr<RecordedVerdict> DecideAgain(const std::string& path);

// What the ranks and communicators of a job were at when its record ends (schema
// gordian.status.v1); of a session whose job still runs, now.
struct RecordedStatus {
  std::string json;
  std::string note;      // as above
  bool running = false;  // the `gordian run` of the session is still at work
};
StatusOr<RecordedStatus> StatusAsRecorded(const std::string& path);

// What was decided while the job ran (verdict.json, its call sites resolved then). A session
// without one, or a trace, is decided again.
StatusOr<RecordedVerdict> AsDecided(const std::string& path);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_RECORDED_H_
