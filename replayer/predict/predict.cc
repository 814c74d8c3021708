#include "replayer/predict/predict.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "analyzer/explore/collective_order_graph.h"
#include "analyzer/explore/order_search.h"
#include "analyzer/model/verdict/check_catalogue.h"
#include "replayer/predict/readiness.h"
#include "replayer/predict/schedule_state.h"
#include "replayer/reduce/model_run.h"

namespace gordian::replayer {
namespace {

using explore::Step;

// So many ends of orders a search asks the model about.
constexpr size_t kMostEnds = 1000;

// `more` has the sites of `known`. One without doubt stands for those with it.
void Join(Prediction&& more, Prediction* known) {
  const size_t alike = known->alike + more.alike + 1;
  if ((more.doubt.empty() && !known->doubt.empty()) || (more.run_decides && !known->run_decides))
    *known = std::move(more);
  known->alike = alike;
}

class Predictor {
 public:
  Predictor(const RecordedOrders& orders, const PredictOptions& options)
      : orders_(orders),
        options_(options),
        schedule_(orders.schedule),
        footprints_(FootprintsOf(schedule_)),
        root_(schedule_, footprints_) {
    ForEachOp(schedule_, [this](size_t rank, size_t thread, const Op& op) {
      places_[op.id] = {rank, thread, &op};
    });
  }

  Predictions Run() {
    result_.not_judged = orders_.not_judged;
    result_.ranks = schedule_.ranks.size();
    result_.calls = orders_.calls;
    result_.left_out = orders_.before;
    if (schedule_.ranks.empty()) {
      if (result_.not_judged.empty())
        result_.not_judged.push_back("no operations were recorded at all of their members");
      return std::move(result_);
    }
    if (!orders_.free) {
      result_.judged = true;
      result_.complete = result_.not_judged.empty();
      return std::move(result_);
    }
    const ModelRun recorded = RunModel(Forced(Recorded()));
    if (recorded.hangs || !recorded.standing.empty()) {
      result_.not_judged.push_back(
          "by the model the recorded order does not end: something that gordian does not see lets "
          "it end (" +
          recorded.summary + ")");
      return std::move(result_);
    }
    result_.judged = true;
    FindAll();
    Sort();
    result_.complete &= result_.unconfirmed.empty();
    return std::move(result_);
  }

 private:
  struct Place {
    size_t rank = 0, thread = 0;
    const Op* op = nullptr;
  };

  const Op& OpOf(const Step& step) const {
    return schedule_.ranks[root_.RankOf(step.actor)]
        .threads[root_.ThreadOf(step.actor)]
        .ops[step.call];
  }

  bool GoesOn() const {
    return !options_.progress ||
           options_.progress({result_.candidates, tried_, result_.states, found_.size()});
  }

  void FindAll() {
    const OrderedCalls calls = OrderedCallsOf(orders_);
    const explore::Candidates candidates =
        explore::FindCandidates(calls.calls, options_.max_candidates);
    result_.candidates = candidates.found.size();
    std::vector<const explore::Candidate*> open;
    for (const explore::Candidate& candidate : candidates.found) {
      if (!GoesOn()) return;
      ++tried_;
      if (!Follow(calls, candidate)) open.push_back(&candidate);
    }
    std::erase_if(open, [&](const explore::Candidate* candidate) {
      return found_.contains(SitesOf(calls, *candidate));
    });
    bool searched = candidates.all;
    if (!open.empty()) searched &= Search();
    // Of dead ends that are no deadlocks, or that gates cannot force, nothing is claimed.
    for (const std::string& verdict : others_)
      result_.not_judged.push_back("orders that the model calls " + verdict);
    if (unforced_)
      result_.not_judged.push_back(
          "orders in which first uses of communicators, in two threads at once, end otherwise");
    // A complete search has shown of the others that no order reaches them.
    result_.complete = searched && result_.not_judged.empty();
    if (searched) return;
    for (const explore::Candidate* const candidate : open) Leave(calls, *candidate);
    if (!candidates.all)
      result_.not_judged.push_back("orders beyond the first " + std::to_string(result_.candidates) +
                                   " candidates");
  }

  // Makes the calls in the order that the candidate needs. Returns whether that is a deadlock.
  bool Follow(const OrderedCalls& calls, const explore::Candidate& candidate) {
    std::vector<explore::Wish> wishes;
    for (const auto* const pairs : {&candidate.reversals, &candidate.as_recorded}) {
      for (const auto& [first, second] : *pairs)
        wishes.push_back({.later = calls.steps[second], .before = calls.steps[first]});
    }
    const std::unique_ptr<explore::Explorable> state = root_.Clone();
    const std::vector<Step> path = explore::Follow(state.get(), wishes);
    return Judge(*state, path);
  }

