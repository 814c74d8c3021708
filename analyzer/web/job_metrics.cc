#include "analyzer/web/job_metrics.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/model/verdict/check_catalogue.h"
#include "common/json_text.h"

namespace gordian::web {

std::vector<metrics::MetricFamily> JobMetrics::Now(std::optional<metrics::HttpMetrics> http) {
  std::vector<metrics::MetricJob> jobs;
  for (const JobSummary& summary : Jobs()) {
    const std::string text = jobs_->StatusJson(summary.job);
    if (text.empty()) continue;
    auto status = ParseJson<nlohmann::ordered_json>(text);
    if (status.is_object()) jobs.push_back({summary.job, std::move(status)});
  }
  metrics::OwnMetrics own{.http = std::move(http)};
  {
    const std::lock_guard lock(mutex_);
    own.deadlocks = deadlocks_;
  }
  return metrics::FamiliesOf(jobs, own);
}

std::vector<JobSummary> JobMetrics::Jobs() {
  const std::lock_guard lock(mutex_);
  std::vector<JobSummary> jobs = jobs_->Jobs();
  std::map<std::string, std::string> before = std::exchange(confirmed_, {});
  for (const JobSummary& job : jobs) {
    const bool proven = model::SaysTrouble(job.main.verdict) &&
                        job.main.confidence == model::Confidence::kConfirmed;
    const std::string kind = proven ? model::Name(job.main.verdict) : "";
    if (proven && kind != before[job.job]) ++deadlocks_[kind];
    confirmed_[job.job] = kind;
  }
  return jobs;
}

}  // namespace gordian::web
