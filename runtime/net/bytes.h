// Numbers and texts as bytes, lowest byte first, for what goes between machines.
#ifndef GORDIAN_RUNTIME_NET_BYTES_H_
#define GORDIAN_RUNTIME_NET_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace gordian::runtime::net {

inline void PutNumber(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) *out += static_cast<char>(value >> (8 * i) & 0xff);
}
inline void PutText(std::string_view text, std::string* out) {
  PutNumber(text.size(), 4, out);
  out->append(text);
}

// Reads what was put, in order. After a read beyond the end, ok() is false and all reads are empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  bool ok() const { return ok_; }
  bool AtEnd() const { return rest_.empty(); }
  std::string_view Bytes(size_t count) {
    ok_ = ok_ && count <= rest_.size();
    if (!ok_) return {};
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }
  uint64_t Number(int bytes) {
    uint64_t value = 0;
    int shift = 0;
    for (const char c : Bytes(static_cast<size_t>(bytes))) {
      value |= uint64_t{static_cast<unsigned char>(c)} << shift;
      shift += 8;
    }
    return value;
  }
  std::string_view Text() { return Bytes(Number(4)); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace gordian::runtime::net

#endif  // GORDIAN_RUNTIME_NET_BYTES_H_
