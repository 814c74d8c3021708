#include "cli/simulate/simulate_trace.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/model/collective.h"
#include "analyzer/stacks/call_symbols.h"
#include "common/record_block.h"
#include "common/trace_file.h"
#include "common/utf8.h"

namespace gordian::cli {
namespace {

using model::Call;

struct NamedCall {
  Call call = Call::kOther;
  ring::PayloadKind payload = ring::PayloadKind::kNone;
};

// Identifies a communicator across the job: by its id; after a split, by its parent's key, the
// color, and the number of the split of that parent.
using CommKey = std::tuple<uint64_t, int32_t, uint64_t>;

class Collector {
 public:
  void OnEvent(const v1::Event& event) {
    if (event.has_call_name()) {
      const std::string& symbol = event.call_name().symbol();
      calls_[event.call_name().call()] = {analyzer::CallFromSymbol(symbol),
                                          analyzer::PayloadFromSymbol(symbol)};
    } else if (event.has_process_started()) {
      const v1::ProcessStarted& started = event.process_started();
      pids_[started.process()] = started.pid();
      processes_[started.process()].rank = started.env_rank();
    } else if (event.has_records()) {
      Process& process = processes_[event.records().process()];
      ForEachRecord(event.records(),
                    [&](const ring::Record& record) { OnRecord(record, &process); });
    }
  }

  StatusOr<TracedJob> Job(const std::string& path);

 private:
  struct Pending {
    CommKey key;
    int32_t nranks = 0;
  };
  struct Process {
    int32_t rank = -1;                   // from the environment, else in its largest communicator
    int32_t of = 0;                      // that communicator's size
    std::map<uint32_t, Pending> making;  // by thread
    std::map<uint32_t, CommKey> comms;   // by handle
    std::map<CommKey, uint64_t> splits;  // by parent
    std::vector<std::pair<uint64_t, CommKey>> calls;  // collectives, in order
  };

  void OnRecord(const ring::Record& record, Process* process);

