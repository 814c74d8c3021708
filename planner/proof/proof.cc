#include "planner/proof/proof.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analyzer/model/collective.h"
#include "analyzer/model/verdict/names.h"
#include "planner/proof/job_program.h"

namespace gordian::planner {
namespace {

using model::Call;
using model::ThreadId;
using model::WaitKind;
using model::WorkKind;

constexpr int kSecondLink = 1 << 20;  // the communicator of link 2, above all recorded ids
constexpr int kPeriods = 2;
constexpr int kMostWindows = 4;  // tries so many iterations from the end as the template

// One iteration of a rank: calls (first, last] by order.
struct Window {
  const JobProcess* process = nullptr;
  int member = 0;  // rank in the data-parallel communicator
  std::vector<const JobCall*> calls;
  std::map<const JobCall*, int> bucket;     // of the gradient all-reduces
  const JobCall* backward = nullptr;        // the wait after which the backward pass begins
  uint64_t link_stream = kLinkStreams + 1;  // the stream of link 1
  uint64_t gradient_stream = 0;             // of the recorded all-reduces
  std::set<uint64_t> computes;              // streams with kernels
  ThreadId thread = 0;                      // the thread that calls the all-reduces
};

// The generation to which the gradient of each iteration below `until` belongs.
std::map<int64_t, int64_t> GenerationsOf(const Plan& plan, int64_t until) {
  std::map<int64_t, int64_t> of;
  const PeriodicSchedule& schedule = plan.schedule;
  // A gradient is applied within a few periods.
  const int64_t most =
      until + static_cast<int64_t>(schedule.warm_up.size() + 3 * schedule.period.size());
  for (int64_t t = 0; t < most; ++t) {
    const PlannedIteration at = At(schedule, t);
    for (const Update& update : at.shape->updates) {
      for (int g = 0; g < update.merged; ++g) {
        of[update.first_gradient + at.iteration_offset + g] =
            update.generation + at.generation_offset;
      }
    }
  }
  return of;
}

class RankWriter {
 public:
  RankWriter(JobProgram* program, const Window& window, const Plan& plan, const JobTrace* trace,
             int size, int dp_comm, int iterations)
      : job_(*program),
        window_(window),
        plan_(plan),
        trace_(trace),
        size_(size),
        dp_comm_(dp_comm),
        out_(program, window.process->rank),
        generations_(GenerationsOf(plan, iterations)) {
    for (const auto& [stream, flags] : window.process->streams) out_.SetFlags(stream, flags);
  }

  void Iteration(int64_t t) {
    t_ = t;
    at_ = At(plan_.schedule, t);
    BeginWindow();
    for (size_t i = 0; i < window_.calls.size(); ++i) {
      const JobCall& call = *window_.calls[i];
      const auto bucket = window_.bucket.find(&call);
      if (bucket != window_.bucket.end()) {
        if (!backward_begun_) BeginBackward(call.thread);
        Gradient(call, bucket->second);
        continue;
      }
      Take(call, i);
      if (&call == window_.backward) BeginBackward(call.thread);
    }
  }

  int streams() const { return static_cast<int>(collective_streams_.size()); }

 private:
  struct Reference {
    int64_t iteration;
    int bucket;
  };
  struct Behind {
    std::vector<Moment> moments;
    std::vector<Reference> gradients;
  };

  // The plan's link, as stream and communicator.
  uint64_t StreamOf(int link) const { return link == 1 ? window_.link_stream : kLinkStreams + 2; }
  int CommOf(int link) const { return link == 1 ? dp_comm_ : kSecondLink; }

  Moment DoneOf(int64_t generation, int item) {
    const auto key = std::make_pair(generation, item);
    const auto at = done_.find(key);
    if (at != done_.end()) return at->second;
    const Moment moment = job_.Add(out_.rank(), SendText(generation, item));
    return done_[key] = moment;
  }

  std::string SendText(int64_t generation, int item) const {
    const Item& i = plan_.items[item];
    return "bucket " + std::to_string(i.bucket) +
           (i.elements == plan_.buckets[i.bucket - 1].elements
                ? std::string()
                : " from element " + std::to_string(i.first_element)) +
           " of generation " + std::to_string(generation);
  }

  // Which of its bucket's items it is, of how many: elements are not always known.
  std::string PieceText(int item) const {
    int before = 0, all = 0;
    for (int i = 0; i < static_cast<int>(plan_.items.size()); ++i) {
      if (plan_.items[i].bucket != plan_.items[item].bucket) continue;
      before += i < item ? 1 : 0;
      ++all;
    }
    return std::to_string(before) + "/" + std::to_string(all);
  }

