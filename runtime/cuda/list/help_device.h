// Helping: a kernel that stalls, because its own operation cannot go on, runs steps of operations
// behind it on the stream, or on another stream that waits for this one by an event (guests of the
// list). The host publishes those as soon as the program calls them, if the streams carry nothing
// else. Preemption needs no more: an operation then waits for another one only through its data.
//
// Which operations a block helps. All ranks sort operations alike: less data first, then by
// communicator (HelpEntry::turn). A block helps the operations that come before its own in that
// order, the first one first. So all ranks work at the same operation, wherever their kernels
// stand, and no small kernel works at a large operation while other ranks wait for its own. A block
// also helps an operation that comes later in the order if one of this rank's blocks has begun it,
// since other ranks may have finished it and wait for the next one; and every operation once no
// step was made for kPatience. After kHelpBudget the block looks at its own operation; if its walk
// along the list made no step, the next walk continues where this one ended.
//
// Who may run a channel: one block at a time, which claims it. The claim word also keeps the
// channel's step counter, so the next block continues where the last one stopped: another helper,
// or the operation's own kernel when its turn comes. The word holds the operation's number, so no
// block needs to clear the ring. Blocks begin at different channels and take the first free one
// that is unfinished, so all blocks that stall share the work that is left.
//
// Blocks carry the operations of one order key (a port, or one direction of a pair) in order: a
// block serves an operation only when all before it with its key are done.
//
// One resident block suffices for progress: while it can make no step, it goes through all
// operations, and begins at another channel in every pass. A block of a kernel with several
// operations that stalls first continues with its other shares there (VisitOwn): none of these
// operations waits for another.
//
// Times in nanoseconds of the device's clock. Thread rule: all threads of a block call together,
// unless a comment says "one thread". Errors: none; if the communicator fails, blocks leave with
// their operation unfinished.
#ifndef GORDIAN_RUNTIME_CUDA_LIST_HELP_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_LIST_HELP_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "runtime/cuda/list/help_list.h"
#include "runtime/cuda/protocol/bulk_device.h"
#include "runtime/cuda/protocol/bulk_run_device.h"
#include "runtime/cuda/protocol/ll_device.h"
#include "runtime/cuda/protocol/work.h"

