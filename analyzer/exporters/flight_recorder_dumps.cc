// Writes PyTorch's Flight Recorder dumps, version 2.10: a dictionary a rank.
//
// Facts of the format: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp; what its reader asks
// for: torch/distributed/flight_recorder/components. Numbers begin at 1 there. The reader finds a
// peer as a place among the group's sorted ranks, takes operations with one p2p_seq_id, up to an
// entry "coalesced", for a batch, and wants groups named alike at every rank.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/exporters/formats.h"
#include "analyzer/exporters/pickle_writer.h"
#include "analyzer/exporters/torch_operation_name.h"
#include "analyzer/exporters/torch_type_name.h"
#include "analyzer/model/collective.h"

namespace gordian::exporters {
namespace {

using model::Call;

constexpr char kVersion[] = "2.10";
constexpr char kPrefix[] = "nccl_trace_rank_";

// A group as the dumps name it.
struct Named {
  std::string name, description, ranks;
  std::vector<int> sorted;
  int64_t collectives = 0;  // the highest number of one

  int PlaceOf(int rank) const {
    const auto at = std::lower_bound(sorted.begin(), sorted.end(), rank);
    return static_cast<int>(at - sorted.begin());
  }
};

struct Entry {
  const LoggedOperation* operation = nullptr;
  bool ends_batch = false;  // "coalesced": `operation` is the batch's last
  bool done = false;
  int64_t collective = 0, p2p = 0, op = 0;
};

// Tensors of these sizes, one dimension each.
struct Tensors {
  std::vector<uint64_t> in, out;
};
Tensors TensorsOf(const LoggedOperation& operation, size_t members) {
  const uint64_t count = operation.count, all = count * members;
  switch (operation.call) {
    case Call::kAllGather:
      return {{count}, {all}};
    case Call::kReduceScatter:
      return {{all}, {count}};
    case Call::kAllToAll:
      return {{all}, {all}};
    case Call::kGather:
      return {
          {count},
          std::vector<uint64_t>(operation.member == operation.root_or_peer ? members : 0, count)};
    case Call::kScatter:
      return {
          std::vector<uint64_t>(operation.member == operation.root_or_peer ? members : 0, count),
          {count}};
    default:  // one tensor, whether it is read or written
      return {{count}, {count}};
  }
}

void WriteSizes(const std::vector<uint64_t>& sizes, PickleWriter* out) {
  out->BeginList();
  for (const uint64_t size : sizes) {
    out->BeginList();
    out->Int(static_cast<int64_t>(size));
    out->EndList();
  }
  out->EndList();
}

void WriteTypes(size_t tensors, const char* type, PickleWriter* out) {
  out->BeginList();
  for (size_t i = 0; i < tensors; ++i) out->Text(type);
  out->EndList();
}

void WriteFrames(const analyzer::CallSite& site, PickleWriter* out) {
  out->BeginList();
  if (!site.function.empty() || !site.file.empty() || !site.module.empty()) {
    out->BeginDict();
    out->Text("name");
    out->Text(site.function.empty() ? "??" : site.function);
    out->Text("filename");
    out->Text(site.file.empty() ? site.module : site.file);
    out->Text("line");
    out->Int(site.line);
    out->EndDict();
  }
  out->EndList();
}

class RankDump {
 public:
  RankDump(const Job& job, const std::vector<Named>& groups, int rank, const LoggedRank& logged)
      : job_(job), groups_(groups), rank_(rank) {
    Number(logged.operations);
  }

  std::string Pickle() {
    out_.BeginDict();
    out_.Text("version");
    out_.Text(kVersion);
    WriteGroups();
    WriteStatus();
    out_.Text("entries");
    out_.BeginList();
    for (size_t i = 0; i < entries_.size(); ++i) WriteEntry(entries_[i], static_cast<int64_t>(i));
    out_.EndList();
    out_.EndDict();
    return out_.Take();
  }

 private:
  struct Status {
    int64_t enqueued = -1, started = -1, completed = -1;
  };

