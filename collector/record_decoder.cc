#include "collector/record_decoder.h"

#include <cstring>
#include <utility>

#include "proto/ring/calls.h"

namespace gordian::collector {
namespace {

using ring::PayloadKind;
using ring::RecordKind;

// Below: one function a payload. The record is a private copy already, so nothing changes under us.

void FillOperation(const ring::OperationPayload& from, v1::Operation* to) {
  to->set_comm(from.comm);
  to->set_stream(from.stream);
  to->set_count(from.count);
  to->set_sequence(from.sequence);
  to->set_root_or_peer(from.root_or_peer);
  to->set_datatype(from.datatype);
  to->set_reduce_op(from.reduce_op);
  to->set_group(from.group);
}

void FillSignal(const ring::SignalPayload& from, v1::Signal* to) {
  to->set_comm(from.comm);
  to->set_stream(from.stream);
  to->set_peer(from.peer);
  to->set_index(from.index);
  to->set_context(from.context);
  to->set_count(from.count);
  to->set_group(from.group);
  to->set_number(from.number);
}

void FillCommInit(const ring::CommInitPayload& from, v1::CommInit* to) {
  to->set_comm(from.comm);
  to->set_nranks(from.nranks);
  to->set_rank(from.rank);
  to->set_device(from.device);
  to->set_uid(from.uid);
  to->set_parent(from.parent);
  to->set_color(from.color);
}

void FillGroup(const ring::GroupPayload& from, v1::Group* to) {
  to->set_group(from.group);
  to->set_operations(from.operations);
  to->set_streams(from.streams);
}

void FillStream(const ring::StreamPayload& from, v1::Stream* to) {
  to->set_stream(from.stream);
  to->set_flags(from.flags);
  to->set_device(from.device);
  to->set_handle(from.handle);
  to->set_connections(from.connections);
}

void FillWork(const ring::WorkPayload& from, v1::Work* to) {
  to->set_stream(from.stream);
  to->set_kind(static_cast<uint32_t>(from.kind));
  to->set_ordinal(from.ordinal);
  to->set_event(from.event);
  to->set_value(from.value);
}

void FillGraphCall(const ring::GraphPayload& from, v1::GraphCall* to) {
  to->set_what(static_cast<uint32_t>(from.what));
  to->set_graph(from.graph);
  to->set_made(from.made);
  to->set_capture(from.capture);
}

void FillHostWait(const ring::HostWaitPayload& from, v1::HostWait* to) {
  to->set_kind(static_cast<uint32_t>(from.kind));
  to->set_stream(from.stream);
  to->set_device(from.device);
  to->set_event(from.event);
  to->set_ordinal(from.ordinal);
}

void FillEnd(const ring::EndPayload& from, v1::CallEnd* to) {
  to->set_result(from.result);
  to->set_stream(from.stream);
  to->set_ordinal(from.ordinal);
  to->set_comm(from.comm);
  to->set_nranks(from.nranks);
  to->set_rank(from.rank);
  to->set_device(from.device);
}

// The payload of a kBegin or kPoint of a call.
void FillByCall(PayloadKind kind, const ring::Record& record, v1::CallRecord* out) {
  switch (kind) {
    case PayloadKind::kNone:
      return;
    case PayloadKind::kOperation:
      return FillOperation(record.payload.operation, out->mutable_operation());
    case PayloadKind::kSignal:
      return FillSignal(record.payload.signal, out->mutable_signal());
    case PayloadKind::kCommInit:
      return FillCommInit(record.payload.comm_init, out->mutable_comm_init());
    case PayloadKind::kCommCall:
      return out->mutable_comm_call()->set_comm(record.payload.comm_call.comm);
    case PayloadKind::kGroup:
      return FillGroup(record.payload.group, out->mutable_group());
    case PayloadKind::kStreamCreate:
    case PayloadKind::kStreamDestroy:
      return FillStream(record.payload.stream, out->mutable_stream());
    case PayloadKind::kStreamWork:
      return FillWork(record.payload.work, out->mutable_work());
    case PayloadKind::kGraph:
      return FillGraphCall(record.payload.graph, out->mutable_graph());
    case PayloadKind::kHostWait:
      return FillHostWait(record.payload.host_wait, out->mutable_host_wait());
  }
}

}  // namespace

TickClock::TickClock(const ring::ClockCalibration& calibration)
    : ticks_base_(calibration.ticks_base),
      mono_base_ns_(calibration.mono_base_ns),
      ns_per_tick_q32_(calibration.ns_per_tick_q32) {}

uint64_t TickClock::ToMonoNs(uint64_t ticks) const {
  if (ticks == 0) {
    return 0;
  }
  using Wide = unsigned __int128;
  // Ticks before the base happen: other cores' counters, a thread that began before calibration.
  if (ticks < ticks_base_) {
    const Wide back = (static_cast<Wide>(ticks_base_ - ticks) * ns_per_tick_q32_) >> 32;
    return back >= mono_base_ns_ ? 1 : mono_base_ns_ - static_cast<uint64_t>(back);
  }
  const Wide ahead = (static_cast<Wide>(ticks - ticks_base_) * ns_per_tick_q32_) >> 32;
  const Wide sum = ahead + mono_base_ns_;
  return sum > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(sum);
}

Decoded DecodeRecord(const ring::Record& record, ProcessNumber process, ThreadNumber thread,
                     const TickClock& clock, v1::CallRecord* out) {
  // kText belongs to a communicator rather than to a call, so it may come without one.
  if (record.call >= ring::kCallCount ||
      (record.call == ring::kCallNone && record.kind != RecordKind::kText)) {
    return Decoded::kUnknownCall;
  }
  const ring::CallInfo& call = ring::kCalls[record.call];
  switch (record.kind) {
    case RecordKind::kBegin:
      out->set_kind(v1::RECORD_KIND_BEGIN);
      FillByCall(call.payload, record, out);
      break;
    case RecordKind::kPoint:
      out->set_kind(v1::RECORD_KIND_POINT);
      FillByCall(call.payload, record, out);
      break;
    case RecordKind::kEnd:
      out->set_kind(v1::RECORD_KIND_END);
      FillEnd(record.payload.end, out->mutable_end());
      break;
    case RecordKind::kEnqueue:
      if (call.payload != PayloadKind::kGroup) {
        return Decoded::kMisplaced;
      }
      out->set_kind(v1::RECORD_KIND_ENQUEUE);
      out->mutable_enqueue()->set_group(record.payload.enqueue.group);
      out->mutable_enqueue()->set_stream(record.payload.enqueue.stream);
      out->mutable_enqueue()->set_ordinal(record.payload.enqueue.ordinal);
      break;
    case RecordKind::kText:
      out->set_kind(v1::RECORD_KIND_TEXT);
      out->mutable_text()->set_comm(record.payload.text.comm);
      out->mutable_text()->set_text(
          TextOf(record.payload.text.text, sizeof(record.payload.text.text)));
      break;
    case RecordKind::kNone:
    default:
      return Decoded::kUnknownKind;
  }
  out->set_flags(record.flags);
  out->set_call(record.call);
  out->set_thread(thread.number());
  out->set_order(record.order);
  out->set_time_ns(clock.ToMonoNs(record.ticks));
  out->set_call_site(record.call_site);
  out->set_process(process.number());
  return Decoded::kFine;
}

std::string TextOf(const char* field, size_t bytes) {
  return CleanUtf8(std::string(field, strnlen(field, bytes)));
}

std::string CleanUtf8(std::string text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const unsigned char first = byte(i);
    size_t length = 1;
    uint32_t low = 0x80,
             high = 0xBF;  // bounds of the second byte: no overlong forms, no surrogates
    bool valid = true;
    if (first < 0x80) {
      ++i;
      continue;
    } else if (first >= 0xC2 && first <= 0xDF) {
      length = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
      length = 3;
      low = first == 0xE0 ? 0xA0 : 0x80;
      high = first == 0xED ? 0x9F : 0xBF;
    } else if (first >= 0xF0 && first <= 0xF4) {
      length = 4;
      low = first == 0xF0 ? 0x90 : 0x80;
      high = first == 0xF4 ? 0x8F : 0xBF;
    } else {
      valid = false;
    }
    if (valid && i + length <= text.size()) {
      valid = byte(i + 1) >= low && byte(i + 1) <= high;
      for (size_t k = 2; valid && k < length; ++k) {
        valid = byte(i + k) >= 0x80 && byte(i + k) <= 0xBF;
      }
    } else {
      valid = false;
    }
    if (valid) {
      i += length;
    } else {
      text[i++] = '?';
    }
  }
  return text;
}

}  // namespace gordian::collector
