// gordian explore: all orders that the threads of a recorded run are free to call in, within
// bounds, and the deadlocks among them.
#include "cli/explore.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/end_signal.h"
#include "cli/explore_checkpoint.h"
#include "cli/known_predictions.h"
#include "cli/late_progress.h"
#include "cli/orders_options.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/predict_text.h"
#include "cli/predicted_programs.h"
#include "cli/prediction_sarif.h"
#include "cli/verbs.h"
#include "replayer/predict/explore.h"
#include "replayer/record/extract.h"

namespace gordian::cli {
namespace {

using Clock = std::chrono::steady_clock;
using replayer::Prediction;
using replayer::Predictions;
using replayer::RecordedOrders;
using replayer::WindowState;

constexpr char kSchema[] = "gordian.explore.v1";
constexpr char kStem[] = "explored";  // of programs

struct ExploreFlags {
  std::string path;
  std::string output;
  std::string checkpoint;
  double checkpoint_every_s = 10;
  std::vector<std::string> assume;
  replayer::OrdersOptions orders;
  FindingsOptions findings;
  std::optional<size_t> preemptions, depth;
  std::optional<double> time_limit_s;
  size_t max_states = 1'000'000;
  size_t jobs = std::max(1u, std::thread::hardware_concurrency());
  int verify = 0;
  bool json = false;
};

std::string SchedulePath(const std::string& folder, size_t number) {
  return folder + "/" + kStem + "-" + std::to_string(number + 1) + ".json";
}

struct Explored {
  Predictions predictions;
  std::vector<ProgramRuns> verified;
  explore::ExploreCounts counts;
  size_t open = 0;      // states left
  std::string stopped;  // by which bound: "time", "states"; empty: by none
};

class Exploration {
 public:
  explicit Exploration(const ExploreFlags& flags) : flags_(flags), progress_(flags.json) {}

  Status Run(Explored* explored) {
    checkpoint_.bounds = {.preemptions = flags_.preemptions,
                          .depth = flags_.depth,
                          .window = flags_.orders.window,
                          .max_calls = flags_.orders.max_calls,
                          .threads_ordered = flags_.orders.threads_ordered};
    if (!flags_.checkpoint.empty()) {
      StatusOr<std::optional<ExploreCheckpoint>> read =
          ReadCheckpoint(flags_.checkpoint, checkpoint_.bounds);
      GORDIAN_RETURN_IF_ERROR(read.status());
      if (*read) checkpoint_ = std::move(**read);
      StatusOr<OutputFile> file = OutputFile::Open(flags_.checkpoint);
      GORDIAN_RETURN_IF_ERROR(file.status());
      checkpoint_file_ = std::move(*file);
    }
    Status failed;
    const Status read =
        replayer::ReadOrders(flags_.path, {}, flags_.orders, [&](RecordedOrders&& orders) {
          failed = Window(orders, explored);
          return failed.ok() && explored->stopped.empty() && EndSignal() == 0;
        });
    GORDIAN_RETURN_IF_ERROR(read);
    GORDIAN_RETURN_IF_ERROR(failed);
    if (window_ < checkpoint_.windows.size() && explored->stopped.empty() && EndSignal() == 0)
      return OtherTrace("it was made of more calls than these");
    GORDIAN_RETURN_IF_ERROR(Keep());
    if (EndSignal() != 0) return Status::Ok();
    GORDIAN_RETURN_IF_ERROR(
        WritePrograms({.folder = flags_.output,
                       .stem = kStem,
                       .verify = flags_.verify,
                       .stopped = [] { return EndSignal() != 0; },
                       .say = [&](const std::string& text) { progress_.Say(text); }},
                      &explored->predictions, &explored->verified));
    return WriteSchedules(explored->predictions.predicted);
  }

