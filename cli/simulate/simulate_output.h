// Formats the results of gordian simulate for people.
#ifndef GORDIAN_CLI_SIMULATE_SIMULATE_OUTPUT_H_
#define GORDIAN_CLI_SIMULATE_SIMULATE_OUTPUT_H_

#include <cstdint>
#include <string>

#include "simulator/simulate.h"

namespace gordian::cli {

// A line that shows progress in place; prints nothing unless the descriptor is a terminal. Not
// thread-safe.
class ProgressLine {
 public:
  explicit ProgressLine(int fd);
  void Show(int64_t done, int64_t all, double seconds);
  void Clear();

 private:
  const int fd_;
  const bool shows_;
  double last_ = -1;
  bool drawn_ = false;
};

// "0.778 % [0.761, 0.795]"; tiny ratios as 1.48e-09.
std::string RatioText(double ratio, double low, double high);

std::string SimulationText(const simulator::Config&, const simulator::SimulateReport&,
                           double seconds);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_SIMULATE_SIMULATE_OUTPUT_H_