  void SendItem(const Send& send, ThreadId thread, std::vector<Moment> after) {
    const int64_t generation = send.generation + at_.generation_offset;
    const Item& item = plan_.items[send.item];
    Meeting meeting{.comm = CommOf(send.link), .size = size_};
    // How many elements a bucket has is not always known; none is empty.
    meeting.role = {.call = Call::kAllReduce, .member = window_.member, .count = 1};
    meeting.signature.call = Call::kAllReduce;
    meeting.send = std::to_string(item.bucket) + ":" + PieceText(send.item) + ":" +
                   std::to_string(item.first_element) + ":" + std::to_string(item.elements) + ":" +
                   std::to_string(generation);
    meeting.what =
        "AllReduce of " + SendText(generation, send.item) + " on link " + std::to_string(send.link);
    collective_streams_.insert(StreamOf(send.link));
    const Moment done = out_.Operation({StreamOf(send.link)}, thread, after, {meeting});
    job_.Wait(DoneOf(generation, send.item), done);
  }

  std::vector<Moment> ComputeTails() const {
    std::vector<Moment> tails;
    for (const uint64_t stream : window_.computes) {
      if (const auto tail = out_.Tail(stream)) tails.push_back(*tail);
    }
    return tails;
  }

  // The moments at which the iterations so far have all their gradients applied.
  std::vector<Moment> Updates() {
    std::vector<Moment> all;
    if (t_ == 0) return all;
    const PlannedIteration before = At(plan_.schedule, t_ - 1);
    for (const Update& update : before.shape->updates) {
      for (size_t i = 0; i < plan_.items.size(); ++i) {
        all.push_back(DoneOf(update.generation + before.generation_offset, static_cast<int>(i)));
      }
    }
    return all;
  }

  void BeginWindow() {
    backward_begun_ = false;
    pending_.clear();
    const std::vector<Moment> updates = Updates();
    for (const uint64_t stream : window_.computes) {
      job_tails_[stream] = out_.Work(stream, 0, updates,
                                     "the optimizer's wait before iteration " + std::to_string(t_));
    }
    for (const Send& send : at_.shape->forward.sends)
      SendItem(send, window_.thread, ComputeTails());
  }

  void BeginBackward(ThreadId thread) {
    backward_begun_ = true;
    for (const Send& send : at_.shape->backward.sends) {
      if (!send.ready_in_stage) SendItem(send, thread, ComputeTails());
    }
  }

  void Gradient(const JobCall& call, int bucket) {
    std::vector<Moment> ready = std::exchange(pending_, {});
    // The link has a stream of its own, so what precedes a gradient on the recorded stream produces
    // it.
    if (window_.link_stream >= kLinkStreams) {
      if (const auto tail = out_.Tail(call.stream)) ready.push_back(*tail);
    }
    for (const Send& send : at_.shape->backward.sends) {
      if (send.ready_in_stage && plan_.items[send.item].bucket == bucket) {
        SendItem(send, call.thread, ready);
      }
    }
    references_[call.stream].push_back({t_, bucket});
  }

  // Whether, later in this iteration, a stream or thread that waits for a gradient proceeds to an
  // operation of another communicator.
  bool LeadsElsewhere(size_t from, uint64_t stream, ThreadId thread) const {
    for (size_t i = from + 1; i < window_.calls.size(); ++i) {
      const JobCall& call = *window_.calls[i];
      if (!model::IsOperation(call.call) || window_.bucket.contains(&call)) continue;
      if (call.stream == stream || (thread != 0 && call.thread == thread)) return true;
    }
    return false;
  }

  // Translates a recorded wait for `behind` to the moments of the plan.
  std::vector<Moment> Translate(const Behind& behind, size_t at, uint64_t stream, ThreadId thread) {
    std::vector<Moment> on = behind.moments;
    bool updates = false;
    for (const Reference& reference : behind.gradients) {
      if (reference.iteration < t_) {
        updates = true;
        continue;
      }
      if (!LeadsElsewhere(at, stream, thread)) continue;
      const auto generation = generations_.find(reference.iteration);
      if (generation == generations_.end()) continue;
      for (size_t i = 0; i < plan_.items.size(); ++i) {
        if (plan_.items[i].bucket == reference.bucket) {
          on.push_back(DoneOf(generation->second, static_cast<int>(i)));
        }
      }
    }
    if (updates) {
      for (const Moment moment : Updates()) on.push_back(moment);
    }
    return on;
  }

