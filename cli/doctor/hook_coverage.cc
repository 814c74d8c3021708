#include "cli/doctor/hook_coverage.h"

#include <fnmatch.h>

#include <algorithm>

#include "proto/ring/calls.h"

namespace gordian::cli {
namespace {

struct LeftOut {
  std::string_view library;
  const char* pattern;
};
constexpr LeftOut kLeftOut[] = {
#define GORDIAN_NOT_HOOKED(library, pattern, reason) {#library, pattern},
#include "proto/ring/not_hooked.def"
#undef GORDIAN_NOT_HOOKED
};

bool IsInStyleOf(std::string_view library, std::string_view name) {
  if (library == "nccl") return name.starts_with("nccl") || name.starts_with("pnccl");
  if (library == "cudart") return name.starts_with("cuda") || name.starts_with("__cuda");
  return name.starts_with("cu");
}

bool IsKnown(std::string_view library, const std::string& name) {
  for (uint16_t call = 1; call < ring::kCallCount; ++call) {
    const ring::CallInfo& row = ring::kCalls[call];
    if (row.name == name && ring::LibraryName(row.library) == library) return true;
  }
  return std::any_of(std::begin(kLeftOut), std::end(kLeftOut), [&](const LeftOut& one) {
    return one.library == library && fnmatch(one.pattern, name.c_str(), 0) == 0;
  });
}

}  // namespace

std::vector<std::string> BeyondTable(std::string_view library,
                                     const std::vector<std::string>& exported) {
  std::vector<std::string> beyond;
  for (const std::string& name : exported) {
    if (IsInStyleOf(library, name) && !IsKnown(library, name)) beyond.push_back(name);
  }
  std::sort(beyond.begin(), beyond.end());
  return beyond;
}

}  // namespace gordian::cli
