// The log of a program: one file, <session>/gordian.log, opened for appending. It never reaches the
// terminal: commands print what people must read themselves.
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

// Makes the default logger write to the open file `fd`, which it takes over and closes, from `level`
// on (GORDIAN_LOG's names), and flush warnings at once. Errors: `fd` is below 0 (errno says why), or
// there is no such level; the log then stays silent.
Status OpenLog(int fd, std::string_view level);

// Flushes and closes the file, and silences the log.
void CloseLog();

}  // namespace gordian

#endif  // GORDIAN_COMMON_LOG_H_