 private:
  Status Window(const RecordedOrders& orders, Explored* explored) {
    const size_t before = explored->counts.states;
    if (before >= flags_.max_states) {
      explored->stopped = "states";
      explored->predictions.complete = false;
      return Status::Ok();
    }
    if (window_ == checkpoint_.windows.size()) checkpoint_.windows.emplace_back();
    WindowState state = checkpoint_.windows[window_];
    Status written;
    replayer::OrderSearchOptions options{.max_preemptions = flags_.preemptions,
                                         .max_calls = flags_.depth,
                                         .max_states = flags_.max_states - before,
                                         .for_each = replayer::ByThreads(flags_.jobs)};
    options.on_batch = [&](const replayer::ExploreProgress& now,
                           const std::function<WindowState()>& save) {
      Show(before, now);
      if (OutOfTime()) explored->stopped = "time";
      if (checkpoint_file_ && SecondsSince(last_checkpoint_) >= flags_.checkpoint_every_s) {
        checkpoint_.windows[window_] = save();
        written = Keep();
        last_checkpoint_ = Clock::now();
      }
      return written.ok() && explored->stopped.empty() && EndSignal() == 0;
    };
    StatusOr<Predictions> window = replayer::ExploreWindow(orders, options, &state);
    if (!window.ok()) return OtherTrace(window.status().message());
    GORDIAN_RETURN_IF_ERROR(written);
    if (state.done) explored->stopped.clear();
    if (!state.done && explored->stopped.empty() && EndSignal() == 0) explored->stopped = "states";
    const explore::ExploreCounts& counts = state.frontier.counts;
    explored->counts.states += counts.states;
    explored->counts.ends += counts.ends;
    explored->counts.merged += counts.merged;
    explored->counts.asleep += counts.asleep;
    explored->counts.cut += counts.cut;
    explored->open += state.frontier.open.size();
    checkpoint_.windows[window_] = std::move(state);
    ++window_;
    replayer::Merge(std::move(*window), orders.free, &explored->predictions);
    return Status::Ok();
  }

  // Beside each program.
  Status WriteSchedules(const std::vector<Prediction>& found) const {
    if (flags_.output.empty()) return Status::Ok();
    for (size_t i = 0; i < found.size(); ++i)
      GORDIAN_RETURN_IF_ERROR(WriteOutput(
          SchedulePath(flags_.output, i),
          ScheduleJson(found[i]).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
              "\n"));
    return Status::Ok();
  }

  Status OtherTrace(const std::string& why) const {
    return Status::InvalidArgument(flags_.checkpoint + " is of another trace: " + why +
                                   "; give another file");
  }

  Status Keep() const {
    return checkpoint_file_ ? checkpoint_file_->Write(CheckpointText(checkpoint_)) : Status::Ok();
  }

  static double SecondsSince(Clock::time_point when) {
    return std::chrono::duration<double>(Clock::now() - when).count();
  }

  bool OutOfTime() const {
    return flags_.time_limit_s && SecondsSince(began_) >= *flags_.time_limit_s;
  }

  void Show(size_t before, const replayer::ExploreProgress& now) {
    const double seconds = SecondsSince(began_);
    if (!first_) first_ = now.counts.Schedules();
    const double made = static_cast<double>(now.counts.Schedules() - *first_);
    progress_.Say(WithCommas(before + now.counts.states) + " states, " +
                  WithCommas(static_cast<uint64_t>(std::lround(made / std::max(seconds, 1e-3)))) +
                  " schedules a second, " + WithCommas(now.open) + " states to go on from, " +
                  std::to_string(now.found) + " deadlocks found");
  }

