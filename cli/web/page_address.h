// What to open in a browser to see a page that is served, and who may do more there than look.
#ifndef GORDIAN_CLI_WEB_PAGE_ADDRESS_H_
#define GORDIAN_CLI_WEB_PAGE_ADDRESS_H_

#include <string>
#include <string_view>

#include "common/owned_folder.h"
#include "common/status.h"

namespace gordian::cli {

// `listen`: HOST:PORT as asked for; `port`: the one it got. `token` may be empty.
std::string PageAddress(const std::string& listen, int port, bool tls, const std::string& token);

// Whether this is an admin's token, made from the key in `folder`, which people know as `name`. Reads
// the key each time: a server on loopback has none until somebody asks for such a token. The error
// says how to come by one.
Status MayChange(const OwnedFolder& folder, const std::string& name, std::string_view token);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WEB_PAGE_ADDRESS_H_
