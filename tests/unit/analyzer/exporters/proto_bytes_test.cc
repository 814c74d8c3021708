// Protobuf's own reader reads what ProtoBytes wrote.
#include "analyzer/exporters/proto_bytes.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace gordian::exporters {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

class Reader {
 public:
  explicit Reader(const std::string& bytes)
      : in_(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size())) {}

  // The next field's number, which must have this type; 0 at the end.
  int Field(WireFormatLite::WireType type) {
    const uint32_t tag = in_.ReadTag();
    if (tag == 0) return 0;
    EXPECT_EQ(WireFormatLite::GetTagWireType(tag), type);
    return WireFormatLite::GetTagFieldNumber(tag);
  }
  uint64_t Varint() {
    uint64_t value = 0;
    EXPECT_TRUE(in_.ReadVarint64(&value));
    return value;
  }
  uint64_t Fixed64() {
    uint64_t value = 0;
    EXPECT_TRUE(in_.ReadLittleEndian64(&value));
    return value;
  }
  std::string Bytes() {
    const uint64_t length = Varint();
    std::string value;
    EXPECT_TRUE(in_.ReadString(&value, static_cast<int>(length)));
    return value;
  }
  bool AtEnd() { return in_.ExpectAtEnd() || in_.ReadTag() == 0; }

 private:
  CodedInputStream in_;
};

constexpr auto kVarint = WireFormatLite::WIRETYPE_VARINT;
constexpr auto kFixed64 = WireFormatLite::WIRETYPE_FIXED64;
constexpr auto kDelimited = WireFormatLite::WIRETYPE_LENGTH_DELIMITED;

TEST(ProtoBytes, Numbers) {
  const uint64_t values[] = {0, 1, 127, 128, 16383, 16384, 1ull << 32, UINT64_MAX};
  ProtoBytes out;
  for (const uint64_t value : values) {
    out.Varint(1, value);
    out.Fixed64(2047, value);  // a tag of two bytes
  }
  out.Signed(3, -1);
  out.Signed(3, INT64_MIN);
  Reader in(out.bytes());
  for (const uint64_t value : values) {
    EXPECT_EQ(in.Field(kVarint), 1);
    EXPECT_EQ(in.Varint(), value);
    EXPECT_EQ(in.Field(kFixed64), 2047);
    EXPECT_EQ(in.Fixed64(), value);
  }
  EXPECT_EQ(in.Field(kVarint), 3);
  EXPECT_EQ(static_cast<int64_t>(in.Varint()), -1);
  EXPECT_EQ(in.Field(kVarint), 3);
  EXPECT_EQ(static_cast<int64_t>(in.Varint()), INT64_MIN);
  EXPECT_TRUE(in.AtEnd());
}

TEST(ProtoBytes, Texts) {
  ProtoBytes out;
  out.Text(1, "");
  out.Text(2, std::string("a\0b", 3));
  out.Text(3, "gr\xc3\xbc\xc3\x9f");
  out.Text(4, "cut \xc3");  // proto3 refuses the whole message for one such byte
  out.Text(5, std::string(70000, 'x'));
  Reader in(out.bytes());
  const std::string wanted[] = {"", std::string("a\0b", 3), "gr\xc3\xbc\xc3\x9f", "cut ?",
                                std::string(70000, 'x')};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(in.Field(kDelimited), i + 1);
    EXPECT_EQ(in.Bytes(), wanted[i]);
  }
  EXPECT_TRUE(in.AtEnd());
}

// Lengths around those at which they need another byte than was left free for them.
TEST(ProtoBytes, MessagesOfEveryLength) {
  for (const size_t length :
       {0u, 1u, 127u, 128u, 16380u, 16383u, 16384u, 16385u, 2097151u, 2097152u}) {
    ProtoBytes out;
    out.Varint(7, 1);
    const size_t begun = out.Begin(9);
    out.bytes().append(length, 'm');
    out.End(begun);
    out.Varint(8, 2);
    Reader in(out.bytes());
    EXPECT_EQ(in.Field(kVarint), 7);
    EXPECT_EQ(in.Varint(), 1u);
    EXPECT_EQ(in.Field(kDelimited), 9);
    EXPECT_EQ(in.Bytes(), std::string(length, 'm')) << length;
    EXPECT_EQ(in.Field(kVarint), 8);
    EXPECT_EQ(in.Varint(), 2u);
    EXPECT_TRUE(in.AtEnd());
  }
}

// An inner message that moves, because its length needs more bytes, moves what is around it.
TEST(ProtoBytes, MessagesInMessages) {
  const std::string text(20000, 't');
  ProtoBytes out;
  const size_t outer = out.Begin(1);
  for (int i = 0; i < 3; ++i) {
    const size_t inner = out.Begin(2);
    out.Text(3, text);
    out.End(inner);
  }
  out.End(outer);
  out.Varint(4, 5);
  Reader in(out.bytes());
  EXPECT_EQ(in.Field(kDelimited), 1);
  const std::string within = in.Bytes();
  EXPECT_EQ(in.Field(kVarint), 4);
  EXPECT_EQ(in.Varint(), 5u);
  EXPECT_TRUE(in.AtEnd());
  Reader outer_in(within);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(outer_in.Field(kDelimited), 2);
    const std::string message = outer_in.Bytes();
    Reader inner_in(message);
    EXPECT_EQ(inner_in.Field(kDelimited), 3);
    EXPECT_EQ(inner_in.Bytes(), text);
    EXPECT_TRUE(inner_in.AtEnd());
  }
  EXPECT_TRUE(outer_in.AtEnd());
}

TEST(ProtoBytes, MessagesOfAFile) {
  ProtoBytes out;
  for (const size_t length : {3u, 0u, 300u, 20000u}) {
    const size_t begun = out.BeginDelimited();
    out.bytes().append(length, 'm');
    out.End(begun);
  }
  Reader in(out.bytes());
  for (const size_t length : {3u, 0u, 300u, 20000u})
    EXPECT_EQ(in.Bytes(), std::string(length, 'm'));
  EXPECT_TRUE(in.AtEnd());
}

}  // namespace
}  // namespace gordian::exporters
