// gordian version.
#include "common/version.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "cli/verbs.h"
#include "proto/ring/record.h"

namespace gordian::cli {

void AddVersionVerb(CLI::App& app, VerbContext* context) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("version", "Print the version, and those of what it writes");
  verb->add_flag("--json", *as_json, "As JSON");
  verb->footer("Example: gordian version --json");
  verb->callback([=] {
    context->chosen = [=] {
      nlohmann::ordered_json json;
      json["version"] = kVersion;
      json["ring_abi"] = ring::kRingAbiVersion;
      json["trace_format"] = kTraceFormat;
      json["ingest_protocol"] = kIngestProtocol;
      const std::string text = std::string("gordian ") + kVersion + " (ring ABI " +
                               std::to_string(ring::kRingAbiVersion) + ", trace format " +
                               std::to_string(kTraceFormat) + ")\n";
      return PrintOut(*as_json ? json.dump(2) + "\n" : text) ? kExitOk : kExitUsage;
    };
  });
}

}  // namespace gordian::cli
