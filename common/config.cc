#include "common/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace gordian {
namespace {

constexpr Setting kSettings[] = {
    {"GORDIAN_SESSION", "run", "gordian-<app>-<UTC>", "session directory"},
    {"GORDIAN_ANALYZER", "run", "", "HOST:PORT of `gordian serve`; empty: analyze inside `run`"},
    {"GORDIAN_JOB", "run", "from the launcher, or unique",
     "name of the job at GORDIAN_ANALYZER; nodes that give the same name are one job"},
    {"GORDIAN_NODE", "run", "from Slurm, or <host>", "name of this node at GORDIAN_ANALYZER"},
    {"GORDIAN_NODES", "run", "from the launcher", "how many nodes the job has"},
    {"GORDIAN_SPOOL_MB", "run", "4096",
     "MiB on disk for batches that GORDIAN_ANALYZER lacks; when full, gordian stops draining"},
    {"GORDIAN_DELIVER_S", "run", "10",
     "seconds at the job's end without an answer of GORDIAN_ANALYZER before the rest stays in the "
     "spool"},
    {"GORDIAN_ON_VERDICT", "run", "report",
     "report | kill | kill-suspected | restart[:N] | restart-suspected[:N] | exec:CMD"},
    {"GORDIAN_TRUST_ANALYZER", "run", "0",
     "1: GORDIAN_ON_VERDICT=kill obeys a GORDIAN_ANALYZER on another machine, too"},
    {"GORDIAN_TOKEN_FILE", "run", "", "file with the token for GORDIAN_ANALYZER (gordian token)"},
    {"GORDIAN_TLS_CA", "run", "",
     "PEM of who signed the certificate of GORDIAN_ANALYZER; turns TLS on"},
    {"GORDIAN_TLS_CERT", "run", "", "PEM of this side's certificate, where GORDIAN_ANALYZER asks"},
    {"GORDIAN_TLS_KEY", "run", "", "PEM of that certificate's key"},
    {"GORDIAN_SUSPECT_AFTER", "run", "5",
     "seconds without progress or proof after which gordian suspects a hang"},
    {"GORDIAN_QUIET", "run", "0", "1: nothing on stderr but errors"},
    {"GORDIAN_READINESS_ORDERED", "run", "",
     "FILE:LINE, a comma between: calls there come in any order, at each rank in another one "
     "(docs/prediction.md)"},
    {"GORDIAN_EMULATOR", "run", "0", "1: the emulated CUDA and NCCL libraries come first"},
    {"GORDIAN_NCCL_PROFILER", "run", "0",
     "1: observe a statically linked NCCL through its profiler interface"},
    {"GORDIAN_CUPTI", "run", "0",
     "1: observe, through CUPTI, driver calls that bypass the intercepted symbols"},
    {"GORDIAN_CUPTI_LIBRARY", "shim", "",
     "path of libcupti for GORDIAN_CUPTI, if the loader does not find it"},
    {"GORDIAN_LOG", "run", "info",
     "trace | debug | info | warning | error | off: level of <session>/gordian.log"},
    {"GORDIAN_CONFIG", "run", "",
     "file with settings for options that the command line does not give (gordian settings)"},
    {"GORDIAN_LIB_DIR", "run", "<executable>/../../lib", "folder of gordian's own libraries"},
    {"GORDIAN_RING_DIR", "shim", "", "folder of ring files; empty: the shim records nothing"},
    {"GORDIAN_MARKERS", "shim", "1",
     "0: put no events behind operations; gordian then sees no GPU progress"},
    {"GORDIAN_GRAPH_MARKERS", "shim", "0",
     "1: put events into captured graphs too, which changes the job's graphs"},
    {"GORDIAN_COLLECTIVES", "run", "nccl",
     "preemptive[:NAME,...]: gordian's own runtime runs the collectives, all or those of the "
     "communicators with these names (docs/runtime.md)"},
    {"GORDIAN_COLLECTIVES_LIBRARY", "shim", "",
     "library of the runtime that runs the collectives; empty: NCCL"},
    {"GORDIAN_COLLECTIVES_NAMES", "shim", "",
     "names of the communicators whose collectives that library runs, a comma between; empty: all"},
    {"GORDIAN_RECOVERY", "shim", "0",
     "1: NCCL runs the collectives, and the runtime those that are stuck (docs/recovery.md)"},
    {"GORDIAN_RECOVERY_POOL_MB", "shim", "256",
     "MiB of each device's memory for copies of the inputs of operations in place; 0: none"},
    {"GORDIAN_STUB_COMPUTE", "shim", "0", "1: skip kernels that take no part in communication"},
    {"GORDIAN_STUB_COMPUTE_KEEP", "shim", "",
     "patterns, separated by ':', of names of kernels to run all the same"},
    {"GORDIAN_STUB_COMPUTE_SKIP", "shim", "", "patterns of names of kernels to skip; empty: all"},
    {"GORDIAN_NCCL_PROFILER_PLUGIN", "shim", "",
     "the user's own profiler plugin, which NCCL_PROFILER_PLUGIN named before gordian's"},
    {"GORDIAN_TORCH", "shim", "1", "0: record no operations of torch.distributed"},
    {"GORDIAN_RING_SLOTS", "shim", "", "records of one thread's ring; for tests"},
    {"GORDIAN_EMU_DEVICES", "emulator", "8", "devices"},
    {"GORDIAN_EMU_SMS", "emulator", "132", "multiprocessors of a device"},
    {"GORDIAN_EMU_CONNECTIONS", "emulator", "8", "hardware queues of a device"},
    {"GORDIAN_EMU_KERNEL_US", "emulator", "2", "microseconds that a kernel without a body takes"},
    {"GORDIAN_EMU_MEMORY_MB", "emulator", "143152", "MiB of memory of a device; not reserved"},
    {"GORDIAN_EMU_STATS", "emulator", "", "file for its own counts of calls and launches"},
    {"GORDIAN_EMU_SEED", "emulator", "0",
     "seed of the emulator's free choices; 0: they do not vary"},
    {"GORDIAN_EMU_SCHEDULE", "emulator", "", "file with the order in which NCCL calls are entered"},
    {"GORDIAN_EMU_QUIESCENCE", "emulator", "",
     "FILE.PID lists the waits when no thread can proceed"},
    {"GORDIAN_EMU_JOB", "emulator", "",
     "name that keeps jobs apart that use the two files above at once"},
    {"GORDIAN_EMU_PROCESSES", "emulator", "0", "a job of fewer processes never counts as stuck"},
    {"GORDIAN_EMU_IGNORE_THREADS", "emulator", "",
     "names of threads that may run on in a stuck job"},
    {"GORDIAN_EMU_NCCL_PROFILER", "emulator", "5",
     "newest version of a profiler plugin that the emulated NCCL asks for; 0: none"},
    {"GORDIAN_EMU_P2P_BUFFER", "emulator", "", "bytes that a send may run ahead of its receive"},
    {"GORDIAN_VERDICT", "command", "", "name of the verdict"},
    {"GORDIAN_CONFIDENCE", "command", "", "confirmed, suspected or possible"},
    {"GORDIAN_SUMMARY", "command", "", "its one line for people"},
    {"GORDIAN_CULPRIT_RANKS", "command", "", "ranks that it blames, a space between; may be empty"},
    {"GORDIAN_CULPRIT_PIDS", "command", "", "their processes, in the same order; -: not known"},
    {"GORDIAN_CULPRIT_NODES", "command", "", "the nodes of these, in the same order; -: not known"},
    {"GORDIAN_ALERT", "command", "", "of --alert exec: suspected or confirmed"},
    {"GORDIAN_INCIDENT", "command", "", "of --alert exec: the incident's id"},
    {"GORDIAN_TEXT", "command", "", "of --alert exec: all of it in one paragraph"},
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

StatusOr<uint64_t> ParseUnsigned(std::string_view name, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return Bad(name, text, "a whole number");
  }
  return value;
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
                      std::string* command, int* most_restarts) {
  command->clear();
  *most_restarts = kMostRestarts;
  if (text == "report") {
    *what = OnVerdict::kReport;
  } else if (text == "recover") {
    *what = OnVerdict::kRecover;
  } else if (text == "kill") {
    *what = OnVerdict::kKill;
  } else if (text == "kill-suspected") {
    *what = OnVerdict::kKillSuspected;
  } else if (text.starts_with("exec:") && text.size() > 5) {
    *what = OnVerdict::kExec;
    *command = text.substr(5);
  } else {
    const size_t colon = text.find(':');
    const std::string_view word = text.substr(0, colon);
    if (word != "restart" && word != "restart-suspected") {
      return Bad(name, text,
                 "report, recover, kill, kill-suspected, restart, restart-suspected or exec:CMD");
    }
    *what = word == "restart" ? OnVerdict::kRestart : OnVerdict::kRestartSuspected;
    if (colon != std::string_view::npos) {
      const StatusOr<uint64_t> most = ParseUnsigned(name, text.substr(colon + 1));
      if (!most.ok() || *most < 1 || *most > 1000) {
        return Bad(name, text, "restart:N, at most N restarts for one cause, from 1 to 1000");
      }
      *most_restarts = static_cast<int>(*most);
    }
  }
  return Status::Ok();
}

Status ParseCollectives(std::string_view name, std::string_view text, bool* preemptive,
                        std::vector<std::string>* names) {
  names->clear();
  const size_t colon = text.find(':');
  *preemptive = text.substr(0, colon) == "preemptive";
  if (!*preemptive && text != "nccl")
    return Bad(name, text, "nccl, preemptive, or preemptive:NAME,NAME");
  if (colon == std::string_view::npos) return Status::Ok();
  for (std::string_view rest = text.substr(colon + 1);;) {
    const size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    if (one.empty() || names->size() == kMostCollectivesNames) {
      return Bad(name, text, "the names of 1 to 64 communicators, as preemptive:dp,tp");
    }
    if (std::find(names->begin(), names->end(), one) == names->end()) names->emplace_back(one);
    if (comma == std::string_view::npos) return Status::Ok();
    rest.remove_prefix(comma + 1);
  }
}

AccessFiles AccessFromEnvironment(const Environment& environment) {
  return {.token = environment("GORDIAN_TOKEN_FILE").value_or(""),
          .tls_ca = environment("GORDIAN_TLS_CA").value_or(""),
          .tls_cert = environment("GORDIAN_TLS_CERT").value_or(""),
          .tls_key = environment("GORDIAN_TLS_KEY").value_or("")};
}

StatusOr<RunConfig> RunConfig::FromEnvironment(const Environment& environment) {
  RunConfig config;
  config.access = AccessFromEnvironment(environment);
  config.session = environment("GORDIAN_SESSION").value_or("");
  config.analyzer = environment("GORDIAN_ANALYZER").value_or("");
  if (auto text = environment("GORDIAN_ON_VERDICT")) {
    GORDIAN_RETURN_IF_ERROR(ParseOnVerdict("GORDIAN_ON_VERDICT", *text, &config.on_verdict,
                                           &config.on_verdict_command, &config.most_restarts));
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
  GORDIAN_RETURN_IF_ERROR(read_bool("GORDIAN_TRUST_ANALYZER", &config.trust_analyzer));
  GORDIAN_RETURN_IF_ERROR(read_bool("GORDIAN_QUIET", &config.quiet));
  GORDIAN_RETURN_IF_ERROR(read_bool("GORDIAN_EMULATOR", &config.emulator));
  GORDIAN_RETURN_IF_ERROR(read_bool("GORDIAN_GRAPH_MARKERS", &config.graph_markers));
  GORDIAN_RETURN_IF_ERROR(read_bool("GORDIAN_CUPTI", &config.cupti));
  GORDIAN_RETURN_IF_ERROR(read_bool("GORDIAN_NCCL_PROFILER", &config.nccl_profiler));
  GORDIAN_RETURN_IF_ERROR(read_bool("GORDIAN_STUB_COMPUTE", &config.stub_compute));
  if (auto text = environment("GORDIAN_COLLECTIVES")) {
    GORDIAN_RETURN_IF_ERROR(ParseCollectives(
        "GORDIAN_COLLECTIVES", *text, &config.preemptive_collectives, &config.preemptive_names));
  }
  config.stub_keep = environment("GORDIAN_STUB_COMPUTE_KEEP").value_or("");
  config.stub_skip = environment("GORDIAN_STUB_COMPUTE_SKIP").value_or("");
  if (auto text = environment("GORDIAN_SPOOL_MB")) {
    StatusOr<uint64_t> value = ParseUnsigned("GORDIAN_SPOOL_MB", *text);
    GORDIAN_RETURN_IF_ERROR(value.status());
    if (*value < 1 || *value > 1u << 30) {
      return Bad("GORDIAN_SPOOL_MB", *text, "1 or more MiB");
    }
    config.spool_mb = *value;
  }
  if (auto text = environment("GORDIAN_DELIVER_S")) {
    StatusOr<double> seconds = ParseSeconds("GORDIAN_DELIVER_S", *text);
    GORDIAN_RETURN_IF_ERROR(seconds.status());
    config.deliver_s = std::min(*seconds, 1e6);
  }
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
