#include "planner/session_profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "analyzer/model/collective.h"
#include "planner/schedule/host_times.h"

namespace gordian::planner {
namespace {

using model::Call;

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}
double Median(const std::vector<double>& values) { return Quantile(values, 0.5); }

Micros ToMicros(double ns) { return std::llround(ns / 1000); }

// The process's all-reduces on the communicator, as indices of calls.
std::vector<size_t> AllReduces(const JobProcess& process, int comm) {
  std::vector<size_t> found;
  for (size_t i = 0; i < process.calls.size(); ++i) {
    const JobCall& call = process.calls[i];
    if (call.call == Call::kAllReduce && call.comm == comm) found.push_back(i);
  }
  return found;
}

int ChooseComm(const JobTrace& trace, const std::string& name) {
  std::vector<uint64_t> bytes(trace.comms().size(), 0);
  for (const auto& [id, process] : trace.processes()) {
    for (const JobCall& call : process.calls) {
      if (call.call == Call::kAllReduce && call.comm >= 0) {
        bytes[call.comm] += call.count * model::DatatypeBytes(call.datatype);
      }
    }
  }
  int best = -1;
  for (size_t c = 0; c < bytes.size(); ++c) {
    if (trace.comms()[c].members.size() < 2 || bytes[c] == 0) continue;
    if (!name.empty() && trace.comms()[c].name != name) continue;
    if (best < 0 || bytes[c] > bytes[best]) best = static_cast<int>(c);
  }
  return best;
}

// The shortest period of the sizes, where up to half of the list may be a different beginning; 0 if
// there is none.
size_t PeriodOf(const std::vector<uint64_t>& sizes, size_t* begin) {
  for (size_t period = 1; period <= sizes.size() / 3; ++period) {
    size_t from = sizes.size();
    while (from > period && sizes[from - 1] == sizes[from - 1 - period]) --from;
    from = from > period ? from - period : 0;
    if (from > sizes.size() / 2 || sizes.size() - from < 3 * period) continue;
    *begin = from;
    return period;
  }
  return 0;
}

// Where in the period an iteration begins: after the longest pause between two calls.
size_t FirstOfIteration(const JobProcess& process, const std::vector<size_t>& calls, size_t begin,
                        size_t period) {
  std::vector<std::vector<double>> pauses(period);
  for (size_t i = begin + 1; i < calls.size(); ++i) {
    pauses[i % period].push_back(static_cast<double>(process.calls[calls[i]].begin_ns -
                                                     process.calls[calls[i - 1]].begin_ns));
  }
  size_t best = 0;
  for (size_t phase = 1; phase < period; ++phase) {
    if (Median(pauses[phase]) > Median(pauses[best])) best = phase;
  }
  return best;
}

// All-reduces whose end a wait may still show; a job never waits for one after so many more.
constexpr size_t kMostOpen = 4096;

void FindTimes(const JobProcess& process, std::vector<std::vector<BucketCall>>* iterations) {
  std::map<size_t, BucketCall*> by_call;
  for (auto& iteration : *iterations) {
    for (BucketCall& bucket : iteration) by_call[bucket.call] = &bucket;
  }
  Coverage coverage;
  std::vector<BucketCall*> open;               // called, and not yet known to have ended
  std::map<model::ThreadId, uint64_t> waited;  // end of the thread's last wait
  std::map<model::StreamId, uint64_t> last_done;
  for (size_t i = 0; i < process.calls.size(); ++i) {
    const JobCall& call = process.calls[i];
    coverage.Take(call);
    if (call.call == Call::kHostWait) {
      // A wait that covers several on one stream shows the end of the last only.
      std::map<model::StreamId, BucketCall*> last;
      std::erase_if(open, [&](BucketCall* bucket) {
        const JobCall& op = process.calls[bucket->call];
        if (!coverage.Covers(call, op)) return false;
        last[op.stream] = bucket;
        return true;
      });
      for (const auto& [stream, bucket] : last) {
        if (ReallyWaited(call)) bucket->done_ns = call.end_ns;
      }
      if (ReallyWaited(call)) waited[call.thread] = call.end_ns;
    }
    const auto bucket = by_call.find(i);
    if (bucket != by_call.end()) {
      BucketCall& now = *bucket->second;
      now.ready_ns = waited[call.thread];
      waited[call.thread] = 0;
      now.start_ns = call.begin_ns;
      open.push_back(&now);
      if (open.size() > kMostOpen) open.erase(open.begin());
    }
  }
  // Earlier work on its stream may have ended after its call.
  for (auto& iteration : *iterations) {
    for (BucketCall& bucket : iteration) {
      uint64_t& before = last_done[process.calls[bucket.call].stream];
      bucket.start_ns = std::max(bucket.start_ns, before);
      if (bucket.done_ns != 0) before = bucket.done_ns;
    }
  }
}

// The backward pass begins at the end of the last wait between the previous iteration's last
// reduction and the first gradient, where the host reads the loss. If the end of that reduction or
// the time of that gradient is unknown, the first reduction's call ends the search.
void FindBackward(const JobProcess& process, RankIterations* rank) {
  rank->backward_ns.assign(rank->iterations.size(), 0);
  rank->backward_call.assign(rank->iterations.size(), SIZE_MAX);
  for (size_t t = 1; t < rank->iterations.size(); ++t) {
    const BucketCall& before = rank->iterations[t - 1].back();
    const BucketCall& first = rank->iterations[t].front();
    const uint64_t from = std::max(before.done_ns, process.calls[before.call].end_ns);
    const uint64_t until = first.ready_ns != 0 && before.done_ns != 0
                               ? first.ready_ns
                               : process.calls[first.call].begin_ns;
    for (size_t i = before.call; i < process.calls.size(); ++i) {
      const JobCall& call = process.calls[i];
      if (call.begin_ns > until) break;
      if (!ReallyWaited(call) || call.end_ns <= from || call.end_ns > until) continue;
      if (call.end_ns == first.ready_ns && before.done_ns != 0) continue;  // the gradient
      if (call.end_ns <= rank->backward_ns[t]) continue;
      rank->backward_ns[t] = call.end_ns;
      rank->backward_call[t] = i;
    }
  }
}

}  // namespace

