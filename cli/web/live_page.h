// What the page shows of a job that an analysis in this process follows.
#ifndef GORDIAN_CLI_WEB_LIVE_PAGE_H_
#define GORDIAN_CLI_WEB_LIVE_PAGE_H_

#include <cstdint>
#include <string>

#include "analyzer/session/analysis.h"
#include "analyzer/web/gateway.h"

namespace gordian::cli {

// `live` is whether the job has not ended.
web::JobSummary SummaryOf(const std::string& job, const analyzer::Analysis& analysis);

struct LivePage {
  web::PageParts parts;  // without history, and so quick
  model::Verdict verdict;
  uint64_t revision = 0;
};
LivePage LookNow(const std::string& job, const std::string& session, analyzer::Analysis* analysis);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WEB_LIVE_PAGE_H_
