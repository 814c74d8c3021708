#include "cli/plan/plan_collectives.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "analyzer/model/verdict/names.h"
#include "cli/output.h"
#include "cli/plan/plan_input.h"
#include "cli/plan/traced_collectives.h"
#include "cli/verbs.h"
#include "planner/collective_report.h"

namespace gordian::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kShown = 3;  // plans beside the measured time

// The collectives of a session, or of traces of PyTorch's profiler.
struct Measured {
  std::vector<std::string> comms;  // names, by number
  std::function<std::vector<planner::CollectiveRow>(const planner::Expectation&)> report;
  std::string unknown;  // why the time of some is
  std::string none;     // said where there is none
};

StatusOr<Measured> OfSession(const std::string& path) {
  StatusOr<RecordedJob> job = ReadRecordedJob(path);
  GORDIAN_RETURN_IF_ERROR(job.status());
  if (!job->note.empty()) PrintNote(job->note);
  const auto held = std::make_shared<const RecordedJob>(std::move(*job));
  Measured measured;
  for (size_t i = 0; i < held->trace.comms().size(); ++i)
    measured.comms.push_back(planner::NameOf(held->trace.comms()[i], static_cast<int>(i)));
  measured.report = [held](const planner::Expectation& expected) {
    return planner::ReportCollectives(held->trace, held->one_clock, expected);
  };
  measured.unknown = "no host wait shows when it ended";
  measured.none = "the session holds no collective";
  return measured;
}

StatusOr<Measured> OfTraces(const std::string& path) {
  StatusOr<TracedCollectives> traced = ReadTracedCollectives(path);
  GORDIAN_RETURN_IF_ERROR(traced.status());
  if (!traced->note.empty()) PrintNote(traced->note);
  Measured measured;
  measured.comms = std::move(traced->comms);
  measured.report = [timed = std::move(traced->collectives)](const planner::Expectation& expected) {
    return planner::ReportTimed(timed, expected);
  };
  measured.unknown = "not every member's trace holds its kernel";
  measured.none = "the traces hold no collective that the cost model knows of";
  return measured;
}

std::string Us(double us) {
  char text[32];
  std::snprintf(text, sizeof text, us < 100 ? "%.1f us" : "%.0f us", us);
  return text;
}

ordered_json JsonOf(const planner::CollectiveRow& row, const Measured& measured) {
  ordered_json plans = ordered_json::array();
  for (size_t i = 0; i < std::min(kShown, row.candidates.size()); ++i) {
    plans.push_back({{"plan", planner::Name(row.candidates[i])}, {"us", row.candidates[i].time}});
  }
  return {{"communicator", measured.comms[static_cast<size_t>(row.comm)]},
          {"operation", model::Name(row.call)},
          {"ranks", row.ranks},
          {"bytes", row.bytes},
          {"instances", row.instances},
          {"measured", row.measured},
          {"median_us", row.median_us},
          {"best_us", row.best_us},
          {"worst_us", row.worst_us},
          {"late_rank", row.late_rank},
          {"late_times", row.late_times},
          {"late_us", row.late_us},
          {"modelled", row.modelled},
          {"plans", plans}};
}

std::string TextOf(const planner::CollectiveRow& row, const Measured& measured) {
  std::string text =
      std::string(model::Name(row.call)) + " on " + measured.comms[static_cast<size_t>(row.comm)] +
      ", " + std::to_string(row.ranks) + " ranks, " + WithCommas(static_cast<uint64_t>(row.bytes)) +
      " bytes, " + std::to_string(row.instances) + " times\n";
  if (row.measured == 0) {
    text += "  measured  unknown: " + measured.unknown + "\n";
  } else {
    text += "  measured  " + Us(row.median_us) + " (" + Us(row.best_us) + " to " +
            Us(row.worst_us) + ", " + std::to_string(row.measured) + " of them)\n";
  }
  if (row.late_rank >= 0) {
    text += "  last      rank " + std::to_string(row.late_rank) + " in " +
            std::to_string(row.late_times) + ", by " + Us(row.late_us) + "\n";
  }
  if (!row.modelled) return text + "  expected  not modelled\n";
  if (row.candidates.empty())
    return text + "  expected  unknown: no samples of such a collective\n";
  for (size_t i = 0; i < std::min(kShown, row.candidates.size()); ++i) {
    text += (i == 0 ? "  expected  " : "            ") + Us(row.candidates[i].time) + "  " +
            planner::Name(row.candidates[i]) + "\n";
  }
  return text;
}

}  // namespace

int RunCollectives(const CollectivesFlags& flags) {
  const StatusOr<Measured> measured = flags.profiler ? OfTraces(flags.path) : OfSession(flags.path);
  if (!measured.ok()) {
    PrintError(measured.status().message());
    return kExitUsage;
  }
  std::vector<planner::CostSample> samples;
  if (!flags.samples.empty()) {
    StatusOr<std::vector<planner::CostSample>> read = ReadCostSamples(flags.samples);
    if (!read.ok()) {
      PrintError(read.status().message());
      return kExitUsage;
    }
    samples = std::move(*read);
  } else {
    samples = planner::SamplesOf(measured->report({}));
  }
  const planner::CostFit fit = planner::FitCost(samples, flags.launch_us);
  const planner::MachineCost cost{.flat = fit.cost};
  const bool fitted = fit.cost.beta > 0;
  const std::vector<planner::CollectiveRow> rows = measured->report(
      {.cost = fitted ? &cost : nullptr, .samples = flags.samples.empty() ? nullptr : &samples});
  if (flags.json) {
    ordered_json list = ordered_json::array();
    for (const planner::CollectiveRow& row : rows) list.push_back(JsonOf(row, *measured));
    const ordered_json document = {{"schema", "gordian.collectives.v1"},
                                   {"cost",
                                    {{"alpha_us", fit.cost.alpha},
                                     {"beta_us_per_byte", fit.cost.beta},
                                     {"kappa", fit.cost.kappa},
                                     {"launch_us", fit.cost.launch},
                                     {"samples", fit.used},
                                     {"worst_error", fit.worst_error},
                                     {"missing", fit.missing}}},
                                   {"collectives", list}};
    return PrintOut(document.dump(1) + "\n") ? kExitOk : kExitUsage;
  }
  std::string text;
  if (fitted) {
    char line[160];
    std::snprintf(line, sizeof line,
                  "cost of %d samples: alpha %.2f us, %.2f GB/s, kappa %.2f; worst error %.0f %%\n",
                  fit.used, fit.cost.alpha, 1e-3 / fit.cost.beta, fit.cost.kappa,
                  100 * fit.worst_error);
    text += line;
  }
  if (!fit.missing.empty()) text += "no cost for: " + fit.missing + "\n";
  for (const planner::CollectiveRow& row : rows) text += TextOf(row, *measured);
  if (rows.empty()) text += measured->none + "\n";
  return PrintText(text) ? kExitOk : kExitUsage;
}

}  // namespace gordian::cli
