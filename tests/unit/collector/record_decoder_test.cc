#include "collector/record_decoder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

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

v1::CallRecord Decode(const ring::Record& record, Decoded expected = Decoded::kFine) {
  v1::CallRecord out;
  EXPECT_EQ(DecodeRecord(record, ProcessNumber(5), ThreadNumber(258), TickClock(), &out), expected);
  return out;
}

TEST(RecordDecoderTest, OperationFieldByField) {
  ring::Record record = Make(RecordKind::kBegin, ring::kCall_ncclSend);
  record.payload.operation = {.comm = 1,
                              .stream = 2,
                              .count = 3,
                              .sequence = 4,
                              .root_or_peer = -1,
                              .datatype = 9,
                              .reduce_op = 255,
                              .group = 6};
  const v1::CallRecord out = Decode(record);
  EXPECT_EQ(out.kind(), v1::RECORD_KIND_BEGIN);
  EXPECT_EQ(out.flags(), ring::kFlagInGroup);
  EXPECT_EQ(out.call(), ring::kCall_ncclSend);
  EXPECT_EQ(out.thread(), 258u);
  EXPECT_EQ(out.process(), 5u);
  EXPECT_EQ(out.order(), 7u);
  EXPECT_EQ(out.time_ns(), 1000u);
  EXPECT_EQ(out.call_site(), 0xabcu);
  ASSERT_TRUE(out.has_operation());
  EXPECT_EQ(out.operation().comm(), 1u);
  EXPECT_EQ(out.operation().stream(), 2u);
  EXPECT_EQ(out.operation().count(), 3u);
  EXPECT_EQ(out.operation().sequence(), 4u);
  EXPECT_EQ(out.operation().root_or_peer(), -1);
  EXPECT_EQ(out.operation().datatype(), 9u);
  EXPECT_EQ(out.operation().reduce_op(), 255u);
  EXPECT_EQ(out.operation().group(), 6u);
}

TEST(RecordDecoderTest, EveryCallOfTheTableHasItsPayload) {
  for (uint16_t call = 1; call < ring::kCallCount; ++call) {
    const ring::PayloadKind payload = ring::kCalls[call].payload;
    const v1::CallRecord out = Decode(Make(RecordKind::kBegin, call));
    using PK = ring::PayloadKind;
    using Case = v1::CallRecord::PayloadCase;
    Case expected = v1::CallRecord::PAYLOAD_NOT_SET;
    switch (payload) {
      case PK::kNone:
        break;
      case PK::kOperation:
        expected = v1::CallRecord::kOperation;
        break;
      case PK::kSignal:
        expected = v1::CallRecord::kSignal;
        break;
      case PK::kCommInit:
        expected = v1::CallRecord::kCommInit;
        break;
      case PK::kCommCall:
        expected = v1::CallRecord::kCommCall;
        break;
      case PK::kGroup:
        expected = v1::CallRecord::kGroup;
        break;
      case PK::kStreamCreate:
      case PK::kStreamDestroy:
        expected = v1::CallRecord::kStream;
        break;
      case PK::kStreamWork:
        expected = v1::CallRecord::kWork;
        break;
      case PK::kGraph:
        expected = v1::CallRecord::kGraph;
        break;
      case PK::kHostWait:
        expected = v1::CallRecord::kHostWait;
        break;
    }
    EXPECT_EQ(out.payload_case(), expected) << ring::kCalls[call].name;
    EXPECT_EQ(Decode(Make(RecordKind::kEnd, call)).payload_case(), v1::CallRecord::kEnd);
  }
}

TEST(RecordDecoderTest, Signal) {
  ring::Record record = Make(RecordKind::kPoint, ring::kCall_ncclWaitSignal);
  record.payload.signal = {.comm = 3,
                           .stream = 2,
                           .peer = 1,
                           .index = -4,
                           .context = 5,
                           .count = 6,
                           .group = 7,
                           .number = 8};
  const v1::CallRecord out = Decode(record);
  EXPECT_EQ(out.kind(), v1::RECORD_KIND_POINT);
  EXPECT_EQ(out.signal().comm(), 3u);
  EXPECT_EQ(out.signal().stream(), 2u);
  EXPECT_EQ(out.signal().peer(), 1);
  EXPECT_EQ(out.signal().index(), -4);
  EXPECT_EQ(out.signal().context(), 5);
  EXPECT_EQ(out.signal().count(), 6u);
  EXPECT_EQ(out.signal().group(), 7u);
  EXPECT_EQ(out.signal().number(), 8u);
}

