// Finds a job's status: asks its live `gordian run` or the `gordian serve` that analyzes it, or
// reads its records.
#ifndef GORDIAN_CLI_STATUS_STATUS_SOURCE_H_
#define GORDIAN_CLI_STATUS_STATUS_SOURCE_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "analyzer/report/verdict_json.h"
#include "common/analyzer_access.h"
#include "common/owned_folder.h"
#include "common/status.h"

namespace CLI {
class App;
}
namespace grpc {
class Channel;
}

namespace gordian::cli {

inline constexpr char kStatusExitCodes[] =
    "Exit code: 0 healthy or finished; 1 any other verdict; 2 unreadable input; 3 "
    "inconclusive.\n";

// The options of status and watch.
struct StatusFlags {
  std::string session;   // empty: `latest`
  std::string analyzer;  // HOST:PORT; empty: none
  std::string job;
  AccessFiles access;  // of --analyzer, or of the analyzer that a session names
};
void AddStatusOptions(CLI::App* verb, StatusFlags* flags);

struct SeenStatus {
  nlohmann::ordered_json status;  // schema gordian.status.v1
  bool running = false;           // the job runs: a later status may differ
  bool live = false;              // from an analyzer, so cheap to ask for again
  std::string note;               // one line on what could not be read; empty: all was read
  // If asked for; null where it cannot be had.
  std::shared_ptr<const analyzer::VerdictDocument> verdict;
};

class StatusSource {
 public:
  // Errors: the flags contradict each other.
  static StatusOr<StatusSource> Open(const StatusFlags& flags);

  // Errors: the session or job does not exist, or none of its files can be read.
  StatusOr<SeenStatus> Look(bool with_verdict = false);

  // For people: "session latest", "job train at host:7411".
  const std::string& title() const { return title_; }
  // As the user named it; empty: it is a job of an analyzer elsewhere.
  const std::string& session() const { return session_; }

 private:
  StatusOr<SeenStatus> LookAtAnalyzer(const std::string& target, const std::string& job,
                                      bool with_verdict);
  StatusOr<SeenStatus> LookAtSession(bool with_verdict);
  // Asks again only when `revision` is another one than that of the verdict which it has.
  std::shared_ptr<const analyzer::VerdictDocument> VerdictAt(uint64_t revision,
                                                             const Access& access,
                                                             const std::string& job);

  StatusFlags flags_;
  std::string title_;
  std::string session_;
  std::string channel_target_;
  std::shared_ptr<grpc::Channel> channel_;
  // The session's: a path through its descriptor is short enough for any socket's address.
  std::shared_ptr<const OwnedFolder> folder_;
  std::shared_ptr<const analyzer::VerdictDocument> verdict_;
  uint64_t verdict_revision_ = 0;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_STATUS_STATUS_SOURCE_H_
