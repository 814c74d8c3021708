#include "cli/analyze/recorded.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "analyzer/importers/flight_verdict.h"
#include "analyzer/importers/inspector.h"
#include "analyzer/importers/rank_traces.h"
#include "analyzer/importers/ras.h"
#include "analyzer/importers/sources.h"
#include "analyzer/report/status_json.h"
#include "analyzer/report/verdict_json.h"
#include "analyzer/session/analysis.h"
#include "cli/analyze/several_sources.h"
#include "cli/job/process_tree.h"
#include "cli/job/session.h"
#include "cli/output.h"
#include "cli/run/verdict_policy.h"
#include "collector/rings/salvaged_rings.h"
#include "common/read_file.h"
#include "common/trace_file.h"

namespace gordian::cli {
namespace {

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Returns the folder of a session, or "" for a file. Errors: `path` is neither.
StatusOr<std::string> SessionOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return Status::FromErrno(errno, "cannot read " + path);
  }
  if (!S_ISDIR(info.st_mode)) {
    return std::string();
  }
  std::string folder = path;
  while (folder.size() > 1 && folder.back() == '/') {
    folder.pop_back();
  }
  // A run that was killed early leaves only its manifest, and maybe rings.
  if (!Exists(folder + "/trace.gtrace") && !Exists(folder + "/verdict.json") &&
      !Exists(folder + "/manifest.json")) {
    return Status::NotFound(folder +
                            " is no session: it holds no trace.gtrace, no verdict.json and "
                            "no manifest.json");
  }
  return folder;
}

std::optional<ProcessKey> WriterOf(const nlohmann::ordered_json& manifest) {
  const auto pid = manifest.find("gordian_pid");
  const auto start = manifest.find("gordian_start");
  if (pid == manifest.end() || !pid->is_number_integer() || start == manifest.end() ||
      !start->is_number_unsigned()) {
    return std::nullopt;
  }
  return ProcessKey{.pid = pid->get<pid_t>(), .start = start->get<uint64_t>()};
}

// Of this machine, and no more: another one's cannot be asked.
bool WriterHasGone(const nlohmann::ordered_json& manifest) {
  char host[256] = {};
  const auto written_at = manifest.find("host");
  if (gethostname(host, sizeof host - 1) != 0 || written_at == manifest.end() ||
      *written_at != host) {
    return false;
  }
  const std::optional<ProcessKey> writer = WriterOf(manifest);
  return writer && !IsAlive(*writer);
}

// Whether `path` is a Flight Recorder dump of PyTorch, or a folder of dumps that is no session.
bool AreDumps(const std::string& path) {
  const StatusOr<std::string> session = SessionOf(path);
  if (session.ok() && !session->empty()) return false;
  return importers::MayBeFlightDumps(path);
}

StatusOr<RecordedVerdict> FromDumps(const std::string& path) {
  const StatusOr<std::vector<importers::FlightDump>> dumps = importers::ReadFlightDumps(path);
  GORDIAN_RETURN_IF_ERROR(dumps.status());
  RecordedVerdict recorded;
  recorded.verdict = importers::DecideFlightDumps(*dumps);
  recorded.sites = [](const model::Site&) { return std::string(); };  // dumps hold no addresses
  recorded.note =
      std::to_string(dumps->size()) + " Flight Recorder dumps of version " + dumps->front().version;
  return recorded;
}

bool AreTraces(importers::Source source) {
  return source == importers::Source::kKineto || source == importers::Source::kExecution ||
         source == importers::Source::kChakra;
}

// Whether `path` holds reports of NCCL RAS, files of NCCL Inspector or traces of ranks, judged by
// their first bytes: a file, or a folder that is no session. Dumps beside traces say more than they.
bool AreReports(const std::string& path, importers::SourceFiles* files, Status* problem) {
  const StatusOr<std::string> session = SessionOf(path);
  if (session.ok() && !session->empty()) return false;
  StatusOr<importers::SourceFiles> found = importers::FindSources(path);
  if (!found.ok()) {
    *problem = found.status();
    return true;
  }
  if (AreTraces(found->source) && AreDumps(path)) return false;
  *files = std::move(*found);
  return files->source != importers::Source::kUnknown;
}

StatusOr<RecordedVerdict> FromTraces(const importers::SourceFiles& files) {
  StatusOr<std::vector<importers::RankTrace>> traces = importers::ReadRankTraces(files);
  GORDIAN_RETURN_IF_ERROR(traces.status());
  size_t calls = 0;
  for (const importers::RankTrace& trace : *traces) calls += trace.dump.entries.size();
  RecordedVerdict recorded;
  recorded.sites = [](const model::Site&) { return std::string(); };  // gordian reads no stacks
  recorded.note = std::to_string(traces->size()) + " trace" + (traces->size() == 1 ? "" : "s") +
                  " of " + importers::Name(files.source) + ", " + WithCommas(calls) +
                  " collective" + (calls == 1 ? "" : "s");
  recorded.verdict = importers::DecideRankTraces(std::move(*traces));
  return recorded;
}

