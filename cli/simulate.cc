// gordian simulate: how likely is a deadlock at given rates of disorder and synchronisation.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/config_text.h"
#include "cli/output.h"
#include "cli/simulate_output.h"
#include "cli/verbs.h"
#include "simulator/simulate.h"

namespace gordian::cli {
namespace {

namespace sim = gordian::simulator;

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
};

// Which of `words` the flag names; CLI11 has made sure that it is one.
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

int RunOne(const SimulateFlags& flags, const nlohmann::json& text) {
  sim::Config config;
  std::string wrong = sim::ParseConfig(text, &config);
  if (wrong.empty() && !flags.lists.empty() && config.lists != sim::ListOrder::kGiven) {
    config.lists =
        flags.lists == "concat" ? sim::ListOrder::kConcat : sim::ListOrder::kInterleaved;
  }
  if (!wrong.empty()) {
    PrintError(flags.config + ": " + wrong);
    return kExitUsage;
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
  if (flags.json) {
    nlohmann::json out = sim::ReportToJson(config, report);
    out["seconds"] = took;
    if (report.rounds > 0 && took > 0) {
      out["rounds_per_second"] = static_cast<double>(report.rounds) / took;
    }
    return PrintOut(out.dump(2) + "\n") ? kExitOk : kExitUsage;
  }
  return PrintOut(SimulationText(config, report, took)) ? kExitOk : kExitUsage;
}

int RunSimulate(const SimulateFlags& flags) {
  const StatusOr<nlohmann::json> text = ReadConfigFile(flags.config);
  if (!text.ok()) {
    PrintError(text.status().message());
    return kExitUsage;
  }
  return RunOne(flags, *text);
}

}  // namespace

void AddSimulateVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<SimulateFlags>();
  CLI::App* verb =
      app.add_subcommand("simulate", "How likely is a deadlock at given rates of disorder");
  verb->add_option("config", flags->config,
                   "What to simulate, JSON or TOML, with the keys of DFCCL's simulator; - is "
                   "standard input")
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
                   "As many rounds, and by such an estimator, that the 95 % interval is about +- E "
                   "of the ratio")
      ->check(CLI::Range(1e-5, 1.0))
      ->excludes(rounds)
      ->type_name("E");
  verb->add_option("--time-limit", flags->time_limit,
                   "Stop after so many seconds; what was counted is marked incomplete")
      ->check(CLI::Range(0.001, 1e9))
      ->type_name("SECONDS");
  verb->add_option("--seed", flags->seed, "The same seed, the same result (default 2023)")
      ->type_name("S");
  verb->add_option("--threads", flags->threads, "Default: all cores; the result does not depend on it")
      ->check(CLI::Range(1, 4096))
      ->type_name("T");
  verb->add_option("--lists", flags->lists,
                   "Of a GPU's groups: interleaved (the default) or concat, one behind the other")
      ->check(CLI::IsMember({"interleaved", "concat"}))
      ->type_name("NAME");
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.simulation.v1)");
  verb->footer(
      "Exit code: 0 simulated; 2 usage, or a configuration that cannot be.\n"
      "Example: gordian simulate job.json --rel-err 0.01");
  verb->callback([=] { context->chosen = [=] { return RunSimulate(*flags); }; });
}

}  // namespace gordian::cli
