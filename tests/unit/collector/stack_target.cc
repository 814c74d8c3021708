// A process whose stacks are read by stack_taker_test: says "ready", runs until its standard input
// ends, then says what it noticed.
//
//   still    sits in Inner, called by Outer; a second thread in epoll_wait, a third in nanosleep
//   hidden   the same, and not to be traced by who has no privilege
//   churn    threads that begin, call deeply, sleep and end all the time
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

namespace {

std::atomic<bool> stop{false};
std::atomic<uint64_t> noticed{0};  // calls that failed, sums that are wrong
std::atomic<uint64_t> work{0};

__attribute__((noinline)) uint64_t Sum(uint64_t n) {
  asm volatile("" : "+r"(n));  // one frame a call, whatever the compiler knows of sums
  return n == 0 ? 0 : n + Sum(n - 1);
}

void Churn() {
  while (!stop) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([i] {
        const uint64_t n = 50 + static_cast<uint64_t>(i) * 100;
        const timespec pause{.tv_sec = 0, .tv_nsec = 200'000};
        pollfd none{.fd = -1, .events = 0, .revents = 0};
        if (Sum(n) != n * (n + 1) / 2 || nanosleep(&pause, nullptr) != 0 ||
            poll(&none, 1, 1) != 0) {
          ++noticed;
        }
        ++work;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace

extern "C" __attribute__((noinline)) void Inner() {
  char byte;
  ssize_t got;
  while ((got = read(0, &byte, 1)) > 0) {
  }
  if (got < 0) ++noticed;
  asm volatile("");
}
extern "C" __attribute__((noinline)) void Outer() {
  Inner();
  asm volatile("");
}

int main(int argc, char** argv) {
  const bool churn = argc > 1 && strcmp(argv[1], "churn") == 0;
  if (argc > 1 && strcmp(argv[1], "hidden") == 0) prctl(PR_SET_DUMPABLE, 0);
  std::vector<std::thread> threads;
  const int wake = eventfd(0, EFD_CLOEXEC);
  if (churn) {
    for (int i = 0; i < 2; ++i) threads.emplace_back(Churn);
  } else {
    threads.emplace_back([wake] {
      const int epoll = epoll_create1(EPOLL_CLOEXEC);
      epoll_event event{.events = EPOLLIN, .data = {.u64 = 0}};
      epoll_ctl(epoll, EPOLL_CTL_ADD, wake, &event);
      if (epoll_wait(epoll, &event, 1, -1) != 1) ++noticed;
      close(epoll);
    });
    threads.emplace_back([] {
      while (!stop) {
        const timespec pause{.tv_sec = 0, .tv_nsec = 50'000'000};
        if (nanosleep(&pause, nullptr) != 0) ++noticed;
      }
    });
  }
  puts("ready");
  fflush(stdout);
  Outer();
  stop = true;
  const uint64_t one = 1;
  if (write(wake, &one, sizeof one) != sizeof one) return 2;
  for (std::thread& thread : threads) thread.join();
  printf("noticed %lu, worked %d\n", noticed.load(), !churn || work > 0);
  return 0;
}