  Behind BehindStream(uint64_t stream) const {
    Behind behind;
    if (const auto job = job_tails_.find(stream); job != job_tails_.end()) {
      behind.moments.push_back(job->second);
    }
    if (const auto at = references_.find(stream); at != references_.end()) {
      for (const Reference& reference : at->second) {
        if (reference.iteration + 1 >= t_) behind.gradients.push_back(reference);
      }
    }
    return behind;
  }

  void Take(const JobCall& call, size_t at) {
    if (model::IsOperation(call.call)) return TakeOperation(call);
    if (call.call == Call::kGroupEnd) return EndGroup(call);
    if (call.call == Call::kHostWait) return TakeHostWait(call, at);
    if (call.call != Call::kStreamWork) return;
    const std::string iteration = " in iteration " + std::to_string(t_);
    switch (call.work) {
      case WorkKind::kEventRecord:
        events_[call.event] = BehindStream(call.stream);
        if (!pending_.empty() && call.stream == window_.gradient_stream) {
          auto& moments = events_[call.event].moments;
          moments.insert(moments.end(), pending_.begin(), pending_.end());
        }
        break;
      case WorkKind::kEventForgotten:
        events_.erase(call.event);
        break;
      case WorkKind::kEventWait: {
        const auto event = events_.find(call.event);
        if (event == events_.end()) break;
        const std::vector<Moment> on = Translate(event->second, at, call.stream, 0);
        if (on.empty()) break;
        if (call.stream == window_.link_stream) {
          pending_.insert(pending_.end(), on.begin(), on.end());
        } else {
          job_tails_[call.stream] =
              out_.Work(call.stream, call.thread, on, "an event wait" + iteration);
        }
        break;
      }
      case WorkKind::kKernels:
      case WorkKind::kHostFunction:
      case WorkKind::kGraphLaunch:
        job_tails_[call.stream] = out_.Work(call.stream, call.thread, {}, "work" + iteration);
        break;
      case WorkKind::kMemoryWait:  // such a job was refused before
      case WorkKind::kMemoryWrite:
      case WorkKind::kMemoryShared:
      case WorkKind::kGraphMarkers:
      case WorkKind::kGraphProgress:
      case WorkKind::kNoWork:
        break;
    }
  }

  void TakeHostWait(const JobCall& call, size_t at) {
    Behind behind;
    const auto add = [&behind](const Behind& more) {
      behind.moments.insert(behind.moments.end(), more.moments.begin(), more.moments.end());
      behind.gradients.insert(behind.gradients.end(), more.gradients.begin(), more.gradients.end());
    };
    switch (call.wait) {
      case WaitKind::kOperation:
      case WaitKind::kStore:
      case WaitKind::kNoWait:
        return;
      case WaitKind::kEvent:
        if (const auto event = events_.find(call.event); event != events_.end()) add(event->second);
        break;
      case WaitKind::kStream:
      case WaitKind::kCopy:
      case WaitKind::kAsyncCopy:
        add(BehindStream(call.stream));
        break;
      case WaitKind::kDevice:
      case WaitKind::kFree: {
        // Everything enqueued so far, including the plan's sends.
        behind.moments = out_.Tails();
        for (const auto& [stream, unused] : references_) add(BehindStream(stream));
        break;
      }
    }
    const std::vector<Moment> on = Translate(behind, at, UINT64_MAX, call.thread);
    out_.HostWait(call.thread, on,
                  std::string(model::Name(call.wait)) + " in iteration " + std::to_string(t_));
  }

  Meeting MeetingOf(const JobCall& call) {
    const JobComm& comm = trace_->comms()[call.comm];
    Meeting meeting{.comm = call.comm, .size = comm.size};
    meeting.role = {call.call, 0, call.root_or_peer, call.count};
    for (const auto& [rank, process] : comm.members) {
      if (process == window_.process->process) meeting.role.member = rank;
    }
    meeting.signature = model::SignatureOf(call);
    meeting.what = std::string(model::Name(call.call)) + " on " + NameOf(comm, call.comm) +
                   " in iteration " + std::to_string(t_);
    return meeting;
  }

  void Launch(const std::vector<const JobCall*>& calls, ThreadId thread) {
    std::map<int, std::pair<std::vector<uint64_t>, std::vector<Meeting>>> by_comm;  // W7
    for (const JobCall* call : calls) {
      auto& [streams, meetings] = by_comm[call->comm];
      if (std::find(streams.begin(), streams.end(), call->stream) == streams.end()) {
        streams.push_back(call->stream);
      }
      meetings.push_back(MeetingOf(*call));
      collective_streams_.insert(call->stream);
    }
    for (const auto& [comm, launch] : by_comm) {
      std::vector<Moment> after;
      for (const uint64_t stream : launch.first) {
        if (stream == window_.link_stream) after = std::exchange(pending_, {});
      }
      const Moment done = out_.Operation(launch.first, thread, after, launch.second);
      for (const uint64_t stream : launch.first) job_tails_[stream] = done;
    }
  }

