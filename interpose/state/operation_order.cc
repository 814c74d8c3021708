#include "interpose/state/operation_order.h"

#include "interpose/state/ring_file.h"

namespace gordian::interpose {
namespace {

constexpr uint32_t kProbes = 16;
constexpr uint64_t kErased = 1;

uint64_t DoneOf(const ring::StreamSlot& slot) {
  auto& shared = const_cast<ring::StreamSlot&>(slot);
  const uint64_t done = Shared(shared.done).load(std::memory_order_relaxed);
  const uint64_t synced = Shared(shared.synced).load(std::memory_order_relaxed);
  return done > synced ? done : synced;
}

// Also true if another stream has the slot: everything on the old one is over.
bool IsDone(const Process& process, const OrderedAfter& place) {
  const ring::StreamSlot& slot = process.streams[place.index];
  const uint32_t id =
      Shared(const_cast<ring::StreamSlot&>(slot).stream).load(std::memory_order_relaxed);
  return id != place.stream || DoneOf(slot) >= place.ordinal;
}

template <uint32_t kMost>
void Merge(const OrderedAfter& place, OrderedAfter (&list)[kMost], uint32_t* count) {
  for (uint32_t i = 0; i < *count; ++i) {
    if (list[i].stream != place.stream) continue;
    if (list[i].ordinal < place.ordinal) list[i] = place;
    return;
  }
  if (*count < kMost) list[(*count)++] = place;
}

void Merge(const OrderedAfter& place, Behind* behind) {
  Merge(place, behind->places, &behind->count);
}

uint32_t HashOf(uint64_t event) {
  return static_cast<uint32_t>((event * 0x9E3779B97F4A7C15ull) >> 40);
}

EventEntry* FindEvent(const Process& process, uint64_t event) {
  auto& entries = const_cast<Process&>(process).events;
  for (uint32_t i = 0, at = HashOf(event); i < kProbes; ++i, ++at) {
    EventEntry& entry = entries[at % kMaxEvents];
    // litmus: event.find
    const uint64_t key = entry.key.load(std::memory_order_acquire);
    if (key == event) return &entry;
    if (key == 0) return nullptr;
  }
  return nullptr;
}

EventEntry* AddEvent(Process& process, uint64_t event) {
  for (uint32_t i = 0, at = HashOf(event); i < kProbes; ++i, ++at) {
    EventEntry& entry = process.events[at % kMaxEvents];
    uint64_t key = entry.key.load(std::memory_order_relaxed);
    if (key > kErased) continue;
    // litmus: event.add
    if (entry.key.compare_exchange_strong(key, event, std::memory_order_acq_rel)) return &entry;
    if (key == event) return &entry;
  }
  return nullptr;
}

uint32_t IndexOf(const Process& process, const StreamState& stream) {
  return static_cast<uint32_t>(stream.slot - process.streams);
}

uint64_t Pack(const OrderedAfter& place) {
  return uint64_t{place.index} << 53 | (uint64_t{place.stream} & 0x1fffff) << 32 |
         (place.ordinal & 0xffffffff);
}

// Returns false if there is no place, or its operation is done.
bool Unpack(const Process& process, uint64_t word, OrderedAfter* place) {
  if (word == 0) return false;
  place->index = static_cast<uint32_t>(word >> 53);
  ring::StreamSlot& slot = process.streams[place->index];
  place->stream = Shared(slot.stream).load(std::memory_order_relaxed);
  if ((place->stream & 0x1fffff) != (word >> 32 & 0x1fffff))
    return false;  // another has the slot now
  // The last ordinal with these lower bits.
  const uint64_t enqueued = Shared(slot.enqueued).load(std::memory_order_relaxed);
  place->ordinal = enqueued - ((enqueued - word) & 0xffffffff);
  place->at = 0;
  // Wraps where another stream has the slot by now, and has no such ordinal.
  return place->ordinal <= enqueued && DoneOf(slot) < place->ordinal;
}

// Its queue, from the file at its first operation. Null when there is no room. Under the
// order_lock.
ring::PendingQueue* QueueOf(Process& process, StreamState& stream) {
  if (stream.pending != nullptr || stream.no_pending) return stream.pending;
  const uint64_t offset = TakeStateSpace(process, sizeof(ring::PendingQueue));
  if (offset == 0) {
    stream.no_pending = true;
    return nullptr;
  }
  stream.pending = reinterpret_cast<ring::PendingQueue*>(process.base + offset);
  // litmus: pending.queue
  Shared(stream.slot->pending_offset).store(offset, std::memory_order_release);
  return stream.pending;
}

// Under the order_lock.
void NoteGap(ring::PendingQueue* queue, StreamState& stream, uint64_t ordinal) {
  if (queue == nullptr) return;
  if (queue->gap_last <= DoneOf(*stream.slot)) Put(queue->gap_first, ordinal);
  Put(queue->gap_last, ordinal);
}

}  // namespace

void AddBehindStream(const Process& process, StreamState& stream, Behind* behind) {
  OrderedAfter last;
  // litmus: last_word.behind
  if (Unpack(process, stream.last_word.load(std::memory_order_acquire), &last)) {
    Merge(last, behind);
  }
  if (stream.awaited_count.load(std::memory_order_relaxed) == 0) return;
  if (!stream.order_lock.Acquire()) return;
  const uint32_t count = stream.awaited_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    if (!IsDone(process, stream.awaited[i])) Merge(stream.awaited[i], behind);
  }
  stream.order_lock.Release();
}

