#include "replayer/extract.h"

#include <google/protobuf/arena.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "analyzer/graph/check_catalogue.h"
#include "analyzer/server/call_sites.h"
#include "analyzer/server/graph_events.h"
#include "common/trace_file.h"
#include "common/version.h"
#include "replayer/signature.h"
#include "replayer/unfinished.h"

namespace gordian::replayer {
namespace {

// Settings that decide who waits for whom, or which protocol moves the data.
constexpr std::string_view kSettings[] = {"CUDA_DEVICE_MAX_CONNECTIONS",
                                          "CUDA_LAUNCH_BLOCKING",
                                          "NCCL_ALGO",
                                          "NCCL_BUFFSIZE",
                                          "NCCL_CUMEM_ENABLE",
                                          "NCCL_GRAPH_MIXING_SUPPORT",
                                          "NCCL_LAUNCH_ORDER_IMPLICIT",
                                          "NCCL_MAX_NCHANNELS",
                                          "NCCL_MIN_NCHANNELS",
                                          "NCCL_NTHREADS",
                                          "NCCL_PROTO",
                                          "NCCL_RUNTIME_CONNECT"};

// What an emulated machine was like; real ones do not know of these.
constexpr std::string_view kMachine[] = {"GORDIAN_EMU_P2P_BUFFER", "GORDIAN_EMU_SMS"};

class Reading {
 public:
  explicit Reading(const ExtractOptions& options)
      : model_(options.model), wanted_steps_(options.steps), events_(&model_) {
    events_.Tell([](const graph::ProcessInfo&) {},
                 [this](const graph::CallRecord& record) { recording_.OnRecord(record); });
  }

  // Facts are fed up to the last round at which the job was as the verdict says. Once there is
  // trouble, the end of a process is what somebody made of it: it says nothing about what was
  // stuck.
  void OnEvent(const v1::Event& event) {
    switch (event.event_case()) {
      case v1::Event::kModule:
        sites_.OnModule(event.module());
        break;
      case v1::Event::kProcessStarted:
        for (const std::string& setting : event.process_started().settings())
          NoteSetting(setting, kSettings);
        break;
      case v1::Event::kJobEnded:
        ended_well_ = !event.job_ended().killed_by_gordian() &&
                      event.job_ended().kind() == v1::EXIT_KIND_CODE &&
                      event.job_ended().exit_value() == 0;
        break;
      default:
        break;
    }
    if (over_) return;
    const bool ends = event.has_process_ended() || (event.has_round() && HoldsDead(event.round()));
    if (event.has_job_ended() || (ends && graph::SaysTrouble(model_.Current().main.verdict))) {
      over_ = true;
    } else if (event.has_round()) {
      for (const v1::Event& held : held_) events_.OnEvent(held);
      held_.clear();
      events_.OnEvent(event);
    } else if (event.has_process_ended() || !held_.empty()) {
      held_.push_back(event);
    } else {
      events_.OnEvent(event);
    }
  }

  Extracted Finish(const v1::TraceHeader& header) {
    recording_.Finish();
    const graph::Verdict verdict = model_.Current();
    Extracted extracted;
    extracted.refused = wanted_steps_ ? Losses(verdict) : Refusals(verdict);
    JobFacts facts{.execution = model_.execution(),
                   .matcher = model_.matcher(),
                   .recording = recording_,
                   .verdict = verdict,
                   .site =
                       [this](graph::ProcessId id, uint64_t site) {
                         return site == 0 ? "" : sites_.Describe({id, site});
                       },
                   .symbol = [this](uint16_t call) { return events_.Symbol(call); }};
    if (extracted.refused.empty()) {
      UnfinishedJob job = wanted_steps_ ? StepsOf(facts) : ScheduleUnfinished(facts);
      extracted.schedule = std::move(job.schedule);
      extracted.refused = std::move(job.refused);
    }
    Origin& origin = extracted.schedule.origin;
    origin.signature = SignatureOf(verdict);
    origin.summary = verdict.main.summary;
    origin.command = header.command_line();
    origin.gordian_version = header.gordian_version();
    NoteReads(facts, &origin);
    for (const std::string& setting : header.environment()) NoteSetting(setting, kMachine);
    for (const auto& [name, values] : settings_) {
      extracted.schedule.environment.emplace_back(name, *values.begin());
      if (values.size() > 1)
        origin.notes.push_back(name + " differs between ranks; here all have " + *values.begin());
    }
    return extracted;
  }

 private:
  static bool HoldsDead(const v1::Round& round) {
    return std::any_of(round.processes().begin(), round.processes().end(),
                       [](const v1::ProcessState& state) { return !state.alive(); });
  }

