#include "simulator/config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace gordian::simulator {
namespace {

constexpr double kMostSyncProb = 0.999999;

using nlohmann::json;

constexpr std::array kKeys = {"total_rounds",
                              "num_process",
                              "fix_seed",
                              "disorder_prob",
                              "sync_prob",
                              "model",
                              "grouping_policy",
                              "resource_limit",
                              "tp_group_size",
                              "dp_group_size",
                              "pp_group_size",
                              "coll_cnt_per_tp_group",
                              "coll_cnt_per_dp_group",
                              "gpu_num",
                              "group_num",
                              "gpu_per_group",
                              "coll_cnt_per_group",
                              "group_order_per_gpu",
                              "lists"};

// Larger ones would overflow the engines' counters.
constexpr int64_t kMostGpus = int64_t{1} << 24;
constexpr int64_t kMostCollectives = int64_t{1} << 30;  // in a group
constexpr int64_t kMostRounds = int64_t{1} << 50;

// Reads keys one by one and keeps the first error.
class Reader {
 public:
  explicit Reader(const json& from) : from_(from) {}

  bool Has(const char* key) const { return from_.contains(key); }

  void Integer(const char* key, int64_t low, int64_t high, int64_t* into, bool required = true) {
    const json* value = Find(key, required);
    if (value == nullptr) {
      return;
    }
    if (value->is_boolean()) {
      *into = value->get<bool>() ? 1 : 0;
      return Range(key, *into, low, high);
    }
    if (!value->is_number_integer()) {
      return Complain(std::string(key) + " must be a whole number, not " + value->dump());
    }
    if (value->is_number_unsigned() &&
        value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Complain(std::string(key) + " is too large: " + value->dump());
    }
    *into = value->get<int64_t>();
    Range(key, *into, low, high);
  }

  void Probability(const char* key, double* into, bool required = true) {
    const json* value = Find(key, required);
    if (value == nullptr) {
      return;
    }
    if (!value->is_number()) {
      return Complain(std::string(key) + " must be a number, not " + value->dump());
    }
    *into = value->get<double>();
    if (!(*into >= 0 && *into <= 1)) {
      Complain(std::string(key) + " is a probability, from 0 to 1, not " + value->dump());
    }
  }

  // Returns the index of the value in `words`.
  size_t Word(const char* key, const std::vector<std::string>& words, bool required = true) {
    const json* value = Find(key, required);
    if (value == nullptr) {
      return 0;
    }
    for (size_t i = 0; value->is_string() && i < words.size(); ++i) {
      if (value->get<std::string>() == words[i]) {
        return i;
      }
    }
    std::string known;
    for (const std::string& word : words) {
      known += (known.empty() ? "" : " or ") + word;
    }
    Complain(std::string(key) + " must be " + known + ", not " + value->dump());
    return 0;
  }

  const json* List(const char* key) {
    const json* value = Find(key, true);
    if (value != nullptr && !value->is_array()) {
      Complain(std::string(key) + " must be a list, not " + value->dump());
      return nullptr;
    }
    return value;
  }

  // Reads a list of whole numbers from 0 to high-1.
  std::vector<uint32_t> Numbers(const std::string& name, const json& list, int64_t high) {
    std::vector<uint32_t> numbers;
    if (!list.is_array()) {
      Complain(name + " must be a list of whole numbers, not " + list.dump());
      return numbers;
    }
    numbers.reserve(list.size());
    for (const json& value : list) {
      if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= high) {
        Complain(name + " holds " + value.dump() + ", which is not from 0 to " +
                 std::to_string(high - 1));
        return numbers;
      }
      numbers.push_back(static_cast<uint32_t>(value.get<int64_t>()));
    }
    return numbers;
  }

  void Complain(std::string what) {
    if (problem_.empty()) {
      problem_ = std::move(what);
    }
  }
  const std::string& problem() const { return problem_; }

 private:
  const json* Find(const char* key, bool required) {
    const auto at = from_.find(key);
    if (at == from_.end()) {
      if (required) {
        Complain(std::string(key) + " is missing");
      }
      return nullptr;
    }
    return &*at;
  }

  void Range(const char* key, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) {
      Complain(std::string(key) + " must be from " + std::to_string(low) + " to " +
               std::to_string(high) + ", not " + std::to_string(value));
    }
  }

  const json& from_;
  std::string problem_;
};

std::string Nearest(const std::string& key) {
  // A common prefix is enough to guess the intended key.
  std::string best;
  size_t most = 2;
  for (const char* known : kKeys) {
    const std::string name = known;
    size_t same = 0;
    while (same < name.size() && same < key.size() && name[same] == key[same]) {
      ++same;
    }
    if (same > most) {
      most = same;
      best = name;
    }
  }
  return best;
}

