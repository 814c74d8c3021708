#include "tests/unit/replayer/hang_shapes.h"

#include <algorithm>

namespace gordian::replayer::testing {
namespace {

void InversionOnOneStream(const Stage& s) {
  s.job.On(s.a).AllReduce(s.dp).AllReduce(s.tp).Sync().Stands();
  s.job.On(s.b).AllReduce(s.twin ? s.dp : s.tp).AllReduce(s.twin ? s.tp : s.dp).Sync().Stands();
}

void InversionWithSynchronise(const Stage& s) {
  Calls first = s.job.On(s.a).AllReduce(s.dp, 0);
  if (!s.twin) first.Sync(0).Stands();
  if (s.twin) first.AllReduce(s.tp, 1).DeviceSync().Stands();
  Calls second = s.job.On(s.b).AllReduce(s.tp, 1);
  if (!s.twin) second.Sync(1).Stands();
  if (s.twin) second.AllReduce(s.dp, 0).DeviceSync().Stands();
}

void CycleOfThree(const Stage& s) {
  const int order[3][2] = {{s.ab, s.ca}, {s.bc, s.ab}, {s.ca, s.bc}};
  const int ranks[3] = {s.a, s.b, s.c};
  for (int i = 0; i < 3; ++i) {
    const bool turn = s.twin && i == 0;  // two of three in the same order are enough
    s.job.On(ranks[i])
        .AllReduce(order[i][turn ? 1 : 0])
        .AllReduce(order[i][turn ? 0 : 1])
        .Sync()
        .Stands();
  }
}

void EventCycle(const Stage& s) {
  s.job.On(s.a).AllReduce(s.dp, 0).Record(0, 0).Wait(0, 1).AllReduce(s.tp, 1).Sync(1).Stands();
  if (s.twin) {
    s.job.On(s.b).AllReduce(s.dp, 0).Record(0, 0).Wait(0, 1).AllReduce(s.tp, 1).Sync(1).Stands();
  } else {
    s.job.On(s.b).AllReduce(s.tp, 1).Record(0, 1).Wait(0, 0).AllReduce(s.dp, 0).Sync(0).Stands();
  }
}

void ReceiveFirst(const Stage& s) {
  const int ranks[2] = {s.a, s.b};
  for (int i = 0; i < 2; ++i) {
    Calls calls = s.job.On(ranks[i]);
    if (s.twin) {
      calls.Send(s.dp, 1 - i).Recv(s.dp, 1 - i);
    } else {
      calls.Recv(s.dp, 1 - i).Send(s.dp, 1 - i);
    }
    calls.Sync().Stands();
  }
}

void MissingRank(const Stage& s) {
  s.job.On(s.a).AllReduce(s.all).Sync().Stands();
  s.job.On(s.b).AllReduce(s.all).Sync().Stands();
  Calls last = s.job.On(s.c);
  if (s.twin) last.AllReduce(s.all).Sync();
  last.Spin();
}

void DeadRank(const Stage& s) {
  s.job.On(s.a).AllReduce(s.dp).Sync().Stands();
  Calls other = s.job.On(s.b);
  if (s.twin) other.AllReduce(s.dp).Sync();
  other.Kill(9);
}

void MissingSend(const Stage& s) {
  s.job.On(s.a).Recv(s.dp, 1).Sync().Stands();
  Calls other = s.job.On(s.b);
  if (s.twin) other.Send(s.dp, 0).Sync();
  other.Sleep();
}

void SplitDivergent(const Stage& s) {
  s.job.On(s.a).Split(s.dp, s.unmade, 0).Stands();
  Calls other = s.job.On(s.b);
  if (s.twin) {
    other.Split(s.dp, s.unmade, 0);
  } else {
    other.AllReduce(s.dp);
  }
  other.Sync().Stands();
}

void InitOrder(const Stage& s) {
  s.job.On(s.a).Init(s.unmade).Init(s.unmade_too);
  s.job.On(s.b).Init(s.twin ? s.unmade : s.unmade_too).Init(s.twin ? s.unmade_too : s.unmade);
}

void FirstUse(const Stage& s) {
  s.job.On(s.a).AllReduce(s.cold, 0).AllReduce(s.colder, 1).DeviceSync();
  s.job.On(s.b)
      .AllReduce(s.twin ? s.cold : s.colder, s.twin ? 0 : 1)
      .AllReduce(s.twin ? s.colder : s.cold, s.twin ? 1 : 0)
      .DeviceSync();
}

void CountMismatch(const Stage& s) {
  s.job.On(s.a).AllReduce(s.dp, 0, 4096).Sync().Stands();
  s.job.On(s.b).AllReduce(s.dp, 0, s.twin ? 4096 : 2048).Sync().Stands();
}

void FreeBetween(const Stage& s) {
  Calls first = s.job.On(s.a).AllReduce(s.dp, 0);
  if (!s.twin) first.Free().Stands();
  if (s.twin) first.AllReduce(s.tp, 1).DeviceSync().Stands();
  Calls second = s.job.On(s.b).AllReduce(s.tp, 1);
  if (!s.twin) second.Sync(1).Stands();
  if (s.twin) second.AllReduce(s.dp, 0).DeviceSync().Stands();
}

void TwoThreads(const Stage& s) {
  // At b the thread with tp comes first, and both use one stream.
  s.job.On(s.a).AllReduce(s.dp).AllReduce(s.tp).Sync().Stands();
  const OpId before = s.job.On(s.b).Kernel().last();
  Calls slow = s.job.On(s.b).AllReduce(s.dp);
  Calls fast = s.job.On(s.b, 1).AllReduce(s.tp).After(before);
  if (s.twin) {
    fast.After(slow.last());
  } else {
    slow.After(fast.last());
  }
  slow.Sync().Stands();
  fast.Sync().Stands();
}

void GroupAgainstOrder(const Stage& s) {
  // A group over both streams, against the opposite order of calls that a kernel's event enforces.
  s.job.On(s.a)
      .GroupStart()
      .AllReduce(s.dp, 0)
      .AllReduce(s.dp, 1)
      .GroupEnd()
      .AllReduce(s.tp, 1)
      .DeviceSync()
      .Stands();
  Calls other = s.job.On(s.b);
  if (!s.twin) other.AllReduce(s.tp, 1).AllReduce(s.dp, 1).AllReduce(s.dp, 1).DeviceSync().Stands();
  if (s.twin) other.AllReduce(s.dp, 1).AllReduce(s.dp, 1).AllReduce(s.tp, 1).DeviceSync().Stands();
}

void GraphOrder(const Stage& s) {
  s.job.On(s.a).AllReduce(s.dp).AllReduce(s.tp).Sync().Stands();
  const int first = s.twin ? s.dp : s.tp, second = s.twin ? s.tp : s.dp;
  s.job.On(s.b)
      .CaptureBegin(0, 0)
      .AllReduce(first)
      .AllReduce(second)
      .CaptureEnd(0, 0)
      .Launch(0, 0)
      .Sync()
      .Stands();
}

}  // namespace

const std::vector<HangShape>& HangShapes() {
  static const auto* const kShapes = new std::vector<HangShape>{
      {"inversion_one_stream", InversionOnOneStream, "communicator-order-cycle", 2, 4, 4},
      {"inversion_synchronise", InversionWithSynchronise, "host-wait-cycle", 2, 2, 4},
      {"cycle_of_three", CycleOfThree, "communicator-order-cycle", 3, 6, 6},
      {"event_cycle", EventCycle, "event-cycle", 2, 4, 8},
      {"receive_first", ReceiveFirst, "point-to-point-order-cycle", 2, 4, 4},
      {"missing_rank", MissingRank, "rank-not-joined", 2, 1, 2},
      {"dead_rank", DeadRank, "rank-exited", 2, 1, 2},
      {"missing_send", MissingSend, "host-blocked", 2, 1, 2},
      {"split_divergent", SplitDivergent, "communicator-init-missing", 2, 1, 2},
      {"init_order", InitOrder, "communicator-init-order", 2, 0, 2},
      {"first_use", FirstUse, "first-use-order-cycle", 2, 2, 2},
      {"count_mismatch", CountMismatch, "mismatch-count", 2, 2, 2},
      {"free_between", FreeBetween, "host-wait-cycle", 2, 2, 4},
      {"two_threads", TwoThreads, "communicator-order-cycle", 2, 4, 4},
      {"group_against_order", GroupAgainstOrder, "communicator-order-cycle", 2, 4, 4},
      {"graph_order", GraphOrder, "communicator-order-cycle", 2, 4, 7},
  };
  return *kShapes;
}

Schedule Bury(const HangShape& shape, bool twin, int ranks, int steps) {
  const int size = std::max(ranks, 5);
  ScheduleBuilder job(size);
  // In the middle of the others, so that ranks have to be numbered anew.
  const int a = size / 2, b = size / 2 + 1, c = size - 1;
  std::vector<int> everybody, even;
  for (int rank = 0; rank < size; ++rank) everybody.push_back(rank);
  for (int rank = 0; rank < size; rank += 2) even.push_back(rank);
  const int world = job.Comm("world", everybody), half = job.Comm("half", even);
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < size; ++rank) {
      Calls calls = job.On(rank);
      calls.AllReduce(world, 0, 1 << 16).Kernel(0).Record(0, 0).Wait(0, 1);
      if (rank % 2 == 0) calls.Do(OpKind::kAllGather, half, 1, 1 << 10);
      calls.GroupStart()
          .Send(world, (rank + 1) % size, 1)
          .Recv(world, (rank + size - 1) % size, 1)
          .GroupEnd()
          .Sync(1);
    }
  }
  Stage stage{.job = job,
              .a = a,
              .b = b,
              .c = c,
              .dp = job.Comm("dp", {a, b}),
              .tp = job.Comm("tp", {a, b}),
              .ab = job.Comm("ab", {a, b}),
              .bc = job.Comm("bc", {b, c}),
              .ca = job.Comm("ca", {a, c}),
              .cold = job.Comm("cold", {a, b}, /*cold=*/true),
              .colder = job.Comm("colder", {a, b}, /*cold=*/true),
              .all = job.Comm("all", {a, b, c}),
              .unmade = 0,
              .unmade_too = 0,
              .twin = twin};
  stage.unmade = job.UnmadeComm("unmade", {a, b}, shape.write == SplitDivergent ? stage.dp : -1);
  stage.unmade_too = job.UnmadeComm("unmade_too", {a, b});
  std::vector<size_t> before;
  const auto calls_of = [&](int rank) {
    return job.schedule().ranks[static_cast<size_t>(rank)].threads.empty()
               ? 0
               : job.schedule().ranks[static_cast<size_t>(rank)].threads[0].ops.size();
  };
  for (int rank = 0; rank < size; ++rank) before.push_back(calls_of(rank));
  shape.write(stage);
  for (int rank = 0; rank < size; ++rank) {
    if (twin || calls_of(rank) != before[static_cast<size_t>(rank)]) continue;
    if (steps == 0) {
      job.On(rank).Sleep();
    } else {
      job.On(rank).AllReduce(world, 0, 1 << 16).Sync(0).Stands();
    }
  }
  return job.Build();
}

}  // namespace gordian::replayer::testing
