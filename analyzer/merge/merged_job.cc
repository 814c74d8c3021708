#include "analyzer/merge/merged_job.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "analyzer/importers/flight_verdict.h"
#include "analyzer/merge/group_match.h"
#include "analyzer/merge/ras_calls.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/names.h"

namespace gordian::merge {
namespace {

using importers::FlightDump;
using importers::FlightEntry;
using importers::FlightGroup;
using importers::FlightStatus;
using model::Confidence;
using model::Finding;

constexpr char kDumpsHide[] =
    "streams, events, host waits and the device's progress: Flight Recorder dumps do not hold "
    "them";

constexpr char kRasHides[] =
    "order, sizes, streams, sends and receives, operations in CUDA graphs and what has ended: RAS "
    "counts launches of five functions";

std::string RankText(int rank) { return "rank " + std::to_string(rank); }

// The size of the job, as far as a dump names its default group; 0: it does not.
int DefaultGroupSize(const FlightDump& dump) {
  for (const auto& [key, group] : dump.groups) {
    if (group.name == "0" || group.description == "default_pg")
      return static_cast<int>(group.ranks.size());
  }
  return 0;
}

int LargestGroup(const FlightDump& dump) {
  size_t largest = 0;
  for (const auto& [key, group] : dump.groups) largest = std::max(largest, group.ranks.size());
  return static_cast<int>(largest);
}

std::string Ranks(int count) { return std::to_string(count) + (count == 1 ? " rank" : " ranks"); }

Status OneJob(const std::optional<SessionInput>& session, const std::vector<DumpInput>& inputs,
              const RasInput& ras) {
  std::map<int, std::string> held;
  std::pair<int, std::string> size;  // and who says so
  if (session && session->calls.world > 0) size = {session->calls.world, session->path};
  for (const DumpInput& input : inputs) {
    for (const FlightDump& dump : input.dumps) {
      const auto [other, added] = held.emplace(dump.rank, dump.path);
      if (!added) {
        return Status::InvalidArgument(RankText(dump.rank) + " has two dumps, " + other->second +
                                       " and " + dump.path + ": name those of one moment");
      }
    }
  }
  const auto differ = [&](const FlightDump& dump, int other) {
    return Status::InvalidArgument(size.second + " is of a job of " + Ranks(size.first) + ", and " +
                                   dump.path + " of one of " + Ranks(other) +
                                   ": name the files of one job");
  };
  for (const DumpInput& input : inputs) {
    for (const FlightDump& dump : input.dumps) {
      const int whole = DefaultGroupSize(dump);
      const int least = std::max({whole, LargestGroup(dump), dump.rank + 1});
      if (size.first > 0 && least > size.first) return differ(dump, least);
      if (whole == 0) continue;
      if (size.first == 0) size = {whole, dump.path};
      if (whole != size.first) return differ(dump, whole);
    }
  }
  for (const importers::RasReport& report : ras.reports) {
    for (const importers::RasCommunicator& comm : report.communicators) {
      if (size.first == 0 || comm.size <= size.first) continue;
      return Status::InvalidArgument(size.second + " is of a job of " + Ranks(size.first) +
                                     ", and " + report.path + " holds a communicator of " +
                                     Ranks(comm.size) + ": name the files of one job");
    }
  }
  return Status::Ok();
}

bool IsIn(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

class Merging {
 public:
  Merging(std::optional<SessionInput> session, std::vector<DumpInput> inputs, RasInput ras)
      : session_(std::move(session)), inputs_(std::move(inputs)), ras_(std::move(ras)) {}

  MergedJob Run() {
    NameSources();
    if (session_) {
      CompareTwiceHeld();
      ShareGroups();
      all_.insert(all_.end(), session_->calls.dumps.begin(), session_->calls.dumps.end());
    }
    all_.insert(all_.end(), dumps_.begin(), dumps_.end());
    if (!ras_.reports.empty()) AddRas();
    std::sort(all_.begin(), all_.end(),
              [](const FlightDump& a, const FlightDump& b) { return a.rank < b.rank; });
    Decide();
    return std::move(job_);
  }

 private:
  void NameSources() {
    if (session_) {
      Source source{.tool = Tool::kGordian, .path = session_->path};
      for (const FlightDump& dump : session_->calls.dumps) {
        ours_.insert(dump.rank);
        source.ranks.push_back(dump.rank);
      }
      source.newest_ns = session_->newest_ns;
      source.not_visible = session_->verdict.main.evidence.not_visible;
      job_.sources.push_back(std::move(source));
    }
    for (DumpInput& input : inputs_) {
      Source source{.tool = Tool::kFlightRecorder, .path = input.path};
      source.not_visible.emplace_back(kDumpsHide);
      for (FlightDump& dump : input.dumps) {
        const bool twice = ours_.count(dump.rank) > 0;
        (twice ? source.others : source.ranks).push_back(dump.rank);
        source.newest_ns = std::max(source.newest_ns, dump.newest_ns);
        (twice ? twice_ : dumps_).push_back(std::move(dump));
      }
      job_.sources.push_back(std::move(source));
    }
  }

  // Ranks of which only RAS tells, by their counts.
  void AddRas() {
    for (const FlightDump& dump : all_) known_.insert(dump.rank);
    RasCalls calls = CallsOfRas(ras_.reports, all_);
    job_.counted = calls.matched;
    job_.unclear.insert(job_.unclear.end(), calls.unclear.begin(), calls.unclear.end());
    for (const std::string& text : calls.contradictions) Contradict(text, calls.contradicted);
    ras_stands_ = calls.stands;
    Source source{.tool = Tool::kRas, .path = ras_.paths.front()};
    for (size_t i = 1; i < ras_.paths.size(); ++i) source.path += ", " + ras_.paths[i];
    for (FlightDump& dump : calls.dumps) {
      source.ranks.push_back(dump.rank);
      all_.push_back(std::move(dump));
    }
    source.others.assign(calls.confirmed.begin(), calls.confirmed.end());
    source.not_visible.emplace_back(kRasHides);
    job_.sources.push_back(std::move(source));
  }

  void Contradict(std::string text, const std::set<int>& ranks) {
    if (std::find(job_.contradictions.begin(), job_.contradictions.end(), text) ==
        job_.contradictions.end())
      job_.contradictions.push_back(std::move(text));
    contradicted_.insert(ranks.begin(), ranks.end());
  }

  // Dumps of ranks that the session has recorded, too.
  void CompareTwiceHeld() {
    if (twice_.empty()) return;
    const GroupMatches found = MatchGroups(session_->calls, twice_);
    for (const std::string& text : found.contradictions) Contradict(text, found.contradicted);
    for (const GroupMatch& match : found.matches) {
      const SessionGroup& ours = session_->calls.groups.at(match.session);
      for (const FlightDump& dump : twice_) {
        const auto status = dump.status.find(match.dumps);
        const auto called = ours.called.find(dump.rank);
        if (status == dump.status.end() || called == ours.called.end()) continue;
        if (status->second.enqueued <= called->second) continue;
        Contradict(RankText(dump.rank) + " has called #" + std::to_string(called->second) + " on " +
                       ours.name + " at most, the session says, and its dump #" +
                       std::to_string(status->second.enqueued),
                   {dump.rank});
      }
    }
  }

  // Gives communicators that both hold one name and one numbering.
  void ShareGroups() {
    const GroupMatches found = MatchGroups(session_->calls, dumps_);
    job_.unclear = found.unclear;
    for (const std::string& text : found.contradictions) Contradict(text, found.contradicted);
    std::map<std::string, FlightGroup> theirs;
    for (const FlightDump& dump : dumps_) theirs.insert(dump.groups.begin(), dump.groups.end());
    for (const GroupMatch& match : found.matches) {
      const SessionGroup& ours = session_->calls.groups.at(match.session);
      FlightGroup group = theirs.at(match.dumps);
      job_.communicators.push_back({ours.name, group.ForPeople(), match.by, match.verified});
      // The program's own name, where there is one, is the one that the session's findings use.
      if (!ours.given.empty()) group.description = ours.given;
      if (!match.verified) unverified_.insert(group.ForPeople());
      for (FlightDump& dump : dumps_) Adopt(match.dumps, match.dumps, group, &dump);
      for (FlightDump& dump : session_->calls.dumps)
        Adopt(match.session, match.dumps, group, &dump);
    }
  }

  static void Adopt(const std::string& from, const std::string& to, const FlightGroup& group,
                    FlightDump* dump) {
    if (dump->groups.erase(from) == 0) return;
    dump->groups[to] = group;
    for (FlightEntry& entry : dump->entries) {
      if (entry.group != from) continue;
      entry.group = to;
      // PyTorch names the type of the tensor, gordian the one that NCCL was given.
      entry.type.clear();
      if (entry.operation == "all_reduce_barrier") entry.operation = "all_reduce";
    }
    const auto status = dump->status.find(from);
    if (status == dump->status.end() || from == to) return;
    const FlightStatus moved = status->second;
    dump->status.erase(status);
    dump->status[to] = moved;
  }

  // Only RAS tells of the rank.
  bool OnlyCounted(int rank) const {
    return !ras_.reports.empty() && Held(rank) && known_.count(rank) == 0;
  }

  bool Held(int rank) const {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const FlightDump& dump) { return dump.rank == rank; });
  }

