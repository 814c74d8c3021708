#include "replayer/predict/recorded_orders.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/names.h"
#include "replayer/predict/readiness.h"
#include "replayer/predict/turns.h"
#include "replayer/predict/window_key.h"
#include "replayer/predict/windows.h"
#include "replayer/record/call_log.h"
#include "replayer/record/needed_calls.h"

namespace gordian::replayer {
namespace {

using model::ProcessId;
using model::ThreadId;

// When what rounds know of a thread changes, as KeepLives() reads it.
LifeMoments MomentsOf(const ThreadLives& lives) {
  LifeMoments moments;
  for (const auto& [thread, life] : lives) {
    std::vector<uint64_t>& of = moments[thread.first];
    of.insert(of.end(), {life.from_ns + (life.from_ns < UINT64_MAX), life.until_ns, life.waits_ns,
                         life.free_ns});
  }
  for (auto& [process, of] : moments) {
    std::sort(of.begin(), of.end());
    of.erase(std::unique(of.begin(), of.end()), of.end());
  }
  return moments;
}

class Reader {
 public:
  Reader(const JobFacts& facts, const CallLog& log, const ThreadLives& lives,
         std::vector<std::string> ready_sites, const OrdersOptions& options)
      : facts_(facts),
        log_(log),
        lives_(lives),
        ready_sites_(std::move(ready_sites)),
        options_(options) {}

  void Run(const OrdersSink& sink) {
    Refuse();
    if (!not_judged_.empty()) {
      sink({.not_judged = std::move(not_judged_)});
      return;
    }
    windows_.emplace(facts_, log_);
    if (windows_->unknown_comm()) Say("the creation of a communicator is not in the record");
    for (const auto& [id, rank] : windows_->ranks()) Use(id, rank, 0, rank.begin);
    free_ = !options_.threads_ordered && windows_->HasThreads();
    if (free_) FindTurns();
    FindReady();
    const LifeMoments moments = MomentsOf(lives_);
    std::map<WindowKey, size_t> numbers;  // of windows without a reason not to judge them
    size_t left = options_.max_calls, before = windows_->before();
    for (size_t number = 0;; ++number) {
      orders_ = {.free = free_, .ready_sites = ready_sites_, .before = std::exchange(before, 0)};
      const bool more = windows_->Next(std::min(WindowSize(), left));
      orders_.calls = windows_->calls();
      left -= std::min(left, orders_.calls);
      const bool last = !more || orders_.calls == 0 || left == 0;
      const bool folds = free_ && options_.knows && not_judged_.empty();
      const WindowKey key = folds ? KeyOf(*windows_, moments, connected_changes_) : WindowKey();
      const auto known = folds ? numbers.find(key) : numbers.end();
      if (known != numbers.end() && options_.knows(known->second)) {
        orders_.as = known->second;
      } else {
        Take();
        if (folds && not_judged_.empty()) numbers.emplace(key, number);
      }
      if (more && last) Say("calls after these");
      orders_.not_judged = std::exchange(not_judged_, {});
      if (!sink(std::move(orders_)) || last) return;
      for (const auto& [id, rank] : windows_->ranks()) Use(id, rank, rank.begin, rank.end);
    }
  }

 private:
  using Rank = Windows::Rank;
  struct Connected {
    bool collectives = false;
    std::vector<std::pair<int, int>> pairs;
    std::set<std::pair<int, int>> known;  // the same
  };

  void Say(const std::string& text) {
    if (std::find(not_judged_.begin(), not_judged_.end(), text) == not_judged_.end())
      not_judged_.push_back(text);
  }

