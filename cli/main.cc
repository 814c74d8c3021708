// gordian, with all its verbs.
#include "cli/command_line.h"
#include "cli/explore.h"
#include "cli/job/own_limits.h"
#include "cli/mcp/mcp.h"
#include "cli/reference/reference_verbs.h"
#include "cli/web/run_page.h"

int main(int argc, char** argv) {
  using namespace gordian::cli;  // NOLINT: the verbs below
  constexpr AddVerb kVerbs[] = {
      AddRunVerb,      AddEnvVerb,     AddStatusVerb,    AddWatchVerb,      AddAnalyzeVerb,
      AddExplainVerb,  AddAttachVerb,  AddChecksVerb,    AddDemoVerb,       AddDoctorVerb,
      AddExportVerb,   AddHooksVerb,   AddReplayVerb,    AddPredictVerb,    AddExploreVerb,
      AddReportVerb,   AddServeVerb,   AddIncidentsVerb, AddTokenVerb,      AddSimulateVerb,
      AddPlanVerb,     AddBenchVerb,   AddMcpVerb,       AddCompletionVerb, AddManVerb,
      AddSettingsVerb, AddVersionVerb,
  };
  return WithEnoughStack([&] { return Main(argc, argv, kVerbs, MakePageOfRun); });
}
