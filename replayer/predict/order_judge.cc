#include "replayer/predict/order_judge.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "analyzer/model/verdict/check_catalogue.h"

namespace gordian::replayer {

using explore::Step;

namespace {

bool IsDeadlock(const ModelRun& run) {
  return run.hangs && run.signature.verdict == model::Name(model::VerdictKind::kDeadlock);
}

}  // namespace

void OtherEnds::Add(const JudgedEnd& end) {
  if (end.kind == JudgedEnd::Kind::kOther) verdicts.insert(end.verdict);
  unforced |= end.kind == JudgedEnd::Kind::kUnforced;
}

void OtherEnds::NoteIn(Predictions* predictions) const {
  for (const std::string& verdict : verdicts)
    predictions->not_judged.push_back("orders that the model calls " + verdict);
  if (unforced)
    predictions->not_judged.push_back(
        "orders in which first uses of communicators, in two threads at once, end otherwise");
}

OrderJudge::OrderJudge(const RecordedOrders& orders)
    : orders_(orders),
      schedule_(orders.schedule),
      footprints_(FootprintsOf(schedule_)),
      root_(schedule_, footprints_) {
  const size_t actors = root_.Actors().size();
  for (size_t actor = 0; actor < actors; ++actor) {
    const size_t rank = root_.RankOf(actor), thread = root_.ThreadOf(actor);
    if (thread >= schedule_.ranks[rank].threads.size()) continue;  // a rank without calls
    const std::vector<Op>& ops = schedule_.ranks[rank].threads[thread].ops;
    for (size_t i = 0; i < ops.size(); ++i)
      places_[ops[i].id] = {rank, thread, &ops[i], {actor, i}};
  }
}

bool OrderJudge::Begin(Predictions* predictions) const {
  predictions->not_judged = orders_.not_judged;
  predictions->ranks = schedule_.ranks.size();
  predictions->calls = orders_.calls;
  predictions->left_out = orders_.before;
  if (schedule_.ranks.empty()) {
    if (predictions->not_judged.empty())
      predictions->not_judged.push_back("no operations were recorded at all of their members");
    return false;
  }
  if (!orders_.free) {
    predictions->judged = true;
    predictions->complete = predictions->not_judged.empty();
    return false;
  }
  const ModelRun recorded = RunModel(Forced(Recorded()));
  if (recorded.hangs || !recorded.standing.empty()) {
    predictions->not_judged.push_back(
        "by the model the recorded order does not end: something that gordian does not see lets "
        "it end (" +
        recorded.summary + ")");
    return false;
  }
  predictions->judged = true;
  return true;
}

JudgedEnd OrderJudge::Judge(const explore::Explorable& state, const std::vector<Step>& path) const {
  JudgedEnd end = JudgeOrder(state, path);
  if (end.kind != JudgedEnd::Kind::kUnforced) return end;
  // Calls that overlapped go on in any order. One after the other, as they went on, they may not.
  const std::unique_ptr<explore::Explorable> again = root_.Clone();
  const std::vector<std::vector<Step>> wanted = AsReturned(OrderOf(path, state.Actors()));
  std::vector<size_t> made(wanted.size(), 0);  // by rank
  std::vector<Step> other;
  explore::PreemptionCounter preemptions;
  while (true) {
    const std::vector<explore::Actor> actors = again->Actors();
    size_t chosen = actors.size(), any = actors.size();
    for (size_t i = 0; i < actors.size() && chosen == actors.size(); ++i) {
      if (!actors[i].enabled) continue;
      any = i;
      if (actors[i].in_call) chosen = i;
    }
    for (size_t rank = 0; rank < wanted.size() && chosen == actors.size(); ++rank) {
      if (made[rank] == wanted[rank].size()) continue;
      const Step& next = wanted[rank][made[rank]];
      if (!actors[next.actor].enabled || actors[next.actor].at != next.call) continue;
      chosen = next.actor;
      ++made[rank];
    }
    if (chosen == actors.size()) chosen = any;
    if (chosen == actors.size()) break;
    preemptions.Count(actors, chosen);
    other.push_back({chosen, actors[chosen].at});
    again->Move(chosen);
  }
  JudgedEnd forced = JudgeOrder(*again, other);
  if (forced.kind != JudgedEnd::Kind::kDeadlock) return end;
  forced.prediction.preemptions = preemptions.preemptions();
  return forced;
}

// Each rank's calls in the order in which they returned, then those that did not.
std::vector<std::vector<Step>> OrderJudge::AsReturned(const Order& order) const {
  std::vector<std::vector<Step>> all;
  for (const std::vector<OpId>& begun : order.begun) {
    std::vector<std::pair<uint64_t, Step>> calls;
    for (const OpId id : begun) {
      const Place& place = places_.at(id);
      const Moments& moments = order.moments.at(id);
      // When a host wait returned is not in the order.
      calls.emplace_back(IsHostWait(place.op->kind) ? moments.begun : moments.returned, place.step);
    }
    std::stable_sort(calls.begin(), calls.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Step>& steps = all.emplace_back();
    for (const auto& [moment, step] : calls) steps.push_back(step);
  }
  return all;
}

JudgedEnd OrderJudge::JudgeOrder(const explore::Explorable& state,
                                 const std::vector<Step>& path) const {
  JudgedEnd end;
  if (static_cast<const ScheduleState&>(state).machine().AllEnded()) return end;
  const Order order = OrderOf(path, state.Actors());
  std::vector<UnreachedCall> unreached;
  Schedule forced = Forced(order, &unreached);
  const ModelRun run = RunModel(forced);
  // With gates alone the calls may go on in another way than in this order, and wait elsewhere.
  const bool same = std::all_of(run.cycle.begin(), run.cycle.end(), [&](OpId id) {
    return !places_.contains(id) || order.moments.contains(id);
  });
  if (IsDeadlock(run) && same && HangsAnyhow(forced)) {
    end.kind = JudgedEnd::Kind::kDeadlock;
    end.prediction = Describe(run, order, std::move(forced));
    end.prediction.unreached = std::move(unreached);
  } else if (!run.hangs || IsDeadlock(run)) {
    end.kind = JudgedEnd::Kind::kUnforced;
  } else {
    end.kind = JudgedEnd::Kind::kOther;
    end.verdict = run.signature.verdict;
  }
  return end;
}

const Op& OrderJudge::OpOf(const Step& step) const {
  return schedule_.ranks[root_.RankOf(step.actor)]
      .threads[root_.ThreadOf(step.actor)]
      .ops[step.call];
}

// Gates order the beginnings of calls. Where first uses wait in two threads at once, something
// else decides which one goes on first.
bool OrderJudge::HangsAnyhow(const Schedule& forced) const {
  bool may_connect = false;
  ForEachOp(forced, [&](size_t, size_t, const Op& op) {
    may_connect |= IsTransfer(op.kind) ||
                   (IsOperation(op.kind) && !forced.comms[static_cast<size_t>(op.comm)].connected);
  });
  if (!may_connect) return true;
  std::vector<Turns> tried = {~kFirstFirst, Turns{1}, ~Turns{1}};
  for (size_t rank = 0; rank < forced.ranks.size(); ++rank) tried.push_back(LastThreadFirst(rank));
  return std::all_of(tried.begin(), tried.end(),
                     [&](Turns turns) { return IsDeadlock(RunModel(forced, turns)); });
}

OrderJudge::Order OrderJudge::Recorded() const {
  Order order{.begun = orders_.recorded, .moments = {}, .all = {}};
  for (const std::vector<OpId>& rank : orders_.recorded) {
    for (const OpId id : rank) {
      const auto& [begun, returned] = orders_.moments.at(id);
      order.moments[id] = {begun, returned == 0 ? UINT64_MAX : returned};
    }
  }
  return order;
}

OrderJudge::Order OrderJudge::OrderOf(const std::vector<Step>& path,
                                      const std::vector<explore::Actor>& end) const {
  Order order{
      .begun = std::vector<std::vector<OpId>>(schedule_.ranks.size()), .moments = {}, .all = {}};
  for (size_t actor = 0; actor < end.size(); ++actor) {
    if (!end[actor].finished && !end[actor].in_call && !end[actor].enabled)
      order.held.insert(OpOf({actor, end[actor].at}).id);
  }
  for (size_t i = 0; i < path.size(); ++i) {
    const Op& op = OpOf(path[i]);
    Moments& moments = order.moments[op.id];
    if (moments.begun != UINT64_MAX) {
      moments.returned = i;
      continue;
    }
    moments.begun = i;
    order.all.push_back(op.id);
    order.begun[root_.RankOf(path[i].actor)].push_back(op.id);
    // Host waits return as soon as they can, which is no step.
    if (end[path[i].actor].at > path[i].call && !IsHostWait(op.kind)) moments.returned = i;
  }
  return order;
}

// The schedule, with each rank's calls beginning in that order.
Schedule OrderJudge::Forced(const Order& order, std::vector<UnreachedCall>* unreached) const {
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
  std::vector<UnreachedCall> dropped = DropUnreached(order, &forced);
  if (unreached != nullptr) *unreached = std::move(dropped);
  ForEachOp(forced, [&](size_t, size_t, Op& op) {
    if (const auto found = gates.find(op.id); found != gates.end()) {
      std::erase_if(op.gates, [&](const Gate& gate) { return gate.after == found->second.after; });
      op.gates.push_back(found->second);
    }
  });
  return forced;
}

// Threads that wait for another one to come to a call, where nothing moves any more, wait for ever.
// As a gate, which a thread polls, such a wait would say that the thread runs: so it ends instead.
std::vector<UnreachedCall> OrderJudge::DropUnreached(const Order& order, Schedule* forced) {
  std::vector<UnreachedCall> dropped;
  if (order.held.empty()) return dropped;
  std::unordered_set<OpId> ids;
  for (size_t rank = 0; rank < forced->ranks.size(); ++rank) {
    std::vector<ThreadProgram>& threads = forced->ranks[rank].threads;
    for (size_t thread = 0; thread < threads.size(); ++thread) {
      std::vector<Op>& ops = threads[thread].ops;
      const auto held = std::find_if(ops.begin(), ops.end(),
                                     [&](const Op& op) { return order.held.contains(op.id); });
      for (auto op = held; op != ops.end(); ++op) {
        ids.insert(op->id);
        dropped.push_back({rank, thread, std::move(*op)});
      }
      ops.erase(held, ops.end());
    }
  }
  ForEachOp(*forced, [&](size_t, size_t, Op& op) {
    std::erase_if(op.gates, [&](const Gate& gate) { return ids.contains(gate.after); });
  });
  return dropped;
}

std::string OrderJudge::SiteOf(const Op& op) const {
  std::string site = Name(op.kind);
  site += " " + op.site;
  if (op.site.empty() && op.comm >= 0) site += schedule_.comms[static_cast<size_t>(op.comm)].name;
  return site;
}

Prediction OrderJudge::Describe(const ModelRun& run, const Order& order, Schedule forced) const {
  Prediction prediction;
  for (const OpId id : run.cycle) {
    if (!places_.contains(id)) continue;
    prediction.cycle.push_back(id);
    prediction.sites.insert(SiteOf(*places_.at(id).op));
  }
  prediction.orders = Needed(prediction.cycle, order);
  prediction.doubt = Doubt(prediction.orders);
  prediction.begun = order.all;
  Origin& origin = forced.origin;
  origin.signature = run.signature;
  origin.check = run.check;
  origin.confidence.clear();  // that of the recorded run
  origin.summary = "predicted: " + run.summary;
  origin.ranks = schedule_.ranks.size();
  origin.operations = CountOperations(schedule_);
  prediction.witness = std::move(forced);
  return prediction;
}

// For each rank of the cycle: the call that it waits in comes before the one that the rank before
// it waits for.
std::vector<CallOrder> OrderJudge::Needed(const std::vector<OpId>& cycle,
                                          const Order& order) const {
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
bool OrderJudge::AsRecorded(OpId first, OpId second) const {
  return orders_.moments.at(first).second < orders_.moments.at(second).first;
}

bool OrderJudge::Before(OpId first, OpId second, const Order& order) {
  const auto begun = order.moments.find(second);
  return begun == order.moments.end() || order.moments.at(first).begun < begun->second.begun;
}

std::optional<CallOrder> OrderJudge::FirstReversed(size_t rank, const Order& order) const {
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
std::string OrderJudge::Doubt(const std::vector<CallOrder>& orders) const {
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

}  // namespace gordian::replayer
