#include "replayer/record/needed_calls.h"

#include <algorithm>

namespace gordian::replayer {
namespace {

using model::Call;
using model::ProcessId;
using model::WorkKind;

class Finder {
 public:
  explicit Finder(const JobFacts& facts) : facts_(facts) {}

  NeededCalls Run() {
    NameWitness();
    ForOperations();
    ForMeetings();
    for (const auto& [id, process] : facts_.execution.processes()) {
      ForStreams(id, process);
      ForThreads(id, process);
    }
    ForDepartures();
    for (auto& [id, calls] : needed_.by_process) {
      Recordeds(id, &calls);
      Groups(id, &calls);
      Graphs(id, &calls);
    }
    return std::move(needed_);
  }

 private:
  const RecordedProcess* Recorded(ProcessId id) const {
    const auto found = facts_.recording.processes().find(id);
    return found == facts_.recording.processes().end() ? nullptr : &found->second;
  }

  void Need(ProcessId id, uint64_t order, bool witness) {
    const RecordedProcess* const recorded = Recorded(id);
    const RecordedCall* const call = recorded == nullptr ? nullptr : recorded->Find(order);
    if (call == nullptr) {
      needed_.refused.insert(
          "the record of an unfinished operation was lost: only its process's state shows it");
      return;
    }
    NeededCall& needed = needed_.by_process[id][order];
    needed.call = call;
    needed.witness = needed.witness || witness;
    if (const int comm = CommOf(facts_, id, call->comm); comm >= 0) needed_.comms.insert(comm);
    if (const int parent = CommOf(facts_, id, call->parent); parent >= 0)
      needed_.comms.insert(parent);
  }

  // Collects what the verdict names: numbers of operations on communicators, and ranks.
  void NameWitness() {
    const auto name = [&](model::CommUid uid, int64_t sequence) {
      if (sequence < 0) return;
      for (size_t i = 0; i < facts_.matcher.comms().size(); ++i) {
        if (facts_.matcher.comms()[i].uid == uid)
          named_.insert({static_cast<int>(i), static_cast<uint64_t>(sequence)});
      }
    };
    const model::Finding& main = facts_.verdict.main;
    for (const model::WaitEdge& edge : main.cycle) {
      name(edge.comm, edge.sequence);
      if (edge.site.process != 0) named_processes_.insert(edge.site.process);
    }
    for (const model::StuckOperation& operation : main.operations)
      name(operation.comm, operation.sequence);
    all_ = named_.empty();
  }
  bool Named(int comm, uint64_t sequence) const {
    return all_ || named_.contains({comm, sequence});
  }
  bool NamedProcess(ProcessId id) const {
    return named_processes_.empty() || named_processes_.contains(id);
  }

  void ForOperations() {
    for (const auto& [id, launch] : facts_.execution.launches()) {
      if (launch.signal != nullptr)
        needed_.refused.insert("an operation of RMA is unfinished, and replays do not support it");
      for (const model::Part& part : launch.parts) {
        Need(launch.process, part.order, Named(part.ref.comm, part.ref.sequence));
      }
    }
    const auto slot = [&](const model::Communicator& comm, int rank, const model::MemberSlot& slot,
                          bool named) {
      if (slot.state == model::SlotState::kNone || rank < 0 ||
          rank >= static_cast<int>(comm.members.size()))
        return;
      const model::CommMember& member = comm.members[static_cast<size_t>(rank)];
      if (member.known && slot.order != 0) Need(member.process, slot.order, named);
    };
    for (size_t i = 0; i < facts_.matcher.comms().size(); ++i) {
      const model::Communicator& comm = facts_.matcher.comms()[i];
      const int index = static_cast<int>(i);
      for (const auto& [sequence, instance] : comm.instances) {
        for (size_t rank = 0; rank < instance.members.size(); ++rank) {
          slot(comm, static_cast<int>(rank), instance.members[rank], Named(index, sequence));
        }
      }
      for (const auto& [pair, transfers] : comm.transfers) {
        for (const auto& [sequence, transfer] : transfers) {
          slot(comm, pair.first, transfer.send, Named(index, sequence));
          slot(comm, pair.second, transfer.receive, Named(index, sequence));
        }
      }
    }
  }

  // Calls that all members must make, and that some have made.
  void ForMeetings() {
    for (const auto& [uid, init] : facts_.matcher.inits()) {
      if (init.called == init.done && init.members_known &&
          init.called == static_cast<int>(init.members.size()))
        continue;
      if (init.called == init.done) continue;  // no thread is in it
      for (const model::InitMember& member : init.members) {
        if (member.called) Need(member.process, member.order, true);
      }
      if (init.parent >= 0) needed_.comms.insert(init.parent);
    }
  }

  void ForStreams(ProcessId id, const model::Process& process) {
    for (const auto& [stream, queue] : process.streams) {
      for (const model::WorkItem& item : queue.items) {
        if (item.kind == WorkKind::kMemoryWait) {
          needed_.refused.insert(
              "a stream waits for a value in memory, and only the driver's interface can make it "
              "do");
        }
        const bool open = std::any_of(
            item.event.begin(), item.event.end(), [&](const model::StreamPosition& position) {
              return facts_.execution.ItemAt(process, position) != nullptr;
            });
        if (item.kind == WorkKind::kEventWait && open) Need(id, item.order, NamedProcess(id));
        // Work that orders blocking streams through the legacy stream (W13).
        if ((item.kind == WorkKind::kKernels || item.kind == WorkKind::kHostFunction) &&
            !item.legacy.empty()) {
          Need(id, item.order, NamedProcess(id));
        }
      }
    }
  }

