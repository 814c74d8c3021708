// Writes files of a session that readers may open at any time.
#ifndef GORDIAN_ANALYZER_SESSION_SESSION_FILES_H_
#define GORDIAN_ANALYZER_SESSION_SESSION_FILES_H_

#include <string>
#include <string_view>

#include "common/status.h"

namespace gordian::analyzer {

inline constexpr char kTraceFile[] = "trace.gtrace";
inline constexpr char kVerdictFile[] = "verdict.json";
inline constexpr char kReportFile[] = "report.txt";

// Replaces `path` atomically: a reader sees all of the old or all of the new contents. A crash of
// the machine may lose it (no fsync). After an error no temporary file remains.
Status ReplaceFile(const std::string& path, std::string_view contents);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_SESSION_SESSION_FILES_H_