StatusOr<RecordedVerdict> FromReports(const importers::SourceFiles& files) {
  if (AreTraces(files.source)) return FromTraces(files);
  RecordedVerdict recorded;
  recorded.sites = [](const model::Site&) { return std::string(); };  // reports hold no addresses
  std::vector<importers::RasReport> reports;
  importers::InspectorJob inspector;
  const bool ras = files.source == importers::Source::kRas;
  if (ras) {
    StatusOr<std::vector<importers::RasReport>> read = importers::ReadRasReports(files.paths);
    GORDIAN_RETURN_IF_ERROR(read.status());
    reports = std::move(*read);
  } else {
    for (const std::string& path : files.paths) {
      const StatusOr<std::string> bytes = importers::ReadSource(path);
      GORDIAN_RETURN_IF_ERROR(bytes.status());
      if (const Status status = inspector.Add(*bytes); !status.ok())
        return Status(status.code(),
                      path + " cannot be read as a file of NCCL Inspector: " + status.message());
    }
  }
  size_t repaired = 0;
  for (const importers::RasReport& report : reports) repaired += report.repaired_commas;
  const std::string count = std::to_string(files.paths.size());
  const std::string plural = files.paths.size() == 1 ? "" : "s";
  recorded.note =
      ras ? count + " report" + plural + " of NCCL RAS, NCCL " + reports.front().nccl_version
          : count + " file" + plural + " of NCCL Inspector, " + WithCommas(inspector.records()) +
                " operations";
  if (repaired > 0) {
    recorded.note += "; put in " + WithCommas(repaired) + " comma" + (repaired == 1 ? "" : "s") +
                     " behind nvml_dev of missing ranks, which NCCL 2.28.7 and 2.28.9 leave out";
  }
  recorded.verdict = ras ? importers::DecideRasReports(std::move(reports)) : inspector.Decide();
  return recorded;
}

// Whether the gordian that wrote the verdict has gone without saying that it is the last one. What
// cannot be known, on another machine, counts as closed.
bool WasLeftOpen(const std::string& session, const analyzer::VerdictDocument& document) {
  if (document.closed.value_or(false)) return false;
  const StatusOr<nlohmann::ordered_json> manifest = ReadManifest(session);
  if (!manifest.ok()) return false;
  // A node of a job of many ends before others do. Elsewhere the end was recorded, and the last
  // verdict was not: the disk was full.
  if (manifest->contains("ended")) {
    return document.closed.has_value() && !manifest->contains("analyzer");
  }
  // Of serve.
  const auto closed = manifest->find("closed");
  if (closed != manifest->end() && *closed == true) return false;
  return WriterHasGone(*manifest);
}

StatusOr<RecordedVerdict> FromVerdictFile(const std::string& session) {
  StatusOr<analyzer::VerdictDocument> document =
      analyzer::ReadVerdictFile(session + "/verdict.json");
  GORDIAN_RETURN_IF_ERROR(document.status());
  RecordedVerdict recorded;
  recorded.sites = document->sites();
  recorded.verdict = std::move(document->verdict);
  recorded.session = session;
  recorded.left_open = WasLeftOpen(session, *document);
  if (recorded.left_open) {
    recorded.note = "this verdict" + (document->written.empty() ? "" : " of " + document->written) +
                    " is not the last word: gordian never closed " + session;
  }
  return recorded;
}

// Adds to the trace the records that a killed collector left in the rings.
class RingSupplement final : public analyzer::TraceSupplement {
 public:
  RingSupplement(const std::string& session, bool also_living)
      : rings_(session + "/rings", also_living) {}

  void Seen(const v1::Event& event) override { rings_.Seen(event); }
  void AddMissing(const std::function<void(const v1::Event&)>& sink) override {
    added_ = rings_.AddMissing(sink);
  }
  size_t files() const { return rings_.files(); }

  std::string Note() const {
    std::string note;
    if (rings_.files() > 0) {
      note = "completed with " + WithCommas(added_) + " records from " +
             std::to_string(rings_.files()) + " ring files";
    }
    for (const std::string& path : rings_.unreadable()) {
      note += (note.empty() ? "" : ", ") + ("cannot read " + path);
    }
    return note;
  }

 private:
  collector::SalvagedRings rings_;
  uint64_t added_ = 0;
};

}  // namespace