  // What the executor of schedules cannot carry out, or the record does not hold.
  void Refuse() {
    const model::Finding& main = facts_.verdict.main;
    if (model::SaysTrouble(main.verdict) && !model::OnlySlow(main))
      Say("the run did not pass: " + main.summary);
    if (main.evidence.records_lost > 0)
      Say(std::to_string(main.evidence.records_lost) +
          " records were lost, and with them some calls");
    if (log_.host_operations() > 0)
      Say("operations of torch.distributed without NCCL are not explored");
    for (const std::string& unseen : main.evidence.not_visible) Say("not visible: " + unseen);
    for (const model::Communicator& comm : facts_.matcher.comms()) {
      const auto unseen =
          std::count_if(comm.members.begin(), comm.members.end(),
                        [](const model::CommMember& member) { return !member.known; });
      if (unseen > 0)
        Say(std::to_string(unseen) + " members of " +
            (comm.name.empty() ? "a communicator" : comm.name) + " are not in the record");
    }
    for (const auto& [id, process] : log_.processes()) {
      if (process.graphs) Say("operations in CUDA graphs are not explored");
      std::pair<uint64_t, const char*> reasons[] = {
          {process.memory_wait, "waits for values in memory are not explored"},
          {process.non_blocking, "non-blocking communicators are not explored"},
          {process.unreturned, "a call had not returned"}};
      std::stable_sort(std::begin(reasons), std::end(reasons),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [order, reason] : reasons) {
        if (order != LoggedProcess::kNone) Say(reason);
      }
    }
  }

  size_t WindowSize() const {
    if (free_) return options_.window;
    return ready_sites_.empty() ? SIZE_MAX : options_.ready_window;
  }

  // Where the order of the calls does not matter, what can be said of one is said of all of its kind.
  bool OneOfEach() const { return !free_ && options_.knows && ready_sites_.empty(); }

  void Take() {
    NeededCalls needed{.alone = true};
    taken_.clear();
    for (const auto& [id, rank] : windows_->ranks()) {
      std::vector<bool> seen(OneOfEach() ? rank.kinds.size() : 0);
      std::vector<RecordedCall>& calls = taken_[id];
      for (size_t call = rank.begin; call < rank.end; ++call) {
        const LoggedCall& logged = rank.log->calls[call];
        if (rank.IsOperationOf(call)) needed.comms.insert(rank.KindOf(call).comm);
        if (!rank.IsOfWindow(call) || (OneOfEach() && seen[logged.kind])) continue;
        if (OneOfEach()) seen[logged.kind] = true;
        calls.push_back(rank.log->Restore(logged));
      }
      if (calls.empty()) continue;
      std::map<uint64_t, NeededCall>& taken = needed.by_process[id];
      for (const RecordedCall& call : calls)
        taken.emplace_hint(taken.end(), call.order, NeededCall{.call = &call});
    }
    job_ = ScheduleCalls(facts_, needed);
    for (const std::string& why : job_.refused) Say(why);
    if (!job_.refused.empty()) return;
    orders_.schedule = std::move(job_.schedule);
    Connect(needed);
    for (size_t rank = 0; rank < orders_.schedule.ranks.size(); ++rank) {
      OrderRank(rank);
      for (const auto& [one, other] : turns_[job_.processes[rank]])
        orders_.turns.insert({rank, one, other});
    }
    orders_.moments = std::move(job_.orders);
  }

  // Communicators are as connected as they were before the first call.
  void Connect(const NeededCalls& needed) {
    size_t place = 0;
    for (const int index : needed.comms) {
      Communicator& comm = orders_.schedule.comms[place++];
      const Connected& connected = connected_[index];
      comm.ready = true;
      comm.connected = connected.collectives;
      comm.connected_pairs = connected.pairs;
    }
  }

  // The operations among these calls connect their members.
  void Use(ProcessId id, const Rank& rank, size_t begin, size_t end) {
    auto& [left, used] = used_[id];
    if (used.empty()) {
      used.resize(rank.kinds.size());
      left = rank.operation_kinds;
    }
    if (left == 0) return;
    for (size_t call = begin; call < end; ++call) {
      const LoggedCall& logged = rank.log->calls[call];
      if (used[logged.kind] || rank.kinds[logged.kind].channel == Windows::kNone) continue;
      const CallKind& kind = rank.log->kinds[logged.kind];
      const int index = rank.kinds[logged.kind].comm;
      const int me = facts_.execution.Find(id)->comms.find(kind.comm)->second.rank;
      const model::FirstUses uses =
          model::FirstUsesOf({kind.call, me, kind.root_or_peer, logged.count},
                             facts_.matcher.comms()[static_cast<size_t>(index)].nranks);
      used[logged.kind] = logged.count > 0;  // an empty one connects less
      left -= used[logged.kind];
      Connected& connected = connected_[index];
      connected_changes_ += uses.collectives && !connected.collectives;
      connected.collectives |= uses.collectives;
      for (const auto& [peer, sends] : uses.peers) {
        const std::pair pair = sends ? std::pair(me, peer) : std::pair(peer, me);
        if (!connected.known.insert(pair).second) continue;
        connected.pairs.push_back(pair);
        ++connected_changes_;
      }
    }
  }

