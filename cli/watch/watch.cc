// gordian watch: shows a job's status as it changes, until the job ends.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>

#include "cli/output.h"
#include "cli/status/status_source.h"
#include "cli/status/status_view.h"
#include "cli/verbs.h"
#include "cli/watch/status_follower.h"
#include "cli/watch/terminal.h"
#include "cli/watch/watch_view.h"

namespace gordian::cli {
namespace {

volatile sig_atomic_t end_signal = 0;
volatile sig_atomic_t stop_signal = 0;
volatile sig_atomic_t continued = 0;
volatile sig_atomic_t resized = 0;

void OnEndSignal(int number) { end_signal = number; }
void OnStopSignal(int) { stop_signal = 1; }
void OnContinue(int) { continued = 1; }
void OnResize(int) { resized = 1; }

// Takes the signals, which come only while Wait waits: none is lost between two looks at the flags.
class Signals {
 public:
  explicit Signals(bool on_terminal) {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) Handle(number, OnEndSignal, &taken);
    if (on_terminal) {
      Handle(SIGTSTP, OnStopSignal, &taken);
      Handle(SIGCONT, OnContinue, &taken);
      Handle(SIGWINCH, OnResize, &taken);
    }
    sigprocmask(SIG_BLOCK, &taken, &before_);
  }
  ~Signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Until one of `fds` is readable, a signal comes, or the time (-1: none) is over: true.
  bool WaitedFor(pollfd* fds, nfds_t count, int timeout_ms) const {
    const timespec time{.tv_sec = timeout_ms / 1000, .tv_nsec = timeout_ms % 1000 * 1'000'000L};
    const int ready = ppoll(fds, count, timeout_ms < 0 ? nullptr : &time, &before_);
    for (nfds_t i = 0; i < count && ready < 0; ++i) fds[i].revents = 0;
    return ready == 0;
  }

 private:
  static void Handle(int number, void (*handler)(int), sigset_t* taken) {
    struct sigaction action {};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
    sigaddset(taken, number);
  }

  sigset_t before_;
};

class Watcher {
 public:
  Watcher(StatusSource source, bool on_terminal)
      : signals_(on_terminal),
        with_keys_(on_terminal && Terminal::Usable()),
        view_(with_keys_    ? MakeScreenView()
              : on_terminal ? MakeRedrawnView(source.title())
                            : MakeLineView()),
        follower_(std::move(source), with_keys_) {}

  int Run() {
    while (true) {
      pollfd fds[] = {{.fd = follower_.fd(), .events = POLLIN, .revents = 0},
                      {.fd = view_->reads_keys() && !keys_ended_ ? STDIN_FILENO : -1,
                       .events = POLLIN,
                       .revents = 0}};
      const bool waited = signals_.WaitedFor(fds, 2, view_->patience_ms());
      // What has come of a key is all of it.
      if (waited && !view_->Press("") && !EndWith(kExitUsage)) break;
      if (!(TakeSignals() && TakeNews(fds[0].revents != 0) && TakeKeys(fds[1].revents != 0))) {
        break;
      }
    }
    view_->Leave();
    if (!note_.empty()) PrintNote(note_);
    if (!error_.empty()) PrintError(error_);
    // A look at a large job may last for seconds, and the user waits for nothing any more.
    if (!follower_.End()) _exit(exit_code_);
    return exit_code_;
  }

 private:
  bool EndWith(int exit_code) {
    exit_code_ = exit_code;
    return false;
  }

  bool TakeSignals() {
    if (stop_signal != 0) {
      stop_signal = 0;
      view_->Stop();
      raise(SIGSTOP);
      continued = 1;
    }
    if (end_signal != 0) return EndWith(128 + end_signal);
    if (continued != 0) {
      continued = 0;
      follower_.WasStopped();
      if (!view_->Resume()) return EndWith(kExitUsage);
    }
    if (resized != 0) {
      resized = 0;
      if (!view_->Resize()) return EndWith(kExitUsage);
    }
    return true;
  }

  bool TakeNews(bool ready) {
    if (!ready) return true;
    const std::optional<StatusNews> news = follower_.Take();
    if (!news) return true;
    if (!news->seen.ok()) {
      const Status& status = news->seen.status();
      // An analyzer of many jobs drops a job that has ended.
      const bool dropped = any_ && status.code() == StatusCode::kNotFound;
      if (any_ && view_->stays()) {
        error_ = dropped ? "" : status.message();
        if (!dropped) exit_code_ = kExitUsage;
        return view_->ShowEnd(dropped ? "the job has ended" : status.message());
      }
      if (dropped) return false;
      error_ = status.message();
      return EndWith(kExitUsage);
    }
    any_ = true;
    exit_code_ = ExitCodeOfJobStatus(news->seen->status);
    if (!view_->Show(*news)) return EndWith(kExitUsage);
    if (news->seen->running) return true;
    note_ = news->seen->note;
    return view_->stays();
  }

  bool TakeKeys(bool ready) {
    if (!ready) return true;
    char bytes[256];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
    if (count <= 0) {
      keys_ended_ = count == 0 || (errno != EINTR && errno != EAGAIN);
      return true;
    }
    if (!view_->Press({bytes, static_cast<size_t>(count)})) return EndWith(kExitUsage);
    return !view_->quit();
  }

  const Signals signals_;
  const bool with_keys_;
  const std::unique_ptr<WatchView> view_;
  StatusFollower follower_;
  int exit_code_ = kExitUsage;
  bool any_ = false, keys_ended_ = false;
  std::string note_, error_;
};

int Watch(const StatusFlags& flags) {
  StatusOr<StatusSource> source = StatusSource::Open(flags);
  if (!source.ok()) {
    PrintError(source.status().message() + " (try: gordian watch --help)");
    return kExitUsage;
  }
  return Watcher(std::move(source).value(), isatty(STDOUT_FILENO) == 1).Run();
}

}  // namespace

void AddWatchVerb(CLI::App& app, VerbContext* context) {
  auto flags = std::make_shared<StatusFlags>();
  CLI::App* verb = app.add_subcommand(
      "watch",
      "Show a job's status as it changes, until the job ends; a line for each change of "
      "the verdict when the output is no terminal");
  AddStatusOptions(verb, flags.get());
  verb->footer(
      "On a terminal: the verdict, and lists of findings, ranks and communicators to move "
      "in.\n"
      "  Up, Down, j, k   move             Tab, 1 to 5   the next section, a section\n"
      "  Enter, Right     open a row       /             filter: 0-7, a call, a node\n"
      "  Left, Esc        close it         ?             all keys\n"
      "  q                end gordian watch with the verdict's exit code\n"
      "q and Ctrl-C leave the job running. Once a key was pressed, the screen stays after "
      "the job's end, until q.\n" +
      std::string(kStatusExitCodes) + "Example: gordian watch latest");
  verb->callback([=] {
    context->needs = Needs{.network = true};
    context->chosen = [=] { return Watch(*flags); };
  });
}

}  // namespace gordian::cli
