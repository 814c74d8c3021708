#include "runtime/cpu/across/mailboxes.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gordian::runtime {

Outbox::Outbox(uint64_t key, std::shared_ptr<Segment> segment, uint32_t me,
               std::vector<uint32_t> members)
    : key_(key), segment_(std::move(segment)), me_(me), members_(std::move(members)) {
  operations_.resize(window());
}

void Outbox::Begun(const OpView& view) {
  const std::lock_guard<std::mutex> lock(mutex_);
  operations_[view.slot] = {view.desc.seq, view.desc, view.chunks, view.publishers, view.readers};
}

bool Outbox::Touch(uint32_t slot) {
  touched_.fetch_or(uint64_t{1} << (slot % 64), std::memory_order_seq_cst);
  return !queued_.exchange(true, std::memory_order_seq_cst);
}

bool Outbox::TouchAll() {
  touched_.store(~uint64_t{0}, std::memory_order_seq_cst);
  return !queued_.exchange(true, std::memory_order_seq_cst);
}

uint64_t Outbox::TakeTouched() {
  queued_.store(false, std::memory_order_seq_cst);
  return touched_.exchange(0, std::memory_order_seq_cst);
}

void Outbox::SetFarNodes(std::vector<FarNode> nodes) {
  far_nodes_ = std::move(nodes);
  sent_.assign(far_nodes_.size() * window(), Sent());
}

// Of a lane's chunk, the bytes that members of the node read: one message for each stretch. A chunk
// of which they read no byte is told all the same, since they count it.
void Outbox::SendChunk(const Operation& op, const FarNode& node, Wire wire, bool result,
                       const std::function<void(const Part&)>& send) const {
  const PortView& view = segment_->view();
  const auto n = static_cast<uint32_t>(members_.size());
  const uint64_t size = SizeOf(op.desc.dtype);
  const uint32_t slot = view.SlotOf(op.seq);
  const Span span = ChunkSpan(op.chunks, op.desc.count, wire.chunk * op.desc.nchan + wire.channel);
  struct Stretch {
    uint64_t first, count;  // elements
  };
  std::vector<Stretch> stretches;
  const auto add = [&](uint64_t first, uint64_t count) {
    if (count == 0) return;
    if (!stretches.empty() && stretches.back().first + stretches.back().count == first) {
      stretches.back().count += count;
    } else {
      stretches.push_back({first, count});
    }
  };
  if (result) {
    add(0, ShardSpan(span.count, n, me_).count);
  } else if (op.chunks.pieces || op.chunks.two_shot) {
    for (const uint32_t m : node.members) {
      if (!internal::Has(op.readers, m)) continue;
      const Span part =
          op.chunks.pieces ? Span{m * span.count, span.count} : ShardSpan(span.count, n, m);
      add(part.first, part.count);
    }
  } else {
    add(0, span.count);
  }
  const unsigned char* lane = result ? view.Result(slot, me_, wire.channel, wire.chunk)
                                     : view.Contribution(slot, me_, wire.channel, wire.chunk);
  wire.type = WireType::kData;
  wire.result = result ? 1 : 0;
  wire.parts = stretches.empty() ? 1 : static_cast<uint32_t>(stretches.size());
  if (stretches.empty()) send({wire, nullptr, 0});
  for (const Stretch& stretch : stretches) {
    wire.offset = static_cast<uint32_t>(stretch.first * size);
    send({wire, lane + stretch.first * size, stretch.count * size});
  }
}

bool Outbox::Update(uint32_t slot, size_t far_node, bool lazily,
                    const std::function<void(const Part&)>& send) {
  const PortView& view = segment_->view();
  Operation op;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    op = operations_[slot];
  }
  const Board& board = view.BoardOf(slot, me_);
  // The member is at another operation, whose Begun and touch are about to come: all members are
  // done with the one that is known here, so no one waits for more of it.
  if (op.seq == 0 || Acquire(board.seq) != op.seq) return false;
  const FarNode& node = far_nodes_[far_node];
  Sent& sent = sent_[far_node * window() + slot];
  if (sent.seq != op.seq) {
    sent.seq = op.seq;
    sent.board = false;
    sent.channels.assign(op.desc.nchan, {});
  }
  bool reads = false;
  for (const uint32_t m : node.members) reads |= internal::Has(op.readers, m);
  Wire wire;
  wire.port = key_;
  wire.seq = op.seq;
  wire.signature = op.desc.signature;
  wire.scalar = op.desc.scalar;
  // Last in the operation, so first here: who reads it later has all that is before it.
  const uint64_t done_seq = Acquire(board.done_seq);
  bool left = false;
  for (uint32_t c = 0; c < op.desc.nchan; ++c) {
    const Counters& counters = view.CountersOf(slot, me_, c);
    Sent::Channel& channel = sent.channels[c];
    wire.channel = static_cast<uint8_t>(c);
    wire.done_seq = done_seq;
    wire.consumed = Acquire(counters.consumed);
    wire.gathered = Acquire(counters.gathered);
    const uint64_t published = Acquire(counters.published), reduced = Acquire(counters.reduced);
    bool told = sent.board && done_seq == sent.done_seq && wire.consumed == channel.consumed &&
                wire.gathered == channel.gathered;
    for (; reads && channel.contributions < published; ++channel.contributions) {
      wire.chunk = channel.contributions;
      SendChunk(op, node, wire, false, send);
      told = true;
    }
    for (; reads && op.chunks.two_shot && channel.results < reduced; ++channel.results) {
      wire.chunk = channel.results;
      SendChunk(op, node, wire, true, send);
      told = true;
    }
    if (!told && lazily && sent.board && ChannelChunks(op.chunks, c, op.desc.nchan) <= kSlots) {
      left = true;  // all chunks have room: only a later operation waits for that
      continue;
    }
    if (!told) {
      wire.type = WireType::kState;
      send({wire, nullptr, 0});
    }
    channel.consumed = wire.consumed;
    channel.gathered = wire.gathered;
  }
  sent.board = true;
  if (!left) sent.done_seq = done_seq;
  return left;
}

