// Reads a recorded verdict from a path that a person names: a session, a trace, dumps or reports.
#ifndef GORDIAN_CLI_ANALYZE_RECORDED_H_
#define GORDIAN_CLI_ANALYZE_RECORDED_H_

#include <memory>
#include <string>
#include <vector>

#include "analyzer/merge/merged_job.h"
#include "analyzer/model/verdict/verdict.h"
#include "analyzer/session/analysis.h"
#include "analyzer/stacks/call_sites.h"
#include "common/status.h"

namespace gordian::cli {

struct RecordedVerdict {
  model::Verdict verdict;
  analyzer::SiteResolver sites;
  std::string session;  // folder; empty: a lone trace
  std::string note;     // one line on what could not be read; empty: all was read
  bool left_open =
      false;  // gordian ended before it could close the file: another verdict may have followed
  std::shared_ptr<const merge::MergedJob> merged;  // of several sources; null: there is one
};

// Which tool wrote the files at a path, judged by how they begin. Errors: files of several tools.
enum class RecordedBy {
  kGordian,
  kFlightRecorder,
  kRas,
  kInspector,
  kKineto,
  kExecution,
  kChakra
};  // kGordian is also the answer when no tool is recognised
StatusOr<RecordedBy> WhoRecorded(const std::string& path);
// For people: "traces of PyTorch's profiler". Of kGordian "sessions or traces of gordian".
const char* FilesOf(RecordedBy who);

// Whether the path leads to a session or a trace of gordian.
bool IsRecording(const std::string& path);

// Whether the `gordian run` of a session still runs.
bool IsRunning(const std::string& session);

// Decides again from the trace, and from the ring files that the guardian kept if `gordian run` was
// killed. Falls back on the session's verdict.json when neither can be read, and says so in the
// note.
StatusOr<RecordedVerdict> DecideAgain(const std::string& path);
// The same of several paths: a session and dumps, of one job, or files of one other tool.
StatusOr<RecordedVerdict> DecideAgain(const std::vector<std::string>& paths);

// The same of the trace alone, which `observer` sees as it is read. `note`: as above. Errors, among
// others: another tool's files.
StatusOr<analyzer::AnalysisResult> AnalyzeRecorded(const std::string& path,
                                                   analyzer::TraceObserver* observer,
                                                   std::string* note);

// The state of a job's ranks and communicators (schema gordian.status.v1) at the end of its
// records; now, if the job still runs.
struct RecordedStatus {
  std::string json;
  std::string note;      // as above
  bool running = false;  // the session's `gordian run` still runs
  RecordedVerdict decided;
};
StatusOr<RecordedStatus> StatusAsRecorded(const std::string& path);

// Returns the verdict that was decided while the job ran (verdict.json, with its call sites).
// Decides again for a trace, a session without verdict.json, and one that holds no problem and was
// never closed: no verdict of it is better than inconclusive.
StatusOr<RecordedVerdict> AsDecided(const std::string& path);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_ANALYZE_RECORDED_H_
