// The configurations of DFCCL's Table 1 (arXiv 2303.06324) as far as they are published, with free
// groupings of ours of the sizes stated there, and what is known of them. Tests and benchmarks.
#ifndef GORDIAN_TESTING_SIMULATOR_TABLE1_H_
#define GORDIAN_TESTING_SIMULATOR_TABLE1_H_

#include <string>
#include <vector>

#include "simulator/config.h"
#include "simulator/sampling/interval.h"

namespace gordian::simulator {

Config Megatron(int64_t tp, int64_t dp, int64_t stages, int64_t per_tp, int64_t per_dp);
Config Free64(uint32_t times = 1);  // 400 or 1200 collectives a group, times this
Config Free128();
Config OneGroup();  // 8 GPUs, 161 collectives
Config ShippedMegatron();
Config ShippedArbitrary(int64_t resource_limit = 50);

Config With(Config config, Model model, double p, double q);

// In per cent. `low` and `high`: 95 % interval of what was counted with the published detector on
// interleaved lists, and exactly; both 0 where there is no such number.
struct Known {
  double ratio = 0;
  double low = 0;
  double high = 0;
};

struct Row {
  std::string name;
  Config config;
  Known by_default;
  Known exact;
  double original_rate;  // rounds/s of the published program, one core, an earlier measurement; 0:
                         // none
};

std::vector<Row> Table1();

// Widens a 95 % interval to 99.9 %, as if it were normal.
Interval Wide(const Known& known);

}  // namespace gordian::simulator

#endif  // GORDIAN_TESTING_SIMULATOR_TABLE1_H_
