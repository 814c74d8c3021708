// The metrics of the jobs of a source, for whoever exports them.
#ifndef GORDIAN_ANALYZER_WEB_JOB_METRICS_H_
#define GORDIAN_ANALYZER_WEB_JOB_METRICS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/metrics/metric_families.h"
#include "analyzer/web/job_source.h"

namespace gordian::web {

// Thread-safe.
class JobMetrics {
 public:
  explicit JobMetrics(std::shared_ptr<JobSource> jobs) : jobs_(std::move(jobs)) {}

  // As the jobs are now. May take long.
  std::vector<metrics::MetricFamily> Now(std::optional<metrics::HttpMetrics> http);

  // The jobs of the source. Counts verdicts that are newly proven: whoever looks at each verdict takes
  // the jobs from here, so that one that is soon another is counted.
  std::vector<JobSummary> Jobs();

 private:
  const std::shared_ptr<JobSource> jobs_;
  std::mutex mutex_;  // held over a look, so that an older one is not counted after a newer
  std::map<std::string, std::string> confirmed_;  // by job: the kind that was counted; "": none
  std::map<std::string, uint64_t> deadlocks_;     // by kind
};

}  // namespace gordian::web

#endif  // GORDIAN_ANALYZER_WEB_JOB_METRICS_H_
