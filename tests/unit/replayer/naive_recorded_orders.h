// ReadOrders() by maps over all recorded calls, without keys of windows: what it must give.
#ifndef GORDIAN_TESTS_UNIT_REPLAYER_NAIVE_RECORDED_ORDERS_H_
#define GORDIAN_TESTS_UNIT_REPLAYER_NAIVE_RECORDED_ORDERS_H_

#include <string>

#include "common/status.h"
#include "replayer/predict/recorded_orders.h"

namespace gordian::replayer::testing {

// Does not ask OrdersOptions::knows.
Status NaiveReadOrders(const std::string& path, const OrdersOptions& options,
                       const OrdersSink& sink);

}  // namespace gordian::replayer::testing

#endif  // GORDIAN_TESTS_UNIT_REPLAYER_NAIVE_RECORDED_ORDERS_H_
