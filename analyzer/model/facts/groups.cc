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
  for (LaunchId id : thread.group_launches) {
    Launch* const found = launches_.Find(id);
    if (found == nullptr) continue;
    Launch& launch = *found;
    if (std::find(launch.streams.begin(), launch.streams.end(), enqueue.stream) !=
        launch.streams.end()) {
      PlaceLaunch(process, launch, position);
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
  for (LaunchId id : thread.group_launches) {
    Launch* const launch = launches_.Find(id);
    if (launch == nullptr || launch->enqueued) continue;
    launch->follows = false;
    Enqueued(process, *launch);
    if (launch->signal != nullptr && launch->positions.empty()) UnplacedSignal(id);
  }
  thread.group_launches.clear();
  thread.group_call = 0;
  thread.capturing.clear();
}

void ExecutionGraph::ApplyGroupEnd(Process& process, Thread& thread, const CallRecord& record) {
  const int32_t result = record.As<ring::EndPayload>().result;
  std::vector<LaunchId> ids = std::move(thread.group_launches);
  thread.group_launches.clear();
  std::vector<PendingInit> inits = std::move(thread.group_inits);
  thread.group_inits.clear();
  thread.group_call = 0;
  thread.group = 0;
  thread.in_group_end = false;
  for (LaunchId id : ids) {
    Launch* const found = launches_.Find(id);
    if (found == nullptr) continue;
    Launch& launch = *found;
    if (!Took(result)) {
      DropLaunch(id, launch.open_positions > 0);
      continue;
    }
    if (launch.signal != nullptr) {
      launch.enqueued = true;
      if (launch.positions.empty()) {
        UnplacedSignal(id);
      } else if (launch.open_positions == 0) {
        LaunchDone(id);
      }
      continue;
    }
    if (result == kInProgress) Deferred(process, &launch);
    for (const Part& part : launch.parts) NoteUsed(process, launch.comm, part);
    OrderAmongComms(process, thread, record, launch);
    if (launch.streams.empty()) {
      LaunchDone(id);
      continue;
    }
    if (launch.positions.size() < launch.streams.size()) launch.follows = false;
    Enqueued(process, launch);
    if (launch.follows && launch.open_positions == 0) LaunchDone(id);
  }
  for (const Capturing& captured : std::exchange(thread.capturing, {})) {
    if (Took(result)) NoteUsed(process, captured.comm, captured.part);
  }
  for (const PendingInit& init : inits) {
    if (result == 0) matcher_.InitDone(init.uid, init.rank);
    for (auto& [id, comm] : process.comms)
      comm.unsettled |= result == kInProgress && comm.uid == init.uid;
  }
}

}  // namespace gordian::model
