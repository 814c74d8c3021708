#include "cli/doctor/recovery_outlook.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/ingest/graph_events.h"
#include "analyzer/model/collective.h"
#include "analyzer/model/verdict/names.h"
#include "analyzer/model/verdict/recovery_check.h"

namespace gordian::cli {
namespace {

using model::Call;
using model::RecoveryCondition;

constexpr uint8_t kUserMadeOperator = 254;  // ring::OperationPayload::reduce_op

}  // namespace

bool CommOutlook::None() const {
  return std::any_of(hindrances.begin(), hindrances.end(),
                     [&](const Hindrance& one) { return one.operations == 0; });
}

void RecoveryOutlook::OnRecord(const model::JobModel& model, const model::CallRecord& record) {
  const model::Process* const process = model.execution().Find(record.process);
  const auto local = process == nullptr ? decltype(process->comms.begin()){}
                                        : process->comms.find(model::CommOf(record));
  if (process == nullptr || local == process->comms.end() || local->second.index < 0) return;
  const std::pair key(record.process, local->first);
  if (record.call == Call::kCommWindowRegister) registered_.insert(key);
  if (!model::IsOperation(record.call) || record.kind != model::RecordKind::kBegin) return;
  const auto& operation = record.As<ring::OperationPayload>();
  Seen& seen = seen_[local->second.index];
  ++seen.operations;
  const auto note = [&](RecoveryCondition condition, std::string why) {
    const auto [found, is_new] = seen.found.try_emplace({condition, std::move(why)});
    ++found->second.operations;
    if (!is_new) return;
    found->second.process = record.process;
    found->second.site = record.call_site;
  };
  const std::string name = model::Name(record.call);
  if ((record.flags & model::kCapturing) != 0) {
    return note(RecoveryCondition::kAbort, name + " is captured into a CUDA graph");
  }
  if ((record.flags & model::kNonBlockingComm) != 0) {
    return note(RecoveryCondition::kAbort, name + " is launched when NCCL likes");
  }
  if (!model::FinishesTogether(record.call)) {
    return note(RecoveryCondition::kIntact, name + " can be finished at one end alone");
  }
  if (operation.reduce_op == kUserMadeOperator) {
    return note(RecoveryCondition::kAbort, name + " has an operator of the program's own");
  }
  const auto stream = process->streams.find(operation.stream);
  if (stream != process->streams.end() && (stream->second.flags & model::kStreamPerThread) != 0) {
    return note(RecoveryCondition::kAbort, name + " is on a thread's own default stream");
  }
  if ((record.flags & model::kInPlace) == 0) return;
  ++seen.in_place;
  seen.copy_bytes =
      std::max(seen.copy_bytes, operation.count * model::DatatypeBytes(operation.datatype));
}

void RecoveryOutlook::AtEnd(const model::JobModel& model, analyzer::CallSites* sites) {
  const model::Names names(model.execution(), model.matcher());
  const auto count = static_cast<int>(model.matcher().comms().size());
  for (int index = 0; index < count; ++index) {
    if (!model.matcher().comms()[index].host) Judge(model, names, index, sites);
  }
}

void RecoveryOutlook::Judge(const model::JobModel& model, const model::Names& names, int index,
                            analyzer::CallSites* sites) {
  const model::Communicator& comm = model.matcher().comms()[index];
  const Seen& seen = seen_[index];
  CommOutlook& out = communicators_.emplace_back();
  out.name = names.Comm(index);
  out.ranks = names.Members(index).ranks;
  out.size = comm.nranks;
  out.operations = seen.operations;
  out.in_place = seen.in_place;
  out.copy_bytes = seen.copy_bytes;
  const auto of_all = [&](RecoveryCondition condition, std::string why, int rank = -1) {
    out.hindrances.push_back({.condition = condition, .why = std::move(why), .rank = rank});
  };
  std::set<uint32_t> nodes;
  std::set<model::ProcessId> processes;
  size_t unseen = 0;
  int shares = -1, lossy = -1, elsewhere = -1, registered = -1;
  for (int r = 0; r < comm.nranks; ++r) {
    const model::CommMember& member = comm.members[static_cast<size_t>(r)];
    const model::Process* const process =
        member.known ? model.execution().Find(member.process) : nullptr;
    if (process == nullptr) {
      ++unseen;
      continue;
    }
    const int rank = names.MemberRank(index, r);
    const std::pair key(member.process, member.comm);
    nodes.insert(member.process / analyzer::kProcessesOfNode);
    if (!processes.insert(member.process).second) shares = rank;
    if (process->Lossy() || process->merger.incomplete()) lossy = rank;
    if (registered_.contains(key)) registered = rank;
    const auto local = process->comms.find(member.comm);
    if (local == process->comms.end()) continue;
    if (local->second.elsewhere) elsewhere = rank;
  }
  if (unseen > 0)
    of_all(RecoveryCondition::kOneHost, fmt::format("{} of its {} members {} not seen", unseen,
                                                    comm.nranks, unseen == 1 ? "was" : "were"));
  if (nodes.size() > 1)
    of_all(RecoveryCondition::kOneHost, fmt::format("its members are on {} hosts", nodes.size()));
  if (shares >= 0)
    of_all(RecoveryCondition::kOneHost, "one process holds several of its members", shares);
  if (lossy >= 0) of_all(RecoveryCondition::kSeen, "records were lost", lossy);
  if (comm.opaque || comm.any_source)
    of_all(RecoveryCondition::kSeen, "not all of its operations can be followed");
  if (registered >= 0)
    of_all(RecoveryCondition::kAbort, "memory is registered with it", registered);
  if (elsewhere >= 0)
    of_all(RecoveryCondition::kAbort, "gordian's runtime has it already", elsewhere);
  if (comm.collective_mismatch >= 0 || comm.operator_mismatch >= 0 || comm.transfer_mismatch >= 0)
    of_all(RecoveryCondition::kAgree, "members called different operations");
  for (const auto& [key, found] : seen.found) {
    out.hindrances.push_back({.condition = key.first,
                              .why = key.second,
                              .operations = found.operations,
                              .rank = names.Rank(found.process),
                              .site = sites->Describe({found.process, found.site})});
  }
}

}  // namespace gordian::cli
