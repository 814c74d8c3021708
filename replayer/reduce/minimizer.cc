#include "replayer/reduce/minimizer.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "replayer/record/not_reached.h"
#include "replayer/reduce/minimizer_cuts.h"
#include "replayer/reduce/model_run.h"

namespace gordian::replayer {
namespace {

// Whether a thread never leaves this call. The minimizer removes only waits among them, and last.
bool IsStand(const Op& op) { return (op.unfinished && IsHostWait(op.kind)) || EndsThread(op.kind); }

// Other orders of the threads, for ranks that have several: all reversed; one rank's reversed; all
// but one rank's reversed.
std::vector<Turns> OtherOrders(const Schedule& schedule) {
  constexpr size_t kMostRanks = 8;
  std::vector<Turns> orders;
  for (size_t rank = 0; rank < schedule.ranks.size() && orders.size() < 2 * kMostRanks; ++rank) {
    if (schedule.ranks[rank].threads.size() < 2) continue;
    orders.push_back(LastThreadFirst(rank));
    orders.push_back(~LastThreadFirst(rank));
  }
  if (!orders.empty()) orders.push_back(~kFirstFirst);
  return orders;
}

class Minimizer {
 public:
  Minimizer(const Schedule& schedule, const MinimizeOptions& options)
      : original_(schedule), options_(options), best_(schedule) {}

  MinimizeReport Run() {
    MinimizeReport& report = report_;
    report.ranks_before = original_.ranks.size();
    report.operations_before = CountOperations(original_);
    report.calls_before = CountCalls(original_);
    goal_ = RunModel(original_);
    if (!goal_.hangs) {
      report.refused = "by the model the schedule does not hang: " + goal_.signature.verdict +
                       (goal_.summary.empty() ? "" : " (" + goal_.summary + ")");
      return std::move(report_);
    }
    stood_.insert(goal_.standing.begin(), goal_.standing.end());
    same_in_any_order_ = SameInOtherOrders(original_);
    chain_.push_back(original_);
    Search();
    if (options_.confirm) Confirm();
    if (!report.refused.empty()) return std::move(report_);
    report.ranks_after = best_.ranks.size();
    report.operations_after = CountOperations(best_);
    report.calls_after = CountCalls(best_);
    report.minimal = !stopped_;
    report.schedule = std::move(best_);
    return std::move(report_);
  }

 private:
  // `base` without the units in `removed`.
  template <typename Unit>
  using Cut = std::function<Schedule(const Schedule& base, const std::vector<Unit>& removed)>;

  bool SameInOtherOrders(const Schedule& candidate) const {
    const std::vector<Turns> orders = OtherOrders(candidate);
    return std::all_of(orders.begin(), orders.end(),
                       [&](Turns turns) { return Same(candidate, turns); });
  }

  bool Same(const Schedule& candidate, Turns turns) const {
    const ModelRun run = RunModel(candidate, turns);
    if (!run.hangs || run.check != goal_.check || !(run.signature == goal_.signature) ||
        run.because != goal_.because)
      return false;
    bool stands = true;
    ForEachOp(candidate, [&](size_t, size_t, const Op& op) {
      if (op.unfinished && stood_.contains(op.id))
        stands &= std::binary_search(run.standing.begin(), run.standing.end(), op.id);
    });
    return stands;
  }

  bool Try(const Schedule& candidate) {
    if (stopped_) return false;
    const MinimizeProgress progress{step_, report_.candidates, report_.confirmations,
                                    best_.ranks.size(), CountOperations(best_)};
    if (report_.candidates >= options_.max_candidates ||
        (options_.progress && !options_.progress(progress))) {
      stopped_ = true;
      return false;
    }
    ++report_.candidates;
    if (candidate == best_ || candidate.ranks.empty() || !Check(candidate).empty()) return false;
    if (!Same(candidate, kFirstFirst) || (same_in_any_order_ && !SameInOtherOrders(candidate)))
      return false;
    if (confirm_each_ && !Confirms(candidate)) return false;
    best_ = candidate;
    changed_ = true;
    if (options_.confirm && !confirm_each_) chain_.push_back(candidate);
    return true;
  }

  bool Confirms(const Schedule& candidate) {
    if (report_.confirmations >= options_.max_confirmations) {
      stopped_ = true;
      return false;
    }
    ++report_.confirmations;
    return options_.confirm(candidate);
  }

