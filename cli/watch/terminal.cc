#include "cli/watch/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <utility>

#include "cli/output.h"

namespace gordian::cli {
namespace {

constexpr char kOwnScreen[] = "\033[?1049h\033[?25l\033[H\033[2J";
constexpr char kUsersScreen[] = "\033[?25h\033[?1049l";
constexpr char kPlain[] = "\033[0m";
constexpr char kToEndOfLine[] = "\033[K";

}  // namespace

bool Terminal::InForeground() { return tcgetpgrp(STDIN_FILENO) == getpgrp(); }

bool Terminal::Usable() {
  const char* const term = getenv("TERM");
  return term != nullptr && *term != '\0' && strcmp(term, "dumb") != 0 &&
         isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && InForeground();
}

Terminal::Size Terminal::size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
    return {};
  }
  return {size.ws_row, size.ws_col};
}

bool Terminal::Enter() {
  termios now{};
  if (tcgetattr(STDIN_FILENO, &now) != 0) return false;
  // A process that was stopped from outside could not leave: what is there may be its own.
  if (!entered_) before_ = now;
  entered_ = true;
  now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  now.c_cc[VMIN] = 1;
  now.c_cc[VTIME] = 0;
  drawn_.clear();
  return tcsetattr(STDIN_FILENO, TCSANOW, &now) == 0 && WriteAll(STDOUT_FILENO, kOwnScreen);
}

void Terminal::Leave() {
  if (!std::exchange(entered_, false)) return;
  WriteAll(STDOUT_FILENO, kUsersScreen);
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

std::string Terminal::Styled(const ShownLine& line, const char* head) const {
  if (!color_) return line.text;
  switch (line.style) {
    case ShownLine::kHead:
      return head + line.text + kPlain;
    case ShownLine::kBold:
      return "\033[1m" + line.text + kPlain;
    case ShownLine::kDim:
      return "\033[2m" + line.text + kPlain;
    case ShownLine::kSelected:
      return "\033[7m" + line.text + kPlain;
    case ShownLine::kPlain:
      break;
  }
  if (line.bold == 0) return line.text;
  return "\033[1m" + line.text.substr(0, line.bold) + kPlain + line.text.substr(line.bold);
}

bool Terminal::Draw(const std::vector<ShownLine>& lines, const char* head) {
  std::string out;
  const bool all = drawn_.size() != lines.size() || drawn_head_ != head;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!all && lines[i] == drawn_[i]) continue;
    out += "\033[" + std::to_string(i + 1) + ";1H" + Styled(lines[i], head) + kToEndOfLine;
  }
  drawn_ = lines;
  drawn_head_ = head;
  return out.empty() || PrintOut(out);
}

}  // namespace gordian::cli
