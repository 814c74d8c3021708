// The views of `gordian watch` that take no keys.
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "cli/output.h"
#include "cli/status/status_fields.h"
#include "cli/status/status_view.h"
#include "cli/watch/watch_view.h"

namespace gordian::cli {
namespace {

constexpr int kLineWidth = 1000;  // columns, when no terminal cuts lines
constexpr char kHideCursor[] = "\033[?25l";
constexpr char kShowCursor[] = "\033[?25h";

int TerminalHeight(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 4 ? size.ws_row : 24;
}

class LineView final : public WatchView {
 public:
  bool Show(const StatusNews& news) override {
    const std::string line = StatusHeadline(news.seen->status, kLineWidth);
    // A final status comes from files, which carry no revision.
    const int64_t number = FieldNumber(news.seen->status, "revision", 0);
    if (line == line_ && (number == revision_ || number == 0)) {
      return true;
    }
    line_ = line;
    revision_ = number;
    return PrintOut(line);
  }

 private:
  std::string line_;
  int64_t revision_ = 0;
};

// Overwrites lines in place, so that the screen does not flicker, and writes nothing when nothing
// changed.
class RedrawnView final : public WatchView {
 public:
  explicit RedrawnView(std::string title)
      : title_(std::move(title)), color_(WantsColor(STDOUT_FILENO)) {}
  ~RedrawnView() override { Leave(); }

  bool Show(const StatusNews& news) override {
    width_ = TerminalWidth(STDOUT_FILENO);
    std::string screen = StatusScreen(news.seen->status, {color_, width_, title_});
    if (news.seen->running) {
      screen += "\nCtrl-C ends gordian watch, not the job\n";
    }
    if (drawn_ && screen == screen_) {
      return true;
    }
    screen_ = std::move(screen);
    return Draw();
  }

  void Leave() override {
    if (drawn_) {
      WriteAll(STDOUT_FILENO, kShowCursor);
    }
    drawn_ = false;
  }

  void Stop() override { Leave(); }

  // The next status is drawn for the new size, and all of it.
  bool Resize() override {
    Leave();
    return true;
  }

 private:
  bool Draw() {
    const int height = TerminalHeight(STDOUT_FILENO);
    std::string out = drawn_ ? "\033[H" : std::string(kHideCursor) + "\033[H\033[2J";
    drawn_ = true;
    std::istringstream lines(screen_);
    std::string line;
    for (int row = 1; row < height && std::getline(lines, line); ++row) {
      out += line + "\033[K\n";
    }
    return PrintOut(out + "\033[J");
  }

  const std::string title_;
  const bool color_;
  bool drawn_ = false;
  std::string screen_;
  int width_ = 0;
};

}  // namespace

std::unique_ptr<WatchView> MakeLineView() { return std::make_unique<LineView>(); }

std::unique_ptr<WatchView> MakeRedrawnView(std::string title) {
  return std::make_unique<RedrawnView>(std::move(title));
}

}  // namespace gordian::cli
