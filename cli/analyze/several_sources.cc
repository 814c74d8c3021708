#include "cli/analyze/several_sources.h"

#include <memory>
#include <optional>
#include <utility>

#include "analyzer/exporters/formats.h"
#include "analyzer/importers/flight_recorder.h"
#include "analyzer/importers/ras.h"
#include "analyzer/importers/sources.h"
#include "analyzer/merge/merged_job.h"
#include "analyzer/merge/session_calls.h"
#include "cli/output.h"

namespace gordian::cli {
namespace {

// Appends to notes that are one line.
void AddNote(const std::string& more, std::string* note) {
  if (more.empty()) return;
  *note += (note->empty() ? "" : "; ") + more;
}

// `sites`: those of the session's findings.
StatusOr<merge::SessionInput> ReadSession(const std::string& path, analyzer::SiteResolver* sites,
                                          std::string* note) {
  exporters::OperationLog log(merge::kSessionOperations, exporters::Wants::kNoMore);
  const StatusOr<analyzer::AnalysisResult> result = AnalyzeRecorded(path, &log, note);
  GORDIAN_RETURN_IF_ERROR(result.status());
  const exporters::Job job{.log = log, .result = *result, .options = {}};
  merge::SessionInput input;
  input.path = path;
  input.calls = merge::CallsOfSession(job);
  input.verdict = result->verdict;
  if (log.last_ns() > 0) input.newest_ns = static_cast<int64_t>(job.RealTime(log.last_ns()));
  *sites = result->sites();
  return input;
}

}  // namespace

StatusOr<bool> AreOfOneJob(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const StatusOr<RecordedBy> who = WhoRecorded(path);
    GORDIAN_RETURN_IF_ERROR(who.status());
    if (*who == RecordedBy::kFlightRecorder) return true;
    if (*who == RecordedBy::kGordian && IsRecording(path)) return true;
  }
  return false;
}

StatusOr<RecordedVerdict> DecideTogether(const std::vector<std::string>& paths) {
  RecordedVerdict recorded;
  recorded.sites = [](const model::Site&) { return std::string(); };  // dumps hold no addresses
  std::optional<merge::SessionInput> session;
  std::vector<merge::DumpInput> inputs;
  merge::RasInput ras;
  size_t dumps = 0;
  for (const std::string& path : paths) {
    const StatusOr<RecordedBy> who = WhoRecorded(path);
    GORDIAN_RETURN_IF_ERROR(who.status());
    switch (*who) {
      case RecordedBy::kGordian: {
        if (!IsRecording(path)) {
          return Status::InvalidArgument(
              path + " cannot be read as a session, Flight Recorder dumps or reports of NCCL RAS");
        }
        if (session) {
          return Status::InvalidArgument(session->path + " and " + path +
                                         " are both recordings of gordian: name one, a session "
                                         "holds all nodes of its job");
        }
        StatusOr<merge::SessionInput> read = ReadSession(path, &recorded.sites, &recorded.note);
        GORDIAN_RETURN_IF_ERROR(read.status());
        session = std::move(*read);
        break;
      }
      case RecordedBy::kFlightRecorder: {
        StatusOr<std::vector<importers::FlightDump>> read = importers::ReadFlightDumps(path);
        GORDIAN_RETURN_IF_ERROR(read.status());
        dumps += read->size();
        inputs.push_back({path, std::move(*read)});
        break;
      }
      case RecordedBy::kRas: {
        const StatusOr<importers::SourceFiles> files = importers::FindSources(path);
        GORDIAN_RETURN_IF_ERROR(files.status());
        StatusOr<std::vector<importers::RasReport>> read = importers::ReadRasReports(files->paths);
        GORDIAN_RETURN_IF_ERROR(read.status());
        ras.paths.push_back(path);
        for (importers::RasReport& report : *read) ras.reports.push_back(std::move(report));
        break;
      }
      default:
        return Status::InvalidArgument(
            path + " holds " + FilesOf(*who) +
            ", which are not taken together with others: gordian takes together a session, Flight "
            "Recorder dumps and reports of NCCL RAS");
    }
  }
  std::string what = session ? "1 session" : "";
  if (dumps > 0) {
    what += (what.empty() ? "" : " and ") + std::to_string(dumps) + " Flight Recorder dump" +
            (dumps == 1 ? "" : "s");
  }
  if (!ras.reports.empty()) {
    what += (what.empty() ? "" : " and ") + std::to_string(ras.reports.size()) + " report" +
            (ras.reports.size() == 1 ? "" : "s") + " of NCCL RAS";
  }
  AddNote(what + " taken together", &recorded.note);
  StatusOr<merge::MergedJob> merged =
      merge::Merge(std::move(session), std::move(inputs), std::move(ras));
  GORDIAN_RETURN_IF_ERROR(merged.status());
  recorded.verdict = merged->verdict;
  recorded.merged = std::make_shared<const merge::MergedJob>(std::move(*merged));
  return recorded;
}

}  // namespace gordian::cli
