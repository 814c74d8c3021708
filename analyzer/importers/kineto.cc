#include "analyzer/importers/kineto.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/importers/json_characters.h"
#include "common/budget.h"

namespace gordian::importers {
namespace {

using Json = nlohmann::json;

constexpr char kRanksKey[] = "Process Group Ranks";
constexpr std::string_view kNoDescription = "undefined";

// What of an event is of interest, whether it is a call or not.
struct Event {
  std::string name, category;
  std::string collective, type, group, description, ranks;
  std::optional<int64_t> sequence, in, out, size, external;
  double ts = 0, us = -1;  // where it begins, how long it lasts
  bool called_us = false, root_or_peer = false;
};

// A process group as an event names it.
struct SeenGroup {
  std::string name, ranks;
  int64_t size = -1;
  friend auto operator<=>(const SeenGroup&, const SeenGroup&) = default;
};

// An entry of distributedInfo.pg_config.
struct Config {
  std::string name;
  std::vector<int> ranks;
  int64_t size = -1;
};

// Parses "[0, 1]". Empty: it is something else, among others a list that PyTorch has cut.
std::vector<int> RanksOf(std::string_view text) {
  std::vector<int> ranks;
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return ranks;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    int rank = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), rank);
    if (error != std::errc() || end != item.data() + item.size() || rank < 0) return {};
    ranks.push_back(rank);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return ranks;
}

