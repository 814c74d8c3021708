#include "common/config.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace gordian {
namespace {

constexpr Setting kSettings[] = {
    {"GORDIAN_SESSION", "run", "gordian-<app>-<UTC>", "session directory"},
    {"GORDIAN_ON_VERDICT", "run", "report", "report | kill | kill-suspected | exec:CMD"},
    {"GORDIAN_SUSPECT_AFTER", "run", "5",
     "seconds without progress and without proof that make a suspicion"},
    {"GORDIAN_QUIET", "run", "0", "1: nothing on stderr but errors"},
    {"GORDIAN_EMULATOR", "run", "0", "1: the emulated CUDA and NCCL libraries come first"},
    {"GORDIAN_LOG", "run", "info",
     "trace | debug | info | warning | error | off: level of <session>/gordian.log"},
    {"GORDIAN_LIB_DIR", "run", "<executable>/../../lib", "folder of gordian's own libraries"},
    {"GORDIAN_RING_DIR", "shim", "", "folder of ring files; empty: nothing is recorded"},
    {"GORDIAN_MARKERS", "shim", "1",
     "0: no events behind operations, hence no evidence of the GPU"},
    {"GORDIAN_RING_SLOTS", "shim", "", "records of one thread's ring; for tests"},
    {"GORDIAN_EMU_DEVICES", "emulator", "8", "devices"},
    {"GORDIAN_EMU_SMS", "emulator", "132", "multiprocessors of a device"},
    {"GORDIAN_EMU_CONNECTIONS", "emulator", "8", "hardware queues of a device"},
    {"GORDIAN_EMU_KERNEL_US", "emulator", "2", "microseconds that a kernel without a body takes"},
    {"GORDIAN_EMU_MEMORY_MB", "emulator", "143152", "MiB of memory of a device; not reserved"},
    {"GORDIAN_EMU_STATS", "emulator", "", "file for its own counts of calls and launches"},
    {"GORDIAN_EMU_P2P_BUFFER", "emulator", "", "bytes that a send may be ahead of its receive"},
    {"GORDIAN_VERDICT", "command", "", "name of the verdict"},
    {"GORDIAN_CONFIDENCE", "command", "", "confirmed, suspected or possible"},
    {"GORDIAN_SUMMARY", "command", "", "its one line for people"},
};

Status Bad(std::string_view name, std::string_view text, std::string_view wanted) {
  return Status::InvalidArgument(std::string(name) + "=" + std::string(text) + ": expected " +
                                 std::string(wanted));
}

bool IsLogLevel(std::string_view text) {
  for (std::string_view level : {"trace", "debug", "info", "warning", "error", "off"}) {
    if (text == level) {
      return true;
    }
  }
  return false;
}

}  // namespace

Environment ProcessEnvironment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) {
      return std::nullopt;
    }
    return std::string(value);
  };
}

StatusOr<bool> ParseBool(std::string_view name, std::string_view text) {
  if (text == "1" || text == "true" || text == "yes" || text == "on") {
    return true;
  }
  if (text.empty() || text == "0" || text == "false" || text == "no" || text == "off") {
    return false;
  }
  return Bad(name, text, "0 or 1");
}

StatusOr<double> ParseSeconds(std::string_view name, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < 0) {
    return Bad(name, text, "seconds, as 5 or 0.5");
  }
  return value;
}

Status ParseOnVerdict(std::string_view name, std::string_view text, OnVerdict* what,
                      std::string* command) {
  command->clear();
  if (text == "report") {
    *what = OnVerdict::kReport;
  } else if (text == "kill") {
    *what = OnVerdict::kKill;
  } else if (text == "kill-suspected") {
    *what = OnVerdict::kKillSuspected;
  } else if (text.starts_with("exec:") && text.size() > 5) {
    *what = OnVerdict::kExec;
    *command = text.substr(5);
  } else {
    return Bad(name, text, "report, kill, kill-suspected or exec:CMD");
  }
  return Status::Ok();
}

StatusOr<RunConfig> RunConfig::FromEnvironment(const Environment& environment) {
  RunConfig config;
  config.session = environment("GORDIAN_SESSION").value_or("");
  if (auto text = environment("GORDIAN_ON_VERDICT")) {
    GORDIAN_RETURN_IF_ERROR(ParseOnVerdict("GORDIAN_ON_VERDICT", *text, &config.on_verdict,
                                           &config.on_verdict_command));
  }
  if (auto text = environment("GORDIAN_SUSPECT_AFTER")) {
    StatusOr<double> seconds = ParseSeconds("GORDIAN_SUSPECT_AFTER", *text);
    GORDIAN_RETURN_IF_ERROR(seconds.status());
    config.suspect_after_s = *seconds;
  }
  const auto read_bool = [&](std::string_view name, bool* out) -> Status {
    if (auto text = environment(name)) {
      StatusOr<bool> value = ParseBool(name, *text);
      GORDIAN_RETURN_IF_ERROR(value.status());
      *out = *value;
    }
    return Status::Ok();
  };
  GORDIAN_RETURN_IF_ERROR(read_bool("GORDIAN_QUIET", &config.quiet));
  GORDIAN_RETURN_IF_ERROR(read_bool("GORDIAN_EMULATOR", &config.emulator));
  if (auto text = environment("GORDIAN_LOG")) {
    if (!IsLogLevel(*text)) {
      return Bad("GORDIAN_LOG", *text, "trace, debug, info, warning, error or off");
    }
    config.log_level = *text;
  }
  return config;
}

std::span<const Setting> Settings() { return kSettings; }

}  // namespace gordian
