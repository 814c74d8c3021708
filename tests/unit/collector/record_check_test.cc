#include "collector/rings/record_check.h"

#include <gtest/gtest.h>

#include <cstring>

#include "proto/ring/calls.h"

namespace gordian::collector {
namespace {

using ring::RecordKind;

ring::Record Make(RecordKind kind, uint16_t call) {
  ring::Record record{};
  record.kind = kind;
  record.call = call;
  record.flags = ring::kFlagInGroup;
  record.order = 7;
  record.ticks = 1000;
  record.call_site = 0xabc;
  return record;
}

Checked Check(ring::Record record) { return CheckRecord(ThreadNumber(258), TickClock(), &record); }

// Two ticks a nanosecond, from 1000.
TickClock HalfClock() {
  return TickClock({.ticks_base = 0,
                    .mono_base_ns = 1000,
                    .real_base_ns = 0,
                    .ns_per_tick_q32 = 1ull << 31,
                    .tsc = 1});
}

TEST(RecordCheckTest, GivesThreadAndTimeAndTouchesNothingElse) {
  ring::Record record = Make(RecordKind::kBegin, ring::kCall_ncclSend);
  record.thread = 3;  // the slot's index
  record.payload.operation = {.comm = 1,
                              .stream = 2,
                              .count = 3,
                              .sequence = 4,
                              .root_or_peer = -1,
                              .datatype = 9,
                              .reduce_op = 255,
                              .group = 6};
  ring::Record expected = record;
  expected.thread = 258;
  expected.ticks = 1500;
  ASSERT_EQ(CheckRecord(ThreadNumber(258), HalfClock(), &record), Checked::kFine);
  EXPECT_EQ(std::memcmp(&record, &expected, sizeof record), 0);
}

TEST(RecordCheckTest, EveryCallOfTheTableMayHaveItsKinds) {
  for (uint16_t call = 1; call < ring::kCallCount; ++call) {
    for (const RecordKind kind :
         {RecordKind::kBegin, RecordKind::kPoint, RecordKind::kEnd, RecordKind::kText}) {
      EXPECT_EQ(Check(Make(kind, call)), Checked::kFine) << ring::kCalls[call].name;
    }
    const bool group = ring::kCalls[call].payload == ring::PayloadKind::kGroup;
    EXPECT_EQ(Check(Make(RecordKind::kEnqueue, call)), group ? Checked::kFine : Checked::kMisplaced)
        << ring::kCalls[call].name;
  }
  EXPECT_EQ(Check(Make(RecordKind::kText, ring::kCallNone)), Checked::kFine);
}

TEST(RecordCheckTest, UnknownKindsAndCallsAreRefusedAndLeftAsTheyWere) {
  const auto refused = [](const ring::Record& record, Checked why) {
    ring::Record checked = record;
    EXPECT_EQ(CheckRecord(ThreadNumber(258), HalfClock(), &checked), why);
    EXPECT_EQ(std::memcmp(&record, &checked, sizeof record), 0);
  };
  refused(Make(RecordKind::kNone, ring::kCall_ncclSend), Checked::kUnknownKind);
  refused(Make(static_cast<RecordKind>(7), ring::kCall_ncclSend), Checked::kUnknownKind);
  refused(Make(static_cast<RecordKind>(255), ring::kCall_ncclSend), Checked::kUnknownKind);
  refused(Make(RecordKind::kBegin, ring::kCallNone), Checked::kUnknownCall);
  refused(Make(RecordKind::kBegin, ring::kEveryCallCount), Checked::kUnknownCall);
  refused(Make(RecordKind::kBegin, 65535), Checked::kUnknownCall);
}

TEST(TickClockTest, ConvertsAndSaturates) {
  // 2.5 GHz: 0.4 ns a tick.
  const TickClock clock({.ticks_base = 1'000'000,
                         .mono_base_ns = 5'000,
                         .real_base_ns = 0,
                         .ns_per_tick_q32 = static_cast<uint64_t>(0.4 * 4294967296.0),
                         .tsc = 1});
  EXPECT_EQ(clock.ToMonoNs(1'000'000), 5'000u);
  EXPECT_NEAR(static_cast<double>(clock.ToMonoNs(3'500'000)), 1'005'000.0, 1.0);
  EXPECT_NEAR(static_cast<double>(clock.ToMonoNs(997'500)), 4'000.0, 1.0);
  EXPECT_EQ(clock.ToMonoNs(0), 0u) << "no time";
  EXPECT_GE(clock.ToMonoNs(1), 1u) << "before the clock began, but a time";
  const TickClock wild({.ticks_base = 1,
                        .mono_base_ns = UINT64_MAX,
                        .real_base_ns = 0,
                        .ns_per_tick_q32 = UINT64_MAX,
                        .tsc = 1});
  EXPECT_EQ(wild.ToMonoNs(UINT64_MAX), UINT64_MAX);
}

}  // namespace
}  // namespace gordian::collector
