#include "analyzer/ingest/graph_state_block.h"

#include <algorithm>

#include "proto/ring/calls.h"

namespace gordian::analyzer {
namespace {

// As in graph_events.cc: far above what the largest job needs.
constexpr int kMaxEach = 65'536;
constexpr uint64_t kMaxNumber = 1ull << 56;
constexpr int32_t kMaxRanks = 1 << 20;
constexpr int32_t kMaxDevice = 4096;
constexpr size_t kMaxName = 64;
constexpr int kMaxList = 128;  // signatures, pending operations, waits: none is longer

// gordian::ring::NumberKind and NumberFlags (a test holds them together).
constexpr uint32_t kCollective = 1, kSend = 2, kReceive = 3, kSignalsSent = 4, kSignalsAwaited = 5;
constexpr uint32_t kIncomparable = 1, kCaptured = 2, kUsed = 4;

bool IsSane(uint64_t number) { return number <= kMaxNumber; }
int32_t Rank(int32_t rank) { return rank < 0 || rank >= kMaxRanks ? -1 : rank; }
int32_t Device(int32_t device) { return device < 0 || device > kMaxDevice ? -1 : device; }
uint8_t Byte(uint32_t value) { return static_cast<uint8_t>(std::min<uint32_t>(value, 255)); }

model::WaitKind Wait(uint32_t wait) {
  return wait <= static_cast<uint32_t>(ring::WaitKind::kAsyncCopy)
             ? static_cast<ring::WaitKind>(wait)
             : ring::WaitKind::kNoWait;
}

model::CommStateKind CommState(uint32_t state) {
  return state <= static_cast<uint32_t>(model::CommStateKind::kFailed)
             ? static_cast<model::CommStateKind>(state)
             : model::CommStateKind::kUnknown;
}

uint64_t SignalChannel(const v1::SignalChannel& channel) {
  return model::SignalChannelOf(channel.index(), channel.context());
}

bool TranslateNumbers(const v1::CalledNumbers& from, const CallMeaning& meaning,
                      model::CalledNumbers* to) {
  switch (from.kind()) {
    case kCollective:
      to->kind = model::NumberKind::kCollective;
      break;
    case kSend:
      to->kind = model::NumberKind::kSend;
      break;
    case kReceive:
      to->kind = model::NumberKind::kReceive;
      break;
    case kSignalsSent:
      to->kind = model::NumberKind::kSignalsSent;
      break;
    case kSignalsAwaited:
      to->kind = model::NumberKind::kSignalsAwaited;
      break;
    default:
      return false;
  }
  if (!IsSane(from.next()) || !IsSane(from.first()) || !IsSane(from.windows()) ||
      from.last_size() > kMaxList) {
    return false;
  }
  to->comm = from.comm();
  to->peer = Rank(from.peer());
  to->comparable = (from.flags() & kIncomparable) == 0;
  to->captured = (from.flags() & kCaptured) != 0;
  to->used = (from.flags() & kUsed) != 0;
  to->open = from.open();
  to->next = from.next();
  to->hash = from.hash();
  to->color = from.color();
  to->windows = from.windows();
  to->first = from.first();
  to->channel = SignalChannel(from.channel());
  for (const v1::CalledSignature& signature : from.last()) {
    to->last.push_back({.call = meaning(signature.call()),
                        .count = signature.count(),
                        .root = Rank(signature.root()),
                        .datatype = Byte(signature.datatype()),
                        .reduce_op = Byte(signature.reduce_op()),
                        .hash = signature.hash(),
                        .site = signature.site()});
  }
  return true;
}

bool TranslateStream(const v1::PendingStream& from, const CallMeaning& meaning,
                     model::PendingStream* to) {
  if (!IsSane(from.enqueued()) || !IsSane(from.done()) || !IsSane(from.gap_last()) ||
      from.pending_size() > kMaxList) {
    return false;
  }
  to->stream = from.stream();
  to->flags = from.flags();
  to->device = Device(from.device());
  to->handle = from.handle();
  to->enqueued = from.enqueued();
  to->done = from.done();
  to->whole = from.whole();
  to->gap_last = from.gap_last();
  for (const v1::PendingOperation& operation : from.pending()) {
    if (!IsSane(operation.ordinal()) || operation.ordinal() == 0 || !IsSane(operation.launch()) ||
        !IsSane(operation.sequence()) || operation.after_size() > kMaxList) {
      return false;
    }
    model::PendingOperation& out = to->pending.emplace_back();
    out.ordinal = operation.ordinal();
    out.launch = operation.launch();
    out.site = operation.site();
    out.comm = operation.comm();
    out.call = meaning(operation.call());
    out.root_or_peer = Rank(operation.root_or_peer());
    out.sequence = operation.sequence();
    out.count = operation.count();
    out.datatype = Byte(operation.datatype());
    out.reduce_op = Byte(operation.reduce_op());
    out.in_group = operation.in_group();
    out.channel_known = operation.has_channel();
    out.channel = SignalChannel(operation.channel());
    for (const v1::PendingOperation::After& after : operation.after()) {
      if (!IsSane(after.ordinal())) return false;
      out.after.push_back({{after.stream(), after.ordinal()}, after.back()});
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<const model::StateBlock> TranslateBlock(const v1::StateBlock& block,
                                                        const CallMeaning& meaning) {
  if (block.comms_size() > kMaxEach || block.numbers_size() > kMaxEach ||
      block.streams_size() > kMaxEach) {
    return nullptr;
  }
  auto out = std::make_shared<model::StateBlock>();
  out->blind = block.blind();
  out->numbers_incomplete = block.numbers_incomplete();
  out->only_work_lost = block.only_work_lost();
  out->signals = block.signals();
  for (const v1::BlockComm& from : block.comms()) {
    model::BlockComm& to = out->comms.emplace_back();
    to.comm = from.comm();
    to.uid = from.uid();
    to.other_uid = from.other_uid();
    to.nranks = std::clamp(from.nranks(), 0, kMaxRanks);
    to.rank = Rank(from.rank());
    to.device = Device(from.device());
    to.parent = from.parent();
    to.state = CommState(from.state());
    to.name = from.name().substr(0, kMaxName);
  }
  for (const v1::CalledNumbers& from : block.numbers()) {
    if (!TranslateNumbers(from, meaning, &out->numbers.emplace_back())) return nullptr;
  }
  for (const v1::PendingStream& from : block.streams()) {
    if (!TranslateStream(from, meaning, &out->streams.emplace_back())) return nullptr;
  }
  return out;
}

std::shared_ptr<const model::CallDetail> TranslateDetail(const v1::CallDetail& detail) {
  if (!IsSane(detail.sequence()) || detail.covered_size() > kMaxList) {
    return nullptr;
  }
  auto out = std::make_shared<model::CallDetail>();
  out->comm = detail.comm();
  out->stream = detail.stream();
  out->count = detail.count();
  out->sequence = detail.sequence();
  out->root_or_peer = Rank(detail.root_or_peer());
  out->datatype = Byte(detail.datatype());
  out->reduce_op = Byte(detail.reduce_op());
  out->wait = Wait(detail.wait());
  out->flags = Byte(detail.flags());
  out->device = Device(detail.device());
  for (const v1::StreamPlace& place : detail.covered()) {
    if (!IsSane(place.ordinal())) return nullptr;
    out->covered.push_back({place.stream(), place.ordinal()});
  }
  return out;
}

}  // namespace gordian::analyzer
