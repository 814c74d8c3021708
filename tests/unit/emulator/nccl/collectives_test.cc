// Results: all types, operators and kinds, in and out of place, in one process and in many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/emulator/nccl/elements.h"
#include "tests/unit/emulator/nccl/job.h"
#include "tests/unit/emulator/nccl/members.h"

namespace gordian::emu::test {
namespace {

enum class Op { kSum, kProd, kMax, kMin, kAvg, kPreMulSum };
constexpr Op kOps[] = {Op::kSum, Op::kProd, Op::kMax, Op::kMin, Op::kAvg, Op::kPreMulSum};

// What rank `rank` contributes at `index`; small, so that fp8 has it exactly, and of both signs
// where the type has them.
template <typename T>
T Input(int rank, size_t index) {
  double value = static_cast<double>((index * 7 + rank * 3) % 5) + 0.5;
  if constexpr (std::is_integral_v<T>) value += 0.5;
  if ((!std::is_integral_v<T> || std::is_signed_v<T>)&&(index + rank) % 3 == 0) value = -value;
  return Element<T>::FromDouble(value);
}

double Scalar(int rank) { return rank + 2; }

// The exact result, in double; wraps with the type for integers.
template <typename T>
double Expected(Op op, int nranks, size_t index) {
  double result = 0;
  for (int r = 0; r < nranks; ++r) {
    double x = Element<T>::ToDouble(Input<T>(r, index));
    if (op == Op::kPreMulSum) x *= Scalar(r);
    if (r == 0) {
      result = x;
    } else if (op == Op::kProd) {
      result *= x;
    } else if (op == Op::kMax) {
      result = std::max(result, x);
    } else if (op == Op::kMin) {
      result = std::min(result, x);
    } else {
      result += x;
    }
  }
  if constexpr (std::is_integral_v<T>) {
    auto wrapped = static_cast<T>(static_cast<int64_t>(result));
    if (op == Op::kAvg) wrapped = static_cast<T>(wrapped / static_cast<T>(nranks));
    return static_cast<double>(wrapped);
  }
  return op == Op::kAvg ? result / nranks : result;
}

constexpr size_t kPeriod = 15;  // of Input along the index

template <typename T>
void RequireResult(const std::vector<T>& got, Op op, int nranks, size_t first_index) {
  double expected[kPeriod];
  for (size_t i = 0; i < kPeriod; ++i) {
    expected[i] = Expected<T>(op, nranks, i);
    // Saturates as fp8 does.
    if constexpr (!std::is_integral_v<T>) {
      expected[i] = Element<T>::ToDouble(Element<T>::FromDouble(expected[i]));
    }
  }
  for (size_t i = 0; i < got.size(); ++i) {
    double want = expected[(first_index + i) % kPeriod];
    double actual = Element<T>::ToDouble(got[i]);
    // A sum in another order may differ by a step of each addition.
    double bound = Element<T>::kEpsilon * std::fabs(want) * nranks;
    if (std::fabs(actual - want) <= bound) continue;
    std::fprintf(stderr, "op %d, %d ranks, index %zu: %g instead of %g\n", static_cast<int>(op),
                 nranks, first_index + i, actual, want);
    REQUIRE(!"a wrong result");
  }
}

template <typename T>
std::vector<T> Inputs(int rank, size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = i < kPeriod ? Input<T>(rank, i) : values[i - kPeriod];
  return values;
}

// The ncclRedOp_t of one member for `op`.
template <typename T>
ncclRedOp_t Operator(Op op, ncclDataType_t type, const Member& member) {
  constexpr ncclRedOp_t kBuiltIn[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg};
  if (op != Op::kPreMulSum) return kBuiltIn[static_cast<int>(op)];
  T scalar = Element<T>::FromDouble(Scalar(member.rank));
  ncclRedOp_t made = ncclSum;
  REQUIRE_NCCL(
      ncclRedOpCreatePreMulSum(&made, &scalar, type, ncclScalarHostImmediate, member.comm));
  return made;
}

template <typename T>
void CheckReductions(Members& members, ncclDataType_t type, Op op, size_t count, bool in_place) {
  int n = members.nranks();
  auto sends = members.Buffers(count * n * sizeof(T));
  auto recvs = members.Buffers(count * n * sizeof(T));
  std::vector<ncclRedOp_t> ops;
  for (const Member& member : members.list()) ops.push_back(Operator<T>(op, type, member));
  auto fill = [&] {
    for (size_t i = 0; i < ops.size(); ++i)
      sends[i]->Write(Inputs<T>(members.list()[i].rank, count * n));
  };
  auto recv_of = [&](size_t i) { return (in_place ? sends[i] : recvs[i])->template As<T>(); };

  fill();
  members.Run([&](size_t i, const Member& m) {
    REQUIRE_NCCL(
        ncclAllReduce(sends[i]->As<T>(), recv_of(i), count, type, ops[i], m.comm, m.stream));
  });
  for (size_t i = 0; i < ops.size(); ++i) {
    RequireResult((in_place ? sends[i] : recvs[i])->template Read<T>(count), op, n, 0);
  }

  fill();
  members.Run([&](size_t i, const Member& m) {
    T* recv = in_place ? sends[i]->As<T>() + m.rank * count : recvs[i]->As<T>();
    REQUIRE_NCCL(ncclReduceScatter(sends[i]->As<T>(), recv, count, type, ops[i], m.comm, m.stream));
  });
  for (size_t i = 0; i < ops.size(); ++i) {
    size_t block = members.list()[i].rank * count;
    RequireResult(in_place ? sends[i]->Read<T>(count, block) : recvs[i]->Read<T>(count), op, n,
                  block);
  }

  int root = n - 1;
  fill();
  members.Run([&](size_t i, const Member& m) {
    T* recv = m.rank == root ? recv_of(i) : nullptr;
    REQUIRE_NCCL(ncclReduce(sends[i]->As<T>(), recv, count, type, ops[i], root, m.comm, m.stream));
  });
  for (size_t i = 0; i < ops.size(); ++i) {
    if (members.list()[i].rank != root) continue;
    RequireResult((in_place ? sends[i] : recvs[i])->template Read<T>(count), op, n, 0);
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    if (op == Op::kPreMulSum) REQUIRE_NCCL(ncclRedOpDestroy(ops[i], members.list()[i].comm));
  }
}

template <typename T>
void RequireBlock(const Buffer& buffer, size_t at, int from_rank, size_t from, size_t count) {
  std::vector<T> got = buffer.Read<T>(count, at);
  std::vector<T> expected = Inputs<T>(from_rank, from + count);
  REQUIRE(std::memcmp(got.data(), expected.data() + from, count * sizeof(T)) == 0);
}

template <typename T>
void CheckMoves(Members& members, ncclDataType_t type, size_t count, bool in_place) {
  int n = members.nranks();
  auto sends = members.Buffers(count * n * sizeof(T));
  auto recvs = members.Buffers(count * n * sizeof(T));
  size_t here = members.list().size();
  auto fill = [&] {
    for (size_t i = 0; i < here; ++i) sends[i]->Write(Inputs<T>(members.list()[i].rank, count * n));
  };
  auto rank_of = [&](size_t i) { return members.list()[i].rank; };

  fill();
  for (size_t i = 0; i < here && in_place; ++i) {
    recvs[i]->Write(Inputs<T>(rank_of(i), count), rank_of(i) * count);
  }
  members.Run([&](size_t i, const Member& m) {
    const T* send = in_place ? recvs[i]->As<T>() + m.rank * count : sends[i]->As<T>();
    REQUIRE_NCCL(ncclAllGather(send, recvs[i]->As<T>(), count, type, m.comm, m.stream));
  });
  for (size_t i = 0; i < here; ++i) {
    for (int r = 0; r < n; ++r) RequireBlock<T>(*recvs[i], r * count, r, 0, count);
  }

  int root = n / 2;
  for (bool deprecated : {false, true}) {
    fill();
    members.Run([&](size_t i, const Member& m) {
      if (deprecated) {
        REQUIRE_NCCL(ncclBcast(sends[i]->As<T>(), count, type, root, m.comm, m.stream));
      } else {
        T* recv = in_place ? sends[i]->As<T>() : recvs[i]->As<T>();
        REQUIRE_NCCL(ncclBroadcast(sends[i]->As<T>(), recv, count, type, root, m.comm, m.stream));
      }
    });
    for (size_t i = 0; i < here; ++i) {
      RequireBlock<T>(deprecated || in_place ? *sends[i] : *recvs[i], 0, root, 0, count);
    }
  }

  fill();
  members.Run([&](size_t i, const Member& m) {
    REQUIRE_NCCL(ncclAlltoAll(sends[i]->As<T>(), recvs[i]->As<T>(), count, type, m.comm, m.stream));
  });
  for (size_t i = 0; i < here; ++i) {
    for (int r = 0; r < n; ++r) RequireBlock<T>(*recvs[i], r * count, r, rank_of(i) * count, count);
  }

  fill();
  for (size_t i = 0; i < here && in_place; ++i) {
    recvs[i]->Write(Inputs<T>(rank_of(i), count), rank_of(i) * count);
  }
  members.Run([&](size_t i, const Member& m) {
    bool at_root = m.rank == root;
    const T* send = in_place && at_root ? recvs[i]->As<T>() + m.rank * count : sends[i]->As<T>();
    REQUIRE_NCCL(ncclGather(send, at_root ? recvs[i]->As<T>() : nullptr, count, type, root, m.comm,
                            m.stream));
  });
  for (size_t i = 0; i < here; ++i) {
    if (rank_of(i) != root) continue;
    for (int r = 0; r < n; ++r) RequireBlock<T>(*recvs[i], r * count, r, 0, count);
  }

  fill();
  members.Run([&](size_t i, const Member& m) {
    bool at_root = m.rank == root;
    T* recv = in_place && at_root ? sends[i]->As<T>() + m.rank * count : recvs[i]->As<T>();
    REQUIRE_NCCL(ncclScatter(at_root ? sends[i]->As<T>() : nullptr, recv, count, type, root, m.comm,
                             m.stream));
  });
  for (size_t i = 0; i < here; ++i) {
    bool moved = !(in_place && rank_of(i) == root);
    RequireBlock<T>(moved ? *recvs[i] : *sends[i], moved ? 0 : rank_of(i) * count, root,
                    rank_of(i) * count, count);
  }
}

void CheckEverything(Members& members, size_t count) {
  ForEachType([&]<typename T>(T, ncclDataType_t type) {
    for (bool in_place : {false, true}) {
      for (Op op : kOps) CheckReductions<T>(members, type, op, count, in_place);
      CheckMoves<T>(members, type, count, in_place);
    }
  });
}

TEST(Collectives, AllTypesAndOperatorsInOneProcess) {
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                for (int n = 1; n <= 4; ++n) {
                  Members members = Members::OfAllDevices(rank, n);
                  CheckEverything(members, 13);
                  members.Destroy();
                }
              }).Succeeded());
}

