#include "analyzer/ingest/job_ingest.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "analyzer/stacks/source_book.h"
#include "common/clock.h"
#include "common/version.h"

namespace gordian::analyzer {
namespace {

constexpr size_t kMaxShownText = 200;
// How long a new stream of a collector waits until its old one has ended.
constexpr std::chrono::seconds kSupersede(10);

bool MakeUnique(uint32_t* process, uint32_t node) {
  if (*process >= kProcessesOfNode) return false;
  *process += node * kProcessesOfNode;
  return true;
}

template <typename Message>
bool Renumber(Message* message, uint32_t node) {
  uint32_t process = message->process();
  if (!MakeUnique(&process, node)) return false;
  message->set_process(process);
  return true;
}

// False: not an event that a collector may send.
bool MakeUnique(v1::Event* event, uint32_t node) {
  switch (event->event_case()) {
    case v1::Event::kProcessStarted:
      return Renumber(event->mutable_process_started(), node);
    case v1::Event::kProcessEnded:
      return Renumber(event->mutable_process_ended(), node);
    case v1::Event::kModule:
      return Renumber(event->mutable_module(), node);
    case v1::Event::kRecords:
      return Renumber(event->mutable_records(), node);
    case v1::Event::kRound:
      for (v1::ProcessState& state : *event->mutable_round()->mutable_processes()) {
        if (!Renumber(&state, node)) return false;
      }
      return true;
    case v1::Event::kRecord:
    case v1::Event::kNodeJoined:
    case v1::Event::kBatchMark:
    case v1::Event::kClockOffset:
    case v1::Event::kNodeState:
    case v1::Event::kAnalyzerStarted:
    case v1::Event::kRecovery:
      return false;
    case v1::Event::kStacksTaken:
      BoundPlaces(event->mutable_stacks_taken());  // before the trace has them
      return Renumber(event->mutable_stacks_taken(), node);
    case v1::Event::kCallName:
    case v1::Event::kStacksDone:
    case v1::Event::kJobEnded:
    case v1::Event::EVENT_NOT_SET:
      return true;
  }
  return false;
}

std::string KeyOf(uint64_t incarnation, const std::string& host, const std::string& session) {
  if (incarnation != 0) return fmt::format("{:016x}", incarnation);
  return host + '\n' + session;
}

}  // namespace

std::string Shown(const std::string& text) {
  std::string out;
  for (char c : text.substr(0, kMaxShownText)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return out;
}

bool ReadHello(IngestStream* stream, StreamGuard::Place* place, const std::string& gordian_version,
               v1::ToAnalyzer* first, std::string* why) {
  place->Hurry();
  if (!ReadMessage(stream, first, why) && why->empty()) return false;
  place->Relax();
  if (!why->empty()) return true;
  const v1::Hello& hello = first->hello();
  if (!first->has_hello()) {
    *why = "the first message must be Hello";
  } else if (hello.protocol() != kIngestProtocol) {
    *why = fmt::format(
        "this analyzer (gordian {}) speaks protocol {}, the collector on {} (gordian {}) speaks "
        "{}: use the same gordian on both sides",
        gordian_version, kIngestProtocol, Shown(hello.host()), Shown(hello.gordian_version()),
        hello.protocol());
  }
  return true;
}

grpc::Status Refuse(IngestStream* stream, const std::string& why) {
  spdlog::warn("ingest: refused: {}", why);
  v1::ToCollector refusal;
  refusal.mutable_refused()->set_why(why);
  stream->Write(refusal);
  return {grpc::StatusCode::FAILED_PRECONDITION, why};
}

struct JobIngest::Node {
  NodeStatus status;
  uint64_t durable_batch = 0;
  uint64_t backlog = 0;  // rounds wait until this batch is in
  bool in_rounds = false;
  bool away_noted = false;
  Outbox* outbox = nullptr;                // while a stream serves it
  grpc::ServerContext* context = nullptr;  // of that stream
};

JobIngest::JobIngest(Analysis* analysis, Options options)
    : analysis_(analysis), options_(std::move(options)) {}

JobIngest::~JobIngest() = default;

JobIngest::Node* JobIngest::Admit(const v1::Hello& hello, grpc::ServerContext* context,
                                  std::string* why) {
  Node* node = nullptr;
  bool is_new = false;
  v1::TraceHeader header;
  {
    std::unique_lock lock(mutex_);
    // Calls are numbered by the version that recorded them.
    if (!version_.empty() && version_ != hello.gordian_version()) {
      *why = fmt::format("the collector on {} is gordian {}, the job's others are gordian {}",
                         Shown(hello.host()), Shown(hello.gordian_version()), Shown(version_));
      return nullptr;
    }
    const std::string key = KeyOf(hello.incarnation(), hello.host(), hello.session());
    auto found = nodes_.find(key);
    if (found != nodes_.end() && found->second->status.connected) {
      const bool comes_back = hello.incarnation() != 0;
      if (comes_back && found->second->context != nullptr) found->second->context->TryCancel();
      if (!comes_back ||
          !left_.wait_for(lock, kSupersede, [&] { return !found->second->status.connected; })) {
        *why = fmt::format("a collector of session \"{}\" on {} is connected already",
                           Shown(hello.session()), Shown(hello.host()));
        return nullptr;
      }
    }
    if (found == nodes_.end()) {
      if (next_index_ >= kMaxNodes) {
        *why = fmt::format("{} nodes are the most that one analyzer takes", kMaxNodes);
        return nullptr;
      }
      is_new = true;
      auto fresh = std::make_unique<Node>();
      NodeStatus& status = fresh->status;
      status.index = next_index_++;
      status.host = Shown(hello.host());
      status.name = hello.node().empty() ? status.host : Shown(hello.node());
      status.session = Shown(hello.session());
      status.incarnation = hello.incarnation();
      status.node_rank = hello.node_rank();
      found = nodes_.emplace(key, std::move(fresh)).first;
      expected_ = std::max(expected_, std::min<uint32_t>(hello.nodes_expected(), kMaxNodes));
    }
    version_ = hello.gordian_version();
    node = found->second.get();
    node->status.connected = true;
    node->context = context;
    node->backlog = hello.backlog();
    ++changes_;
    spdlog::info("ingest: node {} is {}, session \"{}\"", node->status.index, node->status.name,
                 node->status.session);
    header.set_gordian_version(hello.gordian_version());
    header.set_command_line(hello.command_line());
    header.set_host(hello.host());
    header.set_start_mono_ns(options_.fleet ? MonoNs() : hello.now_mono_ns());
    header.set_start_real_ns(options_.fleet ? RealNs() : hello.now_real_ns());
    *header.mutable_environment() = hello.environment();
  }
  analysis_->Begin(header);
  if (options_.fleet && is_new) {
    v1::Event event;
    v1::NodeJoined* const joined = event.mutable_node_joined();
    joined->set_node(node->status.index);
    joined->set_name(node->status.name);
    joined->set_host(node->status.host);
    joined->set_incarnation(node->status.incarnation);
    joined->set_session(node->status.session);
    joined->set_gordian_version(hello.gordian_version());
    joined->set_nodes_expected(hello.nodes_expected());
    joined->set_node_rank(hello.node_rank());
    analysis_->OnEvent(event);
  }
  return node;
}

grpc::Status JobIngest::Serve(IngestStream* stream, Node* node, StreamGuard::Place* place) {
  const uint32_t index = node->status.index;
  if (options_.fleet) {
    analysis_->Flush();  // what the collector resends starts behind what is durable: nothing less
    v1::ToCollector message;
    v1::Welcome* const welcome = message.mutable_welcome();
    {
      const std::lock_guard lock(mutex_);
      welcome->set_last_batch(node->status.last_batch);
    }
    welcome->set_gordian_version(options_.gordian_version);
    welcome->set_job(options_.job);
    stream->Write(message);
  }
  Outbox outbox(stream);
  {
    const std::lock_guard lock(mutex_);
    node->outbox = &outbox;
    if (stacks_request_.request() != 0) outbox.AskForStacks(RequestOf(index));
    if (verdict_ != nullptr) outbox.Tell(verdict_);
  }
  const auto join_rounds = [&] {
    if (node->in_rounds || node->status.last_batch < node->backlog) return;
    node->in_rounds = true;
    if (std::exchange(node->away_noted, false)) {
      analysis_->OnEvent(StateOf(*node, v1::NODE_STATE_KIND_BACK));
    }
    rounds_->Join(index, [&outbox](const v1::RoundRequest& request) { outbox.Request(request); });
  };
  join_rounds();
  grpc::ByteBuffer bytes;
  std::string why;
  while (stream->Read(&bytes)) {
    v1::ToAnalyzer message;
    if (!ParseMessage(&bytes, &message, &why)) break;
    if (message.has_batch()) {
      v1::EventBatch* const batch = message.mutable_batch();
      // An answer to a round is no news: it must not keep the rounds quick.
      const bool news = std::any_of(batch->events().begin(), batch->events().end(),
                                    [](const v1::Event& event) { return !event.has_round(); });
      v1::Round answer;
      bool answers = false;
      const bool fresh = TakeBatch(batch, node, &answer, &answers);
      if (answers) rounds_->Answer(index, std::move(answer));  // waits for the other nodes'
      if (!fresh) continue;
      if (news) rounds_->Delivered(index);
      join_rounds();
      if (!options_.fleet) outbox.Acknowledge(node->status.last_batch);
    } else if (message.has_ping()) {
      outbox.Answer(message.ping(), MonoNs());
    } else if (message.has_clock() && options_.fleet) {
      TakeClock(message.clock(), node);
    }  // else of a later version, or a second Hello
  }
  place->Hurry();  // it may have said its last without reading ours
  if (std::exchange(node->in_rounds, false)) rounds_->Leave(index);
  bool ended;
  {
    const std::lock_guard lock(mutex_);
    ended = node->status.ended;
  }
  if (!ended) {
    if (options_.fleet) {
      node->away_noted = true;
      analysis_->OnEvent(StateOf(*node, v1::NODE_STATE_KIND_AWAY));
    } else {
      analysis_->AddNotVisible("the collector on " + node->status.host +
                               " went away before the job ended");
    }
    analysis_->Update();
  }
  if (options_.fleet) analysis_->Flush();  // and acknowledges
  outbox.Finish();
  const grpc::Status status = why.empty() ? grpc::Status::OK : Refuse(stream, why);
  const std::lock_guard lock(mutex_);
  node->outbox = nullptr;
  node->context = nullptr;
  node->status.connected = false;
  ++changes_;
  left_.notify_all();
  spdlog::info("ingest: node {} ({}) has left", index, node->status.name);
  return status;
}

// The analyzer in the process of its only collector takes the batch event by event.
void JobIngest::TakeAtOnce(v1::EventBatch* batch, Node* node, uint64_t missing) {
  const uint32_t index = node->status.index;
  if (missing > 0) {
    analysis_->AddNotVisible(
        fmt::format("{} batches of events from {} are missing", missing, node->status.host));
  }
  {
    const std::lock_guard lock(mutex_);
    node->status.last_batch = batch->number();
  }
  for (v1::Event& event : *batch->mutable_events()) {
    if (!MakeUnique(&event, index)) continue;
    if (event.has_round()) {
      rounds_->Answer(index, std::move(*event.mutable_round()));
    } else if (event.has_job_ended()) {
      if (!NoteEnded(event.job_ended(), node)) continue;
      *event.mutable_job_ended() = job_ended_;
      analysis_->OnEvent(event);
    } else {
      analysis_->OnEvent(event);
    }
  }
}

// False: a repetition of what a lost connection had delivered already.
bool JobIngest::TakeBatch(v1::EventBatch* batch, Node* node, v1::Round* answer, bool* answers) {
  const uint32_t index = node->status.index;
  const uint64_t number = batch->number();
  if (number <= node->status.last_batch) return false;
  const uint64_t missing = number - node->status.last_batch - 1;
  if (!options_.fleet) {
    TakeAtOnce(batch, node, missing);
    return true;
  }

  std::vector<v1::Event> together;
  together.reserve(static_cast<size_t>(batch->events_size()) + 4);
  // With the batch: a trace that was cut in between would name it twice.
  if (missing > 0) together.push_back(StateOf(*node, v1::NODE_STATE_KIND_LOST, missing));
  v1::Event ended;
  for (v1::Event& event : *batch->mutable_events()) {
    if (!MakeUnique(&event, index)) continue;
    if (event.has_round()) {
      // Elsewhere it would have to be sent before what stands behind it: as good as no answer.
      *answers = &event == &*batch->mutable_events()->rbegin();
      if (*answers) *answer = std::move(*event.mutable_round());
    } else if (event.has_job_ended()) {
      ended = std::move(event);
    } else {
      together.push_back(std::move(event));
    }
  }
  v1::Event mark;
  mark.mutable_batch_mark()->set_node(index);
  mark.mutable_batch_mark()->set_number(number);
  if (ended.has_job_ended()) {
    // One at a time: the job's end must stand behind what every node had to say.
    const std::lock_guard ends(ends_mutex_);
    ended.mutable_job_ended()->set_time_ns(ToOurClock(*node, ended.job_ended().time_ns()));
    v1::Event state = StateOf(*node, v1::NODE_STATE_KIND_ENDED);
    *state.mutable_node_state()->mutable_ended() = ended.job_ended();
    together.push_back(std::move(state));
    if (NoteEnded(ended.job_ended(), node)) {
      v1::Event all;
      *all.mutable_job_ended() = job_ended_;
      together.push_back(std::move(all));
    }
    together.push_back(std::move(mark));
    analysis_->OnBatch(together);
  } else {
    together.push_back(std::move(mark));
    analysis_->OnBatch(together);
  }
  {
    const std::lock_guard lock(mutex_);
    node->status.last_batch = number;
  }
  if (*answers) {
    answer->set_begin_ns(ToOurClock(*node, answer->begin_ns()));
    answer->set_end_ns(ToOurClock(*node, answer->end_ns()));
  }
  return true;
}

void JobIngest::TakeClock(const v1::ClockReading& reading, Node* node) {
  {
    const std::lock_guard lock(mutex_);
    node->status.has_clock = true;
    node->status.clock_offset_ns = reading.offset_ns();
    node->status.clock_bound_ns = reading.bound_ns();
    ++changes_;
  }
  v1::Event event;
  v1::ClockOffset* const clock = event.mutable_clock_offset();
  clock->set_node(node->status.index);
  clock->set_offset_ns(reading.offset_ns());
  clock->set_bound_ns(reading.bound_ns());
  clock->set_at_ns(reading.at_ns());
  analysis_->OnEvent(event);
}

v1::Event JobIngest::StateOf(const Node& node, v1::NodeStateKind kind, uint64_t missing) {
  v1::Event event;
  v1::NodeState* const state = event.mutable_node_state();
  state->set_node(node.status.index);
  state->set_kind(kind);
  state->set_time_ns(MonoNs());
  state->set_lost_batches(missing);
  return event;
}

uint64_t JobIngest::ToOurClock(const Node& node, uint64_t time_ns) const {
  const std::lock_guard lock(mutex_);
  return node.status.has_clock && time_ns != 0
             ? time_ns + static_cast<uint64_t>(node.status.clock_offset_ns)
             : time_ns;
}

// The job has ended when it has at every node; the first bad end is the job's. True: it has now.
bool JobIngest::NoteEnded(const v1::JobEnded& ended, Node* node) {
  const std::lock_guard lock(mutex_);
  const bool bad = job_ended_.kind() != v1::EXIT_KIND_CODE || job_ended_.exit_value() != 0;
  if (!any_ended_ || !bad) job_ended_ = ended;
  any_ended_ = true;
  node->status.ended = true;
  ++changes_;
  if (job_ended_sent_ || !AllEndedLocked()) return false;
  job_ended_sent_ = true;
  return true;
}

bool JobIngest::AllEndedLocked() const {
  uint32_t ended = 0;
  for (const auto& entry : nodes_) {
    const NodeStatus& status = entry.second->status;
    if (status.ended) {
      ++ended;
      continue;
    }
    if (!options_.fleet && !status.connected) continue;
    // One that never said so and whose place another has taken will not say it any more.
    const bool replaced = std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& later) {
      const NodeStatus& other = later.second->status;
      return other.name == status.name && other.index > status.index;
    });
    if (options_.fleet && !status.connected && replaced) continue;
    return false;
  }
  return ended > 0 && ended >= (options_.fleet ? expected_ : 0);
}

