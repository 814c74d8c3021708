// The settings of `gordian run` in the environment, and a table of every variable that any part of
// gordian reads; a test compares it with the sources. Flags of the command line take precedence.
// The shim and the emulated libraries read their variables themselves, since they link no gordian
// library.
#ifndef GORDIAN_COMMON_CONFIG_H_
#define GORDIAN_COMMON_CONFIG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/analyzer_access.h"
#include "common/status.h"

namespace gordian {

// Returns the value of a variable, or nullopt when it is not set. Tests pass their own.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;
Environment ProcessEnvironment();

enum class OnVerdict {
  kReport,
  kRecover,
  kKill,
  kKillSuspected,
  kRestart,
  kRestartSuspected,
  kExec,
};

// Ends the job for a launcher to start it again; on a suspicion too.
inline bool IsRestart(OnVerdict what) {
  return what == OnVerdict::kRestart || what == OnVerdict::kRestartSuspected;
}

inline constexpr int kMostRestarts = 3;

// `gordian run`.
struct RunConfig {
  // GORDIAN_SESSION: the session directory. Empty: gordian-<app>-<UTC>/.
  std::string session;
  // GORDIAN_ANALYZER: HOST:PORT of `gordian serve`. Empty: an analyzer inside `run`.
  std::string analyzer;
  // GORDIAN_SPOOL_MB: how many MiB the spool may take on disk while that analyzer is away.
  uint64_t spool_mb = 4096;
  // GORDIAN_DELIVER_S: at the job's end, how long to wait for progress of that analyzer.
  double deliver_s = 10;
  // GORDIAN_ON_VERDICT: report | recover | kill | kill-suspected | restart[:N] |
  // restart-suspected[:N] | exec:CMD.
  OnVerdict on_verdict = OnVerdict::kReport;
  std::string on_verdict_command;     // of exec:
  int most_restarts = kMostRestarts;  // of restart: for one cause
  // GORDIAN_TRUST_ANALYZER: 1 ends the job also for a verdict of an analyzer on another machine,
  // with which nothing proves who it is.
  bool trust_analyzer = false;
  // GORDIAN_TOKEN_FILE, GORDIAN_TLS_CA, GORDIAN_TLS_CERT, GORDIAN_TLS_KEY: what this side shows to
  // that analyzer.
  AccessFiles access;
  // GORDIAN_SUSPECT_AFTER: seconds without progress or proof before gordian suspects a hang.
  double suspect_after_s = 5.0;
  // GORDIAN_QUIET: 1 prints only errors on stderr.
  bool quiet = false;
  // GORDIAN_EMULATOR: 1 puts the emulated libraries first.
  bool emulator = false;
  // GORDIAN_GRAPH_MARKERS: 1 puts events into captured graphs (interpose/progress/graph_markers.h).
  bool graph_markers = false;
  // GORDIAN_STUB_COMPUTE: 1 skips launches of kernels (interpose/sources/stub_compute.h). Kernels
  // whose names match a pattern of _KEEP still run; with patterns in _SKIP, only matching kernels
  // are skipped.
  bool stub_compute = false;
  std::string stub_keep, stub_skip;
  // GORDIAN_COLLECTIVES: nccl | preemptive[:NAME,...]; which library runs the job's collectives
  // (docs/runtime.md), all of them or those of the communicators with these names.
  bool preemptive_collectives = false;
  std::vector<std::string> preemptive_names;  // empty: all
  // GORDIAN_CUPTI: 1 observes driver calls through CUPTI (interpose/sources/cupti_source.h).
  bool cupti = false;
  // GORDIAN_NCCL_PROFILER: 1 makes the shim NCCL's profiler plugin
  // (interpose/sources/nccl_profiler.h).
  bool nccl_profiler = false;
  // GORDIAN_LOG: trace | debug | info | warning | error | off; the level of <session>/gordian.log.
  std::string log_level = "info";

  // Reads all of them. Errors: kInvalidArgument, naming the variable, for a malformed value.
  static StatusOr<RunConfig> FromEnvironment(const Environment& environment);
};

// RunConfig::access alone.
AccessFiles AccessFromEnvironment(const Environment& environment);

struct Setting {
  std::string_view name;
  std::string_view program;  // run | shim | emulator | command (passed to the command of exec:)
  std::string_view default_value;
  std::string_view meaning;  // one line
};
std::span<const Setting> Settings();

// Parse values as people write them. Errors name `name`.
StatusOr<bool> ParseBool(std::string_view name, std::string_view text);
StatusOr<uint64_t> ParseUnsigned(std::string_view name, std::string_view text);
StatusOr<double> ParseSeconds(std::string_view name, std::string_view text);
// Splits "report", "recover", "kill", "kill-suspected", "restart", "restart:N" or "exec:CMD" into
// the fields.
Status ParseOnVerdict(std::string_view name, std::string_view text, OnVerdict* what,
                      std::string* command, int* most_restarts);
// Splits "nccl", "preemptive" or "preemptive:dp,tp" into the two fields.
Status ParseCollectives(std::string_view name, std::string_view text, bool* preemptive,
                        std::vector<std::string>* names);
// The shim's GORDIAN_COLLECTIVES_NAMES has a bit for each.
inline constexpr size_t kMostCollectivesNames = 64;

}  // namespace gordian

#endif  // GORDIAN_COMMON_CONFIG_H_