std::optional<BucketCalls> FindBuckets(const JobTrace& trace, const ProfileOptions& options,
                                       std::string* error) {
  BucketCalls found;
  found.comm = ChooseComm(trace, options.comm);
  if (found.comm < 0) {
    *error = options.comm.empty()
                 ? "no communicator of two or more ranks carries all-reduces"
                 : "no communicator named '" + options.comm + "' carries all-reduces";
    return std::nullopt;
  }
  const JobComm& comm = trace.comms()[found.comm];
  std::set<model::ProcessId> processes;
  for (const auto& [member, id] : comm.members) {
    if (processes.insert(id).second) continue;
    *error = "one process holds several ranks of " + NameOf(comm, found.comm) +
             ": the planner needs jobs of one process for each rank";
    return std::nullopt;
  }
  if (static_cast<int>(comm.members.size()) < comm.size) {
    *error = "of " + NameOf(comm, found.comm) + " only " + std::to_string(comm.members.size()) +
             " of " + std::to_string(comm.size) + " ranks were recorded";
    return std::nullopt;
  }
  size_t iterations = SIZE_MAX;
  for (const auto& [member, id] : comm.members) {
    const JobProcess& process = trace.processes().at(id);
    const std::vector<size_t> calls = AllReduces(process, found.comm);
    std::vector<uint64_t> sizes;
    for (const size_t call : calls) sizes.push_back(process.calls[call].count);
    size_t begin = 0;
    size_t period = static_cast<size_t>(options.buckets);
    if (period == 0) period = PeriodOf(sizes, &begin);
    if (period == 0 || calls.size() < 3 * period) {
      *error = "the all-reduces of " + NameOf(comm, found.comm) + " at rank " +
               std::to_string(process.rank) + " do not repeat";
      return std::nullopt;
    }
    if (found.buckets != 0 && found.buckets != static_cast<int>(period)) {
      *error = "ranks have different numbers of buckets on " + NameOf(comm, found.comm);
      return std::nullopt;
    }
    found.buckets = static_cast<int>(period);
    const size_t phase = FirstOfIteration(process, calls, begin, period);
    size_t at = begin + (phase + period - begin % period) % period;
    RankIterations rank{.process = id, .rank = process.rank};
    for (; at + period <= calls.size(); at += period) {
      std::vector<BucketCall> iteration;
      for (size_t k = 0; k < period; ++k) iteration.push_back({.call = calls[at + k]});
      rank.iterations.push_back(std::move(iteration));
    }
    FindTimes(process, &rank.iterations);
    FindBackward(process, &rank);
    iterations = std::min(iterations, rank.iterations.size());
    found.ranks.push_back(std::move(rank));
  }
  // The last iterations of every rank are the same ones.
  for (RankIterations& rank : found.ranks) {
    const auto extra = static_cast<ptrdiff_t>(rank.iterations.size() - iterations);
    rank.iterations.erase(rank.iterations.begin(), rank.iterations.begin() + extra);
    rank.backward_ns.erase(rank.backward_ns.begin(), rank.backward_ns.begin() + extra);
    rank.backward_call.erase(rank.backward_call.begin(), rank.backward_call.begin() + extra);
  }
  return found;
}

