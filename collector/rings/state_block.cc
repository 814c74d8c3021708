#include "collector/rings/state_block.h"

#include <algorithm>
#include <span>

#include "common/utf8.h"

namespace gordian::collector {
namespace {

void FillChannel(const ring::SignalChannel& from, v1::SignalChannel* out) {
  out->set_index(from.index);
  out->set_context(from.context);
}

void FillPending(const ring::PendingOperation& from, std::span<const StateBlockReader::Line> lines,
                 v1::PendingOperation* out) {
  out->set_ordinal(from.ordinal);
  out->set_launch(from.launch);
  out->set_site(from.site);
  out->set_comm(from.comm);
  out->set_root_or_peer(from.root_or_peer);
  out->set_sequence(from.sequence);
  out->set_count(from.count);
  out->set_call(from.call);
  out->set_datatype(from.datatype);
  out->set_reduce_op(from.reduce_op);
  out->set_in_group(from.in_group != 0);
  if (from.line != 0 && from.line <= lines.size()) {
    const StateBlockReader::Line& line = lines[from.line - 1];
    // Another line may have taken the slot since the numbers were read, or it may be free now.
    if (line.comm == from.comm && line.peer == from.root_or_peer) {
      FillChannel(line.channel, out->mutable_channel());
    }
  }
  const uint32_t waits = std::min<uint32_t>(from.after_count, ring::kMaxAfter);
  for (uint32_t i = 0; i < waits; ++i) {
    v1::PendingOperation::After* const after = out->add_after();
    after->set_stream(from.after[i].stream);
    after->set_back(from.after[i].back);
    after->set_ordinal(from.after[i].ordinal);
  }
}

bool FillStream(RingFile* file, uint32_t index, std::span<const StateBlockReader::Line> lines,
                v1::StateBlock* out) {
  ring::StreamSlot slot;
  if (!file->ReadStream(index, &slot) || slot.stream == ring::kNoId) {
    return !file->broken();
  }
  RingFile::Pending pending;
  pending.whole = slot.pending_offset == 0;  // no operation was ever put on it
  if (slot.pending_offset != 0 && !file->ReadPending(slot.pending_offset, &pending)) {
    return false;
  }
  ring::StreamSlot after;
  if (!file->ReadStream(index, &after)) {
    return false;
  }
  if (after.stream != slot.stream || after.pending_offset != slot.pending_offset) {
    return true;  // another stream's by now: the first one is no more
  }
  v1::PendingStream* const stream = out->add_streams();
  stream->set_stream(slot.stream);
  stream->set_flags(slot.flags);
  stream->set_device(slot.device);
  stream->set_handle(slot.handle);
  stream->set_enqueued(slot.enqueued);
  const uint64_t done = std::max(after.done, after.synced);
  stream->set_done(done);
  stream->set_whole(pending.whole);
  stream->set_gap_last(pending.gap_last > done ? pending.gap_last : 0);
  for (const ring::PendingOperation& operation : pending.operations) {
    if (operation.ordinal > done) {
      FillPending(operation, lines, stream->add_pending());
    }
  }
  return true;
}

}  // namespace

bool StateBlockReader::ReadNumbers(RingFile* file, const ring::Header& header, bool all,
                                   v1::StateBlock* out) {
  sent_.resize(std::max<size_t>(sent_.size(), header.numbers_used));
  lines_.assign(header.numbers_used, Line());
  for (uint32_t i = 0; i < header.numbers_used; ++i) {
    ring::NumberSlot slot;
    bool consistent = false;
    if (!file->ReadNumbers(i, &slot, &consistent)) {
      return false;
    }
    if (slot.comm == ring::kNoId) {
      continue;
    }
    if (!consistent) {
      out->set_numbers_incomplete(true);
      continue;
    }
    v1::CalledNumbers* const numbers = out->add_numbers();
    numbers->set_comm(slot.comm);
    numbers->set_kind(static_cast<uint32_t>(slot.kind));
    numbers->set_peer(slot.peer);
    numbers->set_flags(slot.flags);
    numbers->set_open(slot.open);
    numbers->set_next(slot.next);
    if (IsSignals(slot.kind)) {
      FillChannel(slot.channel, numbers->mutable_channel());
      lines_[i] = {.comm = slot.comm, .peer = slot.peer, .channel = slot.channel};
      continue;
    }
    numbers->set_hash(slot.hash);
    numbers->set_color(slot.color);
    numbers->set_windows(slot.begun);
    Sent& sent = sent_[i];
    if (!all && sent.comm == slot.comm && sent.next == slot.next && sent.hash == slot.hash) {
      continue;
    }
    sent = {.comm = slot.comm, .next = slot.next, .hash = slot.hash};
    const uint64_t first = std::min(
        slot.next,
        std::max(slot.next - std::min<uint64_t>(slot.next, ring::kSignatures), slot.intact));
    numbers->set_first(first);
    for (uint64_t n = first; n < slot.next; ++n) {
      const ring::Signature& from = slot.last[n % ring::kSignatures];
      v1::CalledSignature* const to = numbers->add_last();
      to->set_count(from.count);
      to->set_root(from.root);
      to->set_call(from.call);
      to->set_datatype(from.datatype);
      to->set_reduce_op(from.reduce_op);
      to->set_hash(from.hash);
      to->set_site(from.site);
    }
  }
  return true;
}

bool StateBlockReader::Read(RingFile* file, bool all, v1::StateBlock* out) {
  ring::Header header;
  // Numbers before streams: state_block.proto relies on it. The header again in between, or an
  // operation that is counted by then could be on a stream that the header did not count yet.
  if (!file->ReadHeader(&header) || !ReadNumbers(file, header, all, out) ||
      !file->ReadHeader(&header)) {
    return false;
  }
  std::vector<ring::CommSlot> comms;
  if (!file->ReadComms(header.comms_used, &comms)) {
    return false;
  }
  for (const ring::CommSlot& slot : comms) {
    v1::BlockComm* const comm = out->add_comms();
    comm->set_comm(slot.comm);
    comm->set_uid(slot.uid);
    comm->set_other_uid(slot.other_uid);
    comm->set_nranks(slot.nranks);
    comm->set_rank(slot.rank);
    comm->set_device(slot.device);
    comm->set_parent(slot.parent);
    comm->set_state(static_cast<uint32_t>(slot.state));
    comm->set_name(TextOf(slot.name, sizeof(slot.name)));
  }
  for (uint32_t i = 0; i < header.streams_used; ++i) {
    if (!FillStream(file, i, lines_, out)) {
      return false;
    }
  }
  // Once more: what was lost while this was read is missing in it.
  if (!file->ReadHeader(&header)) {
    return false;
  }
  out->set_blind(header.lost_calls > 0 || header.lost_streams > 0 || header.lost_comms > 0 ||
                 header.markers_enabled == 0);
  out->set_numbers_incomplete(out->numbers_incomplete() || header.lost_numbers > 0);
  out->set_only_work_lost(header.lost_records <= header.lost_work);
  out->set_signals(true);
  return true;
}

void FillDetail(const ring::CallDetail& detail, v1::CallDetail* out) {
  const ring::CallArguments& from = detail.arguments;
  out->set_comm(from.comm);
  out->set_stream(from.stream);
  out->set_count(from.count);
  out->set_sequence(from.sequence);
  out->set_root_or_peer(from.root_or_peer);
  out->set_datatype(from.datatype);
  out->set_reduce_op(from.reduce_op);
  out->set_wait(from.wait);
  out->set_flags(from.flags);
  out->set_device(from.device);
  for (uint32_t i = 0; i < std::min(from.covered, ring::kMaxCovered); ++i) {
    v1::StreamPlace* const place = out->add_covered();
    place->set_stream(detail.positions[i].stream);
    place->set_ordinal(detail.positions[i].ordinal);
  }
}

}  // namespace gordian::collector