  template <size_t N>
  void NoteSetting(const std::string& setting, const std::string_view (&wanted)[N]) {
    const size_t sign = setting.find('=');
    if (sign == std::string::npos) return;
    const std::string name = setting.substr(0, sign);
    if (std::find(std::begin(wanted), std::end(wanted), name) != std::end(wanted)) {
      settings_[name].insert(setting.substr(sign + 1));
    }
  }

  std::vector<std::string> Refusals(const graph::Verdict& verdict) const {
    const graph::Finding& main = verdict.main;
    std::vector<std::string> refused;
    const auto nothing = [&](const std::string& why) {
      refused.push_back("nothing hangs in it: " + why);
    };
    switch (main.verdict) {
      case graph::VerdictKind::kHealthy:
      case graph::VerdictKind::kFinished:
      case graph::VerdictKind::kStraggler:
      case graph::VerdictKind::kInconclusive:
        nothing(main.summary);
        break;
      case graph::VerdictKind::kStuckKernel:
        refused.push_back(
            "what hangs is a kernel of the program's own, whose code is not recorded: " +
            main.summary);
        break;
      default:
        if (ended_well_) nothing("the job came to its end by itself (" + main.summary + ")");
    }
    const std::vector<std::string> losses = Losses(verdict);
    refused.insert(refused.end(), losses.begin(), losses.end());
    return refused;
  }

  // Which way a program goes because of what it has read is not in the trace: a replay goes the way
  // that it went.
  static void NoteReads(const JobFacts& facts, Origin* origin) {
    size_t reads = 0;
    std::string site;
    for (const auto& [id, process] : facts.recording.processes()) {
      for (const RecordedCall& call : process.calls) {
        if (call.wait != graph::WaitKind::kCopy && call.wait != graph::WaitKind::kAsyncCopy)
          continue;
        if (++reads == 1) site = facts.site(id, call.site);
      }
    }
    if (reads == 0) return;
    origin->notes.push_back(
        "the job waited for " + std::to_string(reads) + (reads == 1 ? " copy" : " copies") +
        " between host and device" + (site.empty() ? "" : ", first at " + site) +
        "; what its program did because of what it read is here as it was, not decided anew");
  }

  static std::vector<std::string> Losses(const graph::Verdict& verdict) {
    const uint64_t lost = verdict.main.evidence.records_lost;
    if (lost == 0) return {};
    return {std::to_string(lost) + " records were lost, and with them what some rank called"};
  }

  UnfinishedJob StepsOf(const JobFacts& facts) const {
    const JobSteps steps = FindSteps(facts, *wanted_steps_);
    if (!steps.calls.refused.empty())
      return {.schedule = {}, .refused = {steps.calls.refused.begin(), steps.calls.refused.end()}};
    UnfinishedJob job = ScheduleCalls(facts, steps.calls);
    job.schedule.origin.notes.insert(job.schedule.origin.notes.begin(), steps.notes.begin(),
                                     steps.notes.end());
    return job;
  }

  graph::JobModel model_;
  const std::optional<StepRange> wanted_steps_;
  server::GraphEvents events_;
  server::CallSites sites_;
  Recording recording_;
  std::vector<v1::Event> held_;
  std::map<std::string, std::set<std::string>> settings_;
  bool ended_well_ = false;
  bool over_ = false;  // what comes now is the aftermath
};

}  // namespace

StatusOr<Extracted> Extract(const std::string& path, const ExtractOptions& options) {
  struct stat about {};
  const bool folder = stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
  StatusOr<std::unique_ptr<TraceReader>> reader =
      TraceReader::Open(folder ? path + "/trace.gtrace" : path);
  GORDIAN_RETURN_IF_ERROR(reader.status());
  Reading reading(options);
  google::protobuf::Arena arena;  // thousands of small messages, all gone with their chunk
  while (true) {
    arena.Reset();
    auto* chunk = google::protobuf::Arena::CreateMessage<v1::TraceChunk>(&arena);
    if (!(*reader)->Next(chunk)) break;
    for (const v1::Event& event : chunk->events()) reading.OnEvent(event);
  }
  Extracted extracted = reading.Finish((*reader)->header());
  extracted.schedule.origin.source =
      path.substr(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/') + 1);
  if ((*reader)->ending() != TraceReader::Ending::kComplete) {
    extracted.schedule.origin.notes.push_back("the trace is " + (*reader)->Describe());
  }
  return extracted;
}

}  // namespace gordian::replayer