  void ForThreads(ProcessId id, const model::Process& process) {
    for (const auto& [thread_id, thread] : process.threads) {
      if (thread.open) Need(id, thread.open->record.order, NamedProcess(id));
    }
    for (const model::ThreadState& state : process.state.threads) {
      if (state.call_id != 0 || state.poll_object == 0 || state.poll_count < 2 || process.ended)
        continue;
      NeededCalls::Poll poll;
      if (process.events.contains(state.poll_object)) poll.event = state.poll_object;
      for (const auto& [stream, queue] : process.streams) {
        if (poll.event == 0 && queue.handle == state.poll_object && !queue.destroyed)
          poll.stream = stream;
      }
      if (poll.event == 0 && poll.stream == 0) continue;
      needed_.polls[{id, state.thread}] = poll;
      if (const RecordedCall* record = LastRecordOf(id, poll.event, UINT64_MAX);
          record != nullptr) {
        Need(id, record->order, NamedProcess(id));
      }
    }
  }

  // Members that have left a communicator which others still use.
  void ForDepartures() {
    for (const int index : std::set<int>(needed_.comms)) {
      const model::Communicator& comm = facts_.matcher.comms()[static_cast<size_t>(index)];
      if (comm.opaque) {
        needed_.refused.insert("operations on " +
                               (comm.name.empty() ? std::string("a communicator") : comm.name) +
                               " were captured into graphs that the recorder could not follow");
      }
      for (const model::CommMember& member : comm.members) {
        if (!member.known || (!member.left && !member.aborted)) continue;
        const RecordedProcess* const recorded = Recorded(member.process);
        if (recorded == nullptr) continue;
        for (const RecordedCall& call : recorded->calls) {
          const bool leaves = call.call == Call::kCommAbort || call.call == Call::kCommDestroy ||
                              call.call == Call::kCommRevoke;
          if (leaves && call.comm == member.comm) Need(member.process, call.order, true);
        }
      }
    }
  }

  // The record of the event as of `before`; null if it was not recorded since its creation.
  const RecordedCall* LastRecordOf(ProcessId id, uint64_t event, uint64_t before) const {
    const RecordedProcess* const recorded = Recorded(id);
    if (recorded == nullptr || event == 0) return nullptr;
    for (auto call = recorded->calls.rbegin(); call != recorded->calls.rend(); ++call) {
      if (call->order >= before || call->event != event) continue;
      if (call->work == WorkKind::kEventForgotten) return nullptr;
      if (call->work == WorkKind::kEventRecord) return &*call;
    }
    return nullptr;
  }

  // The records of the events that are waited for.
  void Recordeds(ProcessId id, std::map<uint64_t, NeededCall>* calls) {
    std::vector<std::pair<const RecordedCall*, bool>> records;
    for (const auto& [order, needed] : *calls) {
      const bool waits =
          needed.call->work == WorkKind::kEventWait || needed.call->wait == model::WaitKind::kEvent;
      if (!waits) continue;
      if (const RecordedCall* record = LastRecordOf(id, needed.call->event, order);
          record != nullptr) {
        records.emplace_back(record, needed.witness);
      }
    }
    for (const auto& [record, witness] : records) {
      NeededCall& needed = (*calls)[record->order];
      needed.call = record;
      needed.witness = needed.witness || witness;
    }
  }

  // The end of each group that holds a needed call.
  void Groups(ProcessId id, std::map<uint64_t, NeededCall>* calls) {
    const RecordedProcess& recorded = *Recorded(id);
    std::vector<std::pair<const RecordedCall*, bool>> ends;
    for (const auto& [order, needed] : *calls) {
      if (!needed.call->InGroup()) continue;
      const RecordedCall* const end = recorded.GroupEndOf(*needed.call);
      if (end != nullptr) ends.emplace_back(end, needed.witness);
    }
    for (const auto& [end, witness] : ends) {
      NeededCall& needed = (*calls)[end->order];
      needed.call = end;
      needed.witness = needed.witness || witness;
    }
  }

  // The contents of the graphs that are launched.
  void Graphs(ProcessId id, std::map<uint64_t, NeededCall>* calls) {
    const RecordedProcess& recorded = *Recorded(id);
    std::map<int, bool> contents;
    for (const auto& [order, needed] : *calls) {
      if (needed.call->work == WorkKind::kGraphLaunch && needed.call->content >= 0)
        contents[needed.call->content] |= needed.witness;
    }
    for (const auto& [content, witness] : contents) {
      const uint32_t* thread = nullptr;
      for (const uint64_t order : recorded.graphs[static_cast<size_t>(content)]) {
        const RecordedCall* const call = recorded.Find(order);
        if (call == nullptr) continue;
        if (thread != nullptr && *thread != call->thread)
          needed_.refused.insert("several threads captured one graph");
        thread = &call->thread;
        (*calls)[order] = {.call = call, .witness = witness, .graph = content};
        if (const int comm = CommOf(facts_, id, call->comm); comm >= 0) needed_.comms.insert(comm);
      }
    }
    if (!contents.empty()) Groups(id, calls);
  }

  const JobFacts& facts_;
  NeededCalls needed_;
  std::set<std::pair<int, uint64_t>> named_;
  std::set<ProcessId> named_processes_;
  bool all_ = false;  // the verdict names no operation
};

}  // namespace

int CommOf(const JobFacts& facts, model::ProcessId process, uint32_t comm) {
  const model::Process* const found = facts.execution.Find(process);
  if (found == nullptr || comm == 0) return -1;
  const auto local = found->comms.find(comm);
  return local == found->comms.end() ? -1 : local->second.index;
}

NeededCalls FindNeededCalls(const JobFacts& facts) { return Finder(facts).Run(); }

}  // namespace gordian::replayer
