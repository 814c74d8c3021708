// gordian predict: deadlocks that a recorded run did not meet, and another order of its threads
// would.
#include "replayer/predict/predict.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/analyze/recorded.h"
#include "cli/end_signal.h"
#include "cli/known_predictions.h"
#include "cli/late_progress.h"
#include "cli/orders_options.h"
#include "cli/output.h"
#include "cli/predict_text.h"
#include "cli/predicted_programs.h"
#include "cli/prediction_sarif.h"
#include "cli/verbs.h"
#include "common/status.h"
#include "replayer/predict/recorded_orders.h"
#include "replayer/record/extract.h"

namespace gordian::cli {
namespace {

using replayer::Freedom;
using replayer::Prediction;
using replayer::Predictions;
using replayer::RecordedOrders;

constexpr char kSchema[] = "gordian.predict.v1";
constexpr char kStem[] = "predicted";  // of programs
constexpr size_t kMostCalls = 10'000'000;

struct PredictFlags {
  std::string path;
  std::string output;
  std::vector<std::string> assume;
  replayer::OrdersOptions orders;
  replayer::PredictOptions predict;
  int verify = 0;
  FindingsOptions findings;
  bool json = false;
};

std::string ProgressText(const replayer::PredictProgress& now) {
  std::string text =
      std::to_string(now.tried) + " of " + std::to_string(now.candidates) + " candidates tried";
  if (now.states > 0) text += ", " + WithCommas(now.states) + " states searched";
  return text + ", " + std::to_string(now.found) + " deadlocks found";
}

bool PrintJson(const PredictFlags& flags, const Predictions& predictions,
               const std::vector<ProgramRuns>& verified, const KnownPredictions& known) {
  nlohmann::ordered_json json = {
      {"schema", kSchema},
      {"judged", predictions.judged},
      {"complete", predictions.complete},
      {"assumed", flags.assume},
      {"calls", {{"judged", predictions.calls}, {"left_out", predictions.left_out}}},
      {"predicted", nlohmann::ordered_json::array()},
      {"unconfirmed", nlohmann::ordered_json::array()},
      {"not_judged", predictions.not_judged}};
  for (size_t i = 0; i < predictions.predicted.size(); ++i) {
    json["predicted"].push_back(PredictionJson(predictions.predicted[i]));
    if (known.given()) json["predicted"].back()["known"] = known.Has(predictions.predicted[i]);
    if (!flags.output.empty())
      json["predicted"].back()["program"] = ProgramPath(flags.output, kStem, i);
    if (i < verified.size())
      json["predicted"].back()["verified"] = {{"runs", verified[i].runs},
                                              {"same", verified[i].same}};
  }
  for (const Prediction& prediction : predictions.unconfirmed) {
    json["unconfirmed"].push_back(PredictionJson(prediction));
    json["unconfirmed"].back()["why"] = prediction.doubt;
  }
  return PrintOut(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

bool PrintFindings(const PredictFlags& flags, const Predictions& predictions,
                   const std::vector<ProgramRuns>& verified, const KnownPredictions& known) {
  std::string text;
  for (size_t i = 0; i < predictions.predicted.size(); ++i) {
    const Prediction& prediction = predictions.predicted[i];
    text += prediction.freedom == Freedom::kReadinessOrdered ? "MISMATCH" : "DEADLOCK";
    text += known.Has(prediction) ? " (predicted, known): " : " (predicted): ";
    text += SummaryText(prediction) + "\n" + PredictionText(prediction);
    text +=
        ProgramText(flags.output.empty() ? "" : ProgramPath(flags.output, kStem, i), i, verified);
  }
  for (const Freedom freedom : {Freedom::kThreadsUnordered, Freedom::kReadinessOrdered}) {
    if (std::any_of(predictions.predicted.begin(), predictions.predicted.end(),
                    [&](const Prediction& found) { return found.freedom == freedom; }))
      text += RestsOnText(freedom);
  }
  for (const Prediction& prediction : predictions.unconfirmed) {
    text += "not confirmed: " + prediction.doubt + "\n" + PredictionText(prediction) + "\n";
  }
  if (predictions.predicted.empty() && !predictions.unconfirmed.empty()) {
    text += "no deadlock predicted that is confirmed\n";
  } else if (predictions.predicted.empty()) {
    text += std::string("no deadlock predicted: ") +
            (predictions.complete ? "no order" : "no tried order") + " of " +
            WithCommas(predictions.calls) + " calls of " + WithCommas(predictions.ranks) +
            " ranks leads to one\n";
  }
  return PrintText(text + NotJudgedText(predictions));
}

// Why the orders of calls at a path cannot be judged, whatever they are. "": they can.
StatusOr<std::string> NotJudged(const std::string& path) {
  const StatusOr<RecordedBy> who = WhoRecorded(path);
  GORDIAN_RETURN_IF_ERROR(who.status());
  if (*who == RecordedBy::kGordian) return std::string();
  return path + " holds " + FilesOf(*who) +
         ", which do not show what orders the calls of a rank (threads, streams, host waits): "
         "record the job with gordian run";
}

int Run(PredictFlags flags) {
  const auto assumed = [&](Freedom freedom) {
    return std::find(flags.assume.begin(), flags.assume.end(), TextOf(freedom).assume) !=
           flags.assume.end();
  };
  flags.orders.threads_ordered = assumed(Freedom::kThreadsUnordered);
  flags.orders.buckets_ordered = assumed(Freedom::kReadinessOrdered);
  const StatusOr<KnownPredictions> known = KnownPredictions::Read(flags.findings.baseline);
  if (!known.ok()) {
    PrintError(known.status().message());
    return kExitUsage;
  }
  Predictions predictions;
  std::vector<ProgramRuns> verified;
  Status status;
  {
    LateProgress progress(flags.json);
    flags.predict.progress = [&](const replayer::PredictProgress& now) {
      progress.Say(ProgressText(now));
      return EndSignal() == 0;
    };
    const StatusOr<std::string> not_judged = NotJudged(flags.path);
    status = not_judged.status();
    const bool judges = status.ok() && not_judged->empty();
    if (status.ok() && !judges) predictions.not_judged.push_back(*not_judged);
    if (judges) {
      replayer::JobPredictor predictor(flags.predict);
      flags.orders.knows = [&](size_t window) { return predictor.Knows(window); };
      status = replayer::ReadOrders(flags.path, {}, flags.orders, [&](RecordedOrders&& orders) {
        predictor.Take(orders);
        progress.Say(WithCommas(predictor.predictions().calls) + " calls judged");
        return EndSignal() == 0;
      });
      predictions = predictor.Release();
    }
    if (judges && status.ok() && EndSignal() == 0)
      status = WritePrograms({.folder = flags.output,
                              .stem = kStem,
                              .verify = flags.verify,
                              .stopped = [] { return EndSignal() != 0; },
                              .say = [&](const std::string& text) { progress.Say(text); }},
                             &predictions, &verified);
  }
  if (EndSignal() != 0) return 128 + EndSignal();
  if (!status.ok()) {
    PrintError(status.message());
    return kExitUsage;
  }
  if (const Status written = WriteSarif(flags.findings.sarif, predictions, *known); !written.ok()) {
    PrintError(written.message());
    return kExitUsage;
  }
  if (flags.json) {
    if (!PrintJson(flags, predictions, verified, *known)) return kExitUsage;
  } else if (predictions.judged) {
    if (!PrintFindings(flags, predictions, verified, *known)) return kExitUsage;
  } else {
    for (const std::string& reason : predictions.not_judged) PrintError("not judged: " + reason);
  }
  if (!predictions.judged) return kExitInconclusive;
  return known->HasAll(predictions.predicted) ? kExitOk : kExitProblem;
}

}  // namespace

void AddPredictVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<PredictFlags>();
  CLI::App* verb = app.add_subcommand(
      "predict", "Find deadlocks that a recorded run did not meet, in other orders of its threads");
  verb->add_option("path", flags->path, "A session, or a .gtrace file")
      ->required()
      ->type_name("PATH");
  verb->add_option(
          "--assume", flags->assume,
          "threads-ordered: a rank's threads always make their calls in the recorded order; "
          "buckets-ordered: so do the lines that GORDIAN_READINESS_ORDERED names")
      ->check(CLI::IsMember(
          {TextOf(Freedom::kThreadsUnordered).assume, TextOf(Freedom::kReadinessOrdered).assume}))
      ->type_name("WHAT");
  CLI::Option* const output =
      verb->add_option("-o,--output", flags->output,
                       "Folder for programs, one a prediction, that force the deadlock")
          ->type_name("DIR");
  verb->add_option("--verify", flags->verify,
                   "Compile each program and run it so many times under the emulator: a prediction "
                   "whose program does not hang each time is not confirmed")
      ->needs(output)
      ->type_name("RUNS")
      ->check(CLI::Range(1, 1000));
  AddFindingsOptions(verb, &flags->findings);
  flags->orders.max_calls = kMostCalls;
  AddOrdersOptions(verb, &flags->orders);
  verb->add_option("--max-states", flags->predict.max_states,
                   "Search so many states for candidates that are not reached at once")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000'000))
      ->capture_default_str();
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.predict.v1)");
  verb->footer(
      "Exit code: 0 none predicted; 1 a deadlock predicted; 2 unreadable input; 3 not judged; the "
      "reason is printed.\n"
      "Example: gordian predict latest -o predicted --verify 2");
  verb->callback([=] {
    context->chosen = [=] {
      TakeEndSignals(SecondSignal::kEnds);
      return Run(*flags);
    };
  });
}

}  // namespace gordian::cli