void JobIngest::Recall(const v1::Event& event) {
  const std::lock_guard lock(mutex_);
  const auto find = [this](uint32_t index) -> Node* {
    for (const auto& [key, node] : nodes_) {
      if (node->status.index == index) return node.get();
    }
    return nullptr;
  };
  switch (event.event_case()) {
    case v1::Event::kNodeJoined: {
      const v1::NodeJoined& joined = event.node_joined();
      auto node = std::make_unique<Node>();
      node->status = {.index = joined.node(),
                      .name = joined.name(),
                      .host = joined.host(),
                      .session = joined.session(),
                      .incarnation = joined.incarnation(),
                      .node_rank = joined.node_rank()};
      node->away_noted = true;  // until it says Hello again
      version_ = joined.gordian_version();
      expected_ = std::max(expected_, std::min<uint32_t>(joined.nodes_expected(), kMaxNodes));
      nodes_.emplace(KeyOf(joined.incarnation(), joined.host(), joined.session()), std::move(node));
      next_index_ = std::max(next_index_, std::min(joined.node(), kMaxNodes - 1) + 1);
      break;
    }
    case v1::Event::kBatchMark:
      if (Node* const node = find(event.batch_mark().node()); node != nullptr) {
        node->status.last_batch = event.batch_mark().number();
        node->durable_batch = event.batch_mark().number();
      }
      break;
    case v1::Event::kClockOffset:
      if (Node* const node = find(event.clock_offset().node()); node != nullptr) {
        node->status.has_clock = true;
        node->status.clock_offset_ns = event.clock_offset().offset_ns();
        node->status.clock_bound_ns = event.clock_offset().bound_ns();
      }
      break;
    case v1::Event::kNodeState:
      if (Node* const node = find(event.node_state().node());
          node != nullptr && event.node_state().kind() == v1::NODE_STATE_KIND_ENDED) {
        node->status.ended = true;
        const v1::JobEnded& ended = event.node_state().ended();
        const bool bad = job_ended_.kind() != v1::EXIT_KIND_CODE || job_ended_.exit_value() != 0;
        if (!any_ended_ || !bad) job_ended_ = ended;
        any_ended_ = true;
      }
      break;
    case v1::Event::kJobEnded:
      job_ended_sent_ = true;
      break;
    default:
      break;
  }
}