// Sees the values of the file as they are parsed, and keeps what calls and groups need.
class Reader final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return Integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return value > static_cast<number_unsigned_t>(INT64_MAX)
               ? number_float(static_cast<double>(value), "")
               : Integer(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    if (in(Where::kEvent) && key_ == "ts") event_.ts = value;
    if (in(Where::kEvent) && key_ == "dur") event_.us = value;
    if (in(Where::kArgs) && key_ == "called_us") event_.called_us = true;
    return true;
  }
  bool string(string_t& value) override { return Text(value); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(/*list=*/false); }
  bool start_array(size_t) override { return Open(/*list=*/true); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& value) override {
    std::swap(key_, value);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    error_ = "byte " + std::to_string(position) + ": this is not JSON, or the file was cut there";
    return false;
  }

  const std::string& error() const { return error_; }
  StatusOr<RankTrace> Finish();

 private:
  enum class Where : uint8_t {
    kElsewhere,
    kRoot,
    kEvents,
    kEvent,
    kArgs,
    kRanks,
    kInfo,
    kConfigs,
    kConfig,
    kConfigRanks
  };

  bool in(Where where) const { return !open_.empty() && open_.back() == where; }

  Where Inside(bool list) const {
    if (open_.empty()) return list ? Where::kEvents : Where::kRoot;
    switch (open_.back()) {
      case Where::kRoot:
        if (list && key_ == "traceEvents") return Where::kEvents;
        return !list && key_ == "distributedInfo" ? Where::kInfo : Where::kElsewhere;
      case Where::kEvents:
        return list ? Where::kElsewhere : Where::kEvent;
      case Where::kEvent:
        return !list && key_ == "args" ? Where::kArgs : Where::kElsewhere;
      case Where::kArgs:
        return list && key_ == kRanksKey ? Where::kRanks : Where::kElsewhere;
      case Where::kInfo:
        return list && key_ == "pg_config" ? Where::kConfigs : Where::kElsewhere;
      case Where::kConfigs:
        return list ? Where::kElsewhere : Where::kConfig;
      case Where::kConfig:
        return list && key_ == "ranks" ? Where::kConfigRanks : Where::kElsewhere;
      default:
        return Where::kElsewhere;
    }
  }

  bool Open(bool list) {
    const Where where = Inside(list);
    if (open_.size() == kMostNesting) {
      error_ = "it nests deeper than " + std::to_string(kMostNesting);
      return false;
    }
    open_.push_back(where);
    if (where == Where::kEvents) has_events_ = true;
    if (where == Where::kEvent) {
      event_ = Event();
      ++events_;
    }
    if (where == Where::kConfig) config_ = Config();
    if (where == Where::kRanks) event_.ranks = "[";
    return true;
  }

  bool Close() {
    const Where where = open_.back();
    open_.pop_back();
    if (where == Where::kRanks) event_.ranks += "]";
    if (where == Where::kConfig) {
      trace_.bytes += sizeof config_ + config_.ranks.size() * sizeof(int);
      configs_.push_back(std::move(config_));
      return Bounded();
    }
    return where != Where::kEvent || EndEvent();
  }

  bool Integer(int64_t value) {
    if (open_.empty()) return true;
    switch (open_.back()) {
      case Where::kEvent:
        if (key_ == "ts") event_.ts = static_cast<double>(value);
        if (key_ == "dur") event_.us = static_cast<double>(value);
        break;
      case Where::kArgs:
        ArgInteger(value);
        break;
      case Where::kRanks:
        event_.ranks += (event_.ranks.size() > 1 ? ", " : "") + std::to_string(value);
        if (event_.ranks.size() > kMostJsonText) return Fault("names too many ranks");
        break;
      case Where::kInfo:
        if (key_ == "rank") rank_ = value;
        if (key_ == "world_size") world_ = value;
        break;
      case Where::kConfig:
        if (key_ == "pg_size") config_.size = value;
        break;
      case Where::kConfigRanks:
        if (value < 0 || value >= kMostTraceRanks || config_.ranks.size() >= kMostTraceRanks) {
          error_ = "distributedInfo has a process group with more than " +
                   std::to_string(kMostTraceRanks) + " ranks";
          return false;
        }
        config_.ranks.push_back(static_cast<int>(value));
        break;
      default:
        break;
    }
    return true;
  }

  void ArgInteger(int64_t value) {
    if (key_ == "Seq") {
      event_.sequence = value;
    } else if (key_ == "In msg nelems") {
      event_.in = value;
    } else if (key_ == "Out msg nelems") {
      event_.out = value;
    } else if (key_ == "Group size") {
      event_.size = value;
    } else if (key_ == "External id") {
      event_.external = value;
    } else if (key_ == "root_or_peer") {
      event_.root_or_peer = true;
    } else if (key_ == "called_us") {
      event_.called_us = true;
    }
  }

  bool Text(std::string& value) {
    if (open_.empty()) return true;
    std::string* into = nullptr;
    switch (open_.back()) {
      case Where::kEvent:
        into = key_ == "name" ? &event_.name : key_ == "cat" ? &event_.category : nullptr;
        break;
      case Where::kArgs:
        into = key_ == "Collective name"             ? &event_.collective
               : key_ == "dtype"                     ? &event_.type
               : key_ == "Process Group Name"        ? &event_.group
               : key_ == "Process Group Description" ? &event_.description
               : key_ == kRanksKey                   ? &event_.ranks
                                                     : nullptr;
        break;
      case Where::kConfig:
        if (key_ == "pg_name") into = &config_.name;
        if (key_ == "ranks") config_.ranks = RanksOf(value);
        break;
      default:
        break;
    }
    if (into != nullptr) std::swap(*into, value);
    return true;
  }

  // Refuses the event that is open, or that has just ended.
  bool Fault(const std::string& what) {
    error_ = "event " + std::to_string(events_) + " " + what;
    return false;
  }

  bool Bounded() {
    if (trace_.bytes <= kMostRankTraceBytes) return true;
    error_ = "its calls take more than " + std::to_string(kMostRankTraceBytes >> 20) +
             " MiB of memory: profile fewer steps";
    return false;
  }

  bool EndEvent() {
    if (event_.called_us && event_.root_or_peer) {
      error_ =
          "gordian exported it, and such a timeline holds no types and no members of groups: name "
          "the session, or export that with -f fr or -f chakra";
      return false;
    }
    if (event_.name == "record_param_comms") return TakeCall();
    if (event_.category == "kernel" && event_.external && event_.name.starts_with("nccl") &&
        std::isfinite(event_.us)) {
      const auto [kernel, fresh] = kernels_.try_emplace(*event_.external, event_.us);
      if (!fresh) kernel->second = -1;  // several: none of them is the whole operation
      trace_.bytes += fresh ? 6 * sizeof(int64_t) : 0;
      return Bounded();
    }
    return true;
  }

  bool TakeCall() {
    const std::string& collective = event_.collective;
    if (collective == "wait" || collective == "init") return true;  // no operations
    if (collective.empty() || event_.group.empty()) {
      ++trace_.without_metadata;
      return true;
    }
    for (const std::string_view text :
         {std::string_view(collective), std::string_view(event_.type),
          std::string_view(event_.group), std::string_view(event_.description)}) {
      if (text.size() > kMostTraceName)
        return Fault("has a name of more than " + std::to_string(kMostTraceName) + " bytes");
    }
    if (event_.description == kNoDescription) event_.description.clear();
    SeenGroup group{event_.group, std::move(event_.ranks), event_.size.value_or(-1)};
    auto [seen, fresh] = groups_.try_emplace(std::move(group), event_.description);
    if (fresh) trace_.bytes += 2 * (seen->first.name.size() + 4 * seen->first.ranks.size()) + 256;
    if (collective == "send" || collective == "recv") {
      ++trace_.transfers;
      transfer_groups_.insert(&seen->first);
      return Bounded();
    }
    FlightEntry entry;
    const double ns = event_.ts * 1e3;
    // Calls of one thread are in order anyway; of others this is the order, where it makes sense.
    entry.record = std::isfinite(ns) && std::abs(ns) < 9e18 ? static_cast<int64_t>(ns) : 0;
    entry.operation = OperationOfProfiler(collective);
    entry.elements_in = event_.in.value_or(-1);
    entry.elements_out = event_.out.value_or(-1);
    entry.type = event_.type;
    entry.sequence = event_.sequence.value_or(-1);
    trace_.bytes += sizeof entry + sizeof(Call) + 2 * entry.operation.size() + 32;
    calls_.push_back({std::move(entry), &seen->first, event_.external.value_or(0)});
    return Bounded();
  }

  FlightGroup Resolve(const SeenGroup& seen, const std::string& description) const;

  struct Call {
    FlightEntry entry;
    const SeenGroup* group;
    int64_t external;
  };

  std::vector<Where> open_;
  std::string key_;
  Event event_;
  Config config_;
  uint64_t events_ = 0;
  bool has_events_ = false;
  std::optional<int64_t> rank_, world_;
  std::vector<Config> configs_;
  std::map<SeenGroup, std::string> groups_;  // and their descriptions
  std::set<const SeenGroup*> transfer_groups_;
  std::vector<Call> calls_;
  std::unordered_map<int64_t, double> kernels_;  // of NCCL, by External id: how long they ran
  RankTrace trace_;
  std::string error_;
};

