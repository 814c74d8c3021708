// The data that host and kernels share about a stream's operations: the list that the host
// publishes, and what the device keeps of it. Plain data, in host memory that is mapped for the
// device and in the device's memory; times in nanoseconds of the device's clock. help_device.h and
// help_stream.h say who writes what, and when.
#ifndef GORDIAN_RUNTIME_CUDA_LIST_HELP_LIST_H_
#define GORDIAN_RUNTIME_CUDA_LIST_HELP_LIST_H_

#include <cstdint>

#include "runtime/cuda/protocol/shares.h"
#include "runtime/cuda/protocol/work.h"

namespace gordian::runtime::cuda {

inline constexpr uint32_t kHelpEntries = 1024;
// The most entries between two kernels of a list that are no operations of its stream.
inline constexpr uint32_t kHelpGap = 64;
// The most unfinished entries of a list. It leaves the places of one kernel and of a gap free: a
// kernel clears `finished` at the places of the kernel before it.
inline constexpr uint32_t kHelpUnfinished = kHelpEntries - 1 - kOfOneKernel - kHelpGap;

// The most other streams that an entry may stand behind through waits for events.
inline constexpr uint32_t kMostPasts = 5;

// Helpers must not begin an entry before a kernel of the list, of the entry with this number or of
// a later one, has begun: then all work before that one is done.
struct HelpNeed {
  uint32_t list;
  uint32_t begun;  // number + 1
};

// An operation as the host publishes it: in the list of its own stream, its home, and also, as a
// guest, in the lists of streams that its own one waits for by events (help_stream.h). Blocks claim
// and count its channels at home.
struct alignas(16) HelpEntry {
  Work work;
  uint64_t turn;    // its place in the order that all ranks share: TurnOf
  uint32_t after;   // number + 1, at home, of the operation of its key before it; 0: none
  uint32_t marked;  // number + 1 of the last marked entry up to this one, which helpers must not
                    // begin before all before it are done; 0: none. Of a guest 0: see `need`
  uint32_t home;    // list
  uint32_t number;  // at home
  uint32_t before;  // of a guest: it is behind the kernels of the entries with smaller numbers, and
                    // no others may help it
  uint16_t after_channels;
  uint16_t needs;
  HelpNeed need[kMostPasts + 1];
};
static_assert(sizeof(HelpEntry) == 320);

// An operation's place in the order in which blocks help: by bytes, then by the communicator's tag.
// TurnAt adds the entry's place in the low bits, so that no two turns are equal.
inline constexpr uint32_t kTurnPlaceBits = 10, kTurnTagBits = 16;
static_assert(1u << kTurnPlaceBits >= kHelpEntries);
GRT_HD inline uint64_t TurnOf(const Work& w) {
  constexpr uint64_t kMost = (uint64_t{1} << (64 - kTurnPlaceBits - kTurnTagBits)) - 2;
  return (Least(w.block_bytes, kMost) << kTurnTagBits | w.tag) << kTurnPlaceBits;
}
inline constexpr uint64_t kNoTurn = ~uint64_t{0};

// The device's copy of the host's words. If a hundred stalled blocks each read a word of the host,
// their reads would go over PCIe one after another, and the last block would wait for all of them.
// So one block looks, at most every kLookEvery, and copies the new entries; the others read the
// copy. Any block may do that, since any block may leave; if two look at once, the older copy may
// stay until the next look.
struct alignas(16) Seen {
  uint64_t looked;     // when, in nanoseconds
  uint64_t published;  // the list's tail, as far as entries have been copied
  uint64_t ends;       // when a block last read the host's words that end kernels
  uint32_t stop;       // only ever set
  uint32_t unused;
};

// Counts what blocks of all lists did to help since the domain was made. In the device's memory;
// the host may read them at any time.
struct alignas(128) HelpCounts {
  uint64_t helped;      // channels finished for others
  uint64_t walks;       // times a stalled block looked for something to do
  uint64_t visits;      // channels claimed
  uint64_t progress;    // of those, with a step at least
  uint64_t switches;    // of those, left half way
  uint64_t walk_ns;     // time of blocks in walks
  uint64_t waiting_ns;  // time of blocks between two walks
};

// A list's part in the device's memory; zero at first.
struct alignas(128) HelpMemory {
  uint64_t claims[kHelpEntries * kMaxChannels];
  // How many channels of an operation helpers have finished, and of a kernel with several
  // operations its own blocks too; with kBegun once a helper has left a channel half way. The next
  // kernel clears it.
  uint32_t finished[kHelpEntries];
  HelpEntry copies[kHelpEntries];  // of the host's entries, as far as they have been seen
  Seen seen;
  uint32_t begun;  // as the host's
};

// A list's part in host memory that is mapped for the device; zero at first.
struct HelpShared {
  alignas(128) uint32_t tail;
  alignas(128) uint32_t begun;  // written by the kernels
  alignas(128) HelpEntry entries[kHelpEntries];
};

// The shares that one block of a kernel with several operations carries.
struct OwnShares {
  const Work* works;     // the kernel's operations, in the order of the list
  char* const* renamed;  // of each of them: HelpList::renamed
  // Of all `count` shares (shares.h) the block has every `stride`th one, and carries number `at`
  // now.
  uint32_t at, stride, count;
};

// What a kernel gets of its stream's list. It reads host memory only when it stalls.
struct HelpList {
  const HelpEntry* entries;  // ring of kHelpEntries in host memory
  HelpMemory* memory;
  HelpMemory* lists;  // of all lists of the domain; `memory` is number `list`
  uint32_t list;
  uint32_t gap;          // entries right before `first` that are no operations of the stream
  const uint32_t* tail;  // number of the next entry to be published; host memory
  const uint32_t* stop;  // not 0: leave, unfinished; host memory
  Seen* seen;            // in `memory`; kernels without a list share one
  HelpCounts* counts;    // null where there is no list
  uint32_t* begun;       // number + 1 of the last operation whose kernel has begun; host memory
  uint32_t id;           // the own operation's number, if it is listed
  uint32_t first, last;  // of the own kernel's operations
  uint16_t channels[kOfOneKernel];  // of each of them
  uint32_t listed;                  // whether there is a list
  char* renamed;            // where helpers write the own operation's output; null: in its place
  const OwnShares* shares;  // null: the kernel has one operation
};

inline constexpr uint32_t kBegun = 1u << 31;

// A claim word: number + 1 | step counter | taken. A word of another number stands for "not begun".
inline constexpr uint32_t kStepsDone = 0x7fffffff;
GRT_HD inline uint64_t ClaimWord(uint32_t id, uint32_t pc, bool taken) {
  return uint64_t{id + 1} << 32 | uint64_t{pc} << 1 | (taken ? 1 : 0);
}
GRT_HD inline uint32_t StepsOf(uint64_t word, uint32_t id) {
  return static_cast<uint32_t>(word >> 32) == id + 1 ? static_cast<uint32_t>(word) >> 1 : 0;
}
GRT_HD inline bool IsTaken(uint64_t word, uint32_t id) {
  return static_cast<uint32_t>(word >> 32) == id + 1 && (word & 1) != 0;
}
GRT_HD inline uint64_t* ClaimAt(HelpMemory* memory, uint32_t id, uint32_t channel) {
  return memory->claims + (id % kHelpEntries) * kMaxChannels + channel;
}
GRT_HD inline uint64_t* ClaimAt(const HelpList& h, uint32_t id, uint32_t channel) {
  return ClaimAt(h.memory, id, channel);
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LIST_HELP_LIST_H_
