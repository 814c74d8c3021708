// One job of an analyzer for many: its folder, its analysis, its collectors and its rounds.
//
//   manifest.json  schema gordian.job.v1: the job, and every node with its clock and how far it
//   came trace.gtrace, verdict.json, report.txt   as Analysis writes them
#ifndef GORDIAN_ANALYZER_INGEST_LIVE_JOB_H_
#define GORDIAN_ANALYZER_INGEST_LIVE_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analyzer/ingest/job_ingest.h"
#include "analyzer/ingest/round_driver.h"
#include "analyzer/ingest/round_pace.h"
#include "analyzer/session/analysis.h"
#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::analyzer {

inline constexpr char kJobSchema[] = "gordian.job.v1";
inline constexpr char kManifestFile[] = "manifest.json";

struct LiveJobOptions {
  std::string name;                         // as nodes say it
  std::string folder;                       // exists
  std::shared_ptr<const OwnedFolder> held;  // that very folder
  model::ModelOptions model;
  RoundPace pace;
  std::string gordian_version;
  uint64_t process_start = 0;  // of this process, as /proc says it
  // As AnalysisOptions::on_verdict; the nodes have the verdict already.
  std::function<void(const VerdictUpdate&)> on_verdict;
};

// What a manifest says; enough to know whose job a folder holds, and to list it.
struct JobManifest {
  std::string name;
  std::string started;             // UTC; empty: not known
  std::vector<std::string> nodes;  // their names, valid UTF-8
  bool closed = false;             // no node is expected to come back
  std::vector<uint64_t> incarnations;
};
// Errors: no such file; not a manifest of a job.
StatusOr<JobManifest> ReadJobManifest(const std::string& folder);

// Thread-safe.
class LiveJob {
 public:
  // A new job; its trace begins with the first Hello.
  static StatusOr<std::unique_ptr<LiveJob>> Create(LiveJobOptions options);
  // A job whose trace is in the folder: goes on where that ends. Errors: as Analysis::Resume.
  static StatusOr<std::unique_ptr<LiveJob>> Resume(LiveJobOptions options);
  ~LiveJob();  // Stop and Close(false), unless the owner did
  LiveJob(const LiveJob&) = delete;
  LiveJob& operator=(const LiveJob&) = delete;

  JobIngest& ingest() { return *ingest_; }
  Analysis& analysis() { return *analysis_; }
  const std::string& folder() const { return options_.folder; }

  // Writes the manifest if its contents changed, and it was not written just now: call it again.
  void WriteManifest();

  // No more rounds; no caller waits for one any longer.
  void StopRounds() { rounds_->Stop(); }
  // After the last stream has left: the last verdict, the closed trace. `for_good`: a collector
  // that says the same name later begins another job, unless it was part of this one.
  void Close(bool for_good);

 private:
  explicit LiveJob(LiveJobOptions options);
  nlohmann::ordered_json Manifest(bool closed) const;

  const LiveJobOptions options_;
  std::unique_ptr<Analysis> analysis_;
  std::unique_ptr<JobIngest> ingest_;
  std::unique_ptr<RoundDriver> rounds_;
  uint64_t started_real_ns_ = 0;
  std::mutex manifest_mutex_;
  uint64_t manifest_changes_ = UINT64_MAX;  // what it was written at
  uint64_t manifest_next_ns_ = 0;           // the earliest time of the next one
  bool closed_ = false;
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_INGEST_LIVE_JOB_H_
