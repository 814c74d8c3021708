// Pages of a fleet's server that are open: connections to its stream of events, which read all that
// comes.
#ifndef GORDIAN_BENCH_ANALYZE_OPEN_PAGES_H_
#define GORDIAN_BENCH_ANALYZE_OPEN_PAGES_H_

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace gordian::bench {

// Ends the program with a message if it cannot connect, or if the server closes a connection. One
// thread reads for all pages.
class OpenPages {
 public:
  OpenPages(int port, size_t count);  // of the server's HTTP on loopback
  ~OpenPages();

  void AwaitFirst() const;                   // until the server has written to each page
  uint64_t bytes() const { return bytes_; }  // of all pages

 private:
  void Read();

  std::vector<pollfd> pages_;
  std::vector<bool> begun_;  // the reading thread's
  std::thread reader_;
  std::atomic<bool> stopping_ = false;
  std::atomic<size_t> begun_count_ = 0;
  std::atomic<uint64_t> bytes_ = 0;
};

}  // namespace gordian::bench

#endif  // GORDIAN_BENCH_ANALYZE_OPEN_PAGES_H_
