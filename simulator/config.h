// The input of a simulation: the keys of DFCCL's simulator (arXiv 2303.06324, section 2.4), with
// the same names and meanings, so that its JSON files run unchanged. Pure: takes parsed JSON.
#ifndef GORDIAN_SIMULATOR_CONFIG_H_
#define GORDIAN_SIMULATOR_CONFIG_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gordian::simulator {

// Single: every GPU runs its collectives one after the other. StreamWithSync: a GPU starts
// collectives without bound, but at times waits for all that it has started.
enum class Model { kSingle, kStreamWithSync };

// The order of a GPU's list without disorder. Interleaved: the first collective of each of its
// groups, then the second, ...; concat: one group after the other; given: Config::order.
enum class ListOrder { kInterleaved, kConcat, kGiven };

// Collectives that a set of GPUs runs together, `count` of them, in the same order everywhere.
struct GroupSpec {
  std::vector<uint32_t> gpus;  // distinct; at least two
  uint32_t count = 0;          // at least one
};

struct Config {
  int64_t total_rounds = 0;  // of each process; 0: not given
  int64_t num_process = 1;
  bool fix_seed = true;  // every process repeats the same rounds
  double disorder_prob = 0;
  double sync_prob = 0;
  Model model = Model::kSingle;
  int64_t resource_limit = -1;  // -1: none
  ListOrder lists = ListOrder::kInterleaved;

  bool megatron = false;
  // Megatron: each of the s stages has d groups of a GPUs for tensor parallelism and a groups of d
  // for data parallelism; the counts are per group.
  int64_t tp_group_size = 0;
  int64_t dp_group_size = 0;
  int64_t pp_group_size = 0;
  int64_t coll_cnt_per_tp_group = 0;
  int64_t coll_cnt_per_dp_group = 0;
  // Arbitrary.
  int64_t gpu_num = 0;
  std::vector<GroupSpec> groups;
  // With ListOrder::kGiven: for each GPU the groups of its collectives, in its own order.
  std::vector<std::vector<uint32_t>> order;

  int64_t GpuCount() const {
    return megatron ? tp_group_size * dp_group_size * pp_group_size : gpu_num;
  }
  int64_t GroupCount() const {
    return megatron ? (tp_group_size + dp_group_size) * pp_group_size
                    : static_cast<int64_t>(groups.size());
  }
  // A stage may be simulated apart when no group crosses it.
  int64_t Rounds() const { return total_rounds * num_process; }
};

// Reads `json` into `*config`. Returns the first error, naming the key; empty if there is none.
std::string ParseConfig(const nlohmann::json& json, Config* config);

// Makes ParseConfig's checks on a configuration from elsewhere. Returns the error; empty if none.
std::string CheckConfig(const Config& config);

// Writes every key that matters; ParseConfig reads it back.
nlohmann::json ConfigToJson(const Config& config);

const char* ModelName(Model);
const char* ListOrderName(ListOrder);

}  // namespace gordian::simulator

#endif  // GORDIAN_SIMULATOR_CONFIG_H_