std::optional<SessionProfile> Profile(const JobTrace& trace, const BucketCalls& calls,
                                      const ProfileOptions& options, std::string* error,
                                      std::vector<RankTimes>* by_rank) {
  SessionProfile profile;
  const auto n = static_cast<size_t>(calls.buckets);
  const size_t iterations = calls.ranks.front().iterations.size();
  // Communication: by position in the order of calls, bucket N first.
  std::vector<std::vector<double>> comm(n);
  std::vector<std::vector<std::vector<double>>> own_comm(calls.ranks.size(),
                                                         std::vector<std::vector<double>>(n));
  for (size_t t = 0; t < iterations; ++t) {
    for (size_t k = 0; k < n; ++k) {
      double least = -1;
      for (size_t r = 0; r < calls.ranks.size(); ++r) {
        const BucketCall& bucket = calls.ranks[r].iterations[t][k];
        if (bucket.done_ns == 0 || bucket.done_ns <= bucket.start_ns) continue;
        const auto took = static_cast<double>(bucket.done_ns - bucket.start_ns);
        own_comm[r][k].push_back(took);
        if (least < 0 || took < least) least = took;
      }
      if (least >= 0) comm[k].push_back(least);
    }
  }
  profile.buckets.resize(n);
  profile.ready.assign(n, 0);
  for (size_t k = 0; k < n; ++k) {
    const size_t bucket = n - k;
    if (comm[k].size() < static_cast<size_t>(options.least_iterations)) {
      *error = "of bucket " + std::to_string(bucket) + " the end of the all-reduce was seen in " +
               std::to_string(comm[k].size()) + " iterations, and " +
               std::to_string(options.least_iterations) +
               " are needed: a trace holds the host's calls, so the job must wait for it in a call";
      return std::nullopt;
    }
    profile.buckets[bucket - 1].comm = std::max<Micros>(1, ToMicros(Median(comm[k])));
    profile.spread = std::max(profile.spread,
                              (Quantile(comm[k], 0.9) - Quantile(comm[k], 0.1)) / Median(comm[k]));
  }
  profile.iterations = static_cast<int>(iterations);

  // Computation: per rank, then the slowest.
  Micros forward = 0;
  std::vector<RankTimes> ranks;
  for (size_t r = 0; r < calls.ranks.size(); ++r) {
    const RankIterations& rank = calls.ranks[r];
    const JobProcess& process = trace.processes().at(rank.process);
    RankTimes times{.rank = rank.rank,
                    .backward = std::vector<Micros>(n, 0),
                    .comm = std::vector<Micros>(n, 0)};
    std::vector<std::vector<double>> backward(n);
    std::vector<double> step, exposed;
    for (size_t t = 0; t < iterations; ++t) {
      const auto& now = rank.iterations[t];
      for (size_t k = 0; k < n; ++k) {
        const uint64_t from = k == 0 ? rank.backward_ns[t] : now[k - 1].ready_ns;
        if (from != 0 && now[k].ready_ns > from) {
          backward[k].push_back(static_cast<double>(now[k].ready_ns - from));
        }
      }
      const uint64_t ready = now.back().ready_ns;
      if (ready == 0) continue;
      if (now.back().done_ns > ready)
        exposed.push_back(static_cast<double>(now.back().done_ns - ready));
      if (t > 0 && rank.iterations[t - 1].back().ready_ns != 0) {
        step.push_back(static_cast<double>(ready - rank.iterations[t - 1].back().ready_ns));
      }
    }
    const auto enough = static_cast<size_t>(options.least_iterations) - 1;
    for (size_t k = 1; k < n; ++k) {
      if (backward[k].size() >= enough) continue;
      *error = "when bucket " + std::to_string(n - k) + " is ready at rank " +
               std::to_string(rank.rank) + " was seen in " + std::to_string(backward[k].size()) +
               " iterations, and " + std::to_string(enough) +
               " are needed: a trace holds the host's calls, so the job must wait for it in a call";
      return std::nullopt;
    }
    if (step.size() < enough) {
      *error = "rank " + std::to_string(rank.rank) + " shows the length of " +
               std::to_string(step.size()) + " iterations, and " + std::to_string(enough) +
               " are needed";
      return std::nullopt;
    }
    for (size_t k = 0; k < n; ++k) times.backward[n - 1 - k] = ToMicros(Median(backward[k]));
    if (backward[0].size() < enough) {
      // Estimates it by its share of the elements, at the others' times per element.
      double rest = 0, elements = 0;
      for (size_t k = 1; k < n; ++k) {
        rest += Median(backward[k]);
        elements += static_cast<double>(process.calls[rank.iterations[0][k].call].count);
      }
      const auto own = static_cast<double>(process.calls[rank.iterations[0][0].call].count);
      times.backward[n - 1] =
          std::max<Micros>(1, elements > 0 ? ToMicros(rest * own / elements) : 1);
      const std::string what = "B of bucket " + std::to_string(n) +
                               " (no wait shows where the backward pass begins): by its elements";
      if (std::find(profile.estimated.begin(), profile.estimated.end(), what) ==
          profile.estimated.end()) {
        profile.estimated.push_back(what);
      }
    }
    for (size_t k = 0; k < n; ++k) times.comm[n - 1 - k] = ToMicros(Median(own_comm[r][k]));
    const Micros all = std::accumulate(times.backward.begin(), times.backward.end(), Micros{0});
    const Micros whole = ToMicros(Median(step));
    const Micros behind = exposed.empty() ? 0 : ToMicros(Median(exposed));
    times.forward = std::max<Micros>(1, whole - all - behind);
    profile.step = std::max(profile.step, whole);
    profile.exposed = std::max(profile.exposed, behind);
    forward = std::max(forward, times.forward);
    for (size_t b = 0; b < n; ++b) {
      profile.buckets[b].backward = std::max(profile.buckets[b].backward, times.backward[b]);
      profile.buckets[b].elements =
          static_cast<int64_t>(process.calls[rank.iterations[0][n - 1 - b].call].count);
    }
    ranks.push_back(std::move(times));
  }
  // No call shows single forward times: assumes them proportional to the backward times.
  const Micros backward = Sum(profile.buckets).backward;
  Micros given = 0, seen = 0;
  for (size_t b = 0; b < n; ++b) {
    seen += profile.buckets[b].backward;
    const auto until =
        static_cast<Micros>(static_cast<__int128>(forward) * seen / std::max<Micros>(1, backward));
    profile.buckets[b].forward = until - given;
    given = until;
  }
  profile.estimated.push_back(
      "F of single buckets: in proportion to B (only the priority baseline uses them)");
  profile.ready = ReadyTimes(profile.buckets);
  if (by_rank != nullptr) *by_rank = std::move(ranks);
  return profile;
}

}  // namespace gordian::planner
