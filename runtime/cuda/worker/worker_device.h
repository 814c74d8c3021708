// The resident worker: a kernel that runs detached operations, for which no stream waits. Its
// blocks walk along a list of their own, claim channels and run steps, as a stalled carrier does
// (help_device.h). When all operations are done, or no step was ready for a while, the worker quits
// by the protocol of core/life.h, and a thread of the host starts it again (worker.h).
//
// The first block of an instance to start is its leader. It alone reads host memory: it copies what
// the host has published into the device's memory, where all blocks read it, and decides when to
// quit. It does not wait for blocks that have not started by then: they find the instance closed
// and leave.
//
// Blocks serve an operation when the one before it with its order key is done. The blocks that have
// started share the channels, so one resident block suffices for progress.
//
// Priorities: in a round a block serves the operations of the lowest number first, then those of
// the next one, and so on. It ends the round behind a number at which it made a step; at a higher
// number than the lowest it does so right behind the operation of which it made the step. It leaves
// a channel of an operation that is not urgent (0) after a few steps, to look at what has come
// meanwhile. In every 16th round and the first of each instance it serves all operations
// (IsLookRound): the argument against deadlocks needs blocks to look at every published operation
// again and again.
//
// While an operation does not run, the worker keeps of it an entry, a count, a word for the host,
// and 8 bytes a channel (the claim, with the step counter). All of these hold the operation's
// number, so slots need no clearing.
//
// Times in nanoseconds of the device's clock. Thread rule: all threads of a block call together,
// unless a comment says otherwise. Errors: none; a failed communicator's operations end unfinished.
// Block: as help_device.h requires, and
//   Work& Entry()            room for the operation that the block serves
//   WalkRoom* Walk()         the part of the list that all threads of the block see
//   void Rest()              called when nothing was ready
//   void Point()             a place where tests let other threads run
#ifndef GORDIAN_RUNTIME_CUDA_WORKER_WORKER_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_WORKER_WORKER_DEVICE_H_

#include <cstddef>
#include <cstdint>

#include "runtime/core/life.h"
#include "runtime/core/policy.h"
#include "runtime/cuda/list/help_device.h"
#include "runtime/cuda/protocol/work.h"

