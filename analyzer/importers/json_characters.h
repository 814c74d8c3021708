// Hands a JSON parser a file of any size, one character at a time, within bounds.
#ifndef GORDIAN_ANALYZER_IMPORTERS_JSON_CHARACTERS_H_
#define GORDIAN_ANALYZER_IMPORTERS_JSON_CHARACTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/importers/packed_input.h"

namespace gordian::importers {

inline constexpr size_t kMostJsonText = 1u << 20;  // of one text or number: PyTorch's are far below

// Ends the input at a text that is too long to hold. 64 KiB, so not for a stack. Not thread-safe.
// `pull` must outlive it.
class JsonCharacters {
 public:
  explicit JsonCharacters(const Pull& pull) : pull_(pull) { Fill(); }

  bool ended() const { return size_ == 0 || !fault_.empty(); }
  char current() const { return block_[at_]; }
  uint64_t offset() const { return before_ + at_; }
  // Where the last character was read that is neither space nor a comma; within a text, its quote.
  uint64_t last_ink() const { return last_ink_; }
  // One line; empty: none.
  const std::string& fault() const { return fault_; }
  // Ends the input here, for this reason.
  void Fail(std::string why) {
    if (fault_.empty()) fault_ = "byte " + std::to_string(offset()) + ": " + std::move(why);
  }

  void Next() {
    Follow(block_[at_]);
    if (++at_ == size_) {
      before_ += size_;
      Fill();
    }
  }

 private:
  void Fill() {
    at_ = 0;
    size_ = pull_(block_.data(), block_.size());
  }
  // Follows where texts begin and end, as far as their length asks for it.
  void Follow(char c) {
    if (in_text_) {
      ++run_;
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_text_ = false;
        run_ = 0;
        last_ink_ = offset();
      }
    } else if (c == '"') {
      in_text_ = true;
      run_ = 0;
      last_ink_ = offset();
    } else {
      if (std::string_view(", \t\r\n").find(c) == std::string_view::npos) last_ink_ = offset();
      run_ = std::string_view(",:{}[] \t\r\n").find(c) != std::string_view::npos ? 0 : run_ + 1;
    }
    if (run_ > kMostJsonText) Fail("a text or number of more than 1 MiB");
  }

  const Pull& pull_;
  std::array<char, 64u << 10> block_;
  size_t at_ = 0, size_ = 0;
  uint64_t before_ = 0, last_ink_ = 0;
  bool in_text_ = false, escaped_ = false;
  size_t run_ = 0;
  std::string fault_;
};

// What nlohmann-json reads from. All copies share the place of `of`.
class JsonIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  JsonIterator() = default;  // the end
  explicit JsonIterator(JsonCharacters* of) : of_(of) {}

  char operator*() const { return of_->current(); }
  JsonIterator& operator++() {
    of_->Next();
    return *this;
  }
  JsonIterator operator++(int) {
    JsonIterator before = *this;
    of_->Next();
    return before;
  }
  friend bool operator==(const JsonIterator& a, const JsonIterator& b) {
    return a.ended() == b.ended();
  }
  friend bool operator!=(const JsonIterator& a, const JsonIterator& b) { return !(a == b); }

 private:
  bool ended() const { return of_ == nullptr || of_->ended(); }
  JsonCharacters* of_ = nullptr;
};

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_JSON_CHARACTERS_H_
