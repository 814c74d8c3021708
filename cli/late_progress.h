// One line on a terminal's stderr about what takes long.
#ifndef GORDIAN_CLI_LATE_PROGRESS_H_
#define GORDIAN_CLI_LATE_PROGRESS_H_

#include <chrono>
#include <string>

namespace gordian::cli {

// Shown once it has taken two seconds, then five times a second at most; gone at its end.
class LateProgress {
 public:
  explicit LateProgress(bool quiet);
  ~LateProgress();
  LateProgress(const LateProgress&) = delete;
  LateProgress& operator=(const LateProgress&) = delete;

  void Say(const std::string& text);

 private:
  const bool shows_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_ =
      std::chrono::steady_clock::now() + std::chrono::seconds(2);
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_LATE_PROGRESS_H_
