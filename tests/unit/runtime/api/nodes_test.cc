// Communicators on several nodes: each rank is a process, and each node a name, so that processes
// of different ones share no memory and meet over loopback. GORDIAN_TEST_ORDERS: how many random
// orders (5), and GORDIAN_TEST_FIRST_ORDER: from which on.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <numeric>
#include <string>
#include <thread>

#include "runtime/cpu/engine.h"
#include "runtime/cpu/futex.h"
#include "tests/unit/runtime/ranks.h"

namespace gordian::runtime::testing {
namespace {

constexpr int kMost = 8;

// What the processes of a test share beside what they test.
struct Shared {
  grtUniqueId id;
  std::atomic<int> has_id;
  std::atomic<int> ready;
  std::atomic<int> go;
  char text[kMost][256];
};

int Given(const char* name, int otherwise) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::atoi(given) : otherwise;
}

class Nodes : public ::testing::Test {
 protected:
  struct Rank {
    int number = 0, ranks = 0;
    grtComm_t comm = nullptr;
    cudaStream_t stream = nullptr;
  };
  using Body = std::function<int(Rank&)>;

  Nodes() {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    shared_ = new (memory) Shared();
    setenv("GRT_NET_ADDRESS", "127.0.0.1", 1);
    static int tests = 0;
    setenv("GRT_SESSION", (std::to_string(getpid()) + "nodes" + std::to_string(++tests)).c_str(),
           1);
    setenv("UCX_TLS", "tcp", 1);
    setenv("UCX_NET_DEVICES", "lo", 1);
  }
  ~Nodes() override {
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    munmap(shared_, sizeof(Shared));
    // Those who are killed before all have met leave their names.
    for (const std::filesystem::path& each : Leftovers()) std::filesystem::remove(each);
  }

  // One process a rank, on these nodes; rank 0's makes the id. With `init` the communicator and a
  // stream are made before `body`, and ended after it.
  void Start(const std::vector<std::string>& nodes, const Body& body,
             const grtConfig_t* config = nullptr, bool init = true) {
    const auto ranks = static_cast<int>(nodes.size());
    for (int r = 0; r < ranks; ++r) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid != 0) {
        pids_.push_back(pid);
        continue;
      }
      setenv("GRT_NODE", nodes[r].c_str(), 1);
      if (r == 0) {
        if (grtGetUniqueId(&shared_->id) != grtSuccess) exit(90);
        shared_->has_id = 1;
      }
      while (shared_->has_id == 0) std::this_thread::yield();
      Rank rank{r, ranks};
      int ended = 0;
      if (init) {
        ended = grtCommInitRankConfig(&rank.comm, ranks, shared_->id, r, config);
        if (ended == grtSuccess) ended = grtStreamCreate(&rank.stream);
      }
      if (ended == grtSuccess) ended = body(rank);
      if (rank.stream != nullptr) grtStreamDestroy(rank.stream);
      if (rank.comm != nullptr && ended == 0) ended = grtCommDestroy(rank.comm, kPatienceNs);
      exit(ended);  // waits until the others know that this process leaves
    }
  }

  // How a rank's process has ended: its exit code, or minus the signal.
  int End(int rank) {
    int status = 0;
    waitpid(pids_[rank], &status, 0);
    pids_[rank] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void AllEnd(int how) {
    for (size_t r = 0; r < pids_.size(); ++r) EXPECT_EQ(End(static_cast<int>(r)), how) << r;
  }
  // No shared memory is left behind.
  static void ExpectNoLeftovers() {
    for (const std::filesystem::path& each : Leftovers()) ADD_FAILURE() << each << " is left";
  }
  static std::vector<std::filesystem::path> Leftovers() {
    const std::string mark = "gordian-rt-" + std::string(std::getenv("GRT_SESSION")) + "-";
    std::vector<std::filesystem::path> left;
    for (const auto& each : std::filesystem::directory_iterator("/dev/shm")) {
      if (each.path().filename().string().rfind(mark, 0) == 0) left.push_back(each.path());
    }
    return left;
  }

  Shared* shared_;
  std::vector<pid_t> pids_;
};

