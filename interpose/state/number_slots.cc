#include "interpose/state/number_slots.h"

namespace gordian::interpose {
namespace {

constexpr uint8_t kUserOperator = 254;

// Changes a slot's fields under its sequence number. If a signal handler ended a thread in the
// middle of a change, the number is odd: it becomes odd again and then even.
class Change {
 public:
  explicit Change(ring::NumberSlot& slot)
      : slot_(slot), seq_(Shared(slot.seq).load(std::memory_order_relaxed) | 1) {
    Put(slot_.seq, seq_);
    // litmus: numbers.begin
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~Change() {
    // litmus: numbers.end
    Shared(slot_.seq).store(seq_ + 1, std::memory_order_release);
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  ring::NumberSlot& slot_;
  const uint32_t seq_;
};

// Equal at all members whose arguments agree. A folded 128-bit product: one multiplication mixes
// both words completely.
uint64_t HashOf(uint64_t before, const ring::Signature& s) {
  const uint64_t rest = static_cast<uint64_t>(s.call) << 48 |
                        static_cast<uint64_t>(s.datatype) << 40 |
                        static_cast<uint64_t>(s.reduce_op) << 32 | static_cast<uint32_t>(s.root);
  const auto product = static_cast<unsigned __int128>(before ^ s.count ^ 0xff51afd7ed558ccdull) *
                       (rest ^ 0xc4ceb9fe1a85ec53ull);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ (before << 1);
}

// True if no call can use the slot's communicator any more. What the last of them has written to the
// slot is then seen: who takes it goes on from its sequence number.
bool IsOver(const Process& process, ring::NumberSlot& slot) {
  const uint32_t owner = Shared(slot.comm).load(std::memory_order_relaxed);
  if (owner == ring::kNoId) return true;
  const uint32_t used = process.comms_used.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used; ++i) {
    ring::CommSlot& comm = process.comms[i];
    // litmus: numbers.owner
    if (Shared(comm.comm).load(std::memory_order_acquire) != owner) continue;
    // litmus: numbers.over
    const ring::CommState state = Shared(comm.state).load(std::memory_order_acquire);
    return state == ring::CommState::kDestroyed || state == ring::CommState::kFailed ||
           state == ring::CommState::kAborted;
  }
  return true;
}

// Under the number_lock.
uint32_t TakeNumberSlot(Process& process) {
  const uint32_t used = process.numbers_used.load(std::memory_order_relaxed);
  if (used < ring::kMaxNumbers) return used;
  for (uint32_t i = 0; i < ring::kMaxNumbers; ++i) {
    const uint32_t index = (process.number_reuse_cursor + i) % ring::kMaxNumbers;
    if (!IsOver(process, process.numbers[index])) continue;
    process.number_reuse_cursor = index + 1;
    return index;
  }
  return UINT32_MAX;
}

// Signals are looked for at every call, by peer and channel: in a table of slots, open addressing,
// changed under the number_lock only.
constexpr uint32_t kProbes = 32;
constexpr uint16_t kRemoved = UINT16_MAX;

struct SignalKey {
  uint32_t comm;  // id
  ring::NumberKind kind;
  int32_t peer;
  ring::SignalChannel channel;
};

bool IsOf(const SignalKey& key, ring::NumberSlot& slot) {
  // litmus: numbers.is_of
  if (Shared(slot.comm).load(std::memory_order_acquire) != key.comm) return false;
  // Atomically, as another thread may be giving the slot to another line.
  return Shared(slot.kind).load(std::memory_order_relaxed) == key.kind &&
         Shared(slot.peer).load(std::memory_order_relaxed) == key.peer &&
         Shared(slot.channel.index).load(std::memory_order_relaxed) == key.channel.index &&
         Shared(slot.channel.context).load(std::memory_order_relaxed) == key.channel.context;
}

std::atomic<uint16_t>& LineAt(Process& process, const SignalKey& key, uint32_t probe) {
  const uint64_t who = static_cast<uint64_t>(key.comm) << 33 |
                       static_cast<uint64_t>(key.kind) << 32 | static_cast<uint32_t>(key.peer);
  const uint64_t where = static_cast<uint64_t>(static_cast<uint32_t>(key.channel.index)) << 32 |
                         static_cast<uint32_t>(key.channel.context);
  const uint64_t mixed = (who ^ where * 0xff51afd7ed558ccdull) * 0x9E3779B97F4A7C15ull;
  return process.signal_lines[((mixed >> 40) + probe) % kSignalLines];
}

// Null where there is no room in reach.
std::atomic<uint16_t>* RoomForLine(Process& process, const SignalKey& key) {
  for (uint32_t i = 0; i < kProbes; ++i) {
    std::atomic<uint16_t>& line = LineAt(process, key, i);
    const uint16_t now = line.load(std::memory_order_relaxed);
    if (now == 0 || now == kRemoved) return &line;
  }
  return nullptr;
}

// Removes the slot's entry: the slot will count something else.
void RemoveLine(Process& process, const ring::NumberSlot& slot) {
  if (!IsSignals(slot.kind)) return;
  const SignalKey key = {slot.comm, slot.kind, slot.peer, slot.channel};
  for (uint32_t i = 0; i < kProbes; ++i) {
    std::atomic<uint16_t>& line = LineAt(process, key, i);
    if (line.load(std::memory_order_relaxed) != LineOf(process, &slot)) continue;
    line.store(kRemoved, std::memory_order_release);
    return;
  }
}

}  // namespace

ring::NumberSlot* SignalNumbers(Process& process, const CommState& comm, ring::NumberKind kind,
                                int32_t peer, ring::SignalChannel channel) {
  const SignalKey key = {comm.id, kind, peer, channel};
  for (uint32_t i = 0; i < kProbes; ++i) {
    // litmus: numbers.line
    const uint16_t line = LineAt(process, key, i).load(std::memory_order_acquire);
    if (line == 0) break;
    if (line == kRemoved) continue;
    ring::NumberSlot& slot = process.numbers[line - 1];
    if (IsOf(key, slot)) return &slot;
  }
  return ClaimNumbers(process, comm, kind, peer, channel);
}

ring::NumberSlot* ClaimNumbers(Process& process, const CommState& comm, ring::NumberKind kind,
                               int32_t peer, ring::SignalChannel channel) {
  ring::Header& header = *process.header;
  // A futile search is slow: skips it for most calls.
  constexpr uint32_t kSkippedClaims = 1000;
  const uint32_t to_skip = process.claims_to_skip.load(std::memory_order_relaxed);
  if (to_skip != 0) process.claims_to_skip.store(to_skip - 1, std::memory_order_relaxed);
  if (to_skip != 0 || !process.number_lock.Acquire()) {
    Add(header.lost_numbers, uint64_t{1});
    return nullptr;
  }
  std::atomic<uint16_t>* const line =
      IsSignals(kind) ? RoomForLine(process, {comm.id, kind, peer, channel}) : nullptr;
  const uint32_t index = IsSignals(kind) && line == nullptr ? UINT32_MAX : TakeNumberSlot(process);
  if (index == UINT32_MAX) {
    process.claims_to_skip.store(kSkippedClaims, std::memory_order_relaxed);
    process.number_lock.Release();
    Add(header.lost_numbers, uint64_t{1});
    return nullptr;
  }
  ring::NumberSlot& slot = process.numbers[index];
  RemoveLine(process, slot);
  // litmus: numbers.free
  Shared(slot.comm).store(ring::kNoId, std::memory_order_release);
  {
    const Change change(slot);
    Put(slot.kind, kind);
    Put(slot.peer, peer);
    Put(slot.flags, uint32_t{0});
    Put(slot.open, uint32_t{0});
    Put(slot.next, uint64_t{0});
    Put(slot.hash, uint64_t{0});
    Put(slot.channel.index, channel.index);  // of others: 0, and so is the colour
    Put(slot.channel.context, channel.context);
    Put(slot.begun, uint64_t{0});
    Put(slot.intact, uint64_t{0});
  }
  // litmus: numbers.own
  Shared(slot.comm).store(comm.id, std::memory_order_release);
  // litmus: numbers.tell_line
  if (line != nullptr) line->store(LineOf(process, &slot), std::memory_order_release);
  if (index == process.numbers_used.load(std::memory_order_relaxed)) {
    process.numbers_used.store(index + 1, std::memory_order_relaxed);
    Shared(header.numbers_used).store(index + 1, std::memory_order_release);
  }
  process.number_lock.Release();
  return &slot;
}

void CountOperation(ring::NumberSlot* slot, uint64_t sequence, const ring::Signature& arguments,
                    bool in_group) {
  if (slot == nullptr) return;
  const uint64_t hash = HashOf(slot->hash, arguments);
  ring::Signature& at = slot->last[sequence % ring::kSignatures];
  const Change change(*slot);
  Put(at.count, arguments.count);
  Put(at.root, arguments.root);
  Put(at.call, arguments.call);
  Put(at.datatype, arguments.datatype);
  Put(at.reduce_op, arguments.reduce_op);
  Put(at.hash, hash);
  Put(at.site, arguments.site);
  Put(slot->hash, hash);
  Put(slot->next, sequence + 1);
  if (in_group) {
    Put(slot->open, slot->open + 1);
  } else if (__builtin_expect((slot->flags & ring::kNumbersUsed) == 0, 0) && arguments.count != 0) {
    Put(slot->flags, slot->flags | ring::kNumbersUsed);
  }
  if (__builtin_expect(arguments.reduce_op == kUserOperator, 0)) {
    Put(slot->flags, slot->flags | ring::kNumbersIncomparable);
  }
}

void CountLaunched(ring::NumberSlot* slot) {
  if (slot == nullptr) return;
  const Change change(*slot);
  if (slot->open != 0) Put(slot->open, slot->open - 1);
  Put(slot->flags, slot->flags | ring::kNumbersUsed);
}

void CountWithdrawn(ring::NumberSlot* slot) {
  if (slot == nullptr || slot->next == 0) return;
  const Change change(*slot);
  if (slot->open != 0) Put(slot->open, slot->open - 1);
  const uint64_t next = slot->next - 1;
  // The numbers given back have overwritten those 16 places earlier, so only 15 can be given back
  // exactly.
  if (slot->next > ring::kSignatures && slot->intact < slot->next - ring::kSignatures) {
    Put(slot->intact, slot->next - ring::kSignatures);
  }
  Put(slot->next, next);
  if (next == 0) {
    Put(slot->hash, uint64_t{0});
  } else if (slot->open < ring::kSignatures - 1) {
    Put(slot->hash, slot->last[(next - 1) % ring::kSignatures].hash);
  } else {
    Put(slot->flags, slot->flags | ring::kNumbersIncomparable);
  }
}

uint64_t BeginSignals(ring::NumberSlot* slot, uint32_t count, bool first) {
  if (slot == nullptr) return 0;
  const uint64_t number = first ? slot->next : slot->begun;
  Put(slot->begun, number + count);
  return number;
}

void CountSignals(ring::NumberSlot* slot, uint32_t count, bool in_group) {
  const Change change(*slot);
  Put(slot->next, slot->next + count);
  if (in_group) Put(slot->open, slot->open + count);
}

void SignalsLaunched(ring::NumberSlot* slot, uint32_t count) {
  const Change change(*slot);
  Put(slot->open, slot->open - count);
}

void SignalsWithdrawn(ring::NumberSlot* slot, uint32_t count, bool counted) {
  const Change change(*slot);
  Put(slot->begun, slot->begun - count);
  if (!counted) return;
  Put(slot->open, slot->open - count);
  Put(slot->next, slot->next - count);
}

void FlagNumbers(ring::NumberSlot* slot, uint32_t flags) {
  if (slot == nullptr || (slot->flags & flags) == flags) return;
  const Change change(*slot);
  Put(slot->flags, slot->flags | flags);
}

void CountWindow(ring::NumberSlot* slot, bool failed) {
  if (slot == nullptr) return;
  const Change change(*slot);
  Put(slot->begun, failed ? slot->begun - 1 : slot->begun + 1);
}

}  // namespace gordian::interpose
