#include "analyzer/session/analysis.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "analyzer/fleet/fleet_notes.h"
#include "analyzer/ingest/graph_events.h"
#include "analyzer/report/report.h"
#include "analyzer/report/status_json.h"
#include "analyzer/report/verdict_json.h"
#include "analyzer/report/verdict_notes.h"
#include "analyzer/session/session_files.h"
#include "analyzer/stacks/sign_book.h"
#include "analyzer/stacks/stack_book.h"
#include "common/clock.h"
#include "common/owned_folder.h"
#include "common/trace_file.h"

namespace gordian::analyzer {
namespace {

constexpr uint64_t kFlushEveryNs = 100 * kNsPerMs;
constexpr std::chrono::milliseconds kResolveBudget(5);
constexpr size_t kMaxOwnNotes = 64;
constexpr size_t kMaxRings = 65'536;
constexpr size_t kMaxRingName = 64;

bool IsProblem(model::VerdictKind kind) {
  return kind != model::VerdictKind::kHealthy && kind != model::VerdictKind::kFinished &&
         kind != model::VerdictKind::kInconclusive;
}

constexpr uint64_t kRefreshPause = 4;  // times what the last update of the verdict took

// The part of a verdict whose change is news to people: without numbers that grow by themselves,
// even within texts ("12 records of rank 0").
model::Verdict Essence(model::Verdict verdict) {
  auto strip = [](model::Finding* finding) {
    finding->stalled_at_ns = 0;
    finding->detected_after_s = 0;
    finding->evidence.records = 0;
    finding->evidence.nccl_calls = 0;
    finding->evidence.records_lost = 0;
    finding->recovery.units.clear();
    finding->recovery.members.clear();
    if (finding->verdict == model::VerdictKind::kMismatch) {  // "7 more on it after that"
      std::erase_if(finding->summary, [](char c) { return c >= '0' && c <= '9'; });
    }
    for (std::string& text : finding->evidence.not_visible) {
      text = model::WithoutCount(text);
    }
  };
  strip(&verdict.main);
  for (model::Finding& finding : verdict.findings) strip(&finding);
  return verdict;
}

}  // namespace

class Analysis::Impl {
 public:
  explicit Impl(AnalysisOptions options)
      : options_(std::move(options)),
        model_(options_.model),
        events_(&model_),
        resolver_(call_sites_.Resolver()) {
    OpenFolder();
    events_.Tell([](const model::ProcessInfo&) {},
                 [this](const model::CallRecord& record) { TakeRecord(record); });
    events_.TellSites([this](uint32_t process, uint64_t site, const std::string& text) {
      call_sites_.OnPythonSite(process, site, text);
    });
  }

  ~Impl() { Finish(); }

  void Begin(const v1::TraceHeader& header) {
    std::lock_guard lock(mutex_);
    BeginLocked(header);
  }

  void OnEvent(const v1::Event& event) {
    std::lock_guard feed(feed_mutex_);
    std::optional<News> update;
    {
      std::lock_guard lock(mutex_);
      if (finished_) return;
      ++stats_.events;
      if (options_.write_trace) {
        if (!begun_) BeginLocked({});
        if (trace_ != nullptr) TraceStep(trace_->Append(event));
      }
      Feed(event);
      if (BearsOnVerdict(event)) update = RefreshFor(event);
    }
    Tell(update);
  }

  void OnBatch(const std::vector<v1::Event>& events) {
    std::string wire;  // as the trace holds it; what takes long of this needs no lock
    if (WantsTrace()) {
      for (const v1::Event& event : events) TraceWriter::AppendTo(event, &wire);
    }
    std::lock_guard feed(feed_mutex_);
    std::optional<News> update;
    {
      std::lock_guard lock(mutex_);
      if (finished_) return;
      stats_.events += events.size();
      if (options_.write_trace) {
        if (!begun_) BeginLocked({});
        if (trace_ != nullptr) TraceStep(trace_->AppendTogether(wire, events.size()));
      }
      const v1::Event* bears = nullptr;
      for (const v1::Event& event : events) {
        Feed(event);
        if (BearsOnVerdict(event)) bears = &event;
      }
      if (bears != nullptr) update = RefreshFor(*bears);
    }
    Tell(update);
  }

