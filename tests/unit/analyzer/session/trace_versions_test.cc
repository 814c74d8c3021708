// A golden trace of each format, written by a gordian that wrote that format, reads the same for
// ever. Both tell of one job: ranks 0 and 1 call two communicators in opposite orders (TwoRanks of
// testing/jobs), and a third process makes a call of every kind of payload, once, and leaves.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "analyzer/session/analysis.h"
#include "common/record_block.h"
#include "common/trace_file.h"
#include "common/utf8.h"
#include "common/version.h"

namespace gordian::analyzer {
namespace {

constexpr uint32_t kWitness = 3;  // the process with every kind of payload

std::string PathOf(uint32_t format) {
  return std::string(GORDIAN_GOLDEN_DIR) + "/format" + std::to_string(format) + ".gtrace";
}

std::vector<v1::Event> EventsOf(uint32_t format) {
  StatusOr<std::unique_ptr<TraceReader>> reader = TraceReader::Open(PathOf(format));
  EXPECT_TRUE(reader.ok()) << reader.status().ToString();
  std::vector<v1::Event> events;
  if (!reader.ok()) return events;
  EXPECT_EQ((*reader)->header().format(), format);
  while (const v1::TraceChunk* const chunk = (*reader)->Next()) {
    events.insert(events.end(), chunk->events().begin(), chunk->events().end());
  }
  EXPECT_EQ((*reader)->ending(), TraceReader::Ending::kComplete);
  return events;
}

class TraceVersions : public ::testing::TestWithParam<uint32_t> {};

TEST_P(TraceVersions, TheVerdictIsWhatItWas) {
  const StatusOr<AnalysisResult> result = AnalyzeTrace(PathOf(GetParam()));
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_TRUE(result->complete);
  EXPECT_EQ(result->dropped_events, 0u);
  EXPECT_EQ(result->header.command_line(), "train --steps 1");
  const model::Finding& main = result->verdict.main;
  EXPECT_EQ(main.verdict, model::VerdictKind::kDeadlock);
  EXPECT_EQ(main.confidence, model::Confidence::kConfirmed);
  EXPECT_EQ(main.cycle.size(), 2u) << main.summary;
  EXPECT_EQ(main.evidence.records_lost, 0u);
}

// Field by field what the writer was given.
TEST_P(TraceVersions, EveryKindOfPayloadIsRead) {
  std::map<uint32_t, std::string> symbols;
  std::vector<ring::Record> witness;
  for (const v1::Event& event : EventsOf(GetParam())) {
    if (event.has_call_name()) symbols[event.call_name().call()] = event.call_name().symbol();
    if (event.records().process() != kWitness) continue;
    ForEachRecord(event.records(), [&](const ring::Record& record) { witness.push_back(record); });
  }
  ASSERT_EQ(witness.size(), 24u);
  for (size_t i = 0; i < witness.size(); ++i) {
    EXPECT_EQ(witness[i].order, i + 1);
    EXPECT_EQ(witness[i].thread, 1u);
    EXPECT_EQ(witness[i].call_site, 0x550000001000 + 16 * (i + 1));
    EXPECT_EQ(witness[i].ticks, 1'000'500'000 + 1000 * (i + 1));
    EXPECT_EQ(witness[i].flags, i == 6 || i == 15 ? 1 : 0) << i;
  }
  size_t at = 0;
  const auto next = [&](ring::RecordKind kind,
                        const std::string& symbol) -> const decltype(ring::Record::payload)& {
    const ring::Record& record = witness[at++];
    EXPECT_EQ(record.kind, kind) << at;
    EXPECT_EQ(symbols[record.call], symbol) << at;
    return record.payload;
  };
  const auto end = [&](const std::string& symbol, uint32_t stream, uint64_t ordinal) {
    const ring::EndPayload& payload = next(ring::RecordKind::kEnd, symbol).end;
    EXPECT_EQ(payload.result, 0);
    EXPECT_EQ(payload.stream, stream) << at;
    EXPECT_EQ(payload.ordinal, ordinal) << at;
    EXPECT_EQ(payload.rank, -1) << at;
    EXPECT_EQ(payload.device, -1) << at;
  };
  using Kind = ring::RecordKind;
  const std::string makes = "ncclCommInitRankConfig";
  const ring::CommInitPayload& init = next(Kind::kBegin, makes).comm_init;
  EXPECT_EQ(init.comm, 1u);
  EXPECT_EQ(init.nranks, 1);
  EXPECT_EQ(init.rank, 0);
  EXPECT_EQ(init.device, 2);
  EXPECT_EQ(init.uid, 0xfeedfacecafebeef);
  EXPECT_EQ(init.parent, 0u);
  const ring::TextPayload& text = next(Kind::kText, makes).text;
  EXPECT_EQ(text.comm, 1u);
  EXPECT_EQ(TextOf(text.text, sizeof text.text),
            "m\xc3\xa4"
            "dchen");
  const ring::EndPayload& made = next(Kind::kEnd, makes).end;
  EXPECT_EQ(made.comm, 1u);
  EXPECT_EQ(made.nranks, 1);
  EXPECT_EQ(made.rank, 0);
  EXPECT_EQ(made.device, 2);
  const ring::CommInitPayload& split = next(Kind::kBegin, "ncclCommSplit").comm_init;
  EXPECT_EQ(split.comm, 2u);
  EXPECT_EQ(split.nranks, 0);
  EXPECT_EQ(split.rank, -1);
  EXPECT_EQ(split.uid, 77u);
  EXPECT_EQ(split.parent, 1u);
  EXPECT_EQ(split.color, 3);
  EXPECT_EQ(next(Kind::kEnd, "ncclCommSplit").end.comm, 2u);
  const ring::StreamPayload& stream = next(Kind::kPoint, "cudaStreamCreate").stream;
  EXPECT_EQ(stream.stream, 1u);
  EXPECT_EQ(stream.flags, ring::kStreamBlocking);
  EXPECT_EQ(stream.device, 2);
  EXPECT_EQ(stream.handle, 0x7f0000001000u);
  EXPECT_EQ(stream.connections, 8u);
  const ring::OperationPayload& operation = next(Kind::kBegin, "ncclAllReduce").operation;
  EXPECT_EQ(operation.comm, 1u);
  EXPECT_EQ(operation.stream, 1u);
  EXPECT_EQ(operation.count, 1ull << 33);
  EXPECT_EQ(operation.sequence, 0u);
  EXPECT_EQ(operation.root_or_peer, -1);
  EXPECT_EQ(operation.datatype, 7);
  EXPECT_EQ(operation.reduce_op, 0);
  EXPECT_EQ(operation.group, 5);
  end("ncclAllReduce", 0, 0);
  const ring::GroupPayload& group = next(Kind::kBegin, "ncclGroupEnd").group;
  EXPECT_EQ(group.group, 5u);
  EXPECT_EQ(group.operations, 1u);
  EXPECT_EQ(group.streams, 1u);
  const ring::EnqueuePayload& enqueue = next(Kind::kEnqueue, "ncclGroupEnd").enqueue;
  EXPECT_EQ(enqueue.group, 5u);
  EXPECT_EQ(enqueue.stream, 1u);
  EXPECT_EQ(enqueue.ordinal, 1u);
  end("ncclGroupEnd", 0, 0);
  uint64_t ordinal = 1;
  for (const char* symbol : {"ncclSignal", "ncclWaitSignal"}) {
    const ring::SignalPayload& signal = next(Kind::kBegin, symbol).signal;
    EXPECT_EQ(signal.comm, 1u);
    EXPECT_EQ(signal.stream, 1u);
    EXPECT_EQ(signal.peer, 0);
    EXPECT_EQ(signal.index, 4);
    EXPECT_EQ(signal.context, 1);
    EXPECT_EQ(signal.count, 1u);
    EXPECT_EQ(signal.number, 0u);
    end(symbol, 1, ++ordinal);
  }
  const ring::WorkPayload& value = next(Kind::kPoint, "cuStreamWaitValue32_v2").work;
  EXPECT_EQ(value.stream, 1u);
  EXPECT_EQ(value.kind, ring::WorkKind::kMemoryWait);
  EXPECT_EQ(value.ordinal, 4u);
  EXPECT_EQ(value.event, 0x7f00aa000010u);
  EXPECT_EQ(value.value, 42u);
  const ring::GraphPayload& captured = next(Kind::kPoint, "cudaStreamEndCapture").graph;
  EXPECT_EQ(captured.what, ring::GraphCall::kEndCapture);
  EXPECT_EQ(captured.graph, 0xa1u);
  EXPECT_EQ(captured.capture, 9u);
  const ring::GraphPayload& exec = next(Kind::kPoint, "cudaGraphInstantiate").graph;
  EXPECT_EQ(exec.what, ring::GraphCall::kInstantiate);
  EXPECT_EQ(exec.graph, 0xa1u);
  EXPECT_EQ(exec.made, 0xb1u);
  const ring::WorkPayload& launch = next(Kind::kPoint, "cudaGraphLaunch").work;
  EXPECT_EQ(launch.kind, ring::WorkKind::kGraphLaunch);
  EXPECT_EQ(launch.ordinal, 5u);
  EXPECT_EQ(launch.event, 0xb1u);
  const ring::HostWaitPayload& copy = next(Kind::kBegin, "cudaMemcpy").host_wait;
  EXPECT_EQ(copy.kind, ring::WaitKind::kCopy);
  EXPECT_EQ(copy.stream, 1u);
  EXPECT_EQ(copy.device, 2);
  EXPECT_EQ(copy.ordinal, 5u);
  end("cudaMemcpy", 0, 0);
  EXPECT_EQ(next(Kind::kBegin, "ncclCommDestroy").comm_call.comm, 2u);
  end("ncclCommDestroy", 0, 0);
  EXPECT_EQ(next(Kind::kPoint, "cudaStreamDestroy").stream.stream, 1u);
}

INSTANTIATE_TEST_SUITE_P(Formats, TraceVersions, ::testing::Range(1u, kTraceFormat + 1));

// What was kept of each format is one job: record by record.
TEST(TraceVersions, AllHoldTheSameRecords) {
  const auto records = [](uint32_t format) {
    std::map<uint32_t, std::string> of_process;
    for (const v1::Event& event : EventsOf(format)) {
      ForEachRecord(event.records(), [&](const ring::Record& record) {
        of_process[event.records().process()].append(reinterpret_cast<const char*>(&record),
                                                     sizeof record);
      });
    }
    return of_process;
  };
  const auto first = records(1);
  ASSERT_EQ(first.size(), 3u);
  for (uint32_t format = 2; format <= kTraceFormat; ++format) EXPECT_EQ(records(format), first);
}

}  // namespace
}  // namespace gordian::analyzer
