// What the shim tells of streams' waits for memory, of signals, and of the order of launches.
#include <gtest/gtest.h>

#include <iterator>
#include <vector>

#include "proto/ring/calls.h"
#include "tests/unit/interpose/job_runner.h"

namespace gordian::test {
namespace {

using namespace ring;  // NOLINT: the contract under test

TEST(Shim, MemoryWordsAreToldOneByOne) {
  const RingFile file = RunOne("memory-words");
  std::vector<Record> work;
  for (const Record& record : file.records) {
    if (kCalls[record.call].payload == PayloadKind::kStreamWork) work.push_back(record);
  }
  struct Told {
    uint16_t call;
    WorkKind kind;
    uint8_t flags;
    uint64_t ordinal, address, value;
  };
  // Nobody knows here whose memory it is, so none counts as the process's own.
  const std::vector<Told> expected = {
      {kCall_cuStreamWaitValue64_v2, WorkKind::kMemoryWait, kMemory64 | 1, 1, 0x7000, 5},
      {kCall_cuStreamWriteValue32_v2, WorkKind::kMemoryWrite, 0, 2, 0x7008, 6},
      {kCall_cuStreamBatchMemOp_v2, WorkKind::kMemoryWait, 3, 3, 0x7010, 7},
      {kCall_cuStreamBatchMemOp_v2, WorkKind::kMemoryWrite, kMemory64, 4, 0x7018,
       uint64_t{8} << 32},
      {kCall_cuIpcGetMemHandle, WorkKind::kMemoryShared, 0, 0, 0x8000, 1},
      {kCall_cuMemGetHandleForAddressRange, WorkKind::kMemoryShared, 0, 0, 0x9000, 64}};
  ASSERT_EQ(work.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    const WorkPayload& told = work[i].payload.work;
    EXPECT_EQ(work[i].call, expected[i].call);
    EXPECT_EQ(told.kind, expected[i].kind);
    EXPECT_EQ(work[i].flags, expected[i].flags);
    EXPECT_EQ(told.ordinal, expected[i].ordinal);
    EXPECT_EQ(told.event, expected[i].address);
    EXPECT_EQ(told.value, expected[i].value);
  }
}

struct Line {
  NumberKind kind;
  int32_t peer, index, context;
  uint64_t next;
};

TEST(Shim, SignalsAreNumberedAndPending) {
  const RingFile file = RunOne("signals");
  EXPECT_EQ(file.header.lost_numbers, 0u);
  const std::vector<Line> expected = {{NumberKind::kSignalsSent, 1, 0, 0, 4},
                                      {NumberKind::kSignalsSent, 2, 5, -1, 1},
                                      {NumberKind::kSignalsAwaited, 1, 0, 0, 6},
                                      {NumberKind::kSignalsAwaited, 2, 5, -1, 1}};
  ASSERT_EQ(file.numbers.size(), 1 + expected.size());  // the first is of the collectives
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    const NumberSlot& slot = file.numbers[1 + i];
    EXPECT_EQ(slot.kind, expected[i].kind);
    EXPECT_EQ(slot.peer, expected[i].peer);
    EXPECT_EQ(slot.channel.index, expected[i].index);
    EXPECT_EQ(slot.channel.context, expected[i].context);
    EXPECT_EQ(slot.next, expected[i].next);
    EXPECT_EQ(slot.begun, expected[i].next);
    EXPECT_EQ(slot.open, 0u);
    EXPECT_EQ(slot.seq % 2, 0u);
  }
  // Line, number, how many, and the place on the stream.
  const uint64_t pending[][4] = {{2, 0, 1, 1}, {2, 1, 1, 2}, {3, 0, 1, 3}, {4, 0, 2, 4},
                                 {5, 0, 1, 4}, {2, 2, 1, 5}, {4, 2, 1, 5}, {4, 3, 1, 7},
                                 {4, 4, 2, 7}, {2, 3, 1, 8}};
  ASSERT_EQ(file.pending.size(), std::size(pending));
  for (size_t i = 0; i < std::size(pending); ++i) {
    SCOPED_TRACE(i);
    const PendingOperation& operation = file.pending[i];
    ASSERT_EQ(operation.line, pending[i][0]);
    EXPECT_EQ(operation.sequence, pending[i][1]);
    EXPECT_EQ(operation.count, pending[i][2]);
    EXPECT_EQ(operation.ordinal, pending[i][3]);
    const NumberSlot& slot = file.numbers[operation.line - 1];
    EXPECT_EQ(operation.comm, slot.comm);
    EXPECT_EQ(operation.root_or_peer, slot.peer);
    EXPECT_EQ(operation.call,
              slot.kind == NumberKind::kSignalsSent ? kCall_ncclSignal : kCall_ncclWaitSignal);
    EXPECT_EQ(operation.in_group, i == 5 || i == 6);
  }
  // Records tell the same numbers, those of calls that were refused or dropped once more.
  std::vector<uint32_t> sent, awaited;
  for (const Record& record : file.records) {
    if (kCalls[record.call].payload != PayloadKind::kSignal || record.kind == RecordKind::kEnd)
      continue;
    const SignalPayload& signal = record.payload.signal;
    if (signal.peer == 1 && signal.count != 0)
      (record.call == kCall_ncclSignal ? sent : awaited).push_back(signal.number);
  }
  EXPECT_EQ(sent, (std::vector<uint32_t>{0, 1, 2, 2, 3, 3}));
  EXPECT_EQ(awaited, (std::vector<uint32_t>{0, 2, 3, 4}));
}

// Their slots go to others when communicators are gone, thousands of times.
TEST(Shim, SignalsOfManyCommunicators) {
  const RingFile file = RunOne("many-signals", {{"GORDIAN_RING_SLOTS", "64"}});
  EXPECT_EQ(file.header.lost_numbers, 0u);
  EXPECT_EQ(file.numbers.size(), size_t{kMaxNumbers});
  for (const NumberSlot& slot : file.numbers) {
    const bool sent = slot.kind == NumberKind::kSignalsSent,
               awaited = slot.kind == NumberKind::kSignalsAwaited;
    EXPECT_EQ(slot.next, sent ? 3u : awaited ? 2u : 0u);
  }
}

TEST(Shim, LaunchOrderIsTold) {
  for (const char* const value : {"1", "0"}) {
    int calls = 0;
    for (const Record& record :
         RunOne("children", {{"NCCL_LAUNCH_ORDER_IMPLICIT", value}}).records) {
      if (kCalls[record.call].payload != PayloadKind::kCommInit) continue;
      if (record.kind != RecordKind::kBegin) continue;
      ++calls;
      EXPECT_EQ((record.flags & kFlagLaunchOrder) != 0, *value == '1') << record.call;
    }
    EXPECT_EQ(calls, 3);
  }
}

}  // namespace
}  // namespace gordian::test