void AddBehindEvent(const Process& process, const void* event, Behind* behind) {
  const uint64_t handle = reinterpret_cast<uint64_t>(event);
  const EventEntry* entry = FindEvent(process, handle);
  if (entry == nullptr) return;
  for (const std::atomic<uint64_t>& word : entry->places) {
    OrderedAfter place;
    // In order with what Unpack reads of the stream: it was enqueued before the word was written.
    // litmus: place.read
    if (Unpack(process, word.load(std::memory_order_acquire), &place)) Merge(place, behind);
  }
}

void AddBehindDevice(Process& process, int32_t device, Behind* behind) {
  const uint32_t used = process.streams_used.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used; ++i) {
    StreamState& stream = process.stream_states[i];
    if (stream.device != device || stream.key.load(std::memory_order_relaxed) == 0) continue;
    AddBehindStream(process, stream, behind);
  }
}

void EventRecorded(Process& process, const void* event, StreamState& stream) {
  const uint64_t handle = reinterpret_cast<uint64_t>(event);
  if (handle <= kErased) return;
  // Drops operations that are done when a wait for the event asks.
  // litmus: last_word.record
  uint64_t words[kEventPlaces] = {stream.last_word.load(std::memory_order_acquire)};
  if (__builtin_expect(stream.awaited_count.load(std::memory_order_relaxed) != 0, 0)) {
    Behind behind;
    behind.count = 0;
    AddBehindStream(process, stream, &behind);
    for (uint32_t i = 0; i < kEventPlaces; ++i) {
      words[i] = i < behind.count ? Pack(behind.places[i]) : 0;
    }
  }
  EventEntry* entry = FindEvent(process, handle);
  if (entry == nullptr) {
    if (words[0] == 0) return;
    entry = AddEvent(process, handle);
    if (entry == nullptr) return;  // never recorded: nothing precedes it
  }
  for (uint32_t i = 0; i < kEventPlaces; ++i) {
    std::atomic<uint64_t>& place = entry->places[i];
    if (place.load(std::memory_order_relaxed) != words[i]) {
      // litmus: place.write
      place.store(words[i], std::memory_order_release);
    }
  }
}

void EventForgotten(Process& process, const void* event) {
  const uint64_t handle = reinterpret_cast<uint64_t>(event);
  if (handle <= kErased) return;
  for (uint32_t i = 0, at = HashOf(handle); i < kProbes; ++i, ++at) {
    EventEntry& entry = process.events[at % kMaxEvents];
    const uint64_t key = entry.key.load(std::memory_order_acquire);
    if (key == 0) return;
    if (key != handle) continue;
    for (std::atomic<uint64_t>& place : entry.places) place.store(0, std::memory_order_relaxed);
    // litmus: event.erase
    entry.key.store(kErased, std::memory_order_release);
  }
}

void EventAwaited(const Process& process, const void* event, StreamState& stream,
                  uint64_t ordinal) {
  const EventEntry* entry = FindEvent(process, reinterpret_cast<uint64_t>(event));
  if (entry == nullptr) return;
  const uint64_t own = IndexOf(process, stream);
  bool elsewhere = false;  // a stream is in order with itself
  for (const std::atomic<uint64_t>& word : entry->places) {
    const uint64_t place = word.load(std::memory_order_relaxed);
    elsewhere |= place != 0 && place >> 53 != own;
  }
  if (!elsewhere) return;
  Behind behind;
  behind.count = 0;
  AddBehindEvent(process, event, &behind);
  if (behind.count == 0 || !stream.order_lock.Acquire()) return;
  uint32_t kept = 0;
  const uint32_t count = stream.awaited_count.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    if (!IsDone(process, stream.awaited[i])) stream.awaited[kept++] = stream.awaited[i];
  }
  for (uint32_t i = 0; i < behind.count; ++i) {
    if (behind.places[i].stream == stream.id) continue;
    behind.places[i].at = ordinal;
    Merge(behind.places[i], stream.awaited, &kept);
  }
  stream.awaited_count.store(kept, std::memory_order_relaxed);
  stream.order_lock.Release();
}

