#include "common/old_records.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "common/record_block.h"

namespace gordian {
namespace {

v1::OldRecord Old(v1::RecordKind kind) {
  v1::OldRecord old;
  old.set_kind(kind);
  old.set_flags(5);
  old.set_call(77);
  old.set_thread(258);
  old.set_order(9);
  old.set_time_ns(1000);
  old.set_call_site(0xabc);
  old.set_process(3);
  return old;
}

TEST(OldRecords, WhatAllRecordsHave) {
  const ring::Record record = FromOldRecord(Old(v1::RECORD_KIND_POINT));
  EXPECT_EQ(record.kind, ring::RecordKind::kPoint);
  EXPECT_EQ(record.flags, 5);
  EXPECT_EQ(record.call, 77);
  EXPECT_EQ(record.thread, 258u);
  EXPECT_EQ(record.order, 9u);
  EXPECT_EQ(record.ticks, 1000u);
  EXPECT_EQ(record.call_site, 0xabcu);
}

TEST(OldRecords, OperationFieldByField) {
  v1::OldRecord old = Old(v1::RECORD_KIND_BEGIN);
  v1::Operation* const to = old.mutable_operation();
  to->set_comm(1);
  to->set_stream(2);
  to->set_count(3);
  to->set_sequence(4);
  to->set_root_or_peer(-1);
  to->set_datatype(9);
  to->set_reduce_op(255);
  to->set_group(6);
  const ring::OperationPayload got = FromOldRecord(old).payload.operation;
  EXPECT_EQ(got.comm, 1u);
  EXPECT_EQ(got.stream, 2u);
  EXPECT_EQ(got.count, 3u);
  EXPECT_EQ(got.sequence, 4u);
  EXPECT_EQ(got.root_or_peer, -1);
  EXPECT_EQ(got.datatype, 9);
  EXPECT_EQ(got.reduce_op, 255);
  EXPECT_EQ(got.group, 6);
}

TEST(OldRecords, SignalFieldByField) {
  v1::OldRecord old = Old(v1::RECORD_KIND_BEGIN);
  v1::Signal* const to = old.mutable_signal();
  to->set_comm(3);
  to->set_stream(2);
  to->set_peer(1);
  to->set_index(-4);
  to->set_context(5);
  to->set_count(6);
  to->set_group(7);
  to->set_number(8);
  const ring::SignalPayload got = FromOldRecord(old).payload.signal;
  EXPECT_EQ(got.comm, 3u);
  EXPECT_EQ(got.stream, 2u);
  EXPECT_EQ(got.peer, 1);
  EXPECT_EQ(got.index, -4);
  EXPECT_EQ(got.context, 5);
  EXPECT_EQ(got.count, 6u);
  EXPECT_EQ(got.group, 7u);
  EXPECT_EQ(got.number, 8u);
}

TEST(OldRecords, CommunicatorsFieldByField) {
  v1::OldRecord old = Old(v1::RECORD_KIND_BEGIN);
  v1::CommInit* const to = old.mutable_comm_init();
  to->set_comm(4);
  to->set_nranks(8);
  to->set_rank(-1);
  to->set_device(2);
  to->set_uid(0xfeedfacecafebeefull);
  to->set_parent(1);
  to->set_color(-1);
  const ring::CommInitPayload init = FromOldRecord(old).payload.comm_init;
  EXPECT_EQ(init.comm, 4u);
  EXPECT_EQ(init.nranks, 8);
  EXPECT_EQ(init.rank, -1);
  EXPECT_EQ(init.device, 2);
  EXPECT_EQ(init.uid, 0xfeedfacecafebeefull);
  EXPECT_EQ(init.parent, 1u);
  EXPECT_EQ(init.color, -1);

  old.mutable_comm_call()->set_comm(11);
  EXPECT_EQ(FromOldRecord(old).payload.comm_call.comm, 11u);

  old.mutable_group()->set_group(3);
  old.mutable_group()->set_operations(4);
  old.mutable_group()->set_streams(2);
  const ring::GroupPayload group = FromOldRecord(old).payload.group;
  EXPECT_EQ(group.group, 3u);
  EXPECT_EQ(group.operations, 4u);
  EXPECT_EQ(group.streams, 2u);

  v1::OldRecord text = Old(v1::RECORD_KIND_TEXT);
  text.mutable_text()->set_comm(6);
  text.mutable_text()->set_text("dp group that is longer than its field");
  const ring::TextPayload got = FromOldRecord(text).payload.text;
  EXPECT_EQ(got.comm, 6u);
  EXPECT_EQ(std::string(got.text, sizeof got.text), "dp group that is longer than");
}

TEST(OldRecords, StreamsAndTheirWorkFieldByField) {
  v1::OldRecord old = Old(v1::RECORD_KIND_POINT);
  old.mutable_stream()->set_stream(2);
  old.mutable_stream()->set_flags(ring::kStreamLegacy);
  old.mutable_stream()->set_device(-1);
  old.mutable_stream()->set_handle(0x1234);
  old.mutable_stream()->set_connections(8);
  const ring::StreamPayload stream = FromOldRecord(old).payload.stream;
  EXPECT_EQ(stream.stream, 2u);
  EXPECT_EQ(stream.flags, ring::kStreamLegacy);
  EXPECT_EQ(stream.device, -1);
  EXPECT_EQ(stream.handle, 0x1234u);
  EXPECT_EQ(stream.connections, 8u);

  old.mutable_work()->set_stream(3);
  old.mutable_work()->set_kind(7);
  old.mutable_work()->set_ordinal(12);
  old.mutable_work()->set_event(0x5678);
  old.mutable_work()->set_value(99);
  const ring::WorkPayload work = FromOldRecord(old).payload.work;
  EXPECT_EQ(work.stream, 3u);
  EXPECT_EQ(work.kind, ring::WorkKind::kMemoryWait);
  EXPECT_EQ(work.ordinal, 12u);
  EXPECT_EQ(work.event, 0x5678u);
  EXPECT_EQ(work.value, 99u);

  old.mutable_graph()->set_what(5);
  old.mutable_graph()->set_graph(1);
  old.mutable_graph()->set_made(2);
  old.mutable_graph()->set_capture(3);
  const ring::GraphPayload graph = FromOldRecord(old).payload.graph;
  EXPECT_EQ(graph.what, ring::GraphCall::kInstantiate);
  EXPECT_EQ(graph.graph, 1u);
  EXPECT_EQ(graph.made, 2u);
  EXPECT_EQ(graph.capture, 3u);

  old.mutable_host_wait()->set_kind(5);
  old.mutable_host_wait()->set_stream(4);
  old.mutable_host_wait()->set_device(1);
  old.mutable_host_wait()->set_event(0x9);
  old.mutable_host_wait()->set_ordinal(21);
  const ring::HostWaitPayload wait = FromOldRecord(old).payload.host_wait;
  EXPECT_EQ(wait.kind, ring::WaitKind::kCopy);
  EXPECT_EQ(wait.stream, 4u);
  EXPECT_EQ(wait.device, 1);
  EXPECT_EQ(wait.event, 0x9u);
  EXPECT_EQ(wait.ordinal, 21u);

  v1::OldRecord ends = Old(v1::RECORD_KIND_END);
  v1::CallEnd* const to = ends.mutable_end();
  to->set_result(7);
  to->set_stream(1);
  to->set_ordinal(11);
  to->set_comm(4);
  to->set_nranks(2);
  to->set_rank(-1);
  to->set_device(3);
  const ring::EndPayload end = FromOldRecord(ends).payload.end;
  EXPECT_EQ(end.result, 7);
  EXPECT_EQ(end.stream, 1u);
  EXPECT_EQ(end.ordinal, 11u);
  EXPECT_EQ(end.comm, 4u);
  EXPECT_EQ(end.nranks, 2);
  EXPECT_EQ(end.rank, -1);
  EXPECT_EQ(end.device, 3);

  v1::OldRecord enqueued = Old(v1::RECORD_KIND_ENQUEUE);
  enqueued.mutable_enqueue()->set_group(3);
  enqueued.mutable_enqueue()->set_stream(2);
  enqueued.mutable_enqueue()->set_ordinal(5);
  const ring::EnqueuePayload enqueue = FromOldRecord(enqueued).payload.enqueue;
  EXPECT_EQ(enqueue.group, 3u);
  EXPECT_EQ(enqueue.stream, 2u);
  EXPECT_EQ(enqueue.ordinal, 5u);
}

TEST(OldRecords, WhatNoRecordCanHoldMakesNoSense) {
  v1::OldRecord old = Old(v1::RECORD_KIND_END);
  old.mutable_operation();
  EXPECT_EQ(FromOldRecord(old).kind, ring::RecordKind::kNone);
  old = Old(v1::RECORD_KIND_BEGIN);
  old.mutable_end();
  EXPECT_EQ(FromOldRecord(old).kind, ring::RecordKind::kNone);
  EXPECT_EQ(FromOldRecord(Old(static_cast<v1::RecordKind>(257))).kind, ring::RecordKind::kNone);
  EXPECT_EQ(FromOldRecord(Old(static_cast<v1::RecordKind>(-255))).kind, ring::RecordKind::kNone);
  old = Old(v1::RECORD_KIND_BEGIN);
  old.set_call(70'000);
  EXPECT_EQ(FromOldRecord(old).call, 0);
}

// 'a' to 'd': an old record of process 1 to 4; '-': another event.
v1::TraceChunk Chunk(const std::string& events) {
  v1::TraceChunk chunk;
  uint64_t order = 0;
  for (const char c : events) {
    v1::Event* const event = chunk.add_events();
    if (c == '-') {
      event->mutable_module()->set_start(++order);
    } else {
      *event->mutable_record() = Old(v1::RECORD_KIND_POINT);
      event->mutable_record()->set_process(static_cast<uint32_t>(c - 'a' + 1));
      event->mutable_record()->set_order(++order);
    }
  }
  return chunk;
}

// The same letters, with blocks in brackets.
std::string Shape(const v1::TraceChunk& chunk) {
  std::string shape;
  uint64_t order = 0;
  for (const v1::Event& event : chunk.events()) {
    EXPECT_FALSE(event.has_record());
    if (event.has_module()) {
      EXPECT_EQ(event.module().start(), ++order);
      shape += '-';
      continue;
    }
    shape += '[';
    ForEachRecord(event.records(), [&](const ring::Record& record) {
      EXPECT_EQ(record.order, ++order);
      shape += static_cast<char>('a' + event.records().process() - 1);
    });
    shape += ']';
  }
  return shape;
}

TEST(OldRecords, RunsOfAProcessBecomeBlocksInTheirPlaces) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"--", "--"},
      {"a", "[a]"},
      {"aaa", "[aaa]"},
      {"aab", "[aa][b]"},
      {"aba", "[a][b][a]"},
      {"-a-", "-[a]-"},
      {"a-a", "[a]-[a]"},
      {"--ab--bbb-", "--[a][b]--[bbb]-"},
      {"aaaa-", "[aaaa]-"},
      {"-dd-cca", "-[dd]-[cc][a]"}};
  for (const auto& [events, shape] : cases) {
    v1::TraceChunk chunk = Chunk(events);
    ReplaceOldRecords(&chunk);
    EXPECT_EQ(Shape(chunk), shape);
  }
}

TEST(RecordBlock, OnlyWholeRecordsOfThisVersionAreRead) {
  v1::Event event;
  v1::RecordBlock* const block = BeginBlock(7, &event);
  EXPECT_EQ(RecordsIn(*block), 0u);
  ring::Record record{};
  for (uint64_t order = 1; order <= 3; ++order) {
    record.order = order;
    AppendRecord(record, block);
  }
  ASSERT_EQ(RecordsIn(*block), 3u);
  EXPECT_EQ(RecordAt(*block, 1).order, 2u);
  block->set_abi(ring::kRingAbiVersion + 1);
  EXPECT_EQ(RecordsIn(*block), 0u);
  block->set_abi(ring::kRingAbiVersion);
  block->mutable_records()->push_back('x');
  EXPECT_EQ(RecordsIn(*block), 0u);
}

}  // namespace
}  // namespace gordian
