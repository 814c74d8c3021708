#include "analyzer/ingest/live_job.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/session/session_files.h"
#include "common/clock.h"
#include "common/json_text.h"
#include "common/packed_batch.h"
#include "common/read_file.h"

namespace gordian::analyzer {
namespace {

constexpr uint64_t kManifestPause = 20;  // times what writing it took

SharedVerdict NewsOf(const std::string& json, uint64_t revision, bool job_ended,
                     const std::vector<std::string>& rings) {
  v1::VerdictNews news;
  news.set_verdict_json(json);
  news.set_revision(revision);
  news.set_job_ended(job_ended);
  for (const std::string& ring : rings) news.add_rings(ring);
  return std::make_shared<const v1::VerdictNews>(PackedNews(news));
}

// Rounds of one life of an analyzer. The next life's are above all that this one can have asked.
constexpr uint64_t kRoundsOfALife = 1ull << 32;

}  // namespace

StatusOr<JobManifest> ReadJobManifest(const std::string& folder) {
  const std::string path = folder + "/" + kManifestFile;
  const StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return Status::NotFound(text.status().message());
  const auto json = ParseJson<nlohmann::ordered_json>(*text);
  JobManifest manifest;
  if (!json.is_object() || !json.contains("schema") || json["schema"] != kJobSchema ||
      !json.contains("job") || !json["job"].is_string()) {
    return Status::DataLoss(path + " is no manifest of a job");
  }
  manifest.name = json["job"].get<std::string>();
  manifest.closed = json.contains("closed") && json["closed"] == true;
  const auto text_of = [](const nlohmann::ordered_json& from, const char* key) -> std::string {
    const auto found = from.find(key);
    return found != from.end() && found->is_string() ? found->get<std::string>() : "";
  };
  manifest.started = text_of(json, "started");
  if (!json.contains("nodes") || !json["nodes"].is_array()) return manifest;
  for (const auto& node : json["nodes"]) {
    if (!node.is_object()) continue;
    if (std::string name = text_of(node, "node"); !name.empty()) {
      manifest.nodes.push_back(std::move(name));
    }
    if (!node.contains("incarnation") || !node["incarnation"].is_string()) {
      continue;
    }
    manifest.incarnations.push_back(
        std::strtoull(node["incarnation"].get<std::string>().c_str(), nullptr, 16));
  }
  return manifest;
}

LiveJob::LiveJob(LiveJobOptions options) : options_(std::move(options)) {
  AnalysisOptions analysis;
  analysis.session_dir = options_.folder;
  analysis.folder = options_.held;
  analysis.model = options_.model;
  analysis.many_nodes = true;
  analysis.on_durable = [this] { ingest_->OnDurable(); };
  analysis.on_stacks_wanted = [this](const v1::StacksRequest& request) {
    ingest_->AskForStacks(request);
  };
  analysis.on_verdict = [this](const VerdictUpdate& update) {
    ingest_->Tell(NewsOf(update.json, update.revision, update.job_ended, update.rings));
    if (options_.on_verdict) options_.on_verdict(update);
  };
  analysis_ = std::make_unique<Analysis>(std::move(analysis));
  ingest_ = std::make_unique<JobIngest>(
      analysis_.get(),
      JobIngest::Options{
          .fleet = true, .job = options_.name, .gordian_version = options_.gordian_version});
  started_real_ns_ = RealNs();
}

StatusOr<std::unique_ptr<LiveJob>> LiveJob::Create(LiveJobOptions options) {
  std::unique_ptr<LiveJob> job(new LiveJob(std::move(options)));
  // Before anything is promised to a node: can this folder be written?
  GORDIAN_RETURN_IF_ERROR(
      job->options_.held->ReplaceFile(kManifestFile, job->Manifest(false).dump(2) + "\n"));
  job->rounds_ = std::make_unique<RoundDriver>(job->analysis_.get(), job->options_.pace);
  job->ingest_->Start(job->rounds_.get());
  return job;
}

StatusOr<std::unique_ptr<LiveJob>> LiveJob::Resume(LiveJobOptions options) {
  std::unique_ptr<LiveJob> job(new LiveJob(std::move(options)));
  uint64_t last_round = 0;
  bool ended = false;
  GORDIAN_RETURN_IF_ERROR(job->analysis_->Resume([&](const v1::Event& event) {
    job->ingest_->Recall(event);
    if (event.has_round()) last_round = std::max(last_round, event.round().round());
    if (event.has_analyzer_started()) {
      last_round = std::max(last_round, event.analyzer_started().first_round());
    }
    ended |= event.has_job_ended();
  }));
  v1::Event event;
  v1::AnalyzerStarted* const started = event.mutable_analyzer_started();
  started->set_real_ns(RealNs());
  started->set_mono_ns(MonoNs());
  started->set_first_round((last_round / kRoundsOfALife + 1) * kRoundsOfALife);
  job->analysis_->OnEvent(event);
  job->ingest_->NoteAllAway();
  job->analysis_->Flush();  // before a round of that number can be asked for
  uint64_t revision = 0;
  const std::string json = job->analysis_->CurrentJson(&revision);
  job->ingest_->Tell(NewsOf(json, revision, ended, job->analysis_->CurrentRings()));
  job->rounds_ = std::make_unique<RoundDriver>(job->analysis_.get(), job->options_.pace,
                                               started->first_round());
  job->ingest_->Start(job->rounds_.get());
  job->WriteManifest();
  spdlog::info("job {}: goes on with {}/{}", job->options_.name, job->options_.folder, kTraceFile);
  return job;
}

LiveJob::~LiveJob() {
  if (rounds_ == nullptr) return;  // was never started
  rounds_->Stop();
  Close(/*for_good=*/false);
}

nlohmann::ordered_json LiveJob::Manifest(bool closed) const {
  nlohmann::ordered_json json;
  json["schema"] = kJobSchema;
  json["job"] = options_.name;
  json["gordian_version"] = options_.gordian_version;
  json["suspect_after_s"] = static_cast<double>(options_.model.suspect_after_ns) / 1e9;
  json["started"] = FormatUtc(started_real_ns_);
  char host[256] = {};
  json["host"] = gethostname(host, sizeof host - 1) == 0 ? host : "";
  json["gordian_pid"] = getpid();
  json["gordian_start"] = options_.process_start;
  json["closed"] = closed;
  json["job_ended"] = ingest_->Over();
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  for (const NodeStatus& node : ingest_->nodes()) {
    nlohmann::ordered_json one;
    one["node"] = node.name;
    one["host"] = node.host;
    one["session"] = node.session;
    one["number"] = node.node_rank;
    one["incarnation"] = fmt::format("{:016x}", node.incarnation);
    one["connected"] = node.connected;
    one["ended"] = node.ended;
    one["first_process"] = node.index * kProcessesOfNode;
    one["clock"] = node.has_clock ? nlohmann::ordered_json{{"offset_ns", node.clock_offset_ns},
                                                           {"bound_ns", node.clock_bound_ns}}
                                  : nlohmann::ordered_json(nullptr);
    nodes.push_back(std::move(one));
  }
  json["nodes"] = std::move(nodes);
  return json;
}

void LiveJob::WriteManifest() {
  const std::lock_guard lock(manifest_mutex_);
  if (closed_) return;
  const uint64_t changes = ingest_->changes();
  const uint64_t now = MonoNs();
  if (changes == manifest_changes_ || now < manifest_next_ns_) return;
  manifest_changes_ = changes;
  const Status status = options_.held->ReplaceFile(kManifestFile, Manifest(false).dump(2) + "\n");
  // It names every node, so one for each of 4,096 nodes that join would take minutes.
  manifest_next_ns_ = MonoNs() + kManifestPause * (MonoNs() - now);
  if (!status.ok()) spdlog::warn("job {}: {}", options_.name, status.message());
}

void LiveJob::Close(bool for_good) {
  const std::lock_guard lock(manifest_mutex_);
  if (std::exchange(closed_, true)) return;
  analysis_->Finish();
  const Status status =
      options_.held->ReplaceFile(kManifestFile, Manifest(for_good).dump(2) + "\n");
  if (!status.ok()) spdlog::warn("job {}: {}", options_.name, status.message());
}

}  // namespace gordian::analyzer