  Status Resume(const std::function<void(const v1::Event&)>& seen) {
    std::lock_guard feed(feed_mutex_);
    std::lock_guard lock(mutex_);
    if (folder_ == nullptr) {
      finished_ = true;
      return WhyNoFile(kTraceFile);
    }
    StatusOr<std::unique_ptr<TraceReader>> reader = TraceReader::Open(*folder_, kTraceFile);
    if (!reader.ok()) {
      finished_ = true;  // from here on the session must not change
      return reader.status();
    }
    while (const v1::TraceChunk* const chunk = (*reader)->Next()) {
      for (const v1::Event& event : chunk->events()) {
        ++stats_.events;
        Feed(event);
        seen(event);
      }
    }
    if ((*reader)->ending() == TraceReader::Ending::kDamaged) {
      (void)folder_->CopyFile(kTraceFile, std::string(kTraceFile) + ".damaged");
      AddNoteLocked("events after the end of an earlier part of the trace, which is " +
                    (*reader)->Describe());
    }
    StatusOr<std::unique_ptr<TraceWriter>> writer =
        TraceWriter::Continue(*folder_, kTraceFile, (*reader)->resume_offset());
    if (!writer.ok()) {
      finished_ = true;
      return writer.status();
    }
    trace_ = std::move(writer).value();
    begun_ = true;
    host_ = (*reader)->header().host();
    last_flush_ns_ = MonoNs();
    // People know the earlier verdict, and revisions must never decrease.
    essence_ = Essence(WithoutStacks());
    stacks_said_ = stacks_.changes();
    stats_.revision = RecordedRevision(PathOf(kVerdictFile)) + 1;
    json_ = VerdictToText(CurrentLocked(), resolver_, Stamp());
    WriteFile(kVerdictFile, json_);  // the killed process may not have written it
    WriteFile(kReportFile,
              ReportText(CurrentLocked(), resolver_, {.session = options_.session_dir}));
    return Status::Ok();
  }

  void Flush() {
    std::lock_guard lock(mutex_);
    if (!finished_) FlushLocked(MonoNs());
  }

  void Update() {
    std::lock_guard feed(feed_mutex_);
    std::optional<News> update;
    {
      std::lock_guard lock(mutex_);
      if (!finished_ && seen_process_ && !Later()) update = Refresh(/*always=*/false);
    }
    Tell(update);
  }

  void Tick() {
    bool due = false;
    {
      std::lock_guard lock(mutex_);
      if (finished_) return;
      const uint64_t now = MonoNs();
      if (now - last_flush_ns_ >= kFlushEveryNs) FlushLocked(now);
      due = refresh_later_ && now >= refresh_next_ns_;
    }
    if (due) Update();
    // Resolves ahead of need: opening the debug information of a large program takes longer than a
    // verdict may take.
    call_sites_.ResolveNoted(kResolveBudget);
  }

  void Finish() {
    std::lock_guard feed(feed_mutex_);
    std::optional<News> update;
    {
      std::lock_guard lock(mutex_);
      if (finished_) return;
      // The job's end has produced the last verdict, unless events came after it.
      if (stats_.events > 0) update = Refresh(/*always=*/!stats_.job_ended);
      if (trace_ != nullptr) TraceStep(trace_->Close());
      trace_.reset();
      finished_ = true;
    }
    Tell(update);
  }

  void AddNotVisible(const std::string& what) {
    std::lock_guard lock(mutex_);
    AddNoteLocked(what);
  }

  void SetWhyNothingSeen(const std::string& why) {
    std::lock_guard lock(mutex_);
    why_nothing_seen_ = why;
  }