  const ExploreFlags& flags_;
  LateProgress progress_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point last_checkpoint_ = began_;
  std::optional<OutputFile> checkpoint_file_;
  ExploreCheckpoint checkpoint_;
  size_t window_ = 0;
  std::optional<size_t> first_;  // schedules that a checkpoint began with
};

nlohmann::ordered_json BoundJson(const std::optional<size_t>& bound) {
  return bound ? nlohmann::ordered_json(*bound) : nlohmann::ordered_json();
}

nlohmann::ordered_json FindingJson(const Prediction& prediction) {
  nlohmann::ordered_json json = PredictionJson(prediction);
  json["preemptions"] = BoundJson(prediction.preemptions);
  json["schedule"] = ScheduleJson(prediction);
  return json;
}

bool PrintJson(const ExploreFlags& flags, const Explored& explored, const KnownPredictions& known) {
  const Predictions& predictions = explored.predictions;
  nlohmann::ordered_json json = {
      {"schema", kSchema},
      {"judged", predictions.judged},
      {"complete", predictions.complete},
      {"assumed", flags.assume},
      {"bounds",
       {{"preemptions", BoundJson(flags.preemptions)},
        {"depth", BoundJson(flags.depth)},
        {"states", flags.max_states}}},
      {"stopped_by", explored.stopped},
      {"calls", {{"judged", predictions.calls}, {"left_out", predictions.left_out}}},
      {"tried",
       {{"states", explored.counts.states},
        {"schedules", explored.counts.Schedules()},
        {"ends", explored.counts.ends},
        {"cut", explored.counts.cut},
        {"open", explored.open}}},
      {"found", nlohmann::ordered_json::array()},
      {"unconfirmed", nlohmann::ordered_json::array()},
      {"not_judged", predictions.not_judged}};
  for (size_t i = 0; i < predictions.predicted.size(); ++i) {
    nlohmann::ordered_json& found = json["found"].emplace_back();
    found = FindingJson(predictions.predicted[i]);
    if (known.given()) found["known"] = known.Has(predictions.predicted[i]);
    if (!flags.output.empty()) found["program"] = ProgramPath(flags.output, kStem, i);
    if (i < explored.verified.size())
      found["verified"] = {{"runs", explored.verified[i].runs},
                           {"same", explored.verified[i].same}};
  }
  for (const Prediction& prediction : predictions.unconfirmed) {
    json["unconfirmed"].push_back(FindingJson(prediction));
    json["unconfirmed"].back()["why"] = prediction.doubt;
  }
  return PrintOut(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

// "no order with at most 2 preemptions".
std::string OrdersTried(const ExploreFlags& flags, const Explored& explored) {
  if (explored.predictions.complete) return "no order";
  std::string text = "no tried order";
  if (!explored.stopped.empty()) return text;
  if (flags.preemptions)
    text += " with at most " + std::to_string(*flags.preemptions) + " preemptions";
  if (flags.depth)
    text += (flags.preemptions ? " and " : " with at most ") + WithCommas(*flags.depth) + " calls";
  return text;
}

bool PrintFindings(const ExploreFlags& flags, const Explored& explored,
                   const KnownPredictions& known) {
  const Predictions& predictions = explored.predictions;
  std::string text;
  for (size_t i = 0; i < predictions.predicted.size(); ++i) {
    const Prediction& found = predictions.predicted[i];
    text += known.Has(found) ? "DEADLOCK (possible, known): " : "DEADLOCK (possible): ";
    text += SummaryText(found) + "\n" + PredictionText(found);
    if (found.preemptions) text += "  with " + WithCommas(*found.preemptions) + " preemptions\n";
    text += ProgramText(flags.output.empty() ? "" : ProgramPath(flags.output, kStem, i), i,
                        explored.verified);
  }
  if (!predictions.predicted.empty()) text += RestsOnText(replayer::Freedom::kThreadsUnordered);
  for (const Prediction& prediction : predictions.unconfirmed)
    text += "not confirmed: " + prediction.doubt + "\n" + PredictionText(prediction) + "\n";
  if (predictions.predicted.empty())
    text += predictions.unconfirmed.empty()
                ? "no deadlock found: " + OrdersTried(flags, explored) + " of " +
                      WithCommas(predictions.calls) + " calls of " + WithCommas(predictions.ranks) +
                      " ranks leads to one\n"
                : "no deadlock found that is confirmed\n";
  text += "tried: " + WithCommas(explored.counts.Schedules()) + " schedules, " +
          WithCommas(explored.counts.states) + " states";
  if (explored.counts.cut > 0)
    text += ", " + WithCommas(explored.counts.cut) + " schedules cut off by a bound";
  text += "\n";
  if (!explored.stopped.empty())
    text += "stopped by " +
            std::string(explored.stopped == "time" ? "--time-limit" : "--max-states") + ": " +
            WithCommas(explored.open) + " states were left to go on from" +
            (flags.checkpoint.empty() ? "" : ", as " + flags.checkpoint + " does") + "\n";
  return PrintText(text + NotJudgedText(predictions));
}

int Run(ExploreFlags flags) {
  flags.orders.threads_ordered =
      std::find(flags.assume.begin(), flags.assume.end(),
                TextOf(replayer::Freedom::kThreadsUnordered).assume) != flags.assume.end();
  const StatusOr<KnownPredictions> known = KnownPredictions::Read(flags.findings.baseline);
  if (!known.ok()) {
    PrintError(known.status().message());
    return kExitUsage;
  }
  Explored explored;
  const Predictions& predictions = explored.predictions;
  Status status = Exploration(flags).Run(&explored);
  if (status.ok() && EndSignal() != 0) return 128 + EndSignal();
  if (status.ok()) status = WriteSarif(flags.findings.sarif, predictions, *known);
  if (!status.ok()) {
    PrintError(status.message());
    return kExitUsage;
  }
  if (flags.json) {
    if (!PrintJson(flags, explored, *known)) return kExitUsage;
  } else if (predictions.judged) {
    if (!PrintFindings(flags, explored, *known)) return kExitUsage;
  } else {
    for (const std::string& reason : predictions.not_judged) PrintError("not judged: " + reason);
  }
  if (!predictions.judged) return kExitInconclusive;
  return known->HasAll(predictions.predicted) ? kExitOk : kExitProblem;
}

}  // namespace

void AddExploreVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ExploreFlags>();
  CLI::App* verb = app.add_subcommand(
      "explore", "Try all orders of a recorded run's threads, within bounds, for deadlocks");
  verb->add_option("path", flags->path, "A session, or a .gtrace file")
      ->required()
      ->type_name("PATH");
  verb->add_option("--preemptions", flags->preemptions,
                   "Try orders in which threads lose their turn to others so many times at most")
      ->type_name("N");
  verb->add_option("--depth", flags->depth, "Follow no order beyond so many calls of all ranks")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  verb->add_option("--time-limit", flags->time_limit_s, "Stop after so many seconds")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  verb->add_option("--max-states", flags->max_states, "Stop after so many states")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  verb->add_option("--jobs", flags->jobs,
                   "So many threads, as many as there are processors if it is not given; the "
                   "results do not depend on it")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  CLI::Option* const checkpoint =
      verb->add_option("--checkpoint", flags->checkpoint,
                       "Write there as it goes and at the end how far it came; go on from there if "
                       "the file exists")
          ->type_name("FILE");
  verb->add_option("--checkpoint-every", flags->checkpoint_every_s,
                   "Write it so many seconds after the last time")
      ->needs(checkpoint)
      ->type_name("SECONDS")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option(
          "--assume", flags->assume,
          "threads-ordered: a rank's threads always make their calls in the recorded order")
      ->check(CLI::IsMember({TextOf(replayer::Freedom::kThreadsUnordered).assume}))
      ->type_name("WHAT");
  CLI::Option* const output =
      verb->add_option(
              "-o,--output", flags->output,
              "Folder for programs, one a deadlock, that force it, and their schedules as JSON")
          ->type_name("DIR");
  verb->add_option("--verify", flags->verify,
                   "Compile each program and run it so many times under the emulator: a deadlock "
                   "whose program does not hang each time is not confirmed")
      ->needs(output)
      ->type_name("RUNS")
      ->check(CLI::Range(1, 1000));
  AddFindingsOptions(verb, &flags->findings);
  AddOrdersOptions(verb, &flags->orders);
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.explore.v1)");
  verb->footer(
      "Exit code: 0 no deadlock found; 1 a deadlock found; 2 unreadable input; 3 not judged; the "
      "reason is printed.\n"
      "Example: gordian explore latest --preemptions 2 -o explored --verify 2");
  verb->callback([=] {
    context->chosen = [=] {
      TakeEndSignals(SecondSignal::kEnds);
      return Run(*flags);
    };
  });
}

}  // namespace gordian::cli