StatusOr<RecordedBy> WhoRecorded(const std::string& path) {
  importers::SourceFiles files;
  Status problem = Status::Ok();
  if (AreReports(path, &files, &problem)) {
    if (!problem.ok()) return problem;
    switch (files.source) {
      case importers::Source::kRas:
        return RecordedBy::kRas;
      case importers::Source::kInspector:
        return RecordedBy::kInspector;
      case importers::Source::kKineto:
        return RecordedBy::kKineto;
      case importers::Source::kExecution:
        return RecordedBy::kExecution;
      case importers::Source::kChakra:
        return RecordedBy::kChakra;
      case importers::Source::kUnknown:
        break;
    }
  }
  return AreDumps(path) ? RecordedBy::kFlightRecorder : RecordedBy::kGordian;
}

const char* FilesOf(RecordedBy who) {
  switch (who) {
    case RecordedBy::kFlightRecorder:
      return "Flight Recorder dumps";
    case RecordedBy::kRas:
      return "reports of NCCL RAS";
    case RecordedBy::kInspector:
      return "files of NCCL Inspector";
    case RecordedBy::kKineto:
      return "traces of PyTorch's profiler";
    case RecordedBy::kExecution:
      return "traces of PyTorch's ExecutionTraceObserver";
    case RecordedBy::kChakra:
      return "traces of Chakra";
    case RecordedBy::kGordian:
      break;
  }
  return "sessions or traces of gordian";
}

bool IsRecording(const std::string& path) {
  const StatusOr<std::string> session = SessionOf(path);
  if (!session.ok() || !session->empty()) return session.ok();
  return ReadBeginning(path, kTraceMagicBytes) == kTraceMagic;
}

bool IsRunning(const std::string& session) {
  const StatusOr<nlohmann::ordered_json> manifest = ReadManifest(session);
  if (!manifest.ok()) {
    return false;
  }
  const std::optional<ProcessKey> writer = WriterOf(*manifest);
  return !manifest->contains("ended") && writer && IsAlive(*writer);
}

namespace {

// A verdict without a problem, of which nothing says what came after it.
RecordedVerdict Unfinished(RecordedVerdict recorded) {
  model::Finding& main = recorded.verdict.main;
  if (main.verdict == model::VerdictKind::kInconclusive) return recorded;
  main.verdict = model::VerdictKind::kInconclusive;
  main.confidence = model::Confidence::kPossible;
  main.summary = "Gordian ended before the job did; up to then nothing was stuck.";
  main.evidence.not_visible.push_back("what the job did after gordian had ended");
  return recorded;
}

// Analyzes a trace, with the rings that the guardian kept if it is a session's (else ""). `note`: one
// line on what could not be read.
StatusOr<analyzer::AnalysisResult> FromTrace(const std::string& path, const std::string& session,
                                             bool running, analyzer::AnalysisOptions options,
                                             std::string* note) {
  if (!session.empty()) {  // suspects after the same time as the run did
    const StatusOr<nlohmann::ordered_json> manifest = ReadManifest(session);
    if (manifest.ok() && manifest->contains("suspect_after_s") &&
        (*manifest)["suspect_after_s"].is_number()) {
      const double seconds = std::clamp((*manifest)["suspect_after_s"].get<double>(), 0.1, 1e6);
      options.model.suspect_after_ns = static_cast<uint64_t>(seconds * 1e9);
    }
  }
  std::optional<RingSupplement> rings;
  if (!session.empty() && !running) {
    rings.emplace(session, /*also_living=*/true);
  }
  // An unreadable trace is an error, unless rings or a recorded verdict remain.
  const bool rely = rings && (rings->files() > 0 || !Exists(session + "/trace.gtrace")) &&
                    !(rings->files() == 0 && Exists(session + "/verdict.json"));
  StatusOr<analyzer::AnalysisResult> result =
      analyzer::AnalyzeTrace(path, options, rely ? &*rings : nullptr);
  if (result.ok() && !result->complete) {
    const std::string more = rely ? rings->Note() : "";
    *note = result->trace + " is " + result->ending + "; " +
            (running        ? "the job still runs; the verdict holds for the records so far"
             : more.empty() ? "the verdict holds for the records up to there"
                            : more + "; the verdict holds for the records up to there");
  }
  return result;
}

// Fills `status`, if not null, whenever it could read a trace or rings.
StatusOr<RecordedVerdict> Decide(const std::string& path, RecordedStatus* status) {
  if (status == nullptr) {
    importers::SourceFiles files;
    Status problem = Status::Ok();
    if (AreReports(path, &files, &problem)) return problem.ok() ? FromReports(files) : problem;
    if (AreDumps(path)) return FromDumps(path);
  }
  StatusOr<std::string> session = SessionOf(path);
  GORDIAN_RETURN_IF_ERROR(session.status());
  const bool running = !session->empty() && IsRunning(*session);
  analyzer::AnalysisOptions options;
  options.want_status = status != nullptr;
  options.still_written = status != nullptr && running;
  std::string note;
  StatusOr<analyzer::AnalysisResult> result = FromTrace(path, *session, running, options, &note);
  if (!result.ok()) {
    if (!session->empty() && Exists(*session + "/verdict.json")) {
      StatusOr<RecordedVerdict> kept = FromVerdictFile(*session);
      if (kept.ok()) {
        kept->note = result.status().message() +
                     "; showing the verdict recorded while the job ran" +
                     (kept->left_open ? "; " + kept->note : "");
        if (kept->left_open && ExitCodeOfVerdict(kept->verdict) != 1) {
          return Unfinished(std::move(*kept));
        }
        return kept;
      }
    }
    return result.status();
  }
  RecordedVerdict recorded;
  recorded.sites = result->sites();
  recorded.session = *session;
  recorded.note = std::move(note);
  recorded.verdict = std::move(result->verdict);
  if (status != nullptr) {
    status->running = running;
    status->json = std::move(result->status_json);
    status->note = running ? "" : recorded.note;
  }
  return recorded;
}

}  // namespace

