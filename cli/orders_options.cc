#include "cli/orders_options.h"

namespace gordian::cli {

void AddOrdersOptions(CLI::App* verb, replayer::OrdersOptions* orders) {
  verb->add_option("--window", orders->window,
                   "Change the order among so many calls of all ranks at once")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  verb->add_option("--max-calls", orders->max_calls,
                   "Judge so many calls of all ranks, from the first on")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
}

void AddFindingsOptions(CLI::App* verb, FindingsOptions* findings) {
  verb->add_option(
          "--baseline", findings->baseline,
          "An earlier output of --json, of predict or explore: what it found is known, and "
          "not in the exit code")
      ->type_name("FILE");
  verb->add_option("--sarif", findings->sarif,
                   "Also write what is found as SARIF, for code scanners")
      ->type_name("FILE");
}

}  // namespace gordian::cli
