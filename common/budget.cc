#include "common/budget.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

namespace gordian {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kMaxDepth = 16;           // more than our messages have
constexpr uint64_t kTextBytes = 48;     // a string beside its text
constexpr uint64_t kUnknownBytes = 32;  // a field that the type does not have

// Returns a bound on the memory that a message with so many fields takes.
constexpr uint64_t BytesOf(int fields) { return 48 + 12 * static_cast<uint64_t>(fields); }

// These fit, whatever they hold, as a chunk of a trace does: a message takes two bytes at least.
constexpr uint64_t kSmallBytes = 512ull << 10;
static_assert(kSmallBytes / 2 * BytesOf(kMostFields) < MostMessageMemory(0));

// Takes off *left what the message takes. False: there is not so much.
bool Take(CodedInputStream* in, const Descriptor& type, int depth, uint64_t* left) {
  const auto take = [left](uint64_t bytes) {
    if (bytes > *left) return false;
    *left -= bytes;
    return true;
  };
  while (const uint32_t tag = in->ReadTag()) {
    const FieldDescriptor* const field =
        type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!take(field == nullptr ? kUnknownBytes : field->is_repeated() ? 8 : 0)) return false;
      if (!WireFormatLite::SkipField(in, tag)) return true;
      continue;
    }
    uint32_t length = 0;
    if (!in->ReadVarint32(&length)) return true;
    if (field == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        depth == kMaxDepth) {
      // A list of numbers may come as one field; a byte of it is a number at the most.
      const bool packed = field != nullptr && field->is_packable();
      if (!take(packed ? 8ull * length : kTextBytes + length)) return false;
      if (!in->Skip(static_cast<int>(length))) return true;
      continue;
    }
    if (!take(BytesOf(field->message_type()->field_count()))) return false;
    const CodedInputStream::Limit limit = in->PushLimit(static_cast<int>(length));
    if (!Take(in, *field->message_type(), depth + 1, left)) return false;
    const bool whole = in->BytesUntilLimit() == 0;
    in->PopLimit(limit);
    if (!whole) return true;
  }
  return true;
}

}  // namespace

bool FitsMemory(std::string_view bytes, const Descriptor& type, uint64_t most, std::string* why) {
  if (bytes.size() <= kSmallBytes) return true;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  uint64_t left = most;
  if (Take(&in, type, 0, &left)) return true;
  *why = "its " + std::to_string(bytes.size()) + " bytes would take more than " +
         std::to_string(most >> 20) + " MiB of memory";
  return false;
}

}  // namespace gordian
