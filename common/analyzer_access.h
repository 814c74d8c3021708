// What a node or a viewer shows to the `gordian serve` of its job: a token, and TLS.
#ifndef GORDIAN_COMMON_ANALYZER_ACCESS_H_
#define GORDIAN_COMMON_ANALYZER_ACCESS_H_

#include <string>

#include "common/status.h"

namespace gordian {

// Paths, so that a file that was renewed is used from the next connection on. Empty: none.
struct AccessFiles {
  std::string token;     // a line of text
  std::string tls_ca;    // PEM: who must have signed the server's certificate; turns TLS on
  std::string tls_cert;  // PEM: this side's own certificate, for a server that asks for one
  std::string tls_key;   // PEM: its key

  bool any() const { return !token.empty() || !tls_ca.empty() || !tls_cert.empty(); }
};

// Their contents.
struct Access {
  std::string token, tls_ca, tls_cert, tls_key;
  bool tls() const { return !tls_ca.empty(); }
};

// Errors name the file: it cannot be read, is empty, holds several lines (the token's), or is not
// named although another one needs it.
StatusOr<Access> ReadAccess(const AccessFiles& files);

}  // namespace gordian

#endif  // GORDIAN_COMMON_ANALYZER_ACCESS_H_
