// What a benchmark needs to be a node of a fleet's server on loopback: a stream that the server has
// welcomed, over a connection of its own, and a certificate for the server.
#ifndef GORDIAN_BENCH_ANALYZE_NODE_STREAM_H_
#define GORDIAN_BENCH_ANALYZE_NODE_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>
#include <string>

#include "analyzer/access/tls_context.h"
#include "common/analyzer_access.h"
#include "gordian/v1/ingest.grpc.pb.h"

namespace gordian::bench {

// Ends the program with a message if the server does not welcome node number `node`.
struct NodeStream {
  NodeStream(int port, size_t node, const Access& access);

  grpc::ClientContext context;
  std::unique_ptr<v1::Ingest::Stub> stub;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ToAnalyzer, v1::ToCollector>> stream;
};

// Makes a certificate for 127.0.0.1 and its key in the folder, or ends the program with a message.
access::TlsFiles MakeCertificate(const std::string& folder);

// What a node shows to a server with this certificate; none: a server without TLS.
Access AccessTo(const std::string& certificate);

}  // namespace gordian::bench

#endif  // GORDIAN_BENCH_ANALYZE_NODE_STREAM_H_
