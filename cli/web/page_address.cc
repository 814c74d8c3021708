#include "cli/web/page_address.h"

#include <unistd.h>

namespace gordian::cli {

std::string PageAddress(const std::string& listen, int port, bool tls, const std::string& token) {
  std::string host = listen.substr(0, listen.rfind(':'));
  if (host == "0.0.0.0" || host == "[::]") {
    char name[256] = {};
    host = gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
  }
  return (tls ? "https://" : "http://") + host + ":" + std::to_string(port) + "/" +
         (token.empty() ? "" : "#token=" + token);
}

}  // namespace gordian::cli
