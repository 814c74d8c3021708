#include <algorithm>
#include <cctype>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "analyzer/importers/flight_mismatch.h"
#include "analyzer/importers/rank_traces.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/names.h"

namespace gordian::importers {
namespace {

using model::Finding;

// "1 call", "12 calls".
std::string Plural(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string AtBeginning(std::string text) {
  if (!text.empty())
    text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

// The numbers that a rank recorded of a group's collectives.
struct Window {
  int64_t first = 0, last = 0;
};

class Traces {
 public:
  explicit Traces(std::vector<RankTrace> traces) : traces_(Prepared(std::move(traces))) {
    for (RankTrace& trace : traces_) {
      dumps_.push_back(std::move(trace.dump));
      transfer_groups_.merge(trace.transfer_groups);
    }
    calls_.emplace(dumps_);
    for (const auto& [number, rank] : calls_->ranks()) {
      for (const auto& [channel, numbers] : rank.numbers)
        windows_[channel.group][number] = {numbers.first, numbers.second};
    }
  }

  model::Verdict Decide() const;

 private:
  // Without numbers at one rank, the place among the group's collectives counts at all.
  static std::vector<RankTrace> Prepared(std::vector<RankTrace> traces) {
    const bool numbered = std::all_of(traces.begin(), traces.end(),
                                      [](const RankTrace& trace) { return trace.numbered; });
    for (RankTrace& trace : traces) {
      if (numbered) break;
      trace.numbered = false;
      std::map<std::string, int64_t> places;
      for (FlightEntry& entry : trace.dump.entries) entry.sequence = places[entry.group]++;
    }
    return traces;
  }

  bool numbered() const { return traces_.front().numbered; }
  TraceFormat format() const { return traces_.front().format; }
  // Which PyTorch wrote.
  bool pytorch() const { return format() != TraceFormat::kChakra; }

  // What a rank recorded under a number is all that it called under it if it also recorded the
  // number before: PyTorch gives operations of a batch, of which it may have recorded none, that of
  // the next one. On a group of sends and receives the numbers of ranks need not agree.
  bool Comparable(int rank, const FlightOperation& operation) const {
    if (!traces_.front().batches_share_numbers) return true;
    FlightOperation before = operation;
    --before.sequence;
    return calls_->ranks().at(rank).entries.contains(before) &&
           !transfer_groups_.contains(*operation.group.text);
  }
  size_t Compared() const;
  Finding Make(const char* check) const;
  // Describes an operation that is done at all ranks that recorded it. Of another one a trace does
  // not say how far it got, so that a list of ranks and states would claim too much.
  std::optional<model::StuckOperation> Describe(const FlightOperation& operation) const;
  std::vector<Finding> Mismatches() const;
  Finding NoMismatch() const;
  std::string OrdersPart() const;
  std::string WhoIsBehind() const;
  std::string NothingShared() const;

  std::vector<RankTrace> traces_;  // at least one; without their dumps
  std::vector<FlightDump> dumps_;
  std::optional<FlightCalls> calls_;
  std::map<GroupKey, std::map<int, Window>> windows_;  // by group and rank
  std::set<std::string> transfer_groups_;              // keys
};

// The number of operations that at least two ranks recorded, so that they could disagree.
size_t Traces::Compared() const {
  std::map<FlightOperation, size_t> ranks;
  for (const auto& [number, rank] : calls_->ranks()) {
    for (const auto& [operation, entry] : rank.entries) {
      if (Comparable(number, operation)) ++ranks[operation];
    }
  }
  return static_cast<size_t>(
      std::count_if(ranks.begin(), ranks.end(), [](const auto& of) { return of.second > 1; }));
}

Finding Traces::Make(const char* check) const {
  Finding finding = model::MakeFinding(check, model::Confidence::kSuspected);
  const int seen = static_cast<int>(calls_->ranks().size());
  finding.evidence.ranks_seen = seen;
  finding.evidence.ranks_expected = std::max(traces_.front().world, calls_->expected());
  finding.evidence.records = calls_->entries();
  finding.evidence.nccl_calls = calls_->entries();
  std::vector<std::string>& unseen = finding.evidence.not_visible;
  unseen.push_back(
      "hangs: such a trace holds the calls of the time that was recorded, and none that a rank did "
      "not make");
  unseen.push_back(pytorch()
                       ? "streams, events, host waits, roots and reduction operators: gordian does "
                         "not read them from such traces"
                       : "element types, streams, events, host waits, roots and reduction "
                         "operators: gordian does not read them from Chakra's traces");
  if (pytorch()) unseen.push_back("replays of CUDA graphs: PyTorch records no calls of theirs");
  if (format() == TraceFormat::kExecution)
    unseen.push_back("barriers: PyTorch does not number them there");
  std::vector<int> cut;
  for (const auto& trace : traces_) {
    if (trace.cut) cut.push_back(trace.dump.rank);
  }
  if (!cut.empty())
    unseen.push_back("what " + model::RankList(cut) +
                     " called last: the list has no end, as of a process that was ended while "
                     "PyTorch recorded it");
  if (const int missing = finding.evidence.ranks_expected - seen; missing > 0)
    unseen.push_back(std::to_string(missing) + " of " +
                     std::to_string(finding.evidence.ranks_expected) + " ranks left no trace");
  size_t transfers = 0, without_metadata = 0;
  for (const RankTrace& trace : traces_) {
    transfers += trace.transfers;
    without_metadata += trace.without_metadata;
  }
  if (transfers > 0)
    unseen.push_back("what " + Plural(transfers, "recorded send or receive") +
                     " met: gordian does not compare them");
  const auto mixed = static_cast<size_t>(std::count_if(
      windows_.begin(), windows_.end(),
      [this](const auto& group) { return transfer_groups_.contains(*group.first.text); }));
  if (pytorch() && numbered() && mixed > 0)
    unseen.push_back("whether ranks agree on " + Plural(mixed, "process group") +
                     " that also sends and receives: PyTorch may count both together");
  if (without_metadata > 0)
    unseen.push_back(Plural(without_metadata, "call") +
                     " whose event names no collective or no process group");
  if (!numbered())
    unseen.push_back(pytorch() ? "which calls belong together: some have no number (Seq), as up to "
                                 "PyTorch 2.11; traces of its ExecutionTraceObserver have them"
                               : "which operations belong together: Chakra does not number them");
  return finding;
}

std::optional<model::StuckOperation> Traces::Describe(const FlightOperation& operation) const {
  model::StuckOperation out;
  out.comm_name = calls_->GroupName(operation.group);
  out.comm = std::hash<std::string>{}(operation.group);
  out.sequence = operation.sequence;
  bool done = true;
  for (const auto& [number, rank] : calls_->ranks()) {
    const auto entry = rank.entries.find(operation);
    if (entry == rank.entries.end()) continue;
    out.op = entry->second->operation;
    done = done && entry->second->completed;
    model::OperationMember member;
    member.rank = number;
    member.state = model::PartState::kDone;
    out.members.push_back(std::move(member));
  }
  if (!done) return std::nullopt;
  return out;
}

std::vector<Finding> Traces::Mismatches() const {
  std::vector<Finding> findings;
  for (FlightMismatch& mismatch : FindFlightMismatches(
           *calls_, [this](int rank, const FlightOperation&of) { return Comparable(rank, of); })) {
    Finding finding = Make(mismatch.check);
    finding.culprit_ranks = std::move(mismatch.culprits);
    finding.summary = "The members of " + calls_->Name(mismatch.operation) +
                      " recorded different calls: " + mismatch.disagree + ".";
    if (std::optional<model::StuckOperation> operation = Describe(mismatch.operation))
      finding.operations.push_back(std::move(*operation));
    finding.evidence.assumes.push_back("all traces are of one run");
    if (pytorch())
      finding.evidence.assumes.push_back(
          "the process group has one backend and no batches of sends and receives, so that all "
          "ranks number its collectives alike");
    findings.push_back(std::move(finding));
  }
  return findings;
}

// Says where the orders of a group's operations part, of traces that do not number them. Empty:
// nowhere.
std::string Traces::OrdersPart() const {
  const std::vector<FlightMismatch> found =
      FindFlightMismatches(*calls_, [](int, const FlightOperation&) { return true; });
  if (found.empty()) return "";
  const FlightOperation& first = found.front().operation;
  return "Counted from where each rank began to record, the orders on " +
         calls_->GroupName(first.group) + " part at operation " +
         std::to_string(first.sequence + 1) +
         (found.size() > 1 ? " (and on " + Plural(found.size() - 1, "other group") + ")" : "") +
         ": " + found.front().disagree +
         "; the ranks may differ, or only where their traces begin.";
}

std::string Traces::WhoIsBehind() const {
  std::string text;
  size_t groups = 0;
  for (const auto& [group, windows] : windows_) {
    if (numbered() && transfer_groups_.contains(*group.text)) continue;  // the numbers may differ
    int64_t last = 0;
    for (const auto& [number, window] : windows) last = std::max(last, window.last);
    std::vector<int> behind;
    std::optional<int64_t> furthest;  // among those behind
    for (const auto& [number, window] : windows) {
      if (window.last == last) continue;
      behind.push_back(number);
      furthest = std::max(furthest.value_or(window.last), window.last);
    }
    if (behind.empty() || ++groups > 1) continue;
    text = AtBeginning(model::RankList(behind)) + " recorded ";
    if (numbered()) {
      text += "nothing on " + calls_->GroupName(group) + " behind #" + std::to_string(*furthest);
      text += ", others up to #" + std::to_string(last);
    } else {
      text += "at most " + Plural(static_cast<size_t>(*furthest) + 1, "operation") + " on ";
      text += calls_->GroupName(group) + ", others " + std::to_string(last + 1);
    }
    text += behind.size() == 1 ? ": its trace may just end earlier"
                               : ": their traces may just end earlier";
  }
  if (text.empty()) return "";
  return text + (groups > 1 ? "; so on " + Plural(groups - 1, "other group") : "") + ".";
}

// Says why nothing could be compared.
std::string Traces::NothingShared() const {
  if (traces_.size() == 1)
    return "One trace alone cannot be compared: name those of the other ranks, too.";
  bool shared = false;  // two traces are of one group
  for (const auto& [group, windows] : windows_) {
    if (windows.size() < 2) continue;
    shared = true;
    const auto [one, first] = *windows.begin();
    const auto [other, second] = *std::next(windows.begin());
    if (first.first <= second.last && second.first <= first.last) continue;
    return "No operation can be compared: the ranks recorded different parts of the job (on " +
           calls_->GroupName(group) + " " + model::RankList({one}) + " #" +
           std::to_string(first.first) + " to #" + std::to_string(first.last) + ", " +
           model::RankList({other}) + " #" + std::to_string(second.first) + " to #" +
           std::to_string(second.last) + ").";
  }
  if (shared)
    return "No operation can be compared: no two ranks recorded two calls in a row in common.";
  return "No operation can be compared: no two of the traces are of one process group.";
}

Finding Traces::NoMismatch() const {
  Finding finding = Make("evidence-missing");
  const size_t compared = Compared();
  std::string text = numbered() ? "" : OrdersPart();
  if (text.empty()) {
    text = compared == 0 ? NothingShared()
                         : "The ranks agree on the " + Plural(compared, "operation") +
                               " that could be compared.";
    if (const std::string behind = WhoIsBehind(); !behind.empty()) text += " " + behind;
  }
  finding.summary = std::move(text);
  return finding;
}

model::Verdict Traces::Decide() const {
  std::vector<Finding> findings;
  if (numbered()) findings = Mismatches();
  if (findings.empty()) findings.push_back(NoMismatch());
  return model::WorstFirst(std::move(findings));
}

}  // namespace

model::Verdict DecideRankTraces(std::vector<RankTrace> traces) {
  return Traces(std::move(traces)).Decide();
}

}  // namespace gordian::importers