  // ddmin: removes as many of the units from `best_` as possible.
  template <typename Unit>
  void Reduce(const char* step, std::vector<Unit> units, const Cut<Unit>& cut) {
    step_ = step;
    const Schedule base = best_;
    std::vector<Unit> removed;
    // Tries to keep only units[begin, end), or only the others.
    const auto attempt = [&](size_t begin, size_t end, bool keep) {
      std::vector<Unit> gone = removed, left;
      for (size_t i = 0; i < units.size(); ++i)
        ((i >= begin && i < end) == keep ? left : gone).push_back(units[i]);
      if (!Try(cut(base, gone))) return false;
      removed = std::move(gone);
      units = std::move(left);
      return true;
    };
    if (units.empty() || attempt(0, units.size(), /*keep=*/false)) return;
    size_t parts = 2;
    while (!stopped_ && units.size() > 1) {
      parts = std::min(parts, units.size());
      bool smaller = false;
      const size_t size = units.size();
      for (const bool keep : {true, false}) {
        if (keep && parts == size && size > 8) continue;  // a single unit is hardly ever enough
        for (size_t i = 0; i < parts && !smaller; ++i) {
          smaller = attempt(i * size / parts, (i + 1) * size / parts, keep);
          if (smaller) parts = keep ? 2 : std::max<size_t>(parts - 1, 2);
        }
        if (smaller || parts == 2) break;  // of two parts, all but one is the other one
      }
      if (smaller) continue;
      if (parts == units.size()) break;
      parts *= 2;
    }
  }

  void ReduceOps(const char* step, const std::vector<std::vector<OpId>>& units) {
    Reduce<std::vector<OpId>>(
        step, units, [](const Schedule& base, const std::vector<std::vector<OpId>>& removed) {
          OpSet gone;
          for (const auto& unit : removed) gone.insert(unit.begin(), unit.end());
          return WithoutOps(base, gone);
        });
  }

  void Ranks() {
    std::vector<int> ranks;
    for (size_t i = 0; i < best_.ranks.size(); ++i) ranks.push_back(static_cast<int>(i));
    Reduce<int>("ranks", ranks, [](const Schedule& base, const std::vector<int>& removed) {
      return WithoutRanks(base, {removed.begin(), removed.end()});
    });
  }

  void Members() {
    std::vector<std::pair<int, int>> members;
    for (size_t comm = 0; comm < best_.comms.size(); ++comm) {
      for (size_t place = 0; place < best_.comms[comm].members.size(); ++place)
        members.emplace_back(comm, place);
    }
    Reduce<std::pair<int, int>>(
        "members", members,
        [](const Schedule& base, const std::vector<std::pair<int, int>>& removed) {
          return WithoutMembers(base, {removed.begin(), removed.end()});
        });
  }

  // Groups calls with equal `key` into one unit, except those in which threads stand.
  template <typename Key>
  std::vector<std::vector<OpId>> UnitsBy(Key key) const {
    std::map<decltype(key(0, 0, Op())), std::vector<OpId>> units;
    ForEachOp(best_, [&](size_t rank, size_t thread, const Op& op) {
      const auto of = key(rank, thread, op);
      if (of.second >= 0) units[of].push_back(op.id);
    });
    std::vector<std::vector<OpId>> all;
    for (auto& [of, ops] : units) all.push_back(std::move(ops));
    return all;
  }

  // Single calls that were reached; the two ends of a group, or of a capture, are one unit.
  std::vector<std::vector<OpId>> SingleCalls() const {
    std::vector<std::vector<OpId>> units;
    for (const RankProgram& rank : best_.ranks) {
      for (const ThreadProgram& thread : rank.threads) {
        size_t group = SIZE_MAX;
        std::map<int, size_t> captures;
        for (const Op& op : thread.ops) {
          if (IsStand(op) || op.not_reached) continue;
          const auto capture = captures.find(op.graph);
          if (op.kind == OpKind::kGroupEnd && group != SIZE_MAX) {
            units[group].push_back(op.id);
          } else if (op.kind == OpKind::kCaptureEnd && capture != captures.end()) {
            units[capture->second].push_back(op.id);
          } else {
            if (op.kind == OpKind::kGroupStart) group = units.size();
            if (op.kind == OpKind::kCaptureBegin) captures[op.graph] = units.size();
            units.push_back({op.id});
          }
        }
      }
    }
    return units;
  }

