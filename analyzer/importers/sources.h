// Which tool wrote what lies at a path, by how the files begin; and reading such files within
// bounds.
#ifndef GORDIAN_ANALYZER_IMPORTERS_SOURCES_H_
#define GORDIAN_ANALYZER_IMPORTERS_SOURCES_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace gordian::importers {

enum class Source { kUnknown, kRas, kInspector };

// By the first bytes of a file. Flight Recorder dumps have a recogniser of their own
// (flight_recorder.h), which goes by names: ask this one first.
Source SourceOf(std::string_view beginning);

// A file, or the regular files of a folder that SourceOf knows, by name; all of one source, or it
// is an error. Empty: none is known.
struct SourceFiles {
  Source source = Source::kUnknown;
  std::vector<std::string> paths;
};
StatusOr<SourceFiles> FindSources(const std::string& path);

// At most 256 MiB.
StatusOr<std::string> ReadSource(const std::string& path);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_SOURCES_H_