  bool HasUnfinished() const {
    std::lock_guard lock(mutex_);
    return !finished_ && !stats_.job_ended && seen_process_ && model_.HasUnfinished();
  }

  bool WantsConfirmation() const {
    std::lock_guard lock(mutex_);
    return !finished_ && !stats_.job_ended && seen_process_ && model_.WantsConfirmation();
  }

  // Each batch of each node asks, so it does not wait for the model.
  bool RuntimeTakesPart() const { return runtime_takes_part_; }

  bool AwaitsStacks() const {
    std::lock_guard lock(mutex_);
    return !finished_ && stacks_.awaited();
  }

  model::Verdict Current() const {
    std::lock_guard lock(mutex_);
    return CurrentLocked();
  }

  std::string CurrentJson(uint64_t* revision) const {
    std::lock_guard lock(mutex_);
    if (revision != nullptr) *revision = stats_.revision;
    return json_;
  }

  std::vector<std::string> CurrentRings() const {
    std::lock_guard lock(mutex_);
    return RingsOf(WithoutStacks());
  }

  std::string StatusJson(uint64_t* revision) const {
    StatusFacts facts;
    {
      std::lock_guard lock(mutex_);
      facts.verdict = CurrentLocked();
      facts.snapshot = model_.Snapshot();
      facts.revision = stats_.revision;
      facts.job_ended = stats_.job_ended;
      facts.nodes = fleet_.Nodes();
      facts.host = host_;
      // Copies the names: the book may add one as soon as the lock is released.
      std::map<uint16_t, std::string> symbols;
      for (const model::RankSnapshot& rank : facts.snapshot.ranks) {
        symbols[rank.call_id] = events_.Symbol(rank.call_id);
      }
      facts.symbol = [symbols = std::move(symbols)](uint16_t call) {
        const auto found = symbols.find(call);
        return found == symbols.end() ? "" : found->second;
      };
    }
    facts.now_ns = facts.job_ended ? facts.snapshot.now_ns : MonoNs();
    facts.sites = resolver_;
    if (revision != nullptr) *revision = facts.revision;
    return StatusToText(facts);
  }

  CallSites& call_sites() { return call_sites_; }
  const SourceBook& sources() const { return sources_; }
  SiteResolver sites() const { return resolver_; }

  Stats stats() const {
    std::lock_guard lock(mutex_);
    Stats stats = stats_;
    stats.records = events_.records();
    stats.rounds = events_.rounds();
    stats.dropped_events = events_.dropped();
    stats.last_progress_ns = model_.LastProgress();
    return stats;
  }

 private:
  struct News {
    model::Verdict verdict;
    std::string json;
    uint64_t revision;
    bool job_ended;
    std::vector<std::string> rings;
    double seconds;
    bool killed_by_gordian;
    std::optional<v1::StacksRequest> stacks_wanted;
  };

  bool BearsOnVerdict(const v1::Event& event) const {
    switch (event.event_case()) {
      case v1::Event::kRound:
      case v1::Event::kProcessEnded:
      case v1::Event::kJobEnded:
      case v1::Event::kStacksDone:
      case v1::Event::kRecovery:
        return true;
      default:
        return false;
    }
  }

  void Feed(const v1::Event& event) {
    switch (event.event_case()) {
      case v1::Event::kJobEnded:
        stats_.job_ended = true;
        stats_.killed_by_gordian = event.job_ended().killed_by_gordian();
        break;
      case v1::Event::kProcessStarted:
        seen_process_ = true;
        if (const v1::ProcessStarted& started = event.process_started();
            rings_.size() < kMaxRings && started.ring().size() <= kMaxRingName) {
          rings_.emplace(started.process(), started.ring());
        }
        break;
      default:
        break;
    }
    fleet_.OnEvent(event);
    call_sites_.OnEvent(event);
    sources_.OnEvent(event);
    stacks_.OnEvent(event);
    signs_.OnEvent(event);
    events_.OnEvent(event);
    runtime_takes_part_ = model_.RuntimeTakesPart();
  }