StatusOr<analyzer::AnalysisResult> AnalyzeRecorded(const std::string& path,
                                                   analyzer::TraceObserver* observer,
                                                   std::string* note) {
  const StatusOr<RecordedBy> who = WhoRecorded(path);
  GORDIAN_RETURN_IF_ERROR(who.status());
  if (*who != RecordedBy::kGordian) {
    return Status::InvalidArgument(
        path + " was left by another tool: name a session or a trace of gordian");
  }
  const StatusOr<std::string> session = SessionOf(path);
  GORDIAN_RETURN_IF_ERROR(session.status());
  analyzer::AnalysisOptions options;
  options.observer = observer;
  return FromTrace(path, *session, !session->empty() && IsRunning(*session), options, note);
}

StatusOr<RecordedVerdict> DecideAgain(const std::string& path) { return Decide(path, nullptr); }

StatusOr<RecordedVerdict> DecideAgain(const std::vector<std::string>& paths) {
  if (paths.size() == 1) return DecideAgain(paths.front());
  const StatusOr<bool> together = AreOfOneJob(paths);
  GORDIAN_RETURN_IF_ERROR(together.status());
  if (*together) return DecideTogether(paths);
  const StatusOr<importers::SourceFiles> files = importers::FindSources(paths);
  GORDIAN_RETURN_IF_ERROR(files.status());
  return FromReports(*files);
}

StatusOr<RecordedStatus> StatusAsRecorded(const std::string& path) {
  RecordedStatus status;
  StatusOr<RecordedVerdict> recorded = Decide(path, &status);
  GORDIAN_RETURN_IF_ERROR(recorded.status());
  if (status.json.empty()) {  // there is only a verdict
    status.running = !recorded->session.empty() && IsRunning(recorded->session);
    status.note = recorded->note;
    analyzer::StatusFacts facts;
    facts.verdict = recorded->verdict;
    facts.job_ended = !status.running;
    status.json = analyzer::StatusToText(facts);
  }
  status.decided = std::move(recorded).value();
  return status;
}

StatusOr<RecordedVerdict> AsDecided(const std::string& path) {
  importers::SourceFiles files;
  Status problem = Status::Ok();
  if (AreReports(path, &files, &problem)) return problem.ok() ? FromReports(files) : problem;
  if (AreDumps(path)) return FromDumps(path);
  StatusOr<std::string> session = SessionOf(path);
  GORDIAN_RETURN_IF_ERROR(session.status());
  if (!session->empty() && Exists(*session + "/verdict.json")) {
    StatusOr<RecordedVerdict> kept = FromVerdictFile(*session);
    // What was recorded of a problem stays; of anything else it says nothing about the time after.
    if (kept.ok() && kept->left_open && ExitCodeOfVerdict(kept->verdict) != 1) {
      StatusOr<RecordedVerdict> again = DecideAgain(path);
      if (!again.ok() || again->left_open) return Unfinished(std::move(*kept));
      again->note = kept->note + "; decided again" +
                    (again->note.empty() ? " from its trace" : ": " + again->note);
      if (ExitCodeOfVerdict(again->verdict) != 1) return Unfinished(std::move(*again));
      return again;
    }
    if (kept.ok() || !Exists(*session + "/trace.gtrace")) {
      return kept;
    }
    StatusOr<RecordedVerdict> again = DecideAgain(path);
    if (again.ok()) {
      again->note = kept.status().message() + "; decided again from the trace" +
                    (again->note.empty() ? "" : ": " + again->note);
    }
    return again;
  }
  return DecideAgain(path);
}

}  // namespace gordian::cli
