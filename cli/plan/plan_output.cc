#include "cli/plan/plan_output.h"

#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/output.h"

namespace gordian::cli {
namespace {

using nlohmann::ordered_json;
using planner::Plan;

ordered_json SendsOf(const planner::Iteration& iteration) {
  ordered_json sends = ordered_json::array();
  for (const planner::Stage* stage : {&iteration.forward, &iteration.backward}) {
    for (const planner::Send& send : stage->sends) {
      sends.push_back({{"stage", stage->backward ? "backward" : "forward"},
                       {"link", send.link},
                       {"item", send.item},
                       {"generation", send.generation},
                       {"when", send.ready_in_stage ? "ready" : "begin"}});
    }
  }
  return sends;
}

ordered_json IterationsOf(const std::vector<planner::Iteration>& iterations) {
  ordered_json list = ordered_json::array();
  for (const planner::Iteration& iteration : iterations) {
    ordered_json updates = ordered_json::array();
    for (const planner::Update& update : iteration.updates) {
      updates.push_back({{"generation", update.generation},
                         {"merged", update.merged},
                         {"first_gradient", update.first_gradient}});
    }
    list.push_back({{"sends", SendsOf(iteration)}, {"updates", updates}});
  }
  return list;
}

const char* ConvergenceText(const Plan& plan) {
  switch (plan.convergence) {
    case planner::Convergence::kNotAssessed:
      return "not assessed";
    case planner::Convergence::kKept:
      return "kept";
    case planner::Convergence::kRefused:
      return "refused";
  }
  return "?";
}

ordered_json ProofJson(const planner::Proof& proof) {
  ordered_json cycle = ordered_json::array();
  for (const planner::ProofArrow& arrow : proof.cycle) {
    cycle.push_back({{"rank", arrow.rank},
                     {"waits_for_rank", arrow.waits_for_rank},
                     {"what", arrow.what},
                     {"waits_for", arrow.waits_for}});
  }
  return {{"result", proof.accepted ? "accepted" : "refused"},
          {"refusal", proof.refusal},
          {"detail", proof.detail},
          {"models", proof.models},
          {"operations", proof.operations},
          {"waits", proof.waits},
          {"iterations", proof.iterations},
          {"streams", proof.streams},
          {"cycle", cycle}};
}

std::string Format(const char* format, double a, double b = 0) {
  char text[160];
  std::snprintf(text, sizeof text, format, a, b);
  return text;
}

std::string Numbers(const std::vector<int>& numbers) {
  std::string text;
  for (const int n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

std::string StepLine(const char* name, double step, double plan) {
  char text[160];
  std::snprintf(text, sizeof text, "  %-28s %12s us", name,
                WithCommas(static_cast<uint64_t>(step + 0.5)).c_str());
  return text + (step == plan ? std::string("\n") : Format("  %6.3f x\n", step / plan));
}

// A picture of boxes on named rows, over time in microseconds.
class Timeline {
 public:
  Timeline(std::string title, std::vector<std::string> rows)
      : title_(std::move(title)), rows_(std::move(rows)) {}

  void Box(int row, double begin, double end, const std::string& label, const char* colour) {
    boxes_.push_back({row, begin, end, label, colour});
    end_ = std::max(end_, end);
  }
  void Line(double at, const std::string& label) { lines_.push_back({at, label}); }

  std::string Svg() const {
    constexpr double kWidth = 1400, kLeft = 90, kTop = 40, kRow = 34;
    const double height = kTop + kRow * static_cast<double>(rows_.size()) + 30;
    const double scale = (kWidth - kLeft - 20) / (end_ > 0 ? end_ : 1);
    std::string svg =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1400\" height=\"" +
        Format("%.0f", height) +
        "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" "
        "height=\"100%\" fill=\"white\"/>\n<text x=\"10\" y=\"20\" font-size=\"14\">" +
        title_ + "</text>\n";
    for (size_t i = 0; i < rows_.size(); ++i) {
      svg += "<text x=\"10\" y=\"" + Format("%.0f", kTop + kRow * static_cast<double>(i) + 20) +
             "\">" + rows_[i] + "</text>\n";
    }
    for (const auto& box : boxes_) {
      const double x = kLeft + box.begin * scale;
      const double width = (box.end - box.begin) * scale;
      const double y = kTop + kRow * box.row + 2;
      svg += "<rect x=\"" + Format("%.2f\" y=\"%.0f", x, y) + "\" width=\"" +
             Format("%.2f", width) + "\" height=\"28\" fill=\"" + box.colour +
             "\" stroke=\"#555\" stroke-width=\"0.4\"><title>" + box.label +
             Format(", %.0f to %.0f us", box.begin, box.end) + "</title></rect>\n";
      if (width > 6.5 * static_cast<double>(box.label.size())) {
        svg += "<text x=\"" + Format("%.2f\" y=\"%.0f", x + width / 2, y + 18) +
               "\" text-anchor=\"middle\">" + box.label + "</text>\n";
      }
    }
    for (const auto& [at, label] : lines_) {
      const double x = kLeft + at * scale;
      svg += "<line x1=\"" + Format("%.2f\" x2=\"%.2f", x, x) + "\" y1=\"30\" y2=\"" +
             Format("%.0f", height - 20) +
             "\" stroke=\"#c00\" stroke-dasharray=\"3,3\"/>\n<text x=\"" +
             Format("%.2f\" y=\"%.0f", x + 2, height - 8) + "\" fill=\"#c00\">" + label +
             "</text>\n";
    }
    return svg + "</svg>\n";
  }

 private:
  struct BoxAt {
    int row;
    double begin, end;
    std::string label;
    const char* colour;
  };
  const std::string title_;
  const std::vector<std::string> rows_;
  std::vector<BoxAt> boxes_;
  std::vector<std::pair<double, std::string>> lines_;
  double end_ = 0;
};

constexpr const char* kForward = "#cfe3f6";
constexpr const char* kBackward = "#f6e3c5";
constexpr const char* kGenerations[] = {"#a6d8a8", "#d3b8e6", "#f2b5b0", "#b7d7d9", "#e6dd9c"};

}  // namespace

std::string HashText(uint64_t hash) {
  char text[20];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash);
  return text;
}

std::string PlanJson(const Plan& plan, const PlanSource& source, const planner::Proof& proof) {
  ordered_json buckets = ordered_json::array();
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    const planner::Bucket& bucket = plan.buckets[i];
    buckets.push_back({{"forward_us", bucket.forward},
                       {"backward_us", bucket.backward},
                       {"comm_us", bucket.comm},
                       {"elements", bucket.elements}});
    if (i < source.names.size() && !source.names[i].empty()) buckets[i]["name"] = source.names[i];
  }
  ordered_json items = ordered_json::array();
  for (const planner::Item& item : plan.items) {
    items.push_back({{"bucket", item.bucket},
                     {"first_element", item.first_element},
                     {"elements", item.elements},
                     {"comm_us", item.time.comm},
                     {"slow_comm_us", item.slow_comm}});
  }
  const ordered_json document = {
      {"schema", "gordian.plan.v1"},
      {"hash", HashText(plan.hash)},
      {"inputs",
       {{"source", source.path},
        {"communicator", source.comm},
        {"iterations", source.iterations},
        {"spread", source.spread},
        {"estimated", source.estimated},
        {"links", plan.options.links},
        {"mu", plan.options.mu},
        {"epsilon", plan.options.epsilon},
        {"partition", plan.options.partition},
        {"startup_us", plan.options.startup},
        {"solver", plan.schedule.exact && plan.options.solver == planner::Solver::kExact
                       ? "exact"
                       : "greedy"},
        {"buckets", buckets}}},
      {"items", items},
      {"warm_up", IterationsOf(plan.schedule.warm_up)},
      {"period", IterationsOf(plan.schedule.period)},
      {"generations_per_period", plan.schedule.generations},
      {"merge", plan.options.merge == planner::Merge::kMean ? "mean" : "sum"},
      {"merged", plan.schedule.merged},
      {"update_frequency", plan.schedule.updates_per_iteration},
      {"staleness", {{"mean", plan.schedule.mean_staleness}, {"max", plan.schedule.max_staleness}}},
      {"convergence",
       {{"result", ConvergenceText(plan)},
        {"ratio", plan.preservation.ratio},
        {"scale", plan.scale},
        {"retries", plan.retries}}},
      {"predicted",
       {{"step_us", plan.schedule.step},
        {"fill", plan.schedule.fill},
        {"wfbp_us", plan.wfbp},
        {"priority_us", plan.priority},
        {"priority_chunked_us", plan.priority_chunked},
        {"priority_bound_us", plan.priority_bound}}},
      {"proof", ProofJson(proof)}};
  return document.dump(1) + "\n";
}

std::string PlanText(const Plan& plan, const PlanSource& source, const planner::Proof& proof,
                     bool baselines) {
  const planner::Totals totals = planner::Sum(plan.buckets);
  std::string text =
      "gordian: plan " + HashText(plan.hash) + ": " + std::to_string(plan.buckets.size()) +
      " buckets in " + std::to_string(plan.items.size()) + " items over " +
      std::to_string(plan.options.links) + (plan.options.links == 1 ? " link\n" : " links\n");
  if (source.iterations > 0) {
    text += "  times from " + std::to_string(source.iterations) + " iterations on " + source.comm +
            Format(", widest spread %.1f %%\n", 100 * source.spread);
  }
  for (const std::string& what : source.estimated) text += "  estimated: " + what + "\n";
  text += Format("  coverage rate %.3f: forward and backward ", totals.CoverageRate()) +
          WithCommas(static_cast<uint64_t>(totals.forward + totals.backward)) +
          " us, communication " + WithCommas(static_cast<uint64_t>(totals.comm)) + " us\n";
  if (plan.items.size() > plan.buckets.size() && plan.options.startup == 0) {
    text +=
        "  each further item counts as free; an all-reduce of few bytes takes time too: --startup "
        "US\n";
  }
  if (!plan.schedule.exact)
    text += "  a stage was too large for the exact solver, so the greedy one planned it\n";
  text += "step\n" + StepLine("this plan", plan.schedule.step, plan.schedule.step) +
          StepLine("WFBP", static_cast<double>(plan.wfbp), plan.schedule.step);
  if (baselines) {
    text += StepLine("priority, whole buckets", static_cast<double>(plan.priority),
                     plan.schedule.step) +
            StepLine("priority, chunks", static_cast<double>(plan.priority_chunked),
                     plan.schedule.step) +
            StepLine("bound of priority orders", static_cast<double>(plan.priority_bound),
                     plan.schedule.step);
  }
  text += Format("updates   %.3f an iteration", plan.schedule.updates_per_iteration) +
          ", merged gradients " + Numbers(plan.schedule.merged) +
          Format("; staleness %.2f iterations, at most %.0f\n", plan.schedule.mean_staleness,
                 plan.schedule.max_staleness);
  text += std::string("convergence ") + ConvergenceText(plan);
  if (plan.convergence != planner::Convergence::kNotAssessed) {
    text += Format(": ratio of expected losses %.4f, stages stretched %.3f times",
                   plan.preservation.ratio, plan.scale);
  } else {
    text += " (no --loss)";
  }
  text += "\n";
  if (proof.accepted) {
    text += "proof     free of deadlock: " + WithCommas(proof.operations) + " operations and " +
            WithCommas(proof.waits) + " waits over " + std::to_string(proof.iterations) +
            " iterations, ";
    for (size_t i = 0; i < proof.models.size(); ++i) text += (i == 0 ? "" : ", ") + proof.models[i];
    text += source.comm.empty() ? "; the plan alone, as the input is no session\n"
                                : "; together with all recorded calls of the session\n";
  }
  return text;
}

std::string RefusalText(const planner::Proof& proof) {
  std::string text = "no plan: ";
  if (proof.refusal == "cycle") {
    text += "it would deadlock with the job's other communicators";
  } else if (proof.refusal == "mismatch") {
    text += "the ranks would not call the same operations: " + proof.detail;
  } else {
    text += proof.refusal + ": " + proof.detail;
  }
  text += "\n";
  for (const planner::ProofArrow& arrow : proof.cycle) {
    text += "  rank " + std::to_string(arrow.rank) + ": " + arrow.what + "\n    waits for rank " +
            std::to_string(arrow.waits_for_rank) + ": " + arrow.waits_for + "\n";
  }
  return text;
}

std::string PlanSvg(const Plan& plan) {
  std::vector<std::string> rows = {"compute", "link 1"};
  if (plan.options.links == 2) rows.push_back("link 2");
  Timeline timeline(
      "plan " + HashText(plan.hash) + ", " + std::to_string(plan.schedule.warm_up.size()) +
          " iterations of warm-up, period " + std::to_string(plan.schedule.period.size()),
      rows);
  const size_t iterations = plan.schedule.warm_up.size() + plan.schedule.period.size();
  double now = 0;
  for (size_t t = 0; t < iterations; ++t) {
    const planner::PlannedIteration at = planner::At(plan.schedule, static_cast<int64_t>(t));
    for (const planner::Stage* stage : {&at.shape->forward, &at.shape->backward}) {
      timeline.Box(0, now, now + static_cast<double>(stage->compute),
                   (stage->backward ? "B" : "F") + std::to_string(t),
                   stage->backward ? kBackward : kForward);
      for (const planner::Send& send : stage->sends) {
        const int64_t generation = send.generation + at.generation_offset;
        timeline.Box(
            send.link, now + static_cast<double>(send.begin), now + static_cast<double>(send.end),
            std::to_string(plan.items[send.item].bucket) + " g" + std::to_string(generation),
            kGenerations[generation % 5]);
      }
      now += static_cast<double>(stage->length);
    }
    for (const planner::Update& update : at.shape->updates) {
      timeline.Line(now, "update g" + std::to_string(update.generation + at.generation_offset));
    }
  }
  return timeline.Svg();
}

std::string BaselineSvg(const Plan& plan, const planner::Baseline& baseline,
                        const std::string& title) {
  Timeline timeline(title + ", step " + std::to_string(baseline.step) + " us", {"compute", "link"});
  double now = 0;
  for (size_t i = plan.buckets.size(); i-- > 0;) {
    timeline.Box(0, now, now + static_cast<double>(plan.buckets[i].backward),
                 "B" + std::to_string(i + 1), kBackward);
    now += static_cast<double>(plan.buckets[i].backward);
  }
  for (const planner::Span& span : baseline.forwards) {
    timeline.Box(0, static_cast<double>(span.begin), static_cast<double>(span.end),
                 "F" + std::to_string(span.item), kForward);
  }
  for (const planner::Span& span : baseline.sends) {
    timeline.Box(1, static_cast<double>(span.begin), static_cast<double>(span.end),
                 std::to_string(span.item), kGenerations[span.item % 5]);
  }
  return timeline.Svg();
}

}  // namespace gordian::cli