  void Temper(Finding* finding) const {
    if (!model::SaysTrouble(finding->verdict)) return;
    const bool blamed = std::any_of(finding->culprit_ranks.begin(), finding->culprit_ranks.end(),
                                    [&](int rank) { return contradicted_.count(rank) > 0; });
    if (blamed) {
      Finding unsure = model::MakeFinding("evidence-missing", Confidence::kPossible);
      unsure.evidence = finding->evidence;
      unsure.operations = finding->operations;
      unsure.summary = "The sources contradict each other on " +
                       model::RankList({contradicted_.begin(), contradicted_.end()}) +
                       ": what they say together blames no rank. " + job_.contradictions.front() +
                       ".";
      *finding = std::move(unsure);
      return;
    }
    bool numbered = true;
    for (const model::StuckOperation& operation : finding->operations)
      numbered = numbered && unverified_.count(operation.comm_name) == 0;
    if (!numbered) {
      finding->evidence.assumes.push_back(
          "the sources number the operations of a communicator alike: none is in both");
    }
    const bool counted =
        !ras_stands_ && std::any_of(finding->culprit_ranks.begin(), finding->culprit_ranks.end(),
                                    [&](int rank) { return OnlyCounted(rank); });
    if (counted) {
      finding->evidence.assumes.push_back(
          "what RAS reported once was no moment in between: no two reports show that it stands");
    }
    if (!job_.contradictions.empty() || !numbered || counted)
      finding->confidence = Confidence::kPossible;
  }

