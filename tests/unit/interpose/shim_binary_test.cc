// What the shim's file may need, run and export: read with the tools that packagers use.
#include <gtest/gtest.h>

#include <cstdio>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "proto/ring/calls.h"

namespace {

std::string Output(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[4096];
  for (size_t got = 0; (got = fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    text.append(buffer, got);
  EXPECT_EQ(pclose(pipe), 0) << command;
  return text;
}
const std::string kShim = GORDIAN_SHIM_PATH;

std::set<std::string> Matches(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), expression), end; it != end; ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

TEST(ShimBinary, ExportsExactlyTheTable) {
  std::set<std::string> exported;
  std::istringstream lines(Output("nm -D --defined-only " + kShim));
  for (std::string line; std::getline(lines, line);) {
    std::string address, type, name;
    std::istringstream(line) >> address >> type >> name;
    const bool data = name.starts_with("ncclProfiler_v");
    EXPECT_TRUE(data ? type == "D" || type == "R" : type == "T") << line;
    EXPECT_EQ(name.find('@'), std::string::npos) << name << " has a version: it would not hook";
    exported.insert(name);
  }
  std::set<std::string> table = {"dlsym",
                                 "dlvsym",
                                 "dlclose",  // for who looks symbols up
                                 "InitializeInjection",
                                 "ncclProfiler_v4",
                                 "ncclProfiler_v5",
                                 "ncclProfiler_v6",
                                 "ncclProfiler_v7"};
  for (int call = 1; call < gordian::ring::kCallCount; ++call) {
    table.insert(gordian::ring::kCalls[call].name);
  }
  size_t torch = 0;
#define GORDIAN_TORCH_EXPORT(name) torch += table.insert(#name).second;
#include "interpose/torch/exports.def"
#undef GORDIAN_TORCH_EXPORT
  EXPECT_EQ(exported, table);
  EXPECT_EQ(table.size(), size_t{gordian::ring::kCallCount} - 1 + 8 + torch)
      << "a row is there twice";
}

TEST(ShimBinary, NeedsOnlyLibc) {
  const auto needed =
      Matches(Output("readelf -dW " + kShim), "NEEDED\\)\\s+Shared library: \\[([^\\]]+)\\]");
  const std::set<std::string> allowed = {"libc.so.6", "libdl.so.2", "libpthread.so.0",
                                         "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"};
  EXPECT_EQ(needed.count("libc.so.6"), 1u);
  for (const std::string& name : needed) EXPECT_EQ(allowed.count(name), 1u) << name;
}

TEST(ShimBinary, NeedsNoGlibcAfter228) {
  const auto versions = Matches(Output("readelf -VW " + kShim), "Name: GLIBC_([0-9.]+)");
  ASSERT_FALSE(versions.empty());
  for (const std::string& version : versions) {
    int major = 0, minor = 0;
    std::sscanf(version.c_str(), "%d.%d", &major, &minor);
    EXPECT_TRUE(major == 2 && minor <= 28) << "needs GLIBC_" << version;
    std::printf("needs GLIBC_%s\n", version.c_str());
  }
}

// Allocation can deadlock in a job's own allocator, and these functions have versions, locks or
// behaviour (an abort) that have no place in other people's processes.
TEST(ShimBinary, CallsNothingThatAllocatesOrEnds) {
  const auto called =
      Matches(Output("nm -D --undefined-only " + kShim), "[Uw] ([A-Za-z_0-9]+)(?:@|\n)");
  ASSERT_EQ(called.count("dlopen"), 1u) << "the pattern does not fit nm's output";
  for (const char* name : {"malloc",
                           "calloc",
                           "realloc",
                           "free",
                           "posix_memalign",
                           "_Znwm",
                           "_ZdlPv",
                           "strdup",
                           "fopen",
                           "printf",
                           "fprintf",
                           "abort",
                           "exit",
                           "_exit",
                           "signal",
                           "sigaction",
                           "pthread_mutex_lock",
                           "unsetenv",
                           "setenv",
                           "putenv"}) {
    EXPECT_EQ(called.count(name), 0u) << name;
  }
}

TEST(ShimBinary, RunsNothingWhenLoadedOrUnloaded) {
  const std::string dynamic = Output("readelf -dW " + kShim);
  for (const char* tag : {"(INIT)", "(FINI)", "(INIT_ARRAY)", "(FINI_ARRAY)", "(PREINIT_ARRAY)"}) {
    EXPECT_EQ(dynamic.find(tag), std::string::npos) << tag;
  }
  EXPECT_NE(dynamic.find("NODELETE"), std::string::npos)
      << "NCCL closes its plugins, and the watcher would run on in nothing";
  // The initial-exec model: the loader fills in distances from the thread pointer, and no call looks
  // a thread's variables up. (Not every linker sets STATIC_TLS for it.)
  const std::string relocations = Output("readelf -rW " + kShim);
  EXPECT_TRUE(relocations.find("TPOFF64") != std::string::npos ||  // x86-64
              relocations.find("TLS_TPREL") != std::string::npos)  // AArch64
      << "no initial-exec TLS";
  for (const char* other : {"DTPMOD", "TLSDESC"}) {
    EXPECT_EQ(relocations.find(other), std::string::npos) << other;
  }
}

}  // namespace
