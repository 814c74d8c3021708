#include "analyzer/model/facts/signal_merge.h"

#include <algorithm>

#include "analyzer/model/facts/state_block.h"

namespace gordian::model {
namespace {

NumberKind KindOf(Call call) {
  return call == Call::kWaitSignal ? NumberKind::kSignalsAwaited : NumberKind::kSignalsSent;
}

}  // namespace

SignalMerge::SignalMerge(ExecutionGraph* execution, Process* process, uint64_t now_ns)
    : execution_(*execution), process_(*process), block_(*process->block), now_ns_(now_ns) {}

bool SignalMerge::Tellable() const {
  if (!block_.signals || block_.numbers_incomplete) return false;
  return std::all_of(block_.streams.begin(), block_.streams.end(), [](const PendingStream& stream) {
    return stream.whole && stream.gap_last == 0 &&
           std::all_of(stream.pending.begin(), stream.pending.end(),
                       [](const PendingOperation& operation) {
                         return !IsSignal(operation.call) || operation.channel_known;
                       });
  });
}

const LocalComm* SignalMerge::Known(CommId id) const {
  const auto it = process_.comms.find(id);
  const bool known = it != process_.comms.end() && it->second.index >= 0 && it->second.rank >= 0;
  return known ? &it->second : nullptr;
}

bool SignalMerge::Captured(CommId comm) const {
  const CalledNumbers* const numbers = block_.FindNumbers(comm, NumberKind::kCollective, -1);
  return numbers == nullptr || numbers->captured;
}

void SignalMerge::Pending() {
  process_.signals_counted = Tellable();
  if (!process_.signals_counted) return;
  // A lost record may have been about signals in graphs.
  for (const CalledNumbers& numbers : block_.numbers) {
    if (!IsSignals(numbers.kind) || !Captured(numbers.comm) || block_.only_work_lost) continue;
    if (const LocalComm* const local = Known(numbers.comm))
      execution_.matcher_.comms()[local->index].signals_unseen = true;
  }
  for (const PendingStream& stream : block_.streams) {
    for (const PendingOperation& operation : stream.pending) {
      if (IsSignal(operation.call)) One(stream, operation);
    }
  }
}

void SignalMerge::One(const PendingStream& stream, const PendingOperation& operation) {
  const LocalComm* const local = Known(operation.comm);
  if (local == nullptr || operation.count == 0 || operation.count > UINT32_MAX) return;
  Communicator& comm = execution_.matcher_.comms()[local->index];
  if (operation.root_or_peer < 0 || operation.root_or_peer >= comm.nranks) return;
  const StreamPosition position = {stream.stream, operation.ordinal};
  if (operation.ordinal <= execution_.Stream(process_, stream.stream, -1).done)
    return;  // it is over
  const NumberKind kind = KindOf(operation.call);
  pending_[{operation.comm, kind, operation.root_or_peer, operation.channel}].emplace(
      operation.sequence, operation.count);
  const SignalUse use{operation.root_or_peer, operation.channel, operation.count,
                      static_cast<uint32_t>(operation.sequence)};
  SignalCalls& line =
      SignalsOf(comm, local->rank, kind == NumberKind::kSignalsAwaited, use.peer, use.channel);
  auto at = line.calls.begin();  // in the order of the calls
  while (at != line.calls.end() && NumberAhead(at->number, use.number) < 0) ++at;
  if (at != line.calls.end() && at->number == use.number) {
    Launch* const launch = execution_.launches_.Find(at->launch);
    if (launch != nullptr)
      execution_.PlaceFromState(process_, *launch,
                                position);  // only where it went was lost, if anything
    return;
  }
  Launch& launch = execution_.launches_.Add();
  launch.process = process_.info.process;
  launch.comm = operation.comm;
  launch.comm_index = local->index;
  launch.in_group = operation.in_group;
  launch.from_state = true;
  launch.time_ns = now_ns_;
  launch.signal = std::make_unique<SignalOperation>();
  launch.signal->call = operation.call;
  launch.signal->rank = local->rank;
  launch.signal->site = operation.site;
  launch.signal->order = operation.launch;
  launch.signal->uses.push_back(use);
  line.calls.insert(at, {launch.id, use.count, use.number});
  execution_.PlaceFromState(process_, launch, position);
}

bool SignalMerge::IsOver(const Launch& launch) const {
  if (!process_.signals_counted || launch.comm_index < 0 || launch.signal->uses.empty())
    return false;
  const NumberKind kind = KindOf(launch.signal->call);
  return std::all_of(
      launch.signal->uses.begin(), launch.signal->uses.end(), [&](const SignalUse& use) {
        const CalledNumbers* const numbers =
            block_.FindNumbers(launch.comm, kind, use.peer, use.channel);
        if (numbers == nullptr || NumberAhead(use.number, numbers->Launched()) >= 0) return false;
        const auto line = pending_.find({launch.comm, kind, use.peer, use.channel});
        return line == pending_.end() ||
               std::none_of(line->second.begin(), line->second.end(), [&](const auto& entry) {
                 return static_cast<uint32_t>(entry.first) == use.number;
               });
      });
}

bool SignalMerge::IsUncounted(const Launch& launch) const {
  if (!process_.signals_counted || launch.comm_index < 0) return false;
  return std::all_of(
      launch.signal->uses.begin(), launch.signal->uses.end(), [&](const SignalUse& use) {
        const CalledNumbers* const numbers =
            block_.FindNumbers(launch.comm, KindOf(launch.signal->call), use.peer, use.channel);
        return numbers == nullptr || NumberAhead(use.number, numbers->next) >= 0;
      });
}

void SignalMerge::Count() {
  if (!process_.signals_counted) return;
  for (const CalledNumbers& numbers : block_.numbers) {
    const LocalComm* const local = IsSignals(numbers.kind) ? Known(numbers.comm) : nullptr;
    if (local == nullptr) continue;
    Communicator& comm = execution_.matcher_.comms()[local->index];
    if (numbers.peer < 0 || numbers.peer >= comm.nranks) continue;
    const uint64_t launched = numbers.Launched();
    uint64_t done = launched;
    const auto line = pending_.find({numbers.comm, numbers.kind, numbers.peer, numbers.channel});
    if (line != pending_.end()) {
      for (const auto& [number, count] : line->second) {
        if (number < launched) done -= std::min({done, count, launched - number});
      }
    }
    SignalCalls& calls = SignalsOf(comm, local->rank, numbers.kind == NumberKind::kSignalsAwaited,
                                   numbers.peer, numbers.channel);
    // Records that are newer than the numbers know of more.
    calls.done = NumberAhead(calls.done_to, launched) > 0 ? std::max(calls.done, done) : done;
    calls.told = launched;
  }
}

}  // namespace gordian::model