TEST(RecordDecoderTest, CommInitEndEnqueueText) {
  ring::Record record = Make(RecordKind::kBegin, ring::kCall_ncclCommSplit);
  record.payload.comm_init = {.comm = 4,
                              .nranks = 8,
                              .rank = -1,
                              .device = 2,
                              .uid = 0xfeedfacecafebeefull,
                              .parent = 1,
                              .color = -1};
  const v1::CallRecord init = Decode(record);
  EXPECT_EQ(init.comm_init().uid(), 0xfeedfacecafebeefull);
  EXPECT_EQ(init.comm_init().color(), -1);
  EXPECT_EQ(init.comm_init().parent(), 1u);

  record = Make(RecordKind::kEnd, ring::kCall_ncclCommSplit);
  record.payload.end = {
      .result = 7, .stream = 0, .ordinal = 11, .comm = 4, .nranks = 2, .rank = 1, .device = 3};
  const v1::CallRecord end = Decode(record);
  EXPECT_EQ(end.end().result(), 7);
  EXPECT_EQ(end.end().ordinal(), 11u);
  EXPECT_EQ(end.end().rank(), 1);

  record = Make(RecordKind::kEnqueue, ring::kCall_ncclGroupEnd);
  record.payload.enqueue = {.group = 3, .stream = 2, .ordinal = 5};
  EXPECT_EQ(Decode(record).enqueue().ordinal(), 5u);
  record.call = ring::kCall_ncclAllReduce;
  Decode(record, Decoded::kMisplaced);

  record = Make(RecordKind::kText, ring::kCall_ncclCommInitRankConfig);
  record.payload.text.comm = 6;
  std::memcpy(record.payload.text.text, "dp\xff group without an end....", 28);
  const v1::CallRecord text = Decode(record);
  EXPECT_EQ(text.text().comm(), 6u);
  EXPECT_EQ(text.text().text(), "dp? group without an end....");
}

TEST(RecordDecoderTest, UnknownKindsAndCallsAreRefused) {
  Decode(Make(RecordKind::kNone, ring::kCall_ncclSend), Decoded::kUnknownKind);
  Decode(Make(static_cast<RecordKind>(6), ring::kCall_ncclSend), Decoded::kUnknownKind);
  Decode(Make(static_cast<RecordKind>(255), ring::kCall_ncclSend), Decoded::kUnknownKind);
  Decode(Make(RecordKind::kBegin, ring::kCallNone), Decoded::kUnknownCall);
  Decode(Make(RecordKind::kBegin, ring::kCallCount), Decoded::kUnknownCall);
  Decode(Make(RecordKind::kBegin, 65535), Decoded::kUnknownCall);
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

TEST(CleanUtf8Test, KeepsWhatIsValid) {
  EXPECT_EQ(CleanUtf8("plain"), "plain");
  EXPECT_EQ(CleanUtf8("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
            "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(CleanUtf8("a\x80z"), "a?z");
  EXPECT_EQ(CleanUtf8("\xc0\xaf"), "??") << "overlong";
  EXPECT_EQ(CleanUtf8("\xed\xa0\x80"), "???") << "surrogate";
  EXPECT_EQ(CleanUtf8("\xf5\x80\x80\x80"), "????") << "beyond the last code point";
  EXPECT_EQ(CleanUtf8("\xe2\x82"), "??") << "cut";
  const char field[4] = {'a', 'b', '\0', 'c'};
  EXPECT_EQ(TextOf(field, sizeof(field)), "ab");
  EXPECT_EQ(TextOf(field, 2), "ab");
}

}  // namespace
}  // namespace gordian::collector