  // Returns whether every state was seen.
  bool Search() {
    explore::SearchOptions options;
    options.max_states = options_.max_states;
    options.on_end = [&](const explore::Explorable& state, const std::vector<Step>& path) {
      Judge(state, path);
      return ++judged_ends_ < kMostEnds;
    };
    options.on_state = [&](size_t states) {
      result_.states = states;
      return states % 64 != 0 || GoesOn();
    };
    const explore::SearchReport report = explore::SearchOrders(root_, options);
    result_.states = report.states;
    return report.complete;
  }

  // Asks the model about a state in which nothing moves. Returns whether it is a deadlock.
  bool Judge(const explore::Explorable& state, const std::vector<Step>& path) {
    if (static_cast<const ScheduleState&>(state).machine().AllEnded()) return false;
    std::string key = state.Key();
    if (const auto known = judged_.find(key); !key.empty() && known != judged_.end())
      return known->second;
    const Order order = OrderOf(path, state.Actors());
    Schedule forced = Forced(order);
    const ModelRun run = RunModel(forced);
    const bool deadlock = IsDeadlock(run) && HangsAnyhow(forced);
    judged_.emplace(std::move(key), deadlock);
    if (deadlock) {
      Note(run, order, std::move(forced));
    } else if (!run.hangs || IsDeadlock(run)) {
      unforced_ = true;
    } else {
      others_.insert(run.signature.verdict);
    }
    return deadlock;
  }

  static bool IsDeadlock(const ModelRun& run) {
    return run.hangs && run.signature.verdict == model::Name(model::VerdictKind::kDeadlock);
  }

  // Gates order the beginnings of calls. Where first uses wait in two threads at once, something
  // else decides which one goes on first.
  bool HangsAnyhow(const Schedule& forced) const {
    bool may_connect = false;
    ForEachOp(forced, [&](size_t, size_t, const Op& op) {
      may_connect |= IsTransfer(op.kind) || (IsOperation(op.kind) &&
                                             !forced.comms[static_cast<size_t>(op.comm)].connected);
    });
    if (!may_connect) return true;
    std::vector<Turns> tried = {~kFirstFirst, Turns{1}, ~Turns{1}};
    for (size_t rank = 0; rank < forced.ranks.size(); ++rank)
      tried.push_back(LastThreadFirst(rank));
    return std::all_of(tried.begin(), tried.end(),
                       [&](Turns turns) { return IsDeadlock(RunModel(forced, turns)); });
  }

  // When a call began and returned; UINT64_MAX: it did not.
  struct Moments {
    uint64_t begun = UINT64_MAX, returned = UINT64_MAX;
  };
  struct Order {
    std::vector<std::vector<OpId>> begun;  // by rank
    std::unordered_map<OpId, Moments> moments;
  };

  Order Recorded() const {
    Order order{.begun = orders_.recorded, .moments = {}};
    for (const std::vector<OpId>& rank : orders_.recorded) {
      for (const OpId id : rank) {
        const auto& [begun, returned] = orders_.moments.at(id);
        order.moments[id] = {begun, returned == 0 ? UINT64_MAX : returned};
      }
    }
    return order;
  }

  Order OrderOf(const std::vector<Step>& path, const std::vector<explore::Actor>& end) const {
    Order order{.begun = std::vector<std::vector<OpId>>(schedule_.ranks.size()), .moments = {}};
    for (size_t i = 0; i < path.size(); ++i) {
      const Op& op = OpOf(path[i]);
      Moments& moments = order.moments[op.id];
      if (moments.begun != UINT64_MAX) {
        moments.returned = i;
        continue;
      }
      moments.begun = i;
      order.begun[root_.RankOf(path[i].actor)].push_back(op.id);
      // Host waits return as soon as they can, which is no step.
      if (end[path[i].actor].at > path[i].call && !IsHostWait(op.kind)) moments.returned = i;
    }
    return order;
  }

  // The schedule, with each rank's calls beginning in that order.
  Schedule Forced(const Order& order) const {
    std::unordered_map<OpId, Gate> gates;
    for (const std::vector<OpId>& rank : order.begun) {
      for (size_t i = 1; i < rank.size(); ++i) {
        if (places_.at(rank[i - 1]).thread == places_.at(rank[i]).thread) continue;
        const bool returned =
            order.moments.at(rank[i - 1]).returned < order.moments.at(rank[i]).begun;
        gates[rank[i]] = {rank[i - 1], returned ? Gate::Moment::kReturned : Gate::Moment::kCalled};
      }
    }
    Schedule forced = schedule_;
    ForEachOp(forced, [&](size_t, size_t, Op& op) {
      if (const auto found = gates.find(op.id); found != gates.end()) {
        std::erase_if(op.gates,
                      [&](const Gate& gate) { return gate.after == found->second.after; });
        op.gates.push_back(found->second);
      }
    });
    return forced;
  }

