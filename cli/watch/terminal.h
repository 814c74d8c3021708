// The terminal of standard input and output, while keys are read from it and a screen of its own is
// drawn on it. What the user had there comes back when it is left.
#ifndef GORDIAN_CLI_WATCH_TERMINAL_H_
#define GORDIAN_CLI_WATCH_TERMINAL_H_

#include <termios.h>

#include <string>
#include <vector>

#include "cli/watch/watch_screen.h"

namespace gordian::cli {

class Terminal {
 public:
  // Whether standard input and output are terminals that can do so, and this process is in the
  // foreground there.
  static bool Usable();
  static bool InForeground();

  struct Size {
    size_t rows = 24, columns = 80;
  };
  static Size size();

  explicit Terminal(bool color) : color_(color) {}
  ~Terminal() { Leave(); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Takes the keys: no echo, no waiting for Enter. Signals such as Ctrl-C stay. Call it again after
  // the process was stopped. False: the terminal has gone.
  bool Enter();
  void Leave();

  // Writes the lines that differ from those of the last time. `head` is the style of kHead.
  bool Draw(const std::vector<ShownLine>& lines, const char* head);
  void Forget() { drawn_.clear(); }  // draws all of the next time

  // A line as it is written.
  std::string Styled(const ShownLine& line, const char* head) const;

 private:
  const bool color_;
  bool entered_ = false;
  termios before_{};
  std::vector<ShownLine> drawn_;
  std::string drawn_head_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WATCH_TERMINAL_H_
