// Sends alerts, each target on a thread of its own, so that one that does not answer delays no other.
//
// A target that cannot be reached, or answers 408, 429 or 5xx, is tried again after 1 s, 2 s, 4 s, up
// to 60 s, for an hour; any other answer but 2xx is final.
#ifndef GORDIAN_ANALYZER_INCIDENTS_ALERT_SENDER_H_
#define GORDIAN_ANALYZER_INCIDENTS_ALERT_SENDER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/incidents/alert_target.h"
#include "analyzer/incidents/incident.h"

namespace gordian::incidents {

using AlertEnvironment = std::vector<std::pair<std::string, std::string>>;

struct AlertSenderOptions {
  std::vector<AlertTarget> targets;
  std::string key;  // for X-Gordian-Signature; empty: none
  // Runs the command of an exec: target and returns its exit code; -1: it could not be run, or ran
  // too long. On a target's thread, and may take as long as the command.
  std::function<int(const std::string& command, const AlertEnvironment&)> run_command;
  // What became of an alert: true, it was taken; false, it will not be sent any more. On a target's
  // thread.
  std::function<void(const Alert&, bool sent)> on_done;
  // A line for people, without a URL; on a target's thread, seldom.
  std::function<void(const std::string&)> on_line;
  std::chrono::milliseconds first_wait{1000};
  std::chrono::milliseconds longest_wait{60'000};
  std::chrono::milliseconds give_up_after{3'600'000};  // since Alert::queued_ns
  std::chrono::milliseconds timeout{10'000};           // of one request
  size_t most_queued = 1000;                           // for each target
};

// Thread-safe.
class AlertSender {
 public:
  explicit AlertSender(AlertSenderOptions options);
  ~AlertSender();  // Stop()
  AlertSender(const AlertSender&) = delete;
  AlertSender& operator=(const AlertSender&) = delete;

  // Quick. Of one incident a target gets its alerts in this order. `earlier`: see AlertBody. False:
  // there is no such target, or its queue is full.
  bool Send(const Alert& alert, std::vector<std::string> earlier = {});

  // Nothing waits to be sent.
  bool Idle() const;

  // Ends the request that runs; what waits stays unsent, and on_done does not hear of it.
  void Stop();

 private:
  class Lane;
  AlertSenderOptions options_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace gordian::incidents

#endif  // GORDIAN_ANALYZER_INCIDENTS_ALERT_SENDER_H_
