// W19: A thread that only a thread of its process can wake waits for any other that can run.
//
// It sleeps in pthread_join, or for a mutex, a condition variable or a semaphore, without a time
// limit. Another that sleeps so has to be woken itself. The program's host functions run on a
// thread of CUDA's, and may wake it too.
#include <algorithm>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {

bool OnlyAThreadWakes(const Process& process, const ThreadState& state) {
  return state.call_id == 0 && state.os_state == OsState::kSleeping &&
         state.sleep == ThreadSleep::kThread && !process.state.timer_signals;
}

void HostFunctions(const Process& process, uint32_t node, WaitNodes* nodes) {
  for (const auto& [stream, queue] : process.streams) {
    if (queue.host_code <= queue.done) continue;
    nodes->WaitDiscouraged(node, DoneUpTo(process, {stream, queue.host_code}, nodes),
                           Reason::kNotCalled);
  }
}

void KnownHostFunctions(const Process& process, uint32_t node, WaitNodes* nodes) {
  for (const auto& [stream, queue] : process.streams) {
    if (queue.host_function <= queue.done) continue;
    nodes->Wait(node, DoneUpTo(process, {stream, queue.host_function}, nodes), Reason::kPolling);
  }
}

uint32_t Woken(const WaitView& view, const Process& process, WaitNodes* nodes) {
  const ProcessId id = process.info.process;
  uint32_t node;
  if (!nodes->Shared(NodeKind::kWoken, /*any=*/true, id, 0, &node)) return node;
  (*nodes)[node].process = id;
  for (const ThreadState& state : process.state.threads) {
    if (state.library_thread || OnlyAThreadWakes(process, state) || CarriesOut(state)) continue;
    const uint32_t thread = nodes->ThreadOf(id, state.thread);
    if (thread != kNoNode) nodes->Wait(node, thread, Reason::kNotCalled);
  }
  HostFunctions(process, node, nodes);
  const auto workers = std::count_if(process.state.threads.begin(), process.state.threads.end(),
                                     [](const ThreadState& state) { return CarriesOut(state); });
  if (workers > 0) OperationsEnd(process, static_cast<size_t>(workers), node, nodes);
  WatchedEnd(view, process, node, nodes);
  // All of its threads sleep so: code of the process itself is at fault.
  if ((*nodes)[node].out.empty()) {
    nodes->Wait(node, nodes->Leaf(LeafKind::kAsleep, id), Reason::kNotCalled);
  }
  return node;
}

}  // namespace gordian::model::rules
