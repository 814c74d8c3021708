#include "collector/uplink/analyzer_channel.h"

namespace gordian::collector {

std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(const Access& access) {
  if (!access.tls()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = access.tls_ca;
  options.pem_cert_chain = access.tls_cert;
  options.pem_private_key = access.tls_key;
  return grpc::SslCredentials(options);
}

void ShowToken(const Access& access, grpc::ClientContext* context) {
  if (!access.token.empty()) context->AddMetadata("authorization", "Bearer " + access.token);
}

}  // namespace gordian::collector