  void TakeRecord(const model::CallRecord& record) {
    if (record.kind == model::RecordKind::kBegin) NoteSite(record.process, record.call_site);
    signs_.OnRecord(record);
  }

  // Most calls repeat a known call site, and need no look into the book.
  void NoteSite(uint32_t process, uint64_t address) {
    std::pair<uint32_t, uint64_t>& lately =
        lately_noted_[(address * 0x9e3779b97f4a7c15ull + process * 0x85ebca6bull) >> 54];
    if (lately == std::pair(process, address)) return;
    lately = {process, address};
    call_sites_.Note(process, address);
  }

  bool WantsTrace() const { return options_.write_trace && !options_.session_dir.empty(); }

  void BeginLocked(const v1::TraceHeader& header) {
    if (begun_ || finished_) return;
    begun_ = true;
    host_ = header.host();
    last_flush_ns_ = MonoNs();
    if (!WantsTrace()) return;
    if (folder_ == nullptr) return Degrade(WhyNoFile(kTraceFile));
    StatusOr<std::unique_ptr<TraceWriter>> writer =
        TraceWriter::Create(*folder_, kTraceFile, header);
    if (writer.ok()) {
      trace_ = std::move(writer).value();
    } else {
      Degrade(writer.status());
    }
  }

  // Ends the trace at the first failed write: a truncated trace is a true beginning of the job, but
  // one with a hole would show calls without begin or end.
  void TraceStep(const Status& status) {
    if (status.ok()) return;
    stats_.trace_lost_events += trace_->lost_events();
    trace_.reset();
    Degrade(status);
  }

  void FlushLocked(uint64_t now) {
    last_flush_ns_ = now;
    if (trace_ != nullptr) TraceStep(trace_->Flush());
    if (options_.on_durable) options_.on_durable();
  }

  void Degrade(const Status& why) {
    if (stats_.session_degraded) return;
    stats_.session_degraded = true;
    spdlog::warn("session: {}; the analysis continues without the file", why.message());
    AddNoteLocked("the session's files are not complete: " + why.message());
  }

  void AddNoteLocked(const std::string& what) {
    if (notes_.size() >= kMaxOwnNotes) return;
    if (std::find(notes_.begin(), notes_.end(), what) == notes_.end()) notes_.push_back(what);
  }

  model::Verdict CurrentLocked() const {
    model::Verdict verdict = WithoutStacks();
    stacks_.AddTo(model_, &verdict);
    return verdict;
  }

  model::Verdict WithoutStacks() const {
    model::Verdict verdict = model_.Current();
    if (verdict.main.check == "no-nccl-calls" && !why_nothing_seen_.empty()) {
      verdict.main.summary = "Gordian saw no NCCL call: " + why_nothing_seen_ + ".";
      verdict.main.advice.clear();
    }
    AddNotes(notes_, &verdict);
    NoteUnseen(fleet_.Texts(), &verdict);
    NameNodes(fleet_.Nodes(), host_, &verdict);
    NoteDropped(events_.dropped(), &verdict);
    signs_.AddTo(model_, &verdict);
    return verdict;
  }

  // Holds the session's folder as it is when the analysis begins, whatever its path leads to later.
  void OpenFolder() {
    folder_ = options_.folder;
    if (folder_ != nullptr || options_.session_dir.empty()) return;
    StatusOr<OwnedFolder> opened = OwnedFolder::Adopt(options_.session_dir);
    no_folder_ = opened.status();
    if (opened.ok()) folder_ = std::make_shared<const OwnedFolder>(std::move(opened).value());
  }
  Status WhyNoFile(const char* name) const {
    return Status(no_folder_.code(), "cannot write " + PathOf(name) + ": " + no_folder_.message());
  }

