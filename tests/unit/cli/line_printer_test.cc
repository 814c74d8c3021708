#include "cli/run/line_printer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gordian::cli {
namespace {

constexpr size_t kOut = 0, kErr = 1;

struct Pipe {
  Pipe() { EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0); }
  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }
  // What comes until `end` is in it.
  std::string ReadUntil(const std::string& end) {
    std::string text;
    while (text.find(end) == std::string::npos) {
      pollfd wait{.fd = ends[0], .events = POLLIN, .revents = 0};
      char buffer[4096];
      const ssize_t n = poll(&wait, 1, 30'000) > 0 ? read(ends[0], buffer, sizeof buffer) : 0;
      if (n <= 0) {
        ADD_FAILURE() << "nothing more after: "
                      << text.substr(text.size() - std::min<size_t>(text.size(), 200));
        break;
      }
      text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }
  int ends[2] = {-1, -1};
};

std::string Dropped(uint64_t lines) { return "dropped " + std::to_string(lines) + "\n"; }

std::unique_ptr<LinePrinter> On(const Pipe& out, const Pipe& err) {
  return std::make_unique<LinePrinter>(std::vector<LinePrinter::Stream>{
      {.fd = out.ends[1], .dropped = Dropped}, {.fd = err.ends[1], .dropped = Dropped}});
}

TEST(LinePrinterTest, PrintsInOrderTheFirstFirst) {
  Pipe out, err;
  auto printer = On(out, err);
  printer->Say(kOut, "two\n");
  printer->Start(kOut, "one\n");
  printer->Say(kErr, "aside\n");
  printer->Say(kOut, "three\n");
  EXPECT_EQ(out.ReadUntil("three\n"), "one\ntwo\nthree\n");
  EXPECT_EQ(err.ReadUntil("aside\n"), "aside\n");
}

// More than the pipe and the printer hold, and nobody reads: a Say that waited would never return.
TEST(LinePrinterTest, NeverWaitsAndCountsWhatItDrops) {
  Pipe out, err;
  auto printer = On(out, err);
  printer->Start(kOut, "begin\n");
  constexpr int kLines = 20'000;
  const std::string rest(80, 'x');
  for (int i = 0; i < kLines; ++i) {
    printer->Say(kOut, std::to_string(i) + " " + rest + "\n");
  }
  printer->Say(kErr, "the other stream goes on\n");
  err.ReadUntil("goes on\n");

  // There may be several gaps: what the pipe takes meanwhile makes room for more.
  int lines = 0, dropped = 0, last = -1;
  std::string text = out.ReadUntil("\n");
  size_t at = text.find('\n') + 1;
  EXPECT_EQ(text.substr(0, at), "begin\n");
  while (lines + dropped < kLines && !HasFailure()) {
    size_t end = text.find('\n', at);
    if (end == std::string::npos) {
      text = text.substr(at) + out.ReadUntil("\n");
      at = 0;
      continue;
    }
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("dropped ")) {
      dropped += std::stoi(line.substr(8));
      continue;
    }
    ++lines;
    EXPECT_EQ(line.substr(line.find(' ') + 1), rest) << "a line in pieces";
    EXPECT_GT(std::stoi(line), last);
    last = std::stoi(line);
  }
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(lines + dropped, kLines);
  EXPECT_EQ(text.substr(at), "");
  // It goes on as before.
  printer->Say(kOut, "after\n");
  EXPECT_EQ(out.ReadUntil("after\n"), "after\n");
}

TEST(LinePrinterTest, EndsThoughNobodyReads) {
  Pipe out, err;
  auto printer = On(out, err);
  printer->Start(kOut, std::string(200'000, 'x') + "\n");
  printer.reset();  // would not return
}

TEST(LinePrinterTest, AReaderThatHasGoneIsNoError) {
  Pipe out, err;
  signal(SIGPIPE, SIG_IGN);
  close(std::exchange(out.ends[0], -1));
  auto printer = On(out, err);
  printer->Start(kOut, "one\n");
  for (int i = 0; i < 1000; ++i) {
    printer->Say(kOut, "more\n");
  }
  printer->Say(kErr, "still there\n");
  EXPECT_EQ(err.ReadUntil("there\n"), "still there\n");
}

// 2>&1: what one stream has filled is full for the other.
TEST(LinePrinterTest, TwoStreamsMayBeOnePipe) {
  Pipe both;
  const int again = dup(both.ends[1]);
  {
    LinePrinter printer(
        {{.fd = both.ends[1], .dropped = Dropped}, {.fd = again, .dropped = Dropped}});
    printer.Start(kOut, "begin\n");
    for (int i = 0; i < 3000; ++i) {
      printer.Say(i % 2 == 0 ? kOut : kErr, std::string(100, 'y') + "\n");
    }
  }  // its end waits for no reader
  close(again);
  EXPECT_EQ(both.ReadUntil("begin\n").substr(0, 6), "begin\n");
}

}  // namespace
}  // namespace gordian::cli
