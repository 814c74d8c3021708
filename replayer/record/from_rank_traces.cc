#include "replayer/record/from_rank_traces.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "analyzer/importers/whole_operations.h"
#include "analyzer/model/collective.h"
#include "common/version.h"
#include "replayer/write/identifier.h"

namespace gordian::replayer {
namespace {

using importers::FlightEntry;
using importers::FlightGroup;
using importers::NcclCall;
using importers::WholeOperation;

constexpr uint8_t kSum = 0;
constexpr size_t kUsualDevices = 8;  // of the emulator
// Of one buffer: more than any gradient bucket, and no more than a small GPU has free.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

class RankTraceSchedule {
 public:
  RankTraceSchedule(const std::vector<importers::RankTrace>& traces, std::string source)
      : traces_(traces),
        whole_(importers::FindWholeOperations(traces)),
        source_(std::move(source)) {}

  Extracted Run() {
    Extracted extracted;
    ChooseOperations();
    if (repeated_.empty()) {
      extracted.refused.push_back(
          "no operation is in the traces of all members of its process group, with a number (Seq) "
          "and a known size");
      return extracted;
    }
    MakeRanks();
    MakeComms();
    for (const importers::RankTrace& trace : traces_) WriteRank(trace);
    Originate();
    extracted.schedule = std::move(schedule_);
    return extracted;
  }

 private:
  void ChooseOperations() {
    for (const WholeOperation& operation : whole_.operations) {
      const FlightGroup& group = *whole_.groups.at(operation.group);
      const std::optional<NcclCall> call =
          importers::NcclCallOf(*operation.by_rank.begin()->second);
      if (!call || call->count == 0 || !importers::AtAllMembers(operation, group)) continue;
      ++chosen_;
      members_[operation.group] = group.ranks;
      for (const auto& [rank, member] : operation.by_rank) repeated_.insert(member);
    }
  }

  void MakeRanks() {
    std::set<int> ranks;
    for (const auto& [key, members] : members_) ranks.insert(members.begin(), members.end());
    for (const int rank : ranks) {
      RankProgram& program = schedule_.ranks.emplace_back();
      program.rank = rank;
      program.device = static_cast<int>(place_of_.size());
      place_of_.emplace(rank, static_cast<int>(place_of_.size()));
    }
  }

  void MakeComms() {
    UniqueNames names;
    for (const auto& [key, members] : members_) {
      const FlightGroup& group = *whole_.groups.at(key);
      Communicator& comm = schedule_.comms.emplace_back();
      comm.label = group.description;
      comm.name = names.Take(
          Identifier(group.description.empty() ? "group_" + group.name : group.description));
      for (const int member : members) comm.members.push_back(place_of_.at(member));
      comm.ready = true;
      comm.connected = true;
      comm_of_.emplace(key, static_cast<int>(comm_of_.size()));
    }
  }

  void WriteRank(const importers::RankTrace& trace) {
    const auto place = place_of_.find(trace.dump.rank);
    if (place == place_of_.end()) return;
    RankProgram& program = schedule_.ranks[static_cast<size_t>(place->second)];
    std::vector<Op>& ops = program.threads.emplace_back().ops;
    std::map<int, int> streams;  // by communicator
    for (const FlightEntry& entry : trace.dump.entries) {
      if (!repeated_.contains(&entry)) continue;
      const NcclCall call = *importers::NcclCallOf(entry);
      const OpKind kind = KindOf(call.call);
      const int comm = comm_of_.at(entry.group);
      const auto [stream, fresh] = streams.try_emplace(comm, static_cast<int>(streams.size()));
      if (fresh)
        program.streams.push_back({.name = "s" + std::to_string(streams.size()),
                                   .kind = StreamKind::kNonBlocking,
                                   .device = 0});
      Op op;
      op.id = next_id_++;
      op.kind = kind;
      op.comm = comm;
      op.stream = stream->second;
      op.symbol = entry.operation;
      op.datatype = call.datatype;
      op.count = Count(call, members_.at(entry.group).size());
      if (Reduces(kind)) op.reduce_op = kSum;
      if (HasRoot(kind)) op.root_or_peer = 0;
      rooted_ = rooted_ || HasRoot(kind);
      ops.push_back(std::move(op));
    }
  }

  uint64_t Count(const NcclCall& call, size_t members) {
    const uint64_t most = kMostBytes / model::DatatypeBytes(call.datatype) /
                          model::LargestBuffer(call.call, /*count=*/1, members);
    cut_ = cut_ || call.count > most;
    return std::min(call.count, most);
  }

  void Originate() {
    Origin& origin = schedule_.origin;
    origin.source = source_;
    origin.gordian_version = std::string(kVersion);
    origin.ranks = static_cast<size_t>(traces_.front().world);
    origin.ranks = std::max(origin.ranks, traces_.size());
    for (const importers::RankTrace& trace : traces_) {
      origin.operations += trace.dump.entries.size();
      transfers_ += trace.transfers;
    }
    origin.records = origin.operations;
    std::vector<std::string>& notes = origin.notes;
    notes.push_back(
        "made from traces of PyTorch's profiler: the collectives that all members recorded, "
        "without "
        "the kernels and waits between them");
    notes.push_back(
        "guessed: one stream for each process group, as in PyTorch, and one thread a rank; every "
        "reduction is a sum" +
        std::string(rooted_ ? "; roots are the first members" : ""));
    const size_t left_out = whole_.left_out + whole_.operations.size() - chosen_;
    if (left_out > 0)
      notes.push_back(
          "left out: " + std::to_string(left_out) +
          " collectives, of batches, without a number (Seq), of a size that may differ, "
          "or not in the traces of all members");
    if (transfers_ > 0)
      notes.push_back("left out: " + std::to_string(transfers_) + " sends and receives");
    if (cut_) notes.push_back("buffers above 1 GiB are reduced to that");
    if (schedule_.ranks.size() > kUsualDevices)
      schedule_.environment.emplace_back("GORDIAN_EMU_DEVICES",
                                         std::to_string(schedule_.ranks.size()));
  }

  const std::vector<importers::RankTrace>& traces_;
  const importers::WholeOperations whole_;
  const std::string source_;
  std::set<const FlightEntry*> repeated_;
  size_t chosen_ = 0, transfers_ = 0;
  std::map<std::string, std::vector<int>> members_;  // by group: ranks of the job
  std::map<int, int> place_of_;                      // of a rank in Schedule::ranks
  std::map<std::string, int> comm_of_;
  bool rooted_ = false, cut_ = false;
  OpId next_id_ = 1;
  Schedule schedule_;
};

}  // namespace

Extracted ScheduleRankTraces(const std::vector<importers::RankTrace>& traces,
                             const std::string& source) {
  return RankTraceSchedule(traces, source).Run();
}

}  // namespace gordian::replayer
