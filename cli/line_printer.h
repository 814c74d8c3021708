// Lines for people and programs from whoever must not wait for them: a terminal that is stopped, a
// pipe that nobody reads.
#ifndef GORDIAN_CLI_LINE_PRINTER_H_
#define GORDIAN_CLI_LINE_PRINTER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace gordian::cli {

// Thread-safe.
class LinePrinter {
 public:
  // What is kept of each stream for a reader that is slow. What is more is dropped, whole Says at a
  // time; where they would have stood, a line says how many lines they were.
  static constexpr size_t kMostBytes = 256 << 10;

  struct Stream {
    int fd = -1;  // not owned; two streams must not have the same
    // The line about lines that were dropped.
    std::function<std::string(uint64_t)> dropped;
  };
  explicit LinePrinter(std::vector<Stream> streams);
  // After half a second for what is left.
  ~LinePrinter();
  LinePrinter(const LinePrinter&) = delete;
  LinePrinter& operator=(const LinePrinter&) = delete;

  // Whole lines to one of the streams, by its place. Never waits; before Start they are kept.
  void Say(size_t stream, std::string lines);
  // Begins to print: `first` before whatever was said already.
  void Start(size_t stream, std::string first);

 private:
  struct Lane {
    Stream stream;
    std::deque<std::string> waiting;
    size_t bytes = 0;
    uint64_t dropped = 0;  // lines, since the last that was kept
    size_t written = 0;    // of the first in `waiting`
    bool gone = false;     // nobody reads it any more
  };

  void Keep(Lane* lane, std::string lines);
  // The next piece of it, which one write() of a writable pipe takes without waiting.
  static std::string_view Next(const Lane& lane);
  static void Written(Lane* lane, ptrdiff_t bytes);
  void Wake();
  void Run();

  const int wake_fd_;
  std::mutex mutex_;
  std::vector<Lane> lanes_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_LINE_PRINTER_H_
