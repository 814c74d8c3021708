#include "analyzer/ingest/ingest_stream.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/method_handler.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <string_view>
#include <utility>

#include "common/packed_batch.h"

namespace gordian::analyzer {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr char kMethod[] = "/gordian.v1.Ingest/Collect";
// Smaller ones cannot become large.
constexpr size_t kCountAboveBytes = 1 << 20;
constexpr int kMaxDepth = 16;  // more than our messages have

// Takes the parts of a message off *left, on the wire, without making anything of them. False:
// there are more than that. What is malformed ends the count: the parser will say so.
bool CountParts(CodedInputStream* in, const Descriptor* type, int depth, size_t* left) {
  while (const uint32_t tag = in->ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(in, tag)) return true;
      continue;
    }
    uint32_t length = 0;
    if (!in->ReadVarint32(&length)) return true;
    const FieldDescriptor* const field =
        type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    // A list of numbers may come as one field; a byte of it is a number at the most.
    const bool packed = field != nullptr && field->is_packable();
    const size_t parts = packed ? length : 1;
    if (parts > *left) return false;
    *left -= parts;
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        depth == kMaxDepth) {
      if (!in->Skip(static_cast<int>(length))) return true;
      continue;
    }
    const CodedInputStream::Limit limit = in->PushLimit(static_cast<int>(length));
    if (!CountParts(in, field->message_type(), depth + 1, left)) return false;
    const bool whole = in->BytesUntilLimit() == 0;
    in->PopLimit(limit);
    if (!whole) return true;
  }
  return true;
}

bool FewEnough(CodedInputStream* in, const Descriptor* type, size_t bytes, std::string* why) {
  size_t left = kMaxMessageParts;
  if (CountParts(in, type, 0, &left)) return true;
  *why = fmt::format("a message of {} bytes has more than {} parts, the most that is taken", bytes,
                     kMaxMessageParts);
  return false;
}

}  // namespace

namespace {

// False: it has too many parts.
bool FewEnough(grpc::ByteBuffer* bytes, std::string* why) {
  if (bytes->Length() <= kCountAboveBytes) return true;
  grpc::ByteBuffer copy = *bytes;  // of references, not of what they refer to
  grpc::ProtoBufferReader reader(&copy);
  CodedInputStream in(&reader);
  return FewEnough(&in, v1::ToAnalyzer::descriptor(), bytes->Length(), why);
}

bool FewEnough(std::string_view batch, std::string* why) {
  if (batch.size() <= kCountAboveBytes) return true;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(batch.data()),
                      static_cast<int>(batch.size()));
  return FewEnough(&in, v1::EventBatch::descriptor(), batch.size(), why);
}

}  // namespace

bool ParseMessage(grpc::ByteBuffer* bytes, v1::ToAnalyzer* message, std::string* why) {
  if (!FewEnough(bytes, why)) {
    bytes->Clear();
    return false;
  }
  const grpc::Status status =
      grpc::SerializationTraits<v1::ToAnalyzer>::Deserialize(bytes, message);
  if (!status.ok()) {
    *why = "a message makes no sense: " + status.error_message();
    return false;
  }
  if (!message->has_batch()) return true;
  const auto few_enough = [](std::string_view contents, std::string* what) {
    return FewEnough(contents, what);
  };
  return Unpack(kMaxMessageBytes, few_enough, message->mutable_batch(), why);
}

bool ReadMessage(IngestStream* stream, v1::ToAnalyzer* message, std::string* why) {
  grpc::ByteBuffer bytes;
  why->clear();
  return stream->Read(&bytes) && ParseMessage(&bytes, message, why);
}

RawIngestService::RawIngestService(Collect collect) {
  AddMethod(new grpc::internal::RpcServiceMethod(
      kMethod, grpc::internal::RpcMethod::BIDI_STREAMING,
      new grpc::internal::BidiStreamingHandler<RawIngestService, grpc::ByteBuffer, v1::ToCollector>(
          [collect = std::move(collect)](RawIngestService*, grpc::ServerContext* context,
                                         IngestStream* stream) { return collect(context, stream); },
          this)));
}

}  // namespace gordian::analyzer
