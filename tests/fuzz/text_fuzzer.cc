// Any bytes, as each kind of text that gordian reads: a verdict, a configuration of the simulator
// in JSON and TOML, tables of the planner.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "analyzer/report/verdict_json.h"
#include "cli/config_text.h"
#include "cli/plan/plan_input.h"
#include "simulator/config.h"
#include "simulator/sweep.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::fuzz {
namespace {

void AsVerdict(const std::string& text) {
  const StatusOr<analyzer::VerdictDocument> document = analyzer::ParseVerdict(text);
  if (!document.ok()) {
    if (document.status().message().empty()) std::abort();
    return;
  }
  // What was read is written so that it is read again.
  const std::string again = analyzer::VerdictToText(document->verdict, document->sites());
  if (!analyzer::ParseVerdict(again).ok()) std::abort();
}

void AsConfiguration(const std::string& text, const char* name) {
  const StatusOr<nlohmann::json> json = cli::ParseConfigText(text, name);
  if (!json.ok()) {
    if (json.status().message().empty()) std::abort();
    return;
  }
  simulator::Config config;
  (void)simulator::ParseConfig(*json, &config);
  simulator::Sweep sweep;
  if (simulator::IsSweep(*json)) (void)simulator::ParseSweep(*json, &sweep);
}

// Returns whether it is a table of buckets.
bool AsTable(const std::string& text) {
  const int fd = memfd_create("table", MFD_CLOEXEC);
  if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    std::perror("memfd");
    std::abort();
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const StatusOr<cli::BucketTable> table = cli::ReadBucketTable(path);
  if (!table.ok() && table.status().message().empty()) std::abort();
  const StatusOr<std::vector<planner::CostSample>> samples = cli::ReadCostSamples(path);
  if (!samples.ok() && samples.status().message().empty()) std::abort();
  close(fd);
  return table.ok();
}

}  // namespace

void FuzzText(const uint8_t* data, size_t bytes) {
  static const bool kReads = AsTable("forward_us,backward_us,comm_us\n1,2,3\n");
  if (!kReads) std::abort();  // else no input would get anywhere
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  AsVerdict(text);
  AsConfiguration(text, "a.json");
  AsConfiguration(text, "a.toml");
  AsTable(text);
}

}  // namespace gordian::fuzz

#ifdef GORDIAN_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gordian::fuzz::FuzzText(data, bytes);
  return 0;
}
#endif