void ReadMegatron(Reader& read, Config* config) {
  config->megatron = true;
  read.Integer("tp_group_size", 1, kMostGpus, &config->tp_group_size);
  read.Integer("dp_group_size", 1, kMostGpus, &config->dp_group_size);
  read.Integer("pp_group_size", 1, kMostGpus, &config->pp_group_size);
  read.Integer("coll_cnt_per_tp_group", 1, kMostCollectives, &config->coll_cnt_per_tp_group);
  read.Integer("coll_cnt_per_dp_group", 1, kMostCollectives, &config->coll_cnt_per_dp_group);
}

void ReadArbitrary(Reader& read, Config* config) {
  int64_t group_num = 0;
  read.Integer("gpu_num", 2, kMostGpus, &config->gpu_num);
  read.Integer("group_num", 1, kMostGpus, &group_num);
  const json* lists = read.List("gpu_per_group");
  const json* counts = read.List("coll_cnt_per_group");
  if (lists == nullptr || counts == nullptr || !read.problem().empty()) {
    return;
  }
  for (const auto& [key, list] :
       {std::pair{"gpu_per_group", lists}, {"coll_cnt_per_group", counts}}) {
    if (static_cast<int64_t>(list->size()) != group_num) {
      return read.Complain(std::string(key) + " has " + std::to_string(list->size()) +
                           " entries, but group_num is " + std::to_string(group_num));
    }
  }
  config->groups.resize(lists->size());
  for (size_t g = 0; g < lists->size(); ++g) {
    const std::string at = "[" + std::to_string(g) + "]";
    config->groups[g].gpus = read.Numbers("gpu_per_group" + at, (*lists)[g], config->gpu_num);
    const json& count = (*counts)[g];
    if (!count.is_number_integer() || count.get<int64_t>() < 1 ||
        count.get<int64_t>() > kMostCollectives) {
      read.Complain("coll_cnt_per_group" + at + " must be from 1 to " +
                    std::to_string(kMostCollectives) + ", not " + count.dump());
    }
    if (!read.problem().empty()) {
      return;
    }
    config->groups[g].count = static_cast<uint32_t>(count.get<int64_t>());
  }
  if (read.Has("group_order_per_gpu")) {
    const json* order = read.List("group_order_per_gpu");
    if (order == nullptr) {
      return;
    }
    for (size_t u = 0; u < order->size(); ++u) {
      config->order.push_back(
          read.Numbers("group_order_per_gpu[" + std::to_string(u) + "]", (*order)[u], group_num));
    }
    config->lists = ListOrder::kGiven;
  }
}

std::string CheckGroups(const Config& config) {
  std::vector<uint32_t> seen_in(static_cast<size_t>(config.gpu_num), 0);
  for (size_t g = 0; g < config.groups.size(); ++g) {
    const std::string name = "gpu_per_group[" + std::to_string(g) + "]";
    if (config.groups[g].gpus.size() < 2) {
      return name + " has " + std::to_string(config.groups[g].gpus.size()) +
             " GPUs: a group needs at least two";
    }
    for (uint32_t gpu : config.groups[g].gpus) {
      if (seen_in[gpu] == g + 1) {
        return name + " names GPU " + std::to_string(gpu) + " twice";
      }
      seen_in[gpu] = static_cast<uint32_t>(g + 1);
    }
  }
  const auto alone = std::find(seen_in.begin(), seen_in.end(), 0u);
  if (alone != seen_in.end()) {
    return "gpu_per_group names GPU " + std::to_string(alone - seen_in.begin()) +
           " nowhere, but gpu_num is " + std::to_string(config.gpu_num);
  }
  return "";
}

std::string CheckOrder(const Config& config) {
  if (config.lists != ListOrder::kGiven) {
    return "";
  }
  if (static_cast<int64_t>(config.order.size()) != config.gpu_num) {
    return "group_order_per_gpu has " + std::to_string(config.order.size()) +
           " lists, but gpu_num is " + std::to_string(config.gpu_num);
  }
  std::vector<std::vector<uint32_t>> groups_of(config.order.size());
  for (size_t g = 0; g < config.groups.size(); ++g) {
    for (uint32_t gpu : config.groups[g].gpus) {
      groups_of[gpu].push_back(static_cast<uint32_t>(g));
    }
  }
  for (size_t u = 0; u < config.order.size(); ++u) {
    std::vector<uint32_t> sorted = config.order[u];
    std::sort(sorted.begin(), sorted.end());
    std::vector<uint32_t> wanted;
    for (uint32_t g : groups_of[u]) {
      wanted.insert(wanted.end(), config.groups[g].count, g);
    }
    if (sorted != wanted) {
      return "group_order_per_gpu[" + std::to_string(u) +
             "] must name each group of that GPU coll_cnt_per_group times";
    }
  }
  return "";
}

}  // namespace

const char* ModelName(Model model) { return model == Model::kSingle ? "Single" : "StreamWithSync"; }

const char* ListOrderName(ListOrder order) {
  switch (order) {
    case ListOrder::kInterleaved:
      return "interleaved";
    case ListOrder::kConcat:
      return "concat";
    case ListOrder::kGiven:
      return "given";
  }
  return "";
}

