// FNV-1a (G. Fowler, L. Noll, P. Vo), 64 bits: the same number for the same words on every machine.
// Not for adversarial input.
#ifndef GORDIAN_ANALYZER_MODEL_HASH_H_
#define GORDIAN_ANALYZER_MODEL_HASH_H_

#include <cstdint>
#include <string_view>

namespace gordian::model {

class Hash {
 public:
  void Add(uint64_t word) {
    for (int i = 0; i < 8; ++i) Byte(static_cast<uint8_t>(word >> (8 * i)));
  }
  void Add(std::string_view text) {
    Add(text.size());
    for (const char c : text) Byte(static_cast<uint8_t>(c));
  }
  uint64_t value() const { return value_; }

 private:
  void Byte(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace gordian::model

#endif  // GORDIAN_ANALYZER_MODEL_HASH_H_
