#include "simulator/sweep.h"

#include <algorithm>
#include <cmath>

#include "simulator/sampling/interval.h"
#include "simulator/sampling/sites.h"
#include "simulator/text.h"

namespace gordian::simulator {
namespace {

using nlohmann::json;

constexpr size_t kMostPoints = 100000;

bool IsAxis(const json& value) {
  return value.is_object() && value.size() == 1 &&
         (value.contains("log") || value.contains("linear") || value.contains("values"));
}

std::string ReadAxis(const std::string& key, const json& axis, std::vector<json>* values) {
  if (axis.contains("values")) {
    if (!axis["values"].is_array() || axis["values"].empty()) {
      return key + ": \"values\" must be a non-empty list";
    }
    values->assign(axis["values"].begin(), axis["values"].end());
    return "";
  }
  const bool log = axis.contains("log");
  const json& range = log ? axis["log"] : axis["linear"];
  if (!range.is_array() || range.size() != 3 || !range[0].is_number() || !range[1].is_number() ||
      !range[2].is_number_integer() || range[2].get<int64_t>() < 1 ||
      range[2].get<int64_t>() > static_cast<int64_t>(kMostPoints)) {
    return key + ": a range must be [from, to, number of values]";
  }
  const auto from = range[0].get<double>();
  const auto to = range[1].get<double>();
  const auto n = range[2].get<int64_t>();
  if (log && (from <= 0 || to <= 0)) {
    return key + ": a logarithmic range must begin and end above 0";
  }
  const bool whole = range[0].is_number_integer() && range[1].is_number_integer();
  for (int64_t i = 0; i < n; ++i) {
    const double part = n == 1 ? 0 : static_cast<double>(i) / static_cast<double>(n - 1);
    const double value = i == 0       ? from
                         : i == n - 1 ? to
                         : log        ? from * std::pow(to / from, part)
                                      : from + (to - from) * part;
    values->push_back(whole ? json(std::llround(value)) : json(value));
  }
  return "";
}

struct Side {
  int64_t hits;
  Interval interval;
  double ratio;
};

Side SideOf(int64_t hits, int64_t rounds) {
  return {hits, WilsonInterval(hits, rounds),
          rounds == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(rounds)};
}

// The predicted width of the interval relative to its ratio after so many blocks.
double Width(const SweepCounts::Point& counted, bool by_default, int64_t blocks) {
  const int64_t hits = by_default ? counted.by_default : counted.exact;
  const Side side = SideOf(hits, counted.blocks * kSweepBlock);
  const double middle = std::max(side.ratio, side.interval.high / 2);
  return (side.interval.high - side.interval.low) / middle *
         std::sqrt(static_cast<double>(counted.blocks) / static_cast<double>(blocks));
}

// How many blocks the stage adds to each point. Every process computes the same.
std::vector<int64_t> PlanStage(const SweepCounts& counts, int64_t blocks_each, bool by_default) {
  const auto points = static_cast<int64_t>(counts.points.size());
  std::vector<int64_t> added(counts.points.size(), 0);
  const int64_t all = blocks_each * points;
  // The first stage spreads blocks evenly. Later ones give each block to the point that gains most.
  if (counts.stage == 0) {
    const int64_t first = std::max<int64_t>(1, blocks_each / kSweepStages);
    std::fill(added.begin(), added.end(), first);
    return added;
  }
  int64_t done = 0;
  for (const SweepCounts::Point& point : counts.points) {
    done += point.blocks;
  }
  const int64_t left = std::max<int64_t>(0, all - done);
  int64_t give = left / (kSweepStages - counts.stage);
  if (counts.stage == kSweepStages - 1) {
    give = left;
  }
  std::vector<std::pair<double, int64_t>>
      widest;  // width, and the point (negative: lower ones first)
  for (int64_t i = 0; i < points; ++i) {
    const SweepCounts::Point& point = counts.points[static_cast<size_t>(i)];
    widest.emplace_back(Width(point, by_default, point.blocks), -i);
  }
  std::make_heap(widest.begin(), widest.end());
  for (; give > 0; --give) {
    std::pop_heap(widest.begin(), widest.end());
    const auto i = static_cast<size_t>(-widest.back().second);
    ++added[i];
    widest.back().first = Width(counts.points[i], by_default, counts.points[i].blocks + added[i]);
    std::push_heap(widest.begin(), widest.end());
  }
  return added;
}

// Quotes a field by RFC 4180.
std::string InCsv(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c == '"' ? "\"\"" : std::string(1, c);
  }
  return quoted + "\"";
}

uint64_t HashOfSweep(const Sweep& sweep, const SweepOptions& options) {
  uint64_t hash = MixBits(options.seed) ^ MixBits(static_cast<uint64_t>(options.rounds)) ^
                  (options.wanted.by_default ? 1 : 0) ^ (options.wanted.exact ? 2 : 0);
  for (const SweepPoint& point : sweep.points) {
    hash = MixBits(hash + HashOf(point.config));
  }
  return hash;
}

// The first-order approximation; negative if not counted.
double FirstOrder(const Config& config) {
  Problem problem;
  if (!BuildProblem(config, true, &problem).empty()) {
    return -1;
  }
  const bool single = config.model == Model::kSingle;
  double sum = 0;
  for (const Component& c : problem.components) {
    const std::optional<uint64_t> m = single ? CountM1(c) : CountM2(c);
    if (!m || !c.common_order) {
      return -1;
    }
    sum += static_cast<double>(*m) * static_cast<double>(c.copies);
  }
  return -std::expm1(-sum * config.disorder_prob *
                     (single ? 1 : config.sync_prob * config.sync_prob));
}

}  // namespace