namespace gordian::runtime::cuda {

inline constexpr uint32_t kHelpView = 256;  // operations that a walk sees at once

// Nanoseconds: between two reads of the host's tail; between two reads of the host's words that end
// kernels; of a walk; without a step before a block helps every operation.
inline constexpr int64_t kLookEvery = 10000;
inline constexpr int64_t kLookForEndEvery = 100000;
inline constexpr int64_t kHelpBudget = 10000;  // a step that has begun is finished
inline constexpr int64_t kPatience = 20000;

// How often a block looks at its own operation before it helps: in a kernel without a list (some 50
// us); in one with a list (8 us: peers that call in the same order are late by less); when there is
// nothing to help with; after a walk without a step, and after one with a step. One step of bulk,
// or of another operation's code, counts as two looks at lines.
inline constexpr uint32_t kPollsAlone = 100, kPollsFirst = 16, kPollsNothing = 24, kPollsInVain = 6,
                          kPollsHelped = 2;
// kPollsVisit: looks of a block that has other shares to continue with. kVisitsInVain: rounds of
// those without a step before it makes one walk.
inline constexpr uint32_t kPollsVisit = 2, kVisitsInVain = 16;

// What a block keeps in its own memory while it helps. Thread 0 writes it between barriers.
struct HelpRoom {
  uint64_t turns[kHelpView];  // of the operations in view; kNoTurn: not to be served now
  uint64_t last;              // turn of the last operation that was tried; 0: none of this view
  uint64_t since;             // when a step was made last, or the block stalled
  uint64_t left;              // when the last walk ended
  uint32_t view;              // the view's number
  uint32_t pass;              // how often the block has gone through all operations
  uint32_t visited;           // how many of its shares behind the current one it has visited
  uint32_t fetched;           // number + 1 of the operation that is in the block's memory
};

// One step of any operation of any type. Compiled once per kind of block, since it is large.
template <typename Block>
GRT_HD StepResult StepAny(Block& b, const Work& w, uint32_t channel, uint32_t* pc);

// Helps by one walk along the list. `round` counts the calls of a block. Returns how often the
// block looks at its own operation before the next call; 0: the block must leave.
template <typename Block>
GRT_HD uint32_t HelpOnce(Block& b, const HelpList& h, const Work& own, uint32_t round);

// Finishes a channel that a helper has begun, from step `pc` on, of a renamed operation; then
// copies the channel's part of the output to its place.
template <typename Block>
GRT_HD void FinishRenamed(Block& b, const Work& w, const HelpList& h, uint32_t pc);

template <typename T, typename Block>
GRT_HD inline StepResult StepTyped(Block& b, const Work& w, uint32_t channel, uint32_t* pc) {
  if ((w.flags & kBulk) == 0) return StepLines<T>(b, w, channel, pc);
  Bulk bulk = BulkOf(w, channel);
  // A pair is two ranks, among however many.
  const StepResult result = w.ranks <= 2 || (w.flags & kPair) != 0
                                ? StepBulk<T, 2>(b, w, channel, &bulk, pc)
                                : StepBulk<T, kMaxRanks>(b, w, channel, &bulk, pc);
  AnnounceScattered(b, w, channel, &bulk);  // any block may take the next step
  return result;
}

// Calls call(T{}), where T is the element type (reduce_device.h) that the operation's carrier is
// compiled for.
template <typename Call>
GRT_HD inline StepResult ByType(const Work& w, Call&& call) {
  if ((w.flags & kReduces) == 0) return call(MoveOnly{});
  if (w.op != Operator::kPreMulSum) {
    if (w.type == DataType::kFloat) return call(FloatElement{});
    if (w.type == DataType::kHalf) return call(HalfElement{});
    if (w.type == DataType::kBfloat16) return call(Bfloat16Element{});
  }
  return call(AnyType{});
}

// One thread reads over PCIe whether the host has failed the operation's communicator, and if so
// stores that for all members' kernels.
GRT_HD inline void TakeHostFailure(const Work& w) {
  if (w.failed == nullptr) return;
  uint32_t failed = Load<kSystem, kAcquire>(w.failed);
  if (failed == kPeerGone) failed = kFailedPeer;
  for (uint32_t p = 0; failed != kNoFailure && p < w.ranks; ++p)
    Store<kSystem, kRelaxed>(&HeaderAt(w, p)->failed, failed);
}

// One thread: whether this block takes the next look: `every` has passed since the last one, and no
// other block takes it. Stores `now` in *looked_at.
GRT_HD inline bool MayLook(uint64_t* looked_at, int64_t every, uint64_t now) {
  const uint64_t looked = Load<kDevice, kRelaxed>(looked_at);
  return static_cast<int64_t>(now - looked) >= every &&
         CompareAndSwap<kDevice, kAcquireRelease>(looked_at, looked, now);
}

// One thread reads the host's words that end kernels, if it is time. `own`: the block's own
// operation, whose communicator the host may have failed.
GRT_HD inline void LookForEnd(const HelpList& h, const Work& own, uint64_t now) {
  if (!MayLook(&h.seen->ends, kLookForEndEvery, now)) return;
  if (Load<kSystem, kAcquire>(h.stop) != 0) Store<kSystem, kRelaxed>(&h.seen->stop, 1);
  TakeHostFailure(own);
}

// Copies the entries from number `first` on, and then the tail, into the device's memory.
//
// Meanwhile neither the host nor another block's copy puts a later entry into one of their places
// in the ring: they come behind the own operation, which is unfinished.
template <typename Block>
GRT_HD inline void CopyEntries(Block& b, const HelpList& h, uint32_t first, uint32_t tail) {
  constexpr uint32_t kWords = sizeof(HelpEntry) / 8, kTogether = 4;
  const uint32_t words = (tail - first) * kWords;
  for (uint32_t i = b.Thread(); i < words; i += b.Threads() * kTogether) {
    uint64_t got[kTogether];
    GRT_UNROLL
    for (uint32_t u = 0; u < kTogether; ++u) {
      const uint32_t k = i + u * b.Threads();
      if (k >= words) continue;
      got[u] = Load<kSystem, kRelaxed>(
          reinterpret_cast<const uint64_t*>(h.entries + (first + k / kWords) % kHelpEntries) +
          k % kWords);
    }
    GRT_UNROLL
    for (uint32_t u = 0; u < kTogether; ++u) {
      const uint32_t k = i + u * b.Threads();
      if (k >= words) continue;
      Store<kSystem, kRelaxed>(
          reinterpret_cast<uint64_t*>(h.memory->copies + (first + k / kWords) % kHelpEntries) +
              k % kWords,
          got[u]);
    }
  }
  b.Sync();  // all threads' copies come before the tail
  if (b.Thread() == 0) Store<kDevice, kRelease>(&h.seen->published, tail);
}

// Finds out for an operation that cannot go on whether its communicator has failed, and if so
// stores that for the host. If another member is, or last was, at another operation of the same
// number, the block fails the communicator and stores that for all members.
template <typename Block>
GRT_HD inline bool HasFailed(Block& b, const Work& w, uint32_t channel) {
  const ChannelState* state = StateAt(w, channel);
  const uint32_t number = state->lines + state->bulks + 1;
  bool disagrees = false;
  for (uint32_t p = b.Thread(); p < w.ranks; p += b.Threads()) {
    disagrees = disagrees || Disagrees(w, channel, number, w.signature, p) ||
                Disagrees(w, channel, number - 1, state->signature, p);
  }
  disagrees = b.Any(disagrees);
  uint32_t failed = 0;
  if (b.Thread() == 0) {
    failed = Load<kSystem, kRelaxed>(&HeaderAt(w, w.rank)->failed);
    if (disagrees && failed == kNoFailure) {
      failed = kFailedMismatch;
      for (uint32_t p = 0; p < w.ranks; ++p)
        Store<kSystem, kRelaxed>(&HeaderAt(w, p)->failed, failed);
    }
    if (failed != kNoFailure && w.failed != nullptr) Store<kSystem, kRelaxed>(w.failed, failed);
  }
  return b.Broadcast(failed) != 0;
}

// Whether this block knows that an operation of a list is finished: helpers have finished all its
// channels, or a later kernel of its stream has begun.
GRT_HD inline bool IsFinished(HelpMemory* home, uint32_t number, uint32_t channels) {
  const uint32_t finished =
      Load<kDevice, kAcquire>(home->finished + number % kHelpEntries) & ~kBegun;
  return finished == channels ||
         static_cast<int32_t>(Load<kDevice, kAcquire>(&home->begun) - (number + 1)) > 0;
}

// Whether all that must have begun before an entry has.
GRT_HD inline bool HasAllBegun(const HelpList& h, const HelpEntry* e, uint32_t needs) {
  for (uint32_t i = 0; i < needs; ++i) {
    const uint32_t list = Load<kSystem, kRelaxed>(&e->need[i].list),
                   begun = Load<kSystem, kRelaxed>(&e->need[i].begun);
    if (static_cast<int32_t>(Load<kDevice, kAcquire>(&h.lists[list].begun) - begun) < 0)
      return false;
  }
  return true;
}

// Any thread: the turn of the entry at `place` behind the own kernel. kNoTurn: the block must not
// serve it now, because it is done, must not begin yet, does not stand behind the own kernel, or is
// not begun and comes later than `most`.
GRT_HD inline uint64_t TurnAt(const HelpList& h, uint32_t place, uint64_t most) {
  const HelpEntry* e = h.memory->copies + (h.last + place) % kHelpEntries;
  const uint64_t turn = Load<kSystem, kRelaxed>(&e->turn);
  if (turn == kNoTurn) return kNoTurn;  // a mark of the stream's own (HelpStream::Mark)
  const uint32_t after = Load<kSystem, kRelaxed>(&e->after),
                 marked = Load<kSystem, kRelaxed>(&e->marked),
                 number = Load<kSystem, kRelaxed>(&e->number),
                 list = Load<kSystem, kRelaxed>(&e->home),
                 counts =
                     Load<kSystem, kRelaxed>(reinterpret_cast<const uint32_t*>(&e->after_channels));
  static_assert(offsetof(HelpEntry, after_channels) % 4 == 0 &&
                offsetof(HelpEntry, needs) == offsetof(HelpEntry, after_channels) + 2);
  HelpMemory* const home = h.lists + list;
  const uint32_t finished = Load<kDevice, kAcquire>(home->finished + number % kHelpEntries);
  if (list != h.list &&
      static_cast<int32_t>(Load<kSystem, kRelaxed>(&e->before) - 1 - h.last) < 0) {
    return kNoTurn;
  }
  if (marked != 0 && static_cast<int32_t>(marked - 1 - h.last) > 0) return kNoTurn;
  if (!HasAllBegun(h, e, counts >> 16)) return kNoTurn;
  // All operations before the own kernel are done.
  const bool is_own_past = list == h.list && static_cast<int32_t>(after - 1 - h.first) < 0;
  if (after != 0 && !is_own_past && !IsFinished(home, after - 1, counts & 0xffff)) return kNoTurn;
  if (finished == 0) return turn > most ? kNoTurn : turn | place;
  const Work& w = e->work;
  static_assert(offsetof(Work, channels) % 4 == 0 &&
                offsetof(Work, flags) == offsetof(Work, channels) + 2);
  const uint32_t channels =
      Load<kSystem, kRelaxed>(reinterpret_cast<const uint32_t*>(&w.channels)) & 0xffff;
  return (finished & ~kBegun) == channels ? kNoTurn : turn | place;
}

enum class Served : uint8_t { kNothing, kNoStep, kStep };

// Claims the first channel from `start` on, of an entry's operation, that is free and
// unfinished, and runs its steps until one is not ready. `looks`: if none was ready, checks whether
// the communicator has failed.
template <typename Block>
GRT_HD inline Served Serve(Block& b, const HelpList& h, uint32_t entry, uint32_t start,
                           bool looks) {
  constexpr uint32_t kTries = 6;  // for a channel that has begun: peers are probably working at it
  HelpRoom& room = *b.Room();
  const HelpEntry& e = h.memory->copies[entry % kHelpEntries];
  HelpMemory* const home = h.lists + Load<kSystem, kRelaxed>(&e.home);
  const uint32_t id = Load<kSystem, kRelaxed>(&e.number);
  const Work& w = b.Fetch(&e.work, room.fetched != entry + 1);
  if (b.Thread() == 0) room.fetched = entry + 1;
  const uint32_t channels = w.channels;
  uint32_t channel = 0, pc = kStepsDone;
  for (uint32_t lost = 0; lost < 3 && pc == kStepsDone; ++lost) {
    uint64_t least = ~uint64_t{0}, word = 0;  // of this thread: distance from `start` | channel
    for (uint32_t c = b.Thread(); c < channels; c += b.Threads()) {
      const uint64_t found = Load<kDevice, kRelaxed>(ClaimAt(home, id, c));
      if (StepsOf(found, id) == kStepsDone || IsTaken(found, id)) continue;
      const uint64_t distance = (c + channels - start % channels) % channels;
      if (distance << 32 >= least) continue;
      least = distance << 32 | c;
      word = found;
    }
    const uint64_t first = b.Least(least);
    if (first == ~uint64_t{0}) return Served::kNothing;
    channel = static_cast<uint32_t>(first);
    // The thread that found it takes it.
    uint64_t taken = kStepsDone;
    if (least == first &&
        CompareAndSwap<kDevice, kAcquireRelease>(ClaimAt(home, id, channel), word,
                                                 ClaimWord(id, StepsOf(word, id), true))) {
      taken = StepsOf(word, id);
    }
    pc = static_cast<uint32_t>(b.Least(taken));
  }
  if (pc == kStepsDone) return Served::kNothing;
  const uint32_t before = pc;
  StepResult result;
  for (uint32_t tries = 0;;) {
    result = StepAny(b, w, channel, &pc);
    if (result == StepResult::kDone) break;
    if (result == StepResult::kAdvanced) {
      tries = 0;
    } else if (pc == 0 || ++tries == kTries) {
      break;
    }
  }
  const bool done = result == StepResult::kDone;
  if (!done && pc == before && looks) {
    // Only to store a failure: the operation's own kernel leaves when its turn comes.
    [[maybe_unused]] const bool failed = HasFailed(b, w, channel);
  }
  b.Sync();  // the step's stores by all threads come before the words
  const bool any = done || pc != before;
  if (b.Thread() == 0) {
    Fence<kDevice>();
    Store<kSystem, kRelaxed>(ClaimAt(home, id, channel),
                             ClaimWord(id, done ? kStepsDone : pc, false));
    uint32_t* const finished = home->finished + id % kHelpEntries;
    if (done) {
      Add<kDevice, kRelaxed>(finished, 1);
    } else if (any) {
      Or<kDevice, kRelaxed>(finished, kBegun);
    }
    Add<kDevice, kRelaxed>(&h.counts->visits, 1);
    if (done) Add<kDevice, kRelaxed>(&h.counts->helped, 1);
    if (any) Add<kDevice, kRelaxed>(&h.counts->progress, 1);
    if (any && !done) Add<kDevice, kRelaxed>(&h.counts->switches, 1);
  }
  return any ? Served::kStep : Served::kNoStep;
}

// Serves operations between the own kernel and `tail`, in the order of their turns, until
// kHelpBudget is over. Returns how often the block looks at its own operation next.
template <typename Block>
GRT_HD inline uint32_t Walk(Block& b, const HelpList& h, const Work& own, uint32_t tail,
                            bool looks) {
  HelpRoom& room = *b.Room();
  const uint64_t begun = b.Now();
  const uint32_t behind = tail - (h.last + 1);
  // The view's number may be from a time when the list was longer.
  const uint32_t first = room.view * kHelpView < behind ? room.view * kHelpView : 0;
  const auto in_view = static_cast<uint32_t>(Least(behind - first, kHelpView));
  const bool patient =
      b.Broadcast(static_cast<int64_t>(begun - room.since) < kPatience ? 1 : 0) != 0;
  const uint64_t most = patient ? TurnOf(own) : kNoTurn;
  for (uint32_t i = b.Thread(); i < in_view; i += b.Threads())
    room.turns[i] = TurnAt(h, first + i + 1, most);
  b.Sync();
  const uint32_t start = b.Index() + room.pass;
  uint64_t last = room.last;
  bool any = false, over = false, in_time = true;
  while (in_time) {
    uint64_t next = kNoTurn;
    for (uint32_t i = b.Thread(); i < in_view; i += b.Threads()) {
      if (room.turns[i] > last) next = Least(next, room.turns[i]);
    }
    next = b.Least(next);
    over = next == kNoTurn;
    if (over) break;
    last = next;
    any = Serve(b, h, h.last + static_cast<uint32_t>(next % (1u << kTurnPlaceBits)), start,
                looks) == Served::kStep ||
          any;
    in_time = b.Broadcast(static_cast<int64_t>(b.Now() - begun) < kHelpBudget ? 1 : 0) != 0;
  }
  b.Sync();  // all have read the room
  const bool nothing = over && last == 0;
  if (b.Thread() == 0) {
    room.last = last;
    if (any) {
      room.since = b.Now();
      room.last = room.view = 0;
    } else if (over) {
      room.last = 0;
      if (++room.view * kHelpView >= behind) {
        room.view = 0;
        ++room.pass;
      }
    }
  }
  return any ? kPollsHelped : nothing ? kPollsNothing : kPollsInVain;
}

// One walk in kLooks checks whether communicators have failed: the check takes a fifth of a walk's
// time.
inline constexpr uint32_t kLooks = 8;

template <typename Block>
GRT_HD inline uint32_t LookAndWalk(Block& b, const HelpList& h, const Work& own, uint32_t round) {
  const bool looks = h.listed == 0 || round % kLooks == 0;
  if (looks && HasFailed(b, own, b.Index())) return 0;
  uint32_t state = 0, tail = h.last + 1, host_tail = 0;
  if (b.Thread() == 0) {
    const uint64_t now = b.Now();
    LookForEnd(h, own, now);
    state = Load<kSystem, kRelaxed>(&h.seen->stop) != 0 ? 1 : 0;
    if (h.listed != 0) {
      // The device's tail may be older than this operation; then it says nothing of later ones.
      const auto published = static_cast<uint32_t>(Load<kDevice, kAcquire>(&h.seen->published));
      if (static_cast<int32_t>(published - tail) > 0) tail = published;
      if (MayLook(&h.seen->looked, kLookEvery, now)) {
        host_tail = Load<kSystem, kAcquire>(h.tail);
        if (static_cast<int32_t>(host_tail - tail) > 0) state |= 2;
      }
    }
  }
  state = b.Broadcast(state);
  if ((state & 1) != 0) return 0;
  if (h.listed == 0) return kPollsAlone;
  tail = b.Broadcast(tail);
  if ((state & 2) != 0) {
    host_tail = b.Broadcast(host_tail);
    CopyEntries(b, h, tail, host_tail);
    tail = host_tail;
  }
  if (tail == h.last + 1) return kPollsNothing;
  return Walk(b, h, own, tail, looks);
}

// How many shares of the block come behind the one that it carries now.
GRT_HD inline uint32_t SharesBehind(const HelpList& h) {
  if (h.shares == nullptr) return 0;
  return (h.shares->count - 1 - h.shares->at) / h.shares->stride;
}

// Runs the block's own shares behind the current one, each until a step is not ready. No other
// block has them, so the block need not claim them; it keeps their step counters in the claim
// words. Returns whether it made a step. Ends after kHelpBudget, so that the block looks at its own
// operation again; the next visit continues where this one ended.
template <typename Block>
GRT_HD inline bool VisitOwn(Block& b, const HelpList& h, bool looks) {
  const OwnShares& own = *h.shares;
  HelpRoom& room = *b.Room();
  const uint32_t behind = SharesBehind(h);
  const uint64_t begun = b.Now();
  const uint32_t first = room.visited;
  uint32_t done_so_far = 0;
  bool any = false;
  for (bool in_time = true; in_time && done_so_far < behind; ++done_so_far) {
    const uint32_t place = (first + done_so_far) % behind + 1;
    const Share share = ShareAt(h.channels, h.last - h.first + 1, own.at + place * own.stride);
    const uint32_t id = h.first + share.operation;
    uint64_t* const claim = ClaimAt(h, id, share.channel);
    const uint32_t before = StepsOf(Load<kDevice, kRelaxed>(claim), id);
    if (before == kStepsDone) continue;
    const Work* w = own.works + share.operation;
    if (own.renamed[share.operation] != nullptr) {
      // Helpers may have begun it in other memory; the block that finishes it copies from there
      // (FinishRenamed).
      Work& renamed = b.Fetch(w, true);
      b.Sync();
      if (b.Thread() == 0) {
        renamed.out = own.renamed[share.operation];
        renamed.offered = 0;
        room.fetched = 0;
      }
      b.Sync();
      w = &renamed;
    }
    uint32_t pc = before;
    StepResult result;
    do {
      result = StepAny(b, *w, share.channel, &pc);
    } while (result == StepResult::kAdvanced);
    const bool done = result == StepResult::kDone;
    if (!done && pc == before && looks) {
      [[maybe_unused]] const bool failed = HasFailed(b, *w, share.channel);
    }
    any = any || done || pc != before;
    b.Sync();  // the step's stores by all threads come before the words
    if (b.Thread() == 0) {
      Fence<kDevice>();
      Store<kSystem, kRelaxed>(claim, ClaimWord(id, done ? kStepsDone : pc, false));
      if (done) Add<kDevice, kRelaxed>(h.memory->finished + id % kHelpEntries, 1);
    }
    in_time = b.Broadcast(static_cast<int64_t>(b.Now() - begun) < kHelpBudget ? 1 : 0) != 0;
  }
  b.Sync();  // all have read the room
  if (b.Thread() == 0) {
    room.visited = (first + done_so_far) % behind;
    if (any) room.since = b.Now();
  }
  return any;
}

template <typename Block>
GRT_HD inline uint32_t HelpOnceInline(Block& b, const HelpList& h, const Work& own,
                                      uint32_t round) {
  const bool counts = h.listed != 0 && b.Thread() == 0;
  HelpRoom& room = *b.Room();
  uint64_t begun = 0;
  if (counts && round == 0) {
    room.left = room.since = b.Now();
    room.last = room.view = room.pass = room.visited = room.fetched = 0;
  }
  b.Sync();
  if (SharesBehind(h) != 0) {
    const bool looks = round % kVisitsInVain == kVisitsInVain - 1;
    if (VisitOwn(b, h, looks) || !looks) return kPollsHelped;
  }
  if (counts) {
    begun = b.Now();
    Add<kDevice, kRelaxed>(&h.counts->walks, 1);
    if (round != 0) Add<kDevice, kRelaxed>(&h.counts->waiting_ns, begun - room.left);
  }
  const uint32_t polls = LookAndWalk(b, h, own, SharesBehind(h) != 0 ? 0 : round);
  if (counts) {
    room.left = b.Now();
    Add<kDevice, kRelaxed>(&h.counts->walk_ns, room.left - begun);
  }
  return polls;
}

// How many blocks the output has.
GRT_HD inline uint32_t OutputBlocks(const Work& w) { return w.out_stride == 0 ? 1 : w.ranks; }

// Makes steps until the channel is done, and returns true. After `polls` looks without a step calls
// stall(round), which returns the looks before its next call, as HelpOnce; if it returns 0, returns
// false with the channel unfinished.
template <typename Stall, typename Step>
GRT_HD inline bool CarryOn(uint32_t polls, Stall&& stall, Step&& step) {
  uint32_t tries = 0, round = 0;
  for (;;) {
    const StepResult result = step();
    if (result == StepResult::kDone) return true;
    if (result == StepResult::kAdvanced) continue;
    tries += 2;
    if (tries < polls) continue;
    tries = 0;
    polls = stall(round++);
    if (polls == 0) return false;
  }
}

// Counts a channel that its own block has finished. In a kernel with several operations, blocks
// that carry the others need the count.
template <typename Block>
GRT_HD inline void CountFinished(Block& b, const HelpList& h) {
  if (h.first == h.last) return;
  b.Sync();  // all threads' stores of the last step
  if (b.Thread() != 0) return;
  Fence<kDevice>();
  Add<kDevice, kRelaxed>(h.memory->finished + h.id % kHelpEntries, 1);
}

template <typename Block>
GRT_HD inline void FinishRenamedInline(Block& b, const Work& w, const HelpList& h, uint32_t pc) {
  const uint32_t channel = b.Index();
  Work& own = b.Own();
  b.Sync();
  if (b.Thread() == 0) {
    own = w;
    own.out = h.renamed;
    own.offered = 0;
  }
  b.Sync();
  if (pc != kStepsDone) {
    if (!CarryOn(
            kPollsFirst, [&](uint32_t round) { return HelpOnce(b, h, own, round); },
            [&] { return StepAny(b, own, channel, &pc); })) {
      return;
    }
    CountFinished(b, h);
  }
  b.Sync();  // all threads' stores of the last step
  if (w.out == nullptr) return;
  const uint64_t part = PartBytes(w);
  for (uint32_t p = 0; p < OutputBlocks(w); ++p) {
    const uint64_t begin = Least(part * channel, BlockBytes(w, p));
    const uint64_t end = Least(begin + part, BlockBytes(w, p));
    const uint64_t at = OutAt(w, p) + begin;
    CopyChunk<false>(b, w.out + at, h.renamed + at, end - begin);
  }
}

// Selects bulk, as LineWay and TileWay select their protocols.
struct BulkWay {};

// A block of the operation's own kernel carries its channel. kRanks: as in ll_device.h.
template <typename T, typename Way, uint32_t kRanks, typename Block>
GRT_HD inline void Carry(Block& b, const Work& w, const HelpList& h) {
  const uint32_t channel = b.Index();
  const auto stall = [&](uint32_t round) { return HelpOnce(b, h, w, round); };
  const uint32_t polls = SharesBehind(h) != 0 ? kPollsVisit
                         : h.listed != 0      ? kPollsFirst
                                              : kPollsAlone;
  // Load the state and the claim at the same time: one after the other takes almost a microsecond.
  [[maybe_unused]] const ChannelState state = *StateAt(w, channel);
  uint32_t pc = 0;
  if (h.listed != 0) {
    // No other block writes the word now: the blocks that helped ran in kernels before this one.
    const uint64_t word = Load<kDevice, kRelaxed>(ClaimAt(h, h.id, channel));
    if (channel == 0 && b.Thread() == 0) {
      // This kernel runs, so all earlier work of the stream is done.
      if (h.id == h.first) {
        Store<kSystem, kRelaxed>(h.begun, h.id + 1);
        Store<kDevice, kRelaxed>(&h.memory->begun, h.id + 1);
        // Clear the places in the ring of the kernel before this one: no operation has those places
        // yet (kHelpUnfinished).
        for (uint32_t i = 1; i <= kOfOneKernel; ++i)
          Store<kSystem, kRelaxed>(h.memory->finished + (h.first - h.gap - i) % kHelpEntries, 0);
      }
    }
    pc = StepsOf(word, h.id);
    // A helper has claimed the channel, and wrote elsewhere. Finish it so even if no step was made:
    // the helper's first step may already have stored an offer for the peers.
    if (h.renamed != nullptr && static_cast<uint32_t>(word >> 32) == h.id + 1) {
      FinishRenamed(b, w, h, pc);
      return;
    }
    if (pc == kStepsDone) return;
  }
  bool done;
  if constexpr (!std::is_same_v<Way, BulkWay>) {
    if (pc == 0) {
      uint32_t round = 0;
      done = RunLines<T, kRanks, Way>(b, w, channel, state, polls, [&] { return stall(round++); });
    } else {  // a helper has begun it
      done = CarryOn(polls, stall, [&] { return StepAny(b, w, channel, &pc); });
    }
  } else {
    // No other block takes the channel, even while this one helps. A helper may have left it in the
    // middle of a turn: run single steps up to the next turn.
    done = CarryOn(polls, stall,
                   [&] { return pc % 3 == 0 ? StepResult::kDone : StepAny(b, w, channel, &pc); });
    uint32_t tries = 0, round = 0, looks = polls;
    done = done && RunBulk<T, kRanks>(b, w, channel, pc / 3, [&] {
             tries += 2;
             if (tries < looks) return true;
             tries = 0;
             looks = stall(round++);
             return looks != 0;
           });
  }
  if (done) CountFinished(b, h);
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LIST_HELP_DEVICE_H_
