// gordian simulate: estimates how likely a deadlock is at given rates of disorder and
// synchronisation.
#include "simulator/simulate.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/config_text.h"
#include "cli/output.h"
#include "cli/simulate/simulate_output.h"
#include "cli/simulate/simulate_sweep.h"
#include "cli/simulate/simulate_trace.h"
#include "cli/verbs.h"
#include "simulator/engine/witness.h"
#include "simulator/sweep.h"

namespace gordian::cli {
namespace {

namespace sim = gordian::simulator;

constexpr int64_t kSweepRounds = 65536;  // of a point

struct SimulateFlags {
  std::string config;
  std::string engine = "auto";
  std::string detector = "both";
  std::string lists;
  int64_t capacity = 0;
  int64_t rounds = 0;
  double relative_error = 0;
  double time_limit = 0;
  uint64_t seed = 2023;
  int threads = 0;
  bool json = false;
  int64_t witnesses = 0;
  bool from_trace = false;
  double disorder_prob = -1;
  double sync_prob = -1;
  std::string model;
  bool print_config = false;
  bool mpi = false;
  SweepFiles files;
};

// Returns the engine named `word`; CLI11 has checked the word.
std::optional<sim::Engine> EngineOf(const std::string& word) {
  const std::map<std::string, sim::Engine> engines{{"replay", sim::Engine::kReplay},
                                                   {"event", sim::Engine::kEvent},
                                                   {"fixpoint", sim::Engine::kFixpoint},
                                                   {"sparse", sim::Engine::kSparse},
                                                   {"dense", sim::Engine::kDense}};
  const auto at = engines.find(word);
  return at == engines.end() ? std::nullopt : std::optional(at->second);
}

sim::SimulateOptions OptionsOf(const SimulateFlags& flags) {
  sim::SimulateOptions options;
  options.engine = EngineOf(flags.engine);
  options.wanted = {flags.detector != "exact", flags.detector != "default"};
  options.capacity = static_cast<uint32_t>(flags.capacity);
  options.rounds = flags.rounds;
  options.relative_error = flags.relative_error;
  options.seed = flags.seed;
  options.control.threads =
      flags.threads > 0 ? flags.threads
                        : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return options;
}

int RunOne(const SimulateFlags& flags, const sim::Config& given, std::string wrong,
           const std::vector<std::string>& notes) {
  sim::Config config = given;
  if (wrong.empty() && !flags.lists.empty() && config.lists != sim::ListOrder::kGiven) {
    config.lists = flags.lists == "concat" ? sim::ListOrder::kConcat : sim::ListOrder::kInterleaved;
  }
  if (!wrong.empty()) {
    PrintError(flags.config + ": " + wrong);
    return kExitUsage;
  }
  if (flags.print_config) {
    return PrintOut(sim::ConfigToJson(config).dump() + "\n") ? kExitOk : kExitUsage;
  }
  sim::SimulateOptions options = OptionsOf(flags);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  if (flags.time_limit > 0) {
    options.control.stop = [&] { return seconds() > flags.time_limit; };
  }
  ProgressLine line(STDERR_FILENO);
  options.control.progress = [&](int64_t done, int64_t all) { line.Show(done, all, seconds()); };
  sim::SimulateReport report;
  wrong = sim::Simulate(config, options, &report);
  line.Clear();
  if (!wrong.empty()) {
    PrintError(flags.config + ": " + wrong);
    return kExitUsage;
  }
  const double took = seconds();
  std::vector<sim::Witness> witnesses;
  if (flags.witnesses > 0) {
    const int64_t within = std::max<int64_t>(report.rounds, 1000000);
    witnesses = sim::FindWitnesses(config, options, flags.witnesses, within);
  }
  if (flags.json) {
    nlohmann::json out = sim::ReportToJson(config, report);
    out["seconds"] = took;
    if (report.rounds > 0 && took > 0) {
      out["rounds_per_second"] = static_cast<double>(report.rounds) / took;
    }
    if (!notes.empty()) {
      out["notes"] = notes;
    }
    for (const sim::Witness& witness : witnesses) {
      out["witnesses"].push_back(sim::WitnessToJson(witness));
    }
    return PrintOut(out.dump(2) + "\n") ? kExitOk : kExitUsage;
  }
  std::string said = SimulationText(config, report, took);
  for (const std::string& note : notes) {
    said += note + "\n";
  }
  for (const sim::Witness& witness : witnesses) {
    said += sim::WitnessToJson(witness).dump() + "\n";
  }
  return PrintOut(said) ? kExitOk : kExitUsage;
}

int RunTraced(const SimulateFlags& flags) {
  StatusOr<TracedJob> job = JobFromTrace(flags.config);
  if (!job.ok()) {
    PrintError(job.status().message());
    return kExitUsage;
  }
  if (flags.disorder_prob < 0) {
    PrintError(
        "--from-trace needs --disorder-prob P: how often a process calls another collective "
        "than the next in order (try 1e-4)");
    return kExitUsage;
  }
  sim::Config& config = job->config;
  config.model = flags.model == "Single" ? sim::Model::kSingle : sim::Model::kStreamWithSync;
  config.disorder_prob = flags.disorder_prob;
  config.sync_prob = std::max(0.0, flags.sync_prob);
  return RunOne(flags, config, sim::CheckConfig(config), job->notes);
}

int RunSimulate(const SimulateFlags& flags) {
  if (flags.mpi && !OwnRanks().exchange) {
    return BecomeMpiProgram();
  }
  if (flags.files.resume && flags.files.checkpoint.empty()) {
    PrintError("--resume needs --checkpoint FILE");
    return kExitUsage;
  }
  if (flags.from_trace) {
    return RunTraced(flags);
  }
  const StatusOr<nlohmann::json> text = ReadConfigFile(flags.config);
  if (!text.ok()) {
    PrintError(text.status().message());
    return kExitUsage;
  }
  if (sim::IsSweep(*text)) {
    sim::SweepOptions options;
    const sim::SimulateOptions one = OptionsOf(flags);
    options.wanted = one.wanted;
    options.rounds = flags.rounds > 0 ? flags.rounds : kSweepRounds;
    options.seed = flags.seed;
    options.threads = one.control.threads;
    const auto begin = std::chrono::steady_clock::now();
    if (flags.time_limit > 0) {
      options.stop = [&flags, begin] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() >
               flags.time_limit;
      };
    }
    SweepFiles files = flags.files;
    files.json = flags.json;
    return RunSweepCommand(flags.config, *text, options, files);
  }
  if (flags.mpi || !flags.files.csv.empty() || !flags.files.svg.empty() ||
      !flags.files.checkpoint.empty()) {
    PrintError(flags.config +
               ": --mpi, --csv, --svg and --checkpoint are for sweeps: a list of "
               "configurations, or one with a range such as \"disorder_prob\": {\"log\": [1e-5, "
               "1e-3, 9]}");
    return kExitUsage;
  }
  sim::Config config;
  const std::string wrong = sim::ParseConfig(*text, &config);
  return RunOne(flags, config, wrong, {});
}

}  // namespace

void AddSimulateVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* verb = app.add_subcommand(
      "simulate", "Estimate how likely a deadlock is at given rates of disorder");
  verb->add_option("config", flags->config,
                   "Configuration, JSON or TOML, with the keys of DFCCL's simulator; a list of "
                   "configurations, or one with ranges, is a sweep; - is standard input. With "
                   "--from-trace: a "
                   "session or a trace")
      ->required()
      ->type_name("CONFIG");
  verb->add_option("--engine", flags->engine,
                   "auto, replay (CPython's random stream, verdict by verdict as the published "
                   "program), event, sparse, fixpoint or dense")
      ->check(CLI::IsMember({"auto", "replay", "event", "fixpoint", "sparse", "dense"}))
      ->type_name("NAME");
  verb->add_option("--detector", flags->detector,
                   "default (the published one), exact, or both (the default)")
      ->check(CLI::IsMember({"default", "exact", "both"}))
      ->type_name("NAME");
  verb->add_option("--capacity", flags->capacity,
                   "Exact: how many collectives a GPU can have started and incomplete")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->type_name("R");
  auto* rounds = verb->add_option("--rounds", flags->rounds, "Rounds (default: what CONFIG says)")
                     ->check(CLI::Range(int64_t{1}, int64_t{1} << 50))
                     ->type_name("N");
  verb->add_option("--rel-err", flags->relative_error,
                   "Choose rounds and estimator so that the 95 % interval is about +- E "
                   "of the ratio")
      ->check(CLI::Range(1e-5, 1.0))
      ->excludes(rounds)
      ->type_name("E");
  verb->add_option("--time-limit", flags->time_limit,
                   "Stop after so many seconds, and mark the result incomplete")
      ->check(CLI::Range(0.001, 1e9))
      ->type_name("SECONDS");
  verb->add_option("--seed", flags->seed,
                   "Seed; the same seed gives the same result (default 2023)")
      ->type_name("S");
  verb->add_option("--threads", flags->threads,
                   "Threads (default: all cores); the result does not depend on it")
      ->check(CLI::Range(1, 4096))
      ->type_name("T");
  verb->add_option(
          "--lists", flags->lists,
          "Order of a GPU's groups: interleaved (default), or concat: one group after the other")
      ->check(CLI::IsMember({"interleaved", "concat"}))
      ->type_name("NAME");
  verb->add_option("--witness", flags->witnesses,
                   "Write out what each GPU does in K rounds that deadlock, and in K that only the "
                   "published "
                   "detector calls deadlocks")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}))
      ->type_name("K");
  auto* traced = verb->add_flag("--from-trace", flags->from_trace,
                                "Take groups, counts and order from a recorded job");
  verb->add_option("--disorder-prob", flags->disorder_prob, "With --from-trace")
      ->check(CLI::Range(0.0, 1.0))
      ->needs(traced)
      ->type_name("P");
  verb->add_option("--sync-prob", flags->sync_prob, "With --from-trace")
      ->check(CLI::Range(0.0, 1.0))
      ->needs(traced)
      ->type_name("Q");
  verb->add_option("--model", flags->model,
                   "With --from-trace: Single, or StreamWithSync (default)")
      ->check(CLI::IsMember({"Single", "StreamWithSync"}))
      ->needs(traced)
      ->type_name("NAME");
  verb->add_flag("--print-config", flags->print_config,
                 "Print the configuration, and do not simulate");
  verb->add_option("--csv", flags->files.csv,
                   "For a sweep: write the table to this file, not to standard output")
      ->type_name("FILE");
  verb->add_option("--svg", flags->files.svg, "For a sweep: draw a picture")->type_name("FILE");
  verb->add_option("--checkpoint", flags->files.checkpoint,
                   "For a sweep: save the counts to this file after each stage")
      ->type_name("FILE");
  verb->add_flag("--resume", flags->files.resume, "Continue from the checkpoint");
  verb->add_flag("--mpi", flags->mpi,
                 "For a sweep: share the work with the other processes of mpirun");
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.simulation.v1, gordian.sweep.v1)");
  verb->footer(
      "Exit code: 0 simulated; 2 usage, or an invalid configuration; 3 a sweep that is not "
      "complete.\n"
      "Example: gordian simulate job.json --rel-err 0.01");
  verb->callback([=] { context->chosen = [=] { return RunSimulate(*flags); }; });
}

}  // namespace gordian::cli
