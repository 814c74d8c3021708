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
     .wants = Wants::kNoMore,
     .write = WriteFlightRecorder},
    {.name = "dot",
     .what = "what waits for what at the end, for Graphviz",
     .folder = false,
     .keep = 0,
     .wants = Wants::kWaitForGraph,
     .write = WriteDot},
    {.name = "graphml",
     .what = "the same for networkx, yEd and Gephi",
     .folder = false,
     .keep = 0,
     .wants = Wants::kWaitForGraph,
     .write = WriteGraphMl},
    {.name = "chrome",
     .what = "a timeline of operations, for Perfetto and chrome://tracing",
     .folder = false,
     .keep = 0,
     .wants = Wants::kNoMore,
     .write = nullptr,
     .stream = StreamChromeTrace},
    {.name = "perfetto",
     .what = "a timeline of ranks, threads and streams with the verdict, for ui.perfetto.dev "
             "(.pftrace)",
     .folder = false,
     .keep = 0,
     .wants = Wants::kNoMore,
     .write = nullptr,
     .stream = StreamPerfetto,
     .binary = true},
    {.name = "jsonl",
     .what = "every operation, one a line (schema gordian.operations.v1)",
     .folder = false,
     .keep = 0,
     .wants = Wants::kNoMore,
     .write = nullptr,
     .stream = StreamJsonLines},
    {.name = "csv",
     .what = "every operation, one a line, for spreadsheets",
     .folder = false,
     .keep = 0,
     .wants = Wants::kNoMore,
     .write = nullptr,
     .stream = StreamCsv},
    {.name = "chakra",
     .what = "MLCommons Chakra execution traces: an .et for each rank",
     .folder = true,
     .keep = 0,
     .wants = Wants::kStreamOrder,
     .write = nullptr,
     .stream = StreamChakra,
     .binary = true},
    {.name = "otlp",
     .what = "OpenTelemetry traces, one for each collective, as lines of OTLP's JSON",
     .folder = false,
     .keep = 0,
     .wants = Wants::kNoMore,
     .write = nullptr,
     .stream = StreamOtlpTraces},
    {.name = "sarif",
     .what = "the verdict as SARIF 2.1.0, for code scanners",
     .folder = false,
     .keep = 0,
     .wants = Wants::kVerdictSites,
     .write = WriteSarif},
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

int Job::RankOf(int group, int member) const {
  const std::vector<int>& ranks = log.groups()[static_cast<size_t>(group)].ranks;
  const auto at = static_cast<size_t>(member);
  return at < ranks.size() ? ranks[at] : member;
}

}  // namespace gordian::exporters