TEST(Collectives, AllTypesAndOperatorsInManyProcesses) {
  for (int n : {2, 3}) {
    EXPECT_TRUE(RunJob(n,
                       [&](Rank& rank) {
                         Members members = Members::OfProcess(rank, 0, n, rank.rank());
                         CheckEverything(members, 29);
                         members.Destroy();
                       })
                    .Succeeded())
        << n;
  }
}

// Larger than the rings, so that staging and reading take turns.
TEST(Collectives, LongerThanTheRings) {
  constexpr size_t kBytes = (5 << 20) + 24;  // of a block; a ring holds 4 MiB
  EXPECT_TRUE(RunJob(2, [&](Rank& rank) {
                Members members = Members::OfProcess(rank, 0, 2, rank.rank());
                for (bool in_place : {false, true}) {
                  CheckReductions<float>(members, ncclFloat, Op::kSum, kBytes / 4, in_place);
                  CheckReductions<__half>(members, ncclHalf, Op::kAvg, kBytes / 2, in_place);
                  CheckMoves<int64_t>(members, ncclInt64, kBytes / 8, in_place);
                }
              }).Succeeded());
}

TEST(Collectives, LongPushesThroughASmallBuffer) {
  EXPECT_TRUE(RunJob(2,
                     [&](Rank& rank) {
                       Members members = Members::OfProcess(rank, 0, 2, rank.rank());
                       CheckMoves<int32_t>(members, ncclInt32, 3 << 19, false);
                     },
                     {{"GORDIAN_EMU_P2P_BUFFER", "0"}})
                  .Succeeded());
}

