#include "planner/collective_report.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

#include "analyzer/model/collective.h"
#include "planner/schedule/host_times.h"

namespace gordian::planner {
namespace {

using model::Call;

struct Member {
  int rank = -1;  // in the job
  uint64_t begin_ns = 0, start_ns = 0, done_ns = 0;
};

struct Instance {
  const JobCall* call = nullptr;
  std::vector<Member> members;
};

using Instances = std::map<std::pair<int, uint64_t>, Instance>;  // (communicator, sequence)

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr size_t kMostOpen = 4096;  // operations whose end may still be seen

void Collect(const JobProcess& process, Instances* instances) {
  Coverage coverage;
  std::vector<std::pair<const JobCall*, size_t>>
      open;  // and its place among the instance's members
  std::map<model::StreamId, uint64_t> last_done;
  const auto member = [&](const std::pair<const JobCall*, size_t>& at) -> Member& {
    return (*instances)[{at.first->comm, at.first->sequence}].members[at.second];
  };
  for (const JobCall& call : process.calls) {
    coverage.Take(call);
    if (call.call == Call::kHostWait) {
      for (size_t k = 0; k < open.size();) {
        if (!coverage.Covers(call, *open[k].first)) {
          ++k;
          continue;
        }
        Member& one = member(open[k]);
        uint64_t& before = last_done[open[k].first->stream];
        one.start_ns = std::max(one.begin_ns, before);
        if (ReallyWaited(call)) {
          // A wait that covers several operations shows the end of the last one only.
          const bool last = std::none_of(
              open.begin() + static_cast<ptrdiff_t>(k) + 1, open.end(), [&](const auto& o) {
                return o.first->stream == open[k].first->stream && coverage.Covers(call, *o.first);
              });
          if (last) one.done_ns = call.end_ns;
          before = call.end_ns;
        }
        open.erase(open.begin() + static_cast<ptrdiff_t>(k));
      }
    }
    if (model::IsCollective(call.call) && call.comm >= 0) {
      Instance& instance = (*instances)[{call.comm, call.sequence}];
      instance.call = &call;
      instance.members.push_back(
          {.rank = process.rank, .begin_ns = call.begin_ns, .start_ns = call.begin_ns});
      if (call.group == 0) open.emplace_back(&call, instance.members.size() - 1);
      if (open.size() > kMostOpen) open.erase(open.begin());
    }
  }
}

double BytesMoved(const JobCall& call, int ranks) {
  const uint64_t elements =
      model::TunedElements(call.call, call.count, static_cast<uint64_t>(ranks));
  return static_cast<double>(elements * model::DatatypeBytes(call.datatype));
}

// An all-reduce is two phases of the same size, a reduce-scatter and an all-gather.
std::vector<Candidate> FromSamples(Call call, const std::vector<CostSample>& samples, uint32_t p,
                                   double m) {
  std::vector<Candidate> all;
  for (const InterPlan plan : {InterPlan::kRing, InterPlan::kDoubling, InterPlan::kBruck}) {
    const double us = TableTime(samples, plan, p, m);
    if (us > 0) all.push_back({false, plan, us * (call == Call::kAllReduce ? 2 : 1)});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  return all;
}

std::vector<Candidate> CandidatesFor(Call call, const MachineCost& cost, uint32_t p, double m) {
  if (call != Call::kAllReduce) return Candidates(cost, p, m, call == Call::kReduceScatter);
  // A reduce-scatter and an all-gather with the same plan.
  std::vector<Candidate> both = Candidates(cost, p, m, false);
  for (const Candidate& scatter : Candidates(cost, p, m, true)) {
    for (Candidate& gather : both) {
      if (gather.hierarchical == scatter.hierarchical && gather.inter == scatter.inter)
        gather.time += scatter.time;
    }
  }
  std::stable_sort(both.begin(), both.end(),
                   [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
  return both;
}

void TakeTimes(const std::vector<double>& times, CollectiveRow* row) {
  row->measured = static_cast<int>(times.size());
  if (times.empty()) return;
  row->median_us = Median(times);
  row->best_us = *std::min_element(times.begin(), times.end());
  row->worst_us = *std::max_element(times.begin(), times.end());
}

void Expect(const Expectation& expected, CollectiveRow* row) {
  row->modelled = row->call == Call::kAllReduce || row->call == Call::kAllGather ||
                  row->call == Call::kReduceScatter;
  if (!row->modelled || row->ranks < 2) return;
  const auto p = static_cast<uint32_t>(row->ranks);
  if (row->bytes < kSmallestFitted) {
    if (expected.samples != nullptr)
      row->candidates = FromSamples(row->call, *expected.samples, p, row->bytes);
  } else if (expected.cost != nullptr) {
    row->candidates = CandidatesFor(row->call, *expected.cost, p, row->bytes);
  }
}

}  // namespace

std::vector<CollectiveRow> ReportCollectives(const JobTrace& trace, bool one_clock,
                                             const Expectation& expected) {
  Instances instances;
  for (const auto& [id, process] : trace.processes()) Collect(process, &instances);
  std::map<std::tuple<int, Call, double>, std::vector<const Instance*>> groups;
  for (const auto& [key, instance] : instances) {
    const JobComm& comm = trace.comms()[key.first];
    groups[{key.first, instance.call->call, BytesMoved(*instance.call, comm.size)}].push_back(
        &instance);
  }
  std::vector<CollectiveRow> rows;
  for (const auto& [key, group] : groups) {
    CollectiveRow row;
    std::tie(row.comm, row.call, row.bytes) = key;
    row.ranks = trace.comms()[row.comm].size;
    row.instances = static_cast<int>(group.size());
    std::vector<double> times;
    std::map<int, std::vector<double>> late;  // by rank: behind the last but one
    for (const Instance* instance : group) {
      double least = -1;
      std::vector<std::pair<uint64_t, int>> begins;
      for (const Member& member : instance->members) {
        begins.emplace_back(member.start_ns, member.rank);
        if (member.done_ns <= member.start_ns) continue;
        const double took = static_cast<double>(member.done_ns - member.start_ns) / 1000;
        if (least < 0 || took < least) least = took;
      }
      if (least >= 0) times.push_back(least);
      std::sort(begins.begin(), begins.end());
      if (one_clock && begins.size() > 1) {
        late[begins.back().second].push_back(
            static_cast<double>(begins.back().first - begins.front().first) / 1000);
      }
    }
    TakeTimes(times, &row);
    for (const auto& [rank, behind] : late) {
      if (static_cast<int>(behind.size()) <= row.late_times) continue;
      row.late_rank = rank;
      row.late_times = static_cast<int>(behind.size());
      row.late_us = Median(behind);
    }
    Expect(expected, &row);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<CollectiveRow> ReportTimed(const std::vector<TimedCollective>& collectives,
                                       const Expectation& expected) {
  std::map<std::tuple<int, Call, int, double>, std::vector<const TimedCollective*>> groups;
  for (const TimedCollective& one : collectives)
    groups[{one.comm, one.call, one.ranks, one.bytes}].push_back(&one);
  std::vector<CollectiveRow> rows;
  for (const auto& [key, group] : groups) {
    CollectiveRow row;
    std::tie(row.comm, row.call, row.ranks, row.bytes) = key;
    row.instances = static_cast<int>(group.size());
    std::vector<double> times;
    for (const TimedCollective* one : group) {
      if (one->least_us >= 0) times.push_back(one->least_us);
    }
    TakeTimes(times, &row);
    Expect(expected, &row);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<CostSample> SamplesOf(const std::vector<CollectiveRow>& rows) {
  std::vector<CostSample> samples;
  for (const CollectiveRow& row : rows) {
    if (!row.modelled || row.measured == 0 || row.ranks < 2) continue;
    const double phases = row.call == Call::kAllReduce ? 2 : 1;
    samples.push_back(
        {InterPlan::kRing, static_cast<uint32_t>(row.ranks), row.bytes, row.median_us / phases});
  }
  return samples;
}

}  // namespace gordian::planner
