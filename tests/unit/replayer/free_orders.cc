#include "tests/unit/replayer/free_orders.h"

#include <utility>
#include <vector>

#include "replayer/reduce/model_run_machine.h"

namespace gordian::replayer::testing {

std::optional<RecordedOrders> RunInOrder(const Schedule& schedule,
                                         const std::function<size_t(size_t)>& choose) {
  RecordedOrders orders{.schedule = schedule};
  orders.recorded.resize(schedule.ranks.size());
  orders.calls = CountCalls(schedule);
  Machine machine(orders.schedule);
  machine.GoStepwise();
  for (uint64_t moment = 1;; moment += 2) {
    // Host waits return by themselves.
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (size_t thread = 0; thread < machine.Threads(rank); ++thread) {
        const std::vector<Op>& ops = schedule.ranks[rank].threads[thread].ops;
        for (size_t i = 0; i < machine.ReturnedFrom(rank, thread); ++i) {
          uint64_t& returned = orders.moments[ops[i].id].second;
          if (returned == 0) returned = moment - 1;
        }
      }
    }
    std::vector<std::pair<size_t, size_t>> able;
    for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      for (size_t thread = 0; thread < machine.Threads(rank); ++thread) {
        if (machine.CanMove(rank, thread)) able.emplace_back(rank, thread);
      }
    }
    if (able.empty()) break;
    const auto [rank, thread] = able[choose(able.size()) % able.size()];
    const Op& op = *machine.NextOf(rank, thread);
    if (!machine.InCall(rank, thread)) {
      orders.recorded[rank].push_back(op.id);
      orders.moments[op.id].first = moment;
    }
    machine.Make(rank, thread);
  }
  if (!machine.AllEnded()) return std::nullopt;
  return orders;
}

}  // namespace gordian::replayer::testing