// Finds the members of a group: from the event, or where PyTorch has cut the list from
// distributedInfo, which leaves out the ranks of the group of all.
FlightGroup Reader::Resolve(const SeenGroup& seen, const std::string& description) const {
  FlightGroup group{seen.name, description, RanksOf(seen.ranks)};
  const auto fits = [&](size_t ranks) {
    return ranks > 0 && (seen.size < 0 || static_cast<int64_t>(ranks) == seen.size);
  };
  if (!fits(group.ranks.size())) {
    group.ranks.clear();
    for (const Config& config : configs_) {
      if (config.name == seen.name && fits(config.ranks.size())) group.ranks = config.ranks;
    }
  }
  if (group.ranks.empty() && trace_.world > 0 && seen.size == trace_.world) {
    group.ranks.resize(static_cast<size_t>(trace_.world));
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
  }
  // What is left of the list tells it from another group of that name.
  if (group.ranks.empty() && !seen.ranks.empty()) group.name += " " + seen.ranks;
  return group;
}

StatusOr<RankTrace> Reader::Finish() {
  if (!has_events_) return Status::DataLoss("it has no traceEvents");
  if (world_ && (*world_ < 1 || *world_ > kMostTraceRanks))
    return Status::DataLoss("distributedInfo names " + std::to_string(*world_) + " ranks");
  trace_.world = static_cast<int>(world_.value_or(0));
  if (rank_) {
    const int64_t most = trace_.world > 0 ? trace_.world : kMostTraceRanks;
    if (*rank_ < 0 || *rank_ >= most)
      return Status::DataLoss("distributedInfo names rank " + std::to_string(*rank_) + " of " +
                              std::to_string(most));
    trace_.ranked = true;
    trace_.dump.rank = static_cast<int>(*rank_);
  }
  trace_.batches_share_numbers = true;
  std::map<const SeenGroup*, std::string> keys;
  for (const auto& [seen, description] : groups_) {
    FlightGroup group = Resolve(seen, description);
    const std::string key = ShortKey(group);
    trace_.bytes += group.ranks.size() * sizeof(int) + 2 * key.size() + sizeof group;
    if (!Bounded()) return Status::DataLoss(error_);
    keys[&seen] = key;
    if (transfer_groups_.contains(&seen)) trace_.transfer_groups.insert(key);
    trace_.dump.groups.emplace(key, std::move(group));
  }
  std::stable_sort(calls_.begin(), calls_.end(),
                   [](const Call& a, const Call& b) { return a.entry.record < b.entry.record; });
  for (Call& call : calls_) {
    FlightEntry& entry = call.entry;
    entry.group = keys.at(call.group);
    const auto kernel = kernels_.find(call.external);
    entry.completed = call.external != 0 && kernel != kernels_.end();
    if (entry.completed) entry.kernel_us = kernel->second;
    trace_.bytes += entry.group.size();
    if (!Bounded()) return Status::DataLoss(error_);
    trace_.numbered = trace_.numbered && entry.sequence >= 0;
    trace_.dump.entries.push_back(std::move(entry));
  }
  return std::move(trace_);
}

}  // namespace

StatusOr<RankTrace> ParseKinetoTrace(const Pull& pull) {
  const auto characters = std::make_unique<JsonCharacters>(pull);
  Reader reader;
  const bool parsed = Json::sax_parse(JsonIterator(characters.get()), JsonIterator(), &reader);
  if (!characters->fault().empty()) return Status::DataLoss(characters->fault());
  if (!parsed) return Status::DataLoss(reader.error());
  return reader.Finish();
}

}  // namespace gordian::importers
