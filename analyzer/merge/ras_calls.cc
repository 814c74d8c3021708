#include "analyzer/merge/ras_calls.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "analyzer/merge/nccl_kind.h"

namespace gordian::merge {
namespace {

using importers::FlightDump;
using importers::FlightEntry;
using importers::FlightGroup;
using importers::RasCommunicator;
using importers::RasMember;
using importers::RasReport;

// A group of the dumps, and how many collectives each rank has called on it.
struct Counted {
  FlightGroup group;
  std::map<int, uint64_t> called;
  std::map<int64_t, std::string> names;  // of operations, by number
  bool countable = true;                 // RAS counts all that is called there
};

std::map<std::string, Counted> CountGroups(const std::vector<FlightDump>& held) {
  std::map<std::string, Counted> groups;
  for (const FlightDump& dump : held) {
    for (const auto& [key, group] : dump.groups) groups[key].group = group;
    for (const auto& [key, status] : dump.status) {
      groups[key].called[dump.rank] = static_cast<uint64_t>(std::max<int64_t>(status.enqueued, 0));
    }
    for (const FlightEntry& entry : dump.entries) {
      Counted& counted = groups[entry.group];
      if (entry.p2p) continue;
      counted.countable = counted.countable && IsOneOfNccl(NcclKind(entry.operation));
      counted.names.emplace(entry.sequence, entry.operation);
      uint64_t& called = counted.called[dump.rank];
      called = std::max(called, static_cast<uint64_t>(std::max<int64_t>(entry.sequence, 0)));
    }
  }
  return groups;
}

std::string NameOf(const RasCommunicator& comm) {
  return "communicator " + comm.key.substr(0, comm.key.find('/')) + " of RAS";
}

class Taking {
 public:
  Taking(const RasReport& report, const std::vector<FlightDump>& held)
      : report_(report), groups_(CountGroups(held)) {
    for (const FlightDump& dump : held) held_.insert(dump.rank);
  }

  void Run(RasCalls* out) {
    out_ = out;
    for (const RasCommunicator& comm : report_.communicators) Match(comm);
    std::map<std::string, int> times;
    for (const auto& [comm, key] : matches_) ++times[key];
    std::erase_if(matches_, [&](const auto& match) {
      if (times[match.second] == 1) return false;
      out_->unclear.push_back(NameOf(*match.first) + " may be " +
                              groups_[match.second].group.ForPeople() +
                              ", and so may another one: it is left out");
      return true;
    });
    for (const auto& [comm, key] : matches_) Take(*comm, key);
    LeaveOutWhoMayWait();
    Open();
    for (auto& [rank, dump] : dumps_) out_->dumps.push_back(std::move(dump));
  }

 private:
  struct Fit {
    size_t compared = 0;
    std::string differs;  // empty: nowhere
    std::set<int> ranks;
  };

  Fit FitOf(const RasCommunicator& comm, const Counted& counted) const {
    Fit fit;
    for (const RasMember& member : comm.members) {
      const int rank = counted.group.ranks[static_cast<size_t>(member.rank)];
      const auto called = counted.called.find(rank);
      if (!member.answered || called == counted.called.end()) continue;
      ++fit.compared;
      fit.ranks.insert(rank);
      if (called->second == member.Total() || !fit.differs.empty()) continue;
      fit.differs = "rank " + std::to_string(rank) + " has launched " +
                    std::to_string(member.Total()) + " operations there, RAS says, and called " +
                    std::to_string(called->second) + " on " + counted.group.ForPeople();
    }
    return fit;
  }

  void Match(const RasCommunicator& comm) {
    std::vector<std::string> fitting;
    std::vector<std::pair<std::string, Fit>> others;
    for (const auto& [key, counted] : groups_) {
      if (!counted.countable || counted.called.empty() ||
          counted.group.ranks.size() != static_cast<size_t>(comm.size))
        continue;
      Fit fit = FitOf(comm, counted);
      if (fit.compared == 0) continue;
      if (fit.differs.empty()) {
        fitting.push_back(key);
      } else {
        others.emplace_back(key, std::move(fit));
      }
    }
    if (fitting.size() == 1) {
      matches_.emplace_back(&comm, fitting.front());
    } else if (fitting.size() > 1) {
      out_->unclear.push_back(NameOf(comm) + " may be " + std::to_string(fitting.size()) +
                              " groups of equal counts: it is left out");
    } else if (others.size() == 1 && OnlyOneOf(comm.size)) {
      const Fit& fit = others.front().second;
      out_->contradictions.push_back(NameOf(comm) + ": " + fit.differs +
                                     "; they are not taken together");
      out_->contradicted.insert(fit.ranks.begin(), fit.ranks.end());
    }
  }

