// Makes the metrics of the jobs of a source, for /metrics, files and OTLP.
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

  // Returns the jobs of the source, and counts verdicts that are newly proven. The gateway takes the
  // jobs from here at each verdict, so that one that soon changes is counted, too.
  std::vector<JobSummary> Jobs();

 private:
  const std::shared_ptr<JobSource> jobs_;
  std::mutex mutex_;  // held over a look, so that an older one is not counted after a newer
  std::map<std::string, std::string> confirmed_;  // by job: the kind that was counted; "": none
  std::map<std::string, uint64_t> deadlocks_;     // by kind
};

}  // namespace gordian::web

#endif  // GORDIAN_ANALYZER_WEB_JOB_METRICS_H_
