#include "analyzer/importers/sources.h"

#include <algorithm>
#include <filesystem>

#include "analyzer/importers/ras.h"
#include "common/read_file.h"

namespace gordian::importers {
namespace {

constexpr size_t kBeginning = 4096;

std::string Beginning(const std::string& path) { return ReadBeginning(path, kBeginning); }

}  // namespace

Source SourceOf(std::string_view beginning) {
  const size_t first = beginning.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || beginning[first] != '{') return Source::kUnknown;
  const auto has = [&](std::string_view key) {
    return beginning.find(key) != std::string_view::npos;
  };
  if (has("\"inspector_output_format_version\"")) return Source::kInspector;
  if (has("\"nccl_version\"") && has("\"communicators\"") && has("\"communicators_count\""))
    return Source::kRas;
  return Source::kUnknown;
}

StatusOr<SourceFiles> FindSources(const std::string& path) {
  SourceFiles files;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    const std::string beginning = Beginning(path);
    files.source = IsRasText(beginning) ? Source::kRas : SourceOf(beginning);
    if (files.source != Source::kUnknown) files.paths.push_back(path);
    return files;
  }
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (!entry.is_regular_file(error)) continue;
    const Source source = SourceOf(Beginning(entry.path()));
    if (source == Source::kUnknown) continue;
    if (files.source != Source::kUnknown && files.source != source) {
      return Status::InvalidArgument(
          path +
          " holds files of NCCL RAS and of NCCL Inspector: put each kind into its "
          "own folder");
    }
    files.source = source;
    files.paths.push_back(entry.path());
  }
  std::sort(files.paths.begin(), files.paths.end());
  return files;
}

StatusOr<std::string> ReadSource(const std::string& path) { return ReadWholeFile(path); }

}  // namespace gordian::importers
