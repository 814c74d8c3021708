#include "replayer/record/not_reached.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gordian::replayer {
namespace {

struct Place {
  int rank = -1;  // in Schedule::ranks
  int thread = -1;
  size_t index = 0;
};

struct Missing {
  Op op;               // the call to add, without its stream
  std::string caller;  // the rank that has called its counterpart
  Place counterpart;
  int group = -1;  // index of the start of the counterpart's group
};

class Adder {
 public:
  explicit Adder(Schedule* schedule) : schedule_(*schedule), next_id_(NextId(*schedule)) {
    for (const RankProgram& rank : schedule->ranks) recorded_.push_back(rank.streams.size());
  }

  size_t Add() {
    std::map<int, std::vector<Missing>> missing;  // by rank
    for (size_t c = 0; c < schedule_.comms.size(); ++c) {
      FindMissingInits(static_cast<int>(c), &missing);
      if (Follows(static_cast<int>(c))) FindMissing(static_cast<int>(c), &missing);
    }
    size_t added = 0;
    for (auto& [rank, calls] : missing) added += Append(rank, std::move(calls));
    return added;
  }

 private:
  const Op& At(const Place& place) const {
    return schedule_.ranks[place.rank].threads[place.thread].ops[place.index];
  }

  template <typename Visit>
  void Each(int comm, const Visit& visit) const {
    for (size_t r = 0; r < schedule_.ranks.size(); ++r) {
      for (size_t t = 0; t < schedule_.ranks[r].threads.size(); ++t) {
        const std::vector<Op>& ops = schedule_.ranks[r].threads[t].ops;
        for (size_t i = 0; i < ops.size(); ++i) {
          if (ops[i].comm == comm && IsOperation(ops[i].kind))
            visit(Place{static_cast<int>(r), static_cast<int>(t), i}, ops[i]);
        }
      }
    }
  }

  // True if one thread of each rank calls it, and the graphs that hold its operations are launched
  // once: as if they were called where they are captured.
  bool Follows(int comm) const {
    bool follows = true;
    std::map<int, int> thread_of;
    Each(comm, [&](const Place& place, const Op& op) {
      follows &= thread_of.emplace(place.rank, place.thread).first->second == place.thread &&
                 (!op.captured || LaunchedOnce(place));
    });
    return follows;
  }

  // The graph that holds the captured operation.
  bool LaunchedOnce(const Place& place) const {
    const RankProgram& rank = schedule_.ranks[place.rank];
    const std::vector<Op>& ops = rank.threads[place.thread].ops;
    size_t begin = place.index;
    while (begin > 0 && ops[begin].kind != OpKind::kCaptureBegin) --begin;
    int launches = 0;
    for (const ThreadProgram& thread : rank.threads) {
      for (const Op& op : thread.ops)
        launches += op.kind == OpKind::kGraphLaunch && op.graph == ops[begin].graph;
    }
    return launches == 1;
  }

  // The calls that make the communicator, of members that are known and have not come to them.
  void FindMissingInits(int comm, std::map<int, std::vector<Missing>>* missing) const {
    std::map<int, Place> callers;
    for (size_t r = 0; r < schedule_.ranks.size(); ++r) {
      for (size_t t = 0; t < schedule_.ranks[r].threads.size(); ++t) {
        const std::vector<Op>& ops = schedule_.ranks[r].threads[t].ops;
        for (size_t i = 0; i < ops.size(); ++i) {
          if (ops[i].comm == comm && ops[i].kind == OpKind::kCommInit)
            callers.emplace(static_cast<int>(r),
                            Place{static_cast<int>(r), static_cast<int>(t), i});
        }
      }
    }
    if (callers.empty()) return;
    for (const int rank : schedule_.comms[comm].members) {
      if (rank >= 0 && !callers.contains(rank))
        (*missing)[rank].push_back(MissingAt(callers.begin()->second));
    }
  }

  int RankOf(int comm, int member) const {
    const std::vector<int>& members = schedule_.comms[comm].members;
    return member >= 0 && static_cast<size_t>(member) < members.size() ? members[member] : -1;
  }