  bool OnlyOneOf(int size) const {
    return std::count_if(report_.communicators.begin(), report_.communicators.end(),
                         [&](const RasCommunicator& comm) { return comm.size == size; }) == 1;
  }

  void Take(const RasCommunicator& comm, const std::string& key) {
    const FlightGroup& group = groups_[key].group;
    out_->matched.push_back(NameOf(comm) + " is " + group.ForPeople() + ", by size and counts");
    for (const RasMember& member : comm.members) {
      const int rank = group.ranks[static_cast<size_t>(member.rank)];
      if (!member.process.empty()) processes_[rank].insert(member.process);
      if (rank < 0 || !member.answered) continue;
      groups_[key].called[rank] = member.Total();
      if (held_.count(rank) > 0) {
        out_->confirmed.insert(rank);
        continue;
      }
      FlightDump& dump = dumps_[rank];
      dump.rank = rank;
      dump.version = "RAS";
      dump.groups[key] = group;
      dump.status[key] = {static_cast<int64_t>(member.Total()), -1};
    }
  }

  // Members of what could not be matched that are ahead of others there, or have left it.
  void LeaveOutWhoMayWait() {
    for (const RasCommunicator& comm : report_.communicators) {
      const bool taken = std::any_of(matches_.begin(), matches_.end(),
                                     [&](const auto& match) { return match.first == &comm; });
      if (taken) continue;
      uint64_t least = UINT64_MAX;
      bool silent = comm.members.size() < static_cast<size_t>(comm.size);
      for (const RasMember& member : comm.members) {
        silent = silent || !member.answered;
        if (member.answered) least = std::min(least, member.Total());
      }
      for (const RasMember& member : comm.members) {
        if (!member.answered || (member.Total() == least && !silent)) continue;
        std::erase_if(dumps_, [&](const auto& of) {
          const auto known = processes_.find(of.first);
          return member.process.empty() || known == processes_.end() ||
                 known->second.count(member.process) > 0;
        });
      }
    }
  }

  // The last operation of a rank that others have not launched is open there.
  void Open() {
    for (const auto& [comm, key] : matches_) {
      const Counted& counted = groups_[key];
      for (auto& [rank, dump] : dumps_) {
        const auto mine = dump.status.find(key);
        if (mine == dump.status.end()) continue;
        const int64_t number = mine->second.enqueued;
        const bool ahead =
            std::any_of(counted.called.begin(), counted.called.end(),
                        [&](const auto& of) { return of.second < static_cast<uint64_t>(number); });
        if (!ahead) continue;
        FlightEntry entry;
        entry.record = static_cast<int64_t>(dump.entries.size());
        entry.group = key;
        entry.sequence = number;
        const auto name = counted.names.find(number);
        entry.operation = name == counted.names.end() ? "operation" : name->second;
        dump.entries.push_back(std::move(entry));
      }
    }
  }

  const RasReport& report_;
  std::map<std::string, Counted> groups_;
  std::set<int> held_;
  std::vector<std::pair<const RasCommunicator*, std::string>> matches_;
  std::map<int, std::set<std::string>> processes_;  // by rank of the job
  std::map<int, FlightDump> dumps_;
  RasCalls* out_ = nullptr;
};

// Whether two reports of different times hold the same counts.
bool Stands(const RasReport& first, const RasReport& last) {
  if (first.time.empty() || first.time == last.time) return false;
  const auto counts = [](const RasReport& report) {
    std::map<std::tuple<std::string, int>, std::map<std::string, uint64_t>> all;
    for (const RasCommunicator& comm : report.communicators) {
      for (const RasMember& member : comm.members) all[{comm.key, member.rank}] = member.counts;
    }
    return all;
  };
  return counts(first) == counts(last);
}

}  // namespace

RasCalls CallsOfRas(std::vector<RasReport> reports, const std::vector<FlightDump>& held) {
  std::sort(reports.begin(), reports.end(), [](const RasReport& a, const RasReport& b) {
    return std::tie(a.time, a.path) < std::tie(b.time, b.path);
  });
  RasCalls calls;
  calls.stands = Stands(reports.front(), reports.back());
  Taking(reports.back(), held).Run(&calls);
  return calls;
}

}  // namespace gordian::merge
