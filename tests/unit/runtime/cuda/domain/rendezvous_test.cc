// Processes that meet by a name, exchange bytes and descriptors, and hear of each other's end.
#include "runtime/cuda/domain/rendezvous.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace gordian::runtime::cuda {
namespace {

constexpr int kTimeoutMs = 30000;

std::string UniqueName() {
  static int count = 0;
  return "test-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

// Runs body(rank) in a process for each rank; their exit statuses, -signal for those that were
// killed.
std::vector<int> InProcesses(int ranks, const std::function<int(int)>& body) {
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = fork();
    if (child == 0) _exit(body(r));
    children.push_back(child);
  }
  std::vector<int> statuses;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    statuses.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return statuses;
}

TEST(RendezvousTest, RanksExchangeBytesAndDescriptors) {
  const std::string name = UniqueName();
  const auto statuses = InProcesses(4, [&](int rank) {
    std::unique_ptr<Rendezvous> r;
    if (!Rendezvous::Join(name, rank, 4, kTimeoutMs, &r).ok()) return 1;
    std::vector<std::string> all;
    for (int round = 0; round < 50; ++round) {
      const auto text = [&](int of) {
        return std::string(1000 + round, static_cast<char>('a' + of + round % 20));
      };
      if (!r->AllGather(text(rank), kTimeoutMs, &all).ok()) return 2;
      for (int of = 0; of < 4; ++of) {
        if (all[of] != text(of)) return 3;
      }
    }
    int ends[2];
    if (pipe(ends) != 0) return 4;
    std::vector<int> descriptors;
    if (!r->AllGatherDescriptor(ends[1], kTimeoutMs, &descriptors).ok()) return 5;
    for (int of = 0; of < 4; ++of) {
      if ((descriptors[of] < 0) != (of == rank)) return 6;
      const char mine = static_cast<char>('A' + rank);
      if (of != rank && write(descriptors[of], &mine, 1) != 1) return 7;
    }
    std::string heard;
    char byte;
    while (heard.size() < 3 && read(ends[0], &byte, 1) == 1) heard += byte;
    std::string want;
    for (int of = 0; of < 4; ++of) {
      if (of != rank) want += static_cast<char>('A' + of);
    }
    std::sort(heard.begin(), heard.end());
    return heard == want ? 0 : 8;
  });
  EXPECT_EQ(statuses, std::vector<int>({0, 0, 0, 0}));
}

// A rank's watch writes what it hears to a pipe; -2: nothing was heard when all had said farewell.
int HearOfEnd(const std::string& name, int rank, int victim, bool dies) {
  std::unique_ptr<Rendezvous> r;
  if (!Rendezvous::Join(name, rank, 3, kTimeoutMs, &r).ok()) return 100;
  int ends[2];
  if (pipe(ends) != 0) return 101;
  if (!r->Watch([&](int who) {
          const char text = static_cast<char>(who);
          [[maybe_unused]] const ssize_t n = write(ends[1], &text, 1);
        }).ok()) {
    return 102;
  }
  if (!r->Barrier(kTimeoutMs).ok()) return 103;
  if (rank == victim) {
    if (dies) kill(getpid(), SIGKILL);
    return 0;  // with a farewell, by the destructor
  }
  if (dies) {
    char who = 50;
    if (read(ends[0], &who, 1) != 1) return 104;
    return who == victim ? 0 : 105;
  }
  r.reset();
  pollfd p{ends[0], POLLIN, 0};
  return poll(&p, 1, 0) == 0 ? 0 : 106;
}

TEST(RendezvousTest, ADeathIsToldToAll) {
  for (const int victim : {0, 1, 2}) {
    const std::string name = UniqueName();
    const auto statuses =
        InProcesses(3, [&](int rank) { return HearOfEnd(name, rank, victim, true); });
    for (int r = 0; r < 3; ++r)
      EXPECT_EQ(statuses[r], r == victim ? -SIGKILL : 0) << r << ", victim " << victim;
  }
}

TEST(RendezvousTest, AFarewellIsNoDeath) {
  for (const int leaver : {0, 1, 2}) {
    const std::string name = UniqueName();
    const auto statuses =
        InProcesses(3, [&](int rank) { return HearOfEnd(name, rank, leaver, false); });
    EXPECT_EQ(statuses, std::vector<int>({0, 0, 0})) << "leaver " << leaver;
  }
}

TEST(RendezvousTest, AnAlarmReachesAll) {
  for (const int caller : {0, 1}) {
    const std::string name = UniqueName();
    const auto statuses = InProcesses(3, [&](int rank) {
      std::unique_ptr<Rendezvous> r;
      if (!Rendezvous::Join(name, rank, 3, kTimeoutMs, &r).ok()) return 1;
      int ends[2];
      if (pipe(ends) != 0) return 2;
      const auto tell = [&](int who) {
        const char text = static_cast<char>(who);
        [[maybe_unused]] const ssize_t n = write(ends[1], &text, 1);
      };
      if (!r->Watch(tell).ok()) return 3;
      if (!r->Barrier(kTimeoutMs).ok()) return 4;
      int result = 0;
      if (rank == caller) {
        r->Alarm();
      } else {
        char who = 50;
        if (read(ends[0], &who, 1) != 1) return 5;
        result = who == -1 ? 0 : 6;
      }
      // The caller's farewell must not overtake its alarm on another way.
      return r->Barrier(kTimeoutMs).ok() ? result : 7;
    });
    EXPECT_EQ(statuses, std::vector<int>({0, 0, 0})) << "caller " << caller;
  }
}

TEST(RendezvousTest, ARankThatDoesNotComeIsADeadline) {
  std::unique_ptr<Rendezvous> r;
  EXPECT_EQ(Rendezvous::Join(UniqueName(), 0, 2, 50, &r).code(), StatusCode::kDeadline);
  EXPECT_EQ(Rendezvous::Join(UniqueName(), 1, 2, 50, &r).code(), StatusCode::kDeadline);
}

TEST(RendezvousTest, WhatMakesNoSense) {
  const std::string name = UniqueName();
  std::unique_ptr<Rendezvous> r;
  EXPECT_EQ(Rendezvous::Join("", 0, 1, 50, &r).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Rendezvous::Join(name, 2, 2, 50, &r).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Rendezvous::Join(name, 0, 9, 50, &r).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gordian::runtime::cuda
