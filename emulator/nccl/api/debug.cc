#include "emulator/nccl/api/debug.h"

#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "emulator/nccl/api/nccl_header.h"

namespace gordian::emu::nccl {
namespace {

constinit std::mutex mutex;
constinit std::atomic<int> level{-1};  // -1: not read yet
constinit bool wants_init = true;
constinit bool wants_collectives = false;
constinit bool version_printed = false;
constinit FILE* out = nullptr;

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  if (char* dot = std::strchr(name, '.')) *dot = '\0';
  return name;
}

DebugLevel LevelFromEnvironment() {
  const char* text = std::getenv("NCCL_DEBUG");
  if (text == nullptr) return DebugLevel::kNone;
  if (strcasecmp(text, "VERSION") == 0) return DebugLevel::kVersion;
  if (strcasecmp(text, "WARN") == 0) return DebugLevel::kWarn;
  if (strcasecmp(text, "INFO") == 0) return DebugLevel::kInfo;
  if (strcasecmp(text, "TRACE") == 0) return DebugLevel::kTrace;
  return DebugLevel::kNone;
}

// A list "INIT,COLL"; "^" in front of it means all but these.
void ReadSubsystems() {
  wants_init = true;
  wants_collectives = false;
  const char* text = std::getenv("NCCL_DEBUG_SUBSYS");
  if (text == nullptr) return;
  bool inverted = *text == '^';
  if (inverted) ++text;
  wants_init = wants_collectives = inverted;
  std::string list = text;
  for (size_t start = 0; start <= list.size();) {
    size_t end = list.find(',', start);
    if (end == std::string::npos) end = list.size();
    std::string name = list.substr(start, end - start);
    bool all = strcasecmp(name.c_str(), "ALL") == 0;
    if (all || strcasecmp(name.c_str(), "INIT") == 0) wants_init = !inverted;
    if (all || strcasecmp(name.c_str(), "COLL") == 0) wants_collectives = !inverted;
    start = end + 1;
  }
}

void OpenFile() {
  out = stdout;
  const char* pattern = std::getenv("NCCL_DEBUG_FILE");
  if (pattern == nullptr || *pattern == '\0') return;
  std::string path;
  for (const char* p = pattern; *p != '\0'; ++p) {
    if (*p == '%' && p[1] == 'h') {
      path += HostName();
      ++p;
    } else if (*p == '%' && p[1] == 'p') {
      path += std::to_string(getpid());
      ++p;
    } else {
      path += *p;
    }
  }
  if (FILE* file = std::fopen(path.c_str(), "we")) out = file;
}

void Line(int device, const char* level_name, const char* message) {
  std::lock_guard lock(mutex);
  if (device >= 0) {
    std::fprintf(out, "%s:%d:%ld [%d] NCCL %s %s\n", HostName().c_str(), getpid(),
                 syscall(SYS_gettid), device, level_name, message);
  } else {
    std::fprintf(out, "%s:%d:%ld NCCL %s %s\n", HostName().c_str(), getpid(), syscall(SYS_gettid),
                 level_name, message);
  }
  std::fflush(out);
}

}  // namespace

DebugLevel GetDebugLevel() {
  int known = level.load(std::memory_order_acquire);
  if (known >= 0) return static_cast<DebugLevel>(known);
  std::lock_guard lock(mutex);
  ReadSubsystems();
  OpenFile();
  DebugLevel read = LevelFromEnvironment();
  level.store(static_cast<int>(read), std::memory_order_release);
  return read;
}

void ResetDebug() { level.store(-1); }

bool WantsInfo(DebugSubsystem subsystem) {
  if (GetDebugLevel() < DebugLevel::kInfo) return false;
  return subsystem == DebugSubsystem::kInit ? wants_init : wants_collectives;
}

void Info(int device, const char* format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  Line(device, "INFO", message);
}

void Warn(const char* message) {
  if (GetDebugLevel() >= DebugLevel::kWarn) Line(-1, "WARN", message);
}

void PrintVersion() {
  if (GetDebugLevel() < DebugLevel::kVersion) return;
  std::lock_guard lock(mutex);
  if (version_printed) return;
  version_printed = true;
  std::fprintf(out, "NCCL version %d.%d.%d+gordian-emulator\n", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
  std::fflush(out);
}

}  // namespace gordian::emu::nccl
