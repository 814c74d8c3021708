// CUDA graphs (W12): operations that were captured take their numbers and their place on the stream
// when the graph is launched, each time anew.
//
// Held to be in order within one launch: what was captured from one stream, and what is on one
// communicator (W8). Edges between captured streams are not followed, so that a graph may be taken
// to do more than it can, and never less: a deadlock that is confirmed does not rest on them.
#include <algorithm>
#include <utility>

#include "analyzer/model/facts/execution_graph.h"

namespace gordian::model {
namespace {

// Captures, graphs and executable graphs held of one process; a program that makes more without
// destroying any loses the oldest, whose operations are then not followed.
constexpr size_t kMaxHeldGraphs = 1 << 16;

}  // namespace

void ExecutionGraph::ApplyCaptured(Process& process, Thread& thread, const CallRecord& record,
                                   const LocalComm& local, Part part) {
  const auto& operation = record.As<ring::OperationPayload>();
  const uint64_t capture = CaptureOf(record);
  if (capture == 0) {  // in which graph it went is not known
    return LoseSight(process, local.id);
  }
  if (process.captures.size() >= kMaxHeldGraphs && process.captures.count(capture) == 0) {
    LoseSight(process, process.captures.begin()->second);
    process.captures.erase(process.captures.begin());
  }
  CapturedGraph& graph = process.captures[capture];
  const bool in_group = (record.flags & kInGroup) != 0;
  if (in_group) {
    InGroup(process, thread, operation.group);
  } else {
    InNoGroup(process, thread);
  }
  const bool waits = (record.flags & kNonBlockingComm) == 0;
  thread.capturing.push_back({operation.comm, in_group, waits, part});
  CapturedLaunch* launch = nullptr;
  if (in_group) {  // W7
    for (CapturedLaunch& other : graph.launches) {
      if (other.thread == thread.id && other.group == operation.group && other.in_group &&
          other.comm == operation.comm) {
        launch = &other;
      }
    }
  }
  if (launch == nullptr) {
    launch = &graph.launches.emplace_back();
    launch->comm = operation.comm;
    launch->thread = thread.id;
    launch->in_group = in_group;
    launch->group = operation.group;
  }
  if (std::find(launch->streams.begin(), launch->streams.end(), operation.stream) ==
      launch->streams.end()) {
    launch->streams.push_back(operation.stream);
  }
  launch->parts.push_back(std::move(part));
  thread.capture = capture;
}

void ExecutionGraph::EndCaptured(Process& process, Thread& thread, const CallRecord& record) {
  const bool accepted = Took(record.As<ring::EndPayload>().result);
  if (!thread.capturing.empty()) {
    Capturing& last = thread.capturing.back();
    NoteElsewhere(record, &last.part);
    if (!last.in_group && accepted) NoteUsed(process, last.comm, last.part);
    if (!last.in_group || !accepted) thread.capturing.pop_back();
  }
  auto graph = process.captures.find(std::exchange(thread.capture, 0));
  if (graph == process.captures.end() || accepted) return;
  auto& launches = graph->second.launches;
  for (auto launch = launches.rbegin(); launch != launches.rend(); ++launch) {
    if (launch->thread != thread.id) continue;
    launch->parts.pop_back();
    if (launch->parts.empty()) launches.erase(std::next(launch).base());
    return;
  }
}

// Operations on it run, at times that are not known.
void ExecutionGraph::LoseSight(Process& process, CommId comm) {
  process.lost_sight = true;
  auto local = process.comms.find(comm);
  if (local != process.comms.end() && local->second.index >= 0) {
    matcher_.comms()[local->second.index].opaque = true;
  }
}

void ExecutionGraph::LoseSight(Process& process, const CapturedGraph& graph) {
  for (const CapturedLaunch& launch : graph.launches) LoseSight(process, launch.comm);
}

void ExecutionGraph::ApplyGraphCall(Process& process, const CallRecord& record) {
  const auto hold = [&](std::map<uint64_t, CapturedGraph>* all, uint64_t key, CapturedGraph graph) {
    if (graph.launches.empty()) {
      all->erase(key);
      return;
    }
    if (all->size() >= kMaxHeldGraphs && all->count(key) == 0) {
      LoseSight(process, all->begin()->second);
      all->erase(all->begin());
    }
    (*all)[key] = std::move(graph);
  };
  const auto& call = record.As<ring::GraphPayload>();
  switch (record.call) {
    case Call::kGraphEndCapture: {
      auto capture = process.captures.find(call.capture);
      if (capture == process.captures.end()) return;
      CapturedGraph graph = std::move(capture->second);
      process.captures.erase(capture);
      if (process.graph_bodies.count(call.graph) > 0) {
        LoseSight(process, graph);
      } else {
        hold(&process.graphs, call.graph, std::move(graph));
      }
      return;
    }
    case Call::kGraphDestroy:
      process.graphs.erase(call.graph);
      process.graph_bodies.erase(call.graph);
      return;
    case Call::kGraphClone:
    case Call::kGraphInstantiate: {
      auto& into = record.call == Call::kGraphClone ? process.graphs : process.graph_execs;
      auto graph = process.graphs.find(call.graph);
      CapturedGraph made = graph != process.graphs.end() ? graph->second : CapturedGraph{};
      made.instance = next_instance_++;
      hold(&into, call.made, std::move(made));
      return;
    }
    case Call::kGraphNest: {
      // A part of another graph, which runs it once or as often as a condition says.
      auto inner = process.graphs.find(call.graph);
      if (inner != process.graphs.end()) LoseSight(process, inner->second);
      auto launched = process.graph_execs.find(call.made);
      if (launched != process.graph_execs.end()) LoseSight(process, launched->second);
      if (call.graph != 0 && process.graph_bodies.size() < kMaxHeldGraphs) {
        process.graph_bodies.insert(call.graph);
      }
      return;
    }
    case Call::kGraphExecDestroy:
      process.graph_execs.erase(call.made);
      return;
    default:
      return;
  }
}

void ExecutionGraph::ApplyGraphLaunch(Process& process, const CallRecord& record, WorkItem item) {
  const auto& work = record.As<ring::WorkPayload>();
  const StreamPosition position = {work.stream, work.ordinal};
  StreamQueue& queue = Stream(process, work.stream, -1);
  const bool over = work.ordinal <= queue.done;  // evidence overtook the record
  auto exec = process.graph_execs.find(work.event);
  std::vector<LaunchId> launched;
  if (exec != process.graph_execs.end()) {
    const std::vector<CapturedLaunch>& captured = exec->second.launches;
    std::map<StreamId, LaunchId> last;  // on each captured stream
    for (size_t i = 0; i < captured.size(); ++i) {
      Launch* const launch = LaunchCaptured(process, captured[i], record, static_cast<uint32_t>(i));
      if (launch == nullptr) continue;
      launch->graph_markers = captured[i].markers;
      launch->graph_instance = exec->second.instance;
      launch->launch_order = record.order;
      for (const StreamId stream : captured[i].streams) {
        LaunchId& before = last[stream];
        auto& order = launch->graph_order;
        if (before != 0 && std::find(order.begin(), order.end(), before) == order.end()) {
          order.push_back(before);
        }
        before = launch->id;
      }
      launch->positions = {position};
      launch->open_positions = 1;
      launched.push_back(launch->id);
    }
  }
  if (over) {
    for (LaunchId id : launched) LaunchDone(id);
    return;
  }
  item.graph = true;
  item.kind = launched.empty() ? WorkKind::kKernels : WorkKind::kNoWork;
  item.launches.assign(launched.begin(), launched.end());
  Append(queue, std::move(item));
}

// Null when NCCL would launch nothing for it.
Launch* ExecutionGraph::LaunchCaptured(Process& process, const CapturedLaunch& captured,
                                       const CallRecord& record, uint32_t place) {
  const StreamId stream = record.As<ring::WorkPayload>().stream;
  auto local = process.comms.find(captured.comm);
  Launch& launch = launches_.Add();
  launch.process = process.info.process;
  launch.thread = record.thread;
  launch.comm = captured.comm;
  launch.time_ns = record.time_ns;
  for (Part part : captured.parts) {
    launch.comm_index = part.ref.comm;
    if (local != process.comms.end()) {
      PartNumbers& numbers = local->second.Numbers(part.ref);
      part.ref.sequence = numbers.next + numbers.launched++;
    }
    part.stream = stream;
    part.order = record.order;
    part.time_ns = record.time_ns;
    launch.parts.push_back(std::move(part));
  }
  for (const Part& part : launch.parts) {
    Post(part, launch.id, place);
    matcher_.Accept(part.ref, record.time_ns);
  }
  if (std::all_of(launch.parts.begin(), launch.parts.end(),
                  [](const Part& part) { return IsEmpty(RoleOf(part)); })) {
    LaunchDone(launch.id);
    return nullptr;
  }
  launch.streams = {stream};
  for (const Part& part : launch.parts) NoteUsed(process, launch.comm, part);
  Enqueued(process, launch);
  return &launch;
}

}  // namespace gordian::model
