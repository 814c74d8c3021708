#include "replayer/record/extract.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "analyzer/ingest/graph_events.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/stacks/call_sites.h"
#include "common/trace_file.h"
#include "common/version.h"
#include "replayer/record/signature.h"
#include "replayer/record/unfinished.h"

namespace gordian::replayer {
namespace {

// Settings that decide which operations wait for which, or which protocol moves the data.
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

// Settings of the emulated machine; real machines ignore them.
constexpr std::string_view kMachine[] = {"GORDIAN_EMU_P2P_BUFFER", "GORDIAN_EMU_SMS"};

// How a job tells which calls come in the order in which their data gets ready.
constexpr std::string_view kReadySites = "GORDIAN_READINESS_ORDERED=";

class Reading {
 public:
  explicit Reading(const ExtractOptions& options)
      : model_(options.model),
        wanted_steps_(options.steps),
        with_facts_(options.with_facts),
        events_(&model_) {
    if (with_facts_) events_.TellRounds([this](const model::Round& round) { NoteLives(round); });
    auto on_record = options.on_record;
    if (!on_record)
      on_record = [this](const model::CallRecord& record) { recording_.OnRecord(record); };
    events_.Tell([](const model::ProcessInfo&) {}, std::move(on_record));
    events_.TellSites([this](uint32_t process, uint64_t site, const std::string& text) {
      sites_.OnPythonSite(process, site, text);
    });
  }

  // Feeds facts up to the last round in which the job was as the verdict says. After that, people
  // and launchers end processes: those ends say nothing about what was stuck.
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
    if (with_facts_) {  // wants all of a job that has ended
      events_.OnEvent(event);
      return;
    }
    const bool ends = event.has_process_ended() || (event.has_round() && HoldsDead(event.round()));
    if (event.has_job_ended() || (ends && model::SaysTrouble(model_.Current().main.verdict))) {
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

  // `source`: its name; `cut`: how the trace ends, if it is not whole.
  Extracted Finish(const v1::TraceHeader& header, const std::string& source,
                   const std::string& cut) {
    recording_.Finish();
    const model::Verdict verdict = model_.Current();
    Extracted extracted;
    extracted.refused = wanted_steps_ ? Losses(verdict) : Refusals(verdict);
    JobFacts facts{.execution = model_.execution(),
                   .matcher = model_.matcher(),
                   .recording = recording_,
                   .verdict = verdict,
                   .site =
                       [this](model::ProcessId id, uint64_t site) {
                         if (site == 0) return SiteText();
                         const analyzer::CallSite place = sites_.Resolve(id, site);
                         return SiteText{ShortForm(place, site), place.file, place.line};
                       },
                   .symbol = [this](uint16_t call) { return events_.Symbol(call); },
                   .operations = recording_.operations()};
    if (!with_facts_ && extracted.refused.empty()) {
      UnfinishedJob job = wanted_steps_ ? StepsOf(facts) : ScheduleUnfinished(facts);
      extracted.schedule = std::move(job.schedule);
      extracted.refused = std::move(job.refused);
    }
    Origin& origin = extracted.schedule.origin;
    origin.signature = SignatureOf(verdict);
    origin.summary = verdict.main.summary;
    origin.command = header.command_line();
    origin.gordian_version = header.gordian_version();
    origin.source = source;
    NoteReads(facts, &origin);
    for (const std::string& setting : header.environment()) {
      NoteSetting(setting, kMachine);
      if (setting.starts_with(kReadySites))
        extracted.ready_sites = SplitAtCommas(setting.substr(kReadySites.size()));
    }
    for (const auto& [name, values] : settings_) {
      extracted.schedule.environment.emplace_back(name, *values.begin());
      if (values.size() > 1)
        origin.notes.push_back(name + " differs between ranks; in the replay all have " +
                               *values.begin());
    }
    if (!cut.empty()) origin.notes.push_back("the trace is " + cut);
    if (with_facts_) with_facts_(facts, Lives(), extracted);
    return extracted;
  }

 private:
  void NoteLives(const model::Round& round) {
    for (const model::ProcessState& process : round.processes) {
      const model::Process* const known = model_.execution().Find(process.process);
      for (const model::ThreadState& thread : process.threads) {
        if (thread.os_state == model::OsState::kGone) continue;
        auto& [id, life] = lives_[{process.process, thread.tid}];
        if (thread.thread != 0) id = thread.thread;
        const bool first = known != nullptr && known->info.pid == thread.tid;
        life.from_ns = first ? 0 : std::min(life.from_ns, round.end_ns);
        life.until_ns = std::max(life.until_ns, round.begin_ns);
        life.polls |= thread.poll_count > 1;
        if (thread.call_id != 0) continue;
        if (thread.sleep == model::ThreadSleep::kThread) {
          life.waits_ns = std::min(life.waits_ns, round.end_ns);
        } else if (thread.os_state == model::OsState::kRunning ||
                   thread.sleep == model::ThreadSleep::kOutside) {
          life.free_ns = std::min(life.free_ns, round.end_ns);
        }
      }
    }
  }
  ThreadLives Lives() const {
    ThreadLives lives;
    for (const auto& [key, seen] : lives_) {
      if (seen.first != 0) lives[{key.first, seen.first}] = seen.second;
    }
    return lives;
  }

  static std::vector<std::string> SplitAtCommas(const std::string& text) {
    std::vector<std::string> parts;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, ',');) {
      if (!part.empty()) parts.push_back(part);
    }
    return parts;
  }

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