  void FindMissing(int comm, std::map<int, std::vector<Missing>>* missing) const {
    std::map<int, std::vector<Place>> collectives;
    std::map<std::pair<int, int>, std::pair<std::vector<Place>, std::vector<Place>>>
        transfers;  // sends, receives
    Each(comm, [&](const Place& place, const Op& op) {
      if (IsCollective(op.kind)) {
        collectives[place.rank].push_back(place);
      } else if (op.kind == OpKind::kSend) {
        transfers[{place.rank, RankOf(comm, op.root_or_peer)}].first.push_back(place);
      } else {
        transfers[{RankOf(comm, op.root_or_peer), place.rank}].second.push_back(place);
      }
    });
    const std::vector<Place>* most = nullptr;
    for (const auto& [rank, calls] : collectives) {
      if (most == nullptr || calls.size() > most->size()) most = &calls;
    }
    for (const int rank : schedule_.comms[comm].members) {
      if (most == nullptr || rank < 0) continue;
      const auto own = collectives.find(rank);
      for (size_t i = own == collectives.end() ? 0 : own->second.size(); i < most->size(); ++i) {
        (*missing)[rank].push_back(MissingAt((*most)[i]));
      }
    }
    for (const auto& [pair, ends] : transfers) {
      const auto& [sends, receives] = ends;
      const auto& [source, destination] = pair;
      for (size_t i = receives.size(); i < sends.size() && destination >= 0; ++i) {
        Missing receive = MissingAt(sends[i]);
        receive.op.kind = OpKind::kRecv;
        receive.op.root_or_peer = MemberOf(schedule_.comms[comm], source);
        (*missing)[destination].push_back(std::move(receive));
      }
      for (size_t i = sends.size(); i < receives.size() && source >= 0; ++i) {
        Missing send = MissingAt(receives[i]);
        send.op.kind = OpKind::kSend;
        send.op.root_or_peer = MemberOf(schedule_.comms[comm], destination);
        (*missing)[source].push_back(std::move(send));
      }
    }
  }

  Missing MissingAt(const Place& place) const {
    Missing out;
    out.op = At(place);
    out.counterpart = place;
    for (size_t i = place.index; out.op.in_group && out.group < 0 && i-- > 0;) {
      if (schedule_.ranks[place.rank].threads[place.thread].ops[i].kind == OpKind::kGroupStart)
        out.group = static_cast<int>(i);
    }
    out.caller = "rank " + std::to_string(schedule_.ranks[place.rank].rank);
    out.op.in_group = out.op.unfinished = out.op.witness = out.op.captured = false;
    out.op.gates.clear();
    out.op.symbol.clear();
    return out;
  }

  // The thread that has called it, else the first thread that waits in a call: no call after that
  // one is reached.
  int ThreadFor(int rank, int comm) const {
    const std::vector<ThreadProgram>& threads = schedule_.ranks[rank].threads;
    const auto stands = [&](size_t t) {
      if (threads[t].ops.empty()) return false;
      const Op& last = threads[t].ops.back();
      return last.unfinished || last.not_reached || IsHostWait(last.kind);
    };
    for (size_t t = 0; t < threads.size(); ++t) {
      const bool calls =
          std::any_of(threads[t].ops.begin(), threads[t].ops.end(),
                      [&](const Op& op) { return op.comm == comm && IsOperation(op.kind); });
      if (calls) return stands(t) ? static_cast<int>(t) : -1;
    }
    for (size_t t = 0; t < threads.size(); ++t) {
      if (stands(t)) return static_cast<int>(t);
    }
    return -1;
  }

  // The stream on which the rank calls the communicator's operations, here or in what came before. A
  // rank of which neither is known does as the caller of the counterpart: takes the stream of its own
  // that has what the caller's stream has of other communicators; else a new one of that kind.
  int StreamFor(int rank, int comm, const Place& counterpart) {
    RankProgram& program = schedule_.ranks[rank];
    const Stream& theirs = schedule_.ranks[counterpart.rank].streams[At(counterpart).stream];
    std::map<int, int> stream_of;  // by communicator
    ForEachOperation(rank, [&](const Op& op) { stream_of.emplace(op.comm, op.stream); });
    if (const auto own = stream_of.find(comm); own != stream_of.end()) return own->second;
    if (const auto usual = program.usual_streams.find(schedule_.comms[comm].name);
        usual != program.usual_streams.end()) {
      for (size_t i = 0; i < recorded_[static_cast<size_t>(rank)]; ++i) {
        if (program.streams[i].name == usual->second) return static_cast<int>(i);
      }
      const auto [other, fresh] = others_.try_emplace({rank, usual->second}, 0);
      if (fresh) other->second = NewStream(&program, theirs.kind);
      return other->second;
    }
    int alike = -1;
    ForEachOperation(counterpart.rank, [&](const Op& op) {
      const auto own = stream_of.find(op.comm);
      if (op.stream == At(counterpart).stream && own != stream_of.end()) alike = own->second;
    });
    return alike >= 0 ? alike : NewStream(&program, theirs.kind);
  }

