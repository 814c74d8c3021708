// How this side shows who it is to a `gordian serve`.
#ifndef GORDIAN_COLLECTOR_UPLINK_ANALYZER_CHANNEL_H_
#define GORDIAN_COLLECTOR_UPLINK_ANALYZER_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "common/analyzer_access.h"

namespace gordian::collector {

// TLS if `access` names a certificate authority.
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(const Access& access);

// Call it before the call begins. Over a channel without TLS others on the network can read the
// token.
void ShowToken(const Access& access, grpc::ClientContext* context);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_UPLINK_ANALYZER_CHANNEL_H_
