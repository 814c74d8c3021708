// The verdicts that come down the stream from `gordian serve`: put into the session's files and
// handed on as an analyzer in this process would.
#ifndef GORDIAN_CLI_REMOTE_VERDICTS_H_
#define GORDIAN_CLI_REMOTE_VERDICTS_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "analyzer/server/analysis.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::cli {

// Thread-safe.
class RemoteVerdicts {
 public:
  // `session_dir` empty: no files. `tell` is called for each verdict, one at a time.
  RemoteVerdicts(std::string session_dir, std::function<void(const server::VerdictUpdate&)> tell);

  // From the stream's thread.
  void OnNews(const v1::VerdictNews& news);
  void OnUnfinished(bool unfinished);

  // At the job's end, when the analyzer took nothing of it: makes the session's trace from the
  // spool and decides here, from what this node saw. False: there is nothing to make it from.
  bool DecideHere(const std::string& spool_dir, const std::string& command_line,
                  const std::string& why, const graph::ModelOptions& model);

  std::optional<graph::Verdict> latest() const;
  bool unfinished() const;
  // The first file of the session that could not be written, and why; "": none.
  std::string problem() const;

 private:
  void Keep(const graph::Verdict& verdict, const server::SiteResolver& sites,
            const std::string& json, uint64_t revision, bool job_ended);

  const std::string session_dir_;
  const std::function<void(const server::VerdictUpdate&)> tell_;
  std::mutex telling_;
  mutable std::mutex mutex_;
  std::optional<graph::Verdict> latest_;
  bool unfinished_ = false;
  std::string problem_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_REMOTE_VERDICTS_H_