  static int NewStream(RankProgram* program, StreamKind kind) {
    size_t number = program->streams.size() + 1;
    const auto name = [&number] { return "s" + std::to_string(number); };
    while (std::any_of(program->streams.begin(), program->streams.end(),
                       [&](const Stream& stream) { return stream.name == name(); })) {
      ++number;
    }
    program->streams.push_back({name(), kind});
    return static_cast<int>(program->streams.size()) - 1;
  }

  template <typename Visit>
  void ForEachOperation(int rank, const Visit& visit) const {
    for (const ThreadProgram& thread : schedule_.ranks[rank].threads) {
      for (const Op& op : thread.ops) {
        if (IsOperation(op.kind)) visit(op);
      }
    }
  }

  // No call on the communicator may follow these.
  static bool Left(const RankProgram& program, int comm) {
    for (const ThreadProgram& thread : program.threads) {
      for (const Op& op : thread.ops) {
        if (op.comm == comm && (op.kind == OpKind::kCommDestroy || op.kind == OpKind::kCommAbort))
          return true;
      }
    }
    return false;
  }

  size_t Append(int rank, std::vector<Missing> calls) {
    RankProgram& program = schedule_.ranks[rank];
    // An ended process, or a thread that never calls again, makes no further calls.
    for (const ThreadProgram& thread : program.threads) {
      if (!thread.ops.empty() && EndsThread(thread.ops.back().kind)) return 0;
    }
    std::erase_if(calls, [&](const Missing& call) { return Left(program, call.op.comm); });
    // Takes the order of the rank that has called most of them; the others' follow.
    std::map<std::pair<int, int>, size_t> by_caller;
    for (const Missing& call : calls) ++by_caller[{call.counterpart.rank, call.counterpart.thread}];
    std::stable_sort(calls.begin(), calls.end(), [&](const Missing& a, const Missing& b) {
      const std::pair<int, int> ca{a.counterpart.rank, a.counterpart.thread},
          cb{b.counterpart.rank, b.counterpart.thread};
      if (ca != cb) return by_caller[ca] != by_caller[cb] ? by_caller[ca] > by_caller[cb] : ca < cb;
      return a.counterpart.index < b.counterpart.index;
    });
    size_t added = 0;
    // Keeps a counterpart's group as a group: one call after the other might hang by itself.
    for (size_t begin = 0, end = 0; begin < calls.size(); begin = end) {
      end = begin + 1;
      while (end < calls.size() && calls[begin].group >= 0 &&
             calls[end].group == calls[begin].group &&
             calls[end].counterpart.rank == calls[begin].counterpart.rank &&
             calls[end].counterpart.thread == calls[begin].counterpart.thread) {
        ++end;
      }
      const int thread = ThreadFor(rank, calls[begin].op.comm);
      if (thread < 0) continue;
      std::vector<Op>& ops = program.threads[thread].ops;
      if (end - begin > 1) ops.push_back(Bracket(OpKind::kGroupStart));
      for (size_t i = begin; i < end; ++i) {
        Op op = std::move(calls[i].op);
        if (IsOperation(op.kind)) op.stream = StreamFor(rank, op.comm, calls[i].counterpart);
        op.id = next_id_++;
        op.in_group = end - begin > 1;
        op.not_reached = true;
        op.site =
            "not reached; " + calls[i].caller +
            (op.kind == At(calls[i].counterpart).kind ? " calls it" : " calls the other end") +
            (op.site.empty() ? "" : " at " + op.site);
        ops.push_back(std::move(op));
        ++added;
      }
      if (end - begin > 1) ops.push_back(Bracket(OpKind::kGroupEnd));
    }
    return added;
  }

  Op Bracket(OpKind kind) {
    Op op;
    op.id = next_id_++;
    op.kind = kind;
    op.not_reached = true;
    return op;
  }

  Schedule& schedule_;
  std::vector<size_t> recorded_;  // by rank: how many of its streams are not made here
  std::map<std::pair<int, std::string>, int> others_;  // by rank and usual stream
  OpId next_id_;
};

}  // namespace

size_t AddNotReached(Schedule* schedule) { return Adder(schedule).Add(); }

}  // namespace gordian::replayer
