#include "cli/job/collectives.h"

#include <sys/mman.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "cli/output.h"
#include "common/utf8.h"
#include "proto/ring/recovery.h"
#include "runtime/include/gordian/runtime_front.h"

namespace gordian::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kSharedMemory[] = "/dev/shm";

}  // namespace

std::string SharedMemoryTag(const std::string& ring_dir) {
  std::string tag;
  for (const char c : fs::path(ring_dir).filename().string()) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) tag += c;
  }
  return tag;
}

void RemoveSharedMemory(const std::string& tag) {
  if (tag.empty()) return;
  const std::string prefix = "gordian-rt-" + tag + "-";
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(kSharedMemory, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix)) shm_unlink(("/" + name).c_str());
  }
}

void RemoveRecoveryFiles(const std::string& session_dir) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(session_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(ring::kRecoveryFile) || name.starts_with(GRT_COUNTERS_FILE)) {
      paths.push_back(entry.path());
    }
  }
  for (const fs::path& path : paths) fs::remove(path, error);
}

CollectiveCounts SumCollectives(const std::string& session_dir) {
  CollectiveCounts sum;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(session_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(GRT_COUNTERS_FILE)) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    grtFrontCounters_t counters;
    if (!file.read(reinterpret_cast<char*>(&counters), sizeof counters)) continue;
    sum.operations += counters.operations;
    sum.comms += counters.comms;
    sum.comms_with_nccl += counters.comms_with_nccl;
    sum.not_agreed += counters.not_agreed;
    sum.own_operator += counters.own_operator;
    sum.in_graph += counters.in_graph;
    sum.helped += counters.helped;
    sum.registered += counters.registered;
    sum.direct += counters.direct;
    sum.not_named += counters.not_named;
    sum.names_found |= counters.names_found;
    sum.known = true;
  }
  return sum;
}

std::string CollectivesLine(const CollectiveCounts& c) {
  const auto operations = [](uint64_t count) {
    return WithCommas(count) + (count == 1 ? " operation" : " operations");
  };
  std::string line = "gordian: " + operations(c.operations) + " by the preemptive runtime";
  std::string left;
  const auto add = [&](uint64_t count, const char* why) {
    if (count != 0) left += (left.empty() ? "" : ", ") + WithCommas(count) + " " + why;
  };
  add(c.not_named, "of communicators that --collectives does not name");
  add(c.not_agreed, "of communicators that not all members routed to it");
  add(c.own_operator, "with an operator of the program's own");
  add(c.in_graph, "in captured CUDA graphs");
  line += left.empty() ? ", none by NCCL" : "; by NCCL: " + left;
  if (c.registered != 0) {
    line += "; " + WithCommas(c.registered) + (c.registered == 1 ? " buffer" : " buffers") +
            " registered, " + WithCommas(c.direct) + (c.direct == 1 ? " output" : " outputs") +
            " written there by other ranks";
  }
  return line + "\n";
}

std::string UnknownNamesLine(const CollectiveCounts& counts,
                             const std::vector<std::string>& names) {
  std::string unknown;
  for (size_t i = 0; counts.known && i < names.size(); ++i) {
    if ((counts.names_found >> i & 1) == 0)
      unknown += (unknown.empty() ? "" : ", ") + Printable(names[i]);
  }
  if (unknown.empty()) return "";
  return "gordian: --collectives names what no communicator was called when it was made: " +
         unknown + " (gordian status lists the names)\n";
}

}  // namespace gordian::cli
