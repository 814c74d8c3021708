// Healthy runs of small jobs with a planted mistake: another order of their threads deadlocks.
#ifndef GORDIAN_TESTS_UNIT_REPLAYER_PLANTED_ORDERS_H_
#define GORDIAN_TESTS_UNIT_REPLAYER_PLANTED_ORDERS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "replayer/predict/recorded_orders.h"
#include "replayer/predict/schedule_state.h"

namespace gordian::replayer::testing {

struct Planted {
  std::string name;
  size_t preemptions = 0;  // that the deadlock needs, by the way it is planted
  RecordedOrders orders;
  RecordedOrders twin;  // the same with threads that are ordered: no deadlock
};

std::vector<Planted> PlantedOrders();

// The same mistake at so many ranks, two all-reduces of which one is awaited: many orders to try.
RecordedOrders PlantedAtMany(int ranks);

// Two ranks of two threads that make so many all-reduces each, on one stream and a communicator for
// each thread: more orders than any search tries, and few of them end.
RecordedOrders RacingThreads(int calls);

// How many schedules there are, each order of moves being another one: what a search without any
// reduction runs. It does not run them, but adds up the ways from equal states.
double CountSchedules(const ScheduleState& root);

}  // namespace gordian::replayer::testing

#endif  // GORDIAN_TESTS_UNIT_REPLAYER_PLANTED_ORDERS_H_
