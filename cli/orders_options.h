// The options of verbs that try other orders of a recorded run's calls.
#ifndef GORDIAN_CLI_ORDERS_OPTIONS_H_
#define GORDIAN_CLI_ORDERS_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "replayer/predict/recorded_orders.h"

namespace gordian::cli {

// --window and --max-calls. `orders` must outlive `verb`.
void AddOrdersOptions(CLI::App* verb, replayer::OrdersOptions* orders);

// Files of findings; empty: none.
struct FindingsOptions {
  std::string baseline;  // to read
  std::string sarif;     // to write
};
// --baseline and --sarif. `findings` must outlive `verb`.
void AddFindingsOptions(CLI::App* verb, FindingsOptions* findings);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_ORDERS_OPTIONS_H_
