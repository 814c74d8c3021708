#include "tests/unit/replayer/random_schedules.h"

#include <algorithm>
#include <random>

#include "tests/unit/replayer/schedule_builder.h"

namespace gordian::replayer::testing {

Schedule RandomSchedule(uint64_t number) {
  std::mt19937_64 random(number);
  const auto below = [&](uint64_t n) { return static_cast<int>(random() % n); };
  const int ranks = 2 + below(3);
  ScheduleBuilder job(ranks);
  const bool cold = below(3) == 0;
  std::vector<std::vector<int>> members;
  for (int i = 0, comms = 2 + below(2); i < comms; ++i) {
    std::vector<int> of;
    for (int rank = 0; rank < ranks; ++rank) {
      if (i == 0 || below(3) > 0) of.push_back(rank);
    }
    if (of.size() < 2) of = {0, 1};
    job.Comm("c" + std::to_string(i), of, cold);
    members.push_back(of);
  }
  // One kind of collective a communicator, so that no order of calls is a mismatch.
  const OpKind kinds[] = {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kReduce,
                          OpKind::kAllToAll};
  std::vector<OpKind> kind_of;
  for (size_t i = 0; i < members.size(); ++i)
    kind_of.push_back(kinds[below(3) == 0 ? below(4) : 0]);

  struct Step {
    int comm, stream;
    bool transfer;
    int from, to;  // places among the members
  };
  std::vector<Step> steps;
  for (int i = 0, count = 2 + below(4); i < count; ++i) {
    const int comm = below(members.size());
    const int size = static_cast<int>(members[static_cast<size_t>(comm)].size());
    const int from = below(static_cast<uint64_t>(size));
    steps.push_back({comm, below(2), below(3) == 0, from, (from + 1) % size});
  }
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Step> mine = steps;
    if (below(2) == 0 && mine.size() > 1) {
      const size_t at = static_cast<size_t>(below(mine.size() - 1));
      std::swap(mine[at], mine[at + 1]);
    }
    if (below(6) == 0) mine.erase(mine.begin() + below(mine.size()));
    Calls calls = job.On(rank);
    for (const Step& step : mine) {
      const std::vector<int>& of = members[static_cast<size_t>(step.comm)];
      const auto found = std::find(of.begin(), of.end(), rank);
      if (found == of.end()) continue;
      const int me = static_cast<int>(found - of.begin());
      if (step.transfer && me == step.from) calls.Send(step.comm, step.to, step.stream);
      if (step.transfer && me == step.to) calls.Recv(step.comm, step.from, step.stream);
      const OpKind kind = kind_of[static_cast<size_t>(step.comm)];
      const bool rooted = kind == OpKind::kBroadcast || kind == OpKind::kReduce;
      if (!step.transfer) calls.Do(kind, step.comm, step.stream, 1024, rooted ? 0 : -1);
      switch (below(8)) {
        case 0:
          calls.Sync(step.stream);
          break;
        case 1:
          calls.Record(0, step.stream).Wait(0, 1 - step.stream);
          break;
        case 2:
          calls.Kernel(step.stream);
          break;
        case 3:
          calls.Free();
          break;
        default:
          break;
      }
    }
    if (mine.empty() || below(2) == 0) calls.DeviceSync();
  }
  return job.Build();
}

}  // namespace gordian::replayer::testing
