// Stream capture: sequences, and the calls that a running capture forbids.
#include "emulator/engine/graph/capture.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/engine/graph/graphs_impl.h"

namespace gordian::emu {
namespace {

uint64_t ThreadId() {
  static std::atomic<uint64_t> next{1};
  ThreadState& thread = CurrentThread();
  if (thread.capture_id == 0) thread.capture_id = next++;
  return thread.capture_id;
}

void AddEdge(std::vector<GraphNode::Edge>* edges, const GraphNode::Edge& edge) {
  for (const GraphNode::Edge& known : *edges) {
    if (known.node == edge.node) return;
  }
  edges->push_back(edge);
}

}  // namespace

// --- Rules ---

void GraphsImpl::Invalidate(Capture* capture) { capture->invalidated = true; }

bool GraphsImpl::IsForbidden(const Capture& capture) const {
  const auto mode = static_cast<CaptureMode>(CurrentThread().capture_mode);
  if (mode == CaptureMode::kRelaxed) return false;
  if (capture.thread == ThreadId()) return capture.mode != CaptureMode::kRelaxed;
  return mode == CaptureMode::kGlobal && capture.mode == CaptureMode::kGlobal;
}

int GraphsImpl::CheckUnsafeCall() {
  if (captures_under_way_.load(std::memory_order_acquire) == 0) return kSuccess;
  Scheduler::Section section(*engine_.scheduler_);
  bool forbidden = false;
  for (const CapturePtr& capture : captures_) {
    if (!IsForbidden(*capture)) continue;
    Invalidate(capture.get());
    forbidden = true;
  }
  return forbidden ? kStreamCaptureUnsupported : kSuccess;
}

int GraphsImpl::CheckLegacy(const Stream& stream, bool invalidate) {
  if (!stream.legacy) return kSuccess;
  bool conflict = false;
  for (const CapturePtr& capture : captures_) {
    for (const Stream* other : capture->streams) {
      if (other->device != stream.device || !other->Blocking()) continue;
      if (invalidate) Invalidate(capture.get());
      conflict = true;
    }
  }
  return conflict ? kStreamCaptureImplicit : kSuccess;
}

int GraphsImpl::CheckNotCapturing(const Stream& stream) {
  if (captures_.empty()) return kSuccess;
  if (stream.capture == nullptr) return CheckLegacy(stream, true);
  Capture& sequence = *stream.capture->sequence;
  if (sequence.invalidated) return kStreamCaptureInvalidated;
  Invalidate(&sequence);
  return kStreamCaptureUnsupported;
}

int GraphsImpl::CheckDevice(int device) {
  bool conflict = false;
  for (const CapturePtr& capture : captures_) {
    for (const Stream* stream : capture->streams) {
      if (stream->device != device) continue;
      Invalidate(capture.get());
      conflict = true;
    }
  }
  return conflict ? kStreamCaptureUnsupported : kSuccess;
}

int GraphsImpl::CheckEvent(const Event& event) {
  if (event.capture == nullptr) return kSuccess;
  if (!event.capture->sequence->ended) Invalidate(event.capture->sequence.get());
  return kCapturedEvent;
}

bool GraphsImpl::Intercept(Stream* stream, int* status) {
  *status = kSuccess;
  if (captures_.empty()) return false;
  if (stream->capture == nullptr) {
    *status = CheckLegacy(*stream, true);
    return *status != kSuccess;
  }
  if (stream->capture->sequence->invalidated) *status = kStreamCaptureInvalidated;
  return true;
}

template <typename Function>
bool GraphsImpl::InterceptCall(void* handle, int* status, Function capture) {
  if (captures_under_way_.load(std::memory_order_acquire) == 0) return false;
  if (engine_.Prepare(handle) != kSuccess) return false;  // the caller gets the error itself
  Scheduler::Section section(*engine_.scheduler_);
  Stream* const stream = engine_.Resolve(handle);
  if (stream == nullptr || !Intercept(stream, status)) return false;
  if (*status == kSuccess) *status = capture(stream);
  return true;
}

// --- Nodes ---

GraphNode* GraphsImpl::AddCaptured(Stream* stream, NodeParams params) {
  CapturePoint& point = *stream->capture;
  GraphNode* const node = point.sequence->graph->Add(std::move(params), stream->device);
  nodes_.insert(node);
  for (const GraphNode::Edge& edge : point.after) Graph::Connect(edge.node, node, edge.data);
  point.after = {{node, {}}};
  return node;
}

bool GraphsImpl::CaptureKernel(void* handle, const KernelParams& kernel, int* status) {
  return InterceptCall(handle, status, [&](Stream* stream) {
    NodeParams params;
    params.type = NodeType::kKernel;
    params.kernel = kernel;
    memcpy(params.kernel.attributes[kPriorityAttribute].data(), &stream->priority, sizeof(int));
    AddCaptured(stream, std::move(params));
    return kSuccess;
  });
}

bool GraphsImpl::CaptureHostFunction(void* handle, const HostParams& host, int* status) {
  return InterceptCall(handle, status, [&](Stream* stream) {
    NodeParams params;
    params.type = NodeType::kHost;
    params.host = host;
    AddCaptured(stream, std::move(params));
    return kSuccess;
  });
}

// A captured copy reads and writes pageable memory when the graph runs. Not measured.
bool GraphsImpl::CaptureCopy(void* handle, const CopyRequest& copy, int* status) {
  return InterceptCall(handle, status, [&](Stream* stream) -> int {
    if (copy.synchronous) return CheckNotCapturing(*stream);
    NodeParams params;
    params.type = NodeType::kCopy;
    params.copy.to.pointer = copy.to;
    params.copy.to.pitch = copy.to_pitch;
    params.copy.to.row_bytes = copy.width;
    params.copy.to.height = copy.height;
    params.copy.from.pointer = const_cast<void*>(copy.from);
    params.copy.from.pitch = copy.from_pitch;
    params.copy.from.row_bytes = copy.width;
    params.copy.from.height = copy.height;
    params.copy.width = copy.width;
    params.copy.height = copy.height;
    params.copy.kind = copy.kind;
    AddCaptured(stream, std::move(params));
    return kSuccess;
  });
}

bool GraphsImpl::CaptureFill(void* handle, const FillRequest& fill, int* status) {
  return InterceptCall(handle, status, [&](Stream* stream) -> int {
    if (fill.synchronous) return CheckNotCapturing(*stream);
    NodeParams params;
    params.type = NodeType::kFill;
    params.fill = fill;
    AddCaptured(stream, std::move(params));
    return kSuccess;
  });
}

bool GraphsImpl::CaptureAllocate(void* handle, size_t bytes, void** pointer, int* status) {
  return InterceptCall(handle, status, [&](Stream* stream) -> int {
    if (pointer == nullptr || bytes == 0) return kInvalidValue;
    NodeParams params;
    params.type = NodeType::kAlloc;
    params.alloc.bytes = bytes;
    params.alloc.device = stream->device;
    // Pinned memory of the stream's device: cudaMemPoolProps begins with these.
    const int properties[] = {1, 0, 1, stream->device};
    memcpy(params.alloc.pool_properties.data(), properties, sizeof(properties));
    if (const int failed = PrepareMemory(stream->capture->sequence->graph, &params)) return failed;
    *pointer = params.alloc.pointer;
    AddCaptured(stream, std::move(params));
    return kSuccess;
  });
}

bool GraphsImpl::CaptureFree(void* handle, void* pointer, int* status) {
  return InterceptCall(handle, status, [&](Stream* stream) -> int {
    NodeParams params;
    params.type = NodeType::kFree;
    params.alloc.pointer = pointer;
    if (const int failed = PrepareMemory(stream->capture->sequence->graph, &params)) return failed;
    AddCaptured(stream, std::move(params));
    return kSuccess;
  });
}

bool GraphsImpl::CaptureExternalRecord(void* event, void* handle, int* status) {
  return InterceptCall(handle, status, [&](Stream* stream) -> int {
    NodeParams params;
    params.type = NodeType::kRecordEvent;
    params.event = event;
    if (engine_.live_events_.count(event) == 0) return kInvalidHandle;
    AddCaptured(stream, std::move(params));
    return kSuccess;
  });
}

bool GraphsImpl::CaptureExternalWait(void* handle, void* event, int* status) {
  return InterceptCall(handle, status, [&](Stream* stream) -> int {
    NodeParams params;
    params.type = NodeType::kWaitEvent;
    params.event = event;
    if (engine_.live_events_.count(event) == 0) return kInvalidHandle;
    AddCaptured(stream, std::move(params));
    return kSuccess;
  });
}

// A launch inside a capture becomes a node with a copy of the graph in it.
int GraphsImpl::CaptureLaunch(Stream* stream, const GraphExec& exec) {
  if (exec.body->HasMemoryNodes()) {
    Invalidate(stream->capture->sequence.get());
    return kStreamCaptureUnsupported;
  }
  NodeParams params;
  params.type = NodeType::kGraph;
  GraphNode* const node = AddCaptured(stream, std::move(params));
  node->child = exec.body->Copy();
  node->child->owner = node;
  Learn(node->child.get());
  return kSuccess;
}

int GraphsImpl::CaptureOp(CaptureRequest request) {
  Scheduler::Section section(*engine_.scheduler_);
  CapturePoint* first = nullptr;
  for (Stream* stream : request.streams) {
    int status = kSuccess;
    if (!engine_.IsLive(stream)) return kInvalidHandle;
    if (!Intercept(stream, &status)) return kIllegalState;
    if (status != kSuccess) return status;
    if (first == nullptr) first = stream->capture.get();
    if (first->sequence != stream->capture->sequence) return kStreamCaptureMerge;
  }
  if (first == nullptr) return kInvalidValue;
  for (Stream* stream : request.streams) {
    for (const auto& edge : stream->capture->after) AddEdge(&first->after, edge);
  }
  NodeParams params;
  params.type = NodeType::kKernel;
  params.kernel.op = std::move(request.source);
  params.kernel.op_sms = request.sms;
  params.kernel.grid = {static_cast<unsigned>(request.sms), 1, 1};
  memcpy(params.kernel.attributes[kPriorityAttribute].data(), &request.streams[0]->priority,
         sizeof(int));
  AddCaptured(request.streams[0], std::move(params));
  for (Stream* stream : request.streams) stream->capture->after = first->after;
  return kSuccess;
}

// --- Events ---

bool GraphsImpl::CaptureRecord(Event* event, Stream* stream, int* status) {
  if (!Intercept(stream, status)) {
    event->capture = nullptr;
    return false;
  }
  if (*status != kSuccess) return true;
  event->capture = std::make_shared<CapturePoint>();
  event->capture->sequence = stream->capture->sequence;
  event->capture->after = stream->capture->after;
  event->record = nullptr;
  return true;
}

bool GraphsImpl::CaptureWait(Stream* stream, const Event& event, int* status) {
  if (event.capture == nullptr) {
    if (!Intercept(stream, status)) return false;
    if (*status != kSuccess) return true;
    // Only cudaEventWaitExternal may refer to work outside of the capture.
    Invalidate(stream->capture->sequence.get());
    *status = kStreamCaptureIsolation;
    return true;
  }
  const CapturePtr& sequence = event.capture->sequence;
  if (sequence->ended) {
    // The event names nodes of a graph, not work. Which error CUDA returns has not been measured.
    if (stream->capture != nullptr) Invalidate(stream->capture->sequence.get());
    *status = kStreamCaptureIsolation;
    return true;
  }
  if (sequence->invalidated) {
    *status = kStreamCaptureInvalidated;
    return true;
  }
  if (stream->legacy) {
    Invalidate(sequence.get());
    *status = kStreamCaptureImplicit;
    return true;
  }
  if (stream->capture == nullptr) Join(stream, sequence);
  CapturePoint& point = *stream->capture;
  if (point.sequence != sequence) {
    Invalidate(sequence.get());
    Invalidate(point.sequence.get());
    *status = kStreamCaptureMerge;
    return true;
  }
  if (sequence->invalidated) {
    *status = kStreamCaptureInvalidated;
    return true;
  }
  for (const GraphNode::Edge& edge : event.capture->after) AddEdge(&point.after, edge);
  *status = kSuccess;
  return true;
}

// --- Sequences ---

void GraphsImpl::Join(Stream* stream, const CapturePtr& sequence) {
  stream->capture = std::make_shared<CapturePoint>();
  stream->capture->sequence = sequence;
  sequence->streams.push_back(stream);
}

int GraphsImpl::BeginCapture(void* handle, CaptureMode mode, void* graph_handle,
                             const Dependencies& after) {
  if (const int status = engine_.Prepare(handle)) return status;
  if (mode < CaptureMode::kGlobal || mode > CaptureMode::kRelaxed) return kInvalidValue;
  Scheduler::Section section(*engine_.scheduler_);
  Stream* const stream = engine_.Resolve(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->legacy) return kStreamCaptureUnsupported;
  if (stream->capture != nullptr) return kIllegalState;
  auto sequence = std::make_shared<Capture>();
  if (graph_handle != nullptr) {
    Graph* const graph = FindGraph(graph_handle);
    if (graph == nullptr || graph->capturing) return kInvalidValue;
    if (const int status = CheckDependencies(*graph, after)) return status;
    sequence->graph = graph;
  } else {
    sequence->made = std::make_unique<Graph>();
    sequence->graph = sequence->made.get();
    Learn(sequence->graph);
  }
  static uint64_t next_id = 1;  // guarded by the lock
  sequence->id = next_id++;
  sequence->graph->capturing = true;
  sequence->origin = stream;
  sequence->mode = mode;
  sequence->thread = ThreadId();
  captures_.push_back(sequence);
  captures_under_way_.store(captures_.size(), std::memory_order_release);
  Join(stream, sequence);
  for (size_t i = 0; i < after.count; ++i) {
    stream->capture->after.push_back({static_cast<GraphNode*>(after.nodes[i]),
                                      after.edges != nullptr ? after.edges[i] : EdgeData{}});
  }
  return kSuccess;
}

// True if all the streams' work is also behind the origin.
bool GraphsImpl::Joined(const Capture& capture) const {
  std::unordered_set<const GraphNode*> reached;
  std::vector<const GraphNode*> to_do;
  const auto reach = [&](const GraphNode* node) {
    if (reached.insert(node).second) to_do.push_back(node);
  };
  for (const auto& edge : capture.origin->capture->after) reach(edge.node);
  while (!to_do.empty()) {
    const GraphNode* const node = to_do.back();
    to_do.pop_back();
    for (const auto& edge : node->before) reach(edge.node);
  }
  for (const Stream* stream : capture.streams) {
    for (const auto& edge : stream->capture->after) {
      if (reached.count(edge.node) == 0) return false;
    }
  }
  return std::all_of(capture.orphans.begin(), capture.orphans.end(),
                     [&](const GraphNode* node) { return reached.count(node) != 0; });
}

void GraphsImpl::EndSequence(const CapturePtr& sequence) {
  for (Stream* stream : sequence->streams) stream->capture = nullptr;
  sequence->streams.clear();
  sequence->ended = true;
  sequence->graph->capturing = false;
  captures_.erase(std::find(captures_.begin(), captures_.end(), sequence));
  captures_under_way_.store(captures_.size(), std::memory_order_release);
  if (sequence->made == nullptr) return;
  Forget(sequence->made.get());
  // Destroying its contents may call the application.
  engine_.scheduler_->Bury(std::shared_ptr<Graph>(std::move(sequence->made)));
}

int GraphsImpl::EndCapture(void* handle, void** graph) {
  if (const int status = engine_.Prepare(handle)) return status;
  if (graph == nullptr) return kInvalidValue;
  *graph = nullptr;
  Scheduler::Section section(*engine_.scheduler_);
  Stream* const stream = engine_.Resolve(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->legacy) return kStreamCaptureUnsupported;
  if (stream->capture == nullptr) return kIllegalState;
  const CapturePtr sequence = stream->capture->sequence;
  if (sequence->origin != stream) {
    Invalidate(sequence.get());
    return kStreamCaptureUnmatched;
  }
  if (sequence->mode != CaptureMode::kRelaxed && sequence->thread != ThreadId()) {
    return kStreamCaptureWrongThread;
  }
  int status = kSuccess;
  if (sequence->invalidated) {
    status = kStreamCaptureInvalidated;
  } else if (!Joined(*sequence)) {
    status = kStreamCaptureUnjoined;
  } else {
    *graph = sequence->graph;
    if (sequence->made != nullptr) graphs_[sequence->graph] = std::move(sequence->made);
  }
  EndSequence(sequence);
  return status;
}

void GraphsImpl::ForgetStream(Stream* stream) {
  if (stream->capture == nullptr) return;
  const CapturePtr sequence = stream->capture->sequence;
  if (sequence->origin == stream) {
    // No stream can end it any more.
    EndSequence(sequence);
    return;
  }
  for (const auto& edge : stream->capture->after) sequence->orphans.push_back(edge.node);
  auto& streams = sequence->streams;
  streams.erase(std::find(streams.begin(), streams.end(), stream));
  stream->capture = nullptr;
}

int GraphsImpl::GetCaptureInfo(void* handle, CaptureInfo* info) {
  if (const int status = engine_.Prepare(handle)) return status;
  *info = {};
  Scheduler::Section section(*engine_.scheduler_);
  Stream* const stream = engine_.Resolve(handle);
  if (stream == nullptr) return kInvalidHandle;
  // A query does not invalidate the capture.
  if (const int status = CheckLegacy(*stream, false)) return status;
  if (stream->capture == nullptr) return kSuccess;
  CapturePoint& point = *stream->capture;
  info->id = point.sequence->id;
  info->status = point.sequence->invalidated ? CaptureStatus::kInvalidated : CaptureStatus::kActive;
  if (point.sequence->invalidated) return kSuccess;
  info->graph = point.sequence->graph;
  point.told_nodes.clear();
  point.told_edges.clear();
  for (const auto& edge : point.after) {
    point.told_nodes.push_back(edge.node);
    point.told_edges.push_back(edge.data);
    info->lossy |= !edge.data.IsDefault();
  }
  info->dependencies = point.told_nodes.data();
  info->edges = point.told_edges.data();
  info->count = point.told_nodes.size();
  return kSuccess;
}

int GraphsImpl::UpdateDependencies(void* handle, const Dependencies& dependencies, bool replace) {
  if (const int status = engine_.Prepare(handle)) return status;
  Scheduler::Section section(*engine_.scheduler_);
  Stream* const stream = engine_.Resolve(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->capture == nullptr) return kIllegalState;
  CapturePoint& point = *stream->capture;
  if (point.sequence->invalidated) return kStreamCaptureInvalidated;
  if (const int status = CheckDependencies(*point.sequence->graph, dependencies)) return status;
  std::vector<GraphNode::Edge> given;
  for (size_t i = 0; i < dependencies.count; ++i) {
    given.push_back({static_cast<GraphNode*>(dependencies.nodes[i]),
                     dependencies.edges != nullptr ? dependencies.edges[i] : EdgeData{}});
  }
  if (replace) point.after.clear();
  for (const auto& edge : given) AddEdge(&point.after, edge);
  return kSuccess;
}

CaptureMode GraphsImpl::ExchangeThreadMode(CaptureMode mode) {
  ThreadState& thread = CurrentThread();
  return static_cast<CaptureMode>(std::exchange(thread.capture_mode, static_cast<int>(mode)));
}

}  // namespace gordian::emu