struct Buffers {
  std::vector<Bytes> inputs, scalars;
  Bytes out;
};

// All ranks' inputs, equal on all; the output of one.
Buffers Prepare(const Case& c, int ranks, int rank, uint32_t seed) {
  Buffers b;
  std::mt19937 random(seed);
  for (int r = 0; r < ranks; ++r) {
    b.inputs.push_back(RandomElements(c.type, InputElements(c, ranks, r), random));
    if (c.op == grtPreMulSum) b.scalars.push_back(RandomElements(c.type, 1, random));
  }
  b.out.resize(OutputElements(c, ranks, rank) * ElementSize(c.type) + 1, 0xa5);
  return b;
}

grtOpDesc_t Describe(const Case& c, int rank, Buffers* b, grtComm_t comm) {
  grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
  d.kind = c.kind;
  d.in = b->inputs[rank].data();
  d.out = b->out.data();
  d.count = c.count;
  d.type = c.type;
  d.op = c.op;
  d.root_or_peer = c.root;
  d.comm = comm;
  if (c.op == grtPreMulSum) d.scalar = b->scalars[rank].data();
  return d;
}

// Whether the output is, bit by bit, what one node has (ranks.h's serial reference).
bool IsRight(const Case& c, int rank, const Buffers& b) {
  const Bytes expected = Expected(c, b.inputs, b.scalars)[rank];
  const bool right = b.out.back() == 0xa5 &&
                     std::equal(expected.begin(), expected.end(), b.out.begin(), b.out.end() - 1);
  const auto ranks = static_cast<int>(b.inputs.size());
  if (!right) fprintf(stderr, "rank %d: wrong %s\n", rank, Name(c, ranks).c_str());
  return right;
}

int RunOne(const Case& c, int rank, int ranks, grtComm_t comm, cudaStream_t stream, uint32_t seed) {
  Buffers b = Prepare(c, ranks, rank, seed);
  grtResult_t result = grtSuccess;
  if (c.kind == grtKindSend) {
    grtGroupStart();
    grtSend(b.inputs[rank].data(), c.count, c.type, (rank + 1) % ranks, comm, stream);
    grtRecv(b.out.data(), c.count, c.type, (rank + ranks - 1) % ranks, comm, stream);
    result = grtGroupEnd();
  } else {
    const grtOpDesc_t d = Describe(c, rank, &b, comm);
    result = grtSubmit(&d, stream, nullptr);
  }
  if (result == grtSuccess) result = grtStreamSynchronize(stream, kPatienceNs);
  if (result == grtSuccess) grtCommGetAsyncError(comm, &result);
  if (result != grtSuccess) {
    fprintf(stderr, "rank %d: %s ended with %d\n", rank, Name(c, ranks).c_str(), result);
    return 1;
  }
  return IsRight(c, rank, b) ? 0 : 2;
}

class Placements : public Nodes, public ::testing::WithParamInterface<std::vector<std::string>> {};
INSTANTIATE_TEST_SUITE_P(Where, Placements,
                         ::testing::Values(std::vector<std::string>{"a", "a", "b", "b"},
                                           std::vector<std::string>{"a", "b", "a", "b"},
                                           std::vector<std::string>{"a", "b", "b", "c", "a"},
                                           std::vector<std::string>{"a", "a"}));

TEST_P(Placements, EveryKindOfEveryCount) {
  Start(GetParam(), [](Rank& rank) {
    uint32_t seed = 1;
    for (const grtKind_t kind :
         {grtKindAllReduce, grtKindAllGather, grtKindReduceScatter, grtKindBroadcast, grtKindReduce,
          grtKindAllToAll, grtKindGather, grtKindScatter, grtKindSend}) {
      for (const size_t count : {0, 1, 3, 1000, 100001}) {
        Case c{kind, grtFloat32, grtSum, count, static_cast<int>(seed) % rank.ranks, false};
        if (const int bad = RunOne(c, rank.number, rank.ranks, rank.comm, rank.stream, ++seed)) {
          return bad;
        }
      }
    }
    return 0;
  });
  AllEnd(0);
  ExpectNoLeftovers();
}

