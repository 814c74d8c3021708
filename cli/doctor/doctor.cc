// gordian doctor: says what gordian can observe on this machine, what it cannot, and why.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/doctor/doctor_checks.h"
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
  nlohmann::ordered_json json;
  json["schema"] = "gordian.doctor.v1";
  json["can_observe"] = true;
  json["checks"] = nlohmann::ordered_json::array();
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
  using Json = nlohmann::ordered_json;
  if (!(as_json ? PrintOut(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n")
                : PrintText(text))) {
    return kExitUsage;
  }
  return failed ? kExitProblem : kExitOk;
}

}  // namespace

void AddDoctorVerb(CLI::App& app, VerbContext* context) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* verb =
      app.add_subcommand("doctor", "Check what gordian can observe on this machine; needs no GPU");
  verb->formatter(
      std::make_shared<FixedUsage>("\nUsage: gordian doctor [OPTIONS] [-- COMMAND...]"));
  verb->add_flag("--json", *as_json, "As JSON");
  verb->footer(
      "Exit code: 0 when gordian can observe jobs here, else 1.\nExample: gordian doctor -- "
      "./train");
  verb->callback([=] { context->chosen = [=] { return Doctor(*as_json, context->command); }; });
}

}  // namespace gordian::cli
