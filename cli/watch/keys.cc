#include "cli/watch/keys.h"

#include <optional>
#include <utility>

#include "common/utf8.h"

namespace gordian::cli {
namespace {

// The longest sequence that a terminal sends for a key; what goes on for longer is none.
constexpr size_t kLongestSequence = 16;

// Of "ESC [ 5 ~" and "ESC [ 1 ; 5 A": the last byte, and the number in front. A modifier changes
// nothing.
std::optional<Key::Kind> SequenceKey(char last, int number) {
  switch (last) {
    case 'A':
      return Key::kUp;
    case 'B':
      return Key::kDown;
    case 'C':
      return Key::kRight;
    case 'D':
      return Key::kLeft;
    case 'H':
      return Key::kHome;
    case 'F':
      return Key::kEnd;
    case 'M':  // Enter of a keypad
      return Key::kEnter;
    case 'Z':
      return Key::kBackTab;
    case '~':
      switch (number) {
        case 1:
        case 7:
          return Key::kHome;
        case 4:
        case 8:
          return Key::kEnd;
        case 5:
          return Key::kPageUp;
        case 6:
          return Key::kPageDown;
        default:
          return std::nullopt;
      }
    default:
      return std::nullopt;
  }
}

// How many bytes the UTF-8 character has that begins with `first`.
size_t CharacterBytes(unsigned char first) {
  if (first >= 0xf0) return 4;
  if (first >= 0xe0) return 3;
  return first >= 0xc0 ? 2 : 1;
}

std::optional<Key> ByteKey(char byte) {
  switch (byte) {
    case '\r':
    case '\n':
      return Key{Key::kEnter, ""};
    case '\t':
      return Key{Key::kTab, ""};
    case '\b':
    case 0x7f:
      return Key{Key::kBackspace, ""};
    case 'L' - '@':
      return Key{Key::kRedraw, ""};
    case 'U' - '@':
      return Key{Key::kClearLine, ""};
    default:
      if (static_cast<unsigned char>(byte) < 0x20) return std::nullopt;
      return Key{Key::kText, std::string(1, byte)};
  }
}

}  // namespace

std::vector<Key> KeyDecoder::Take(std::string_view bytes) {
  rest_ += bytes;
  std::vector<Key> keys;
  size_t at = 0;
  while (at < rest_.size()) {
    const auto first = static_cast<unsigned char>(rest_[at]);
    const size_t left = rest_.size() - at;
    if (first == 0x1b) {
      if (left == 1) break;
      if (rest_[at + 1] != '[' && rest_[at + 1] != 'O') {
        keys.push_back({Key::kEscape, ""});
        ++at;
        continue;
      }
      size_t end = at + 2;
      int number = 0;
      bool in_number = true;
      while (end < rest_.size() && rest_[end] < 0x40 && rest_[end] >= 0x20) {
        in_number = in_number && rest_[end] >= '0' && rest_[end] <= '9';
        if (in_number && number < 1000) number = number * 10 + (rest_[end] - '0');
        ++end;
      }
      if (end == rest_.size()) {
        if (end - at < kLongestSequence) break;
        at = end;
        continue;
      }
      if (const auto kind = SequenceKey(rest_[end], number)) keys.push_back({*kind, ""});
      at = end + 1;
      continue;
    }
    if (first >= 0x80) {
      const size_t count = CharacterBytes(first);
      if (left < count) break;
      const std::string character = rest_.substr(at, count);
      if (CleanUtf8(character) == character && Printable(character) == character) {
        keys.push_back({Key::kText, character});
        at += count;
      } else {
        ++at;
      }
      continue;
    }
    if (auto key = ByteKey(rest_[at])) keys.push_back(std::move(*key));
    ++at;
  }
  rest_.erase(0, at);
  return keys;
}

std::vector<Key> KeyDecoder::Flush() {
  const std::string rest = std::exchange(rest_, "");
  if (rest.empty() || rest[0] != 0x1b || rest.size() > 2) return {};  // a piece of something
  std::vector<Key> keys = {{Key::kEscape, ""}};
  if (rest.size() == 2) keys.push_back({Key::kText, rest.substr(1)});
  return keys;
}

}  // namespace gordian::cli
