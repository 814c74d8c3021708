// Launches executable graphs. A launch is a unit on its stream: its work lies between a marker
// behind the stream's work and the graph's previous launch, and a marker before the stream's next
// work.
#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/engine/graph/graphs_impl.h"
#include "emulator/engine/memory/copies.h"

namespace gordian::emu {

namespace {

bool IsOp(const GraphNode& node) {
  return node.type() == NodeType::kKernel && node.params.kernel.op != nullptr && node.enabled;
}

void CopyNode(const CopyParams& copy) {
  for (size_t slice = 0; slice < copy.depth; ++slice) {
    for (size_t row = 0; row < copy.height; ++row) {
      memmove(copy.to.At(row, slice), copy.from.At(row, slice), copy.width);
    }
  }
}

}  // namespace

struct GraphsImpl::LaunchState {
  Stream* stream = nullptr;
  const GraphExec* exec = nullptr;
  std::vector<OpSource::Run> runs;  // in launch order, of the nodes that have them
  size_t next_run = 0;
  int next_lane = 1;
  std::map<std::pair<int, int>, int> queues;  // of lane and device
};

void GraphsImpl::CollectSources(const Graph& graph,
                                std::vector<std::shared_ptr<OpSource>>* sources) {
  std::vector<GraphNode*> order;
  GraphNode* stuck = nullptr;
  graph.Sort(&order, &stuck);
  for (const GraphNode* node : order) {
    if (node->child != nullptr) CollectSources(*node->child, sources);
    if (IsOp(*node)) sources->push_back(node->params.kernel.op);
  }
}

// The order of the host's calls decides when allocations begin and end; see GraphMemoryPool.
int GraphsImpl::LaunchMemory(const GraphExec& exec) {
  std::vector<const GraphNode*> allocs;
  std::vector<const GraphNode*> frees;
  exec.body->Visit([&](GraphNode* node) {
    if (node->type() == NodeType::kAlloc) allocs.push_back(node);
    if (node->type() == NodeType::kFree) frees.push_back(node);
  });
  const bool auto_free = (exec.flags & kAutoFreeOnLaunch) != 0;
  for (const GraphNode* node : allocs) {
    if (!auto_free && memory_.IsLive(*node->params.alloc.memory)) return kInvalidValue;
  }
  for (const GraphNode* node : frees) {
    const GraphAllocation& memory = *node->params.alloc.memory;
    if (memory.owner != exec.source_id && memory.owner != node->graph->copied_from &&
        !memory_.IsLive(memory)) {
      return kInvalidValue;
    }
  }
  for (const GraphNode* node : allocs) {
    memory_.End(node->params.alloc.pointer);
    memory_.MakeLive(node->params.alloc.memory);
  }
  for (const GraphNode* node : frees) memory_.End(node->params.alloc.pointer);
  return kSuccess;
}

// From here on queries of the event refer to this launch.
void GraphsImpl::RecordInGraph(void* handle, const TaskPtr& task) {
  if (engine_.live_events_.count(handle) == 0) return;
  auto* event = static_cast<Event*>(handle);
  event->recorded = true;
  event->capture = nullptr;
  event->record = task;
}

TaskKind GraphsImpl::CopyTaskKind(const CopyParams& copy) {
  Allocation from;
  Allocation to;
  const bool from_known = engine_.memory_->Find(copy.from.pointer, 0, &from);
  const bool to_known = engine_.memory_->Find(copy.to.pointer, 0, &to);
  const bool engine = UsesCopyEngine(from_known ? &from : nullptr, to_known ? &to : nullptr);
  return engine ? TaskKind::kCopy : TaskKind::kFill;
}

TaskPtr GraphsImpl::MakeTask(GraphNode* node, LaunchState* state) {
  const NodeParams& params = node->params;
  if (!node->enabled) return std::make_shared<Task>(TaskKind::kMarker);
  TaskPtr task;
  switch (params.type) {
    case NodeType::kKernel: {
      if (params.kernel.op != nullptr) {
        OpSource::Run& run = state->runs[state->next_run++];
        if (run.op == nullptr) return std::make_shared<Task>(TaskKind::kMarker);
        task = std::make_shared<Task>(TaskKind::kDeviceOp);
        task->sms = params.kernel.op_sms;
        task->op = std::move(run.op);
        if (run.after != nullptr) {
          Scheduler::AddDependency(task, engine_.scheduler_->FindOp(run.after.get()));
        }
      } else {
        task = std::make_shared<Task>(TaskKind::kTimedKernel);
        const auto& grid = params.kernel.grid;
        const int64_t blocks = int64_t{grid[0]} * grid[1] * grid[2];
        task->sms = static_cast<int>(std::min<int64_t>(blocks, engine_.options_->sms));
        task->duration_ns = params.kernel.duration_ns;
      }
      task->priority = state->stream->priority;
      const auto own = params.kernel.attributes.find(kPriorityAttribute);
      if ((state->exec->flags & kUseNodePriority) != 0) {
        task->priority = 0;
        if (own != params.kernel.attributes.end()) {
          memcpy(&task->priority, own->second.data(), sizeof(int));
        }
      }
      return task;
    }
    case NodeType::kCopy:
      task = std::make_shared<Task>(CopyTaskKind(params.copy));
      task->work = [copy = params.copy] { CopyNode(copy); };
      break;
    case NodeType::kFill:
      task = std::make_shared<Task>(TaskKind::kFill);
      task->work = [fill = params.fill] { FillRows(fill); };
      break;
    case NodeType::kHost:
      task = std::make_shared<Task>(TaskKind::kHostFunction);
      task->work = [host = params.host] { host.function(host.data); };
      break;
    case NodeType::kWaitEvent:
      task = std::make_shared<Task>(TaskKind::kMarker);
      if (engine_.live_events_.count(params.event) != 0) {
        Scheduler::AddDependency(task, static_cast<Event*>(params.event)->record);
      }
      break;
    case NodeType::kRecordEvent:
      task = std::make_shared<Task>(TaskKind::kMarker);
      RecordInGraph(params.event, task);
      break;
    default:
      task = std::make_shared<Task>(TaskKind::kMarker);
  }
  task->priority = state->stream->priority;
  return task;
}

// A lane is a chain of nodes that share a hardware queue, like the work of one stream: the first
// node to follow another takes over its lane, every further one opens a new lane. How the driver
// spreads a graph over its queues has not been measured.
void GraphsImpl::SubmitGraph(const Graph& graph, LaunchState* state, const TaskPtr& begin,
                             int first_lane, const TaskPtr& end) {
  struct Place {
    TaskPtr task;
    int lane = 0;
    bool lane_taken = false;
  };
  std::vector<GraphNode*> order;
  GraphNode* stuck = nullptr;
  graph.Sort(&order, &stuck);
  std::unordered_map<const GraphNode*, Place> places;
  bool first_lane_taken = false;
  for (GraphNode* node : order) {
    Place& place = places[node];
    place.lane = -1;
    for (const auto& edge : node->before) {
      Place& before = places[edge.node];
      if (before.lane_taken) continue;
      before.lane_taken = true;
      place.lane = before.lane;
      break;
    }
    if (place.lane < 0 && node->before.empty() && !first_lane_taken) {
      first_lane_taken = true;
      place.lane = first_lane;
    }
    if (place.lane < 0) place.lane = state->next_lane++;

    const auto add_dependencies = [&](const TaskPtr& task) {
      if (node->before.empty()) Scheduler::AddDependency(task, begin);
      for (const auto& edge : node->before) {
        Scheduler::AddDependency(task, places[edge.node].task);
      }
    };
    if (node->child != nullptr) {
      const auto child_begin = std::make_shared<Task>(TaskKind::kMarker);
      add_dependencies(child_begin);
      engine_.scheduler_->Submit(child_begin);
      place.task = std::make_shared<Task>(TaskKind::kMarker);
      SubmitGraph(*node->child, state, child_begin, place.lane, place.task);
      engine_.scheduler_->Submit(place.task);
    } else {
      place.task = MakeTask(node, state);
      const TaskPtr& task = place.task;
      add_dependencies(task);
      task->device = node->device;
      if (Scheduler::PassesQueue(*task)) {
        const auto [queue, fresh] = state->queues.try_emplace({place.lane, node->device}, 0);
        if (fresh) queue->second = engine_.scheduler_->ChooseQueue(node->device);
        task->queue = queue->second;
        if (place.lane == 0 && node->device == state->stream->device) {
          state->stream->last_queued = task;
        }
      }
      engine_.scheduler_->Submit(task);
    }
    if (node->after.empty()) Scheduler::AddDependency(end, place.task);
  }
  if (order.empty()) Scheduler::AddDependency(end, begin);
}

int GraphsImpl::Launch(void* handle, void* stream_handle) {
  if (const int status = engine_.Prepare(stream_handle)) return status;
  // Held during the sources' calls, for which the engine's lock must be free: launches of one
  // executable graph get their runs in the order of submission.
  std::lock_guard<std::mutex> in_turn(launch_mutex_);
  std::shared_ptr<GraphExec> exec;
  LaunchState state;
  std::vector<std::shared_ptr<OpSource>> sources;
  {
    Scheduler::Section section(*engine_.scheduler_);
    const auto at = execs_.find(handle);
    if (at == execs_.end()) return kInvalidValue;
    Stream* const stream = engine_.Resolve(stream_handle);
    if (stream == nullptr) return kInvalidHandle;
    int status = kSuccess;
    if (Intercept(stream, &status)) {
      return status != kSuccess ? status : CaptureLaunch(stream, *at->second);
    }
    exec = at->second;
    if ((status = LaunchMemory(*exec)) != kSuccess) return status;
    CollectSources(*exec->body, &sources);
  }
  for (const auto& source : sources) state.runs.push_back(source->MakeRun());

  Scheduler::Section section(*engine_.scheduler_);
  Stream* const stream = engine_.Resolve(stream_handle);
  if (stream == nullptr) return kInvalidHandle;  // destroyed meanwhile
  state.stream = stream;
  state.exec = exec.get();
  const auto begin = std::make_shared<Task>(TaskKind::kMarker);
  // The end of a graph passes through its stream's hardware queue, and holds up the work behind it.
  const auto end = std::make_shared<Task>(TaskKind::kQueuedMarker);
  Scheduler::AddDependency(begin, exec->last);
  engine_.SubmitOn(stream, begin);
  if (stream->last_queued != nullptr && stream->last_queued->queued) {
    state.queues[{0, stream->device}] = stream->last_queued->queue;
  }
  SubmitGraph(*exec->body, &state, begin, 0, end);
  end->keep = exec;
  end->device = stream->device;
  const auto [queue, fresh] = state.queues.try_emplace({0, stream->device}, 0);
  if (fresh) queue->second = engine_.scheduler_->ChooseQueue(stream->device);
  end->queue = queue->second;
  stream->last_queued = end;
  engine_.scheduler_->Submit(end);
  stream->last = end;
  exec->last = end;
  return kSuccess;
}

int GraphsImpl::Upload(void* handle, void* stream_handle) {
  if (const int status = engine_.Prepare(stream_handle)) return status;
  Scheduler::Section section(*engine_.scheduler_);
  if (FindExec(handle) == nullptr) return kInvalidValue;
  const Stream* const stream = engine_.Resolve(stream_handle);
  return stream == nullptr ? kInvalidHandle : CheckNotCapturing(*stream);
}

}  // namespace gordian::emu
