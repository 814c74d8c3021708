#include "cli/recorded.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "analyzer/server/analysis.h"
#include "analyzer/server/verdict_json.h"
#include "cli/session.h"

namespace gordian::cli {
namespace {

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// The folder of a session, or "" for a file. Errors: neither.
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
  if (!Exists(folder + "/trace.gtrace") && !Exists(folder + "/verdict.json")) {
    return Status::NotFound(folder +
                            " is no session: it has neither trace.gtrace nor verdict.json");
  }
  return folder;
}

StatusOr<RecordedVerdict> FromVerdictFile(const std::string& session) {
  StatusOr<server::VerdictDocument> document = server::ReadVerdictFile(session + "/verdict.json");
  GORDIAN_RETURN_IF_ERROR(document.status());
  RecordedVerdict recorded;
  recorded.sites = document->sites();
  recorded.verdict = std::move(document->verdict);
  recorded.session = session;
  return recorded;
}

}  // namespace

StatusOr<RecordedVerdict> DecideAgain(const std::string& path) {
  StatusOr<std::string> session = SessionOf(path);
  GORDIAN_RETURN_IF_ERROR(session.status());
  server::AnalysisOptions options;
  if (!session->empty()) {  // as patient as the run was
    const StatusOr<nlohmann::ordered_json> manifest = ReadManifest(*session);
    if (manifest.ok() && manifest->contains("suspect_after_s") &&
        (*manifest)["suspect_after_s"].is_number()) {
      const double seconds = std::clamp((*manifest)["suspect_after_s"].get<double>(), 0.1, 1e6);
      options.model.suspect_after_ns = static_cast<uint64_t>(seconds * 1e9);
    }
  }
  StatusOr<server::AnalysisResult> result = server::AnalyzeTrace(path, options);
  if (!result.ok()) {
    if (!session->empty() && Exists(*session + "/verdict.json")) {
      StatusOr<RecordedVerdict> kept = FromVerdictFile(*session);
      if (kept.ok()) {
        kept->note = result.status().message() + "; this is the verdict that was recorded";
        return kept;
      }
    }
    return result.status();
  }
  RecordedVerdict recorded;
  recorded.sites = result->sites();
  recorded.session = *session;
  if (!result->complete) {
    recorded.note = result->trace + " is " + result->ending + "; the verdict holds up to there";
  }
  recorded.verdict = std::move(result->verdict);
  return recorded;
}

StatusOr<RecordedVerdict> AsDecided(const std::string& path) {
  StatusOr<std::string> session = SessionOf(path);
  GORDIAN_RETURN_IF_ERROR(session.status());
  if (!session->empty() && Exists(*session + "/verdict.json")) {
    StatusOr<RecordedVerdict> kept = FromVerdictFile(*session);
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
