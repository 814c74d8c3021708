// The settings of `gordian run` in the environment, and one table that says what each name means
// that any part of gordian reads there; a test holds it against the sources. Flags of the command
// line come before these. The shim and the emulated libraries read their names by themselves, since
// they link nothing of ours.
#ifndef GORDIAN_COMMON_CONFIG_H_
#define GORDIAN_COMMON_CONFIG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/status.h"

namespace gordian {

// Returns the value of a variable, or nullopt when it is not set. Tests pass their own.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
Environment ProcessEnvironment();

enum class OnVerdict { kReport, kKill, kKillSuspected, kExec };

// `gordian run`.
struct RunConfig {
  // GORDIAN_SESSION: the session directory. Empty: gordian-<app>-<UTC>/.
  std::string session;
  // GORDIAN_ANALYZER: HOST:PORT of `gordian serve`. Empty: an analyzer inside `run`.
  std::string analyzer;
  // GORDIAN_SPOOL_MB: what the spool may take on disk while that analyzer is away.
  uint64_t spool_mb = 4096;
  // GORDIAN_DELIVER_S: at the job's end, give up what that analyzer does not take for so long.
  double deliver_s = 10;
  // GORDIAN_ON_VERDICT: report | kill | kill-suspected | exec:CMD.
  OnVerdict on_verdict = OnVerdict::kReport;
  std::string on_verdict_command;  // of exec:
  // GORDIAN_SUSPECT_AFTER: seconds without progress and without a proof that make a suspicion.
  double suspect_after_s = 5.0;
  // GORDIAN_QUIET: 1 says nothing on stderr but errors.
  bool quiet = false;
  // GORDIAN_EMULATOR: 1 puts the emulated libraries first.
  bool emulator = false;
  // GORDIAN_GRAPH_MARKERS: 1 puts events into captured graphs (interpose/graph_markers.h).
  bool graph_markers = false;
  // GORDIAN_STUB_COMPUTE: 1 leaves out launches of kernels (interpose/stub_compute.h), but for
  // those whose names match a pattern of _KEEP; where _SKIP has patterns, of those only that match
  // one.
  bool stub_compute = false;
  std::string stub_keep, stub_skip;
  // GORDIAN_COLLECTIVES: nccl | preemptive; who executes the job's collectives (docs/runtime.md).
  bool preemptive_collectives = false;
  // GORDIAN_CUPTI: 1 lets CUPTI tell of the driver's calls (interpose/cupti_source.h).
  bool cupti = false;
  // GORDIAN_NCCL_PROFILER: 1 makes the shim NCCL's profiler plugin (interpose/nccl_profiler.h).
  bool nccl_profiler = false;
  // GORDIAN_LOG: trace | debug | info | warning | error | off; what goes to <session>/gordian.log.
  std::string log_level = "info";

  // One clear error that names the variable, if a value makes no sense.
  static StatusOr<RunConfig> FromEnvironment(const Environment& environment);
};

struct Setting {
  std::string_view name;
  std::string_view program;  // run | shim | emulator; "command": told to the command of exec:
  std::string_view default_value;
  std::string_view meaning;  // one line
};
std::span<const Setting> Settings();

// Values as people write them. Errors name `name`.
StatusOr<bool> ParseBool(std::string_view name, std::string_view text);
StatusOr<uint64_t> ParseUnsigned(std::string_view name, std::string_view text);
StatusOr<double> ParseSeconds(std::string_view name, std::string_view text);
// "report", "kill", "kill-suspected" or "exec:CMD" into the two fields.
Status ParseOnVerdict(std::string_view name, std::string_view text, OnVerdict* what,
                      std::string* command);

}  // namespace gordian

#endif  // GORDIAN_COMMON_CONFIG_H_
