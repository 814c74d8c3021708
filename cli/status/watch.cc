// gordian watch: redraws a job's status as it changes, until the job ends.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "cli/output.h"
#include "cli/status/status_source.h"
#include "cli/status/status_view.h"
#include "cli/verbs.h"
#include "common/clock.h"

namespace gordian::cli {
namespace {

constexpr uint64_t kLookEveryNs = 250 * kNsPerMs;
// Reading a job from its files is costly: do it at most this often, and for at most a tenth of the
// time.
constexpr uint64_t kReadEveryNs = kNsPerSecond;
constexpr uint64_t kReadShare = 10;
constexpr int kLineWidth = 1000;  // columns, when no terminal cuts lines
constexpr char kHideCursor[] = "\033[?25l";
constexpr char kShowCursor[] = "\033[?25h";

volatile sig_atomic_t end_signal = 0;
volatile sig_atomic_t stop_signal = 0;

void OnEndSignal(int number) { end_signal = number; }
void OnStopSignal(int) { stop_signal = 1; }
void OnResize(int) {}  // interrupts the wait

void Handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

int TerminalHeight(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 4 ? size.ws_row : 24;
}

// Shows the status. Show returns false when it can no longer do so.
class View {
 public:
  virtual ~View() = default;
  virtual bool Show(const SeenStatus& seen, const std::string& title) = 0;
  virtual void Leave() {}
  virtual void Stop() {}  // Ctrl-Z
};

class LineView final : public View {
 public:
  bool Show(const SeenStatus& seen, const std::string&) override {
    const std::string line = StatusHeadline(seen.status, kLineWidth);
    // A final status comes from files, which carry no revision.
    const auto revision = seen.status.find("revision");
    const int64_t number = revision != seen.status.end() && revision->is_number_integer()
                               ? revision->get<int64_t>()
                               : 0;
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
class ScreenView final : public View {
 public:
  ScreenView() : color_(WantsColor(STDOUT_FILENO)) {}
  ~ScreenView() override { Leave(); }

  bool Show(const SeenStatus& seen, const std::string& title) override {
    const int width = TerminalWidth(STDOUT_FILENO), height = TerminalHeight(STDOUT_FILENO);
    std::string screen = StatusScreen(seen.status, {color_, width, title});
    if (seen.running) {
      screen += "\nCtrl-C ends gordian watch, not the job\n";
    }
    const bool afresh = !drawn_ || width != width_ || height != height_;
    if (!afresh && screen == screen_) {
      return true;
    }
    screen_ = screen;
    width_ = width;
    height_ = height;
    std::string out = afresh ? std::string(kHideCursor) + "\033[H\033[2J" : "\033[H";
    drawn_ = true;
    std::istringstream lines(screen);
    std::string line;
    for (int row = 1; row < height && std::getline(lines, line); ++row) {
      out += line + "\033[K\n";
    }
    return PrintOut(out + "\033[J");
  }

  void Leave() override {
    if (drawn_) {
      WriteAll(STDOUT_FILENO, kShowCursor);
    }
    drawn_ = false;
  }

  void Stop() override {
    Leave();
    raise(SIGSTOP);
  }

 private:
  const bool color_;
  bool drawn_ = false;
  std::string screen_;
  int width_ = 0, height_ = 0;
};

// Returns at `mono_ns`, or when a signal comes.
void WaitUntil(uint64_t mono_ns) {
  while (end_signal == 0 && stop_signal == 0) {
    const uint64_t now = MonoNs();
    if (now >= mono_ns) {
      return;
    }
    if (poll(nullptr, 0, static_cast<int>((mono_ns - now) / kNsPerMs) + 1) < 0 && errno == EINTR) {
      return;
    }
  }
}

int Watch(const StatusFlags& flags) {
  StatusOr<StatusSource> source = StatusSource::Open(flags);
  if (!source.ok()) {
    PrintError(source.status().message() + " (try: gordian watch --help)");
    return kExitUsage;
  }
  const bool screen = isatty(STDOUT_FILENO) == 1;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    Handle(number, OnEndSignal);
  }
  if (screen) {
    Handle(SIGTSTP, OnStopSignal);
    Handle(SIGWINCH, OnResize);
  }
  std::unique_ptr<View> view;
  if (screen) {
    view = std::make_unique<ScreenView>();
  } else {
    view = std::make_unique<LineView>();
  }
  int exit_code = kExitUsage;
  bool any = false;
  while (true) {
    const uint64_t begin = MonoNs();
    const StatusOr<SeenStatus> seen = source->Look();
    if (end_signal != 0) {
      view->Leave();
      return 128 + end_signal;
    }
    if (!seen.ok()) {
      view->Leave();
      // An analyzer of many jobs drops a job that has ended.
      if (any && seen.status().code() == StatusCode::kNotFound) {
        return exit_code;
      }
      PrintError(seen.status().message());
      return kExitUsage;
    }
    any = true;
    exit_code = ExitCodeOfJobStatus(seen->status);
    if (!view->Show(*seen, source->title())) {
      return kExitUsage;
    }
    if (!seen->running) {
      view->Leave();
      if (!seen->note.empty()) {
        PrintNote(seen->note);
      }
      return exit_code;
    }
    const uint64_t took = MonoNs() - begin;
    WaitUntil(begin + (seen->live ? kLookEveryNs : std::max(kReadEveryNs, kReadShare * took)));
    if (stop_signal != 0) {
      stop_signal = 0;
      view->Stop();
    }
    if (end_signal != 0) {
      view->Leave();
      return 128 + end_signal;
    }
  }
}

}  // namespace

void AddWatchVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<StatusFlags>();
  CLI::App* verb = app.add_subcommand(
      "watch",
      "Show a job's status as it changes, until the job ends; a line for each change of "
      "the verdict when the output is no terminal");
  AddStatusOptions(verb, flags.get());
  verb->footer(std::string(kStatusExitCodes) +
               "Ctrl-C ends gordian watch and leaves the job running.\n" +
               "Example: gordian watch latest");
  verb->callback([=] {
    context->needs = Needs{.network = true};
    context->chosen = [=] { return Watch(*flags); };
  });
}

}  // namespace gordian::cli
