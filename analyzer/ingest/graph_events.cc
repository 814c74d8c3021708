#include "analyzer/ingest/graph_events.h"

#include <algorithm>
#include <utility>

#include "analyzer/ingest/graph_state_block.h"
#include "analyzer/ingest/sane.h"
#include "analyzer/stacks/call_symbols.h"
#include "common/record_block.h"
#include "common/utf8.h"
#include "proto/ring/calls.h"

namespace gordian::analyzer {
namespace {

using model::Call;

// As sane.h.
constexpr uint32_t kMaxCallNumber = UINT16_MAX;
constexpr size_t kMaxProcesses = 65'536;
constexpr uint32_t kMaxClockNodes = UINT32_MAX / kProcessesOfNode + 1;
constexpr int kMaxThreadStates = 65'536;
constexpr int kMaxStreamStates = 16'384;
constexpr int kMaxCommStates = 65'536;
constexpr int kMaxNotVisible = 256;
constexpr size_t kMaxEarly = 4096;  // operations of a process
constexpr size_t kMaxText = 512;

std::string Cut(const std::string& text) {
  if (text.size() <= kMaxText) return text;
  return text.substr(0, kMaxText);
}

model::ExitKind TranslateExit(v1::ExitKind kind) {
  switch (kind) {
    case v1::EXIT_KIND_CODE:
      return model::ExitKind::kCode;
    case v1::EXIT_KIND_SIGNAL:
      return model::ExitKind::kSignal;
    case v1::EXIT_KIND_GORDIAN:
      return model::ExitKind::kGordian;
    default:
      return model::ExitKind::kUnknown;
  }
}

model::OsState TranslateOsState(v1::OsState state) {
  switch (state) {
    case v1::OS_STATE_RUNNING:
      return model::OsState::kRunning;
    case v1::OS_STATE_SLEEPING:
      return model::OsState::kSleeping;
    case v1::OS_STATE_DISK:
      return model::OsState::kDisk;
    case v1::OS_STATE_STOPPED:
      return model::OsState::kStopped;
    case v1::OS_STATE_GONE:
      return model::OsState::kGone;
    default:
      return model::OsState::kUnknown;
  }
}

model::ThreadSleep TranslateSleep(v1::ThreadSleep sleep) {
  switch (sleep) {
    case v1::THREAD_SLEEP_OUTSIDE:
      return model::ThreadSleep::kOutside;
    case v1::THREAD_SLEEP_THREAD:
      return model::ThreadSleep::kThread;
    case v1::THREAD_SLEEP_OPERATION:
      return model::ThreadSleep::kOperation;
    case v1::THREAD_SLEEP_WATCH:
      return model::ThreadSleep::kWatch;
    default:
      return model::ThreadSleep::kUnknown;
  }
}

Call MeaningOf(ring::GraphCall what) {
  switch (what) {
    case ring::GraphCall::kEndCapture:
      return Call::kGraphEndCapture;
    case ring::GraphCall::kDestroy:
      return Call::kGraphDestroy;
    case ring::GraphCall::kClone:
      return Call::kGraphClone;
    case ring::GraphCall::kNest:
      return Call::kGraphNest;
    case ring::GraphCall::kInstantiate:
      return Call::kGraphInstantiate;
    case ring::GraphCall::kExecDestroy:
      return Call::kGraphExecDestroy;
  }
  return Call::kOther;
}

bool IsKind(ring::WorkKind kind) {
  return (kind >= ring::WorkKind::kKernels && kind <= ring::WorkKind::kMemoryShared) ||
         kind == ring::WorkKind::kGraphMarkers || kind == ring::WorkKind::kGraphProgress;
}

bool IsKind(ring::WaitKind kind) {
  return kind >= ring::WaitKind::kStream && kind <= ring::WaitKind::kStore;
}

// Hands over a payload of a record that makes sense, values of no member or device as -1; false:
// it makes none. What a kEnd, kEnqueue or kText carries follows from its kind alone; `holds` says
// what the others do.
bool TakePayload(const ring::Record& record, ring::PayloadKind holds, model::CallRecord* out) {
  const auto& from = record.payload;
  switch (record.kind) {
    case ring::RecordKind::kEnd: {
      ring::EndPayload& end = out->payload.emplace<ring::EndPayload>(from.end);
      end.nranks = SaneSize(end.nranks);
      end.rank = SaneRank(end.rank);
      end.device = SaneDevice(end.device);
      return IsSane(end.ordinal);
    }
    case ring::RecordKind::kEnqueue:
      out->payload = from.enqueue;
      return IsSane(from.enqueue.ordinal);
    case ring::RecordKind::kText: {
      const std::string text = Printable(TextOf(from.text.text, sizeof from.text.text));
      ring::TextPayload& to = out->Make<ring::TextPayload>();
      to.comm = from.text.comm;
      text.copy(to.text, sizeof to.text);
      return true;
    }
    case ring::RecordKind::kLongText:  // for texts_, not for the model
      return true;
    case ring::RecordKind::kBegin:
    case ring::RecordKind::kPoint:
      break;
    default:
      return false;
  }
  switch (holds) {
    case ring::PayloadKind::kNone:
      return true;  // a call with nothing to tell
    case ring::PayloadKind::kOperation: {
      auto& operation = out->payload.emplace<ring::OperationPayload>(from.operation);
      operation.root_or_peer = SaneRank(operation.root_or_peer);
      return IsSane(operation.sequence);
    }
    case ring::PayloadKind::kSignal: {
      auto& signal = out->payload.emplace<ring::SignalPayload>(from.signal);
      signal.peer = SaneRank(signal.peer);
      return true;
    }
    case ring::PayloadKind::kCommInit: {
      auto& init = out->payload.emplace<ring::CommInitPayload>(from.comm_init);
      init.nranks = SaneSize(init.nranks);
      init.rank = SaneMember(init.rank, init.nranks);
      init.device = SaneDevice(init.device);
      return true;
    }
    case ring::PayloadKind::kPiece:
      return false;  // kLongText alone
    case ring::PayloadKind::kCommCall:
      out->payload = from.comm_call;
      return true;
    case ring::PayloadKind::kGroup:
      out->payload = from.group;
      return true;
    case ring::PayloadKind::kStreamCreate:
    case ring::PayloadKind::kStreamDestroy: {
      auto& stream = out->payload.emplace<ring::StreamPayload>(from.stream);
      stream.device = SaneDevice(stream.device);
      return true;
    }
    case ring::PayloadKind::kStreamWork:
      out->payload = from.work;
      return IsSane(from.work.ordinal) && IsKind(from.work.kind);
    case ring::PayloadKind::kGraph:
      out->payload = from.graph;
      out->call = MeaningOf(from.graph.what);
      return out->call != Call::kOther;
    case ring::PayloadKind::kHostWait: {
      auto& wait = out->payload.emplace<ring::HostWaitPayload>(from.host_wait);
      wait.device = SaneDevice(wait.device);
      return IsSane(wait.ordinal) && IsKind(wait.kind);
    }
  }
  return true;
}

}  // namespace

const std::string& GraphEvents::Symbol(uint32_t call) const {
  static const std::string kNone;
  return call < calls_.size() ? calls_[call].symbol : kNone;
}

model::Call GraphEvents::Meaning(uint32_t call) const {
  return call < calls_.size() ? calls_[call].call : Call::kOther;
}

bool GraphEvents::OnEvent(const v1::Event& event) {
  bool understood = false;
  switch (event.event_case()) {
    case v1::Event::kProcessStarted:
      understood = OnProcessStarted(event.process_started());
      break;
    case v1::Event::kProcessEnded:
      understood = OnProcessEnded(event.process_ended());
      break;
    case v1::Event::kModule:
      understood = true;  // for call sites, not for the model
      break;
    case v1::Event::kCallName:
      understood = OnCallName(event.call_name());
      break;
    case v1::Event::kRecords:
      return TakeBlock(event.records());
    case v1::Event::kRound:
      understood = TakeRound(event.round());
      break;
    case v1::Event::kJobEnded:
      if (!job_ended_) {
        job_ended_ = true;
        understood = true;
        const v1::JobEnded& ended = event.job_ended();
        model_->OnJobEnded(TranslateExit(ended.kind()), ended.exit_value(), ended.time_ns(),
                           ended.killed_by_gordian());
      }
      break;
    case v1::Event::kRecovery:
      understood = OnRecovery(event.recovery());
      break;
    case v1::Event::kClockOffset:
      understood = OnClockOffset(event.clock_offset());
      break;
    case v1::Event::kNodeState:
      OnNodeState(event.node_state());
      understood = true;
      break;
    case v1::Event::kNodeJoined:  // for people and for who reads the trace again (FleetNotes)
    case v1::Event::kBatchMark:
    case v1::Event::kAnalyzerStarted:
    case v1::Event::kStacksTaken:  // of people's interest alone (StackBook)
    case v1::Event::kStacksDone:
      understood = true;
      break;
    case v1::Event::kRecord:  // TraceReader makes blocks of them; no collector sends them
    case v1::Event::EVENT_NOT_SET:
      break;
  }
  return Counted(understood);
}

bool GraphEvents::OnClockOffset(const v1::ClockOffset& clock) {
  if (clock.node() >= kMaxClockNodes) return false;
  clocks_[clock.node()] = clock.offset_ns();
  return true;
}

bool GraphEvents::OnRecovery(const v1::Recovery& recovery) {
  using Step = model::RecoveryNews::Step;
  model::RecoveryNews news;
  switch (recovery.step()) {
    case v1::RECOVERY_STEP_BEGUN:
      news.step = Step::kBegun;
      break;
    case v1::RECOVERY_STEP_REFUSED:
      news.step = Step::kRefused;
      break;
    case v1::RECOVERY_STEP_FAILED:
      news.step = Step::kFailed;
      break;
    case v1::RECOVERY_STEP_DONE:
      news.step = Step::kDone;
      break;
    default:
      return false;
  }
  const auto refused = model::RecoveryConditionByName(recovery.refused());
  if (!refused) return false;
  news.operations.assign(recovery.operations().begin(), recovery.operations().end());
  news.refused = *refused;
  news.why = Cut(recovery.why());
  news.rank = recovery.rank();
  news.site = {recovery.process(), recovery.site()};
  news.ms = recovery.ms();
  model_->OnRecovery(news);
  return true;
}

void GraphEvents::OnNodeState(const v1::NodeState& state) {
  if (state.kind() != v1::NODE_STATE_KIND_LOST) return;
  for (const auto& [process, alive] : processes_) {
    if (alive && process / kProcessesOfNode == state.node()) model_->OnRecordsMissing(process);
  }
}

uint64_t GraphEvents::OurTime(uint32_t process, uint64_t time_ns) const {
  if (time_ns == 0 || clocks_.empty()) return time_ns;
  const auto found = clocks_.find(process / kProcessesOfNode);
  if (found == clocks_.end()) return time_ns;
  const uint64_t ours = time_ns + static_cast<uint64_t>(found->second);
  // Before our clock began: a machine that runs for longer than ours.
  if (found->second < 0 && ours > time_ns) return 1;
  return ours;
}

bool GraphEvents::OnCallName(const v1::CallName& name) {
  if (name.call() > kMaxCallNumber) return false;
  if (name.call() >= calls_.size()) calls_.resize(name.call() + 1);
  NamedCall& named = calls_[name.call()];
  named.symbol = Cut(name.symbol());
  named.call = CallFromSymbol(named.symbol);
  named.payload = PayloadFromSymbol(named.symbol);
  return true;
}

bool GraphEvents::OnProcessStarted(const v1::ProcessStarted& started) {
  if (processes_.size() >= kMaxProcesses) return false;
  if (!processes_.emplace(started.process(), true).second) return false;  // ids are never reused
  model::ProcessInfo info;
  info.process = started.process();
  info.pid = started.pid();
  info.executable = Cut(started.executable());
  info.env_rank = SaneRank(started.env_rank());
  info.env_world_size = SaneSize(started.env_world_size()) == 0 ? -1 : started.env_world_size();
  info.markers_enabled = started.markers_enabled();
  info.runtime_connect = started.runtime_connect();
  model_->OnProcessStarted(info);
  if (tell_process_) tell_process_(info);
  return true;
}

bool GraphEvents::OnProcessEnded(const v1::ProcessEnded& ended) {
  auto found = processes_.find(ended.process());
  if (found == processes_.end() || !found->second) return false;
  found->second = false;
  if (ended.has_block()) {
    model_->OnFinalBlock(ended.process(), TranslateBlock(ended.block(), [this](uint32_t call) {
                           return Meaning(call);
                         }));
  }
  std::vector<std::string> not_visible;
  for (int i = 0; i < std::min(ended.not_visible_size(), kMaxNotVisible); ++i) {
    not_visible.push_back(Cut(ended.not_visible(i)));
  }
  model_->OnFinalNotVisible(ended.process(), std::move(not_visible));
  if (std::max(ended.lost_records(), ended.nccl_calls()) <= kMaxCount) {
    model_->OnFinalCounts(ended.process(), ended.lost_records(), ended.nccl_calls());
  } else {
    model_->OnRecordsMissing(ended.process());
  }
  model_->OnProcessEnded(ended.process(), TranslateExit(ended.kind()), ended.exit_value(),
                         OurTime(ended.process(), ended.time_ns()));
  return true;
}

bool GraphEvents::TakeBlock(const v1::RecordBlock& block) {
  const size_t count = RecordsIn(block);
  if (count == 0 || !processes_.contains(block.process())) return Counted(false);
  const uint64_t dropped = dropped_;
  for (size_t i = 0; i < count; ++i) Counted(TakeRecord(block.process(), RecordAt(block, i)));
  return dropped_ == dropped;
}

bool GraphEvents::TakeRecord(uint32_t process, const ring::Record& record) {
  if (record.thread == 0 || !IsSane(record.order) ||
      (record.call == ring::kCallNone && record.kind != ring::RecordKind::kText)) {
    return false;
  }
  model::CallRecord out;
  out.kind = record.kind;
  out.process = process;
  out.thread = record.thread;
  out.flags = record.flags;
  out.call_id = record.call;
  out.order = record.order;
  out.time_ns = OurTime(process, record.ticks);
  out.call_site = record.call_site;
  out.call = Meaning(record.call);
  const ring::PayloadKind holds =
      record.call < calls_.size() ? calls_[record.call].payload : ring::PayloadKind::kNone;
  if (!TakePayload(record, holds, &out)) return false;
  if (record.kind == ring::RecordKind::kLongText) {
    if (holds != ring::PayloadKind::kPiece) return false;
    TakePiece(process, record);
  }
  if (Symbol(record.call).empty()) ++unnamed_;
  ++records_;
  model_->OnRecord(out);
  if (tell_record_) tell_record_(out);
  return true;
}

void GraphEvents::TakePiece(uint32_t process, const ring::Record& record) {
  constexpr size_t kMaxPending = 4096;
  const uint32_t number = record.flags & ~uint32_t{ring::kLastPiece};
  const auto key = std::pair(process, record.thread);
  if (number == 0 && pieces_.size() >= kMaxPending && !pieces_.contains(key)) return;
  Pieces& pieces = pieces_[key];
  if (number == 0) pieces = {record.call_site, 0, ""};
  if (number != pieces.next || record.call_site != pieces.subject) {
    pieces_.erase(key);  // one before it was lost
    return;
  }
  ++pieces.next;
  pieces.text += TextOf(record.payload.piece.text, sizeof record.payload.piece.text);
  if ((record.flags & ring::kLastPiece) == 0) return;
  const std::string text = CleanUtf8(pieces.text);
  const uint64_t subject = pieces.subject;
  pieces_.erase(key);
  const std::string& kind = Symbol(record.call);
  if (kind == "torch_group") {
    model_->OnCommName(process, static_cast<uint32_t>(subject), Printable(text));
  } else if (kind == "torch_key") {
    model_->OnKeyName(subject, Printable(text));
  } else if (kind == "torch_exception") {
    model_->OnException(process, text, OurTime(process, record.ticks));
  } else if (kind == "torch_site" && tell_site_) {
    tell_site_(process, subject, text);
  }
}

bool GraphEvents::TranslateProcessState(const v1::ProcessState& state,
                                        model::ProcessState* out) const {
  if (state.threads_size() > kMaxThreadStates || state.streams_size() > kMaxStreamStates ||
      state.comms_size() > kMaxCommStates) {
    return false;
  }
  for (const uint64_t count : {state.lost_records(), state.lost_streams(), state.lost_comms(),
                               state.lost_markers(), state.nccl_calls()}) {
    if (count > kMaxCount) return false;
  }
  out->process = state.process();
  out->alive = state.alive();
  out->stopped = state.stopped();
  out->answered = state.answered();
  out->lost_records = state.lost_records();
  out->lost_streams = state.lost_streams();
  out->lost_comms = state.lost_comms();
  out->lost_markers = state.lost_markers();
  out->nccl_calls = state.nccl_calls();
  out->timer_signals = state.timer_signals();
  out->threads.reserve(static_cast<size_t>(state.threads_size()));
  for (const auto& from : state.threads()) {
    model::ThreadState& to = out->threads.emplace_back();
    to.thread = from.thread();
    to.tid = from.tid();
    to.call_id = static_cast<uint16_t>(std::min(from.call(), kMaxCallNumber));
    to.call = from.call() == 0 ? Call::kOther : Meaning(from.call());
    to.call_order = from.call_order();
    to.since_ns = OurTime(state.process(), from.since_ns());
    to.entered = from.entered();
    to.left = from.left();
    to.published = from.published();
    to.collected = from.collected();
    to.gpu_thread = from.gpu_thread();
    to.poll_object = from.poll_object();
    to.poll_count = from.poll_count();
    to.poll_since_ns = OurTime(state.process(), from.poll_since_ns());
    to.os_state = TranslateOsState(from.os_state());
    to.sleep = TranslateSleep(from.sleep());
    to.cpu_ticks = from.cpu_ticks();
    to.context_switches = from.context_switches();
    to.library_thread = from.library_thread();
    to.name = Cut(from.name());
    if (from.has_detail()) {
      to.detail = TranslateDetail(from.detail());
      to.call_site = from.call_site();
    }
  }
  if (state.has_block()) {
    out->block = TranslateBlock(state.block(), [this](uint32_t call) { return Meaning(call); });
  }
  out->streams.reserve(static_cast<size_t>(state.streams_size()));
  for (const auto& from : state.streams()) {
    if (!IsSane(from.enqueued()) || !IsSane(from.head()) || !IsSane(from.done())) return false;
    out->streams.push_back({.stream = from.stream(),
                            .enqueued = from.enqueued(),
                            .head = from.head(),
                            .done = from.done()});
  }
  out->comms.reserve(static_cast<size_t>(state.comms_size()));
  for (const auto& from : state.comms()) {
    out->comms.push_back({.comm = from.comm(),
                          .state = SaneCommState(from.state()),
                          .next_sequence = from.next_sequence()});
  }
  for (const auto& from : state.early()) {
    const auto kind = static_cast<ring::NumberKind>(from.kind());
    if (kind < ring::NumberKind::kCollective || kind > ring::NumberKind::kReceive ||
        out->early.size() == kMaxEarly) {
      out->early_unknown = true;
      continue;
    }
    out->early.push_back({.comm = from.comm(),
                          .transfer = kind != ring::NumberKind::kCollective,
                          .sends = kind == ring::NumberKind::kSend,
                          .peer = SaneRank(from.peer()),
                          .sequence = from.sequence()});
  }
  out->early_unknown = out->early_unknown || state.early_unknown();
  out->early_behind_operations = state.early_behind_operations();
  const int not_visible = std::min(state.not_visible_size(), kMaxNotVisible);
  for (int i = 0; i < not_visible; ++i) out->not_visible.push_back(Cut(state.not_visible(i)));
  return true;
}

bool GraphEvents::TakeRound(const v1::Round& round) {
  // Rounds prove something only in order.
  if (round.round() <= last_round_ || round.end_ns() < round.begin_ns() ||
      static_cast<size_t>(round.processes_size()) > kMaxProcesses) {
    return false;
  }
  model::Round out;
  out.round = round.round();
  out.begin_ns = round.begin_ns();
  out.end_ns = round.end_ns();
  out.processes.reserve(static_cast<size_t>(round.processes_size()));
  for (const auto& state : round.processes()) {
    if (!processes_.contains(state.process())) {
      ++dropped_;
      continue;
    }
    model::ProcessState& to = out.processes.emplace_back();
    // A state that makes no sense is the same as none: the model takes the process as unseen.
    if (!TranslateProcessState(state, &to)) {
      ++dropped_;
      out.processes.pop_back();
      model_->OnRecordsMissing(state.process());
    }
  }
  last_round_ = round.round();
  ++rounds_;
  if (tell_round_) tell_round_(out);
  model_->OnRound(std::move(out));
  return true;
}

}  // namespace gordian::analyzer