  std::map<uint32_t, NamedCall> calls_;
  std::map<uint32_t, uint32_t> pids_;
  std::map<uint32_t, Process> processes_;
  std::map<CommKey, std::string> names_;
  uint64_t transfers_ = 0;
  uint64_t unknown_ = 0;  // collectives on communicators whose creation gordian did not record
};

uint64_t KeyNumber(const CommKey& key) {
  const auto& [uid, color, split] = key;
  uint64_t hash = uid * 0x9e3779b97f4a7c15u + static_cast<uint32_t>(color);
  hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9u + split;
  return hash ^ (hash >> 32);
}

void Collector::OnRecord(const ring::Record& record, Process* process) {
  const auto known = calls_.find(record.call);
  const NamedCall call = known == calls_.end() ? NamedCall() : known->second;
  const bool begins = record.kind == ring::RecordKind::kBegin;
  if (begins && call.payload == ring::PayloadKind::kCommInit) {
    const ring::CommInitPayload& init = record.payload.comm_init;
    Pending pending{{init.uid, 0, 0}, init.nranks};
    const auto parent = process->comms.find(init.parent);
    if (init.parent != 0 && parent != process->comms.end()) {
      // A split is collective over the parent, so the n-th split is the same one on all ranks.
      pending.key = {KeyNumber(parent->second), init.color, ++process->splits[parent->second]};
    }
    process->making[record.thread] = pending;
  } else if (record.kind == ring::RecordKind::kEnd) {
    const ring::EndPayload& end = record.payload.end;
    const auto making = process->making.find(record.thread);
    if (making != process->making.end()) {
      if (end.comm != 0) {
        process->comms[end.comm] = making->second.key;
        // The environment gives the rank in the job; `of` then stays 0.
        if ((process->rank < 0 || process->of > 0) && making->second.nranks > process->of) {
          process->of = making->second.nranks;
          process->rank = end.rank;
        }
      }
      process->making.erase(making);
    }
  } else if (record.kind == ring::RecordKind::kText) {
    const ring::TextPayload& text = record.payload.text;
    const auto comm = process->comms.find(text.comm);
    if (comm != process->comms.end()) {
      names_[comm->second] = TextOf(text.text, sizeof text.text);
    }
  } else if (call.payload == ring::PayloadKind::kOperation &&
             (begins || record.kind == ring::RecordKind::kPoint)) {
    if (!model::IsCollective(call.call)) {
      ++transfers_;
      return;
    }
    const auto comm = process->comms.find(record.payload.operation.comm);
    if (comm == process->comms.end()) {
      ++unknown_;
      return;
    }
    process->calls.emplace_back(record.order, comm->second);
  }
}

StatusOr<TracedJob> Collector::Job(const std::string& path) {
  TracedJob job;
  // For each communicator, how many collectives all of its members called.
  std::map<CommKey, std::map<uint32_t, uint32_t>> called;
  for (auto& [id, process] : processes_) {
    std::sort(process.calls.begin(), process.calls.end());
    for (const auto& [handle, key] : process.comms) {
      called[key][id];
    }
    for (const auto& [order, key] : process.calls) {
      ++called[key][id];
    }
  }
  std::map<CommKey, uint32_t> group_of;
  std::map<uint32_t, uint32_t> gpu_of;
  std::set<std::pair<int32_t, uint32_t>> by_rank;
  for (const auto& [key, members] : called) {
    const bool shared =
        members.size() > 1 && std::all_of(members.begin(), members.end(),
                                          [](const auto& member) { return member.second > 0; });
    for (const auto& [id, count] : members) {
      if (shared) {
        by_rank.emplace(processes_[id].rank, id);
      }
    }
  }
  for (const auto& [rank, id] : by_rank) {
    gpu_of.emplace(id, static_cast<uint32_t>(gpu_of.size()));
    job.pids.push_back(pids_.contains(id) ? pids_.at(id) : 0);
  }
  uint64_t unshared = 0;
  uint64_t cut = 0;
  for (const auto& [key, members] : called) {
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;
    for (const auto& [id, count] : members) {
      least = std::min(least, count);
      most = std::max(most, count);
    }
    if (members.size() < 2 || least == 0) {
      unshared += most;
      continue;
    }
    cut += most - least;
    group_of.emplace(key, static_cast<uint32_t>(job.config.groups.size()));
    simulator::GroupSpec group;
    group.count = least;
    for (const auto& [id, count] : members) {
      group.gpus.push_back(gpu_of.at(id));
    }
    std::sort(group.gpus.begin(), group.gpus.end());
    job.config.groups.push_back(std::move(group));
    job.groups.push_back(names_.contains(key) ? names_.at(key) : std::to_string(job.groups.size()));
  }
  if (job.config.groups.empty()) {
    return Status::NotFound(path + " holds no collectives that two processes called");
  }
  job.config.gpu_num = static_cast<int64_t>(gpu_of.size());
  job.config.lists = simulator::ListOrder::kGiven;
  job.config.order.resize(gpu_of.size());
  for (const auto& [id, gpu] : gpu_of) {
    std::map<uint32_t, uint32_t> taken;
    for (const auto& [order, key] : processes_[id].calls) {
      const auto group = group_of.find(key);
      if (group != group_of.end() &&
          taken[group->second]++ < job.config.groups[group->second].count) {
        job.config.order[gpu].push_back(group->second);
      }
    }
  }
  for (const auto& [what, count] :
       {std::pair{"point-to-point operations and other calls", transfers_},
        {"collectives on communicators whose creation was not recorded", unknown_},
        {"collectives that not all members called, or only one process", unshared + cut}}) {
    if (count > 0) {
      job.notes.push_back("left out " + std::to_string(count) + " " + what);
    }
  }
  return job;
}

}  // namespace

StatusOr<TracedJob> JobFromTrace(const std::string& path) {
  struct stat info {};
  const bool folder = stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  StatusOr<std::unique_ptr<TraceReader>> reader =
      TraceReader::Open(folder ? path + "/trace.gtrace" : path);
  GORDIAN_RETURN_IF_ERROR(reader.status());
  Collector collector;
  while (const v1::TraceChunk* const chunk = (*reader)->Next()) {
    for (const v1::Event& event : chunk->events()) {
      collector.OnEvent(event);
    }
  }
  GORDIAN_RETURN_IF_ERROR((*reader)->bounds());
  StatusOr<TracedJob> job = collector.Job(path);
  if (job.ok() && (*reader)->ending() != TraceReader::Ending::kComplete) {
    job->notes.push_back((*reader)->Describe());
  }
  return job;
}

}  // namespace gordian::cli