  void TakeOperation(const JobCall& call) {
    if (call.comm < 0) return;
    if (call.group != 0) {
      groups_[{call.thread, call.group}].push_back(&call);
      return;
    }
    Launch({&call}, call.thread);
  }

  void EndGroup(const JobCall& call) {
    const auto group = groups_.find({call.thread, call.group});
    if (group == groups_.end()) return;
    Launch(group->second, call.thread);
    groups_.erase(group);
  }

  JobProgram& job_;
  const Window& window_;
  const Plan& plan_;
  const JobTrace* trace_;
  const int size_;
  const int dp_comm_;
  RankProgram out_;
  const std::map<int64_t, int64_t> generations_;
  int64_t t_ = 0;
  PlannedIteration at_;
  bool backward_begun_ = false;
  std::map<std::pair<int64_t, int>, Moment> done_;  // (generation, item)
  std::map<uint64_t, Behind> events_;
  std::map<uint64_t, Moment> job_tails_;                   // the job's own last work on a stream
  std::map<uint64_t, std::vector<Reference>> references_;  // gradients that a stream carried
  std::vector<Moment> pending_;  // waits on the link's stream for gradients not sent yet
  std::map<std::pair<ThreadId, uint32_t>, std::vector<const JobCall*>> groups_;
  std::set<uint64_t> collective_streams_;
};

Window TakeWindow(const JobProcess& process, const RankIterations& rank, size_t t, int buckets) {
  Window window{.process = &process};
  const uint64_t after = process.calls[rank.iterations[t - 1].back().call].end_order;
  const uint64_t until = process.calls[rank.iterations[t].back().call].end_order;
  for (const JobCall& call : process.calls) {
    if (call.order > after && call.order <= until) window.calls.push_back(&call);
  }
  for (size_t k = 0; k < rank.iterations[t].size(); ++k) {
    const JobCall& call = process.calls[rank.iterations[t][k].call];
    window.bucket[&call] = buckets - static_cast<int>(k);
    window.thread = call.thread;
    window.gradient_stream = call.stream;
  }
  if (rank.backward_call[t] != SIZE_MAX) window.backward = &process.calls[rank.backward_call[t]];
  for (const JobCall* call : window.calls) {
    const bool computes = call->work == WorkKind::kKernels || call->work == WorkKind::kHostFunction;
    if (call->call == Call::kStreamWork && computes) window.computes.insert(call->stream);
  }
  // If the gradients' stream also computes, link 1 gets a stream of its own.
  if (!window.computes.contains(window.gradient_stream))
    window.link_stream = window.gradient_stream;
  return window;
}

// Counts the operations of each communicator in a window, without the gradients'.
std::map<int, int> Counts(const Window& window) {
  std::map<int, int> counts;
  for (const JobCall* call : window.calls) {
    if (model::IsCollective(call->call) && !window.bucket.contains(call)) ++counts[call->comm];
  }
  return counts;
}

// Finds the last iteration in which the members of each communicator call equally many operations
// on it.
std::vector<Window> Template(const JobTrace& trace, const BucketCalls& calls, std::string* error) {
  const size_t iterations = calls.ranks.front().iterations.size();
  for (size_t back = 1; back <= kMostWindows && back + 1 <= iterations; ++back) {
    std::vector<Window> windows;
    std::map<int, std::set<int>> counts;
    std::map<int, size_t> members;
    for (const RankIterations& rank : calls.ranks) {
      const JobProcess& process = trace.processes().at(rank.process);
      windows.push_back(TakeWindow(process, rank, iterations - back, calls.buckets));
      for (const auto& [member, id] : trace.comms()[calls.comm].members) {
        if (id == rank.process) windows.back().member = member;
      }
      for (const auto& [comm, count] : Counts(windows.back())) {
        counts[comm].insert(count);
        ++members[comm];
      }
    }
    bool even = true;
    for (const auto& [comm, different] : counts) {
      even = even && different.size() == 1 &&
             (comm < 0 || members[comm] == trace.comms()[comm].members.size());
    }
    if (even) return windows;
  }
  *error =
      "the ranks' iterations do not match: on some communicator members make different numbers of "
      "operations";
  return {};
}

// More collectives in flight than a GPU can hold may block everything: if each of `ranks` lacks
// some of the `streams` it could hold, every collective may lack some rank.
bool CapacityBinds(int streams, int resident, int ranks) {
  if (resident <= 0 || streams <= resident) return false;
  return ranks * (streams - resident) >= streams;
}

void Decide(const JobProgram& program, Proof* proof) {
  const WaitDecision decision = program.Decide();
  if (decision.ends) return;
  proof->refusal = "cycle";
  proof->detail = std::to_string(decision.stuck.size()) + " moments never happen";
  // For people, start and end of one operation are one step.
  for (size_t i = 0; i < decision.cycle.size(); ++i) {
    const Moment at = decision.cycle[i];
    const Moment next = decision.cycle[(i + 1) % decision.cycle.size()];
    if (program.RankOf(at) == program.RankOf(next) && program.What(at) == program.What(next))
      continue;
    proof->cycle.push_back(
        {program.RankOf(at), program.RankOf(next), program.What(at), program.What(next)});
  }
}

}  // namespace

Proof Prove(const ProofInput& input) {
  Proof proof;
  std::vector<Window> windows;
  JobProcess alone;
  std::vector<JobProcess> processes;
  std::vector<JobCall> calls;
  const Plan& first = *input.plans.front();
  if (input.trace != nullptr) {
    for (const auto& [id, process] : input.trace->processes()) {
      if (process.graphs || process.memory_waits || process.signal_waits) {
        proof.refusal = "not-provable";
        proof.detail =
            "rank " + std::to_string(process.rank) +
            (process.graphs ? " launches CUDA graphs, whose operations the planner does not follow"
             : process.signal_waits
                 ? " waits for signals of other ranks, which the planner does not model"
                 : " has streams that wait for values in memory, whose writers the planner does "
                   "not know");
        return proof;
      }
    }
    std::string error;
    windows = Template(*input.trace, *input.calls, &error);
    if (windows.empty()) {
      proof.refusal = "not-provable";
      proof.detail = error;
      return proof;
    }
  } else {
    // Ranks that only compute on stream 1: a kernel, then each gradient.
    processes.resize(static_cast<size_t>(input.ranks));
    const size_t n = first.buckets.size();
    calls.resize(1 + 2 * n);
    calls[0] = {.thread = 1, .call = Call::kStreamWork, .work = WorkKind::kKernels, .stream = 1};
    for (size_t k = 0; k < n; ++k) {
      calls[1 + 2 * k] = {
          .thread = 1, .call = Call::kStreamWork, .work = WorkKind::kKernels, .stream = 1};
      calls[2 + 2 * k] = {.thread = 1, .call = Call::kAllReduce, .stream = 1};
    }
    for (int r = 0; r < input.ranks; ++r) {
      processes[r].rank = r;
      Window window{.process = &processes[r],
                    .member = r,
                    .gradient_stream = 1,
                    .computes = {1},
                    .thread = 1};
      for (const JobCall& call : calls) window.calls.push_back(&call);
      for (size_t k = 0; k < n; ++k) window.bucket[&calls[2 + 2 * k]] = static_cast<int>(n - k);
      windows.push_back(std::move(window));
    }
  }
  const int size = static_cast<int>(windows.size());
  size_t length = 0;
  for (const Plan* plan : input.plans) {
    length =
        std::max(length, plan->schedule.warm_up.size() + kPeriods * plan->schedule.period.size());
  }
  proof.iterations = static_cast<int>(length);
  for (const bool strict : {true, false}) {
    proof.models.push_back(strict ? "strict" : "buffered");
    JobProgram program(strict);
    for (const Window& window : windows) {
      const Plan& plan = input.plans.size() == 1 ? first : *input.plans[window.member];
      RankWriter writer(&program, window, plan, input.trace, size,
                        input.calls == nullptr ? 0 : input.calls->comm, proof.iterations);
      for (int64_t t = 0; t < proof.iterations; ++t) writer.Iteration(t);
      proof.streams = std::max(proof.streams, writer.streams());
    }
    proof.detail = program.Meet();
    proof.operations = program.operations();
    proof.waits = program.waits();
    if (!proof.detail.empty()) {
      proof.refusal = "mismatch";
      return proof;
    }
    Decide(program, &proof);
    if (!proof.refusal.empty()) return proof;
  }
  proof.models.push_back("resident collectives");
  if (CapacityBinds(proof.streams, input.resident, size)) {
    proof.refusal = "capacity";
    proof.detail = std::to_string(proof.streams) + " streams carry collectives and a GPU holds " +
                   std::to_string(input.resident) + ": " + std::to_string(size) +
                   " ranks that hold different ones wait for each other";
    return proof;
  }
  proof.accepted = true;
  return proof;
}

}  // namespace gordian::planner