  struct Placed {
    Op* op = nullptr;
    size_t thread = 0;
    uint64_t order = 0, end = 0;
  };

  static void Fix(const Placed& before, const Placed& after) {
    after.op->gates.push_back({before.op->id, before.end != 0 && before.end < after.order
                                                  ? Gate::Moment::kReturned
                                                  : Gate::Moment::kCalled});
  }

  void OrderRank(size_t rank) {
    RankProgram& program = orders_.schedule.ranks[rank];
    std::vector<Placed> all;
    for (size_t thread = 0; thread < program.threads.size(); ++thread) {
      for (Op& op : program.threads[thread].ops) {
        const auto& [order, end] = job_.orders.at(op.id);
        all.push_back({&op, thread, order, end});
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Placed& a, const Placed& b) { return a.order < b.order; });
    std::vector<OpId>& recorded = orders_.recorded.emplace_back();
    for (const Placed& placed : all) recorded.push_back(placed.op->id);
    if (options_.threads_ordered) return;  // as AddGates left them
    for (const Placed& placed : all) placed.op->gates.clear();
    FindSharing(rank, all);
    KeepEvents(all);
    KeepLives(rank, all);
  }

  // NCCL allows two threads to use one communicator only if something orders them. Not so where one
  // thread's uses all come first: the other thread may have begun after them.
  void FindSharing(size_t rank, const std::vector<Placed>& all) {
    std::map<int, std::vector<size_t>> users;  // threads, each use of a communicator by another one
    for (const Placed& placed : all) {
      if (!IsOperation(placed.op->kind)) continue;
      std::vector<size_t>& of = users[placed.op->comm];
      if (of.empty() || of.back() != placed.thread) of.push_back(placed.thread);
    }
    for (const auto& [comm, of] : users) {
      const std::set<size_t> threads(of.begin(), of.end());
      for (const size_t one : threads) {
        // Between two uses by `one`: who used it.
        std::set<size_t> since, between;
        for (auto at = std::find(of.begin(), of.end(), one); at != of.end(); ++at) {
          if (*at == one) between.merge(std::exchange(since, {}));
          if (*at != one) since.insert(*at);
        }
        for (const size_t other : between)
          orders_.sharing.insert({rank, std::min(one, other), std::max(one, other)});
      }
    }
  }

  static void KeepEvents(const std::vector<Placed>& all) {
    std::map<int, std::vector<Placed>> uses;  // since the event's last recording, and that one
    for (const Placed& placed : all) {
      if (placed.op->event < 0) continue;
      std::vector<Placed>& since = uses[placed.op->event];
      if (placed.op->kind != OpKind::kEventRecord) {
        if (!since.empty() && since.front().op->kind == OpKind::kEventRecord &&
            since.front().thread != placed.thread)
          Fix(since.front(), placed);
        since.push_back(placed);
        continue;
      }
      for (const Placed& earlier : since) {
        if (earlier.thread != placed.thread) Fix(earlier, placed);
      }
      since = {placed};
    }
  }

  void KeepLives(size_t rank, const std::vector<Placed>& all) {
    const ProcessId process = job_.processes[rank];
    const std::vector<ThreadId>& threads = job_.threads[rank];
    const std::vector<RecordedCall>& calls = taken_.at(process);
    std::vector<uint64_t> times;  // of `all`
    for (const Placed& placed : all) {
      const auto call = std::lower_bound(
          calls.begin(), calls.end(), placed.order,
          [](const RecordedCall& one, uint64_t order) { return one.order < order; });
      times.push_back(call == calls.end() ? 0 : call->time_ns);
    }
    const auto time = [&](const Placed& placed) {
      return times[static_cast<size_t>(&placed - all.data())];
    };
    for (size_t thread = 0; thread < threads.size(); ++thread) {
      ThreadLife life;
      if (const auto seen = lives_.find({process, threads[thread]}); seen != lives_.end())
        life = seen->second;
      if (life.polls) orders_.polling.insert(rank);
      const auto own = [&](const Placed& placed) { return placed.thread == thread; };
      const auto first = std::find_if(all.begin(), all.end(), own);
      const auto last = std::find_if(all.rbegin(), all.rend(), own);
      if (first == all.end()) continue;
      for (const Placed& placed : all) {
        if (!own(placed)) continue;
        if (life.waits_ns <= time(placed)) orders_.held.insert(placed.op->id);
        if (life.free_ns > time(placed)) orders_.unseen.insert(placed.op->id);
      }
      std::map<size_t, Placed> forks;
      for (auto at = all.begin(); at != first; ++at) {
        if (time(*at) <= life.from_ns) forks[at->thread] = *at;
      }
      for (const auto& [other, before] : forks) Fix(before, *first);
      std::set<size_t> joined;
      for (auto at = last.base(); at != all.end(); ++at) {
        if (time(*at) >= life.until_ns && joined.insert(at->thread).second) Fix(*last, *at);
      }
    }
  }

