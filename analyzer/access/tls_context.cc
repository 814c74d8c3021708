#include "analyzer/access/tls_context.h"

#include <openssl/ssl.h>
#include <sys/stat.h>

#include <utility>

namespace gordian::access {

namespace ssl = boost::asio::ssl;

StatusOr<std::shared_ptr<ssl::context>> MakeTlsContext(const TlsFiles& files) {
  if (files.cert.empty() || files.key.empty()) {
    return Status::InvalidArgument("TLS needs a certificate and its key: name both files");
  }
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_compression |
                       SSL_OP_NO_RENEGOTIATION);
  boost::system::error_code error;
  context->use_certificate_chain_file(files.cert, error);
  if (error) {
    return Status::InvalidArgument(files.cert + " is no certificate in PEM: " + error.message());
  }
  context->use_private_key_file(files.key, ssl::context::pem, error);
  if (error) {
    return Status::InvalidArgument(files.key + " is not the key of " + files.cert + ": " +
                                   error.message());
  }
  if (!files.ca.empty()) {
    context->load_verify_file(files.ca, error);
    if (error) {
      return Status::InvalidArgument(files.ca + " is no certificate in PEM: " + error.message());
    }
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  }
  return context;
}

std::string TlsFilesStamp(const TlsFiles& files) {
  std::string stamp;
  for (const std::string* path : {&files.cert, &files.key, &files.ca}) {
    struct stat about {};
    if (path->empty() || stat(path->c_str(), &about) != 0) continue;
    stamp += std::to_string(about.st_ino) + ":" + std::to_string(about.st_mtim.tv_sec) + "." +
             std::to_string(about.st_mtim.tv_nsec) + " ";
  }
  return stamp;
}

}  // namespace gordian::access
