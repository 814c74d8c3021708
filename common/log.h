// The log of a program: one file, <session>/gordian.log, appended to. Nothing of it goes to a
// person's terminal: what a person must read is printed by the command itself.
//
// Use spdlog's own functions (spdlog::info, ...) everywhere. They are silent until OpenLog.
#ifndef GORDIAN_COMMON_LOG_H_
#define GORDIAN_COMMON_LOG_H_

#include <string>
#include <string_view>

#include "common/status.h"

namespace gordian {

// Makes spdlog's default logger silent. Call first in main and in tests.
void SilenceLog();

// From now on the default logger writes to `path`, from `level` on (GORDIAN_LOG's names), and
// flushes warnings at once. Error: the file cannot be opened, or no such level; the log stays
// silent then.
Status OpenLog(const std::string& path, std::string_view level);

// Flushes and closes the file. The log is silent afterwards.
void CloseLog();

}  // namespace gordian

#endif  // GORDIAN_COMMON_LOG_H_