  void FindTurns() {
    for (const auto& [process, rank] : windows_->ranks()) {
      for (const auto& [one, other] : SitesInTurns(*rank.log)) {
        std::string a = Text(process, one), b = Text(process, other);
        if (b < a) std::swap(a, b);
        turns_[process].insert({std::move(a), std::move(b)});
      }
    }
  }

  // Lines that the job names, and never called, are mistakes that hide what they are about.
  void FindReady() {
    if (ready_sites_.empty()) return;
    std::set<std::string> open(ready_sites_.begin(), ready_sites_.end());
    std::set<std::pair<ProcessId, uint64_t>> seen;
    for (const auto& [process, rank] : windows_->ranks()) {
      for (size_t kind = 0; kind < rank.kinds.size(); ++kind) {
        const uint64_t site = rank.log->kinds[kind].site;
        if (rank.kinds[kind].channel == Windows::kNone || !seen.insert({process, site}).second)
          continue;
        const std::string text = Text(process, site);
        std::erase_if(open, [&](const std::string& ready) { return IsAt(text, ready); });
      }
    }
    for (const std::string& site : open)
      Say("no operation was called at " + site + ", which GORDIAN_READINESS_ORDERED names");
  }

  std::string Text(ProcessId process, uint64_t site) const {
    return facts_.site ? facts_.site(process, site).text : "";
  }

  const JobFacts& facts_;
  const CallLog& log_;
  const ThreadLives& lives_;
  const std::vector<std::string> ready_sites_;
  const OrdersOptions& options_;
  std::optional<Windows> windows_;
  bool free_ = false;
  std::map<ProcessId, std::set<std::pair<std::string, std::string>>> turns_;  // of call sites
  std::map<int, Connected> connected_;  // by communicator: before the calls at hand
  uint64_t connected_changes_ = 0;
  // How many kinds of operations may connect something, and by kind of call: it connects nothing
  // more.
  std::map<ProcessId, std::pair<size_t, std::vector<bool>>> used_;
  std::vector<std::string> not_judged_;
  std::map<ProcessId, std::vector<RecordedCall>> taken_;  // the calls at hand
  UnfinishedJob job_;                                     // ... scheduled
  RecordedOrders orders_;
};

}  // namespace

Status ReadOrders(const std::string& path, const ExtractOptions& extract,
                  const OrdersOptions& options, const OrdersSink& sink) {
  ExtractOptions with = extract;
  CallLog log;
  with.on_record = [&](const model::CallRecord& record) { log.OnRecord(record); };
  with.with_facts = [&](const JobFacts& all, const ThreadLives& lives, const Extracted& extracted) {
    log.Finish();
    JobFacts facts = all;
    facts.operations = log.operations();
    const Origin& origin = extracted.schedule.origin;
    Reader(facts, log, lives,
           options.buckets_ordered ? std::vector<std::string>() : extracted.ready_sites, options)
        .Run([&](RecordedOrders&& orders) {
          orders.schedule.environment = extracted.schedule.environment;
          orders.schedule.origin.source = origin.source;
          orders.schedule.origin.command = origin.command;
          orders.schedule.origin.gordian_version = origin.gordian_version;
          for (const std::string& note : origin.notes) {
            if (note.starts_with("the trace is")) orders.not_judged.push_back(note);
          }
          return sink(std::move(orders));
        });
  };
  return Extract(path, with).status();
}

}  // namespace gordian::replayer
