// The pages of the job that `gordian run` watches: the live one, and report.html. An interface, so
// that gordian-observe, which has no page, needs no web server.
#ifndef GORDIAN_CLI_RUN_RUN_PAGE_H_
#define GORDIAN_CLI_RUN_RUN_PAGE_H_

#include <functional>
#include <memory>
#include <string>

#include "analyzer/metrics/otlp_target.h"
#include "analyzer/session/analysis.h"
#include "cli/incidents/run_incidents.h"
#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::cli {

struct RunPageOptions {
  analyzer::Analysis* analysis = nullptr;  // outlives the page
  std::string job;
  std::string session_dir;                            // as people type it; empty: none
  std::shared_ptr<const OwnedFolder> session_folder;  // null: none
  RunIncidents* incidents = nullptr;                  // outlives the page
};

// PEM files of the live page's TLS.
struct PageTls {
  std::string cert, key;  // the page's own; empty: no TLS
  std::string ca;         // who must have signed a viewer's certificate; empty: none is wanted
};

class RunPage {
 public:
  virtual ~RunPage() = default;

  // Serves the page at HOST:PORT; port 0: any. Beyond loopback it makes a token. `on_line` gets a
  // line for people now and then, from any thread. Returns the address to open.
  virtual StatusOr<std::string> Serve(const std::string& listen, const PageTls& tls,
                                      std::function<void(const std::string&)> on_line) = 0;
  // A verdict has changed. Any thread; quick.
  virtual void OnVerdict() = 0;
  // Writes report.html into the session, and status.json beside it: of a job in trouble the state
  // that it was found in, since later everybody has ended. One thread.
  virtual void WriteReport() = 0;
  // The job has ended, and its trace is closed: report.html once more, with the operations before
  // the stall.
  virtual void WriteLastReport() = 0;
  // For node-exporter's textfile collector.
  virtual std::string Metrics() = 0;
  // Pushes the metrics from here on, and when a verdict changes; `on_line` as of Serve, which comes
  // before.
  virtual void PushMetrics(metrics::OtlpTarget target,
                           std::function<void(const std::string&)> on_line) = 0;
  // Pushes them once more. Quick.
  virtual void PushLastMetrics() = 0;
  // Whether that is over, or metrics are not pushed.
  virtual bool MetricsPushed() const = 0;
};

using MakeRunPage = std::function<std::unique_ptr<RunPage>(const RunPageOptions&)>;

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_RUN_RUN_PAGE_H_
