// What to open in a browser to see a page that is served.
#ifndef GORDIAN_CLI_WEB_PAGE_ADDRESS_H_
#define GORDIAN_CLI_WEB_PAGE_ADDRESS_H_

#include <string>

namespace gordian::cli {

// `listen`: HOST:PORT as asked for; `port`: the one it got. `token` may be empty.
std::string PageAddress(const std::string& listen, int port, bool tls, const std::string& token);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WEB_PAGE_ADDRESS_H_
