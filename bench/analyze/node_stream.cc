#include "bench/analyze/node_stream.h"

#include <cstdio>
#include <cstdlib>

#include "collector/uplink/analyzer_channel.h"
#include "common/version.h"

namespace gordian::bench {
namespace {

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  exit(1);
}

}  // namespace

NodeStream::NodeStream(int port, size_t node, const Access& access) {
  grpc::ChannelArguments arguments;
  // Else all channels to one address share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  stub = v1::Ingest::NewStub(grpc::CreateCustomChannel(
      "127.0.0.1:" + std::to_string(port), collector::ChannelCredentials(access), arguments));
  stream = stub->Collect(&context);
  v1::ToAnalyzer message;
  v1::Hello* const hello = message.mutable_hello();
  hello->set_protocol(kIngestProtocol);
  hello->set_gordian_version(kVersion);
  hello->set_host("host" + std::to_string(node));
  hello->set_session("bench");
  hello->set_job("bench");
  hello->set_incarnation(node + 1);
  v1::ToCollector answer;
  if (!stream->Write(message) || !stream->Read(&answer) || !answer.has_welcome()) {
    context.TryCancel();
    const grpc::Status status = stream->Finish();
    Fail("node " + std::to_string(node) + " is not welcome: " + status.error_message());
  }
}

access::TlsFiles MakeCertificate(const std::string& folder) {
  const access::TlsFiles files{.cert = folder + "/cert.pem", .key = folder + "/key.pem", .ca = ""};
  const std::string make =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj "
      "/CN=bench -addext subjectAltName=IP:127.0.0.1 -keyout " +
      files.key + " -out " + files.cert + " 2>/dev/null";
  if (system(make.c_str()) != 0) Fail("openssl made no certificate");
  return files;
}

Access AccessTo(const std::string& certificate) {
  if (certificate.empty()) return {};
  const StatusOr<Access> access = ReadAccess({.token = "", .tls_ca = certificate});
  if (!access.ok()) Fail(access.status().message());
  return *access;
}

}  // namespace gordian::bench
