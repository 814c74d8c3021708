// Writes protobuf's wire format field by field, for formats whose schema is not ours: exporting
// millions of small messages costs a fraction of what building message objects would. Facts:
// protobuf.dev/programming-guides/encoding.
#ifndef GORDIAN_ANALYZER_EXPORTERS_PROTO_BYTES_H_
#define GORDIAN_ANALYZER_EXPORTERS_PROTO_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gordian::exporters {

// Not thread-safe. Appends to one buffer, which its user may empty between two messages.
class ProtoBytes {
 public:
  void Varint(int field, uint64_t value);
  // int32 and int64 that may be negative.
  void Signed(int field, int64_t value) { Varint(field, static_cast<uint64_t>(value)); }
  void Fixed64(int field, uint64_t value);
  void Text(int field, std::string_view value);  // string and bytes; replaces what is no UTF-8

  // What is written between the two is a message in that field.
  size_t Begin(int field);
  void End(size_t begun);
  // The same without a field: a message behind its length, as in a file of many.
  size_t BeginDelimited();

  std::string& bytes() { return bytes_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void Raw(uint64_t value);

  std::string bytes_;
};

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_PROTO_BYTES_H_
