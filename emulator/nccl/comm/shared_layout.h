// The memory that the members of one communicator share. Its writers can die at any instruction, so
// it holds no lock: every word has one writer, or only counts up.
//
//   Header | Member[n] | Window[n * kWindows] | PairCounters[n*n]
//          | collective slots n * kCollectiveSlots | pair slots n*n * kPairSlots
//
// The file is sparse: only used parts take memory.
#ifndef GORDIAN_EMULATOR_NCCL_COMM_SHARED_LAYOUT_H_
#define GORDIAN_EMULATOR_NCCL_COMM_SHARED_LAYOUT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace gordian::emu::nccl {

// What the members of a communicator agree on beforehand: the ncclUniqueId; for a child
// communicator, bytes derived from its parent's.
using CommKey = std::array<uint8_t, 128>;

inline constexpr uint64_t kSegmentMagic = 0x31756d656e646f67;
inline constexpr uint32_t kSegmentVersion = 7;

// How many operations a member may be ahead of the slowest one. Only pushes run ahead.
inline constexpr uint64_t kCollectiveSlots = 256;
inline constexpr uint64_t kPairSlots = 64;

enum class Kind : uint32_t {
  kNone = 0,
  kAllGather,
  kAllReduce,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAlltoAll,
  kGather,
  kScatter,
  kSend,
  kRecv,
};

// A member's arguments for one operation.
// Among the collectives of one kernel: how many there are, and the index of this one.
struct KernelShare {
  uint32_t together = 1;
  uint32_t place = 0;

  bool operator==(const KernelShare&) const = default;
};

struct Signature {
  Kind kind = Kind::kNone;
  uint32_t datatype = 0;   // ncclDataType_t
  uint32_t reduction = 0;  // Reduction
  int32_t root = 0;        // or the peer
  uint64_t count = 0;
  uint64_t scalar = 0;  // PreMulSum's factor: the bits of one element
  KernelShare share;
};

// Written into Slot::consumed by a reader that needs no more, and by the producer for members that
// it does not serve.
inline constexpr uint64_t kNothingMore = std::numeric_limits<uint64_t>::max();

// One operation of one member: its arguments, and where its bytes are. The bytes form a stream of
// `total` bytes; byte p lies at region_offset + p % region_bytes of the producer's arena and is
// valid while p < staged and p >= staged - region_bytes.
struct Slot {
  std::atomic<uint64_t> published;  // 1 + ordinal of the operation; the fields below belong to it
  Signature signature;
  uint64_t total;
  uint64_t region_offset;
  uint64_t region_bytes;
  std::atomic<uint64_t> staged;
  // One word per member, which that member writes, after `published` only; bytes below it are free.
  std::atomic<uint64_t>* consumed() { return reinterpret_cast<std::atomic<uint64_t>*>(this + 1); }
};

// RMA: this library's limit of windows; nccl.h names none.
inline constexpr uint64_t kWindows = 256;

// A member's window, published before Member::windows counts it: bytes of a file of its process.
struct Window {
  uint64_t address;  // in its process
  uint64_t bytes;
  uint64_t offset;
  uint64_t inode;
  int32_t fd;  // -1: no other process can reach it
};

struct SplitEntry {
  std::atomic<uint64_t> ordinal;  // 1 + ordinal of the split call that the fields belong to
  int32_t color;
  int32_t key;
};

struct alignas(64) Member {
  std::atomic<uint32_t> claimed;  // 1: a member has this rank; 2: the fields below are valid
  int32_t pid;
  uint64_t start_time;  // in clock ticks since boot: distinguishes reused pids
  int32_t doorbell_fd;
  int32_t arena_fd;
  uint64_t doorbell_inode;
  uint64_t arena_inode;
  int32_t physical_device;
  std::atomic<uint32_t> collectives_connected;  // made its first collective
  std::atomic<uint32_t> rma_connected;          // made its first RMA call
  std::atomic<uint32_t> ended;                  // destroyed, aborted, or its process ended
  std::atomic<uint64_t> windows;                // registered so far: registering is collective
  std::atomic<uint64_t> collectives_done;  // all collectives with a smaller ordinal are done here
  // Two suffice: a member is at most one split ahead of a member that still reads.
  SplitEntry split[2];
};

// For one ordered pair of members; the receiver writes all but `connects` and `signals`.
struct PairCounters {
  std::atomic<uint64_t> receives_started;
  std::atomic<uint64_t> receives_done;
  // Written by the source: its connections with the destination, kConnects..., four bits each time.
  std::atomic<uint32_t> connects;
  // Written by the source: signals sent so far.
  std::atomic<uint64_t> signals;
};

inline constexpr uint32_t kConnectsSend = 1;
inline constexpr uint32_t kConnectsReceive = 2;

struct alignas(64) Header {
  uint64_t magic;
  uint32_t version;
  int32_t nranks;
  CommKey key;
  uint64_t pid_namespace;  // inode: pids of another namespace mean nothing here
  int32_t creator_pid;
  uint64_t creator_start_time;
  std::atomic<uint32_t> joined;
  std::atomic<uint32_t> attached;
  // Two members contradicted each other about their ranks or their number: NCCL's root, which finds
  // it, stops and tells none of them.
  std::atomic<uint32_t> contradicted;
  // Futex word of host threads: joins, connections, splits, ends. Device work uses doorbells.
  std::atomic<uint32_t> host_event;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(Slot) % alignof(std::atomic<uint64_t>) == 0);

// Byte offsets of the parts, for one number of members.
struct Layout {
  explicit Layout(uint64_t n)
      : members(sizeof(Header)),
        windows(RoundUp(members + n * sizeof(Member))),
        pairs(RoundUp(windows + n * kWindows * sizeof(Window))),
        slot_stride(RoundUp(sizeof(Slot) + n * sizeof(uint64_t))),
        collective_slots(RoundUp(pairs + n * n * sizeof(PairCounters))),
        pair_slots(collective_slots + n * kCollectiveSlots * slot_stride),
        bytes(pair_slots + n * n * kPairSlots * slot_stride) {}

  uint64_t members;
  uint64_t windows;
  uint64_t pairs;
  uint64_t slot_stride;
  uint64_t collective_slots;
  uint64_t pair_slots;
  uint64_t bytes;

 private:
  static uint64_t RoundUp(uint64_t x) { return (x + 63) / 64 * 64; }
};

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_COMM_SHARED_LAYOUT_H_
