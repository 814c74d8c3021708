// The secret that the page of a gordian asks for beyond this machine.
#ifndef GORDIAN_CLI_WEB_ACCESS_TOKEN_H_
#define GORDIAN_CLI_WEB_ACCESS_TOKEN_H_

#include <string>

#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::cli {

inline constexpr char kTokenFile[] = "http.token";

// Reads it from the folder, or makes a new one there, for the user alone. Errors: the file cannot be
// written; others may read it or it is another user's.
StatusOr<std::string> AccessToken(const OwnedFolder& folder);

// What to open in a browser. `token` may be empty.
std::string PageAddress(const std::string& listen, int port, const std::string& token);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WEB_ACCESS_TOKEN_H_
