// Groups of a thread: which launches they become, and where these stand.
#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/model/facts/execution_graph.h"

namespace gordian::model {

void ExecutionGraph::ApplyEnqueue(Process& process, Thread& thread, const CallRecord& record) {
  const auto& enqueue = record.As<ring::EnqueuePayload>();
  const StreamPosition position = {enqueue.stream, enqueue.ordinal};
  bool placed = false;
  InGroup(process, thread, enqueue.group);
  for (KernelId id : thread.group_kernels) {
    Kernel* const found = kernels_.Find(id);
    if (found == nullptr) continue;
    Kernel& kernel = *found;
    if (std::find(kernel.streams.begin(), kernel.streams.end(), enqueue.stream) !=
        kernel.streams.end()) {
      PlaceKernel(process, kernel, position);
      placed = true;
    }
  }
  if (!placed) AppendNothing(process, position);
}

void ExecutionGraph::InGroup(Process& process, Thread& thread, uint32_t number) {
  const auto low = static_cast<uint16_t>(number);  // operations tell no more of it
  if (low != 0 && thread.group != 0 && low != thread.group) InNoGroup(process, thread);
  if (low != 0) thread.group = low;
}

void ExecutionGraph::InNoGroup(Process& process, Thread& thread) {
  thread.group = 0;
  for (KernelId id : thread.group_kernels) {
    Kernel* const kernel = kernels_.Find(id);
    if (kernel == nullptr || kernel->enqueued) continue;
    kernel->follows = false;
    Enqueued(process, *kernel);
    if (kernel->signal != nullptr && kernel->positions.empty()) UnplacedSignal(id);
  }
  thread.group_kernels.clear();
  thread.group_call = 0;
  thread.capturing.clear();
}

void ExecutionGraph::ApplyGroupEnd(Process& process, Thread& thread, const CallRecord& record) {
  const int32_t result = record.As<ring::EndPayload>().result;
  std::vector<KernelId> ids = std::move(thread.group_kernels);
  thread.group_kernels.clear();
  std::vector<PendingInit> inits = std::move(thread.group_inits);
  thread.group_inits.clear();
  thread.group_call = 0;
  thread.group = 0;
  thread.in_group_end = false;
  for (KernelId id : ids) {
    Kernel* const found = kernels_.Find(id);
    if (found == nullptr) continue;
    Kernel& kernel = *found;
    if (!Took(result)) {
      DropKernel(id, kernel.open_positions > 0);
      continue;
    }
    if (kernel.signal != nullptr) {
      kernel.enqueued = true;
      if (kernel.positions.empty()) {
        UnplacedSignal(id);
      } else if (kernel.open_positions == 0) {
        KernelDone(id);
      }
      continue;
    }
    for (const Part& part : kernel.parts) NoteUsed(process, kernel.comm, part);
    OrderAmongComms(process, thread, record, kernel);
    if (kernel.streams.empty()) {
      KernelDone(id);
      continue;
    }
    if (kernel.positions.size() < kernel.streams.size()) kernel.follows = false;
    Enqueued(process, kernel);
    if (kernel.follows && kernel.open_positions == 0) KernelDone(id);
  }
  for (const Capturing& captured : std::exchange(thread.capturing, {})) {
    if (Took(result)) NoteUsed(process, captured.comm, captured.part);
  }
  for (const PendingInit& init : inits) {
    if (result == 0) matcher_.InitDone(init.uid, init.rank);
  }
}

}  // namespace gordian::model