  std::vector<std::string> Refusals(const model::Verdict& verdict) const {
    const model::Finding& main = verdict.main;
    std::vector<std::string> refused;
    const auto nothing = [&](const std::string& why) {
      refused.push_back("the recorded job does not hang: " + why);
    };
    switch (main.verdict) {
      case model::VerdictKind::kHealthy:
      case model::VerdictKind::kFinished:
      case model::VerdictKind::kInconclusive:
        nothing(main.summary);
        break;
      case model::VerdictKind::kStuckKernel:
        refused.push_back("a kernel of the program hangs, and its code is not recorded: " +
                          main.summary);
        break;
      default:
        if (ended_well_) nothing("the job ended by itself (" + main.summary + ")");
    }
    if (recording_.host_operations() > 0) {
      refused.push_back("the job uses torch.distributed without NCCL, which replays do not make");
    }
    const std::vector<std::string> losses = Losses(verdict);
    refused.insert(refused.end(), losses.begin(), losses.end());
    return refused;
  }

  // The trace does not show how the program's branches depend on the data it read: a replay takes
  // the branches that the job took.
  static void NoteReads(const JobFacts& facts, Origin* origin) {
    size_t reads = 0;
    std::string site;
    for (const auto& [id, process] : facts.recording.processes()) {
      for (const RecordedCall& call : process.calls) {
        if (call.wait != model::WaitKind::kCopy && call.wait != model::WaitKind::kAsyncCopy)
          continue;
        if (++reads == 1) site = facts.site(id, call.site).text;
      }
    }
    if (reads == 0) return;
    origin->notes.push_back("the job waited for " + std::to_string(reads) +
                            (reads == 1 ? " copy" : " copies") + " between host and device" +
                            (site.empty() ? "" : ", first at " + site) +
                            "; the replay takes the branches that the job took, whatever it reads");
  }

  static std::vector<std::string> Losses(const model::Verdict& verdict) {
    const uint64_t lost = verdict.main.evidence.records_lost;
    if (lost == 0) return {};
    return {std::to_string(lost) + " records were lost, and with them some calls"};
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

  model::JobModel model_;
  const std::optional<StepRange> wanted_steps_;
  const std::function<void(const JobFacts&, const ThreadLives&, const Extracted&)> with_facts_;
  std::map<std::pair<model::ProcessId, uint32_t>, std::pair<model::ThreadId, ThreadLife>>
      lives_;  // by the number of the operating system
  analyzer::GraphEvents events_;
  analyzer::CallSites sites_;
  Recording recording_;
  std::vector<v1::Event> held_;
  std::map<std::string, std::set<std::string>> settings_;
  bool ended_well_ = false;
  bool over_ = false;  // the job is over: the rest is aftermath
};

}  // namespace

StatusOr<Extracted> Extract(const std::string& path, const ExtractOptions& options) {
  struct stat about {};
  const bool folder = stat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode);
  StatusOr<std::unique_ptr<TraceReader>> reader =
      TraceReader::Open(folder ? path + "/trace.gtrace" : path);
  GORDIAN_RETURN_IF_ERROR(reader.status());
  Reading reading(options);
  while (const v1::TraceChunk* const chunk = (*reader)->Next()) {
    for (const v1::Event& event : chunk->events()) reading.OnEvent(event);
  }
  GORDIAN_RETURN_IF_ERROR((*reader)->bounds());
  const bool whole = (*reader)->ending() == TraceReader::Ending::kComplete;
  return reading.Finish(
      (*reader)->header(),
      path.substr(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/') + 1),
      whole ? "" : (*reader)->Describe());
}

}  // namespace gordian::replayer
