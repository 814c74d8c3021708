// What the shim tells of streams' waits for memory and of the order of launches.
#include <gtest/gtest.h>

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
      {kCall_cuStreamBatchMemOp_v2, WorkKind::kMemoryWrite, kMemory64, 4, 0x7018, uint64_t{8} << 32},
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
