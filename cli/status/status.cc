// gordian status: prints what every rank and communicator of a job is doing, live or recorded.
#include <unistd.h>

#include <memory>

#include "cli/output.h"
#include "cli/status/status_source.h"
#include "cli/status/status_view.h"
#include "cli/verbs.h"

namespace gordian::cli {
namespace {

struct Flags {
  StatusFlags from;
  bool json = false;
};

int ShowStatus(const Flags& flags) {
  StatusOr<StatusSource> source = StatusSource::Open(flags.from);
  if (!source.ok()) {
    PrintError(source.status().message() + " (try: gordian status --help)");
    return kExitUsage;
  }
  const StatusOr<SeenStatus> seen = source->Look();
  if (!seen.ok()) {
    PrintError(seen.status().message());
    return kExitUsage;
  }
  if (!seen->note.empty()) {
    PrintNote(seen->note);
  }
  const std::string text =
      flags.json
          ? seen->status.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                "\n"
          : StatusScreen(seen->status, {.color = WantsColor(STDOUT_FILENO),
                                        .width = TerminalWidth(STDOUT_FILENO),
                                        .title = source->title()});
  return PrintOut(text) ? ExitCodeOfJobStatus(seen->status) : kExitUsage;
}

}  // namespace

void AddStatusVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<Flags>();
  CLI::App* verb = app.add_subcommand(
      "status", "Show what each rank and communicator is doing, or did when the job ended");
  AddStatusOptions(verb, &flags->from);
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.status.v1)");
  verb->footer(std::string(kStatusExitCodes) + "Example: gordian status latest --json | jq .ranks");
  verb->callback([=] {
    context->needs = Needs{.network = true};
    context->chosen = [=] { return ShowStatus(*flags); };
  });
}

}  // namespace gordian::cli
