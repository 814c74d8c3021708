#include "analyzer/importers/rank_traces.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "analyzer/importers/chakra.h"
#include "analyzer/importers/execution_trace.h"
#include "analyzer/importers/kineto.h"
#include "analyzer/importers/packed_input.h"

namespace gordian::importers {
namespace {

constexpr char kInPyTorch[] = "later releases of PyTorch 2 describe collectives of NCCL";

bool TakeEnd(std::string_view end, std::string* name) {
  if (!name->ends_with(end)) return false;
  name->resize(name->size() - end.size());
  return true;
}

// The number that begins at `at`; -1: none, or no rank.
int NumberAt(const std::string& text, size_t at) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  return error == std::errc() && number >= 0 && number < kMostTraceRanks ? number : -1;
}

TraceFormat FormatOf(Source source) {
  return source == Source::kKineto      ? TraceFormat::kKineto
         : source == Source::kExecution ? TraceFormat::kExecution
                                        : TraceFormat::kChakra;
}

StatusOr<RankTrace> Parse(const Pull& pull, TraceFormat format) {
  switch (format) {
    case TraceFormat::kKineto:
      return ParseKinetoTrace(pull);
    case TraceFormat::kExecution:
      return ParseExecutionTrace(pull);
    case TraceFormat::kChakra:
      break;
  }
  return ParseChakraTrace(pull);
}

const char* NoRank(TraceFormat format) {
  switch (format) {
    case TraceFormat::kKineto:
      return " does not say its rank: it has no distributedInfo, and no rankN in its name";
    case TraceFormat::kExecution:
      return " does not say its rank: no call in it does, and it has no rankN in its name";
    case TraceFormat::kChakra:
      break;
  }
  return " does not say its rank: name it PREFIX.RANK.et";
}

StatusOr<RankTrace> ReadOne(const std::string& path, Source source) {
  StatusOr<PackedInput> input = PackedInput::Open(path);
  GORDIAN_RETURN_IF_ERROR(input.status());
  const TraceFormat format = FormatOf(source);
  const Pull pull = input->Puller();
  StatusOr<RankTrace> trace = Parse(pull, format);
  GORDIAN_RETURN_IF_ERROR(input->status());  // the file, before what came of its beginning
  if (!trace.ok())
    return Status(trace.status().code(), path + " cannot be read as a trace of " + Name(source) +
                                             ": " + trace.status().message());
  trace->dump.path = path;
  if (trace->ranked) return trace;
  const int rank = RankOfTraceName(path, format);
  if (rank < 0) return Status::InvalidArgument(path + NoRank(format));
  trace->dump.rank = rank;
  return trace;
}

}  // namespace

int RankOfTraceName(const std::string& path, TraceFormat format) {
  std::string name = std::filesystem::path(path).filename();
  TakeEnd(".gz", &name);
  if (format == TraceFormat::kChakra) {
    if (!TakeEnd(".et", &name)) return -1;
    size_t digits = name.size();
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0) --digits;
    return NumberAt(name, digits);
  }
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  size_t at = name.rfind("rank");
  if (at == std::string::npos) return -1;
  at += 4;
  while (at < name.size() && (name[at] == '_' || name[at] == '-' || name[at] == '.')) ++at;
  return NumberAt(name, at);
}

StatusOr<std::vector<RankTrace>> ReadRankTraces(const SourceFiles& files) {
  std::map<int, RankTrace> by_rank;
  uint64_t bytes = 0;
  size_t entries = 0, without_metadata = 0;
  for (const std::string& path : files.paths) {
    StatusOr<RankTrace> trace = ReadOne(path, files.source);
    GORDIAN_RETURN_IF_ERROR(trace.status());
    bytes += trace->bytes;
    if (bytes > kMostRankTraceBytes)
      return Status::DataLoss("up to " + path + " the traces take more than " +
                              std::to_string(kMostRankTraceBytes >> 20) +
                              " MiB of memory: name fewer, or record fewer steps");
    entries += trace->dump.entries.size();
    without_metadata += trace->without_metadata;
    const RankTrace* const any = by_rank.empty() ? nullptr : &by_rank.begin()->second;
    if (any != nullptr && any->world != trace->world)
      return Status::InvalidArgument(path + " is of a job of " + std::to_string(trace->world) +
                                     " ranks, " + any->dump.path + " of one of " +
                                     std::to_string(any->world) + ": name the traces of one job");
    const int rank = trace->dump.rank;
    const auto other = by_rank.find(rank);
    if (other != by_rank.end())
      return Status::InvalidArgument(path + " and " + other->second.dump.path +
                                     " are both of rank " + std::to_string(rank) +
                                     ": name one trace for each rank");
    by_rank.emplace(rank, std::move(*trace));
  }
  if (entries == 0) {
    const std::string first = files.paths.empty() ? "" : files.paths.front();
    const std::string others =
        files.paths.size() > 1 ? " and " + std::to_string(files.paths.size() - 1) + " more" : "";
    return Status::InvalidArgument(
        first + others + (files.paths.size() > 1 ? " hold" : " holds") + " no collective that " +
        (without_metadata > 0 ? "names its process group: " + std::string(kInPyTorch) + " so"
         : files.source == Source::kKineto
             ? "PyTorch's profiler describes (record_param_comms): " + std::string(kInPyTorch) +
                   ", and only while the CPU is profiled"
         : files.source == Source::kExecution
             ? "PyTorch describes (record_param_comms): " + std::string(kInPyTorch)
             : "gordian could compare (COMM_COLL_NODE)"));
  }
  std::vector<RankTrace> traces;
  traces.reserve(by_rank.size());
  for (auto& [rank, trace] : by_rank) traces.push_back(std::move(trace));
  return traces;
}

}  // namespace gordian::importers
