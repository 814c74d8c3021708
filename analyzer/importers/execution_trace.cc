#include "analyzer/importers/execution_trace.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/importers/json_characters.h"
#include "common/budget.h"

namespace gordian::importers {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostNode = 16u << 20;  // bytes
constexpr int kDepthOfNode = 2;            // {"nodes": [{
constexpr std::string_view kNoDescription = "undefined";

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<int64_t> NumberOf(const Json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return std::nullopt;
  return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

// The attributes of a node: [{"name": "dtype", "type": "string", "value": "Float"}].
class Attributes {
 public:
  explicit Attributes(const Json& node) {
    const auto list = node.find("attrs");
    if (list == node.end() || !list->is_array()) return;
    for (const Json& attribute : *list) {
      if (!attribute.is_object()) continue;
      const auto value = attribute.find("value");
      if (value != attribute.end()) values_.emplace(TextOf(attribute, "name"), &*value);
    }
  }

  std::string Text(const char* name) const {
    const auto found = values_.find(name);
    return found != values_.end() && found->second->is_string() ? found->second->get<std::string>()
                                                                : "";
  }
  std::optional<int64_t> Number(const char* name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::nullopt : NumberOf(*found->second);
  }

 private:
  std::map<std::string, const Json*, std::less<>> values_;
};

// What PyTorch passes to a call beside its tensors: [.., [seq, is_p2p], [group, its description],
// rank or root, ..]. Some calls have no numbers.
struct Arguments {
  std::optional<int64_t> sequence, rank_or_root;
};

Arguments ArgumentsOf(const Json& node) {
  Arguments arguments;
  const auto inputs = node.find("inputs");
  if (inputs == node.end() || !inputs->is_object()) return arguments;
  const auto values = inputs->find("values");
  if (values == inputs->end() || !values->is_array()) return arguments;
  for (size_t i = 0; i < values->size(); ++i) {
    const Json& group = (*values)[i];
    if (!group.is_array() || group.size() != 2 || !group[0].is_string() || !group[1].is_string())
      continue;
    if (i + 1 < values->size()) arguments.rank_or_root = NumberOf((*values)[i + 1]);
    if (i == 0) break;
    const Json& numbered = (*values)[i - 1];
    if (numbered.is_array() && numbered.size() == 2 && numbered[1].is_boolean())
      arguments.sequence = NumberOf(numbered[0]);
    break;
  }
  return arguments;
}

// A process group of the node `process_group:init`.
struct Config {
  std::vector<int> ranks;
  int64_t size = -1;
};

// Sees the nodes of the file as they are parsed, and keeps what calls and groups need.
class Reader {
 public:
  // False: error() says why. `node` may be of any shape.
  bool Take(const Json& node) {
    ++nodes_;
    if (!node.is_object()) return Fault("is no object");
    const std::string name = TextOf(node, "name");
    if (name == "## process_group:init ##") TakeConfigs(node);
    return name != "record_param_comms" || TakeCall(node);
  }

  const std::string& error() const { return error_; }
  RankTrace Finish() {
    trace_.ranked = rank_.has_value();
    trace_.dump.rank = static_cast<int>(rank_.value_or(0));
    return std::move(trace_);
  }

 private:
  bool Fault(const std::string& what) {
    error_ = "node " + std::to_string(nodes_) + " " + what;
    return false;
  }

  // One text of JSON: [{"pg_name": "0", "ranks": [], "group_size": 4}]. The group of all has no
  // ranks.
  void TakeConfigs(const Json& node) {
    const auto inputs = node.find("inputs");
    if (inputs == node.end() || !inputs->is_object()) return;
    const auto values = inputs->find("values");
    if (values == inputs->end() || !values->is_array() || values->empty() ||
        !(*values)[0].is_string())
      return;
    const Json list = Json::parse((*values)[0].get<std::string>(), nullptr, false);
    if (!list.is_array()) return;
    for (const Json& one : list) {
      if (!one.is_object()) continue;
      Config config;
      const auto size = one.find("group_size");
      if (size != one.end()) config.size = NumberOf(*size).value_or(-1);
      if (const auto ranks = one.find("ranks"); ranks != one.end() && ranks->is_array()) {
        for (const Json& rank : *ranks) {
          const std::optional<int64_t> number = NumberOf(rank);
          if (number && *number >= 0 && *number < kMostTraceRanks)
            config.ranks.push_back(static_cast<int>(*number));
        }
      }
      if (config.ranks.empty() && config.size > 0 && config.size <= kMostTraceRanks)
        trace_.world = static_cast<int>(config.size);
      trace_.bytes += sizeof config + config.ranks.size() * sizeof(int);
      configs_[TextOf(one, "pg_name")] = std::move(config);
    }
  }

  bool TakeCall(const Json& node) {
    const Attributes attributes(node);
    const std::string collective = attributes.Text("collective_name");
    if (collective == "wait" || collective == "init") return true;  // no operations
    FlightGroup group{attributes.Text("pg_name"), attributes.Text("pg_desc"), {}};
    if (collective.empty() || group.name.empty()) {
      ++trace_.without_metadata;
      return true;
    }
    const std::string type = attributes.Text("dtype");
    for (const std::string_view text :
         {std::string_view(collective), std::string_view(type), std::string_view(group.name),
          std::string_view(group.description)}) {
      if (text.size() > kMostTraceName)
        return Fault("has a name of more than " + std::to_string(kMostTraceName) + " bytes");
    }
    if (group.description == kNoDescription) group.description.clear();
    group.ranks = RanksOf(group.name, attributes);
    const Arguments arguments = ArgumentsOf(node);
    if (!TakeRank(collective, group, arguments)) return false;
    const std::string key = ShortKey(group);
    const auto [known, fresh] = trace_.dump.groups.try_emplace(key, std::move(group));
    if (fresh) trace_.bytes += 256 + known->second.ranks.size() * sizeof(int);
    if (collective == "send" || collective == "recv") {
      ++trace_.transfers;
      trace_.transfer_groups.insert(key);
      return Bounded();
    }
    if (collective == "barrier" && !arguments.sequence) return true;
    FlightEntry entry;
    entry.record = static_cast<int64_t>(nodes_);
    entry.group = key;
    entry.operation = OperationOfProfiler(collective);
    entry.elements_in = attributes.Number("in_msg_nelems").value_or(-1);
    entry.elements_out = attributes.Number("out_msg_nelems").value_or(-1);
    entry.type = type;
    entry.sequence = arguments.sequence.value_or(-1);
    trace_.numbered = trace_.numbered && entry.sequence >= 0;
    trace_.bytes += sizeof entry + entry.operation.size() + key.size() + 32;
    trace_.dump.entries.push_back(std::move(entry));
    return Bounded();
  }

  // The members of a group: as process_group:init lists them, all of the job, or from the first
  // rank and the distance between two, which are 0 where there is no such distance.
  std::vector<int> RanksOf(const std::string& name, const Attributes& attributes) const {
    const int64_t size = attributes.Number("pg_size").value_or(-1);
    std::vector<int> ranks;
    if (size <= 0 || size > kMostTraceRanks) return ranks;
    const auto config = configs_.find(name);
    if (config != configs_.end() && static_cast<int64_t>(config->second.ranks.size()) == size)
      return config->second.ranks;
    const int64_t start = attributes.Number("global_rank_start").value_or(-1);
    int64_t stride = attributes.Number("global_rank_stride").value_or(0);
    if (size == 1) stride = 1;
    if (start < 0 || start >= kMostTraceRanks || stride <= 0 || stride >= kMostTraceRanks ||
        start + stride * (size - 1) >= kMostTraceRanks)
      return ranks;
    for (int64_t i = 0; i < size; ++i) ranks.push_back(static_cast<int>(start + stride * i));
    return ranks;
  }

  // Learns whose trace it is from a call that has no root: it names the rank within the group.
  bool TakeRank(const std::string& collective, const FlightGroup& group,
                const Arguments& arguments) {
    static const std::set<std::string, std::less<>> kRootless = {
        "allreduce", "all_gather", "_allgather_base", "reduce_scatter", "_reduce_scatter_base"};
    if (!kRootless.contains(collective) || !arguments.rank_or_root) return true;
    const int64_t place = *arguments.rank_or_root;
    if (place < 0 || place >= static_cast<int64_t>(group.ranks.size())) return true;
    const int rank = group.ranks[static_cast<size_t>(place)];
    if (rank_.value_or(rank) == rank) {
      rank_ = rank;
      return true;
    }
    return Fault("is of rank " + std::to_string(rank) + ", nodes before it are of rank " +
                 std::to_string(*rank_));
  }

  bool Bounded() {
    if (trace_.bytes <= kMostRankTraceBytes) return true;
    return Fault("is one too many: its calls take more than " +
                 std::to_string(kMostRankTraceBytes >> 20) + " MiB of memory: profile fewer steps");
  }

  RankTrace trace_ = [] {
    RankTrace trace;
    trace.format = TraceFormat::kExecution;
    trace.batches_share_numbers = true;
    return trace;
  }();
  std::optional<int> rank_;
  std::map<std::string, Config> configs_;  // by name
  uint64_t nodes_ = 0;
  std::string error_;
};

}  // namespace

StatusOr<RankTrace> ParseExecutionTrace(const Pull& pull) {
  const auto characters = std::make_unique<JsonCharacters>(pull);
  Reader reader;
  bool in_nodes = false, seen_nodes = false;
  uint64_t begun = 0, end = 0;  // of the last value of the file, or node
  const auto see = [&](int depth, Json::parse_event_t event, Json& value) {
    if (static_cast<size_t>(depth) > kMostNesting)
      characters->Fail("it nests deeper than " + std::to_string(kMostNesting));
    if (characters->offset() - begun > kMostNode)
      characters->Fail("a node of more than " + std::to_string(kMostNode >> 20) + " MiB");
    if (depth == 1 && event == Json::parse_event_t::key) {
      in_nodes = value == "nodes";
      begun = characters->offset();
    }
    if (depth == 1 && event == Json::parse_event_t::array_start && in_nodes) {
      seen_nodes = true;
      end = characters->offset();
    }
    const bool ends = event == Json::parse_event_t::object_end ||
                      event == Json::parse_event_t::array_end ||
                      event == Json::parse_event_t::value;
    if (!ends || depth != kDepthOfNode || !in_nodes) return true;
    begun = end = characters->offset();
    if (!reader.Take(value)) characters->Fail(reader.error());
    return false;  // it needs no place
  };
  const Json root = Json::parse(JsonIterator(characters.get()), JsonIterator(), see, false);
  if (!reader.error().empty()) return Status::DataLoss(reader.error());
  if (!characters->fault().empty()) return Status::DataLoss(characters->fault());
  const bool cut = root.is_discarded();
  if (cut && (!seen_nodes || !in_nodes || !characters->ended() || characters->last_ink() >= end))
    return Status::DataLoss("byte " + std::to_string(characters->offset()) +
                            ": this is not JSON, or the file was cut there");
  if (!seen_nodes) return Status::DataLoss("it has no nodes");
  RankTrace trace = reader.Finish();
  trace.cut = cut;
  return trace;
}

}  // namespace gordian::importers