  // Numbers operations as ProcessGroupNCCL does: collectives of a group and, by themselves, its
  // sends and receives, of which a batch has one number and an entry at its end. But for this: the
  // numbers of sends begin behind those of the group's collectives, since fr_trace takes neighbours
  // with one number for a batch, and fails where one is a collective.
  void Number(const std::vector<LoggedOperation>& operations) {
    std::map<int, int64_t> transfers, ops;  // by group
    for (size_t i = 0; i < operations.size(); ++i) {
      const LoggedOperation& operation = operations[i];
      Entry entry;
      entry.operation = &operation;
      entry.done = operation.progress == Progress::kDone;
      entry.op = ++ops[operation.group];
      if (!operation.IsTransfer()) {
        entry.collective = static_cast<int64_t>(operation.sequence) + 1;
        entries_.push_back(entry);
        collectives_[operation.group] = entry.collective;
        continue;
      }
      const auto same_batch = [&](const LoggedOperation& other) {
        return operation.batch != 0 && other.batch == operation.batch &&
               other.thread == operation.thread && other.group == operation.group &&
               other.IsTransfer();
      };
      size_t first = i;
      while (first > 0 && same_batch(operations[first - 1])) --first;
      size_t end = i + 1;
      while (end < operations.size() && same_batch(operations[end])) ++end;
      if (first == i) {
        const int64_t behind = groups_[static_cast<size_t>(operation.group)].collectives;
        ++transfers.try_emplace(operation.group, behind).first->second;
      }
      entry.p2p = transfers[operation.group];
      entry.collective = collectives_[operation.group];
      entries_.push_back(entry);
      if (end - first > 1 && end == i + 1) {
        entry.ends_batch = true;
        entry.done =
            std::all_of(operations.begin() + static_cast<std::ptrdiff_t>(first),
                        operations.begin() + static_cast<std::ptrdiff_t>(end),
                        [](const LoggedOperation& of) { return of.progress == Progress::kDone; });
        entries_.push_back(entry);
      }
    }
  }

  void WriteGroups() {
    out_.Text("pg_config");
    out_.BeginDict();
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (job_.log.groups()[g].seen.count(rank_) == 0) continue;
      out_.Text(groups_[g].name);
      out_.BeginDict();
      out_.Text("name");
      out_.Text(groups_[g].name);
      out_.Text("desc");
      out_.Text(groups_[g].description);
      out_.Text("ranks");
      out_.Text(groups_[g].ranks);
      out_.EndDict();
    }
    out_.EndDict();
  }

  void WriteStatus() {
    std::map<int, Status> by_group;
    for (const Entry& entry : entries_) {
      const LoggedOperation& operation = *entry.operation;
      const bool counts_transfers = collectives_.count(operation.group) == 0;
      if (operation.IsTransfer() != counts_transfers) continue;
      const int64_t number = counts_transfers ? entry.p2p : entry.collective;
      Status& status = by_group[operation.group];
      status.enqueued = std::max(status.enqueued, number);
      if (operation.progress == Progress::kStarted || entry.done)
        status.started = std::max(status.started, number);
      if (entry.done) status.completed = std::max(status.completed, number);
    }
    out_.Text("pg_status");
    out_.BeginDict();
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (job_.log.groups()[g].seen.count(rank_) == 0) continue;
      const Status& status = by_group[static_cast<int>(g)];
      out_.Text(groups_[g].name);
      out_.BeginDict();
      out_.Text("last_enqueued_collective");
      out_.Int(status.enqueued);
      out_.Text("last_started_collective");
      out_.Int(status.started);
      out_.Text("last_completed_collective");
      out_.Int(status.completed);
      out_.EndDict();
    }
    out_.EndDict();
  }

  std::string ProfilingName(const Entry& entry) const {
    if (entry.ends_batch) return "nccl:coalesced";
    const LoggedOperation& operation = *entry.operation;
    std::string name = std::string("nccl:") + TorchOperationName(operation.call);
    if (operation.IsTransfer()) {
      const LoggedGroup& group = job_.log.groups()[static_cast<size_t>(operation.group)];
      const Named& named = groups_[static_cast<size_t>(operation.group)];
      const auto place = [&](int member) {
        const bool known = member >= 0 && static_cast<size_t>(member) < group.ranks.size();
        return std::to_string(known ? named.PlaceOf(group.ranks[static_cast<size_t>(member)]) : -1);
      };
      name += " " + place(operation.member) + (operation.call == Call::kSend ? "->" : "<-") +
              place(operation.root_or_peer);
    }
    return name;
  }

