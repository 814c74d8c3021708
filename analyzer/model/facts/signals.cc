// RMA: the signals that ncclSignal and ncclPutSignal send, and the waits of ncclWaitSignal (W16).
#include <algorithm>
#include <utility>

#include "analyzer/model/facts/execution_graph.h"

namespace gordian::model {
namespace {

void Forget(LaunchId launch, bool done, SignalCalls* line) {
  for (auto it = line->calls.begin(); it != line->calls.end();) {
    if (it->launch != launch) {
      ++it;
      continue;
    }
    const uint32_t behind = it->number + static_cast<uint32_t>(it->count);
    if (done) {
      line->done += it->count;
      if (NumberAhead(behind, line->done_to) > 0) line->done_to = behind;
    }
    it = line->calls.erase(it);
  }
}

}  // namespace

SignalCalls& SignalsOf(Communicator& comm, int rank, bool waits, int peer, uint64_t channel) {
  SignalLine& line =
      comm.signals[waits ? SignalKey{peer, rank, channel} : SignalKey{rank, peer, channel}];
  return waits ? line.waited : line.sent;
}

bool IsSignal(Call call) {
  return call == Call::kPutSignal || call == Call::kSignal || call == Call::kWaitSignal;
}

void ExecutionGraph::ApplySignal(Process& process, Thread& thread, const CallRecord& record) {
  if (record.kind == RecordKind::kEnd) return ApplySignalEnd(process, thread, record);
  const auto& signal = record.As<ring::SignalPayload>();
  auto local = process.comms.find(signal.comm);
  const bool known =
      local != process.comms.end() && local->second.index >= 0 && local->second.rank >= 0;
  if ((record.flags & kCapturing) != 0) {
    // Sent, or waited for, each time that its graph is launched.
    if (known) matcher_.comms()[local->second.index].signals_unseen = true;
    if (record.kind == RecordKind::kBegin) thread.signal_call = 0;
    return;
  }
  const bool in_group = (record.flags & kInGroup) != 0;
  if (record.kind == RecordKind::kBegin) {
    if (in_group) {
      InGroup(process, thread, signal.group);
    } else {
      InNoGroup(process, thread);
    }
    if (!HaveRoom(process, signal.comm)) {
      thread.signal_call = 0;
      return;
    }
    Launch& launch = launches_.Add();
    launch.process = process.info.process;
    launch.thread = thread.id;
    launch.comm = signal.comm;
    launch.comm_index = known ? local->second.index : -1;
    launch.in_group = in_group;
    launch.time_ns = record.time_ns;
    launch.streams.push_back(signal.stream);
    launch.signal = std::make_unique<SignalOperation>();
    launch.signal->call = record.call;
    launch.signal->rank = known ? local->second.rank : -1;
    launch.signal->site = record.call_site;
    launch.signal->order = record.order;
    thread.signal_call = launch.id;
    if (in_group) {
      thread.group_launches.push_back(launch.id);
    } else {
      thread.open->launch = launch.id;
    }
  }
  Launch* const launch = launches_.Find(thread.signal_call);
  if (launch == nullptr || launch->signal == nullptr || launch->comm_index < 0) return;
  Communicator& comm = matcher_.comms()[launch->comm_index];
  const SignalUse use{signal.peer, SignalChannelOf(signal.index, signal.context), signal.count,
                      signal.number};
  if (use.count == 0 || use.peer < 0 || use.peer >= comm.nranks) return;
  const bool waits = record.call == Call::kWaitSignal;
  SignalCalls& line = SignalsOf(comm, launch->signal->rank, waits, use.peer, use.channel);
  // The process has accounted for it, and its record was given up for lost: it came late.
  if (line.told != 0 && NumberAhead(use.number, line.told) < 0) return;
  line.calls.push_back({launch->id, use.count, use.number});
  launch->signal->uses.push_back(use);
}

void ExecutionGraph::ApplySignalEnd(Process& process, Thread& thread, const CallRecord& record) {
  const auto& end = record.As<ring::EndPayload>();
  Launch* const launch = launches_.Find(thread.signal_call);
  thread.signal_call = 0;
  if (launch == nullptr) return;
  if (!Took(end.result)) {
    if (launch->in_group) std::erase(thread.group_launches, launch->id);
    DropLaunch(launch->id, false);
    return;
  }
  if (launch->in_group) return;  // GroupEnd launches it
  launch->enqueued = true;
  if (end.stream == 0) return UnplacedSignal(launch->id);
  PlaceLaunch(process, *launch, {end.stream, end.ordinal});
}

// Taken for whatever lets others do more: its signals have left, and it takes none.
void ExecutionGraph::UnplacedSignal(LaunchId id) {
  const Launch& launch = *launches_.Find(id);
  SignalsOver(launch, launch.signal->call != Call::kWaitSignal);
  launches_.erase(id);
}

void ExecutionGraph::SignalsOver(const Launch& launch, bool done) {
  if (launch.comm_index < 0) return;
  Communicator& comm = matcher_.comms()[launch.comm_index];
  const bool waits = launch.signal->call == Call::kWaitSignal;
  for (const SignalUse& use : launch.signal->uses) {
    Forget(launch.id, done, &SignalsOf(comm, launch.signal->rank, waits, use.peer, use.channel));
  }
}

}  // namespace gordian::model
