#include "replayer/predict/explore.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "analyzer/model/hash.h"
#include "replayer/predict/order_judge.h"

namespace gordian::replayer {
namespace {

using explore::Step;

// A thread is started for no less work.
constexpr size_t kLeastShare = 4;

// Equal for windows whose searches are the same.
uint64_t DigestOf(const RecordedOrders& orders) {
  model::Hash digest;
  const Schedule& schedule = orders.schedule;
  for (const Communicator& comm : schedule.comms) {
    digest.Add(comm.name);
    for (const int member : comm.members) digest.Add(static_cast<uint64_t>(member));
    digest.Add(uint64_t{comm.ready} + 2 * uint64_t{comm.connected});
    for (const auto& [from, to] : comm.connected_pairs) {
      digest.Add(static_cast<uint64_t>(from));
      digest.Add(static_cast<uint64_t>(to));
    }
  }
  for (const RankProgram& rank : schedule.ranks) {
    digest.Add(static_cast<uint64_t>(rank.rank));
    for (const Stream& stream : rank.streams) digest.Add(static_cast<uint64_t>(stream.kind));
  }
  ForEachOp(schedule, [&](size_t rank, size_t thread, const Op& op) {
    for (const uint64_t number :
         {uint64_t{rank}, uint64_t{thread}, uint64_t{op.id}, static_cast<uint64_t>(op.kind),
          op.count, uint64_t{op.datatype}, uint64_t{op.in_group} + 2 * uint64_t{op.captured}})
      digest.Add(number);
    for (const int number : {op.comm, op.stream, op.event, op.root_or_peer})
      digest.Add(static_cast<uint64_t>(number));
    digest.Add(op.site);
    for (const Gate& gate : op.gates) {
      digest.Add(gate.after);
      digest.Add(static_cast<uint64_t>(gate.moment));
    }
  });
  for (const std::vector<OpId>& rank : orders.recorded) {
    for (const OpId id : rank) digest.Add(id);
  }
  for (const auto& [name, value] : schedule.environment) {
    digest.Add(name);
    digest.Add(value);
  }
  return digest.value();
}

// What was met, in whatever order it comes.
class Ends {
 public:
  void Add(uint64_t number, std::vector<uint32_t> path, size_t preemptions, JudgedEnd&& end) {
    Key key;
    if (!end.prediction.preemptions) end.prediction.preemptions = preemptions;
    Rank rank(false, *end.prediction.preemptions, number);
    if (end.kind == JudgedEnd::Kind::kDeadlock) {
      key.first = end.prediction.sites;
      key.second = end.prediction.cycle;
      std::sort(key.second.begin(), key.second.end());
      std::get<0>(rank) = !end.prediction.doubt.empty();
    } else {
      // One of each kind is enough. No set of call sites is empty.
      key.second = {end.kind == JudgedEnd::Kind::kUnforced ? 1u : 2u};
      if (!end.verdict.empty()) key.first = {"verdict " + end.verdict};
    }
    const std::lock_guard lock(mutex_);
    others_.Add(end);
    const auto [kept, added] = kept_.try_emplace(key, Kept{rank, path});
    if (!added && rank < kept->second.rank) kept->second = {rank, std::move(path)};
    if (end.kind != JudgedEnd::Kind::kDeadlock) return;
    auto& cycles = cycles_[key.first];
    cycles.insert(key.second);
    const auto found = best_.find(key.first);
    if (found != best_.end() && found->second.first <= rank) return;
    best_.insert_or_assign(key.first, std::pair(rank, std::move(end.prediction)));
  }

  size_t Found() const {
    const std::lock_guard lock(mutex_);
    return best_.size();
  }

  std::vector<KeptEnd> ToKeep() const {
    const std::lock_guard lock(mutex_);
    std::vector<KeptEnd> ends;
    for (const auto& [key, kept] : kept_) ends.push_back({std::get<2>(kept.rank), kept.path});
    std::sort(ends.begin(), ends.end(),
              [](const KeptEnd& a, const KeptEnd& b) { return a.number < b.number; });
    return ends;
  }

  void MoveTo(Predictions* predictions) {
    PredictionList list;
    for (auto& [sites, best] : best_) {
      best.second.alike = cycles_.at(sites).size() - 1;
      list.Add(std::move(best.second));
    }
    list.MoveTo(predictions);
    others_.NoteIn(predictions);
  }