std::string ParseConfig(const json& from, Config* config) {
  *config = Config();
  if (!from.is_object()) {
    return "a configuration is one object with keys such as total_rounds";
  }
  for (const auto& [key, value] : from.items()) {
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      const std::string near = Nearest(key);
      return "unknown key '" + key + "'" + (near.empty() ? "" : " (is " + near + " meant?)");
    }
  }
  Reader read(from);
  read.Integer("total_rounds", 1, kMostRounds, &config->total_rounds, false);
  read.Integer("num_process", 1, 1 << 20, &config->num_process, false);
  int64_t fix_seed = 1;
  read.Integer("fix_seed", 0, 1, &fix_seed, false);
  config->fix_seed = fix_seed == 1;
  config->model = read.Word("model", {"Single", "StreamWithSync"}) == 0 ? Model::kSingle
                                                                        : Model::kStreamWithSync;
  read.Probability("disorder_prob", &config->disorder_prob);
  read.Probability("sync_prob", &config->sync_prob, config->model == Model::kStreamWithSync);
  read.Integer("resource_limit", -1, kMostCollectives, &config->resource_limit, false);
  if (read.Has("lists")) {
    config->lists = read.Word("lists", {"interleaved", "concat"}) == 0 ? ListOrder::kInterleaved
                                                                       : ListOrder::kConcat;
  }
  if (read.Word("grouping_policy", {"Megatron", "Arbitrary"}) == 0) {
    if (read.problem().empty()) {
      ReadMegatron(read, config);
    }
  } else {
    ReadArbitrary(read, config);
  }
  return read.problem().empty() ? CheckConfig(*config) : read.problem();
}

std::string CheckConfig(const Config& config) {
  if (config.model == Model::kStreamWithSync && config.sync_prob > kMostSyncProb) {
    return config.sync_prob >= 1
               ? "sync_prob must be below 1: with 1 no GPU ever starts a collective"
               : "sync_prob must be at most 0.999999: above, a GPU waits millions of turns before "
                 "each collective";
  }
  if (config.resource_limit == 0) {
    return "resource_limit must be -1 (none) or at least 1, not 0";
  }
  if (config.resource_limit > 0 && config.model == Model::kSingle) {
    return "resource_limit needs the model StreamWithSync";
  }
  if (config.total_rounds > 0 && config.num_process > kMostRounds / config.total_rounds) {
    return "total_rounds times num_process is too large";
  }
  if (!config.megatron) {
    const std::string problem = CheckGroups(config);
    return problem.empty() ? CheckOrder(config) : problem;
  }
  for (const auto& [key, size] : {std::pair{"tp_group_size", config.tp_group_size},
                                  {"dp_group_size", config.dp_group_size}}) {
    if (size < 2) {
      return std::string(key) + " is " + std::to_string(size) +
             ": a group needs at least two GPUs (to leave that parallelism out, use Arbitrary)";
    }
  }
  // Each factor is at most 2^24, so a product of two cannot overflow.
  if (config.tp_group_size * config.dp_group_size > kMostGpus ||
      config.tp_group_size * config.dp_group_size * config.pp_group_size > kMostGpus) {
    return "tp_group_size times dp_group_size times pp_group_size is more than " +
           std::to_string(kMostGpus) + " GPUs";
  }
  return "";
}

json ConfigToJson(const Config& config) {
  json out;
  out["model"] = ModelName(config.model);
  out["disorder_prob"] = config.disorder_prob;
  out["sync_prob"] = config.sync_prob;
  if (config.total_rounds > 0) {
    out["total_rounds"] = config.total_rounds;
  }
  out["num_process"] = config.num_process;
  out["fix_seed"] = config.fix_seed ? 1 : 0;
  out["resource_limit"] = config.resource_limit;
  out["grouping_policy"] = config.megatron ? "Megatron" : "Arbitrary";
  if (config.lists != ListOrder::kGiven) {
    out["lists"] = ListOrderName(config.lists);
  }
  if (config.megatron) {
    out["tp_group_size"] = config.tp_group_size;
    out["dp_group_size"] = config.dp_group_size;
    out["pp_group_size"] = config.pp_group_size;
    out["coll_cnt_per_tp_group"] = config.coll_cnt_per_tp_group;
    out["coll_cnt_per_dp_group"] = config.coll_cnt_per_dp_group;
    return out;
  }
  out["gpu_num"] = config.gpu_num;
  out["group_num"] = config.groups.size();
  out["gpu_per_group"] = json::array();
  out["coll_cnt_per_group"] = json::array();
  for (const GroupSpec& group : config.groups) {
    out["gpu_per_group"].push_back(group.gpus);
    out["coll_cnt_per_group"].push_back(group.count);
  }
  if (config.lists == ListOrder::kGiven) {
    out["group_order_per_gpu"] = config.order;
  }
  return out;
}

}  // namespace gordian::simulator