  void Fill(Finding* finding) const {
    model::Evidence& evidence = finding->evidence;
    if (session_) {
      std::erase_if(evidence.not_visible, [&](const std::string& text) {
        return text.starts_with("rank ") && text.ends_with(" left no dump");
      });
      for (int rank = 0; rank < session_->calls.world; ++rank) {
        if (!Held(rank)) evidence.not_visible.push_back("no source shows " + RankText(rank));
      }
      evidence.ranks_expected = std::max(evidence.ranks_expected, session_->calls.world);
      evidence.records_lost = session_->calls.lost;
    }
    for (const std::string& text : job_.unclear) evidence.not_visible.push_back(text);
  }

  // A finding on the session alone holds unless it blames ranks that only others hold.
  std::vector<Finding> OwnFindings() const {
    std::vector<Finding> own;
    if (!session_) return own;
    std::vector<Finding> all = {session_->verdict.main};
    all.insert(all.end(), session_->verdict.findings.begin(), session_->verdict.findings.end());
    for (Finding& finding : all) {
      if (!model::SaysTrouble(finding.verdict)) continue;
      const bool theirs =
          std::any_of(finding.culprit_ranks.begin(), finding.culprit_ranks.end(),
                      [&](int rank) { return ours_.count(rank) == 0 && Held(rank); });
      if (theirs) continue;
      const bool denied = std::any_of(finding.culprit_ranks.begin(), finding.culprit_ranks.end(),
                                      [&](int rank) { return contradicted_.count(rank) > 0; });
      if (denied) finding.confidence = std::min(finding.confidence, Confidence::kPossible);
      own.push_back(std::move(finding));
    }
    return own;
  }

  // Takes from RAS's own verdict only the ranks that are dead or have aborted, in the communicator
  // of all ranks.
  std::vector<Finding> RasFindings() const {
    std::vector<Finding> found;
    if (ras_.reports.empty()) return found;
    int world = session_ ? session_->calls.world : 0;
    for (const FlightDump& dump : all_) world = std::max(world, LargestGroup(dump));
    int largest = 0;
    for (const importers::RasCommunicator& comm : ras_.reports.back().communicators)
      largest = std::max(largest, comm.size);
    if (largest != world) return found;  // its ranks are not the job's
    model::Verdict alone = importers::DecideRasReports(ras_.reports);
    std::vector<Finding> all = std::move(alone.findings);
    all.push_back(std::move(alone.main));
    for (Finding& finding : all) {
      if (finding.check == "rank-exited" || finding.check == "rank-aborted")
        found.push_back(std::move(finding));
    }
    return found;
  }

  // All culprits of `own` only wait, for those that `merged` blames.
  static bool OnlyWait(const Finding& own, const Finding& merged) {
    return own.confidence != Confidence::kConfirmed && !own.culprit_ranks.empty() &&
           std::all_of(own.culprit_ranks.begin(), own.culprit_ranks.end(),
                       [&](int rank) { return IsIn(merged.victim_ranks, rank); });
  }