 private:
  using Key = std::pair<std::set<std::string>, std::vector<OpId>>;  // call sites and cycle
  using Rank =
      std::tuple<bool, size_t, uint64_t>;  // doubted, preemptions, number: the least is best
  struct Kept {
    Rank rank;
    std::vector<uint32_t> path;
  };

  mutable std::mutex mutex_;
  std::map<Key, Kept> kept_;
  std::map<std::set<std::string>, std::set<std::vector<OpId>>> cycles_;
  std::map<std::set<std::string>, std::pair<Rank, Prediction>> best_;
  OtherEnds others_;
};

std::vector<uint32_t> ActorsOf(const std::vector<Step>& path) {
  std::vector<uint32_t> actors;
  for (const Step& step : path) actors.push_back(static_cast<uint32_t>(step.actor));
  return actors;
}

// Judges again what an earlier search kept. False: these calls cannot come in that order, or it is
// not at an end.
bool JudgeAgain(const OrderJudge& judge, const KeptEnd& kept, Ends* ends) {
  const std::unique_ptr<explore::Explorable> state = judge.root().Clone();
  std::vector<Step> path;
  explore::PreemptionCounter preemptions;
  for (const uint32_t actor : kept.path) {
    const std::vector<explore::Actor> actors = state->Actors();
    if (actor >= actors.size() || !actors[actor].enabled) return false;
    preemptions.Count(actors, actor);
    path.push_back({actor, actors[actor].at});
    state->Move(actor);
  }
  const std::vector<explore::Actor> actors = state->Actors();
  if (std::any_of(actors.begin(), actors.end(), [](const auto& actor) { return actor.enabled; }))
    return false;
  JudgedEnd end = judge.Judge(*state, path);
  if (end.kind == JudgedEnd::Kind::kFinished) return false;
  ends->Add(kept.number, kept.path, preemptions.preemptions(), std::move(end));
  return true;
}

}  // namespace

std::function<void(size_t, const std::function<void(size_t)>&)> ByThreads(size_t threads) {
  return [threads](size_t count, const std::function<void(size_t)>& work) {
    std::atomic<size_t> taken = 0;
    const auto take = [&] {
      for (size_t i = taken++; i < count; i = taken++) work(i);
    };
    std::vector<std::jthread> others;
    for (size_t i = 1; i < std::min(threads, count / kLeastShare); ++i) others.emplace_back(take);
    take();
  };
}

StatusOr<Predictions> ExploreWindow(const RecordedOrders& orders, const OrderSearchOptions& options,
                                    WindowState* state) {
  const uint64_t digest = DigestOf(orders);
  const bool resumes = state->digest != 0;
  if (resumes && state->digest != digest)
    return Status::InvalidArgument("it was made of other calls than these");
  state->digest = digest;
  Predictions predictions;
  const OrderJudge judge(orders);
  if (!judge.Begin(&predictions)) {
    state->done = true;
    return predictions;
  }
  Ends ends;
  for (const KeptEnd& kept : state->ends) {
    if (!JudgeAgain(judge, kept, &ends))
      return Status::InvalidArgument("it holds an order that these calls cannot come in");
  }
  explore::ExploreOptions search{.max_preemptions = options.max_preemptions,
                                 .max_calls = options.max_calls,
                                 .max_states = options.max_states,
                                 .for_each = options.for_each};
  search.on_end = [&](uint64_t number, const explore::Explorable& end,
                      const std::vector<Step>& path, size_t preemptions) {
    JudgedEnd judged = judge.Judge(end, path);
    if (judged.kind != JudgedEnd::Kind::kFinished)
      ends.Add(number, ActorsOf(path), preemptions, std::move(judged));
  };
  explore::Explorer* searching = nullptr;
  const auto save = [&] {
    WindowState now{.digest = digest, .frontier = searching->Save(), .ends = ends.ToKeep()};
    now.done = now.frontier.open.empty();
    return now;
  };
  search.on_batch = [&](const explore::ExploreCounts& counts, size_t open) {
    return !options.on_batch || options.on_batch({counts, open, ends.Found()}, save);
  };
  explore::Explorer explorer(judge.root(), std::move(search));
  searching = &explorer;
  if (resumes && !explorer.Resume(state->frontier))
    return Status::InvalidArgument("it holds an order that these calls cannot come in");
  const bool done = explorer.Run();
  *state = save();
  predictions.states = explorer.counts().states;
  ends.MoveTo(&predictions);
  predictions.complete = done && explorer.counts().cut == 0 && predictions.not_judged.empty() &&
                         predictions.unconfirmed.empty();
  return predictions;
}

}  // namespace gordian::replayer
