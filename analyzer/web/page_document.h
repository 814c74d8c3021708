// The document that gordian's page shows of one job (schema gordian.page.v1), and report.html: the
// page and that document in one file, which needs no network.
#ifndef GORDIAN_ANALYZER_WEB_PAGE_DOCUMENT_H_
#define GORDIAN_ANALYZER_WEB_PAGE_DOCUMENT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/exporters/operation_log.h"
#include "analyzer/web/source_lines.h"

namespace gordian::web {

inline constexpr char kPageSchema[] = "gordian.page.v1";

// The page's files, as its build leaves them (dashboard/).
struct PageFiles {
  std::string_view index_html, app_js, app_css;  // of the live page
  std::string_view report_html;                  // with places for title, document and text
};

struct PageParts {
  std::string job;
  std::string session;  // as people type it; empty: none
  bool live = false;
  std::string verdict_json;  // schema gordian.verdict.v1; empty: there is none yet
  std::string status_json;   // schema gordian.status.v1; empty: not known
  std::string text;          // report.txt
  std::vector<SourceLines> sources;
  std::string history_json;  // as HistoryJson; empty: not known
  // Deadlocks that a job which ended well did not meet (cli/web/predictions.h); empty: none.
  std::string predictions_json;
};

// One JSON object. Both JSON texts must be valid.
std::string PageDocument(const PageParts& parts);

// The last operations of each stream of each rank, from a log that is at its end.
std::string HistoryJson(const exporters::OperationLog& log, uint64_t stalled_at_ns);

// One HTML file. `files.report_html` must not be empty.
std::string ReportPage(const PageFiles& files, const PageParts& parts);

}  // namespace gordian::web

#endif  // GORDIAN_ANALYZER_WEB_PAGE_DOCUMENT_H_
