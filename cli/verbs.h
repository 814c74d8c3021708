// The verbs of the command line. Each Add... registers one verb and its options; parsing stores the
// verb's function in `chosen`, so that nothing runs before the whole line has been parsed.
#ifndef GORDIAN_CLI_VERBS_H_
#define GORDIAN_CLI_VERBS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/least_power.h"
#include "cli/run/run_page.h"

namespace gordian::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitProblem = 1;       // analyze, explain: a verdict that is a problem
inline constexpr int kExitUsage = 2;         // the command line, or an input that cannot be read
inline constexpr int kExitInconclusive = 3;  // analyze, explain: no verdict possible
inline constexpr int kExitRestart = 75;      // run: ended to be started again (EX_TEMPFAIL)
inline constexpr int kExitOwnFailure = 125;  // run: gordian itself failed
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

struct VerbContext {
  std::function<int()> chosen;       // set by the verb on the command line
  std::optional<Needs> needs;        // set by it, too: what it keeps; none: everything
  std::vector<std::string> command;  // the words after "--"
  bool has_command_mark = false;     // there was a "--"
  MakeRunPage make_run_page;         // empty: this program has no page
};

// Prints help with a fixed usage line: CLI11 does not know of the words after "--".
class FixedUsage : public CLI::Formatter {
 public:
  explicit FixedUsage(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App*, std::string) const override { return usage_ + "\n"; }

 private:
  const std::string usage_;
};

// `context` must outlive `app`'s parsing and the call of `chosen`.
void AddRunVerb(CLI::App& app, VerbContext* context);
void AddEnvVerb(CLI::App& app, VerbContext* context);
void AddAnalyzeVerb(CLI::App& app, VerbContext* context);
void AddExplainVerb(CLI::App& app, VerbContext* context);
void AddExportVerb(CLI::App& app, VerbContext* context);
void AddAttachVerb(CLI::App& app, VerbContext* context);
void AddBenchVerb(CLI::App& app, VerbContext* context);
void AddChecksVerb(CLI::App& app, VerbContext* context);
void AddDemoVerb(CLI::App& app, VerbContext* context);
void AddDoctorVerb(CLI::App& app, VerbContext* context);
void AddHooksVerb(CLI::App& app, VerbContext* context);
void AddIncidentsVerb(CLI::App& app, VerbContext* context);
void AddReplayVerb(CLI::App& app, VerbContext* context);
void AddReportVerb(CLI::App& app, VerbContext* context);
void AddServeVerb(CLI::App& app, VerbContext* context);
void AddSimulateVerb(CLI::App& app, VerbContext* context);
void AddStatusVerb(CLI::App& app, VerbContext* context);
void AddWatchVerb(CLI::App& app, VerbContext* context);
void AddTokenVerb(CLI::App& app, VerbContext* context);
void AddPlanVerb(CLI::App& app, VerbContext* context);
void AddPredictVerb(CLI::App& app, VerbContext* context);
void AddVersionVerb(CLI::App& app, VerbContext* context);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_VERBS_H_
