// Prints lines on behalf of threads that must not block: a stopped terminal or a full pipe holds up
// only the printer's own thread.
#ifndef GORDIAN_CLI_RUN_LINE_PRINTER_H_
#define GORDIAN_CLI_RUN_LINE_PRINTER_H_

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
  // Bytes kept of each stream for a slow reader. The printer drops what exceeds them, whole Says at
  // a time, and prints in their place how many lines it dropped.
  static constexpr size_t kMostBytes = 256 << 10;

  struct Stream {
    int fd = -1;  // not owned; two streams must not have the same
    // Makes the line that says how many lines were dropped.
    std::function<std::string(uint64_t)> dropped;
  };
  explicit LinePrinter(std::vector<Stream> streams);
  // Waits at most half a second for the remaining lines.
  ~LinePrinter();
  LinePrinter(const LinePrinter&) = delete;
  LinePrinter& operator=(const LinePrinter&) = delete;

  // Queues whole lines for the stream of that index. Never blocks; keeps lines said before Start.
  void Say(size_t stream, std::string lines);
  // Begins to print: `first`, then the lines queued before.
  void Start(size_t stream, std::string first);

 private:
  struct Lane {
    Stream stream;
    std::deque<std::string> waiting;
    size_t bytes = 0;
    uint64_t dropped = 0;  // lines dropped since the last one that was kept
    size_t written = 0;    // of the first in `waiting`
    bool gone = false;     // the reader closed its end
  };

  void Keep(Lane* lane, std::string lines);
  // The next piece, small enough for one write() to a writable pipe not to block.
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

#endif  // GORDIAN_CLI_RUN_LINE_PRINTER_H_