  void WriteEntry(const Entry& entry, int64_t record) {
    const LoggedOperation& operation = *entry.operation;
    const Named& group = groups_[static_cast<size_t>(operation.group)];
    const Tensors tensors =
        entry.ends_batch ? Tensors{} : TensorsOf(operation, group.sorted.size());
    const char* const type = TorchTypeName(operation.datatype);
    const bool started = operation.progress == Progress::kStarted;
    out_.BeginDict();
    out_.Text("frames");
    WriteFrames(operation.site, &out_);
    out_.Text("record_id");
    out_.Int(record);
    out_.Text("pg_id");
    out_.Int(operation.group);
    out_.Text("process_group");
    out_.BeginTuple();
    out_.Text(group.name);
    out_.Text(group.description);
    out_.EndTuple();
    out_.Text("thread_name");
    out_.Text("");
    out_.Text("thread_id");
    out_.Text(std::to_string(operation.thread));
    out_.Text("collective_seq_id");
    out_.Int(entry.collective);
    out_.Text("p2p_seq_id");
    out_.Int(entry.p2p);
    out_.Text("op_id");
    out_.Int(entry.op);
    out_.Text("profiling_name");
    out_.Text(ProfilingName(entry));
    out_.Text("time_created_ns");
    out_.Int(static_cast<int64_t>(job_.RealTime(operation.called_ns)));
    out_.Text("input_sizes");
    WriteSizes(tensors.in, &out_);
    out_.Text("input_dtypes");
    WriteTypes(tensors.in.size(), type, &out_);
    out_.Text("output_sizes");
    WriteSizes(tensors.out, &out_);
    out_.Text("output_dtypes");
    WriteTypes(tensors.out.size(), type, &out_);
    out_.Text("state");
    out_.Text(entry.done ? "completed" : started ? "started" : "scheduled");
    out_.Text("time_discovered_started_ns");
    if (entry.done || started) {
      out_.Int(static_cast<int64_t>(job_.RealTime(operation.called_ns)));
    } else {
      out_.None();
    }
    out_.Text("time_discovered_completed_ns");
    if (entry.done) {
      out_.Int(static_cast<int64_t>(job_.RealTime(operation.done_ns)));
    } else {
      out_.None();
    }
    out_.Text("retired");
    out_.Bool(entry.done);
    out_.Text("timeout_ms");
    out_.Int(0);
    out_.Text("is_p2p");
    out_.Bool(operation.IsTransfer());
    out_.EndDict();
  }

  const Job& job_;
  const std::vector<Named>& groups_;
  const int rank_;
  std::vector<Entry> entries_;
  std::map<int, int64_t> collectives_;  // by group: the latest number
  PickleWriter out_;
};

}  // namespace

StatusOr<Exported> WriteFlightRecorder(const Job& job) {
  Exported exported;
  std::vector<Named> groups;
  bool unseen = false;
  for (const LoggedGroup& logged : job.log.groups()) {
    Named group;
    group.name = std::to_string(groups.size());
    group.description = logged.name.empty() ? "undefined" : logged.name;
    group.sorted = logged.ranks;
    std::sort(group.sorted.begin(), group.sorted.end());
    for (const int rank : group.sorted)
      group.ranks += (group.ranks.empty() ? "[" : ", ") + std::to_string(rank);
    group.ranks += group.ranks.empty() ? "[]" : "]";
    unseen |= logged.seen.size() < logged.ranks.size();
    if (std::set<int>(group.sorted.begin(), group.sorted.end()).size() < group.sorted.size()) {
      return Status::InvalidArgument("two members of the communicator " + group.description +
                                     " have one rank of the job, and a dump is one rank's (try: -f "
                                     "jsonl)");
    }
    groups.push_back(std::move(group));
  }
  if (job.log.ranks().empty())
    return Status::NotFound(
        "the trace shows no rank with an NCCL communicator: there is no dump to "
        "write");
  for (const auto& [rank, logged] : job.log.ranks()) {
    for (const LoggedOperation& operation : logged.operations) {
      if (operation.IsTransfer()) continue;
      int64_t& highest = groups[static_cast<size_t>(operation.group)].collectives;
      highest = std::max(highest, static_cast<int64_t>(operation.sequence) + 1);
    }
  }
  for (const auto& [rank, logged] : job.log.ranks()) {
    exported.files.emplace_back(kPrefix + std::to_string(rank),
                                RankDump(job, groups, rank, logged).Pickle());
  }
  if (unseen) {
    exported.notes.push_back(
        "of members that gordian did not see, the rank in the job is taken to be the one in the "
        "communicator");
  }
  exported.notes.push_back(
      "a dump holds no streams, events, host waits, roots and reduction operators");
  return exported;
}

}  // namespace gordian::exporters
