#include "cli/command_line.h"

#include <exception>
#include <string>
#include <vector>

#include "cli/output.h"
#include "cli/settings_file.h"
#include "common/log.h"
#include "common/version.h"

namespace gordian::cli {
namespace {

// Replaces CLI11's wording for the usual typing errors by one line.
std::string ExplainParseError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = &app;
  for (const CLI::App* verb : app.get_subcommands()) {
    at = verb;
  }
  const std::string name = at == &app ? "gordian" : "gordian " + at->get_name();
  std::string what = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
      (at == &app && !app.remaining().empty())) {
    const std::vector<std::string> extras =
        at->remaining().empty() ? app.remaining() : at->remaining();
    const std::string first = extras.empty() ? "" : extras.front();
    if (first.starts_with("-")) {
      what = name + " has no option '" + first + "'";
    } else if (at == &app) {
      what = "there is no verb '" + first + "'";
    } else {
      what = name + " does not take '" + first + "'";
    }
  } else if (at == &app && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    what = "a verb is missing";
  }
  // These say what to try themselves.
  if (dynamic_cast<const CLI::ConfigError*>(&error) != nullptr) return what;
  const std::string file =
      app.get_config_ptr() == nullptr ? "" : app.get_config_ptr()->as<std::string>();
  return what + " (try: " + name + " --help" +
         (file.empty() ? ")" : "; settings come from " + file + ", too)");
}

int Dispatch(int argc, char** argv, std::span<const AddVerb> verbs,
             const MakeRunPage& make_run_page) {
  SilenceLog();
  VerbContext context;
  context.make_run_page = make_run_page;

  // Everything after the first "--" belongs to the job.
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--") {
      context.has_command_mark = true;
      context.command.assign(argv + i + 1, argv + argc);
      break;
    }
    arguments.emplace_back(argv[i]);
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // for CLI11

  CLI::App app("Finds and proves deadlocks in multi-GPU NCCL jobs, without changes to the job.",
               "gordian");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("gordian ") + kVersion);
  app.footer("Example: gordian run -- ./train --steps 100");
  AddSettingsFile(&app);
  for (const AddVerb add : verbs) add(app, &context);

  try {
    app.parse(reversed);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    PrintError(ExplainParseError(app, error));
    return kExitUsage;
  }
  if (context.needs) (void)KeepOnly(*context.needs);  // where that is refused, the verb works on
  return context.chosen();
}

}  // namespace

int Main(int argc, char** argv, std::span<const AddVerb> verbs, const MakeRunPage& make_run_page) {
  try {
    return Dispatch(argc, argv, verbs, make_run_page);
  } catch (const std::exception& error) {
    PrintError(std::string("internal error: ") + error.what());
    return kExitOwnFailure;
  }
}

}  // namespace gordian::cli
