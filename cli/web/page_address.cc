#include "cli/web/page_address.h"

#include <unistd.h>

#include "analyzer/access/access_key.h"
#include "common/shell_quote.h"

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

Status MayChange(const OwnedFolder& folder, const std::string& name, std::string_view token) {
  const StatusOr<access::AccessKey> key = access::AccessKey::Find(folder);
  if (key.ok() && key->MayChange(token)) return Status::Ok();
  if (!key.ok() && key.status().code() != StatusCode::kNotFound) return key.status();
  return Status::PermissionDenied("this token is no admin's; gordian token --role admin " +
                                  ShownQuote(name) + " prints one");
}

}  // namespace gordian::cli