  std::string SiteOf(const Op& op) const {
    std::string site = Name(op.kind);
    site += " " + op.site;
    if (op.site.empty() && op.comm >= 0) site += schedule_.comms[static_cast<size_t>(op.comm)].name;
    return site;
  }

  std::set<std::string> SitesOf(const OrderedCalls& calls,
                                const explore::Candidate& candidate) const {
    std::set<std::string> sites;
    for (const size_t call : candidate.calls) sites.insert(SiteOf(*calls.ops[call]));
    return sites;
  }

  void Note(const ModelRun& run, const Order& order, Schedule forced) {
    Prediction prediction;
    for (const OpId id : run.cycle) {
      if (!places_.contains(id)) continue;
      prediction.cycle.push_back(id);
      prediction.sites.insert(SiteOf(*places_.at(id).op));
    }
    prediction.orders = Needed(prediction.cycle, order);
    prediction.doubt = Doubt(prediction.orders);
    Origin& origin = forced.origin;
    origin.signature = run.signature;
    origin.check = run.check;
    origin.confidence.clear();  // that of the recorded run
    origin.summary = "predicted: " + run.summary;
    origin.ranks = schedule_.ranks.size();
    origin.operations = CountOperations(schedule_);
    prediction.witness = std::move(forced);
    Add(std::move(prediction));
  }

  void Add(Prediction prediction) {
    const std::set<std::string> sites = prediction.sites;
    std::vector<OpId> calls = prediction.cycle;
    std::sort(calls.begin(), calls.end());
    const bool another = cycles_[sites].insert(std::move(calls)).second;
    const auto [known, added] = found_.try_emplace(sites, prediction);
    if (added) return;
    Join(std::move(prediction), &known->second);
    if (!another) --known->second.alike;
  }

  // For each rank of the cycle: the call that it waits in comes before the one that the rank before
  // it waits for.
  std::vector<CallOrder> Needed(const std::vector<OpId>& cycle, const Order& order) const {
    std::vector<CallOrder> needed;
    bool another = false;
    for (size_t i = 0; i < cycle.size(); ++i) {
      const Place& waits = places_.at(cycle[(i + 1) % cycle.size()]);
      const Op& awaited = *places_.at(cycle[i]).op;
      for (const OpId id : orders_.recorded[waits.rank]) {
        const Place& call = places_.at(id);
        if (call.op->comm != awaited.comm || !IsOperation(call.op->kind) ||
            !Before(waits.op->id, id, order))
          continue;
        if (call.thread != waits.thread) {
          needed.push_back({waits.rank, waits.op->id, id, AsRecorded(waits.op->id, id)});
          another |= !needed.back().as_recorded;
        }
        break;
      }
    }
    if (another) return needed;
    // What led there came before the cycle.
    std::set<size_t> ranks;
    for (const OpId id : cycle) ranks.insert(places_.at(id).rank);
    for (const size_t rank : ranks) {
      if (const std::optional<CallOrder> reversed = FirstReversed(rank, order))
        needed.push_back(*reversed);
    }
    return needed;
  }

  // The first call's work came before the second's.
  bool AsRecorded(OpId first, OpId second) const {
    return orders_.moments.at(first).second < orders_.moments.at(second).first;
  }

  static bool Before(OpId first, OpId second, const Order& order) {
    const auto begun = order.moments.find(second);
    return begun == order.moments.end() || order.moments.at(first).begun < begun->second.begun;
  }

  std::optional<CallOrder> FirstReversed(size_t rank, const Order& order) const {
    for (const OpId later : orders_.recorded[rank]) {
      const Place& second = places_.at(later);
      if (!IsOperation(second.op->kind)) continue;
      for (const OpId earlier : order.begun[rank]) {
        if (!Before(earlier, later, order)) break;
        const Place& first = places_.at(earlier);
        if (IsOperation(first.op->kind) && first.thread != second.thread &&
            !AsRecorded(earlier, later))
          return CallOrder{rank, earlier, later, false};
      }
    }
    return std::nullopt;
  }

