// gordian doctor: says what gordian can observe on this machine, what it cannot, and why; of a
// recorded job, which of its communicators a recovery could take from NCCL.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/report/text_layout.h"
#include "cli/analyze/recorded.h"
#include "cli/doctor/doctor_checks.h"
#include "cli/doctor/recovery_outlook.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "common/utf8.h"

namespace gordian::cli {
namespace {

const char* StateName(DoctorCheck::State state) {
  switch (state) {
    case DoctorCheck::State::kOk:
      return "ok";
    case DoctorCheck::State::kNote:
      return "note";
    case DoctorCheck::State::kFailed:
      return "failed";
  }
  return "";
}

using nlohmann::ordered_json;

bool PrintEither(bool as_json, const ordered_json& json, const std::string& text) {
  return as_json ? PrintOut(json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n")
                 : PrintText(text);
}

int Doctor(bool as_json, const std::vector<std::string>& command) {
  const InstallPaths paths = FindInstallPaths();
  std::vector<DoctorCheck> checks = CheckInstallation(paths);
  for (std::vector<DoctorCheck>& more :
       std::vector<std::vector<DoctorCheck>>{CheckLoaderLibraries(), CheckMachine()}) {
    checks.insert(checks.end(), more.begin(), more.end());
  }
  if (!command.empty()) {
    const std::vector<DoctorCheck> program = CheckProgram(command[0]);
    checks.insert(checks.end(), program.begin(), program.end());
  }
  bool failed = false;
  ordered_json json;
  json["schema"] = "gordian.doctor.v1";
  json["can_observe"] = true;
  json["checks"] = ordered_json::array();
  std::string text;
  for (const DoctorCheck& check : checks) {
    failed |= check.state == DoctorCheck::State::kFailed;
    json["checks"].push_back({{"name", check.name},
                              {"state", StateName(check.state)},
                              {"detail", check.detail},
                              {"path", check.path}});
    text += fmt::format("{:<8}{:<24}{}{}\n", StateName(check.state), check.name,
                        Printable(check.detail),
                        check.path.empty() ? "" : "  [" + Printable(check.path) + "]");
  }
  json["can_observe"] = !failed;
  text += failed ? "gordian run cannot observe everything here: see the lines marked failed\n"
                 : "gordian run works here\n";
  if (!PrintEither(as_json, json, text)) return kExitUsage;
  return failed ? kExitProblem : kExitOk;
}

ordered_json OutlookToJson(const CommOutlook& comm) {
  ordered_json hindrances = ordered_json::array();
  for (const CommOutlook::Hindrance& one : comm.hindrances) {
    hindrances.push_back({{"condition", model::Name(one.condition)},
                          {"why", one.why},
                          {"operations", one.operations},
                          {"rank", one.rank},
                          {"site", one.site}});
  }
  return {{"name", comm.name},
          {"size", comm.size},
          {"ranks", comm.ranks},
          {"operations", comm.operations},
          {"in_place", comm.in_place},
          {"largest_copy_bytes", comm.copy_bytes},
          {"hindrances", std::move(hindrances)}};
}

std::string OutlookText(const CommOutlook& comm) {
  constexpr size_t kWidth = 100;
  const char* const word = comm.None() ? "no" : comm.hindrances.empty() ? "yes" : "partly";
  std::string text =
      fmt::format("{} ({}): {} operation{}", Printable(comm.name), analyzer::RankList(comm.ranks),
                  comm.operations, comm.operations == 1 ? "" : "s");
  if (comm.in_place > 0) {
    text += fmt::format(
        ", {} in place, each with a copy of up to {} (GORDIAN_RECOVERY_POOL_MB has room for all "
        "that are unfinished)",
        comm.in_place, analyzer::HumanBytes(comm.copy_bytes));
  }
  text = analyzer::Wrap(fmt::format("{:<8}", word), "        ", text, kWidth);
  for (const CommOutlook::Hindrance& one : comm.hindrances) {
    std::string line = fmt::format("{}: {}", model::Name(one.condition), Printable(one.why));
    if (one.operations > 0) line += fmt::format(", {} of these", one.operations);
    if (one.rank >= 0)
      line += fmt::format(", {}rank {}", one.operations > 1 ? "first at " : "", one.rank);
    if (!one.site.empty()) line += ", " + Printable(one.site);
    text += analyzer::Wrap("        ", "          ", line, kWidth);
  }
  return text;
}

int DoctorRecovery(bool as_json, const std::string& path) {
  RecoveryOutlook outlook;
  std::string note;
  const StatusOr<analyzer::AnalysisResult> result = AnalyzeRecorded(path, &outlook, &note);
  if (!result.ok()) {
    PrintError(result.status().message());
    return kExitUsage;
  }
  if (!note.empty()) PrintNote(note);
  ordered_json json = {{"schema", "gordian.recovery.v1"}, {"communicators", ordered_json::array()}};
  std::string text;
  size_t whole = 0;
  for (const CommOutlook& comm : outlook.communicators()) {
    json["communicators"].push_back(OutlookToJson(comm));
    text += OutlookText(comm);
    whole += comm.hindrances.empty() ? 1 : 0;
  }
  const size_t count = outlook.communicators().size();
  text += count == 0 ? "no communicator of NCCL was recorded\n"
                     : fmt::format(
                           "--on-verdict recover could take {} of {} communicator{} from "
                           "NCCL, as far as the records show\n",
                           whole, count, count == 1 ? "" : "s");
  if (!PrintEither(as_json, json, text)) return kExitUsage;
  return count == 0 ? kExitInconclusive : whole == count ? kExitOk : kExitProblem;
}

}  // namespace

void AddDoctorVerb(CLI::App& app, VerbContext* context) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* verb =
      app.add_subcommand("doctor", "Check what gordian can observe on this machine; needs no GPU");
  verb->formatter(
      std::make_shared<FixedUsage>("\nUsage: gordian doctor [OPTIONS] [-- COMMAND...]"));
  verb->add_flag("--json", *as_json, "As JSON");
  auto recorded = std::make_shared<std::string>();
  verb->add_option(
          "--recover", *recorded,
          "Say which communicators of a recorded job, whether it hung or not, --on-verdict "
          "recover could take from NCCL, and why not the others")
      ->type_name("SESSION");
  verb->footer(
      "Exit code: 0 when gordian can observe jobs here, else 1. With --recover: 0 all "
      "communicators, "
      "1 not all, 3 the records have none.\nExample: gordian doctor -- ./train");
  verb->callback([=] {
    context->chosen = [=] {
      return recorded->empty() ? Doctor(*as_json, context->command)
                               : DoctorRecovery(*as_json, *recorded);
    };
  });
}

}  // namespace gordian::cli
