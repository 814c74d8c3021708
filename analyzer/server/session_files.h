// Files of a session that readers may look at while they are written.
#ifndef GORDIAN_ANALYZER_SERVER_SESSION_FILES_H_
#define GORDIAN_ANALYZER_SERVER_SESSION_FILES_H_

#include <string>
#include <string_view>

#include "common/status.h"

namespace gordian::server {

inline constexpr char kTraceFile[] = "trace.gtrace";
inline constexpr char kVerdictFile[] = "verdict.json";
inline constexpr char kReportFile[] = "report.txt";

// Replaces `path` in one step: whoever opens it sees all of the old or all of the new contents.
// Does not survive a crash of the machine (no fsync). After an error nothing of it is left behind.
Status ReplaceFile(const std::string& path, std::string_view contents);

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_SESSION_FILES_H_
