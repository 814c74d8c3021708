// gordian checks: lists the checks and the known kinds of hangs.
#include <unistd.h>

#include <memory>

#include "analyzer/report/check_text.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace gordian::cli {
namespace {

struct ChecksFlags {
  std::string id;
  bool json = false;
};

int Show(const ChecksFlags& flags) {
  if (flags.json) return PrintOut(analyzer::CatalogueJson()) ? kExitOk : kExitUsage;
  if (flags.id.empty()) return PrintOut(analyzer::CheckList()) ? kExitOk : kExitUsage;
  const model::Check* const check = model::FindCheck(flags.id);
  if (check == nullptr) {
    PrintError("there is no check '" + flags.id + "' (try: gordian checks)");
    return kExitUsage;
  }
  return PrintOut(analyzer::CheckText(*check, TerminalWidth(STDOUT_FILENO))) ? kExitOk : kExitUsage;
}

}  // namespace

void AddChecksVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ChecksFlags>();
  CLI::App* verb = app.add_subcommand("checks", "List the checks, or describe one of them");
  verb->add_option("check", flags->id, "The id that a verdict names under `check`")
      ->type_name("CHECK");
  verb->add_flag("--json", flags->json,
                 "All checks and the 49 known kinds of hangs (schema gordian.checks.v1)");
  verb->footer("Example: gordian checks host-wait-cycle");
  verb->callback([=] { context->chosen = [=] { return Show(*flags); }; });
}

}  // namespace gordian::cli