  std::string PathOf(const char* name) const { return options_.session_dir + "/" + name; }

  // Rounds are paced already, and a job ends once.
  std::optional<News> RefreshFor(const v1::Event& event) {
    if (!event.has_round() && !stats_.job_ended && Later()) return std::nullopt;
    return Refresh(/*always=*/stats_.job_ended);
  }

  // Whether an update has to wait for Tick.
  bool Later() {
    refresh_later_ = options_.many_nodes && MonoNs() < refresh_next_ns_;
    return refresh_later_;
  }

  std::optional<News> Refresh(bool always) {
    const uint64_t begin = MonoNs();
    std::optional<News> news = RefreshNow(always);
    refresh_later_ = false;
    const uint64_t end = MonoNs();
    refresh_next_ns_ = end + kRefreshPause * (end - begin);
    return news;
  }

  // Writes the files if the verdict has changed, or if `always`.
  std::optional<News> RefreshNow(bool always) {
    model::Verdict verdict = WithoutStacks();
    model::Verdict essence = Essence(verdict);
    const bool same = essence == essence_;
    if (!always && same && stacks_said_ == stacks_.changes()) return std::nullopt;
    std::optional<v1::StacksRequest> stacks_wanted;
    if (options_.on_stacks_wanted && !stats_.job_ended) {
      stacks_wanted = stacks_.Want(model_, verdict, resolver_);
    }
    stacks_.AddTo(model_, &verdict);
    stacks_said_ = stacks_.changes();
    FlushLocked(MonoNs());
    const bool was_degraded = stats_.session_degraded;
    ++stats_.revision;  // verdict.json must hold it before any callback
    std::string json = VerdictToText(verdict, resolver_, Stamp());
    double seconds = 0;
    if (!options_.session_dir.empty()) {
      WriteFile(kVerdictFile, json);
      if (!same && IsProblem(verdict.main.verdict) && verdict.main.stalled_at_ns > 0) {
        const uint64_t now = MonoNs();
        if (now > verdict.main.stalled_at_ns) {
          seconds = static_cast<double>(now - verdict.main.stalled_at_ns) / 1e9;
        }
      }
      WriteFile(kReportFile, ReportText(verdict, resolver_, {.session = options_.session_dir}));
    }
    if (stats_.session_degraded && !was_degraded) {  // this very verdict must say so
      verdict = CurrentLocked();
      essence = Essence(WithoutStacks());
      json = VerdictToText(verdict, resolver_, Stamp());
    }
    essence_ = std::move(essence);
    json_ = json;
    if (seconds > 0) stats_.seconds_to_verdict = seconds;
    spdlog::info("verdict {}: {} ({}), {}, {:.3f} s after the last progress", stats_.revision,
                 model::Name(verdict.main.verdict), model::Name(verdict.main.confidence),
                 verdict.main.summary, seconds);
    std::vector<std::string> rings = RingsOf(verdict);
    return News{.verdict = std::move(verdict),
                .json = std::move(json),
                .revision = stats_.revision,
                .job_ended = stats_.job_ended,
                .rings = std::move(rings),
                .seconds = seconds,
                .killed_by_gordian = stats_.killed_by_gordian,
                .stacks_wanted = std::move(stacks_wanted)};
  }

  VerdictStamp Stamp() const {
    return {.revision = stats_.revision, .written_ns = RealNs(), .closed = stats_.job_ended};
  }

  std::vector<std::string> RingsOf(const model::Verdict& verdict) const {
    std::vector<std::string> rings;
    for (const model::ProcessId process : model_.About(verdict)) {
      const auto found = rings_.find(process);
      if (found != rings_.end() && !found->second.empty()) rings.push_back(found->second);
    }
    return rings;
  }

  void WriteFile(const char* name, const std::string& contents) {
    const Status status =
        folder_ != nullptr ? folder_->ReplaceFile(name, contents) : WhyNoFile(name);
    if (!status.ok()) Degrade(status);
  }