bool IsSweep(const json& from) {
  return from.is_array() || (from.is_object() && std::any_of(from.begin(), from.end(), IsAxis));
}

std::string ParseSweep(const json& from, Sweep* sweep) {
  *sweep = Sweep();
  if (from.is_array()) {
    sweep->keys = {"point"};
    for (size_t i = 0; i < from.size(); ++i) {
      SweepPoint point;
      point.values = {json(i)};
      const std::string problem = ParseConfig(from[i], &point.config);
      if (!problem.empty()) {
        return "point " + std::to_string(i) + ": " + problem;
      }
      sweep->points.push_back(std::move(point));
    }
    return from.empty() ? "the list holds no configuration" : "";
  }
  if (!from.is_object()) {
    return "a sweep is a list of configurations, or one with ranges";
  }
  std::vector<std::vector<json>> axes;
  size_t points = 1;
  for (const auto& [key, value] : from.items()) {
    if (!IsAxis(value)) {
      continue;
    }
    sweep->keys.push_back(key);
    axes.emplace_back();
    const std::string problem = ReadAxis(key, value, &axes.back());
    if (!problem.empty()) {
      return problem;
    }
    points *= axes.back().size();
    if (points > kMostPoints) {
      return key + ": the grid has more than " + std::to_string(kMostPoints) + " points";
    }
  }
  for (size_t i = 0; i < points; ++i) {
    json config = from;
    SweepPoint point;
    size_t rest = i;
    point.values.resize(axes.size());
    for (size_t a = axes.size(); a-- > 0;) {
      point.values[a] = axes[a][rest % axes[a].size()];
      rest /= axes[a].size();
      config[sweep->keys[a]] = point.values[a];
    }
    const std::string problem = ParseConfig(config, &point.config);
    if (!problem.empty()) {
      return "point " + std::to_string(i) + ": " + problem;
    }
    sweep->points.push_back(std::move(point));
  }
  return "";
}

