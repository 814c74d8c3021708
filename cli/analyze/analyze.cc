// gordian analyze and gordian explain: print the verdicts of recorded jobs.
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyzer/merge/merged_text.h"
#include "analyzer/report/check_text.h"
#include "analyzer/report/report.h"
#include "analyzer/report/verdict_json.h"
#include "cli/analyze/recorded.h"
#include "cli/output.h"
#include "cli/run/verdict_policy.h"
#include "cli/verbs.h"

namespace gordian::cli {
namespace {

struct ReadFlags {
  std::string path;
  std::vector<std::string> paths;  // of analyze
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
  analyzer::ReportOptions options{.color = WantsColor(STDOUT_FILENO),
                                  .width = TerminalWidth(STDOUT_FILENO),
                                  .session = at_length ? "" : recorded->session};
  std::string text;
  if (as_json && recorded->merged != nullptr) {
    nlohmann::ordered_json json = analyzer::VerdictToJson(recorded->verdict, recorded->sites);
    json["merged"] = merge::MergedToJson(*recorded->merged);
    text = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  } else if (as_json) {
    text = analyzer::VerdictToText(recorded->verdict, recorded->sites);
  } else if (at_length) {
    text = analyzer::ExplainText(recorded->verdict, recorded->sites, options);
  } else {
    text = analyzer::ReportText(recorded->verdict, recorded->sites, options);
  }
  if (!as_json && recorded->merged != nullptr)
    text += "\n" + merge::MergedText(*recorded->merged, options.width);
  return PrintOut(text) ? ExitCodeOfVerdict(recorded->verdict) : kExitUsage;
}

int Explain(const ReadFlags& flags) {
  // A session comes before a check of the same name.
  const model::Check* const check = model::FindCheck(flags.path);
  if (check == nullptr || access(flags.path.c_str(), F_OK) == 0)
    return Print(AsDecided(flags.path), flags.json, true);
  return PrintOut(analyzer::CheckText(*check, TerminalWidth(STDOUT_FILENO))) ? kExitOk : kExitUsage;
}

constexpr char kExitCodes[] =
    "Exit code: 0 healthy or finished; 1 any other verdict; 2 unreadable input; 3 "
    "inconclusive.\n";

}  // namespace

void AddAnalyzeVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ReadFlags>();
  CLI::App* verb = app.add_subcommand("analyze", "Decide again from the records of a job");
  verb->add_option("path", flags->paths,
                   "A session or .gtrace file, Flight Recorder dumps (pickle or JSON), NCCL RAS "
                   "reports: files or folders, several of one job for one verdict. Or files and "
                   "folders of one of these: traces of PyTorch's profiler or its "
                   "ExecutionTraceObserver (JSON) or of Chakra (.et), one a rank, also packed "
                   "(.gz); NCCL Inspector files")
      ->required()
      ->type_name("PATH");
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.verdict.v1)");
  verb->footer(std::string(kExitCodes) +
               "Example: gordian analyze latest --json | jq .verdict\n"
               "         gordian analyze latest /tmp/nccl_trace_rank_dumps");
  verb->callback([=] {
    context->needs = Needs{};
    context->chosen = [=] { return Print(DecideAgain(flags->paths), flags->json, false); };
  });
}

void AddExplainVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<ReadFlags>();
  CLI::App* verb = app.add_subcommand("explain",
                                      "Print the recorded verdict in full: who waits where, which "
                                      "ranks are missing, what to change");
  verb->add_option("session", flags->path,
                   "A session, a .gtrace file, or the id of a check (gordian checks)")
      ->required()
      ->type_name("SESSION");
  verb->add_flag("--json", flags->json, "As JSON (schema gordian.verdict.v1)");
  verb->footer(std::string(kExitCodes) + "Example: gordian explain latest");
  verb->callback([=] {
    context->needs = Needs{};
    context->chosen = [=] { return Explain(*flags); };
  });
}

}  // namespace gordian::cli