  // Takes those of the session's culprits away that `other`, which sees more ranks, does not blame.
  static void Narrow(const Finding& other, Finding* own) {
    if (other.verdict != own->verdict || other.culprit_ranks.empty() ||
        other.culprit_ranks.size() >= own->culprit_ranks.size())
      return;
    const std::vector<int> all = own->culprit_ranks;
    if (!std::all_of(other.culprit_ranks.begin(), other.culprit_ranks.end(),
                     [&](int rank) { return IsIn(all, rank); }))
      return;
    own->culprit_ranks = other.culprit_ranks;
    std::erase_if(own->culprit_processes, [&](const model::CulpritProcess& process) {
      return !IsIn(own->culprit_ranks, process.rank);
    });
    own->confidence = std::min(own->confidence, other.confidence);
    std::vector<int> rest;
    for (const int rank : all) {
      if (IsIn(own->culprit_ranks, rank)) continue;
      rest.push_back(rank);
      if (!IsIn(own->victim_ranks, rank)) own->victim_ranks.push_back(rank);
    }
    own->summary += " Most of the ranks that others hold do as " + model::RankList(rest) + ".";
  }

  void Decide() {
    model::Verdict together = importers::DecideFlightDumps(all_);
    std::vector<Finding> merged = {std::move(together.main)};
    merged.insert(merged.end(), std::make_move_iterator(together.findings.begin()),
                  std::make_move_iterator(together.findings.end()));
    for (Finding& finding : RasFindings()) {
      std::erase_if(merged,
                    [](const Finding& other) { return !model::SaysTrouble(other.verdict); });
      merged.push_back(std::move(finding));
    }
    for (Finding& finding : merged) {
      Temper(&finding);
      Fill(&finding);
    }
    std::vector<Finding> own = OwnFindings();
    std::erase_if(own, [&](const Finding& finding) {
      return std::any_of(merged.begin(), merged.end(), [&](const Finding& other) {
        return model::SaysTrouble(other.verdict) && OnlyWait(finding, other);
      });
    });
    for (Finding& finding : own) {
      for (std::string& text : finding.evidence.not_visible) text = "to the session: " + text;
      for (const Finding& other : merged) Narrow(other, &finding);
      // The session's own word on the same ranks; the others add who waits.
      std::erase_if(merged, [&](const Finding& other) {
        if (!model::SaysTrouble(other.verdict)) return true;
        if (other.culprit_ranks != finding.culprit_ranks) return false;
        for (const int rank : other.victim_ranks) {
          if (!IsIn(finding.victim_ranks, rank)) finding.victim_ranks.push_back(rank);
        }
        std::sort(finding.victim_ranks.begin(), finding.victim_ranks.end());
        return true;
      });
      finding.evidence.ranks_seen = static_cast<int>(all_.size());
      Fill(&finding);
    }
    merged.insert(merged.end(), std::make_move_iterator(own.begin()),
                  std::make_move_iterator(own.end()));
    job_.verdict = model::WorstFirst(std::move(merged));
    if (session_) {
      job_.verdict.signs = session_->verdict.signs;
      job_.verdict.stacks = session_->verdict.stacks;
      job_.verdict.restarts = session_->verdict.restarts;
    }
  }

  std::optional<SessionInput> session_;
  std::vector<DumpInput> inputs_;
  RasInput ras_;
  bool ras_stands_ = false;
  std::set<int> known_;               // ranks of the session or of dumps
  std::set<int> ours_;                // ranks of the session
  std::vector<FlightDump> dumps_;     // of the others
  std::vector<FlightDump> twice_;     // of ranks of the session
  std::vector<FlightDump> all_;       // one a rank
  std::set<int> contradicted_;        // ranks
  std::set<std::string> unverified_;  // communicators whose numbers nothing compares
  MergedJob job_;
};

}  // namespace

const char* Name(Tool tool) {
  switch (tool) {
    case Tool::kGordian:
      return "gordian";
    case Tool::kFlightRecorder:
      return "flight-recorder";
    case Tool::kRas:
      return "ras";
  }
  return "";
}

StatusOr<MergedJob> Merge(std::optional<SessionInput> session, std::vector<DumpInput> dumps,
                          RasInput ras) {
  GORDIAN_RETURN_IF_ERROR(OneJob(session, dumps, ras));
  return Merging(std::move(session), std::move(dumps), std::move(ras)).Run();
}

}  // namespace gordian::merge
