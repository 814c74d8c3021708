// Where the status of a job comes from: its living `gordian run`, the `gordian serve` that analyzes
// it, or what was recorded.
#ifndef GORDIAN_CLI_STATUS_SOURCE_H_
#define GORDIAN_CLI_STATUS_SOURCE_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/status.h"

namespace CLI {
class App;
}
namespace grpc {
class Channel;
}

namespace gordian::cli {

inline constexpr char kStatusExitCodes[] =
    "Exit code: 0 healthy, finished or straggler; 1 any other verdict; 2 unreadable input; 3 "
    "inconclusive.\n";

// What status and watch take.
struct StatusFlags {
  std::string session;   // empty: `latest`
  std::string analyzer;  // HOST:PORT; empty: none
  std::string job;
};
void AddStatusOptions(CLI::App* verb, StatusFlags* flags);

struct SeenStatus {
  nlohmann::ordered_json status;  // schema gordian.status.v1
  bool running = false;           // there may be another one later
  bool live = false;              // from an analyzer, cheap to ask again
  std::string note;               // one line on what could not be read whole; empty: nothing
};

class StatusSource {
 public:
  // Errors: the flags contradict each other.
  static StatusOr<StatusSource> Open(const StatusFlags& flags);

  // Errors: there is no such session or job, or nothing of it can be read.
  StatusOr<SeenStatus> Look();

  // For people: "session latest", "job train at host:7411".
  const std::string& title() const { return title_; }

 private:
  StatusOr<SeenStatus> LookAtAnalyzer(const std::string& target, const std::string& job);
  StatusOr<SeenStatus> LookAtSession();

  StatusFlags flags_;
  std::string title_;
  std::string channel_target_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_STATUS_SOURCE_H_
