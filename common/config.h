// Every setting that gordian reads from the environment: one struct a program, and one table that
// says what each name means (kSettings; the settings page and `gordian env` are made from it).
// Flags of the command line come before these.
//
// The shim and the emulated libraries read their names by themselves, since they link nothing of
// ours; their structs here are what a launcher uses to write those names.
#ifndef GORDIAN_COMMON_CONFIG_H_
#define GORDIAN_COMMON_CONFIG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  // GORDIAN_HTTP: HOST:PORT of the dashboard. Empty: none.
  std::string http;
  // GORDIAN_QUIET: 1 says nothing on stderr but errors.
  bool quiet = false;
  // GORDIAN_EMULATOR: 1 puts the emulated libraries first.
  bool emulator = false;
  // GORDIAN_LOG: trace | debug | info | warning | error | off; what goes to <session>/gordian.log.
  std::string log_level = "info";

  // One clear error that names the variable, if a value makes no sense.
  static StatusOr<RunConfig> FromEnvironment(const Environment& environment);
};

// The shim, in every process of the job.
struct ShimConfig {
  // GORDIAN_RING_DIR: folder for ring files. Empty: the shim forwards calls and records nothing.
  std::string ring_dir;
  // GORDIAN_MARKERS: 0 records no events behind operations, so there is no evidence of the GPU.
  bool markers = true;
  // GORDIAN_RING_SLOTS: records of one thread's ring; rounded down to a power of two. 0: the shim's
  // own sizes. For tests.
  uint64_t ring_slots = 0;

  // NAME=value for each field that is not at its default.
  std::vector<std::string> ToEnvironment() const;
};

// The emulated libraries.
struct EmulatorConfig {
  uint32_t devices = 8;      // GORDIAN_EMU_DEVICES
  uint32_t sms = 132;        // GORDIAN_EMU_SMS, of each device
  uint32_t connections = 8;  // GORDIAN_EMU_CONNECTIONS: hardware queues of a device
  uint64_t kernel_us = 2;    // GORDIAN_EMU_KERNEL_US: how long a kernel without a body takes
  uint64_t memory_mb = 0;    // GORDIAN_EMU_MEMORY_MB of each device; 0: as the real one
  std::string stats_file;    // GORDIAN_EMU_STATS: counts of calls and launches, made on its own
  uint64_t p2p_buffer_bytes = 0;  // GORDIAN_EMU_P2P_BUFFER; 0: as NCCL

  std::vector<std::string> ToEnvironment() const;
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
