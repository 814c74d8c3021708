// gordian-observe: gordian with the verbs that watch a job and explain it. ./dev demo builds it
// alone, in a third less time than all verbs take.
#include "cli/command_line.h"
#include "cli/job/own_limits.h"

int main(int argc, char** argv) {
  using namespace gordian::cli;  // NOLINT: the verbs below
  constexpr AddVerb kVerbs[] = {AddRunVerb,    AddEnvVerb,     AddStatusVerb,
                                AddWatchVerb,  AddAnalyzeVerb, AddExplainVerb,
                                AddChecksVerb, AddDemoVerb,    AddVersionVerb};
  return WithEnoughStack([&] { return Main(argc, argv, kVerbs); });
}
