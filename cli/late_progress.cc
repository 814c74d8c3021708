#include "cli/late_progress.h"

#include <unistd.h>

#include "cli/output.h"

namespace gordian::cli {

LateProgress::LateProgress(bool quiet) : shows_(!quiet && isatty(STDERR_FILENO) != 0) {}

LateProgress::~LateProgress() {
  if (shown_) WriteAll(STDERR_FILENO, "\r\033[K");
}

void LateProgress::Say(const std::string& text) {
  const auto time = std::chrono::steady_clock::now();
  if (!shows_ || time < next_) return;
  next_ = time + std::chrono::milliseconds(200);
  shown_ = true;
  WriteAll(STDERR_FILENO, "\r\033[K" + text);
}

}  // namespace gordian::cli
