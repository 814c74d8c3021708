#include "tests/unit/replayer/naive_recorded_orders.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/model/verdict/names.h"
#include "replayer/predict/readiness.h"
#include "replayer/record/extract.h"
#include "replayer/record/needed_calls.h"

namespace gordian::replayer::testing {
namespace {

using model::Call;
using model::ProcessId;
using model::ThreadId;
using model::WaitKind;
using model::WorkKind;

// So often must two threads have taken turns before something unseen may order them.
constexpr size_t kTurnRuns = 6;
// Of a process with more call sites, pairs are not compared.
constexpr size_t kMostSites = 1000;

class Reader {
 public:
  Reader(const JobFacts& facts, const ThreadLives& lives, std::vector<std::string> ready_sites,
         const OrdersOptions& options)
      : facts_(facts),
        names_(facts.execution, facts.matcher),
        lives_(lives),
        ready_sites_(std::move(ready_sites)),
        options_(options) {}

  void Run(const OrdersSink& sink) {
    Refuse();
    if (!not_judged_.empty()) {
      sink({.not_judged = std::move(not_judged_)});
      return;
    }
    for (const auto& [id, recorded] : facts_.recording.processes()) {
      if (!names_.incarnations().Replaced(id)) Read(id, recorded);
    }
    Begin();
    size_t before = 0;
    for (const auto& [id, rank] : ranks_) {
      const auto earlier = [begin = rank.begin](const RecordedCall& call) {
        return Wanted(call) && call.order < begin;
      };
      before += static_cast<size_t>(
          std::count_if(rank.recorded->calls.begin(), rank.recorded->calls.end(), earlier));
    }
    for (const auto& [id, rank] : ranks_) Use(id, rank, 0, rank.begin);
    FindTurns();
    FindReady();
    const bool free = !options_.threads_ordered && HasThreads();
    size_t left = options_.max_calls;
    while (true) {
      orders_ = {.free = free, .ready_sites = ready_sites_, .before = std::exchange(before, 0)};
      const bool more = End(free ? std::min(options_.window, left) : left);
      Take();
      left -= std::min(left, orders_.calls);
      const bool last = !more || orders_.calls == 0 || left == 0;
      if (more && last) Say("calls after these");
      orders_.moments = std::move(job_.orders);
      orders_.not_judged = std::exchange(not_judged_, {});
      if (!sink(std::move(orders_)) || last) return;
      for (auto& [id, rank] : ranks_) {
        Use(id, rank, rank.begin, rank.end);
        rank.begin = rank.end;
      }
    }
  }

 private:
  using Instance =
      std::tuple<int, int, int, uint64_t>;  // communicator, source, destination, number
  struct Used {
    const RecordedCall* call = nullptr;
    uint64_t first = 0, last = 0;  // orders: of its group
    Instance instance;
  };
  struct Connected {
    bool collectives = false;
    std::vector<std::pair<int, int>> pairs;
    std::set<std::pair<int, int>> known;  // the same
  };
  struct Rank {
    const RecordedProcess* recorded = nullptr;
    std::vector<Used> used;  // operations, in the order of calls
    uint64_t begin = 0, end = UINT64_MAX;
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
    if (facts_.recording.host_operations() > 0)
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
    for (const auto& [id, recorded] : facts_.recording.processes()) {
      if (!recorded.graphs.empty()) Say("operations in CUDA graphs are not explored");
      for (const RecordedCall& call : recorded.calls) {
        if (call.work == WorkKind::kMemoryWait) Say("waits for values in memory are not explored");
        if ((call.flags & model::kNonBlockingComm) != 0)
          Say("non-blocking communicators are not explored");
        if (!call.Returned() && call.IsOperation()) Say("a call had not returned");
      }
    }
  }

  // Operations have the low bits of it.
  static uint32_t GroupOf(const RecordedCall& call) { return call.group & UINT16_MAX; }

  static bool Counts(const RecordedCall& call) {
    return call.IsOperation() && !call.Captured() && call.Returned() && model::Took(call.result);
  }

