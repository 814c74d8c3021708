// Writes a timeline for ui.perfetto.dev: a process for each rank, a track for each of its threads
// with the calls that may block, a track for each stream with its operations, the verdict, and the
// witness as slices that arrows connect. What hangs is a slice without an end.
//
// The events are written while the trace is read, with numbers in place of texts; the texts, of
// which many are known last, stand before them in the file.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analyzer/exporters/formats.h"
#include "analyzer/exporters/perfetto_packets.h"
#include "analyzer/model/collective.h"
#include "analyzer/model/verdict/names.h"
#include "analyzer/model/verdict/number_text.h"

namespace gordian::exporters {
namespace {

// Tracks that events name are numbered from 1; these lie behind them.
constexpr uint64_t kVerdictTrack = uint64_t{1} << 32;
constexpr uint64_t kRankTracks = uint64_t{2} << 32;
constexpr uint64_t kProcessTracks = uint64_t{3} << 32;  // of processes without a rank
constexpr uint64_t kWitnessTracks = uint64_t{4} << 32;  // by rank
// Behind the greatest pid of Linux: of ranks whose pid another node has as well.
constexpr int32_t kMadeUpPids = 1 << 22;

enum Category : uint64_t { kCall = 1, kOperation, kUnfinished };
enum Annotation : uint64_t { kSequence = 1, kCount, kBytes, kState, kRoot, kPeer, kSite, kDoneBy };
// kAnnotationText: a progress, then call sites.
constexpr uint64_t kSitesFrom = 8;

constexpr uint64_t Mixed(uint64_t a, uint64_t b) {  // splitmix64's last steps
  uint64_t x = a * 0x9e3779b97f4a7c15 + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
// From a call to what it put on a stream.
uint64_t FlowOf(model::ProcessId process, uint64_t order) { return Mixed(process, order) | 1; }
// The same for all parts of a collective, and for both ends of a transfer. Even, as no FlowOf is.
uint64_t InstanceOf(const LoggedOperation& operation) {
  uint64_t id = Mixed(static_cast<uint64_t>(operation.group) + 1, operation.sequence);
  if (operation.IsTransfer()) {
    const model::Ends ends = model::EndsOf({.call = operation.call,
                                            .member = operation.member,
                                            .root_or_peer = operation.root_or_peer});
    id = Mixed(Mixed(id, static_cast<uint64_t>(ends.source)),
               static_cast<uint64_t>(ends.destination));
  }
  return id & ~uint64_t{1};
}

std::string ListOf(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

class Perfetto final : public StreamedFormat {
 public:
  Perfetto(ScratchFile* rest, size_t keep) : rest_(*rest), keep_(keep) {}

  void OnRecord(const model::CallRecord& record) override;
  void OnEvent(const v1::Event& event) override;
  void OnOperation(const LoggedOperation& operation) override;
  void AtEnd(const model::JobModel& model, analyzer::CallSites* sites) override;
  StatusOr<Exported> Finish(const Job& job) override;
  Status WriteRest(const Job&, int fd) override { return rest_.CopyTo(fd); }

 private:
  struct HostCall {
    uint64_t begin_ns = 0, end_ns = 0;  // end 0: it has not returned
    uint64_t flow = 0;                  // 0: it is no operation
    uint64_t site = 0;                  // a number; 0: unknown
    uint16_t call = 0;
  };
  struct Track {
    model::ProcessId process = 0;
    bool is_thread = false;
    uint32_t number = 0;                  // of the thread or stream
    int group = -1, member = -1;          // of the first operation, by which its rank is found
    uint64_t last_ns = 0;                 // of what was written
    std::optional<HostCall> open;         // of a thread: the call that it is in
    std::deque<HostCall> calls;           // with `keep_`: its last
    std::optional<LoggedOperation> held;  // of a stream: its end depends on the one after it
  };

  uint64_t TrackOf(model::ProcessId process, bool is_thread, uint32_t number);
  Track& At(uint64_t track) { return tracks_[track - 1]; }
  uint64_t SiteOf(model::ProcessId process, uint64_t address);
  void Close(uint64_t track, uint64_t time_ns);
  void WriteCall(uint64_t track, const HostCall& call);
  void WriteOperation(uint64_t track, const LoggedOperation& operation, uint64_t next_ns);
  void Spill();
  void WriteTracks(const Job& job, PerfettoPackets* packets) const;
  void WriteVerdict(const Job& job, PerfettoPackets* packets) const;
  std::map<std::pair<InternedKind, uint64_t>, std::string> Texts(const Job& job) const;

  ScratchFile& rest_;
  const size_t keep_;
  ProtoBytes bytes_;
  PerfettoPackets out_{&bytes_};
  std::vector<Track> tracks_;
  std::map<std::tuple<model::ProcessId, bool, uint32_t>, uint64_t> track_of_;
  std::map<uint16_t, std::string> symbols_;
  std::set<uint16_t> written_calls_;
  std::map<std::pair<model::ProcessId, uint64_t>, uint64_t> sites_;
  std::map<uint64_t, std::string> site_texts_;
  std::map<std::pair<model::Call, int>, uint64_t> operation_names_;  // numbers behind the calls'
  std::map<model::ProcessId, int> rank_of_;
  std::map<model::ProcessId, uint32_t> pids_;
  uint64_t last_ns_ = 0;
};

// Numbers of calls are 16 bits wide: names of operations lie behind them.
constexpr uint64_t kCallNamesFrom = 1;
constexpr uint64_t kOperationNamesFrom = 1 << 17;

uint64_t Perfetto::TrackOf(model::ProcessId process, bool is_thread, uint32_t number) {
  const auto [at, added] = track_of_.try_emplace({process, is_thread, number}, tracks_.size() + 1);
  if (added) {
    Track track;
    track.process = process;
    track.is_thread = is_thread;
    track.number = number;
    tracks_.push_back(std::move(track));
  }
  return at->second;
}

uint64_t Perfetto::SiteOf(model::ProcessId process, uint64_t address) {
  if (address == 0) return 0;
  return sites_.try_emplace({process, address}, kSitesFrom + sites_.size()).first->second;
}

void Perfetto::Spill() {
  rest_.Append(bytes_.bytes());
  bytes_.bytes().clear();
}

void Perfetto::OnEvent(const v1::Event& event) {
  if (event.has_call_name())
    symbols_[static_cast<uint16_t>(event.call_name().call())] = event.call_name().symbol();
  if (event.has_process_started())
    pids_[event.process_started().process()] = event.process_started().pid();
  if (event.has_round()) last_ns_ = std::max<uint64_t>(last_ns_, event.round().end_ns());
}

void Perfetto::OnRecord(const model::CallRecord& record) {
  last_ns_ = std::max(last_ns_, record.time_ns);
  const bool begins = record.kind == model::RecordKind::kBegin;
  if (!begins && record.kind != model::RecordKind::kEnd) return;
  const uint64_t track = TrackOf(record.process, /*is_thread=*/true, record.thread);
  Close(track, record.time_ns);  // at a begin: the record of the last call's end was lost
  if (!begins) return;
  At(track).open =
      HostCall{.begin_ns = record.time_ns,
               .flow = model::IsOperation(record.call) ? FlowOf(record.process, record.order) : 0,
               .site = SiteOf(record.process, record.call_site),
               .call = record.call_id};
}

// The call that the thread is in has returned, as far as is known at that time.
void Perfetto::Close(uint64_t track, uint64_t time_ns) {
  std::optional<HostCall>& open = At(track).open;
  if (!open) return;
  open->end_ns = std::max(time_ns, open->begin_ns);
  if (keep_ == 0) {
    WriteCall(track, *open);
  } else {
    std::deque<HostCall>& calls = At(track).calls;
    calls.push_back(*open);
    if (calls.size() > keep_) calls.pop_front();
  }
  open.reset();
}

void Perfetto::WriteCall(uint64_t track, const HostCall& call) {
  out_.Slice(call.begin_ns, track);
  out_.Name(kCallNamesFrom + call.call);
  written_calls_.insert(call.call);
  out_.Category(call.end_ns == 0 ? kUnfinished : kCall);
  if (call.flow != 0) out_.Flow(call.flow);
  if (call.site != 0) out_.AnnotateText(kSite, call.site);
  out_.Done();
  if (call.end_ns != 0) {
    out_.End(call.end_ns, track);
    out_.Done();
  }
  Spill();
}

void Perfetto::OnOperation(const LoggedOperation& operation) {
  const uint64_t track = TrackOf(operation.process, /*is_thread=*/false, operation.stream);
  std::optional<LoggedOperation>& held = At(track).held;
  if (held) WriteOperation(track, *held, operation.called_ns);
  held = operation;
  if (At(track).group < 0) {
    At(track).group = operation.group;
    At(track).member = operation.member;
  }
}

// next_ns: when the next operation on the stream was called.
void Perfetto::WriteOperation(uint64_t track, const LoggedOperation& operation, uint64_t next_ns) {
  const bool ended =
      operation.progress == Progress::kDone || operation.progress == Progress::kAborted;
  const uint64_t known_ns = operation.done_ns != 0 ? operation.done_ns : last_ns_;
  uint64_t& from = At(track).last_ns;
  const uint64_t begin = std::max(operation.called_ns, from);
  const auto [name, added] = operation_names_.try_emplace(
      {operation.call, operation.group}, kOperationNamesFrom + operation_names_.size());
  out_.Slice(begin, track);
  out_.Name(name->second);
  out_.Category(ended ? kOperation : kUnfinished);
  const uint64_t instance = InstanceOf(operation);
  out_.Correlation(instance);
  out_.FlowEnd(FlowOf(operation.process, operation.order));
  if (operation.IsTransfer()) out_.Flow(instance);
  out_.Annotate(kSequence, operation.sequence);
  out_.Annotate(kCount, operation.count);
  out_.Annotate(kBytes, operation.count * model::DatatypeBytes(operation.datatype));
  out_.AnnotateText(kState, 1 + static_cast<uint64_t>(operation.progress));
  if (operation.root_or_peer >= 0)
    out_.AnnotateSigned(operation.IsTransfer() ? kPeer : kRoot, operation.root_or_peer);
  if (const uint64_t site = SiteOf(operation.process, operation.site_address); site != 0)
    out_.AnnotateText(kSite, site);
  if (ended) out_.Annotate(kDoneBy, known_ns);
  out_.Done();
  from = begin;
  if (ended) {
    from = std::clamp(next_ns, begin, std::max(begin, known_ns));
    out_.End(from, track);
    out_.Done();
  }
  Spill();
}

void Perfetto::AtEnd(const model::JobModel& model, analyzer::CallSites* sites) {
  for (uint64_t track = 1; track <= tracks_.size(); ++track) {
    for (const HostCall& call : At(track).calls) WriteCall(track, call);
    if (At(track).open) WriteCall(track, *At(track).open);
    if (At(track).held) WriteOperation(track, *At(track).held, UINT64_MAX);
  }
  for (const auto& [site, number] : sites_) {
    site_texts_[number] = analyzer::ShortForm(sites->Resolve(site.first, site.second), site.second);
  }
  rank_of_ = model.Ranks();
}

std::map<std::pair<InternedKind, uint64_t>, std::string> Perfetto::Texts(const Job& job) const {
  using enum InternedKind;
  std::map<std::pair<InternedKind, uint64_t>, std::string> texts = {
      {{kCategory, kCall}, "call"},
      {{kCategory, kOperation}, "operation"},
      {{kCategory, kUnfinished}, "unfinished"},
      {{kAnnotationName, kSequence}, "sequence"},
      {{kAnnotationName, kCount}, "count"},
      {{kAnnotationName, kBytes}, "bytes"},
      {{kAnnotationName, kState}, "state"},
      {{kAnnotationName, kRoot}, "root"},
      {{kAnnotationName, kPeer}, "peer"},
      {{kAnnotationName, kSite}, "site"},
      {{kAnnotationName, kDoneBy}, "done_by"},
  };
  for (const Progress progress :
       {Progress::kCalled, Progress::kStarted, Progress::kDone, Progress::kAborted}) {
    texts[{kAnnotationText, 1 + static_cast<uint64_t>(progress)}] = exporters::Name(progress);
  }
  for (const auto& [number, text] : site_texts_) texts[{kAnnotationText, number}] = text;
  for (const uint16_t call : written_calls_) {
    const auto symbol = symbols_.find(call);
    texts[{kName, kCallNamesFrom + call}] = symbol == symbols_.end() ? "a call" : symbol->second;
  }
  for (const auto& [what, number] : operation_names_) {
    texts[{kName, number}] = std::string(model::Name(what.first)) + " on " +
                             job.log.groups()[static_cast<size_t>(what.second)].name;
  }
  return texts;
}

void Perfetto::WriteTracks(const Job& job, PerfettoPackets* packets) const {
  std::map<uint32_t, int> with_pid;
  for (const auto& [rank, logged] : job.log.ranks()) ++with_pid[logged.pid];
  for (const auto& [rank, logged] : job.log.ranks()) {
    const bool unique = logged.pid != 0 && with_pid[logged.pid] == 1;
    packets->Track(kRankTracks + static_cast<uint64_t>(rank), 0, "rank " + std::to_string(rank),
                   unique ? static_cast<int32_t>(logged.pid) : kMadeUpPids + rank);
  }
  std::set<model::ProcessId> others;
  for (size_t i = 0; i < tracks_.size(); ++i) {
    const Track& track = tracks_[i];
    int rank = -1;
    if (track.group >= 0) {
      rank = job.log.groups()[static_cast<size_t>(track.group)]
                 .ranks[static_cast<size_t>(track.member)];
    } else if (const auto known = rank_of_.find(track.process); known != rank_of_.end()) {
      rank = known->second;
    }
    uint64_t parent = kRankTracks + static_cast<uint64_t>(rank);
    if (rank < 0 || job.log.ranks().count(rank) == 0) {
      parent = kProcessTracks + track.process;
      const auto pid = pids_.find(track.process);
      if (others.insert(track.process).second) {
        packets->Track(parent, 0,
                       "process " + std::to_string(pid == pids_.end() ? 0 : pid->second));
      }
    }
    const std::string number = std::to_string(track.number);
    packets->Track(i + 1, parent,
                   track.is_thread     ? "thread " + number
                   : track.number == 0 ? "operations of no stream"
                                       : "stream " + number);
  }
}

void Perfetto::WriteVerdict(const Job& job, PerfettoPackets* packets) const {
  packets->Track(kVerdictTrack, 0, "verdict of gordian");
  std::vector<const model::Finding*> findings = {&job.result.verdict.main};
  for (const model::Finding& finding : job.result.verdict.findings) findings.push_back(&finding);
  for (const model::Finding* finding : findings) {
    const uint64_t when =
        finding->stalled_at_ns == 0 ? last_ns_ : std::min(finding->stalled_at_ns, last_ns_);
    packets->Instant(when, kVerdictTrack);
    packets->Name(std::string(model::Name(finding->verdict)) +
                  (finding->check.empty() ? "" : ": " + finding->check));
    packets->Category("verdict");
    packets->Annotate("summary", finding->summary);
    packets->Annotate("confidence", model::Name(finding->confidence));
    if (!finding->advice.empty()) packets->Annotate("advice", finding->advice);
    if (!finding->culprit_ranks.empty())
      packets->Annotate("culprit_ranks", ListOf(finding->culprit_ranks));
    if (!finding->victim_ranks.empty())
      packets->Annotate("victim_ranks", ListOf(finding->victim_ranks));
    packets->Done();
  }
  const model::Finding& main = job.result.verdict.main;
  const std::vector<model::WaitEdge>& cycle = main.cycle;
  const uint64_t when = main.stalled_at_ns == 0 ? last_ns_ : std::min(main.stalled_at_ns, last_ns_);
  std::set<int> drawn;
  for (const model::WaitEdge& edge : cycle) {
    if (!drawn.insert(edge.rank).second) continue;
    packets->Track(kWitnessTracks + static_cast<uint64_t>(edge.rank),
                   kRankTracks + static_cast<uint64_t>(edge.rank), "waits");
  }
  // An arrow goes from the earlier event to the later one: so those that are waited for are marked
  // a nanosecond behind the waits.
  const auto flow = [](size_t edge) { return Mixed(edge, ~uint64_t{0}); };
  for (size_t i = 0; i < cycle.size(); ++i) {
    const model::WaitEdge& edge = cycle[i];
    packets->Slice(when, kWitnessTracks + static_cast<uint64_t>(edge.rank));
    packets->Name(
        "waits for rank " + std::to_string(edge.waits_for_rank) + " in " + edge.op +
        (edge.sequence < 0 ? "" : " " + model::NumberText(static_cast<uint64_t>(edge.sequence))) +
        (edge.comm_name.empty() ? "" : " on " + edge.comm_name));
    packets->Category("witness");
    packets->Flow(flow(i));
    packets->Annotate("waits_for_rank", edge.waits_for_rank);
    packets->Annotate("why", model::Name(edge.reason));
    packets->Annotate("detail", edge.detail);
    if (const std::string site = job.result.sites()(edge.site); !site.empty())
      packets->Annotate("site", site);
    packets->Done();
  }
  for (size_t i = 0; i < cycle.size(); ++i) {
    const model::WaitEdge& next = cycle[(i + 1) % cycle.size()];
    packets->Instant(when + 1, kWitnessTracks + static_cast<uint64_t>(next.rank));
    packets->Name("rank " + std::to_string(cycle[i].rank) + " waits for this");
    packets->Category("witness");
    packets->FlowEnd(flow(i));
    packets->Done();
  }
}

StatusOr<Exported> Perfetto::Finish(const Job& job) {
  ProtoBytes head;
  PerfettoPackets packets(&head);
  if (job.result.header.start_mono_ns() != 0)
    packets.Clock(job.result.header.start_mono_ns(), job.result.header.start_real_ns());
  packets.Texts(Texts(job));
  WriteTracks(job, &packets);
  WriteVerdict(job, &packets);
  Exported exported;
  exported.files.emplace_back("", std::move(head.bytes()));
  exported.notes.push_back(
      "on a stream a slice ends where the next operation was called, at the latest when a round "
      "found it done (done_by): rounds come every 100 ms");
  return exported;
}

}  // namespace

std::unique_ptr<StreamedFormat> StreamPerfetto(ScratchFile* rest, size_t keep) {
  return std::make_unique<Perfetto>(rest, keep);
}

}  // namespace gordian::exporters
