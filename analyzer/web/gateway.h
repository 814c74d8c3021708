// Serves jobs to people and to Prometheus: the live page, its JSON, server-sent events, /metrics.
//
//   /  app.js  app.css     the page
//   /api/v1/jobs           all jobs, a summary each, and what the viewer may do
//   /api/v1/jobs/NAME      the page's document of one (page_document.h)
//   /api/v1/incidents      troubles of jobs over time (gordian.incidents.v1)
//   /api/v1/incidents/ID/acknowledge    POST {"by": WHO, "note": TEXT}, with an admin's token
//   /api/v1/events         an event for each summary that changes, and for incidents
//   /metrics               OpenMetrics text
//   /healthz               "ok"
//
// The gateway looks at the jobs when a verdict changes, and every `look_every` while a viewer is
// there. What a look costs is paid on the gateway's own threads, and once for all viewers.
#ifndef GORDIAN_ANALYZER_WEB_GATEWAY_H_
#define GORDIAN_ANALYZER_WEB_GATEWAY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/access/tls_context.h"
#include "analyzer/web/job_metrics.h"
#include "analyzer/web/job_source.h"
#include "analyzer/web/page_document.h"
#include "common/status.h"

namespace gordian::web {

struct GatewayOptions {
  std::string listen;    // HOST:PORT, port 0: any
  access::TlsFiles tls;  // as in HttpOptions, and so the two below
  std::function<bool(std::string_view token)> may_view;
  bool any_host = false;
  // Whether a viewer with this token may acknowledge incidents; the error says what to do. The
  // gateway asks on loopback as well: other users of the machine may look, not change. Null: no
  // viewer may.
  std::function<Status(std::string_view token)> may_change;
  PageFiles files;
  std::shared_ptr<JobSource> jobs;
  std::shared_ptr<JobMetrics> metrics;  // of `jobs`, if others want them, too; null: its own
  std::function<void(const std::string&)> on_refused;  // a line for people
  std::chrono::milliseconds look_every{1000};          // the gateway, without a Wake()
};

// Thread-safe; call Start once.
class Gateway {
 public:
  Gateway();
  ~Gateway();  // Stop(), if the owner did not
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  Status Start(GatewayOptions options);
  int port() const;

  // Once started.
  metrics::HttpMetrics Http() const;

  // A verdict has changed: looks at the jobs now. Quick; call it from any thread.
  void Wake();

  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gordian::web

#endif  // GORDIAN_ANALYZER_WEB_GATEWAY_H_
