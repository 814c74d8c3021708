#include "cli/output.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "common/utf8.h"

namespace gordian::cli {
namespace {

constexpr int kMostPatienceMs = 1000;

std::string PrintableLines(std::string_view text) {
  std::string out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (at > 0) out += '\n';
    out += Printable(CleanUtf8(std::string(text.substr(at, end - at))));
    at = end + 1;
  }
  return out;
}

}  // namespace

bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      // The terminal or pipe is full, and another process has made it non-blocking.
      pollfd wait{.fd = fd, .events = POLLOUT, .revents = 0};
      if (errno == EAGAIN && poll(&wait, 1, kMostPatienceMs) > 0) {
        continue;
      }
      return false;
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void PrintError(std::string_view text) {
  WriteAll(STDERR_FILENO, "gordian: " + Printable(CleanUtf8(std::string(text))) + "\n");
}

void PrintErrorLines(std::string_view text) {
  WriteAll(STDERR_FILENO, "gordian: " + PrintableLines(text) + "\n");
}

void PrintNote(std::string_view text) { PrintError(text); }

bool PrintOut(std::string_view text) {
  if (WriteAll(STDOUT_FILENO, text)) {
    return true;
  }
  PrintError(std::string("cannot write to standard output: ") + strerror(errno));
  return false;
}

bool PrintText(std::string_view text) { return PrintOut(PrintableLines(text)); }

bool WantsColor(int fd) {
  const char* no_color = getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') {
    return false;
  }
  const char* term = getenv("TERM");
  if (term != nullptr && strcmp(term, "dumb") == 0) {
    return false;
  }
  return isatty(fd) == 1;
}

int TerminalWidth(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) {
    return std::clamp<int>(size.ws_col, 60, 160);
  }
  return 100;
}

std::string WithCommas(uint64_t number) {
  std::string digits = std::to_string(number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

}  // namespace gordian::cli
