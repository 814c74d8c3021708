#include "analyzer/importers/sources.h"

#include <algorithm>
#include <filesystem>

#include "analyzer/importers/packed_input.h"
#include "analyzer/importers/ras.h"
#include "common/read_file.h"

namespace gordian::importers {
namespace {

constexpr size_t kBeginning = 4096;

bool IsChakraName(const std::string& path) {
  return path.ends_with(".et") || path.ends_with(".et.gz");
}

Source SourceOfFile(const std::string& path) {
  if (IsChakraName(path)) return Source::kChakra;
  constexpr char kGzip[] = "\x1f\x8b";
  std::string beginning = ReadBeginning(path, kBeginning);
  const bool packed = beginning.starts_with(kGzip);
  if (packed) beginning = PackedBeginning(path, kBeginning);
  if (IsRasText(beginning)) return packed ? Source::kUnknown : Source::kRas;
  const Source source = SourceOf(beginning);
  // The readers of the others take no packed files.
  const bool may_be_packed = source == Source::kKineto || source == Source::kExecution;
  return packed && !may_be_packed ? Source::kUnknown : source;
}

Status Mixed(const std::string& path, Source one, Source other) {
  return Status::InvalidArgument(path + " holds files of " + Name(std::min(one, other)) +
                                 " and of " + Name(std::max(one, other)) +
                                 ": put each kind into its own folder");
}

}  // namespace

const char* Name(Source source) {
  switch (source) {
    case Source::kRas:
      return "NCCL RAS";
    case Source::kInspector:
      return "NCCL Inspector";
    case Source::kKineto:
      return "PyTorch's profiler";
    case Source::kExecution:
      return "PyTorch's ExecutionTraceObserver";
    case Source::kChakra:
      return "Chakra";
    case Source::kUnknown:
      break;
  }
  return "another tool";
}

Source SourceOf(std::string_view beginning) {
  const size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return Source::kUnknown;
  const auto has = [&](std::string_view key) {
    return beginning.find(key) != std::string_view::npos;
  };
  // Chrome's traces are an object, or without Kineto a list.
  if (beginning[first] == '[')
    return has("\"ph\"") && has("\"ts\"") ? Source::kKineto : Source::kUnknown;
  if (beginning[first] != '{') return Source::kUnknown;
  if (has("\"inspector_output_format_version\"")) return Source::kInspector;
  if (has("\"nccl_version\"") && has("\"communicators\"") && has("\"communicators_count\""))
    return Source::kRas;
  if (has("\"schema\"") && has("-chakra.") && has("\"nodes\"")) return Source::kExecution;
  if (has("\"traceEvents\"") || (has("\"schemaVersion\"") && has("\"deviceProperties\"")))
    return Source::kKineto;
  return Source::kUnknown;
}

StatusOr<SourceFiles> FindSources(const std::string& path) {
  SourceFiles files;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    files.source = SourceOfFile(path);
    if (files.source != Source::kUnknown) files.paths.push_back(path);
    return files;
  }
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (!entry.is_regular_file(error)) continue;
    const Source source = SourceOfFile(entry.path());
    if (source == Source::kUnknown) continue;
    if (files.source != Source::kUnknown && files.source != source)
      return Mixed(path, files.source, source);
    files.source = source;
    files.paths.push_back(entry.path());
  }
  std::sort(files.paths.begin(), files.paths.end());
  return files;
}

StatusOr<SourceFiles> FindSources(const std::vector<std::string>& paths) {
  SourceFiles all;
  for (const std::string& path : paths) {
    StatusOr<SourceFiles> files = FindSources(path);
    GORDIAN_RETURN_IF_ERROR(files.status());
    if (files->source == Source::kUnknown) {
      return Status::InvalidArgument(
          path +
          " is none of the files of which several can be named: traces of PyTorch's profiler, "
          "of its ExecutionTraceObserver or of Chakra, reports of NCCL RAS, files of NCCL "
          "Inspector");
    }
    if (all.source != Source::kUnknown && all.source != files->source)
      return Mixed(path + ", with those before it,", all.source, files->source);
    all.source = files->source;
    all.paths.insert(all.paths.end(), files->paths.begin(), files->paths.end());
  }
  return all;
}

StatusOr<std::string> ReadSource(const std::string& path) { return ReadWholeFile(path); }

}  // namespace gordian::importers