TEST(Collectives, SameBitsOnAllRanks) {
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                constexpr size_t kCount = 100000;
                Members members = Members::OfAllDevices(rank, 4);
                auto buffers = members.Buffers(kCount * sizeof(float));
                for (size_t m = 0; m < 4; ++m) {
                  std::vector<float> values(kCount);
                  // No order of summation is exact here.
                  for (size_t i = 0; i < kCount; ++i)
                    values[i] = std::sin(1.1f * i) * std::exp2(i % 30 * (m + 1.f));
                  buffers[m]->Write(values);
                }
                members.Run([&](size_t i, const Member& m) {
                  float* data = buffers[i]->As<float>();
                  REQUIRE_NCCL(
                      ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, m.comm, m.stream));
                });
                auto first = buffers[0]->Read<uint32_t>(kCount);
                for (size_t m = 1; m < 4; ++m) REQUIRE(buffers[m]->Read<uint32_t>(kCount) == first);
              }).Succeeded());
}

// The scalar is read when the operation runs, not when the operator is made.
TEST(Collectives, DeviceScalarIsReadWhileRunning) {
  EXPECT_TRUE(RunJob(1, [](Rank& rank) {
                Members members = Members::OfAllDevices(rank, 1);
                const Member& m = members.list()[0];
                Buffer data(4), scalar(4);
                data.Write<float>({3});
                scalar.Write<float>({10});
                ncclRedOp_t op = ncclSum;
                REQUIRE_NCCL(ncclRedOpCreatePreMulSum(&op, scalar.As<void>(), ncclFloat,
                                                      ncclScalarDevice, m.comm));
                scalar.Write<float>({5});
                REQUIRE_NCCL(ncclAllReduce(data.As<float>(), data.As<float>(), 1, ncclFloat, op,
                                           m.comm, m.stream));
                Synchronize(m.stream);
                REQUIRE(data.Read<float>(1)[0] == 15);
              }).Succeeded());
}