// From the segment: another process of this node may have taken this member's messages before.
void Inbox::Load(uint32_t slot, uint32_t member, Arrival* arrival) {
  const PortView& view = segment_->view();
  arrival->loaded = true;
  arrival->lanes.assign(view.geometry().channels * 2, Arrival::Lane());
  for (uint32_t c = 0; c < view.geometry().channels; ++c) {
    const Counters& counters = view.CountersOf(slot, member, c);
    arrival->lanes[c * 2].whole = Acquire(counters.published);
    arrival->lanes[c * 2 + 1].whole = Acquire(counters.reduced);
  }
}

bool Inbox::Place(const Wire& wire, uint32_t slot, uint32_t member, Arrival::Lane* lane,
                  const void* data, size_t bytes) {
  const PortView& view = segment_->view();
  if (wire.parts == 0 || wire.chunk < lane->whole || wire.chunk >= lane->whole + kSlots ||
      wire.offset > view.geometry().chunk_bytes ||
      bytes > view.geometry().chunk_bytes - wire.offset) {
    return false;
  }
  unsigned char* to = wire.result != 0 ? view.Result(slot, member, wire.channel, wire.chunk)
                                       : view.Contribution(slot, member, wire.channel, wire.chunk);
  if (bytes != 0) std::memcpy(to + wire.offset, data, bytes);
  const auto at = wire.chunk % kSlots;
  if (++lane->parts[at] < wire.parts) return true;
  lane->parts[at] = 0;
  lane->complete[at] = true;
  while (lane->complete[lane->whole % kSlots]) lane->complete[lane->whole++ % kSlots] = false;
  Counters& counters = view.CountersOf(slot, member, wire.channel);
  Release(wire.result != 0 ? counters.reduced : counters.published, lane->whole);
  return true;
}

grtResult_t Inbox::Apply(const Wire& wire, uint32_t member, const void* data, size_t bytes,
                         uint64_t near) {
  const PortView& view = segment_->view();
  const PortGeometry& g = view.geometry();
  if (wire.channel >= g.channels || wire.seq == 0) return grtInternalError;
  const uint32_t slot = view.SlotOf(wire.seq);
  Board& board = view.BoardOf(slot, member);
  Arrival& arrival = arrivals_[uint64_t{slot} * g.members + member];
  const uint64_t at = Acquire(board.seq);
  if (wire.seq < at) return grtSuccess;  // late: all members are done with that one
  bool mismatch = false;
  if (wire.seq > at) {
    // As Begin does on the member's own node.
    if (!segment_->ReserveLanes(slot, member)) return grtSystemError;
    for (uint32_t c = 0; c < g.channels; ++c) {
      Counters& counters = view.CountersOf(slot, member, c);
      StoreRelaxed(counters.published, 0);
      StoreRelaxed(counters.consumed, 0);
      StoreRelaxed(counters.reduced, 0);
      StoreRelaxed(counters.gathered, 0);
    }
    arrival.loaded = false;
    board.signature = wire.signature;
    board.scalar = wire.scalar;
    board.flags = 0;
    std::atomic_ref<uint64_t>(board.seq).exchange(wire.seq, std::memory_order_seq_cst);
    for (uint32_t m = 0; m < g.members; ++m) {
      if (!internal::Has(near, m)) continue;
      const Board& other = view.BoardOf(slot, m);
      const uint64_t its = std::atomic_ref<uint64_t>(const_cast<uint64_t&>(other.seq))
                               .load(std::memory_order_seq_cst);
      mismatch |= its == wire.seq && other.signature != wire.signature;
    }
  }
  if (!arrival.loaded) Load(slot, member, &arrival);
  if (wire.type == WireType::kData) {
    Arrival::Lane* lane = &arrival.lanes[wire.channel * 2u + (wire.result != 0 ? 1 : 0)];
    if (!Place(wire, slot, member, lane, data, bytes)) return grtInternalError;
  }
  Counters& counters = view.CountersOf(slot, member, wire.channel);
  if (wire.consumed > LoadRelaxed(counters.consumed)) Release(counters.consumed, wire.consumed);
  if (wire.gathered > LoadRelaxed(counters.gathered)) Release(counters.gathered, wire.gathered);
  if (wire.done_seq > LoadRelaxed(board.done_seq)) Release(board.done_seq, wire.done_seq);
  return mismatch ? grtMismatch : grtSuccess;
}

}  // namespace gordian::runtime
