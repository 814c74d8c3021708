// What holds for the rows of the table of hooked calls: programs of job.cc under LD_PRELOAD.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "proto/ring/calls.h"
#include "tests/unit/interpose/job_runner.h"

namespace gordian::test {
namespace {

using namespace ring;  // NOLINT: the contract under test

TEST(Shim, AnEventHandleIsForgottenWhenItIsMadeOrDestroyed) {
  const RingFile file = RunOne("event-handles");
  std::vector<std::pair<uint16_t, WorkPayload>> work;
  for (const Record& record : file.records) {
    if (kCalls[record.call].payload == PayloadKind::kStreamWork) {
      work.emplace_back(record.call, record.payload.work);
    }
  }
  ASSERT_EQ(work.size(), 6u);  // the event that could not be made leaves none
  const std::vector<uint16_t> calls = {kCall_cudaEventRecord, kCall_cudaEventDestroy,
                                       kCall_cudaEventCreate, kCall_cudaStreamWaitEvent,
                                       kCall_cuEventCreate,   kCall_cuEventDestroy_v2};
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(work[i].first, calls[i]) << i;
  for (const size_t i : {1, 2, 4, 5}) {
    EXPECT_EQ(work[i].second.kind, WorkKind::kEventForgotten) << i;
    EXPECT_EQ(work[i].second.stream, kNoId) << i;
    EXPECT_EQ(work[i].second.ordinal, 0u) << i;
  }
  EXPECT_EQ(work[1].second.event, 0x5000u);
  EXPECT_EQ(work[2].second.event, 0x5000u);
  EXPECT_EQ(work[4].second.event, work[5].second.event);
  EXPECT_NE(work[4].second.event, 0u);
}

TEST(Shim, RowsThatWereCalledAreMarked) {
  const RingFile file = RunOne("polls");
  const auto used = [&](CallId call) {
    return (file.header.rows_used[call / 64] >> call % 64 & 1) != 0;
  };
  EXPECT_TRUE(used(kCall_cudaEventQuery));  // silent, and used all the same
  EXPECT_TRUE(used(kCall_cudaLaunchKernel));
  EXPECT_FALSE(used(kCall_cudaEventRecord));
  EXPECT_FALSE(used(kCall_ncclAllReduce));
}

TEST(Shim, EveryRowPassesResultAndErrnoThrough) {
  {
    Job alone("pass-through", "", {}, false);
    ASSERT_EQ(alone.Wait(), 0) << "the test program itself";
    Job silent("pass-through", "");
    ASSERT_EQ(silent.Wait(), 0);
  }
  const RingFile file = RunOne("pass-through");
  EXPECT_EQ(file.header.lost_records, 0u);
  std::map<uint16_t, std::vector<Record>> by_call;
  for (const Record& record : file.records) by_call[record.call].push_back(record);
  for (uint16_t call = 1; call < kCallCount; ++call) {
    const CallInfo& info = kCalls[call];
    const std::vector<Record>& records = by_call[call];
    const std::string name = info.name;
    if (name == "ncclCommInitAll") continue;  // of no devices: nothing to say
    if (info.style == CallStyle::kBlocks) {
      std::vector<int> results;
      for (const Record& record : records) {
        if (record.kind == RecordKind::kEnd) results.push_back(record.payload.end.result);
      }
      // The failed ncclGroupStart of the second pass leaves no group for its end.
      std::vector<int> expected =
          name == "ncclGroupEnd" ? std::vector<int>{0} : std::vector<int>{0, 3};
      // Asynchronous copies that may wait are recorded under the synchronous one's number.
      if (name == "cudaMemcpy" || name == "cuMemcpy") {
        ASSERT_GE(results.size(), 2u) << name;
        const size_t each = results.size() / 2;
        expected.assign(each, 0);
        expected.insert(expected.end(), each, 3);
      }
      EXPECT_EQ(results, expected) << name;
    } else if (info.style == CallStyle::kSilent) {
      EXPECT_TRUE(records.empty()) << name;
    } else if (info.payload == PayloadKind::kStreamWork) {
      // Memory that is registered with NCCL goes under that number, too.
      EXPECT_LE(records.size(), name == "cuIpcGetMemHandle" ? 3u : 1u) << name;
    }
  }
}

}  // namespace
}  // namespace gordian::test
