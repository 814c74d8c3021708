// How processes meet for a communicator, and how memory is handed over between them.
#include "runtime/cuda_api/meeting.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cpu/futex.h"
#include "runtime/cuda_api/piece_server.h"

namespace gordian::runtime::cuda {
namespace {

constexpr uint64_t kPatienceNs = 30'000'000'000;

std::string UniqueName() {
  static int count = 0;
  return "gordian-rt-test-meeting-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

std::vector<int> InProcesses(int ranks, const std::function<int(uint32_t)>& body) {
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = fork();
    if (child == 0) _exit(body(static_cast<uint32_t>(r)));
    children.push_back(child);
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return codes;
}

bool NameIsThere(const std::string& name) {
  return access(("/dev/shm/" + name).c_str(), F_OK) == 0;
}

Attendee Saying(uint64_t agreement, uint64_t region_at) {
  Attendee own = {};
  own.agreement = agreement;
  own.region_at = region_at;
  return own;
}

// Who asks for which ports first does not matter: all members get the same answer for a tag that
// all ask for.
TEST(MeetingTest, PortsAreTheSameOnAllMembers) {
  const std::string name = UniqueName();
  const std::vector<int> codes = InProcesses(3, [&](uint32_t rank) {
    std::shared_ptr<Meeting> meeting;
    if (Meeting::Come(name, 3, rank, Saying(1, 0), &meeting) != grtSuccess) return 250;
    if (meeting->AwaitAll(DeadlineIn(kPatienceNs)) != grtSuccess) return 251;
    // More tags than there are places, in orders of the ranks' own.
    uint32_t got = 0;
    const uint32_t tags = kMostPorts + 20;
    uint32_t digest = 17;
    std::vector<bool> has(tags);
    for (uint32_t i = 0; i < tags; ++i) {
      const uint32_t k = rank == 0 ? i : rank == 1 ? tags - 1 - i : (i * 37 + 11) % tags;
      has[k] = meeting->TakePort(1000 + k);
      if (meeting->TakePort(1000 + k) != has[k]) return 252;
    }
    for (uint32_t k = 0; k < tags; ++k) {
      got += has[k] ? 1 : 0;
      digest = (digest * 31 + (has[k] ? k : 7)) % 199;
    }
    return got == kMostPorts ? static_cast<int>(digest) : 253;
  });
  EXPECT_LT(codes[0], 199);
  EXPECT_EQ(codes[1], codes[0]);
  EXPECT_EQ(codes[2], codes[0]);
}

// Two members of one process, which has one mapping of the page: the first has closed its
// descriptor when the second comes.
TEST(MeetingTest, MembersOfOneProcess) {
  const std::string name = UniqueName();
  std::shared_ptr<Meeting> first, second;
  ASSERT_EQ(Meeting::Come(name, 2, 0, Saying(7, 1), &first), grtSuccess);
  first->CloseDescriptor();
  EXPECT_FALSE(first->AllHere());
  ASSERT_EQ(Meeting::Come(name, 2, 1, Saying(7, 2), &second), grtSuccess);
  second->CloseDescriptor();
  EXPECT_EQ(first->AwaitAll(DeadlineIn(kPatienceNs)), grtSuccess);
  EXPECT_EQ(first->page(), second->page());
  EXPECT_EQ(first->of(1).region_at, 2u);
  EXPECT_FALSE(second->IsCaptured());
  first->NoteCaptured();
  EXPECT_TRUE(second->IsCaptured());
  first->Leave(true);
  EXPECT_FALSE(second->AllAreOver());
  second->Leave(true);
  EXPECT_TRUE(first->AllAreOver());
  EXPECT_FALSE(NameIsThere(name));
}

// In two meetings, which the ranks come to in different orders.
TEST(MeetingTest, AllLearnWhatAllSaidInAnyOrder) {
  const std::string a = UniqueName(), b = UniqueName();
  const auto codes = InProcesses(3, [&](uint32_t rank) {
    std::shared_ptr<Meeting> meetings[2];
    for (int i = 0; i < 2; ++i) {
      const bool first = (rank == 1) == (i == 0);
      if (Meeting::Come(first ? a : b, 3, rank, Saying(7, rank * 10 + (first ? 1 : 2)),
                        &meetings[first ? 0 : 1]) != grtSuccess)
        return 1;
    }
    for (int i = 0; i < 2; ++i) {
      if (meetings[i]->AwaitAll(DeadlineIn(kPatienceNs)) != grtSuccess) return 2;
      for (uint32_t r = 0; r < 3; ++r) {
        if (meetings[i]->of(r).region_at != r * 10 + static_cast<uint64_t>(i) + 1) return 3;
      }
      if ((meetings[i]->of(rank).pid == getpid()) != true ||
          meetings[i]->of((rank + 1) % 3).pid == getpid())
        return 4;
    }
    return 0;
  });
  EXPECT_EQ(codes, std::vector<int>({0, 0, 0}));
  EXPECT_FALSE(NameIsThere(a));
  EXPECT_FALSE(NameIsThere(b));
}

TEST(MeetingTest, WhoDoesNotComeIsATimeoutAndWhoDisagreesIsTold) {
  const std::string name = UniqueName();
  std::shared_ptr<Meeting> first, second, again;
  ASSERT_EQ(Meeting::Come(name, 2, 0, Saying(1, 0), &first), grtSuccess);
  EXPECT_EQ(first->AwaitAll(DeadlineIn(1'000'000)), grtTimeout);
  EXPECT_EQ(Meeting::Come(name, 2, 0, Saying(1, 0), &again), grtInvalidUsage);  // a rank comes once
  ASSERT_EQ(Meeting::Come(name, 2, 1, Saying(2, 0), &second), grtSuccess);
  EXPECT_EQ(first->AwaitAll(DeadlineIn(kPatienceNs)), grtInvalidUsage);
  EXPECT_EQ(second->AwaitAll(DeadlineIn(kPatienceNs)), grtInvalidUsage);
}

TEST(MeetingTest, FailureAndLeavingAreSeenByAll) {
  const std::string name = UniqueName();
  const auto codes = InProcesses(2, [&](uint32_t rank) {
    std::shared_ptr<Meeting> meeting;
    if (Meeting::Come(name, 2, rank, Saying(1, 0), &meeting) != grtSuccess) return 1;
    if (meeting->AwaitAll(DeadlineIn(kPatienceNs)) != grtSuccess) return 2;
    if (rank == 1) {
      __atomic_store_n(meeting->failed(), 5, __ATOMIC_RELEASE);
      meeting->Leave(true);
      return meeting->HasLeft(1) && !meeting->HasLeft(0) ? 0 : 3;
    }
    const int64_t deadline = DeadlineIn(kPatienceNs);
    while (!meeting->HasLeft(1) && NowNs() < deadline) usleep(100);
    if (!meeting->HasLeft(1) || meeting->AllAreOver() ||
        __atomic_load_n(meeting->failed(), __ATOMIC_ACQUIRE) != 5)
      return 4;
    meeting->Leave(true);
    return meeting->AllAreOver() && !meeting->SomeNeverEnd() ? 0 : 5;
  });
  EXPECT_EQ(codes, std::vector<int>({0, 0}));
}

// Who leaves while its kernels may run has left, but what it was given is never free again.
TEST(MeetingTest, WhoAbortsIsNeverOver) {
  for (const bool over : {true, false}) {
    const std::string name = UniqueName();
    std::shared_ptr<Meeting> first, second;
    ASSERT_EQ(Meeting::Come(name, 2, 0, Saying(1, 0), &first), grtSuccess);
    ASSERT_EQ(Meeting::Come(name, 2, 1, Saying(1, 0), &second), grtSuccess);
    second->Leave(over);
    EXPECT_TRUE(first->HasLeft(1));
    EXPECT_EQ(first->SomeNeverEnd(), !over);
    EXPECT_FALSE(first->AllAreOver());
    first->Leave(true);
    EXPECT_EQ(second->AllAreOver(), over);
  }
}

// A communicator that has failed is not waited for.
TEST(MeetingTest, AFailureEndsTheWait) {
  const std::string name = UniqueName();
  std::shared_ptr<Meeting> first, second;
  ASSERT_EQ(Meeting::Come(name, 3, 0, Saying(1, 0), &first), grtSuccess);
  ASSERT_EQ(Meeting::Come(name, 3, 1, Saying(1, 0), &second), grtSuccess);
  std::thread fails([&] {
    __atomic_store_n(second->failed(), 2, __ATOMIC_RELEASE);
    second->WakeWaiting();
  });
  EXPECT_EQ(first->AwaitAll(DeadlineIn(kPatienceNs)), grtRemoteError);
  fails.join();
  unlink(("/dev/shm/" + name).c_str());  // not all came, so none of them removed it
}

TEST(MeetingTest, ValuesAreExchanged) {
  const std::string name = UniqueName();
  const auto codes = InProcesses(4, [&](uint32_t rank) {
    std::vector<uint64_t> all;
    if (Exchange(name, 4, rank, 100 + rank, DeadlineIn(kPatienceNs), &all) != grtSuccess) return 1;
    return all == std::vector<uint64_t>({100, 101, 102, 103}) ? 0 : 2;
  });
  EXPECT_EQ(codes, std::vector<int>({0, 0, 0, 0}));
  EXPECT_FALSE(NameIsThere(name));
}

// Signals that come all the time, to handlers that do not restart calls, disturb neither side.
TEST(PieceServerTest, SignalsDoNotEndATransfer) {
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  const int memory = memfd_create("piece", MFD_CLOEXEC);
  ASSERT_GE(memory, 0);
  const pthread_t fetcher = pthread_self();
  std::atomic<bool> asked{false};
  std::unique_ptr<PieceServer> server;
  const auto find = [&](uint64_t, uint64_t* bytes) {
    *bytes = 10;
    asked = true;
    // The fetcher waits for this answer meanwhile.
    for (int i = 0; i < 20; ++i) {
      pthread_kill(fetcher, SIGUSR1);
      kill(getpid(), SIGUSR1);
      usleep(500);
    }
    return memory;
  };
  ASSERT_TRUE(PieceServer::Start({{}, find, {}, {}}, &server).ok());
  uint64_t bytes = 0;
  int got = -1;
  const Status status = PieceServer::Fetch(server->name(), 4096, 10000, &bytes, &got);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(asked);
  EXPECT_EQ(bytes, 10u);
  EXPECT_GE(got, 0);
  server.reset();
  close(got);
  close(memory);
  sigaction(SIGUSR1, &before, nullptr);
}

// A process gives another one memory that it has written.
TEST(PieceServerTest, HandsOverWhatIsThere) {
  const int memory = memfd_create("piece", MFD_CLOEXEC);
  ASSERT_GE(memory, 0);
  ASSERT_EQ(write(memory, "piece 4096", 10), 10);
  std::unique_ptr<PieceServer> server;
  const auto find = [&](uint64_t offset, uint64_t* bytes) {
    *bytes = 10;
    return offset == 4096 ? memory : -1;
  };
  ASSERT_TRUE(PieceServer::Start({{}, find, {}, {}}, &server).ok());
  const auto codes = InProcesses(3, [&](uint32_t rank) {
    uint64_t bytes = 0;
    int got = -1;
    const Status status =
        PieceServer::Fetch(server->name(), rank == 2 ? 8192 : 4096, 10000, &bytes, &got);
    if (rank == 2) return !status.ok() && got < 0 ? 0 : 1;
    char text[11] = {};
    if (!status.ok() || bytes != 10 || pread(got, text, 10, 0) != 10) return 2;
    return std::string(text) == "piece 4096" ? 0 : 3;
  });
  EXPECT_EQ(codes, std::vector<int>({0, 0, 0}));
  const std::string name = server->name();
  server.reset();
  uint64_t bytes = 0;
  int got = -1;
  EXPECT_FALSE(PieceServer::Fetch(name, 4096, 1000, &bytes, &got).ok());
  close(memory);
}

}  // namespace
}  // namespace gordian::runtime::cuda
