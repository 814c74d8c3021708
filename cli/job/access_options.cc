#include "cli/job/access_options.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace gordian::cli {

void AddAccessOptions(CLI::App* verb, AccessFiles* files) {
  verb->add_option("--token-file", files->token,
                   "With --analyzer: file with the token that its gordian token printed")
      ->type_name("FILE");
  verb->add_option("--tls-ca", files->tls_ca,
                   "With --analyzer: use TLS, with a server whose certificate this authority (PEM) "
                   "has signed")
      ->type_name("FILE");
  verb->add_option("--tls-cert", files->tls_cert,
                   "With --tls-ca: this side's certificate (PEM), for a server that asks for one")
      ->type_name("FILE");
  verb->add_option("--tls-key", files->tls_key, "The key of --tls-cert (PEM)")->type_name("FILE");
}

AccessFiles WithOptions(AccessFiles from_environment, const AccessFiles& options) {
  AccessFiles files = std::move(from_environment);
  if (!options.token.empty()) files.token = options.token;
  if (!options.tls_ca.empty()) files.tls_ca = options.tls_ca;
  if (!options.tls_cert.empty()) files.tls_cert = options.tls_cert;
  if (!options.tls_key.empty()) files.tls_key = options.tls_key;
  return files;
}

}  // namespace gordian::cli