  // A call that makes or ends communicators: what is before it is not reordered.
  static bool MakesComms(const RecordedCall& call) {
    switch (call.call) {
      case Call::kCommInit:
      case Call::kCommSplit:
      case Call::kCommAbort:
      case Call::kCommWindowRegister:
        return true;
      default:
        return false;
    }
  }

  void Read(ProcessId id, const RecordedProcess& recorded) {
    Rank& rank = ranks_[id];
    rank.recorded = &recorded;
    std::map<std::pair<uint32_t, uint32_t>, std::vector<size_t>> open;  // by thread and group
    std::map<std::tuple<int, int, int>, uint64_t> numbers;
    for (const RecordedCall& call : recorded.calls) {
      if (MakesComms(call))
        rank.begin = std::max(rank.begin, std::max(call.order, call.end_order) + 1);
      if (call.call == Call::kGroupEnd) {
        for (const size_t index : open[{call.thread, GroupOf(call)}])
          rank.used[index].last = call.order;
        open.erase({call.thread, GroupOf(call)});
      }
      if (!Counts(call)) continue;
      const int comm = CommOf(facts_, id, call.comm);
      if (comm < 0) {
        Say("the creation of a communicator is not in the record");
        continue;
      }
      const int me = facts_.execution.Find(id)->comms.find(call.comm)->second.rank;
      const model::Ends ends = model::EndsOf({call.call, me, call.root_or_peer, call.count});
      const uint64_t number = numbers[{comm, ends.source, ends.destination}]++;
      rank.used.push_back(
          {&call, call.order, call.order, {comm, ends.source, ends.destination, number}});
      if (!call.InGroup()) continue;
      std::vector<size_t>& group = open[{call.thread, GroupOf(call)}];
      group.push_back(rank.used.size() - 1);
      rank.used.back().first = rank.used[group.front()].first;
    }
  }

  // Raises each rank's first call until operations before it are before it at all of their members.
  void Begin() {
    for (bool changed = true; changed;) {
      changed = false;
      std::set<Instance> before;
      for (const auto& [id, rank] : ranks_) {
        for (const Used& used : rank.used) {
          if (used.first < rank.begin) before.insert(used.instance);
        }
      }
      for (auto& [id, rank] : ranks_) {
        for (const Used& used : rank.used) {
          if (used.last < rank.begin || !before.contains(used.instance)) continue;
          rank.begin = used.last + 1;
          changed = true;
        }
      }
    }
  }

  // Lowers each rank's end until there are no more than `most` calls, and operations are there at all
  // members. Returns whether calls remain after it.
  bool End(size_t most) {
    bool more = false;
    const size_t of_rank = most / std::max<size_t>(ranks_.size(), 1);
    for (auto& [id, rank] : ranks_) {
      rank.end = UINT64_MAX;
      size_t taken = 0;
      const auto& calls = rank.recorded->calls;
      for (auto call = From(calls, rank.begin); call != calls.end(); ++call) {
        if (!Wanted(*call) || ++taken <= of_rank) continue;
        rank.end = call->order;
        more = true;
        break;
      }
    }
    for (bool changed = true; changed;) {
      changed = false;
      std::map<Instance, size_t> members;
      for (const auto& [id, rank] : ranks_) {
        for (const Used& used : UsedIn(rank, rank.begin, rank.end)) {
          if (used.first >= rank.begin && used.last < rank.end) ++members[used.instance];
        }
      }
      for (auto& [id, rank] : ranks_) {
        for (const Used& used : UsedIn(rank, rank.begin, rank.end)) {
          if (used.first < rank.begin || used.first >= rank.end) continue;
          const auto& [comm, source, destination, number] = used.instance;
          const size_t all =
              source >= 0 ? 2 : facts_.matcher.comms()[static_cast<size_t>(comm)].members.size();
          const auto found = members.find(used.instance);
          if (used.last < rank.end && found != members.end() && found->second == all) continue;
          rank.end = used.first;
          changed = true;
          break;
        }
      }
    }
    return more;
  }

