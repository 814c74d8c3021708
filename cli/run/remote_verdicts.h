// Receives the verdicts of `gordian serve`, writes them into the session's files, and hands them on
// as an analyzer in this process would.
#ifndef GORDIAN_CLI_RUN_REMOTE_VERDICTS_H_
#define GORDIAN_CLI_RUN_REMOTE_VERDICTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/session/analysis.h"
#include "common/owned_folder.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::cli {

// Thread-safe.
class RemoteVerdicts {
 public:
  // Writes no files without a folder (null), which is that of `session_dir`. Calls `tell` for each
  // verdict, one call at a time.
  RemoteVerdicts(std::string session_dir, std::shared_ptr<const OwnedFolder> folder,
                 std::function<void(const analyzer::VerdictUpdate&)> tell);

  // Call from the stream's thread.
  void OnNews(const v1::VerdictNews& news);
  void OnUnfinished(bool unfinished);

  // Call at the job's end when the analyzer received nothing: builds the session's trace from the
  // spool and decides from what this node saw. Returns false when the spool is empty.
  bool DecideHere(const std::string& spool_dir, const std::string& command_line,
                  const std::string& why, const model::ModelOptions& model);

  std::optional<model::Verdict> latest() const;
  // Of the processes that the latest verdict's problems are about: names of ring files.
  std::vector<std::string> rings() const;
  bool unfinished() const;
  // The first file of the session that could not be written, and why; "" if there is none.
  std::string problem() const;

 private:
  void Keep(const model::Verdict& verdict, const analyzer::SiteResolver& sites,
            const std::string& json, uint64_t revision, bool job_ended,
            const std::vector<std::string>& rings);

  const std::string session_dir_;
  const std::shared_ptr<const OwnedFolder> folder_;
  const std::function<void(const analyzer::VerdictUpdate&)> tell_;
  std::mutex telling_;
  mutable std::mutex mutex_;
  std::optional<model::Verdict> latest_;
  std::vector<std::string> rings_;
  bool unfinished_ = false;
  std::string problem_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_RUN_REMOTE_VERDICTS_H_
