// Makes the page's parts of a job that has ended, or of the records of one that runs.
#ifndef GORDIAN_CLI_WEB_RECORDED_PAGE_H_
#define GORDIAN_CLI_WEB_RECORDED_PAGE_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "analyzer/session/analysis.h"
#include "analyzer/web/page_document.h"
#include "common/status.h"

namespace gordian::cli {

// What a trace tells beside its verdict.
struct TraceDetails {
  std::string history_json;
  std::string status_json;  // at its end
  std::vector<web::SourceLines> sources;
};
// Of a trace that may still be written. Error: it cannot be read, or has more than a page waits for.
StatusOr<TraceDetails> ReadTraceDetails(const std::string& trace);

// The history of a job that runs, read again when its verdict has changed. Thread-safe.
class HistoryOfTrace {
 public:
  // "": the trace cannot be read.
  std::string At(uint64_t revision, const std::string& trace);

 private:
  std::mutex mutex_;
  uint64_t revision_ = 0;
  std::string history_;
};

// Of a session, a trace, or another tool's dumps, as `gordian explain` takes them. `note`: one line
// on what could not be read; "": all was read. Errors: as of AsDecided.
StatusOr<web::PageParts> RecordedPage(const std::string& path, std::string* note);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WEB_RECORDED_PAGE_H_