TEST_P(Placements, EveryReductionOfEveryTypeAndOperator) {
  grtConfig_t config = GRT_CONFIG_INITIALIZER;
  config.channels = 2;
  config.chunk_bytes = 4096;
  Start(
      GetParam(),
      [](Rank& rank) {
        uint32_t seed = 1000;
        for (int type = grtInt8; type <= grtFloat8e5m2; ++type) {
          for (int op = grtSum; op <= grtPreMulSum; ++op) {
            for (const grtKind_t kind : {grtKindAllReduce, grtKindReduceScatter, grtKindReduce}) {
              const Case c{kind,
                           static_cast<grtDataType_t>(type),
                           static_cast<grtRedOp_t>(op),
                           seed % 3 == 0 ? size_t{9001} : size_t{37},
                           1,
                           false};
              if (const int bad =
                      RunOne(c, rank.number, rank.ranks, rank.comm, rank.stream, ++seed)) {
                return bad;
              }
            }
          }
        }
        return 0;
      },
      &config);
  AllEnd(0);
}

// Each rank calls operations on ports of their own, and sends and receives, in an order of its own.
// Workers sleep until they are rung, so that a lost ring is a hang.
int RandomOrders(int rank, int ranks, grtComm_t comm, cudaStream_t stream, bool detached) {
  Engine::SetLongestSleep(kForever);
  constexpr int kPorts = 40;
  std::vector<grtPort_t> ports(kPorts);
  for (int p = 0; p < kPorts; ++p) {
    if (grtPortOpen(comm, static_cast<uint32_t>(p + 1), nullptr, &ports[p]) != grtSuccess) return 1;
  }
  const int first = Given("GORDIAN_TEST_FIRST_ORDER", 0);
  for (int order = first; order < first + Given("GORDIAN_TEST_ORDERS", 5); ++order) {
    std::mt19937 random(static_cast<uint32_t>(order));
    constexpr grtKind_t kKinds[] = {grtKindAllReduce, grtKindAllGather, grtKindReduceScatter,
                                    grtKindBroadcast, grtKindReduce,    grtKindAllToAll};
    std::vector<Case> cases;
    std::vector<Buffers> buffers;
    for (int p = 0; p < kPorts; ++p) {
      Case c{kKinds[random() % 6],
             grtFloat32,
             grtSum,
             1 + random() % 64,
             static_cast<int>(random() % static_cast<uint32_t>(ranks)),
             false};
      // Some do not fit their lanes, so that they hold up what is behind them where they can.
      if (random() % 8 == 0) c.count = 20000 + random() % 40000;
      cases.push_back(c);
      buffers.push_back(Prepare(c, ranks, rank, static_cast<uint32_t>(random())));
    }
    // And one to each rank, one from each.
    const Case pair{grtKindSend, grtInt32, grtSum, 20000, 0, false};
    std::vector<Bytes> received(static_cast<size_t>(ranks));
    Bytes sent = RandomElements(grtInt32, pair.count, random);
    std::vector<int> sequence(static_cast<size_t>(kPorts + 2 * ranks));
    std::iota(sequence.begin(), sequence.end(), 0);
    std::mt19937 own(static_cast<uint32_t>(order * 64 + rank));
    std::shuffle(sequence.begin(), sequence.end(), own);
    std::vector<grtOp_t> handles;
    for (const int at : sequence) {
      grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
      if (at < kPorts) {
        d = Describe(cases[at], rank, &buffers[at], comm);
        d.port = ports[at];
      } else {
        const int peer = (at - kPorts) % ranks;
        d.kind = at - kPorts < ranks ? grtKindSend : grtKindRecv;
        d.type = grtInt32;
        d.count = pair.count;
        d.root_or_peer = peer;
        d.comm = comm;
        d.in = sent.data();
        if (d.kind == grtKindRecv) {
          received[peer].resize(sent.size());
          d.out = received[peer].data();
        }
      }
      d.order = detached ? grtOrderDetached : grtOrderStrict;
      handles.push_back(nullptr);
      if (grtSubmit(&d, detached ? nullptr : stream, &handles.back()) != grtSuccess) return 2;
    }
    for (const grtOp_t handle : handles) {
      const grtResult_t ended = grtOpWait(handle, kPatienceNs);
      if (ended != grtSuccess) {
        fprintf(stderr, "rank %d: order %d ended with %d\n", rank, order, ended);
        return 3;
      }
      grtOpFree(handle);
    }
    for (int p = 0; p < kPorts; ++p) {
      if (!IsRight(cases[p], rank, buffers[p])) return 4;
    }
    // All ranks sent the same.
    for (const Bytes& each : received) {
      if (each != sent) return 5;
    }
  }
  return 0;
}

