// The view of `gordian watch` that takes keys: joins the screen, the keys and the terminal.
#include <unistd.h>

#include <utility>

#include "cli/output.h"
#include "cli/status/status_view.h"
#include "cli/watch/keys.h"
#include "cli/watch/terminal.h"
#include "cli/watch/watch_screen.h"
#include "cli/watch/watch_view.h"

namespace gordian::cli {
namespace {

class ScreenView final : public WatchView {
 public:
  ScreenView() : terminal_(WantsColor(STDOUT_FILENO)) {}
  ~ScreenView() override { Leave(); }

  bool Show(const StatusNews& news) override {
    screen_.SetData(news.data);
    // Nobody reads on: the last screen comes when it leaves.
    return (!news.data->running && !stays()) || Draw();
  }

  // The user's screen comes back; the verdict stays below what was there.
  void Leave() override {
    if (std::exchange(left_, true)) return;
    terminal_.Leave();
    if (screen_.data() == nullptr) return;
    const Terminal::Size size = Terminal::size();
    screen_.SetSize(size.rows, size.columns);
    std::string out;
    for (const ShownLine& line : screen_.LastFrame()) {
      out += terminal_.Styled(line, Head()) + "\n";
    }
    WriteAll(STDOUT_FILENO, out);
  }

  void Stop() override {
    terminal_.Leave();
    entered_ = false;
  }

  bool Resume() override {
    entered_ = false;
    return Draw();
  }

  bool Resize() override {
    terminal_.Forget();
    return Draw();
  }

  bool reads_keys() const override { return entered_; }

  // A process that goes on in the background looks whether it is in front again.
  int patience_ms() const override {
    if (screen_.data() != nullptr && !entered_) return kLookForTerminalMs;
    return keys_.waits() ? KeyDecoder::kPatienceMs : -1;
  }

  bool Press(std::string_view bytes) override {
    for (const Key& key : bytes.empty() ? keys_.Flush() : keys_.Take(bytes)) {
      if (key.kind == Key::kRedraw) terminal_.Forget();
      screen_.Press(key);
      if (screen_.quit()) return true;
    }
    return Draw();
  }

  bool quit() const override { return screen_.quit(); }
  bool stays() const override { return screen_.touched() && entered_; }

  bool ShowEnd(const std::string& why) override {
    screen_.SetNotice(why + "; q quits");
    return Draw();
  }

 private:
  static constexpr int kLookForTerminalMs = 250;

  const char* Head() const { return VerdictStyle(screen_.data()->verdict.main); }

  bool Draw() {
    if (screen_.data() == nullptr) return true;
    if (!entered_) {
      // Whoever is in the background leaves the terminal to others.
      if (!Terminal::InForeground()) return true;
      if (!terminal_.Enter()) return false;
      entered_ = true;
    }
    const Terminal::Size size = Terminal::size();
    screen_.SetSize(size.rows, size.columns);
    return terminal_.Draw(screen_.Frame(), Head());
  }

  WatchScreen screen_;
  KeyDecoder keys_;
  Terminal terminal_;
  bool entered_ = false, left_ = false;
};

}  // namespace

std::unique_ptr<WatchView> MakeScreenView() { return std::make_unique<ScreenView>(); }

}  // namespace gordian::cli