std::string RunSweep(const Sweep& sweep, const SweepOptions& options, const Exchange& exchange,
                     const StageDone& stage_done, SweepCounts* counts) {
  const size_t points = sweep.points.size();
  counts->points.resize(points);
  std::vector<Problem> problems(points);
  std::vector<SamplerOptions> samplers(points);
  for (size_t c = 0; c < points; ++c) {
    const std::string problem = BuildProblem(sweep.points[c].config, true, &problems[c]);
    if (!problem.empty()) {
      return "point " + std::to_string(c) + ": " + problem;
    }
    SimulateOptions simulate;
    simulate.wanted = options.wanted;
    samplers[c] = SamplerOf(sweep.points[c].config, simulate);
  }
  const int64_t blocks_each =
      std::max<int64_t>(kSweepStages, (options.rounds + kSweepBlock - 1) / kSweepBlock);
  while (!counts->complete()) {
    const std::vector<int64_t> added = PlanStage(*counts, blocks_each, options.wanted.by_default);
    struct Item {
      size_t point;
      int64_t block;
    };
    std::vector<Item> mine;
    for (size_t c = 0; c < points; ++c) {
      for (int64_t b = counts->points[c].blocks; b < counts->points[c].blocks + added[c]; ++b) {
        if ((b + static_cast<int64_t>(c)) % options.ranks == options.rank) {
          mine.push_back({c, b});
        }
      }
    }
    std::vector<int64_t> sums(3 * points, 0);
    struct Result {
      size_t point = 0;
      PlainCounts counts;
    };
    const auto make = [&] {
      return [&](int64_t at) {
        const Item& item = mine[static_cast<size_t>(at)];
        RoundSampler sampler(problems[item.point], samplers[item.point]);
        Result result;
        result.point = item.point;
        for (int64_t r = item.block * kSweepBlock; r < (item.block + 1) * kSweepBlock; ++r) {
          const Verdicts verdicts = sampler.Round(options.seed, static_cast<uint64_t>(r));
          result.counts.by_default += verdicts.by_default ? 1 : 0;
          result.counts.exact += verdicts.exact ? 1 : 0;
          result.counts.not_exact += verdicts.by_default && !verdicts.exact ? 1 : 0;
        }
        return result;
      };
    };
    const auto all = static_cast<int64_t>(mine.size());
    const int64_t done =
        all == 0 ? 0
                 : RunBlocks<Result>(0, all, options.threads, options.stop, nullptr, make,
                                     [&](const Result& result) {
                                       sums[3 * result.point] += result.counts.by_default;
                                       sums[3 * result.point + 1] += result.counts.exact;
                                       sums[3 * result.point + 2] += result.counts.not_exact;
                                     });
    // A stage counts as a whole or not at all, in every process.
    sums.push_back(done < all ? 1 : 0);
    if (!exchange(&sums)) {
      return "another process of this sweep has died";
    }
    if (sums.back() > 0) {
      return "";
    }
    for (size_t c = 0; c < points; ++c) {
      SweepCounts::Point& point = counts->points[c];
      point.blocks += added[c];
      point.by_default += sums[3 * c];
      point.exact += sums[3 * c + 1];
      point.not_exact += sums[3 * c + 2];
    }
    ++counts->stage;
    stage_done(*counts);
  }
  return "";
}

json SweepToJson(const Sweep& sweep, const SweepOptions& options, const SweepCounts& counts) {
  json out;
  out["schema"] = "gordian.sweep.v1";
  out["keys"] = sweep.keys;
  out["seed"] = options.seed;
  out["incomplete"] = !counts.complete();
  out["points"] = json::array();
  for (size_t c = 0; c < sweep.points.size(); ++c) {
    const SweepCounts::Point& point = counts.points[c];
    const int64_t rounds = point.blocks * kSweepBlock;
    json row;
    row["values"] = sweep.points[c].values;
    row["rounds"] = rounds;
    for (const auto& [name, asked, hits] :
         {std::tuple{"default", options.wanted.by_default, point.by_default},
          {"exact", options.wanted.exact, point.exact}}) {
      if (asked) {
        const Side side = SideOf(hits, rounds);
        row[name] = {{"hits", side.hits},
                     {"ratio", side.ratio},
                     {"low", side.interval.low},
                     {"high", side.interval.high}};
      }
    }
    const double first = FirstOrder(sweep.points[c].config);
    if (first >= 0) {
      row["first_order"] = first;
    }
    out["points"].push_back(std::move(row));
  }
  return out;
}

