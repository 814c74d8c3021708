// Turns what a terminal sends into keys.
#ifndef GORDIAN_CLI_WATCH_KEYS_H_
#define GORDIAN_CLI_WATCH_KEYS_H_

#include <string>
#include <string_view>
#include <vector>

namespace gordian::cli {

struct Key {
  enum Kind {
    kText,  // one character, in `text`
    kUp,
    kDown,
    kLeft,
    kRight,
    kPageUp,
    kPageDown,
    kHome,
    kEnd,
    kEnter,
    kEscape,
    kTab,
    kBackTab,
    kBackspace,
    kClearLine,
    kRedraw,
  };
  Kind kind = kText;
  std::string text;

  friend bool operator==(const Key&, const Key&) = default;
};

// A key may come in several pieces, and the Esc key sends what others begin with.
class KeyDecoder {
 public:
  // Returns the keys that are complete. What a terminal sends beside known keys is dropped.
  std::vector<Key> Take(std::string_view bytes);
  // Whether a piece waits for more. If none comes within kPatienceMs, call Flush.
  bool waits() const { return !rest_.empty(); }
  std::vector<Key> Flush();

  static constexpr int kPatienceMs = 50;

 private:
  std::string rest_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WATCH_KEYS_H_