class Orders : public Nodes, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(StrictAndDetached, Orders, ::testing::Bool());

TEST_P(Orders, OfEachRanksOwn) {
  grtConfig_t config = GRT_CONFIG_INITIALIZER;
  config.chunk_bytes = 8 << 10;
  Start(
      {"a", "a", "b", "b"},
      [detached = GetParam()](Rank& rank) {
        return RandomOrders(rank.number, rank.ranks, rank.comm, rank.stream, detached);
      },
      &config);
  AllEnd(0);
  ExpectNoLeftovers();
}

TEST_F(Nodes, ChildrenOfACommunicator) {
  Start({"a", "a", "b", "b"}, [](Rank& rank) {
    for (int round = 0; round < 3; ++round) {
      // Across the nodes; within them; of one rank here and three there.
      const int color = round == 0   ? rank.number % 2
                        : round == 1 ? rank.number / 2
                                     : rank.number > 0;
      const int ranks = round == 2 ? (rank.number > 0 ? 3 : 1) : 2;
      const int own = round == 0   ? rank.number / 2
                      : round == 1 ? rank.number % 2
                                   : std::max(0, rank.number - 1);
      grtComm_t child = nullptr;
      if (grtCommSplit(rank.comm, color, rank.number, &child, nullptr, kPatienceNs) != grtSuccess) {
        return 10;
      }
      const Case c{grtKindAllReduce, grtFloat64, grtSum, 5000, 0, false};
      const int bad = RunOne(c, own, ranks, child, rank.stream, static_cast<uint32_t>(round));
      if (grtCommDestroy(child, kPatienceNs) != grtSuccess) return 11;
      if (bad != 0) return bad;
    }
    return 0;
  });
  AllEnd(0);
  ExpectNoLeftovers();
}

// Who has done its part may end at once, though it takes messages for others of its node.
TEST_F(Nodes, OneThatIsThroughMayEnd) {
  for (int round = 0; round < 4; ++round) {
    shared_->has_id = 0;
    pids_.clear();
    Start({"a", "a", "b", "b"}, [round](Rank& rank) {
      // Of a broadcast the root is through first; of a reduction all others.
      const Case c{round % 2 == 0 ? grtKindBroadcast : grtKindReduce, grtInt32,      grtSum,
                   round < 2 ? size_t{10} : size_t{200000},           1 + round / 2, false};
      return RunOne(c, rank.number, rank.ranks, rank.comm, rank.stream, 7);
    });
    AllEnd(0);
  }
  ExpectNoLeftovers();
}

// An operation of all ranks, of which one does something else; how it ends at the others.
int EndOfAllReduce(int rank, grtComm_t comm, char* text) {
  static std::vector<float> in(100000, 1), out(100000);
  grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
  d.in = in.data();
  d.out = out.data();
  d.count = in.size();
  d.comm = comm;
  d.order = grtOrderDetached;
  grtOp_t op = nullptr;
  grtResult_t result = grtSubmit(&d, nullptr, &op);
  if (result == grtSuccess) result = grtOpWait(op, kPatienceNs);
  grtCommErrorText(comm, text, sizeof Shared::text[0]);
  return rank >= 0 ? static_cast<int>(result) : 0;
}