void JobIngest::NoteAllAway() {
  for (const auto& [key, node] : nodes_) {
    if (!node->status.ended) analysis_->OnEvent(StateOf(*node, v1::NODE_STATE_KIND_AWAY));
  }
}

void JobIngest::OnDurable() {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, node] : nodes_) {
    if (node->durable_batch == node->status.last_batch) continue;
    node->durable_batch = node->status.last_batch;
    if (node->outbox != nullptr) node->outbox->Acknowledge(node->durable_batch);
  }
}

void JobIngest::Tell(SharedVerdict verdict) {
  const std::lock_guard lock(mutex_);
  verdict_ = std::move(verdict);
  for (const auto& [key, node] : nodes_) {
    if (node->outbox != nullptr) node->outbox->Tell(verdict_);
  }
}

// The part of the request that is about a node's own processes, as it numbers them.
v1::StacksRequest JobIngest::RequestOf(uint32_t index) const {
  v1::StacksRequest request;
  request.set_request(stacks_request_.request());
  for (const uint32_t process : stacks_request_.every_thread_of()) {
    if (process / kProcessesOfNode == index) {
      request.add_every_thread_of(process % kProcessesOfNode);
    }
  }
  for (const v1::AskedSite& site : stacks_request_.sites()) {
    if (site.process() / kProcessesOfNode != index) continue;
    v1::AskedSite* const asked = request.add_sites();
    asked->set_process(site.process() % kProcessesOfNode);
    asked->set_site(site.site());
  }
  return request;
}

void JobIngest::AskForStacks(const v1::StacksRequest& request) {
  const std::lock_guard lock(mutex_);
  stacks_request_ = request;
  for (const auto& [key, node] : nodes_) {
    if (node->outbox != nullptr) node->outbox->AskForStacks(RequestOf(node->status.index));
  }
}

bool JobIngest::Knows(uint64_t incarnation) const {
  const std::lock_guard lock(mutex_);
  return nodes_.contains(KeyOf(incarnation, "", ""));
}

bool JobIngest::Over() const {
  const std::lock_guard lock(mutex_);
  return job_ended_sent_;
}

bool JobIngest::Connected() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const auto& entry) { return entry.second->status.connected; });
}

std::vector<NodeStatus> JobIngest::nodes() const {
  const std::lock_guard lock(mutex_);
  std::vector<NodeStatus> all;
  for (const auto& [key, node] : nodes_) all.push_back(node->status);
  std::sort(all.begin(), all.end(),
            [](const NodeStatus& a, const NodeStatus& b) { return a.index < b.index; });
  return all;
}

uint64_t JobIngest::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

}  // namespace gordian::analyzer