  void TakeOut() {
    Ranks();
    ReduceOps("communicators", UnitsBy([](size_t, size_t, const Op& op) {
                return std::pair(0, IsStand(op) ? -1 : op.comm);
              }));
    Members();
    ReduceOps("steps", Steps(best_));
    ReduceOps("threads", UnitsBy([&](size_t rank, size_t thread, const Op&) {
                return std::pair(
                    rank, best_.ranks[rank].threads.size() > 1 ? static_cast<int>(thread) : -1);
              }));
    ReduceOps("events", UnitsBy([](size_t rank, size_t, const Op& op) {
                return std::pair(rank, IsStand(op) ? -1 : op.event);
              }));
    ReduceOps("calls", SingleCalls());
  }

  void Shape() {
    step_ = "shape";
    for (int comm = static_cast<int>(best_.comms.size()) - 1; comm >= 0; --comm) {
      if (comm < static_cast<int>(best_.comms.size()) &&
          !best_.comms[static_cast<size_t>(comm)].ready)
        Try(WithReadyComm(best_, comm));
    }
    for (size_t rank = 0; rank < best_.ranks.size(); ++rank) {
      for (size_t into = 0; into < best_.ranks[rank].threads.size(); ++into) {
        for (size_t from = into + 1; from < best_.ranks[rank].threads.size();) {
          const Schedule merged = WithThreadsMerged(best_, rank, into, from);
          if (merged.ranks.empty() || !Try(merged)) ++from;
        }
      }
      for (int into = 0; into < static_cast<int>(best_.ranks[rank].streams.size()); ++into) {
        for (int from = into + 1; from < static_cast<int>(best_.ranks[rank].streams.size());) {
          const auto& streams = best_.ranks[rank].streams;
          const bool alike =
              streams[static_cast<size_t>(into)].kind == streams[static_cast<size_t>(from)].kind;
          if (!alike || !Try(WithStreamsMerged(best_, rank, into, from))) ++from;
        }
      }
    }
    Connections();
    Gates();
  }

  // Connected by collectives (first -1), or from one member to another.
  void Connections() {
    using Connection = std::pair<int, std::pair<int, int>>;
    std::vector<Connection> connections;
    // With how they are connected. A communicator that was connected before its capture stays so:
    // PyTorch makes it at its first use, which no capture permits.
    std::set<std::pair<int, bool>> captured;
    ForEachOp(best_, [&](size_t, size_t, const Op& op) {
      const bool one_by_one = IsTransfer(op.kind) || IsPairwise(op.kind);
      if (op.captured && IsOperation(op.kind)) captured.insert({op.comm, one_by_one});
    });
    for (int i = 0; i < static_cast<int>(best_.comms.size()); ++i) {
      const Communicator& comm = best_.comms[static_cast<size_t>(i)];
      if (comm.connected && !captured.contains({i, false})) connections.push_back({i, {-1, -1}});
      for (const auto& pair : comm.connected_pairs) {
        if (!captured.contains({i, true})) connections.push_back({i, pair});
      }
    }
    Reduce<Connection>("connections", connections,
                       [](const Schedule& base, const std::vector<Connection>& removed) {
                         Schedule after = base;
                         for (const auto& [place, pair] : removed) {
                           Communicator& comm = after.comms[static_cast<size_t>(place)];
                           if (pair.first < 0) comm.connected = false;
                           std::erase(comm.connected_pairs, pair);
                         }
                         return after;
                       });
  }

  void Gates() {
    using Waiting = std::pair<OpId, OpId>;
    std::vector<Waiting> gates;
    ForEachOp(best_, [&](size_t, size_t, const Op& op) {
      for (const Gate& gate : op.gates) gates.emplace_back(op.id, gate.after);
    });
    // If only one order hangs, removing a gate proves nothing.
    if (!same_in_any_order_) return;
    Reduce<Waiting>("gates", gates, [](const Schedule& base, const std::vector<Waiting>& removed) {
      const std::set<Waiting> gone(removed.begin(), removed.end());
      Schedule after = base;
      for (RankProgram& rank : after.ranks) {
        for (ThreadProgram& thread : rank.threads) {
          for (Op& op : thread.ops)
            std::erase_if(op.gates, [&](const Gate& gate) {
              return gone.contains({op.id, gate.after});
            });
        }
      }
      return after;
    });
  }

