#include "analyzer/exporters/formats.h"

#include <algorithm>

namespace gordian::exporters {
namespace {

// As many as PyTorch's buffer holds by default.
constexpr size_t kFlightRecorderKeeps = 2000;

constexpr Format kFormats[] = {
    {.name = "fr",
     .what = "PyTorch's Flight Recorder: a pickle for each rank, which its fr_trace reads",
     .folder = true,
     .keep = kFlightRecorderKeeps,
     .wait_for_graph = false,
     .write = WriteFlightRecorder},
    {.name = "dot",
     .what = "what waits for what at the end, for Graphviz",
     .folder = false,
     .keep = 0,
     .wait_for_graph = true,
     .write = WriteDot},
    {.name = "chrome",
     .what = "a timeline of operations, for Perfetto and chrome://tracing",
     .folder = false,
     .keep = 0,
     .wait_for_graph = false,
     .write = WriteChromeTrace},
    {.name = "jsonl",
     .what = "every operation, one a line (schema gordian.operations.v1)",
     .folder = false,
     .keep = 0,
     .wait_for_graph = false,
     .write = WriteJsonLines},
};

}  // namespace

std::span<const Format> Formats() { return kFormats; }

const Format* FindFormat(std::string_view name) {
  const auto found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                  [&](const Format& format) { return format.name == name; });
  return found == std::end(kFormats) ? nullptr : found;
}

uint64_t Job::RealTime(uint64_t mono_ns) const {
  return result.header.start_real_ns() + mono_ns - result.header.start_mono_ns();
}

}  // namespace gordian::exporters
