// What the shim writes of calls that CUPTI tells of: programs of job_cupti.cc under LD_PRELOAD.
#include <gtest/gtest.h>

#include <string>

#include "proto/ring/calls.h"
#include "tests/unit/interpose/job_runner.h"

namespace gordian::test {
namespace {

using namespace ring;  // NOLINT: the contract under test

// Each call once: those inside another call, or of NCCL's threads, are not told.
TEST(Shim, CuptiTellsOfCallsThatNoSymbolLeadsTo) {
  const RingFile file = RunOne("cupti", {{"JOB_CUPTI", GORDIAN_CUPTI_LOOKALIKE},
                                         {"GORDIAN_CUPTI_LIBRARY", GORDIAN_CUPTI_LOOKALIKE}});
  EXPECT_EQ(file.header.cupti, kCuptiTells);
  EXPECT_EQ(file.header.lost_records, 0u);
  const auto reduce = file.Of(kCall_ncclAllReduce);
  const auto waited = file.Of(kCall_cuStreamSynchronize);
  const auto recorded = file.Of(kCall_cuEventRecord);
  ASSERT_EQ(reduce.size(), 2u);
  ASSERT_EQ(waited.size(), 2u);
  EXPECT_EQ(waited[0].kind, RecordKind::kBegin);
  EXPECT_EQ(waited[0].payload.host_wait.kind, WaitKind::kStream);
  EXPECT_EQ(waited[0].payload.host_wait.stream, reduce[1].payload.end.stream);
  EXPECT_EQ(waited[0].payload.host_wait.ordinal, 1u);
  EXPECT_EQ(waited[1].kind, RecordKind::kEnd);
  EXPECT_EQ(waited[1].payload.end.result, 0);
  ASSERT_EQ(recorded.size(), 1u);
  EXPECT_EQ(recorded[0].payload.work.kind, WorkKind::kEventRecord);
  EXPECT_EQ(recorded[0].payload.work.ordinal, 1u);
  EXPECT_EQ(file.Of(kCall_cudaStreamSynchronize).size(), 2u);
  ASSERT_EQ(file.threads.size(), 1u);  // NCCL's is none of the job's
  EXPECT_EQ(file.threads[0].entered, file.threads[0].left);
}

TEST(Shim, CuptiTellsOfACallWhollyOrNotAtAll) {
  const RingFile file = RunOne(
      "cupti-named-late",
      {{"JOB_CUPTI", GORDIAN_CUPTI_LOOKALIKE}, {"GORDIAN_CUPTI_LIBRARY", GORDIAN_CUPTI_LOOKALIKE}});
  const auto waited = file.Of(kCall_cuStreamSynchronize);
  ASSERT_EQ(waited.size(), 2u);  // of the first call; the second is NCCL's own
  EXPECT_EQ(waited[0].kind, RecordKind::kBegin);
  EXPECT_EQ(waited[1].kind, RecordKind::kEnd);
  for (const ThreadSlot& thread : file.threads) {
    EXPECT_EQ(thread.entered, thread.left);
    EXPECT_EQ(thread.call, kCallNone);
  }
}

TEST(Shim, WhatBecameOfCuptiIsNeverForgotten) {
  for (int i = 0; i < 30; ++i) {
    const RingFile file =
        RunOne("cupti-beside",
               {{"GORDIAN_CUPTI", "1"}, {"GORDIAN_CUPTI_LIBRARY", GORDIAN_CUPTI_LOOKALIKE}});
    ASSERT_EQ(file.header.cupti, kCuptiTells) << i;
  }
}

void CheckRow(const RingFile& file, CallId call) {
  const CallInfo& row = kCalls[call];
  EXPECT_NE(file.header.rows_used[call / 64] >> call % 64 & 1, 0u) << row.name;
  if (row.wait == WaitKind::kStream || row.wait == WaitKind::kEvent ||
      row.wait == WaitKind::kDevice) {
    EXPECT_EQ(file.Of(call).size(), 4u) << row.name;  // begun and ended, twice
  }
}

// All rows that CUPTI tells of are observed as if they had been called through their symbols, and
// those that leave records of work or of waits leave as many.
TEST(Shim, CuptiTellsOfEveryRowOfItsTable) {
  const RingFile file = RunOne("cupti-rows", {{"JOB_CUPTI", GORDIAN_CUPTI_LOOKALIKE},
                                              {"GORDIAN_CUPTI_LIBRARY", GORDIAN_CUPTI_LOOKALIKE}});
  EXPECT_EQ(file.header.lost_records, 0u);
  int rows = 0;
#define GORDIAN_CUPTI(symbol, number) CheckRow(file, kCall_##symbol), ++rows;
#include "proto/ring/cupti_calls.def"
#undef GORDIAN_CUPTI
  EXPECT_GT(rows, 200);
  for (const ThreadSlot& thread : file.threads) {
    EXPECT_EQ(thread.entered, thread.left);
    EXPECT_EQ(thread.call, kCallNone);
  }
}

TEST(Shim, YieldsWhereCuptiIsTakenOrMissing) {
  const Job::Environment cases[] = {
      {{"GORDIAN_CUPTI_LIBRARY", GORDIAN_CUPTI_LOOKALIKE}, {"CUPTI_LOOKALIKE", "taken"}},
      {{"GORDIAN_CUPTI_LIBRARY", "/no/such/libcupti.so"}},
      {{"GORDIAN_CUPTI_LIBRARY", GORDIAN_CUPTI_LOOKALIKE}, {"GORDIAN_STUB_COMPUTE", "1"}}};
  const uint32_t states[] = {kCuptiTaken, kCuptiMissing, kCuptiFailed};
  for (int i = 0; i < 3; ++i) {
    Job::Environment environment = cases[i];
    environment.emplace_back("JOB_CUPTI", GORDIAN_CUPTI_LOOKALIKE);
    const RingFile file = RunOne("cupti", environment);
    EXPECT_EQ(file.header.cupti, states[i]) << i;
    EXPECT_TRUE(file.Of(kCall_cuStreamSynchronize).empty()) << i;
    EXPECT_TRUE(file.Of(kCall_cuEventRecord).empty()) << i;
    EXPECT_EQ(file.Of(kCall_cudaStreamSynchronize).size(), 2u) << i;
  }
}

}  // namespace
}  // namespace gordian::test
