// The TLS of a server, from files that may be renewed while it runs.
#ifndef GORDIAN_ANALYZER_ACCESS_TLS_CONTEXT_H_
#define GORDIAN_ANALYZER_ACCESS_TLS_CONTEXT_H_

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "common/status.h"

namespace gordian::access {

// PEM files.
struct TlsFiles {
  std::string cert, key;  // the server's own; empty: no TLS
  std::string ca;         // who must have signed a client's certificate; empty: none is wanted

  bool on() const { return !cert.empty(); }
};

// Errors name the file, and what is wrong with it.
StatusOr<std::shared_ptr<boost::asio::ssl::context>> MakeTlsContext(const TlsFiles& files);

// Differs after a file was replaced.
std::string TlsFilesStamp(const TlsFiles& files);

}  // namespace gordian::access

#endif  // GORDIAN_ANALYZER_ACCESS_TLS_CONTEXT_H_