  // The first call from that order on.
  using Calls = decltype(RecordedProcess::calls);
  static Calls::const_iterator From(const Calls& calls, uint64_t order) {
    return std::lower_bound(
        calls.begin(), calls.end(), order,
        [](const RecordedCall& call, uint64_t wanted) { return call.order < wanted; });
  }
  // The operations whose own calls are in [begin, end).
  static std::span<const Used> UsedIn(const Rank& rank, uint64_t begin, uint64_t end) {
    const auto at = [&](uint64_t order) {
      return std::lower_bound(
          rank.used.begin(), rank.used.end(), order,
          [](const Used& used, uint64_t wanted) { return used.call->order < wanted; });
    };
    return {at(begin), at(end)};
  }

  static bool Wanted(const RecordedCall& call) {
    if (Counts(call) || call.call == Call::kGroupEnd) return true;
    if (call.work == WorkKind::kEventRecord || call.work == WorkKind::kEventWait) return true;
    return call.call == Call::kHostWait && call.Returned() && model::Took(call.result) &&
           (call.wait == WaitKind::kStream || call.wait == WaitKind::kEvent ||
            call.wait == WaitKind::kDevice || call.wait == WaitKind::kFree ||
            call.wait == WaitKind::kCopy);
  }

  void Take() {
    NeededCalls needed{.alone = true};
    for (const auto& [id, rank] : ranks_) {
      std::set<std::pair<uint32_t, uint32_t>> groups;
      for (const Used& used : UsedIn(rank, rank.begin, rank.end)) {
        if (used.first < rank.begin || used.last >= rank.end) continue;
        needed.comms.insert(std::get<0>(used.instance));
        if (used.call->InGroup()) groups.insert({used.call->thread, GroupOf(*used.call)});
      }
      const auto& calls = rank.recorded->calls;
      std::map<uint64_t, NeededCall>& taken = needed.by_process[id];
      for (auto call = From(calls, rank.begin); call != calls.end() && call->order < rank.end;
           ++call) {
        if (!Wanted(*call)) continue;
        if (call->call == Call::kGroupEnd && !groups.contains({call->thread, GroupOf(*call)}))
          continue;
        taken.emplace_hint(taken.end(), call->order, NeededCall{.call = &*call});
        ++orders_.calls;
      }
      if (taken.empty()) needed.by_process.erase(id);
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

  // The operations whose groups begin in [begin, end) connect their members.
  void Use(ProcessId id, const Rank& rank, uint64_t begin, uint64_t end) {
    for (const Used& used : UsedIn(rank, begin, end)) {
      const int index = std::get<0>(used.instance);
      Connected& connected = connected_[index];
      if (connected.collectives && model::IsCollective(used.call->call) &&
          !model::IsPairwise(used.call->call))
        continue;
      const int me = facts_.execution.Find(id)->comms.find(used.call->comm)->second.rank;
      const model::FirstUses uses =
          model::FirstUsesOf({used.call->call, me, used.call->root_or_peer, used.call->count},
                             facts_.matcher.comms()[static_cast<size_t>(index)].nranks);
      connected.collectives |= uses.collectives;
      for (const auto& [peer, sends] : uses.peers) {
        const std::pair pair = sends ? std::pair(me, peer) : std::pair(peer, me);
        if (connected.known.insert(pair).second) connected.pairs.push_back(pair);
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
    const RecordedProcess& recorded = *ranks_.at(process).recorded;
    for (size_t thread = 0; thread < threads.size(); ++thread) {
      ThreadLife life;
      if (const auto seen = lives_.find({process, threads[thread]}); seen != lives_.end())
        life = seen->second;
      if (life.polls) orders_.polling.insert(rank);
      const auto own = [&](const Placed& placed) { return placed.thread == thread; };
      const auto first = std::find_if(all.begin(), all.end(), own);
      const auto last = std::find_if(all.rbegin(), all.rend(), own);
      if (first == all.end()) continue;
      const auto time = [&](const Placed& placed) {
        const RecordedCall* const call = recorded.Find(placed.order);
        return call == nullptr ? 0 : call->time_ns;
      };
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

  bool HasThreads() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
      const RecordedCall* first = nullptr;
      for (const RecordedCall& call : rank.second.recorded->calls) {
        if (!Wanted(call)) continue;
        if (first != nullptr && first->thread != call.thread) return true;
        first = &call;
      }
      return false;
    });
  }

  // Pairs of call sites that two threads of a process passed in turns, in all that was recorded.
  void FindTurns() {
    for (const auto& [process, rank] : ranks_) {
      std::map<std::pair<ThreadId, uint64_t>, std::vector<const RecordedCall*>> sites;
      for (const RecordedCall& call : rank.recorded->calls) {
        if (Wanted(call) && call.call != Call::kGroupEnd)
          sites[{call.thread, call.site}].push_back(&call);
      }
      if (sites.size() > kMostSites) continue;
      for (auto one = sites.begin(); one != sites.end(); ++one) {
        for (auto other = std::next(one); other != sites.end(); ++other) {
          if (one->first.first == other->first.first || !InTurns(one->second, other->second))
            continue;
          std::string a = Text(process, one->first.second), b = Text(process, other->first.second);
          if (b < a) std::swap(a, b);
          turns_[process].insert({std::move(a), std::move(b)});
        }
      }
    }
  }

  // Lines that the job names, and never called, are mistakes that hide what they are about.
  void FindReady() {
    if (ready_sites_.empty()) return;
    std::set<std::string> open(ready_sites_.begin(), ready_sites_.end());
    std::set<std::pair<ProcessId, uint64_t>> seen;
    for (const auto& [process, rank] : ranks_) {
      for (const Used& used : rank.used) {
        if (!seen.insert({process, used.call->site}).second) continue;
        const std::string text = Text(process, used.call->site);
        std::erase_if(open, [&](const std::string& site) { return IsAt(text, site); });
      }
    }
    for (const std::string& site : open)
      Say("no operation was called at " + site + ", which GORDIAN_READINESS_ORDERED names");
  }

  std::string Text(ProcessId process, uint64_t site) const {
    return facts_.site ? facts_.site(process, site).text : "";
  }

  // No two of the calls overlapped, and each thread made as many each time as the time before.
  static bool InTurns(const std::vector<const RecordedCall*>& one,
                      const std::vector<const RecordedCall*>& other) {
    std::vector<std::pair<const RecordedCall*, bool>> merged;
    for (const RecordedCall* const call : one) merged.emplace_back(call, false);
    for (const RecordedCall* const call : other) merged.emplace_back(call, true);
    std::sort(merged.begin(), merged.end(),
              [](const auto& a, const auto& b) { return a.first->order < b.first->order; });
    std::vector<size_t> runs;
    for (size_t i = 0; i < merged.size(); ++i) {
      const bool same = i > 0 && merged[i].second == merged[i - 1].second;
      if (i > 0 && !same && merged[i - 1].first->end_order > merged[i].first->order) return false;
      if (same) {
        ++runs.back();
      } else {
        runs.push_back(1);
      }
    }
    if (runs.size() < kTurnRuns) return false;
    for (size_t i = 3; i + 1 < runs.size(); ++i) {
      if (runs[i] != runs[i - 2]) return false;
    }
    return true;
  }

  const JobFacts& facts_;
  const model::Names names_;
  const ThreadLives& lives_;
  const std::vector<std::string> ready_sites_;
  const OrdersOptions options_;
  std::map<ProcessId, Rank> ranks_;
  std::map<ProcessId, std::set<std::pair<std::string, std::string>>> turns_;  // of call sites
  std::map<int, Connected> connected_;  // by communicator: before the calls at hand
  std::vector<std::string> not_judged_;
  UnfinishedJob job_;  // the calls at hand
  RecordedOrders orders_;
};

}  // namespace

Status NaiveReadOrders(const std::string& path, const OrdersOptions& options,
                       const OrdersSink& sink) {
  ExtractOptions with;
  with.with_facts = [&](const JobFacts& facts, const ThreadLives& lives,
                        const Extracted& extracted) {
    const Origin& origin = extracted.schedule.origin;
    Reader(facts, lives,
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

}  // namespace gordian::replayer::testing