  void Tell(const std::optional<News>& update) {
    if (!update.has_value()) return;
    if (update->stacks_wanted) options_.on_stacks_wanted(*update->stacks_wanted);
    if (!options_.on_verdict) return;
    options_.on_verdict({.verdict = update->verdict,
                         .sites = resolver_,
                         .json = update->json,
                         .revision = update->revision,
                         .job_ended = update->job_ended,
                         .rings = update->rings,
                         .seconds_to_verdict = update->seconds,
                         .killed_by_gordian = update->killed_by_gordian});
  }

  const AnalysisOptions options_;
  std::mutex feed_mutex_;     // held while feeding and notifying: updates arrive in order
  mutable std::mutex mutex_;  // guards all members below
  model::JobModel model_;
  GraphEvents events_;
  FleetNotes fleet_;
  std::map<uint32_t, std::string> rings_;  // by process
  StackBook stacks_;
  SignBook signs_;
  uint64_t stacks_said_ = 0;  // StackBook::changes
  bool refresh_later_ = false;
  uint64_t refresh_next_ns_ = 0;
  CallSites call_sites_;
  SourceBook sources_;
  std::array<std::pair<uint32_t, uint64_t>, 1024> lately_noted_ = {};
  const SiteResolver resolver_;
  std::shared_ptr<const OwnedFolder> folder_;
  Status no_folder_;  // why there is none
  std::unique_ptr<TraceWriter> trace_;
  uint64_t last_flush_ns_ = 0;
  bool begun_ = false;
  bool finished_ = false;
  bool seen_process_ = false;
  std::vector<std::string> notes_;
  std::string why_nothing_seen_;
  std::string host_;                       // as in the trace
  std::optional<model::Verdict> essence_;  // of the verdict that was passed on last
  std::string json_;
  Stats stats_;
  std::atomic<bool> runtime_takes_part_ = false;
};

Analysis::Analysis(AnalysisOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Analysis::~Analysis() = default;

void Analysis::Begin(const v1::TraceHeader& header) { impl_->Begin(header); }
void Analysis::OnEvent(const v1::Event& event) { impl_->OnEvent(event); }
void Analysis::OnBatch(const std::vector<v1::Event>& events) { impl_->OnBatch(events); }
Status Analysis::Resume(const std::function<void(const v1::Event&)>& seen) {
  return impl_->Resume(seen);
}
void Analysis::Flush() { impl_->Flush(); }
void Analysis::Update() { impl_->Update(); }
void Analysis::Tick() { impl_->Tick(); }
void Analysis::Finish() { impl_->Finish(); }
void Analysis::AddNotVisible(const std::string& what) { impl_->AddNotVisible(what); }
void Analysis::SetWhyNothingSeen(const std::string& why) { impl_->SetWhyNothingSeen(why); }
bool Analysis::AwaitsStacks() const { return impl_->AwaitsStacks(); }
bool Analysis::HasUnfinished() const { return impl_->HasUnfinished(); }
bool Analysis::WantsConfirmation() const { return impl_->WantsConfirmation(); }
bool Analysis::RuntimeTakesPart() const { return impl_->RuntimeTakesPart(); }
model::Verdict Analysis::Current() const { return impl_->Current(); }
std::string Analysis::CurrentJson(uint64_t* revision) const { return impl_->CurrentJson(revision); }
std::vector<std::string> Analysis::CurrentRings() const { return impl_->CurrentRings(); }
std::string Analysis::StatusJson(uint64_t* revision) const { return impl_->StatusJson(revision); }
CallSites& Analysis::call_sites() { return impl_->call_sites(); }
const SourceBook& Analysis::sources() const { return impl_->sources(); }
SiteResolver Analysis::sites() const { return impl_->sites(); }
Analysis::Stats Analysis::stats() const { return impl_->stats(); }

}  // namespace gordian::analyzer
