// gordian plan: makes communication schedules that are fast and proven free of deadlock.
#include "planner/schedule/plan.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/analyze/recorded.h"
#include "cli/output.h"
#include "cli/output_file.h"
#include "cli/plan/plan_collectives.h"
#include "cli/plan/plan_input.h"
#include "cli/plan/plan_output.h"
#include "cli/verbs.h"
#include "planner/proof/proof.h"
#include "planner/session_profile.h"

namespace gordian::cli {
namespace {

struct PlanFlags {
  std::string path;
  planner::PlanOptions options;
  planner::ProfileOptions profile;
  std::string solver = "exact";
  std::string merge = "sum";
  std::vector<double> loss;
  std::string times;    // a table instead of the session's times
  std::string output;   // plan.json
  std::string witness;  // a refused schedule
  std::string svg;      // folder
  std::string inject;
  int resident = 0;
  int ranks = 2;
  bool baselines = false;
  bool json = false;
  bool collectives = false;  // a report instead of a plan
  std::string samples;
};

bool WriteFile(const std::string& path, const std::string& text) {
  const Status status = WriteOutput(path, text);
  if (!status.ok()) PrintError(status.message());
  return status.ok();
}

int Fail(const std::string& why) {
  PrintError(why);
  return kExitUsage;
}

// The input of the planner, and the recorded calls that the proof includes.
struct Inputs {
  std::vector<planner::Bucket> buckets;               // agreed by all ranks
  std::vector<std::vector<planner::Bucket>> by_rank;  // what each rank would have used
  PlanSource source;
  std::optional<RecordedJob> job;
  std::optional<planner::BucketCalls> calls;
  int ranks = 2;
};

// Prints errors and then returns nothing.
std::optional<Inputs> Gather(const PlanFlags& flags) {
  Inputs inputs;
  inputs.ranks = flags.ranks;
  std::string table = flags.times;
  if (table.empty() && LooksLikeTable(flags.path)) table = flags.path;
  if (table != flags.path) {
    StatusOr<RecordedJob> job = ReadRecordedJob(flags.path);
    if (!job.ok()) {
      PrintError(job.status().message());
      return std::nullopt;
    }
    if (!job->note.empty()) PrintNote(job->note);
    std::string error;
    inputs.job = std::move(*job);
    inputs.calls = planner::FindBuckets(inputs.job->trace, flags.profile, &error);
    if (!inputs.calls) {
      PrintError(flags.path + ": " + error);
      return std::nullopt;
    }
    inputs.source.comm =
        planner::NameOf(inputs.job->trace.comms()[inputs.calls->comm], inputs.calls->comm);
  }
  inputs.source.path = flags.path;
  if (!table.empty()) {
    StatusOr<BucketTable> read = ReadBucketTable(table);
    if (!read.ok()) {
      PrintError(read.status().message());
      return std::nullopt;
    }
    inputs.by_rank = read->by_rank;
    inputs.source.names = read->names;
    inputs.buckets = AgreeOnTimes(read->by_rank);
    if (read->per_rank) inputs.ranks = static_cast<int>(read->by_rank.size());
    if (inputs.calls && inputs.calls->buckets != static_cast<int>(inputs.buckets.size())) {
      PrintError(table + " has " + std::to_string(inputs.buckets.size()) +
                 " buckets, the session " + std::to_string(inputs.calls->buckets));
      return std::nullopt;
    }
    return inputs;
  }
  std::string error;
  std::vector<planner::RankTimes> ranks;
  const std::optional<planner::SessionProfile> profile =
      planner::Profile(inputs.job->trace, *inputs.calls, flags.profile, &error, &ranks);
  if (!profile) {
    PrintError(flags.path + ": " + error + " (or give the times: --times FILE)");
    return std::nullopt;
  }
  inputs.buckets = profile->buckets;
  inputs.source.iterations = profile->iterations;
  inputs.source.spread = profile->spread;
  inputs.source.estimated = profile->estimated;
  for (const planner::RankTimes& rank : ranks) {
    std::vector<planner::Bucket> own = profile->buckets;
    for (size_t i = 0; i < own.size(); ++i) {
      own[i].backward = rank.backward[i];
      own[i].comm = rank.comm[i];
    }
    inputs.by_rank.push_back(std::move(own));
  }
  return inputs;
}

planner::Proof ProveFor(const PlanFlags& flags, const Inputs& inputs,
                        const std::vector<const planner::Plan*>& plans) {
  planner::ProofInput input{.plans = plans, .ranks = inputs.ranks, .resident = flags.resident};
  if (inputs.job) {
    input.trace = &inputs.job->trace;
    input.calls = &*inputs.calls;
  }
  return planner::Prove(input);
}

// Writes the plan of each rank's own times. Such plans hang when they differ: this shows that they
// do.
int InjectRankLocal(const PlanFlags& flags, const Inputs& inputs) {
  if (inputs.by_rank.size() < 2)
    return Fail(
        "--inject rank-local needs the times of two or more ranks; give a table with \"ranks\"");
  std::vector<planner::Plan> plans;
  for (size_t r = 0; r < inputs.by_rank.size(); ++r) {
    std::string error;
    std::optional<planner::Plan> plan = planner::MakePlan(inputs.by_rank[r], flags.options, &error);
    if (!plan) return Fail("rank " + std::to_string(r) + ": " + error);
    plans.push_back(std::move(*plan));
  }
  std::vector<const planner::Plan*> pointers;
  for (const planner::Plan& plan : plans) pointers.push_back(&plan);
  const planner::Proof proof = ProveFor(flags, inputs, pointers);
  std::string text;
  for (size_t a = 0; a < plans.size(); ++a) {
    for (size_t b = a + 1; b < plans.size(); ++b) {
      if (plans[a].hash == plans[b].hash) continue;
      text += "plans differ: rank " + std::to_string(a) + " has " + HashText(plans[a].hash) +
              ", rank " + std::to_string(b) + " has " + HashText(plans[b].hash) + "\n";
    }
  }
  if (text.empty()) text = "all ranks have the same plan\n";
  if (!proof.accepted) text += RefusalText(proof);
  const std::string prefix = flags.output.empty() ? flags.witness : flags.output;
  for (size_t r = 0; !prefix.empty() && r < plans.size(); ++r) {
    if (!WriteFile(prefix + ".rank" + std::to_string(r),
                   PlanJson(plans[r], inputs.source, proof))) {
      return kExitUsage;
    }
  }
  return PrintText(text) ? (proof.accepted ? kExitOk : kExitProblem) : kExitUsage;
}

bool WritePictures(const std::string& path, const planner::Plan& plan) {
  const StatusOr<OwnedFolder> folder = OutputFolder(path);
  Status status = folder.status();
  const auto write = [&](const char* name, const std::string& picture) {
    if (status.ok()) status = folder->ReplaceFile(name, picture, kOutputMode);
  };
  write("plan.svg", PlanSvg(plan));
  write("wfbp.svg", BaselineSvg(plan, planner::Wfbp(plan.buckets), "WFBP"));
  write("priority.svg",
        BaselineSvg(plan, planner::Priority(plan.buckets, plan.chunk, plan.options.startup),
                    "priority, chunks"));
  if (!status.ok()) PrintError(status.message());
  return status.ok();
}

// Refuses traces of other tools by name: a table of buckets is JSON, too, and they are none.
// *profiler: the path holds those of PyTorch's profiler, which say how long collectives took.
Status RefuseTraces(const PlanFlags& flags, bool* profiler) {
  const StatusOr<RecordedBy> who = WhoRecorded(flags.path);
  GORDIAN_RETURN_IF_ERROR(who.status());
  *profiler = flags.collectives && *who == RecordedBy::kKineto;
  if (*profiler || (*who != RecordedBy::kKineto && *who != RecordedBy::kExecution &&
                    *who != RecordedBy::kChakra))
    return Status::Ok();
  return Status::InvalidArgument(
      flags.path + " holds " + FilesOf(*who) + ", " +
      (flags.collectives
           ? "whose times gordian does not read: name a session of gordian run, or traces of "
             "PyTorch's profiler"
           : "which do not show when the buckets of a step were ready: record the job with "
             "gordian run, or give a table of times"));
}

int RunPlan(PlanFlags flags) {
  bool profiler = false;
  if (const Status status = RefuseTraces(flags, &profiler); !status.ok())
    return Fail(status.message());
  if (flags.collectives) {
    return RunCollectives(
        {.path = flags.path, .profiler = profiler, .samples = flags.samples, .json = flags.json});
  }
  flags.options.solver =
      flags.solver == "greedy" ? planner::Solver::kGreedy : planner::Solver::kExact;
  flags.options.merge = flags.merge == "mean" ? planner::Merge::kMean : planner::Merge::kSum;
  if (!flags.loss.empty()) {
    flags.options.walk = planner::LossWalk{.loss = flags.loss[0],
                                           .least = flags.loss[1],
                                           .rate = flags.loss[2],
                                           .drift = flags.loss[3],
                                           .deviation = flags.loss[4],
                                           .batch = flags.loss[5]};
    if (!(flags.loss[5] > 0) || !(flags.loss[4] >= 0) || !(flags.loss[0] >= flags.loss[1])) {
      return Fail(
          "--loss: the batch must be above 0, sigma not negative, the loss not below its minimum "
          "value");
    }
  }
  const std::optional<Inputs> inputs = Gather(flags);
  if (!inputs) return kExitUsage;
  if (!flags.inject.empty()) return InjectRankLocal(flags, *inputs);
  std::string error;
  const std::optional<planner::Plan> plan =
      planner::MakePlan(inputs->buckets, flags.options, &error);
  if (!plan) return Fail(error);
  planner::Proof proof = ProveFor(flags, *inputs, {&*plan});
  if (proof.accepted && plan->convergence == planner::Convergence::kRefused) {
    proof.accepted = false;
    proof.refusal = "convergence";
    proof.detail = "the expected loss deviates by more than epsilon after " +
                   std::to_string(plan->retries) + " retries";
  }
  if (!proof.accepted) {
    if (!flags.witness.empty() &&
        !WriteFile(flags.witness, PlanJson(*plan, inputs->source, proof))) {
      return kExitUsage;
    }
    const bool out = flags.json ? PrintOut(PlanJson(*plan, inputs->source, proof))
                                : PrintText(RefusalText(proof));
    return out ? kExitProblem : kExitUsage;
  }
  if (!flags.output.empty() && !WriteFile(flags.output, PlanJson(*plan, inputs->source, proof))) {
    return kExitUsage;
  }
  if (!flags.svg.empty() && !WritePictures(flags.svg, *plan)) return kExitUsage;
  const bool out = flags.json ? PrintOut(PlanJson(*plan, inputs->source, proof))
                              : PrintText(PlanText(*plan, inputs->source, proof, flags.baselines));
  return out ? kExitOk : kExitUsage;
}

}  // namespace

void AddPlanVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* verb = app.add_subcommand(
      "plan", "Plan gradient all-reduces that overlap computation, proven free of deadlock");
  verb->add_option("path", flags->path,
                   "A session, a .gtrace file, a table of buckets (JSON, CSV), or, with "
                   "--collectives, traces of PyTorch's profiler, one a rank")
      ->required()
      ->type_name("PATH");
  verb->add_option("--links", flags->options.links, "Links to send over (1)")
      ->check(CLI::Range(1, 2));
  verb->add_option("--mu", flags->options.mu,
                   "Time on the second link, as a multiple of that on the first (1.65)");
  verb->add_option("--epsilon", flags->options.epsilon,
                   "How far the expected loss may deviate (0.01)");
  verb->add_option("--partition", flags->options.partition, "Largest piece, in elements (no limit)")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--startup", flags->options.startup,
                   "What an all-reduce takes whatever its size, in us: the price of each piece (0)")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--solver", flags->solver, "exact or greedy (exact)")
      ->check(CLI::IsMember({"exact", "greedy"}));
  verb->add_option("--scale", flags->options.scale,
                   "How many times its computation a stage may last (1)");
  verb->add_option("--loss", flags->loss, "s S* eta mu sigma batch: assess convergence")
      ->expected(6);
  verb->add_option("--merge", flags->merge, "Whether merged gradients are a sum or a mean (sum)")
      ->check(CLI::IsMember({"sum", "mean"}));
  verb->add_option("--times", flags->times, "Use the times of this table, not the session's")
      ->type_name("FILE");
  verb->add_option("--comm", flags->profile.comm,
                   "The data-parallel communicator (default: the one that all-reduces most bytes)")
      ->type_name("NAME");
  verb->add_option("--buckets", flags->profile.buckets,
                   "All-reduces in an iteration (default: found from repeating sizes)")
      ->check(CLI::Range(0, 4096));
  verb->add_option("--resident", flags->resident,
                   "Collectives that a GPU can run at once (default: those of all streams)")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--ranks", flags->ranks, "Number of ranks when the input is a table (2)")
      ->check(CLI::Range(2, 64));
  verb->add_flag("--baselines", flags->baselines,
                 "Also print the schedules that gordian compares with");
  verb->add_option("-o,--output", flags->output, "Write plan.json here")->type_name("FILE");
  verb->add_option("--svg", flags->svg, "Draw a timeline of each schedule")->type_name("FOLDER");
  verb->add_option("--witness", flags->witness,
                   "Write a refused schedule to this file, to watch it hang")
      ->type_name("FILE");
  verb->add_option("--inject", flags->inject,
                   "rank-local: plan each rank by its own times, to watch it hang")
      ->check(CLI::IsMember({"rank-local"}));
  verb->add_flag("--collectives", flags->collectives,
                 "Print no plan but how long each collective took, and how long it should take");
  verb->add_option("--samples", flags->samples,
                   "With --collectives: fit the cost model to this file (CSV: plan,ranks,bytes,us)")
      ->type_name("FILE");
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.plan.v1)");
  verb->footer(
      "Exit code: 0 a plan; 1 refused, with the reason; 2 unreadable input.\n"
      "Example: gordian plan latest --links 2 --baselines -o plan.json");
  verb->callback([=] {
    context->needs = Needs{};
    context->chosen = [=] { return RunPlan(*flags); };
  });
}

}  // namespace gordian::cli
