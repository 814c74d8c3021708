#include "common/old_records.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/record_block.h"

namespace gordian {
namespace {

// For fields that were widened for protobuf: what does not fit was never in a record.
uint8_t Byte(uint32_t value) { return static_cast<uint8_t>(std::min<uint32_t>(value, UINT8_MAX)); }

ring::OperationPayload PayloadOf(const v1::Operation& old) {
  return {.comm = old.comm(),
          .stream = old.stream(),
          .count = old.count(),
          .sequence = old.sequence(),
          .root_or_peer = old.root_or_peer(),
          .datatype = Byte(old.datatype()),
          .reduce_op = Byte(old.reduce_op()),
          .group = static_cast<uint16_t>(old.group())};
}

ring::SignalPayload PayloadOf(const v1::Signal& old) {
  return {.comm = old.comm(),
          .stream = old.stream(),
          .peer = old.peer(),
          .index = old.index(),
          .context = old.context(),
          .count = old.count(),
          .group = old.group(),
          .number = old.number()};
}

ring::CommInitPayload PayloadOf(const v1::CommInit& old) {
  return {.comm = old.comm(),
          .nranks = old.nranks(),
          .rank = old.rank(),
          .device = old.device(),
          .uid = old.uid(),
          .parent = old.parent(),
          .color = old.color()};
}

ring::StreamPayload PayloadOf(const v1::Stream& old) {
  return {.stream = old.stream(),
          .flags = old.flags(),
          .device = old.device(),
          .connections = old.connections(),
          .handle = old.handle(),
          .reserved1 = 0};
}

ring::WorkPayload PayloadOf(const v1::Work& old) {
  return {.stream = old.stream(),
          .kind = static_cast<ring::WorkKind>(old.kind()),
          .ordinal = old.ordinal(),
          .event = old.event(),
          .value = old.value()};
}

ring::GraphPayload PayloadOf(const v1::GraphCall& old) {
  return {.what = static_cast<ring::GraphCall>(old.what()),
          .reserved0 = 0,
          .graph = old.graph(),
          .made = old.made(),
          .capture = old.capture()};
}

ring::HostWaitPayload PayloadOf(const v1::HostWait& old) {
  return {.kind = static_cast<ring::WaitKind>(old.kind()),
          .stream = old.stream(),
          .device = old.device(),
          .part = 0,
          .event = old.event(),
          .ordinal = old.ordinal()};
}

ring::EndPayload PayloadOf(const v1::CallEnd& old) {
  return {.result = old.result(),
          .stream = old.stream(),
          .ordinal = old.ordinal(),
          .comm = old.comm(),
          .nranks = old.nranks(),
          .rank = old.rank(),
          .device = old.device()};
}

ring::EnqueuePayload PayloadOf(const v1::Enqueue& old) {
  return {.group = old.group(), .stream = old.stream(), .ordinal = old.ordinal(), .reserved0 = {}};
}

ring::GroupPayload PayloadOf(const v1::Group& old) {
  return {.group = old.group(),
          .operations = old.operations(),
          .streams = old.streams(),
          .reserved0 = 0,
          .reserved1 = {}};
}

ring::TextPayload PayloadOf(const v1::Text& old) {
  ring::TextPayload text{.comm = old.comm(), .text = {}};
  std::memcpy(text.text, old.text().data(), std::min(old.text().size(), sizeof text.text));
  return text;
}

// A record whose kind and payload contradict each other makes no sense.
bool KindFitsPayload(const v1::OldRecord& old) {
  using Payload = v1::OldRecord::PayloadCase;
  const Payload payload = old.payload_case();
  return (payload == Payload::kEnd) == (old.kind() == v1::RECORD_KIND_END) &&
         (payload == Payload::kEnqueue) == (old.kind() == v1::RECORD_KIND_ENQUEUE) &&
         (payload == Payload::kText) == (old.kind() == v1::RECORD_KIND_TEXT);
}

}  // namespace

ring::Record FromOldRecord(const v1::OldRecord& old) {
  ring::Record record{};
  if (old.kind() >= 0 && old.kind() <= UINT8_MAX && KindFitsPayload(old))
    record.kind = static_cast<ring::RecordKind>(old.kind());
  record.flags = static_cast<uint8_t>(old.flags());
  record.call = old.call() <= UINT16_MAX ? static_cast<uint16_t>(old.call()) : 0;
  record.thread = old.thread();
  record.order = old.order();
  record.ticks = old.time_ns();
  record.call_site = old.call_site();
  switch (old.payload_case()) {
    case v1::OldRecord::kOperation:
      record.payload.operation = PayloadOf(old.operation());
      break;
    case v1::OldRecord::kSignal:
      record.payload.signal = PayloadOf(old.signal());
      break;
    case v1::OldRecord::kCommInit:
      record.payload.comm_init = PayloadOf(old.comm_init());
      break;
    case v1::OldRecord::kCommCall:
      record.payload.comm_call.comm = old.comm_call().comm();
      break;
    case v1::OldRecord::kGroup:
      record.payload.group = PayloadOf(old.group());
      break;
    case v1::OldRecord::kStream:
      record.payload.stream = PayloadOf(old.stream());
      break;
    case v1::OldRecord::kWork:
      record.payload.work = PayloadOf(old.work());
      break;
    case v1::OldRecord::kGraph:
      record.payload.graph = PayloadOf(old.graph());
      break;
    case v1::OldRecord::kHostWait:
      record.payload.host_wait = PayloadOf(old.host_wait());
      break;
    case v1::OldRecord::kEnd:
      record.payload.end = PayloadOf(old.end());
      break;
    case v1::OldRecord::kEnqueue:
      record.payload.enqueue = PayloadOf(old.enqueue());
      break;
    case v1::OldRecord::kText:
      record.payload.text = PayloadOf(old.text());
      break;
    case v1::OldRecord::PAYLOAD_NOT_SET:
      break;
  }
  return record;
}

void ReplaceOldRecords(v1::TraceChunk* chunk) {
  auto& events = *chunk->mutable_events();
  int kept = 0;
  v1::RecordBlock* block = nullptr;  // that the run fills
  for (int i = 0; i < events.size(); ++i) {
    if (!events[i].has_record()) {
      block = nullptr;
      events.SwapElements(kept++, i);
      continue;
    }
    const ring::Record record = FromOldRecord(events[i].record());
    const uint32_t process = events[i].record().process();
    if (block == nullptr || block->process() != process) {
      events.SwapElements(kept, i);
      block = BeginBlock(process, &events[kept++]);  // clears the OldRecord: an event holds one
    }
    AppendRecord(record, block);
  }
  events.DeleteSubrange(kept, events.size() - kept);
}

}  // namespace gordian