namespace gordian::runtime::cuda {

inline constexpr uint32_t kDetachedEntries = kHelpEntries;  // unfinished operations, at most
inline constexpr uint32_t kTickets =
    4096;  // unfinished operations that callers have handed over, at most
inline constexpr uint32_t kWorkerPorts =
    2048;  // ports with detached operations at one time, at most

// The first part of Work, which is the same for all operations of a port.
inline constexpr uint32_t kPortWords = offsetof(Work, in) / 4;
struct PortPattern {
  uint32_t words[kPortWords];
};

// The rest of Work, which each operation has of its own.
inline constexpr uint32_t kOwnWords = (sizeof(Work) - offsetof(Work, in)) / 4;
struct DetachedEntry {
  uint32_t own[kOwnWords];
  uint32_t port;   // its pattern
  uint32_t after;  // number + 1 of the operation of its key before it; 0: none
  uint32_t channels;
  uint32_t priority;  // lower first
  uint32_t ticket;
};
inline constexpr uint32_t kEntryWords = sizeof(DetachedEntry) / 4;
// An entry, its count and words, and a channel's claim.
static_assert(sizeof(DetachedEntry) + sizeof(uint64_t) + 2 * sizeof(uint32_t) + sizeof(uint64_t) <=
              160);

// In mapped host memory; zero at first.
struct WorkerHost {
  // By the host: patterns << 32 | tail (operations). Both only grow; a pattern's place is its
  // number modulo kWorkerPorts.
  alignas(128) uint64_t published;
  uint32_t ask;                // by the host, not 0: leave, even with unfinished operations
  alignas(128) uint32_t life;  // WorkerLife
  uint32_t ring;               // by the leader: another value each time
  // By the leader, before it says that it is down; of all instances together.
  uint64_t resident_ns;
  uint64_t progress;  // channels served with at least a step
  uint64_t visits;    // channels claimed
  uint64_t switches;  // of those, left half way after a step or more
  alignas(
      128) uint32_t done[kDetachedEntries];  // by the last block of an operation: its number + 1
  // By the same block, or by the host for an operation that will never be done: its ticket. Streams
  // wait for these words, too.
  alignas(128) uint32_t ended[kTickets];
  alignas(128) DetachedEntry entries[kDetachedEntries];
  alignas(128) PortPattern ports[kWorkerPorts];
};

// In the device's memory; zero at first.
struct WorkerDevice {
  alignas(128) uint64_t admission;  // instance << 32 | closed << 31 | blocks that have started
  uint64_t arrived;                 // instance << 32 | blocks that have left
  alignas(128) uint64_t published;  // as the host's: as far as blocks have copied it (TakeIn)
  uint64_t taking;                  // 1: a block is copying
  uint32_t head;                    // operations below it are done
  alignas(128) uint32_t progress;
  uint32_t visits, switches;
  alignas(
      128) uint64_t left[kDetachedEntries];  // number + 1 << 32 | channels << 16 | unfinished ones
  alignas(128) DetachedEntry entries[kDetachedEntries];
  alignas(128) PortPattern ports[kWorkerPorts];
  alignas(128) uint64_t claims[kDetachedEntries * kMaxChannels];
};

// The arguments of an instance.
struct WorkerView {
  WorkerHost* host;
  WorkerDevice* device;
  const uint32_t* stop;  // not 0: leave; host memory
  uint32_t instance;     // from 1, another one each time
  Policy policy;
  SpinParameters spin;
  int64_t idle_ns;   // quit after so long without an unfinished operation
  int64_t stuck_ns;  // and after so long in which no step was ready
};
inline constexpr int64_t kWorkerLookEvery = 4000;  // nanoseconds; while it is busy

// The part of the list that the threads of a block read together: one after the other, the reads of
// a walk along eight operations took 25 us.
inline constexpr uint32_t kWalkWindow = 128;
struct WalkRoom {
  uint64_t claims[kMaxChannels];   // of one operation; ~0: the block must not take the channel
  uint32_t channels[kWalkWindow];  // of each operation in view; 0: do not serve it now
  uint32_t priorities[kWalkWindow];
  uint32_t head, tail;
};
// A round goes along the list once for each of the first priorities; the last time it takes all
// operations that are left, in the list's order.
inline constexpr uint32_t kWalkLevels = 8;
// Steps that a block makes in a row for an operation that is not urgent.
inline constexpr uint32_t kPatientSteps = 8;

// Stores a word for the host, which sees with it all that this thread has stored before.
GRT_HD inline void StoreHostRelease(uint32_t* word, uint32_t value) {
  Fence<kSystem>();
  Store<kSystem, kRelaxed>(word, value);
}

inline constexpr uint64_t kInstanceClosed = uint64_t{1} << 31;

// One thread joins the block to the instance. Returns the block's number there, from 0; -1: the
// instance is closed.
GRT_HD inline int32_t Enter(const WorkerView& v) {
  for (;;) {
    const uint64_t word = Load<kDevice, kAcquire>(&v.device->admission);
    const bool first = static_cast<uint32_t>(word >> 32) != v.instance;
    if (!first && (word & kInstanceClosed) != 0) return -1;
    const uint64_t entered = first ? uint64_t{v.instance} << 32 | 1 : word + 1;
    if (CompareAndSwap<kDevice, kAcquireRelease>(&v.device->admission, word, entered))
      return static_cast<int32_t>((entered & 0x7fffffff) - 1);
  }
}

GRT_HD inline uint64_t LeftWord(uint32_t id, uint32_t channels, uint32_t left) {
  return uint64_t{id + 1} << 32 | channels << 16 | left;
}

// Whether an operation that was copied to the device (TakeIn) is done.
GRT_HD inline bool IsDetachedDone(const WorkerView& v, uint32_t id) {
  const uint64_t word = Load<kDevice, kAcquire>(&v.device->left[id % kDetachedEntries]);
  const auto tag = static_cast<uint32_t>(word >> 32);
  return tag != id + 1 || (word & 0xffff) == 0;
}

// Any thread: how many channels the operation has; 0 if blocks must not serve it now.
GRT_HD inline uint32_t ServableChannels(const WorkerView& v, uint32_t id) {
  const uint64_t word = Load<kDevice, kRelaxed>(&v.device->left[id % kDetachedEntries]);
  if (static_cast<uint32_t>(word >> 32) != id + 1 || (word & 0xffff) == 0) return 0;
  const uint32_t after = Load<kSystem, kRelaxed>(&v.device->entries[id % kDetachedEntries].after);
  // If the slot holds another operation by now, all channels of this one are done; FreeClaim sees
  // that.
  if (after != 0 && !IsDetachedDone(v, after - 1)) return 0;
  return static_cast<uint32_t>(word) >> 16;
}

GRT_HD inline uint64_t* DetachedClaim(const WorkerView& v, uint32_t id, uint32_t channel) {
  return v.device->claims + (id % kDetachedEntries) * kMaxChannels + channel;
}

// Any thread: a channel's claim word if a block may take the channel; else ~0.
GRT_HD inline uint64_t FreeClaim(const WorkerView& v, uint32_t id, uint32_t channel) {
  const uint64_t word = Load<kDevice, kRelaxed>(DetachedClaim(v, id, channel));
  // The word is a later operation's: this one is done since the thread read `left`.
  if (static_cast<int32_t>(static_cast<uint32_t>(word >> 32) - (id + 1)) > 0) return ~uint64_t{0};
  return StepsOf(word, id) == kStepsDone || IsTaken(word, id) ? ~uint64_t{0} : word;
}

// How long a block serves a channel.
struct Stay {
  uint64_t spins;  // tries in a row without a step
  uint32_t steps;  // at most
};

// Runs a channel from the step where the last block left it, until it is done or `stay` is used up.
// With Policy::kSpinThreshold each step earns more tries.
template <typename T, uint32_t kRanks, typename Block>
GRT_HD inline StepResult RunChannelOf(Block& b, const Work& w, uint32_t channel, uint32_t* pc,
                                      const WorkerView& v, Stay stay) {
  const bool is_bulk = (w.flags & kBulk) != 0;
  Bulk bulk{};
  if (is_bulk) bulk = BulkOf(w, channel);
  uint32_t steps = 0;
  for (uint64_t tries = 0;;) {
    const StepResult result =
        is_bulk ? StepBulk<T, kRanks>(b, w, channel, &bulk, pc) : StepLines<T>(b, w, channel, pc);
    if (result == StepResult::kNotReady) {
      if (++tries >= stay.spins) return result;
      continue;
    }
    if (result != StepResult::kAdvanced) return result;
    if (++steps >= stay.steps) {
      if (is_bulk) AnnounceScattered(b, w, channel, &bulk);  // the next block could not
      return StepResult::kNotReady;
    }
    if (v.policy == Policy::kSpinThreshold)
      stay.spins = SpinsAfterSuccess(v.spin, stay.spins, tries);
    tries = 0;
  }
}

// The same for an operation of any type. Each kind of block defines it once.
template <typename Block>
GRT_HD StepResult RunChannel(Block& b, const Work& w, uint32_t channel, uint32_t* pc,
                             const WorkerView& v, Stay stay);

// All threads put the operation together in Entry(). It is unfinished, and this block has claimed a
// channel of it.
template <typename Block>
GRT_HD inline void Compose(Block& b, const WorkerView& v, uint32_t id) {
  const DetachedEntry& entry = v.device->entries[id % kDetachedEntries];
  auto* to = reinterpret_cast<uint32_t*>(&b.Entry());
  const PortPattern& port = v.device->ports[Load<kSystem, kRelaxed>(&entry.port)];
  for (uint32_t i = b.Thread(); i < kPortWords; i += b.Threads())
    to[i] = Load<kSystem, kRelaxed>(port.words + i);
  for (uint32_t i = b.Thread(); i < kOwnWords; i += b.Threads())
    to[kPortWords + i] = Load<kSystem, kRelaxed>(entry.own + i);
  b.Sync();
}

// Stores an operation's end for the host and for streams that wait. The caller has made a fence.
GRT_HD inline void StoreEnd(WorkerHost* host, uint32_t id, uint32_t ticket) {
  Store<kSystem, kRelaxed>(&host->ended[ticket % kTickets], ticket);
  Store<kSystem, kRelaxed>(&host->done[id % kDetachedEntries], id + 1);
}

// Thread 0 counts a channel that is done; for the last one it stores the operation's end.
GRT_HD inline void FinishChannel(const WorkerView& v, uint32_t id) {
  const uint32_t slot = id % kDetachedEntries;
  const uint64_t word = FetchAdd<kDevice, kAcquireRelease>(&v.device->left[slot], ~uint64_t{0});
  if ((word & 0xffff) != 1) return;
  const uint32_t ticket = Load<kSystem, kRelaxed>(
      &v.device->entries[slot].ticket);  // the host reuses the slot only after it reads the end
  Fence<kSystem>();
  StoreEnd(v.host, id, ticket);
}

// Which operation Entry() holds.
struct Composed {
  uint32_t id = 0;
  bool any = false;
};

// Claims a channel whose claim word was `free`, and serves it. Returns whether it made a step.
// `looks`: if the channel is not done, checks whether its communicator has failed.
template <typename Block>
GRT_HD inline bool ServeDetached(Block& b, const WorkerView& v, uint32_t id, uint32_t channel,
                                 uint64_t free, const Stay& stay, bool looks, Composed* composed) {
  uint32_t pc = StepsOf(free, id);
  uint32_t taken = 0;
  if (b.Thread() == 0) {
    taken = CompareAndSwap<kDevice, kAcquireRelease>(DetachedClaim(v, id, channel), free,
                                                     ClaimWord(id, pc, true))
                ? 1
                : 0;
  }
  if (b.Broadcast(taken) == 0) return false;
  if (!composed->any || composed->id != id) Compose(b, v, id);
  *composed = {id, true};
  const uint32_t before = pc;
  bool done = RunChannel(b, b.Entry(), channel, &pc, v, stay) != StepResult::kNotReady;
  if (!done && looks) {
    // A failed communicator's operations end as they are.
    if (b.Thread() == 0) TakeHostFailure(b.Entry());
    done = HasFailed(b, b.Entry(), channel);
  }
  const bool any = done || pc != before;
  b.Sync();  // the steps' stores by all threads come before the word
  if (b.Thread() == 0) {
    Store<kDevice, kRelease>(DetachedClaim(v, id, channel),
                             ClaimWord(id, done ? kStepsDone : pc, false));
    if (done) FinishChannel(v, id);
    Add<kDevice, kRelaxed>(&v.device->visits, 1);
    if (any) Add<kDevice, kRelaxed>(&v.device->progress, 1);
    if (any && !done) Add<kDevice, kRelaxed>(&v.device->switches, 1);
  }
  b.Point();
  return any;
}

// Deals an operation's channels among the `places` blocks that have started: the first one of block
// `place`, which gets every `places`-th one from there.
GRT_HD inline uint32_t FirstDealt(uint32_t id, uint32_t place, uint32_t places) {
  return (place + id) % places;
}

// In which of its rounds a block checks for failures: in the first one of an instance, in each one
// with more blocks than before, and in every 16th one. Blocks that start later change how channels
// are dealt, so a round may leave some channels to no block, and an instance in which nothing
// advances ends after few rounds. So a block must check a channel in the first round in which it
// gets the channel.
struct LookRounds {
  uint32_t rounds = 0, places = 0;
};
GRT_HD inline bool IsLookRound(LookRounds* look, uint32_t places) {
  constexpr uint32_t kOften = 16;
  const bool looks = look->rounds++ % kOften == 0 || places != look->places;
  look->places = places;
  return looks;
}

// Serves the operation's channels that are dealt to this block. Returns whether it made a step.
template <typename Block>
GRT_HD inline bool ServeDealt(Block& b, const WorkerView& v, uint32_t id, uint32_t channels,
                              uint32_t place, uint32_t places, const Stay& stay, bool looks,
                              Composed* composed) {
  WalkRoom& room = *b.Walk();
  const uint32_t first = FirstDealt(id, place, places);
  if (first >= channels) return false;
  const uint32_t mine = (channels - first + places - 1) / places;
  for (uint32_t k = b.Thread(); k < mine; k += b.Threads())
    room.claims[k] = FreeClaim(v, id, first + k * places);
  b.Sync();
  bool any = false;
  for (uint32_t k = 0; k < mine; ++k) {
    if (room.claims[k] == ~uint64_t{0}) continue;
    any = ServeDetached(b, v, id, first + k * places, room.claims[k], stay, looks, composed) || any;
  }
  b.Sync();  // the claims have been read
  return any;
}

// Makes one round along the list. Returns whether it made a step. `place`: the block's number among
// `places`. `looks`: checks for failures, and serves all operations.
template <typename Block>
GRT_HD inline bool WorkOnce(Block& b, const WorkerView& v, uint32_t place, uint32_t places,
                            bool looks, Composed* composed) {
  WalkRoom& room = *b.Walk();
  b.Sync();
  if (b.Thread() == 0) {
    room.tail = static_cast<uint32_t>(Load<kDevice, kAcquire>(&v.device->published));
    room.head = Load<kSystem, kRelaxed>(&v.device->head);
    // The head is loaded after the tail and may be ahead of it: then all operations before the tail
    // are done.
    if (static_cast<int32_t>(room.tail - room.head) < 0) room.head = room.tail;
  }
  b.Sync();
  const uint32_t head = room.head, tail = room.tail;
  // Ready-driven: a few tries take as long as going to another operation and back; try longer only
  // if there is no other one.
  const uint64_t tries = tail - head == 1 ? 32 : 4;
  bool any = false;
  uint32_t position = 0;
  uint32_t priority = 0;    // of the operations that it serves now
  bool has_urgent = false;  // it has served operations of lower numbers in this round
  for (uint32_t level = 1;; ++level) {
    const bool all_others = level == kWalkLevels;
    uint32_t next = ~uint32_t{0};  // the lowest number above
    bool has_next = false, has_any = false;
    for (uint32_t window = head; window != tail;) {
      const auto in_view = static_cast<uint32_t>(Least(tail - window, kWalkWindow));
      for (uint32_t i = b.Thread(); i < in_view; i += b.Threads()) {
        room.channels[i] = ServableChannels(v, window + i);
        room.priorities[i] =
            Load<kSystem, kRelaxed>(&v.device->entries[(window + i) % kDetachedEntries].priority);
      }
      b.Sync();
      for (uint32_t i = 0; i < in_view; ++i) {
        const uint32_t channels = room.channels[i], of = room.priorities[i];
        if (channels == 0 || of < priority) continue;
        if (of > priority && !all_others) {
          has_next = true;
          if (of < next) next = of;
          continue;
        }
        const uint64_t spins =
            v.policy == Policy::kSpinThreshold ? SpinsAt(v.spin, position) : tries;
        ++position;
        const Stay stay = {spins, of == 0 ? ~uint32_t{0} : kPatientSteps};
        any = ServeDealt(b, v, window + i, channels, place, places, stay, looks, composed) || any;
        if (any && has_urgent && !looks) return any;
        has_any = true;
      }
      window += in_view;
      b.Sync();
    }
    if (!has_next || (any && !looks)) return any;
    priority = next;
    has_urgent = has_urgent || has_any;
  }
}

// What the leader keeps.
struct Leader {
  uint64_t started = 0, looked = 0, stop_looked = 0;
  uint64_t quiet_since = 0;  // when the last step was made, or the last operation published
  uint64_t published = 0;    // how far the device has copied the list
  uint32_t head = 0;
  uint32_t progress = 0;
};

// All threads copy what the host has published between the words `from` and `to` into the device's
// memory.
template <typename Block>
GRT_HD inline void CopyIn(Block& b, const WorkerView& v, uint64_t from, uint64_t to) {
  const auto first_port = static_cast<uint32_t>(from >> 32);
  const uint32_t port_words = (static_cast<uint32_t>(to >> 32) - first_port) * kPortWords;
  for (uint32_t i = b.Thread(); i < port_words; i += b.Threads()) {
    const uint32_t place = (first_port + i / kPortWords) % kWorkerPorts, word = i % kPortWords;
    Store<kSystem, kRelaxed>(&v.device->ports[place].words[word],
                             Load<kSystem, kRelaxed>(&v.host->ports[place].words[word]));
  }
  const auto first = static_cast<uint32_t>(from);
  const uint32_t words = (static_cast<uint32_t>(to) - first) * kEntryWords;
  for (uint32_t i = b.Thread(); i < words; i += b.Threads()) {
    const uint32_t slot = (first + i / kEntryWords) % kDetachedEntries, word = i % kEntryWords;
    Store<kSystem, kRelaxed>(
        reinterpret_cast<uint32_t*>(v.device->entries + slot) + word,
        Load<kSystem, kRelaxed>(reinterpret_cast<const uint32_t*>(v.host->entries + slot) + word));
  }
  b.Sync();
}

template <typename Block>
GRT_HD inline uint64_t BroadcastWide(Block& b, uint64_t value) {
  const uint32_t low = b.Broadcast(static_cast<uint32_t>(value));
  return uint64_t{b.Broadcast(static_cast<uint32_t>(value >> 32))} << 32 | low;
}

// All threads copy what the host has published into the device's memory, for all blocks to read.
// The leader does so, and a kernel that helps while a stream waits (worker_join_device.h): one at a
// time; a block returns at once if another one is copying.
template <typename Block>
GRT_HD inline void TakeIn(Block& b, const WorkerView& v) {
  uint32_t is_ours = 0;
  uint64_t from = 0, to = 0;
  if (b.Thread() == 0 && CompareAndSwap<kDevice, kAcquireRelease>(&v.device->taking, 0, 1)) {
    is_ours = 1;
    from = Load<kDevice, kAcquire>(&v.device->published);
    to = Load<kSystem, kAcquire>(&v.host->published);
  }
  b.Point();
  if (b.Broadcast(is_ours) == 0) return;
  from = BroadcastWide(b, from);
  to = BroadcastWide(b, to);
  CopyIn(b, v, from, to);
  const auto first = static_cast<uint32_t>(from);
  for (uint32_t id = first + b.Thread(); static_cast<int32_t>(static_cast<uint32_t>(to) - id) > 0;
       id += b.Threads()) {
    const DetachedEntry& entry = v.device->entries[id % kDetachedEntries];
    const uint32_t channels = Load<kSystem, kRelaxed>(&entry.channels);
    Store<kDevice, kRelease>(&v.device->left[id % kDetachedEntries],
                             LeftWord(id, channels, channels));
  }
  b.Sync();
  if (b.Thread() != 0) return;
  Store<kDevice, kRelease>(&v.device->published, to);
  Store<kDevice, kRelease>(&v.device->taking, 0);
}

// Thread 0 quits by the protocol of core/life.h. Returns false, and the instance continues, if the
// host has published an operation meanwhile; `must`: quits even then.
template <typename Block>
GRT_HD inline bool Quit(Block& b, const WorkerView& v, const Leader& leader, bool must) {
  Store<kSystem, kRelaxed>(&v.host->life, kQuitting);  // D1
  b.Point();
  Fence<kSystem, kSequential>();                                                   // D2
  if (!must && Load<kSystem, kAcquire>(&v.host->published) != leader.published) {  // D3
    Store<kSystem, kRelaxed>(&v.host->life, kRunning);
    return false;
  }
  b.Point();
  uint64_t word;
  do {  // D4: blocks that have started end their step and arrive; claims keep their counters
    word = Load<kDevice, kAcquire>(&v.device->admission);
  } while (!CompareAndSwap<kDevice, kAcquireRelease>(&v.device->admission, word,
                                                     word | kInstanceClosed));
  const auto others = static_cast<uint32_t>(word & 0x7fffffff) - 1;
  while (Load<kDevice, kAcquire>(&v.device->arrived) != (uint64_t{v.instance} << 32 | others))
    b.Rest();
  b.Point();
  v.host->resident_ns += b.Now() - leader.started;
  v.host->progress = Load<kSystem, kRelaxed>(&v.device->progress);
  v.host->visits = Load<kSystem, kRelaxed>(&v.device->visits);
  v.host->switches = Load<kSystem, kRelaxed>(&v.device->switches);
  StoreHostRelease(&v.host->life, kDown);  // D5
  b.Point();
  Fence<kSystem, kSequential>();  // D6
  if (Load<kSystem, kAcquire>(&v.host->published) != leader.published) {
    StoreHostRelease(&v.host->ring, Load<kSystem, kAcquire>(&v.host->ring) + 1);
  }
  return true;
}

// Thread 0 of the leader calls it in each round. Returns whether the instance has quit; *published
// is what the host has published.
template <typename Block>
GRT_HD inline bool Lead(Block& b, const WorkerView& v, Leader* leader, uint64_t* published) {
  const uint64_t now = b.Now();
  const auto tail = static_cast<uint32_t>(leader->published);
  while (leader->head != tail && IsDetachedDone(v, leader->head)) ++leader->head;
  Store<kSystem, kRelaxed>(&v.device->head, leader->head);
  *published = leader->published;
  const bool idle = leader->head == tail;
  if (idle || static_cast<int64_t>(now - leader->looked) >= kWorkerLookEvery) {
    leader->looked = now;
    leader->published = Load<kDevice, kAcquire>(&v.device->published);  // helpers copy, too
    *published = Load<kSystem, kAcquire>(&v.host->published);
  }
  const uint32_t progress = Load<kSystem, kRelaxed>(&v.device->progress);
  if (progress != leader->progress || *published != leader->published) {
    leader->progress = progress;
    leader->quiet_since = now;
  }
  bool must = false;
  if (static_cast<int64_t>(now - leader->stop_looked) >= kLookEvery) {
    leader->stop_looked = now;
    must = Load<kSystem, kAcquire>(v.stop) != 0 || Load<kSystem, kAcquire>(&v.host->ask) != 0;
  }
  const bool quiet =
      static_cast<int64_t>(now - leader->quiet_since) >= (idle ? v.idle_ns : v.stuck_ns);
  if (!must && !quiet) return false;
  if (Quit(b, v, *leader, must)) return true;
  leader->quiet_since = now;
  return false;
}

// A block of an instance runs this from its start to its end.
template <typename Block>
GRT_HD inline void BeResident(Block& b, const WorkerView& v) {
  int32_t number = 0;
  if (b.Thread() == 0) number = Enter(v);
  number = static_cast<int32_t>(b.Broadcast(static_cast<uint32_t>(number)));
  if (number < 0) return;
  const bool leads = number == 0;
  Leader leader;
  if (leads && b.Thread() == 0) {
    Store<kDevice, kRelease>(&v.device->arrived, uint64_t{v.instance} << 32);
    Store<kSystem, kRelaxed>(&v.host->life, kRunning);
    Fence<kSystem, kSequential>();  // sees all that the host published before it saw kRunning
    b.Point();
    leader.started = leader.quiet_since = leader.looked = leader.stop_looked = b.Now();
    leader.published = Load<kDevice, kAcquire>(&v.device->published);
    leader.head = Load<kSystem, kRelaxed>(&v.device->head);
    leader.progress = Load<kSystem, kRelaxed>(&v.device->progress);
  }
  Composed composed;
  LookRounds look;
  for (;;) {
    uint32_t state = 0;  // 1: over, 2: something was published; above: blocks that have started
    uint64_t published = 0;
    if (b.Thread() == 0) {
      const uint64_t admission = Load<kDevice, kRelaxed>(&v.device->admission);
      if (!leads) {
        state = (admission & kInstanceClosed) != 0 ? 1 : 0;
      } else if (Lead(b, v, &leader, &published)) {
        state = 1;
      } else if (published != leader.published) {
        state = 2;
      }
      state |= static_cast<uint32_t>(admission & 0x7fffffff) << 2;
    }
    state = b.Broadcast(state);
    const uint32_t places = state >> 2;
    state &= 3;
    if (state == 1) {
      if (leads) return;
      break;
    }
    if (state == 2) {
      TakeIn(b, v);
      if (b.Thread() == 0) leader.published = Load<kDevice, kAcquire>(&v.device->published);
    }
    const bool looks = IsLookRound(&look, places);
    if (!WorkOnce(b, v, static_cast<uint32_t>(number), places, looks, &composed)) b.Rest();
  }
  b.Sync();
  if (b.Thread() != 0) return;
  uint64_t word;
  do {
    word = Load<kDevice, kAcquire>(&v.device->arrived);
  } while (!CompareAndSwap<kDevice, kAcquireRelease>(&v.device->arrived, word, word + 1));
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_WORKER_WORKER_DEVICE_H_
