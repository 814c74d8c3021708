// Recorded orders of schedules that were made by hand or at random.
#ifndef GORDIAN_TESTS_UNIT_REPLAYER_FREE_ORDERS_H_
#define GORDIAN_TESTS_UNIT_REPLAYER_FREE_ORDERS_H_

#include <cstddef>
#include <functional>
#include <optional>

#include "replayer/predict/recorded_orders.h"

namespace gordian::replayer::testing {

// Makes the schedule's calls one by one. `choose(n)` says which of the n threads that can move does
// so, as they are numbered: rank by rank. Returns nothing if it hangs.
std::optional<RecordedOrders> RunInOrder(const Schedule& schedule,
                                         const std::function<size_t(size_t)>& choose);

}  // namespace gordian::replayer::testing

#endif  // GORDIAN_TESTS_UNIT_REPLAYER_FREE_ORDERS_H_