// Receivers must find pushed data even when the sender's process has ended since.
TEST(Collectives, PushedDataSurvivesItsSender) {
  Outcome outcome = RunJob(2, [](Rank& rank) {
    constexpr size_t kCount = 1 << 20;
    Members members = Members::OfProcess(rank, 0, 2, rank.rank());
    const Member& m = members.list()[0];
    Buffer data(kCount * 4);
    float* p = data.As<float>();
    members.Run([&](size_t, const Member&) {
      REQUIRE_NCCL(rank.rank() == 0 ? ncclSend(p, 1, ncclFloat, 1, m.comm, m.stream)
                                    : ncclRecv(p, 1, ncclFloat, 0, m.comm, m.stream));
      REQUIRE_NCCL(ncclAllReduce(p, p, 1, ncclFloat, ncclSum, m.comm, m.stream));
    });
    if (rank.rank() == 0) {
      data.Write(std::vector<float>(kCount, 42));
      REQUIRE_NCCL(ncclSend(p, kCount, ncclFloat, 1, m.comm, m.stream));
      REQUIRE_NCCL(ncclBroadcast(p, p, kCount, ncclFloat, 0, m.comm, m.stream));
      Synchronize(m.stream);
      rank.Mark(1);
      return;
    }
    rank.Mark(1);
    rank.WaitForExitOf(0);
    REQUIRE_NCCL(ncclRecv(p, kCount, ncclFloat, 0, m.comm, m.stream));
    Synchronize(m.stream);
    REQUIRE(data.Read<float>(kCount) == std::vector<float>(kCount, 42));
    data.Write(std::vector<float>(kCount, 0));
    REQUIRE_NCCL(ncclBroadcast(p, p, kCount, ncclFloat, 0, m.comm, m.stream));
    Synchronize(m.stream);
    REQUIRE(data.Read<float>(kCount) == std::vector<float>(kCount, 42));
  });
  EXPECT_TRUE(outcome.Succeeded());
}

// A root that runs ahead by more than there are slots, and a ring of sends with many in flight.
TEST(Collectives, ManyInFlight) {
  EXPECT_TRUE(RunJob(3, [](Rank& rank) {
                constexpr int kRounds = 700;
                Members members = Members::OfProcess(rank, 0, 3, rank.rank());
                const Member& m = members.list()[0];
                Buffer out(kRounds * 4), in(kRounds * 4);
                std::vector<int> values(kRounds);
                for (int i = 0; i < kRounds; ++i) values[i] = i * 10 + rank.rank();
                out.Write(values);
                int next = (rank.rank() + 1) % 3, previous = (rank.rank() + 2) % 3;
                for (int i = 0; i < kRounds; ++i) {
                  REQUIRE_NCCL(ncclBroadcast(out.As<int>() + i, in.As<int>() + i, 1, ncclInt, 0,
                                             m.comm, m.stream));
                }
                Synchronize(m.stream);
                auto got = in.Read<int>(kRounds);
                for (int i = 0; i < kRounds; ++i) REQUIRE(got[i] == i * 10);
                for (int i = 0; i < kRounds; ++i) {
                  REQUIRE_NCCL(ncclGroupStart());
                  REQUIRE_NCCL(ncclSend(out.As<int>() + i, 1, ncclInt, next, m.comm, m.stream));
                  REQUIRE_NCCL(ncclRecv(in.As<int>() + i, 1, ncclInt, previous, m.comm, m.stream));
                  REQUIRE_NCCL(ncclGroupEnd());
                }
                Synchronize(m.stream);
                got = in.Read<int>(kRounds);
                for (int i = 0; i < kRounds; ++i) REQUIRE(got[i] == i * 10 + previous);
              }).Succeeded());
}

}  // namespace
}  // namespace gordian::emu::test
