#include "analyzer/exporters/proto_bytes.h"

#include <google/protobuf/io/coded_stream.h>

#include <array>

#include "common/utf8.h"

namespace gordian::exporters {
namespace {

using google::protobuf::io::CodedOutputStream;

enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2 };

// A length is written before it is known: in two bytes, the first of which always says that another
// follows. Readers take such varints; what is longer is moved.
constexpr size_t kLengthBytes = 2;
constexpr size_t kShort = 1u << 14;

uint64_t Tag(int field, WireType type) { return static_cast<uint64_t>(field) << 3 | type; }

}  // namespace

void ProtoBytes::Raw(uint64_t value) {
  std::array<uint8_t, 10> buffer;
  const uint8_t* const end = CodedOutputStream::WriteVarint64ToArray(value, buffer.data());
  bytes_.append(reinterpret_cast<const char*>(buffer.data()),
                static_cast<size_t>(end - buffer.data()));
}

void ProtoBytes::Varint(int field, uint64_t value) {
  Raw(Tag(field, kVarint));
  Raw(value);
}

void ProtoBytes::Fixed64(int field, uint64_t value) {
  Raw(Tag(field, kFixed64));
  std::array<uint8_t, 8> buffer;
  CodedOutputStream::WriteLittleEndian64ToArray(value, buffer.data());
  bytes_.append(reinterpret_cast<const char*>(buffer.data()), buffer.size());
}

void ProtoBytes::Text(int field, std::string_view value) {
  const std::string clean = CleanUtf8(std::string(value));
  Raw(Tag(field, kBytes));
  Raw(clean.size());
  bytes_ += clean;
}

size_t ProtoBytes::Begin(int field) {
  Raw(Tag(field, kBytes));
  return BeginDelimited();
}

size_t ProtoBytes::BeginDelimited() {
  bytes_.append(kLengthBytes, '\0');
  return bytes_.size();
}

void ProtoBytes::End(size_t begun) {
  const uint64_t length = bytes_.size() - begun;
  if (length < kShort) {
    bytes_[begun - 2] = static_cast<char>((length & 0x7f) | 0x80);
    bytes_[begun - 1] = static_cast<char>(length >> 7);
    return;
  }
  std::array<uint8_t, 10> buffer;
  const uint8_t* const end = CodedOutputStream::WriteVarint64ToArray(length, buffer.data());
  bytes_.replace(begun - kLengthBytes, kLengthBytes, reinterpret_cast<const char*>(buffer.data()),
                 static_cast<size_t>(end - buffer.data()));
}

}  // namespace gordian::exporters
