// Reads which version of gordian a library belongs to that gordian loads into jobs.
#ifndef GORDIAN_CLI_DOCTOR_LIBRARY_VERSION_H_
#define GORDIAN_CLI_DOCTOR_LIBRARY_VERSION_H_

#include <string>

namespace gordian::cli {

// The version in a library's note (common/version_note.S). Empty: it cannot be read, or has none.
std::string LibraryVersion(const std::string& path);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_DOCTOR_LIBRARY_VERSION_H_