TEST_F(Nodes, OneThatIsKilledIsNamed) {
  Start({"a", "a", "b", "b"}, [this](Rank& rank) {
    const Case c{grtKindAllReduce, grtInt32, grtSum, 10, 0, false};
    if (const int bad = RunOne(c, rank.number, 4, rank.comm, rank.stream, 1)) return bad;
    ++shared_->ready;
    if (rank.number == 2) {
      for (;;) pause();
    }
    return EndOfAllReduce(rank.number, rank.comm, shared_->text[rank.number]);
  });
  while (shared_->ready < 4) std::this_thread::yield();
  kill(pids_[2], SIGKILL);
  EXPECT_EQ(End(2), -SIGKILL);
  for (const int r : {0, 1, 3}) {
    EXPECT_EQ(End(r), grtPeerDead);
    EXPECT_NE(std::string(shared_->text[r]).find("rank 2 on node b"), std::string::npos)
        << shared_->text[r];
  }
}

TEST_F(Nodes, ANodeThatIsKilledIsNamed) {
  Start({"a", "b", "b", "a"}, [this](Rank& rank) {
    const Case c{grtKindAllReduce, grtInt32, grtSum, 10, 0, false};
    if (const int bad = RunOne(c, rank.number, 4, rank.comm, rank.stream, 1)) return bad;
    ++shared_->ready;
    if (rank.number == 1 || rank.number == 2) {
      for (;;) pause();
    }
    return EndOfAllReduce(rank.number, rank.comm, shared_->text[rank.number]);
  });
  while (shared_->ready < 4) std::this_thread::yield();
  for (const int r : {1, 2}) kill(pids_[r], SIGKILL);
  for (const int r : {1, 2}) EXPECT_EQ(End(r), -SIGKILL);
  for (const int r : {0, 3}) {
    EXPECT_EQ(End(r), grtPeerDead);
    EXPECT_NE(std::string(shared_->text[r]).find(" on node b is lost"), std::string::npos)
        << shared_->text[r];
  }
}

// Of a node that is cut off nothing comes, not even the end of a connection.
TEST_F(Nodes, OneThatDoesNotAnswerIsNamed) {
  setenv("GRT_NET_DEADLINE_MS", "500", 1);
  Start({"a", "a", "b"}, [this](Rank& rank) {
    const Case c{grtKindAllReduce, grtInt32, grtSum, 10, 0, false};
    if (const int bad = RunOne(c, rank.number, 3, rank.comm, rank.stream, 1)) return bad;
    ++shared_->ready;
    if (rank.number == 2) {
      for (;;) pause();
    }
    while (shared_->go == 0) std::this_thread::yield();
    return EndOfAllReduce(rank.number, rank.comm, shared_->text[rank.number]);
  });
  unsetenv("GRT_NET_DEADLINE_MS");
  while (shared_->ready < 3) std::this_thread::yield();
  kill(pids_[2], SIGSTOP);
  shared_->go = 1;
  for (const int r : {0, 1}) {
    EXPECT_EQ(End(r), grtPeerDead);
    EXPECT_NE(std::string(shared_->text[r]).find("rank 2 on node b is lost: no answer"),
              std::string::npos)
        << shared_->text[r];
  }
}

// Another one of the process's communicators goes on.
TEST_F(Nodes, OthersGoOnAfterAMemberIsKilled) {
  Start({"a", "b", "b"}, [this](Rank& rank) {
    grtComm_t child = nullptr;
    if (grtCommSplit(rank.comm, rank.number < 2 ? 0 : 1, 0, &child, nullptr, kPatienceNs) != 0) {
      return 10;
    }
    ++shared_->ready;
    if (rank.number == 2) {
      for (;;) pause();
    }
    int ended = EndOfAllReduce(rank.number, rank.comm, shared_->text[rank.number]);
    if (ended != grtPeerDead) return 11;
    const Case c{grtKindAllGather, grtInt32, grtSum, 100000, 0, false};
    ended = RunOne(c, rank.number, 2, child, rank.stream, 1);
    grtCommDestroy(child, kPatienceNs);
    return ended;
  });
  while (shared_->ready < 3) std::this_thread::yield();
  kill(pids_[2], SIGKILL);
  EXPECT_EQ(End(0), 0);
  EXPECT_EQ(End(1), 0);
}

