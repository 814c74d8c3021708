#include "analyzer/exporters/operation_log.h"

#include <algorithm>

#include "analyzer/model/verdict/names.h"
#include "analyzer/model/waits/wait_for_graph.h"

namespace gordian::exporters {
namespace {

using model::MemberSlot;
using model::PartKind;
using model::PartRef;
using model::SlotState;

// Whether nothing unfinished stands before the launch: on its streams, or on its communicator.
bool HasStarted(const model::ExecutionGraph& execution, const model::Process& process,
                const model::Launch& launch) {
  if (launch.positions.empty() || !launch.enqueued) return false;
  if (execution.FindLaunch(launch.previous_on_comm) != nullptr) return false;
  return std::none_of(
      launch.positions.begin(), launch.positions.end(), [&](const model::StreamPosition& at) {
        return at.ordinal > 1 &&
               model::ExecutionGraph::ItemAt(process, {at.stream, at.ordinal - 1}) != nullptr;
      });
}

bool IsProblem(model::VerdictKind kind) {
  return kind != model::VerdictKind::kHealthy && kind != model::VerdictKind::kFinished &&
         kind != model::VerdictKind::kInconclusive;
}

std::string Counted(uint64_t count, const char* what) {
  return std::to_string(count) + (count == 1 ? " operation " : " operations ") + what;
}

}  // namespace

const char* Name(Progress progress) {
  switch (progress) {
    case Progress::kCalled:
      return "called";
    case Progress::kStarted:
      return "started";
    case Progress::kDone:
      return "done";
    case Progress::kAborted:
      return "aborted";
  }
  return "";
}

void OperationLog::OnRecord(const model::JobModel& model, const model::CallRecord& record) {
  if (first_ns_ == 0) first_ns_ = record.time_ns;
  last_ns_ = std::max(last_ns_, record.time_ns);
  if (sink_ != nullptr) sink_->OnRecord(record);
  if (wants_ == Wants::kStreamOrder) stream_order_.OnRecord(record);
  if (record.kind == model::RecordKind::kEnd) return OnEnd(record);
  if (record.kind != model::RecordKind::kBegin) return;
  if (record.call == model::Call::kGroupEnd) {
    callers_[{record.process, record.thread}].group = record.As<ring::GroupPayload>().group;
  } else if (model::IsOperation(record.call)) {
    OnOperation(model, record);
  }
}

void OperationLog::OnOperation(const model::JobModel& model, const model::CallRecord& record) {
  const auto& call = record.As<ring::OperationPayload>();
  if ((record.flags & model::kCapturing) != 0) {
    ++captured_;
    return;
  }
  const model::Process* const process = model.execution().Find(record.process);
  if (process == nullptr) return;
  const auto local = process->comms.find(call.comm);
  if (local == process->comms.end() || local->second.index < 0 || local->second.rank < 0) {
    ++unplaced_;
    return;
  }
  Caller& caller = callers_[{record.process, record.thread}];
  Entry entry;
  entry.part.kind = model::PartKindOf(record.call);
  entry.part.comm = local->second.index;
  entry.part.rank = local->second.rank;
  entry.part.peer = entry.part.kind == PartKind::kCollective ? -1 : call.root_or_peer;
  entry.part.sequence = call.sequence;
  LoggedOperation& operation = entry.operation;
  operation.process = record.process;
  operation.call = record.call;
  operation.group = entry.part.comm;
  operation.member = entry.part.rank;
  operation.root_or_peer = call.root_or_peer;
  operation.sequence = call.sequence;
  operation.count = call.count;
  operation.datatype = call.datatype;
  operation.reduce_op = call.reduce_op;
  operation.stream = call.stream;
  operation.thread = record.thread;
  operation.order = record.order;
  operation.called_ns = record.time_ns;
  operation.site_address = record.call_site;
  const bool in_group = (record.flags & model::kInGroup) != 0;
  if (in_group) {
    if (caller.in_group.empty()) ++caller.batch;
    operation.batch = caller.batch;
  }
  entry.seen = model.matcher().Slot(entry.part) != nullptr;
  const Handle handle{Place(std::move(entry)), record.order};
  if (in_group) caller.in_group.push_back(handle);
  caller.open = handle;
}

// The new entry is open.
size_t OperationLog::Place(Entry entry) {
  size_t place = entries_.size();
  if (free_.empty()) {
    entries_.push_back(std::move(entry));
  } else {
    place = free_.back();
    free_.pop_back();
    entries_[place] = std::move(entry);
  }
  open_.push_back(place);
  return place;
}

void OperationLog::Refuse(const model::CallRecord& by, const Handle& handle) {
  Entry& entry = entries_[handle.place];
  const LoggedOperation& operation = entry.operation;
  if (operation.process == by.process && operation.order == handle.order) entry.refused = true;
}

void OperationLog::OnEnd(const model::CallRecord& record) {
  const auto caller = callers_.find({record.process, record.thread});
  if (caller == callers_.end()) return;
  const bool took = model::Took(record.As<ring::EndPayload>().result);
  std::vector<Handle>& in_group = caller->second.in_group;
  std::optional<Handle>& open = caller->second.open;
  if (record.call == model::Call::kGroupEnd) {
    for (const Handle& handle : in_group) {
      if (!took) Refuse(record, handle);
    }
    in_group.clear();
  } else if (model::IsOperation(record.call) && open) {
    if (!took && entries_[open->place].operation.call == record.call) Refuse(record, *open);
    open.reset();
  }
}

void OperationLog::OnEvent(const model::JobModel& model, const v1::Event& event) {
  if (event.has_process_started())
    pids_[event.process_started().process()] = event.process_started().pid();
  if (sink_ != nullptr) sink_->OnEvent(event);
  if (event.has_round()) {
    last_ns_ = std::max<uint64_t>(last_ns_, event.round().end_ns());
    Settle(model);
    if (wants_ == Wants::kWaitForGraph) Draw(model, event.round().begin_ns());
  }
}

// Draws the round's waits. A problem's are not drawn anew: what hung may have been ended.
void OperationLog::Draw(const model::JobModel& model, uint64_t now_ns) {
  if (drawn_proof_) return;
  const model::Finding verdict = model.Current().main;
  const bool problem = IsProblem(verdict.verdict);
  const bool proof = problem && verdict.confidence == model::Confidence::kConfirmed;
  if (drawn_problem_ && !proof) return;
  drawn_problem_ = problem;
  drawn_proof_ = proof;
  const model::ModelOptions options;
  const model::WaitForGraph graph(model.execution(), model.matcher(), options, now_ns);
  waits_ = model::DrawWaits(graph, model::Names(model.execution(), model.matcher()),
                            graph.Decide(model::LeafMask{0}));
}

// Finds out which of the open operations are done by now.
void OperationLog::Settle(const model::JobModel& model) {
  std::vector<size_t> settled;
  std::erase_if(open_, [&](size_t place) {
    Entry& entry = entries_[place];
    if (entry.refused) {
      ++refused_;
      if (sink_ != nullptr) free_.push_back(place);
      return true;
    }
    const MemberSlot* const slot = model.matcher().Slot(entry.part);
    if (slot != nullptr && slot->order == entry.operation.order &&
        slot->state == SlotState::kCalled) {
      entry.seen = true;
      return false;
    }
    if (slot != nullptr && slot->state == SlotState::kAborted) {
      entry.operation.progress = Progress::kAborted;
      settled.push_back(place);
      return true;
    }
    // It is gone when it is done at every member; one that the model never knew says nothing.
    if (!entry.seen && slot == nullptr) return false;
    entry.operation.progress = Progress::kDone;
    entry.operation.done_ns = last_ns_;
    settled.push_back(place);
    return true;
  });
  if (sink_ != nullptr) HandOver(&settled);
}

void OperationLog::HandOver(std::vector<size_t>* settled) {
  std::sort(settled->begin(), settled->end(), [&](size_t a, size_t b) {
    return entries_[a].operation.order < entries_[b].operation.order;
  });
  for (const size_t place : *settled) {
    const LoggedOperation& operation = entries_[place].operation;
    free_.push_back(place);
    if (keep_ == 0) {
      sink_->OnOperation(operation);
      continue;
    }
    std::deque<LoggedOperation>& last = last_[operation.process];
    last.push_back(operation);
    if (last.size() > keep_) last.pop_front();
  }
}

// Adds unfinished operations that no record told of: launched by graphs, or known from the state
// block of a process whose records were lost.
void OperationLog::AddUnlogged(const model::JobModel& model) {
  std::set<PartKey> logged;
  for (const size_t place : open_) logged.insert(KeyOf(entries_[place].part));
  const auto add = [&](const PartRef& part, const MemberSlot& slot) {
    if (slot.state != SlotState::kCalled || logged.count(KeyOf(part)) > 0) return;
    const model::Launch* const launch = model.execution().FindLaunch(slot.launch);
    if (launch == nullptr) return;
    Entry entry;
    entry.part = part;
    entry.seen = true;
    LoggedOperation& operation = entry.operation;
    operation.process = launch->process;
    operation.call = slot.signature.call;
    operation.group = part.comm;
    operation.member = part.rank;
    operation.root_or_peer = part.kind == PartKind::kCollective ? slot.signature.root : part.peer;
    operation.sequence = part.sequence;
    operation.count = slot.signature.count;
    operation.datatype = slot.signature.datatype;
    operation.reduce_op = slot.signature.reduce_op;
    operation.stream = launch->streams.empty() ? 0 : launch->streams.front();
    operation.thread = launch->thread;
    operation.order = slot.order;
    operation.called_ns = slot.time_ns;
    operation.site_address = slot.site;
    Place(std::move(entry));
  };
  const std::vector<model::Communicator>& comms = model.matcher().comms();
  for (size_t c = 0; c < comms.size(); ++c) {
    const int comm = static_cast<int>(c);
    for (const auto& [sequence, instance] : comms[c].instances) {
      for (size_t rank = 0; rank < instance.members.size(); ++rank) {
        add({PartKind::kCollective, comm, static_cast<int>(rank), -1, sequence},
            instance.members[rank]);
      }
    }
    for (const auto& [pair, by_sequence] : comms[c].transfers) {
      for (const auto& [sequence, transfer] : by_sequence) {
        add({PartKind::kSend, comm, pair.first, pair.second, sequence}, transfer.send);
        add({PartKind::kReceive, comm, pair.second, pair.first, sequence}, transfer.receive);
      }
    }
  }
}

void OperationLog::ResolveVerdict(const model::Verdict& verdict, analyzer::CallSites* sites) {
  const auto add = [&](const model::Site& site) {
    if (site.address == 0) return;
    const analyzer::CallSite found = sites->Resolve(site.process, site.address);
    const auto [known, added] =
        verdict_sites_.try_emplace(analyzer::ShortForm(found, site.address), found);
    if (!added && known->second.file != found.file) known->second.file.clear();
  };
  std::vector<const model::Finding*> findings = {&verdict.main};
  for (const model::Finding& finding : verdict.findings) findings.push_back(&finding);
  for (const model::Finding* finding : findings) {
    for (const model::WaitEdge& edge : finding->cycle) add(edge.site);
    for (const model::StuckOperation& operation : finding->operations) {
      for (const model::OperationMember& member : operation.members) add(member.site);
    }
  }
}

void OperationLog::AtEnd(const model::JobModel& model, analyzer::CallSites* sites) {
  if (wants_ == Wants::kVerdictSites) ResolveVerdict(model.Current(), sites);
  Settle(model);
  AddUnlogged(model);
  const model::ExecutionGraph& execution = model.execution();
  uint64_t unknown = 0;
  for (const size_t place : open_) {
    Entry& entry = entries_[place];
    const MemberSlot* const slot = model.matcher().Slot(entry.part);
    unknown += slot == nullptr ? 1 : 0;
    const model::Process* const process = execution.Find(entry.operation.process);
    const model::Launch* const launch =
        slot == nullptr ? nullptr : execution.FindLaunch(slot->launch);
    if (process != nullptr && launch != nullptr && HasStarted(execution, *process, *launch))
      entry.operation.progress = Progress::kStarted;
  }
  Hand(model, sites);
  if (sink_ != nullptr) {
    for (const auto& [process, last] : last_) {
      for (const LoggedOperation& operation : last) sink_->OnOperation(operation);
    }
    std::sort(open_.begin(), open_.end(), [&](size_t a, size_t b) {
      return entries_[a].operation.order < entries_[b].operation.order;
    });
    for (const size_t place : open_) {
      if (!entries_[place].refused) sink_->OnOperation(entries_[place].operation);
    }
    entries_ = {};
    sink_->AtEnd(model, sites);
  }
  if (captured_ > 0) {
    notes_.push_back(Counted(captured_,
                             "captured into CUDA graphs: of what graphs launched only the "
                             "unfinished is there"));
  }
  if (unplaced_ > 0)
    notes_.push_back(Counted(unplaced_, "on communicators that are not known are left out"));
  if (refused_ > 0) notes_.push_back(Counted(refused_, "that NCCL refused are left out"));
  if (unknown > 0)
    notes_.push_back(Counted(unknown, "of which nothing tells how far they got count as called"));
}

// Hands the entries to their ranks, under the ranks' numbers in the job.
void OperationLog::Hand(const model::JobModel& model, analyzer::CallSites* sites) {
  const model::Names names(model.execution(), model.matcher());
  const std::vector<model::Communicator>& comms = model.matcher().comms();
  for (const auto& [process, rank] : model.Ranks()) ranks_[rank].pid = pids_[process];
  for (size_t c = 0; c < comms.size(); ++c) {
    LoggedGroup group;
    group.name = names.CommName(static_cast<int>(c));
    group.given = comms[c].name;
    group.unsure = comms[c].opaque || comms[c].unsure;
    for (size_t member = 0; member < comms[c].members.size(); ++member) {
      const int rank = names.MemberRank(static_cast<int>(c), static_cast<int>(member));
      group.ranks.push_back(rank);
      group.known.push_back(comms[c].members[member].known);
      group.called.push_back(comms[c].members[member].next_sequence);
      if (!comms[c].members[member].known) continue;
      group.seen.insert(rank);
      ranks_[rank].pid = pids_[comms[c].members[member].process];
    }
    groups_.push_back(std::move(group));
  }
  if (sink_ != nullptr) return;
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.operation.order < b.operation.order;
  });
  for (Entry& entry : entries_) {
    if (entry.refused) continue;
    ranks_[names.MemberRank(entry.part.comm, entry.part.rank)].operations.push_back(
        std::move(entry.operation));
  }
  entries_ = {};
  for (auto& [number, rank] : ranks_) {
    size_t extra =
        keep_ == 0 || rank.operations.size() <= keep_ ? 0 : rank.operations.size() - keep_;
    std::erase_if(rank.operations, [&](const LoggedOperation& operation) {
      if (extra == 0) return false;
      --extra;
      return operation.progress == Progress::kDone;
    });
    for (LoggedOperation& operation : rank.operations) {
      if (operation.site_address != 0)
        operation.site = sites->Resolve(operation.process, operation.site_address);
    }
  }
}

}  // namespace gordian::exporters
