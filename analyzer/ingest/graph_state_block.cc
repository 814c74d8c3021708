#include "analyzer/ingest/graph_state_block.h"

#include <algorithm>

#include "analyzer/ingest/sane.h"
#include "common/utf8.h"
#include "proto/ring/calls.h"

namespace gordian::analyzer {
namespace {

// As in graph_events.cc: far above what the largest job needs.
constexpr int kMaxEach = 65'536;
constexpr size_t kMaxName = 64;
constexpr int kMaxList = 128;  // signatures, pending operations, waits: none is longer

uint8_t Byte(uint32_t value) { return static_cast<uint8_t>(std::min<uint32_t>(value, 255)); }

model::WaitKind Wait(uint32_t wait) {
  return wait <= static_cast<uint32_t>(ring::WaitKind::kAsyncCopy)
             ? static_cast<ring::WaitKind>(wait)
             : ring::WaitKind::kNoWait;
}

uint64_t SignalChannel(const v1::SignalChannel& channel) {
  return model::SignalChannelOf(channel.index(), channel.context());
}

bool TranslateNumbers(const v1::CalledNumbers& from, const CallMeaning& meaning,
                      model::CalledNumbers* to) {
  const auto kind = static_cast<ring::NumberKind>(from.kind());
  if (kind < ring::NumberKind::kCollective || kind > ring::NumberKind::kSignalsAwaited) {
    return false;
  }
  to->kind = kind;
  if (!IsSane(from.next()) || !IsSane(from.first()) || !IsSane(from.windows()) ||
      from.last_size() > kMaxList) {
    return false;
  }
  to->comm = from.comm();
  to->peer = SaneRank(from.peer());
  to->comparable = (from.flags() & ring::kNumbersIncomparable) == 0;
  to->captured = (from.flags() & ring::kNumbersCaptured) != 0;
  to->used = (from.flags() & ring::kNumbersUsed) != 0;
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
                        .root = SaneRank(signature.root()),
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
  to->device = SaneDevice(from.device());
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
    out.root_or_peer = SaneRank(operation.root_or_peer());
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
    to.nranks = SaneSize(from.nranks());
    to.rank = SaneMember(from.rank(), to.nranks);
    to.device = SaneDevice(from.device());
    to.parent = from.parent();
    to.state = SaneCommState(from.state());
    to.name = Printable(from.name().substr(0, kMaxName));
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
  out->root_or_peer = SaneRank(detail.root_or_peer());
  out->datatype = Byte(detail.datatype());
  out->reduce_op = Byte(detail.reduce_op());
  out->wait = Wait(detail.wait());
  out->flags = Byte(detail.flags());
  out->device = SaneDevice(detail.device());
  for (const v1::StreamPlace& place : detail.covered()) {
    if (!IsSane(place.ordinal())) return nullptr;
    out->covered.push_back({place.stream(), place.ordinal()});
  }
  return out;
}

}  // namespace gordian::analyzer
