// One collector's stream as the server sees it: how its messages are read, and what of them is not.
#ifndef GORDIAN_ANALYZER_INGEST_INGEST_STREAM_H_
#define GORDIAN_ANALYZER_INGEST_INGEST_STREAM_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <cstddef>
#include <functional>
#include <string>

#include "common/budget.h"
#include "gordian/v1/ingest.pb.h"

namespace gordian::analyzer {

// Messages come in as bytes, so that they can be looked at before they become objects.
using IngestStream = grpc::ServerReaderWriter<v1::ToCollector, grpc::ByteBuffer>;

// The next message. False: there is none any more, and *why is empty; or it is one that is not
// taken, and *why says what is wrong with it.
bool ReadMessage(IngestStream* stream, v1::ToAnalyzer* message, std::string* why);
// The second half of it; clears `bytes`.
bool ParseMessage(grpc::ByteBuffer* bytes, v1::ToAnalyzer* message, std::string* why);

// v1::Ingest on such streams.
class RawIngestService : public grpc::Service {
 public:
  using Collect = std::function<grpc::Status(grpc::ServerContext*, IngestStream*)>;
  // `collect` is called for each stream, by a thread that is its own until it returns.
  explicit RawIngestService(Collect collect);
};

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_INGEST_INGEST_STREAM_H_