void AddPending(Process& process, StreamState& stream, const CalledOperation& operation,
                uint64_t ordinal, uint64_t launch, bool in_group) {
  if (!stream.order_lock.Acquire()) {
    Add(process.header->lost_calls, uint64_t{1});  // nothing that the state says is whole any more
    return;
  }
  ring::PendingQueue* queue = QueueOf(process, stream);
  bool room = false;
  if (queue != nullptr) {
    const uint64_t done = DoneOf(*stream.slot);
    uint64_t& first = stream.pending_first;
    while (first < stream.pending_next &&
           queue->ring[first % ring::kPendingSlots].ordinal <= done) {
      ++first;
    }
    // litmus: pending.first
    if (first != queue->first) Shared(queue->first).store(first, std::memory_order_release);
    // The queue is full: keeps the oldest, since a stuck stream is stuck in its oldest operation.
    room = stream.pending_next - first < ring::kPendingSlots;
    if (!room) NoteGap(queue, stream, ordinal);
  } else {
    Add(process.header->lost_calls, uint64_t{1});
  }
  if (room) {
    ring::PendingOperation& slot = queue->ring[stream.pending_next % ring::kPendingSlots];
    Put(slot.stamp, uint64_t{0});
    // litmus: pending.begin
    std::atomic_thread_fence(std::memory_order_release);
    Put(slot.ordinal, ordinal);
    Put(slot.launch, launch);
    Put(slot.site, operation.site);
    Put(slot.comm, operation.comm);
    Put(slot.root_or_peer, operation.root_or_peer);
    Put(slot.sequence, operation.sequence);
    Put(slot.count, operation.count);
    Put(slot.call, static_cast<uint16_t>(operation.call));
    Put(slot.datatype, operation.datatype);
    Put(slot.reduce_op, operation.reduce_op);
    Put(slot.in_group, static_cast<uint8_t>(in_group));
    Put(slot.line, operation.line);
    uint8_t after = 0;
    const uint32_t count = stream.awaited_count.load(std::memory_order_relaxed);
    for (uint32_t i = 0; i < count; ++i) {
      const OrderedAfter& place = stream.awaited[i];
      if (IsDone(process, place) || place.at >= ordinal) continue;
      Put(slot.after[after].stream, place.stream);
      Put(slot.after[after].back, static_cast<uint32_t>(ordinal - place.at));
      Put(slot.after[after].ordinal, place.ordinal);
      ++after;
    }
    Put(slot.after_count, after);
    // litmus: pending.end
    Shared(slot.stamp).store(++stream.pending_next, std::memory_order_release);
    // litmus: pending.next
    Shared(queue->next).store(stream.pending_next, std::memory_order_release);
  }
  // Later work on the stream comes after those waits too, through this operation.
  stream.awaited_count.store(0, std::memory_order_relaxed);
  // litmus: last_word.write
  stream.last_word.store(Pack({stream.id, IndexOf(process, stream), ordinal, 0}),
                         std::memory_order_release);
  stream.order_lock.Release();
}

void AddPendingGap(StreamState& stream, uint64_t ordinal) {
  if (!stream.order_lock.Acquire()) return;
  NoteGap(stream.pending, stream, ordinal);
  stream.order_lock.Release();
}

void NoteSynced(const Process& process, const Behind& covered) {
  for (uint32_t i = 0; i < covered.count; ++i) {
    const OrderedAfter& place = covered.places[i];
    ring::StreamSlot& slot = process.streams[place.index];
    if (Shared(slot.stream).load(std::memory_order_relaxed) != place.stream) continue;
    uint64_t synced = Shared(slot.synced).load(std::memory_order_relaxed);
    while (synced < place.ordinal &&
           !Shared(slot.synced).compare_exchange_weak(synced, place.ordinal)) {
    }
  }
}

void ForgetOrder(StreamState& stream) {
  stream.last_word.store(0, std::memory_order_relaxed);
  stream.awaited_count.store(0, std::memory_order_relaxed);
  if (stream.pending == nullptr) return;
  Put(stream.pending->gap_first, uint64_t{0});
  Put(stream.pending->gap_last, uint64_t{0});
  stream.pending_first = stream.pending_next;
  // litmus: pending.forget
  Shared(stream.pending->first).store(stream.pending_first, std::memory_order_release);
}

}  // namespace gordian::interpose