TEST_F(Nodes, AnAbortEndsTheOperationsOfAll) {
  Start({"a", "a", "b", "b"}, [this](Rank& rank) {
    if (rank.number == 3) {
      while (shared_->ready < 3) std::this_thread::yield();
      grtCommAbort(rank.comm);
      rank.comm = nullptr;
      return 0;
    }
    ++shared_->ready;
    return EndOfAllReduce(rank.number, rank.comm, shared_->text[rank.number]);
  });
  EXPECT_EQ(End(3), 0);
  for (int r = 0; r < 3; ++r) EXPECT_EQ(End(r), grtAborted);
}

TEST_F(Nodes, MembersThatDisagreeAreTold) {
  Start({"a", "a", "b", "b"}, [this](Rank& rank) {
    if (rank.number != 3) {
      return EndOfAllReduce(rank.number, rank.comm, shared_->text[rank.number]);
    }
    std::vector<int32_t> in(7), out(7);
    grtResult_t result =
        grtAllReduce(in.data(), out.data(), 7, grtInt32, grtSum, rank.comm, rank.stream);
    if (result == grtSuccess) result = grtStreamSynchronize(rank.stream, kPatienceNs);
    if (result == grtSuccess) grtCommGetAsyncError(rank.comm, &result);
    return static_cast<int>(result);
  });
  AllEnd(grtMismatch);
  ExpectNoLeftovers();
}

// It learns nothing, and does the others no harm: they work once the true member has come.
TEST_F(Nodes, AWrongTokenIsRefused) {
  Start(
      {"a", "b"},
      [this](Rank& rank) {
        if (rank.number == 1) {
          grtUniqueId wrong = shared_->id;
          wrong.internal[20] = static_cast<char>(wrong.internal[20] ^ 1);  // of the token
          grtComm_t stranger = nullptr;
          if (grtCommInitRankConfig(&stranger, 2, wrong, 1, nullptr) != grtSuccess) return 10;
          if (EndOfAllReduce(1, stranger, shared_->text[1]) != grtInvalidUsage) return 11;
          grtCommAbort(stranger);
        }
        if (grtCommInitRankConfig(&rank.comm, 2, shared_->id, rank.number, nullptr) != grtSuccess) {
          return 12;
        }
        return EndOfAllReduce(rank.number, rank.comm, shared_->text[0]);
      },
      nullptr, false);
  AllEnd(0);
  EXPECT_NE(std::string(shared_->text[1]).find("the token is wrong"), std::string::npos)
      << shared_->text[1];
}

TEST_F(Nodes, OtherArgumentsAreToldToAll) {
  Start(
      {"a", "b"},
      [this](Rank& rank) {
        grtConfig_t config = GRT_CONFIG_INITIALIZER;
        config.window = rank.number == 0 ? 4 : 8;
        const int made = grtCommInitRankConfig(&rank.comm, 2, shared_->id, rank.number, &config);
        if (made != grtSuccess) return made;
        return EndOfAllReduce(rank.number, rank.comm, shared_->text[rank.number]);
      },
      nullptr, false);
  AllEnd(grtInvalidUsage);
  ExpectNoLeftovers();
  EXPECT_NE(std::string(shared_->text[0]).find("has other arguments"), std::string::npos)
      << shared_->text[0];
}

TEST_F(Nodes, WithoutTheLibraryItsPackageIsNamed) {
  setenv("GRT_UCX_LIBRARY", "libnowhere.so.0", 1);
  Start(
      {"a"},
      [this](Rank& rank) {
        const int made = grtCommInitRankConfig(&rank.comm, 1, shared_->id, 0, nullptr);
        grtCommErrorText(nullptr, shared_->text[0], sizeof shared_->text[0]);
        return made;
      },
      nullptr, false);
  unsetenv("GRT_UCX_LIBRARY");
  AllEnd(grtSystemError);
  const std::string text = shared_->text[0];
  EXPECT_NE(text.find("libnowhere.so.0"), std::string::npos) << text;
  EXPECT_NE(text.find("libucx0"), std::string::npos) << text;
}

}  // namespace
}  // namespace gordian::runtime::testing
