// Recognises, by their first bytes, which tool wrote the files at a path; reads such files within
// bounds.
#ifndef GORDIAN_ANALYZER_IMPORTERS_SOURCES_H_
#define GORDIAN_ANALYZER_IMPORTERS_SOURCES_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian::importers {

enum class Source { kUnknown, kRas, kInspector, kKineto, kExecution, kChakra };
const char* Name(Source source);  // "PyTorch's profiler"

// Decides by the first bytes of a file, unpacked; Chakra's traces have none of their own. Flight Recorder dumps have their own recogniser
// (flight_recorder.h), which goes by names: ask that one first.
Source SourceOf(std::string_view beginning);

// A file, or the regular files of a folder that SourceOf recognises or that are named `.et`, by
// name. Files of two sources are an error. Empty: none recognised.
struct SourceFiles {
  Source source = Source::kUnknown;
  std::vector<std::string> paths;
};
StatusOr<SourceFiles> FindSources(const std::string& path);
// The same of several paths. One without such files is an error.
StatusOr<SourceFiles> FindSources(const std::vector<std::string>& paths);

// At most 256 MiB.
StatusOr<std::string> ReadSource(const std::string& path);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_SOURCES_H_
