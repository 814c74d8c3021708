// gordian analyze and gordian explain: verdicts of recorded jobs.
#include <unistd.h>

#include <memory>

#include "analyzer/server/check_text.h"
#include "analyzer/server/report.h"
#include "analyzer/server/verdict_json.h"
#include "cli/output.h"
#include "cli/recorded.h"
#include "cli/verbs.h"
#include "cli/verdict_policy.h"

namespace gordian::cli {
namespace {

struct ReadFlags {
  std::string path;
  bool json = false;
};

int Print(const StatusOr<RecordedVerdict>& recorded, bool as_json, bool at_length) {
  if (!recorded.ok()) {
    PrintError(recorded.status().message());
    return kExitUsage;
  }
  if (!recorded->note.empty()) {
    PrintNote(recorded->note);
  }
  server::ReportOptions options{.color = WantsColor(STDOUT_FILENO),
                                .width = TerminalWidth(STDOUT_FILENO),
                                .session = at_length ? "" : recorded->session};
  std::string text;
  if (as_json) {
    text = server::VerdictToText(recorded->verdict, recorded->sites);
  } else if (at_length) {
    text = server::ExplainText(recorded->verdict, recorded->sites, options);
  } else {
    text = server::ReportText(recorded->verdict, recorded->sites, options);
  }
  return PrintOut(text) ? ExitCodeOfVerdict(recorded->verdict) : kExitUsage;
}

int Explain(const ReadFlags& flags) {
  // What is there of that name comes first: a session may be called as a check is.
  const graph::Check* const check = graph::FindCheck(flags.path);
  if (check == nullptr || access(flags.path.c_str(), F_OK) == 0)
    return Print(AsDecided(flags.path), flags.json, true);
  return PrintOut(server::CheckText(*check, TerminalWidth(STDOUT_FILENO))) ? kExitOk : kExitUsage;
}

constexpr char kExitCodes[] =
    "Exit code: 0 healthy, finished or straggler; 1 any other verdict; 2 unreadable input; 3 "
    "inconclusive.\n";

}  // namespace

void AddAnalyzeVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ReadFlags>();
  CLI::App* verb = app.add_subcommand("analyze", "Decide again from what was recorded of a job");
  verb->add_option("path", flags->path,
                   "A session, a .gtrace file, or a file or folder of Flight Recorder dumps "
                   "(pickle or JSON), NCCL "
                   "RAS reports or NCCL Inspector files (JSON)")
      ->required()
      ->type_name("PATH");
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.verdict.v1)");
  verb->footer(std::string(kExitCodes) + "Example: gordian analyze latest --json | jq .verdict");
  verb->callback([=] {
    context->chosen = [=] { return Print(DecideAgain(flags->path), flags->json, false); };
  });
}

void AddExplainVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ReadFlags>();
  CLI::App* verb = app.add_subcommand(
      "explain",
      "The recorded verdict at length: who waits where, who has not come, what to change");
  verb->add_option("session", flags->path,
                   "A session, a .gtrace file, or the id of a check (gordian checks)")
      ->required()
      ->type_name("SESSION");
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.verdict.v1)");
  verb->footer(std::string(kExitCodes) + "Example: gordian explain latest");
  verb->callback([=] { context->chosen = [=] { return Explain(*flags); }; });
}

}  // namespace gordian::cli
