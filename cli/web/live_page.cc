#include "cli/web/live_page.h"

#include "analyzer/report/report.h"
#include "analyzer/web/source_lines.h"
#include "common/clock.h"

namespace gordian::cli {

web::JobSummary SummaryOf(const std::string& job, const analyzer::Analysis& analysis) {
  const analyzer::Analysis::Stats stats = analysis.stats();
  web::JobSummary summary{.job = job,
                          .main = analysis.Current().main,
                          .revision = stats.revision,
                          .changes = stats.records,
                          .job_ended = stats.job_ended,
                          .live = !stats.job_ended};
  if (const uint64_t now = MonoNs(); stats.last_progress_ns > 0 && !stats.job_ended) {
    summary.since_progress_s =
        now > stats.last_progress_ns ? static_cast<double>(now - stats.last_progress_ns) / 1e9 : 0;
  }
  return summary;
}

LivePage LookNow(const std::string& job, const std::string& session, analyzer::Analysis* analysis) {
  LivePage page{.verdict = analysis->Current()};
  page.parts.job = job;
  page.parts.session = session;
  page.parts.live = !analysis->stats().job_ended;
  page.parts.verdict_json = analysis->CurrentJson(&page.revision);
  page.parts.status_json = analysis->StatusJson(nullptr);
  page.parts.text = analyzer::ExplainText(page.verdict, analysis->sites(), {.session = session});
  page.parts.sources =
      web::FindSourceLines(page.verdict, &analysis->call_sites(), analysis->sources());
  return page;
}

}  // namespace gordian::cli
