// gordian checks: what can be found, and what of the known kinds of hangs.
#include <unistd.h>

#include <memory>

#include "analyzer/server/check_text.h"
#include "cli/output.h"
#include "cli/verbs.h"

namespace gordian::cli {
namespace {

struct ChecksFlags {
  std::string id;
  bool json = false;
};

int Show(const ChecksFlags& flags) {
  if (flags.json) return PrintOut(server::CatalogueJson()) ? kExitOk : kExitUsage;
  if (flags.id.empty()) return PrintOut(server::CheckList()) ? kExitOk : kExitUsage;
  const graph::Check* const check = graph::FindCheck(flags.id);
  if (check == nullptr) {
    PrintError("there is no check '" + flags.id + "' (try: gordian checks)");
    return kExitUsage;
  }
  return PrintOut(server::CheckText(*check, TerminalWidth(STDOUT_FILENO))) ? kExitOk : kExitUsage;
}

}  // namespace

void AddChecksVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ChecksFlags>();
  CLI::App* verb = app.add_subcommand("checks", "List what can be found, or say all of one check");
  verb->add_option("check", flags->id, "The id that a verdict names under `check`")
      ->type_name("CHECK");
  verb->add_flag("--json", flags->json,
                 "All checks and the 49 known kinds of hangs (schema gordian.checks.v1)");
  verb->footer("Example: gordian checks host-wait-cycle");
  verb->callback([=] { context->chosen = [=] { return Show(*flags); }; });
}

}  // namespace gordian::cli