  // Why something that gordian does not see may forbid the order.
  std::string Doubt(const std::vector<CallOrder>& orders) const {
    for (const CallOrder& order : orders) {
      if (order.as_recorded) continue;
      const std::string rank = std::to_string(schedule_.ranks[order.rank].rank);
      std::string one = places_.at(order.first).op->site, other = places_.at(order.second).op->site;
      if (other < one) std::swap(one, other);
      if (orders_.turns.contains({order.rank, one, other}))
        return "the threads of rank " + rank + " took turns at " + one + " and " + other +
               ", each time in the same order: something that gordian does not see may order them";
      const std::string thread = "thread " + std::to_string(places_.at(order.first).thread + 1);
      if (orders_.held.contains(order.first))
        return thread + " of rank " + rank +
               " was seen to wait for another thread before that call: this may order them";
      if (orders_.unseen.contains(order.first))
        return thread + " of rank " + rank +
               " was not seen between its calls: it may have waited for another thread";
      const auto [low, high] =
          std::minmax(places_.at(order.first).thread, places_.at(order.second).thread);
      if (orders_.sharing.contains({order.rank, low, high}))
        return "threads " + std::to_string(low + 1) + " and " + std::to_string(high + 1) +
               " of rank " + rank +
               " used one communicator by turns, which NCCL allows only if something orders them";
      if (orders_.polling.contains(order.rank))
        return "a thread of rank " + rank +
               " queries events or streams in a loop: gordian does not see what that orders";
    }
    return "";
  }

  // A candidate that no trial reached, while not all were tried.
  void Leave(const OrderedCalls& calls, const explore::Candidate& candidate) {
    Prediction prediction{.witness = schedule_};
    for (const size_t call : candidate.calls) {
      prediction.cycle.push_back(calls.ops[call]->id);
    }
    prediction.sites = SitesOf(calls, candidate);
    for (const auto* const pairs : {&candidate.reversals, &candidate.as_recorded}) {
      for (const auto& [first, second] : *pairs)
        prediction.orders.push_back({calls.calls[first].group, calls.ops[first]->id,
                                     calls.ops[second]->id, pairs == &candidate.as_recorded});
    }
    prediction.doubt = "no order that leads there was found among those that were tried";
    Add(std::move(prediction));
  }

  void Sort() {
    for (auto& [sites, prediction] : found_) {
      (prediction.doubt.empty() ? result_.predicted : result_.unconfirmed)
          .push_back(std::move(prediction));
    }
    for (auto* const list : {&result_.predicted, &result_.unconfirmed}) {
      std::sort(list->begin(), list->end(),
                [](const Prediction& a, const Prediction& b) { return a.cycle < b.cycle; });
    }
  }

  const RecordedOrders& orders_;
  const PredictOptions options_;
  const Schedule& schedule_;
  const Footprints footprints_;
  const ScheduleState root_;
  std::unordered_map<OpId, Place> places_;
  std::unordered_map<std::string, bool> judged_;  // by the state's key
  std::map<std::set<std::string>, Prediction> found_;
  std::set<std::string> others_;  // verdicts on dead ends that are no deadlocks
  bool unforced_ = false;         // a dead end was met that its witness did not reach
  std::map<std::set<std::string>, std::set<std::vector<OpId>>> cycles_;  // by their sites
  size_t tried_ = 0;
  size_t judged_ends_ = 0;  // of the search
  Predictions result_;
};

}  // namespace

Predictions Predict(const RecordedOrders& orders, const PredictOptions& options) {
  Predictions predictions = Predictor(orders, options).Run();
  if (!predictions.judged) return predictions;
  for (Prediction& found : PredictReadiness(orders, options.max_candidates))
    predictions.unconfirmed.push_back(std::move(found));
  predictions.complete &= predictions.unconfirmed.empty();
  return predictions;
}

void Merge(Predictions&& window, bool free, Predictions* all) {
  std::map<std::set<std::string>, Prediction> found;
  for (Predictions* const of : {all, &window}) {
    for (std::vector<Prediction>* const list : {&of->predicted, &of->unconfirmed}) {
      for (Prediction& prediction : std::exchange(*list, {})) {
        const std::set<std::string> sites = prediction.sites;
        if (const auto known = found.find(sites); known != found.end()) {
          Join(std::move(prediction), &known->second);
        } else {
          found.emplace(sites, std::move(prediction));
        }
      }
    }
  }
  for (auto& [sites, prediction] : found)
    (prediction.doubt.empty() ? all->predicted : all->unconfirmed).push_back(std::move(prediction));
  for (std::string& why : window.not_judged) {
    if (std::find(all->not_judged.begin(), all->not_judged.end(), why) == all->not_judged.end())
      all->not_judged.push_back(std::move(why));
  }
  all->judged |= window.judged;
  // Orders across windows were not tried.
  all->complete &= window.complete && !free;
  all->candidates += window.candidates;
  all->states += window.states;
  all->ranks = std::max(all->ranks, window.ranks);
  all->calls += window.calls;
  all->left_out += window.left_out;
}

}  // namespace gordian::replayer