std::string SweepToCsv(const Sweep& sweep, const SweepOptions& options, const SweepCounts& counts) {
  std::string csv;
  for (const std::string& key : sweep.keys) {
    csv += key + ",";
  }
  csv +=
      "rounds,default_hits,default_ratio,default_low,default_high,exact_hits,exact_ratio,exact_low,"
      "exact_high,first_order,complete\n";
  for (size_t c = 0; c < sweep.points.size(); ++c) {
    const SweepCounts::Point& point = counts.points[c];
    const int64_t rounds = point.blocks * kSweepBlock;
    for (const json& value : sweep.points[c].values) {
      const std::string text =
          value.is_number_float() ? Exactly(value.get<double>()) : value.dump();
      csv += InCsv(text) + ",";
    }
    csv += std::to_string(rounds);
    for (const auto& [asked, hits] : {std::pair{options.wanted.by_default, point.by_default},
                                      {options.wanted.exact, point.exact}}) {
      const Side side = SideOf(hits, rounds);
      csv += asked ? "," + std::to_string(hits) + "," + Exactly(side.ratio) + "," +
                         Exactly(side.interval.low) + "," + Exactly(side.interval.high)
                   : ",,,,";
    }
    // Counting is costly, so only at the end.
    const double first = counts.complete() ? FirstOrder(sweep.points[c].config) : -1;
    csv += "," + (first >= 0 ? Exactly(first) : "");
    csv += counts.complete() ? ",1\n" : ",0\n";
  }
  return csv;
}

json CheckpointOf(const Sweep& sweep, const SweepOptions& options, const SweepCounts& counts) {
  json out;
  out["schema"] = "gordian.sweep-checkpoint.v1";
  out["sweep"] = Hex(HashOfSweep(sweep, options));
  out["stage"] = counts.stage;
  out["stages"] = kSweepStages;
  out["incomplete"] = !counts.complete();
  out["points"] = json::array();
  for (const SweepCounts::Point& point : counts.points) {
    out["points"].push_back({point.blocks, point.by_default, point.exact, point.not_exact});
  }
  return out;
}

std::string ReadCheckpoint(const json& from, const Sweep& sweep, const SweepOptions& options,
                           SweepCounts* counts) {
  *counts = SweepCounts();
  const bool shaped = from.is_object() &&
                      from.value("schema", "") == "gordian.sweep-checkpoint.v1" &&
                      from.contains("stage") && from["stage"].is_number_integer() &&
                      from.contains("points") && from["points"].is_array();
  if (!shaped) {
    return "is no checkpoint of a sweep";
  }
  if (from.value("sweep", "") != Hex(HashOfSweep(sweep, options)) ||
      from["points"].size() != sweep.points.size()) {
    return "is of another sweep, seed, detector or number of rounds";
  }
  counts->stage = from["stage"].get<int>();
  for (const json& row : from["points"]) {
    if (!row.is_array() || row.size() != 4 ||
        !std::all_of(row.begin(), row.end(), [](const json& n) { return n.is_number_integer(); })) {
      return "is damaged";
    }
    counts->points.push_back({row[0].get<int64_t>(), row[1].get<int64_t>(), row[2].get<int64_t>(),
                              row[3].get<int64_t>()});
  }
  return counts->stage < 0 || counts->stage > kSweepStages ? "is damaged" : "";
}

}  // namespace gordian::simulator