  // Last: without its final wait a thread waits at its end, which would let others join it. Calls
  // that were not reached come first, as they will in the program: a wait may be all that keeps them
  // from being made.
  void FinalWaits() {
    step_ = "final waits";
    Schedule whole = best_;
    AddNotReached(&whole);
    Try(whole);
    do {
      changed_ = false;
      std::vector<std::vector<OpId>> waits;
      ForEachOp(best_, [&](size_t, size_t, const Op& op) {
        if (IsHostWait(op.kind) && op.unfinished) waits.push_back({op.id});
      });
      ReduceOps("final waits", waits);
      ReduceOps("calls", SingleCalls());
      Connections();
    } while (changed_ && !stopped_);
  }

  void Sizes() {
    Reduce<std::vector<OpId>>(
        "sizes", Steps(best_),
        [this](const Schedule& base, const std::vector<std::vector<OpId>>& shrunk) {
          return WithLeastBytes(base, original_, shrunk);
        });
  }

  // Tries only what the verdict names: a good guess, and a large step.
  void Guess() {
    step_ = "witness";
    std::set<int> ranks;
    OpSet rest;
    for (size_t i = 0; i < best_.ranks.size(); ++i) ranks.insert(static_cast<int>(i));
    ForEachOp(best_, [&](size_t rank, size_t, const Op& op) {
      if (op.witness) ranks.erase(static_cast<int>(rank));
    });
    if (!ranks.empty() && ranks.size() < best_.ranks.size()) Try(WithoutRanks(best_, ranks));
    ForEachOp(best_, [&](size_t, size_t, const Op& op) {
      if (!op.witness && !IsStand(op)) rest.insert(op.id);
    });
    if (!rest.empty()) Try(WithoutOps(best_, rest));
  }

  void Search() {
    WithoutNotReached();
    Guess();
    do {
      changed_ = false;
      TakeOut();
      Shape();
    } while (changed_ && !stopped_);
    Sizes();
    FinalWaits();
  }

  // An earlier search may have added them.
  void WithoutNotReached() {
    OpSet added;
    ForEachOp(best_, [&](size_t, size_t, const Op& op) {
      if (op.not_reached) added.insert(op.id);
    });
    if (!added.empty()) best_ = WithoutOps(best_, added);
  }

  void Confirm() {
    if (Confirms(best_)) {
      report_.confirmed = true;
      return;
    }
    // Finds, by bisection of the accepted schedules, the smallest that still hangs when run,
    // assuming that every larger one does.
    size_t good = 0, bad = chain_.size() - 1;
    if (bad == 0 || !Confirms(chain_[0])) {
      report_.refused = "by the model it hangs (" + Describe(goal_.signature) +
                        "), but a run of it does not hang in that way";
      return;
    }
    while (bad - good > 1 && !stopped_) {
      const size_t middle = good + (bad - good) / 2;
      (Confirms(chain_[middle]) ? good : bad) = middle;
    }
    best_ = chain_[good];
    report_.confirmed = true;
    chain_.clear();
    confirm_each_ = true;
    if (!stopped_) Search();
  }

  const Schedule& original_;
  const MinimizeOptions& options_;
  Schedule best_;
  ModelRun goal_;
  std::set<OpId> stood_;
  bool same_in_any_order_ = false;
  std::vector<Schedule> chain_;  // the accepted schedules, each made from the one before
  bool confirm_each_ = false;
  bool changed_ = false, stopped_ = false;
  const char* step_ = "";
  MinimizeReport report_;
};

std::string Thousands(size_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

}  // namespace

MinimizeReport Minimize(const Schedule& schedule, const MinimizeOptions& options) {
  return Minimizer(schedule, options).Run();
}

std::string Describe(const MinimizeReport& report) {
  if (!report.refused.empty()) return report.refused;
  std::string text = Thousands(report.ranks_after) + " of " + Thousands(report.ranks_before) +
                     " ranks, " + Thousands(report.operations_after) + " of " +
                     Thousands(report.operations_before) + " operations (" +
                     Thousands(report.candidates) + " candidates";
  if (report.confirmations > 0)
    text += ", " + Thousands(report.confirmations) + (report.confirmations == 1 ? " run" : " runs");
  return text + (report.minimal ? ")" : "; not searched to the end)");
}

}  // namespace gordian::replayer
