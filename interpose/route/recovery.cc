#include "interpose/route/recovery.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose/entry/glibc_floor.h"
#include "interpose/entry/lifecycle.h"
#include "interpose/entry/reentrancy_guard.h"
#include "interpose/route/drain.h"
#include "interpose/route/relaxed_capture.h"
#include "proto/ring/recovery.h"

GORDIAN_BIND_FIRST_VERSION(pthread_create);
GORDIAN_BIND_FIRST_VERSION(pthread_detach);

namespace gordian::interpose {

constinit std::atomic<uint32_t> g_wants_recovery = 0;
constinit std::atomic<uint32_t> g_armed = 0;
constinit std::atomic<uint32_t> g_recovered = 0;

namespace {

using ring::RecoveryReply;

constexpr uint32_t kUnits = 1024;     // unfinished at once, of one communicator
constexpr uint32_t kGates = 1024;     // streams
constexpr uint32_t kGroupUnits = 64;  // of one thread's open group
constexpr uint64_t kGateBytes = 64;   // a line of its own for each word
constexpr uint64_t kAlign = 256;
constexpr unsigned kHostAllocPortableMapped = 3;
constexpr unsigned kDisableTiming = 2;       // cudaEventDisableTiming
constexpr unsigned kNonBlocking = 1;         // cudaStreamNonBlocking
constexpr unsigned kWaitGreaterOrEqual = 0;  // CU_STREAM_WAIT_VALUE_GEQ
constexpr int kDeviceToDevice = 3;
constexpr int kCudaNotReady = 600;
constexpr long kMicrosecond = 1000;
constexpr int kLeaveTries = 2000;   // of 0.25 ms: for threads to leave their calls
constexpr uint32_t kPatience = 30;  // seconds that a rank stays prepared without an order

// A stream and its gates: the word lets those through whose index is not greater.
struct Gate {
  std::atomic<uint64_t> stream;  // KeyOf; 0: free. Kept when the stream is destroyed
  TryLock lock;                  // an index, its gate's place on the stream, and the word's changes
  uint64_t next;
};

// An operation that was called and is not known to be done.
struct Unit {
  ring::CallId call;
  bool nccl;  // false: called during a recovery, and NCCL has nothing of it
  int type, op, root;
  const void* in;
  void* out;
  size_t count;
  void* stream;
  uint64_t sequence;
  grtFrontName_t name;
  void* event;     // stays with the place
  uint32_t gate;   // place in g_gates
  uint64_t index;  // of its gate
  Shadow shadow;   // of what it writes over in its own input
  // The first of its group's on its communicator and stream, whose event and gate stand in front of
  // its own, behind the kernel of both. Null: it is that itself.
  const Unit* first;
  // The controller alone uses them, in a recovery.
  bool early, ready, left, submitted, executed, opened;
  uint32_t after_count;
  Unit* after[ring::kMaxRecoveryAfter];
  grtOp_t running;
  void* scratch;     // where an early one writes; null: where the program says
  void* scratch_in;  // a copy of what an early one reads; null: it reads where the program says
};

}  // namespace

// The units of one communicator, in the order of their calls: place n is unit[n % kUnits].
struct UnitTable {
  std::atomic<uint64_t> head, tail;
  std::atomic<uint32_t> calls;      // threads between a call's begin and its unit
  std::atomic<uint32_t> unguarded;  // 1: some operation has no gate, or more were unfinished
  std::atomic<uint32_t> registered;
  std::atomic<uint32_t> gives_up;  // the program aborts it
  TryLock lock;                    // appending and submitting while it is recovered
  std::atomic<uint64_t> next;      // sequence of the next collective
  int ranks, rank, device;
  Unit unit[kUnits];

  Unit& At(uint64_t place) { return unit[place % kUnits]; }
};

namespace {

struct CudaFunctions {
  int (*malloc)(void**, size_t);
  int (*memcpy_async)(void*, const void*, size_t, int, void*);
  int (*stream_create)(void**, unsigned);
  int (*stream_query)(void*);
};
constinit CudaFunctions g_more_cuda = {};
constinit Gate g_gates[kGates] = {};
constinit char* g_words = nullptr;
constinit ring::RecoveryFile* g_file = nullptr;

struct PendingUnit {
  RoutedComm* routed;
  Unit unit;
  const Unit* placed;  // while the group ends
};
struct PendingGroup {
  uint32_t count;
  PendingUnit pending[kGroupUnits];
};
// One for each thread that groups operations; made at its first.
constinit thread_local PendingGroup* t_pending __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local uint32_t t_depth __attribute__((tls_model("initial-exec"))) = 0;

std::atomic_ref<uint64_t> Word(uint32_t gate) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(g_words + gate * kGateBytes));
}

void Pause(long nanoseconds) {
  const timespec time = {0, nanoseconds};
  nanosleep(&time, nullptr);
}

template <typename T>
void Load(T* function, Library library, const char* name) {
  *function = reinterpret_cast<T>(FindInLibrary(library, name));
}

// What tells a stream from others, or 0: the handle does not say which stream of the device it is. The
// legacy default stream is the current device's.
uint64_t KeyOf(const void* stream, int device) {
  constexpr uint64_t kLegacy = 1, kPerThread = 2;  // cudaStreamLegacy, cudaStreamPerThread
  const auto handle = reinterpret_cast<uint64_t>(stream);
  if (handle > kPerThread) return handle;
  int current = -1;
  if (handle > kLegacy || g_cuda.get_device(&current) != 0 || current != device) return 0;
  return static_cast<uint64_t>(device) * 4 + 3;  // no handle, which is an address
}

// Null: too many streams, or one without a key.
Gate* GateOf(void* stream, int device) {
  const uint64_t key = KeyOf(stream, device);
  if (key == 0) return nullptr;
  uint32_t at = static_cast<uint32_t>((key * 0x9E3779B97F4A7C15ull) >> 40) % kGates;
  for (uint32_t i = 0; i < kGates; ++i, at = (at + 1) % kGates) {
    uint64_t found = g_gates[at].stream.load(std::memory_order_acquire);
    if (found == 0) g_gates[at].stream.compare_exchange_strong(found, key);
    if (found == 0 || found == key) return &g_gates[at];
  }
  return nullptr;
}

bool Captured(void* stream) {
  int capturing = 0;
  return g_cuda.stream_is_capturing(static_cast<cudaStream_t>(stream), &capturing) != 0 ||
         capturing != 0;
}

bool IsDone(const Unit& unit) { return g_cuda.event_query(unit.event) == 0; }

// Lets go of what is done, if there is little room.
void Reclaim(UnitTable& table) {
  uint64_t tail = table.tail.load(std::memory_order_relaxed);
  const uint64_t head = table.head.load(std::memory_order_relaxed);
  if (head - tail < kUnits / 2) return;
  const RelaxedCapture relaxed;
  constexpr int kMostQueries = 8;  // by one call
  for (int i = 0; i < kMostQueries && tail < head && IsDone(table.At(tail)); ++i) ++tail;
  table.tail.store(tail, std::memory_order_release);
}

// Puts event and gate behind what stands on the unit's stream, and the unit into its table. The gate
// of a unit of a recovery is shut, unless one before it on the stream is.
bool Place(UnitTable& table, const Unit& from) {
  Gate* const gate = GateOf(from.stream, table.device);
  const uint64_t head = table.head.load(std::memory_order_relaxed);
  if (gate == nullptr || head - table.tail.load(std::memory_order_acquire) >= kUnits ||
      Captured(from.stream)) {
    return false;
  }
  Unit& unit = table.At(head);
  void* const event = unit.event;
  unit = from;
  unit.event = event;
  if (unit.event == nullptr && g_cuda.event_create(&unit.event, kDisableTiming) != 0) {
    unit.event = nullptr;
    return false;
  }
  if (!gate->lock.Acquire()) return false;
  unit.gate = static_cast<uint32_t>(gate - g_gates);
  unit.index = ++gate->next;
  const std::atomic_ref<uint64_t> word = Word(unit.gate);
  const uint64_t before = word.load(std::memory_order_relaxed);
  if (!unit.nccl && before == kGateOpen) word.store(unit.index - 1, std::memory_order_release);
  const bool placed =
      g_cuda.event_record(unit.event, static_cast<cudaStream_t>(unit.stream)) == 0 &&
      g_cuda.stream_wait_value64(static_cast<cudaStream_t>(unit.stream),
                                 reinterpret_cast<uint64_t>(g_words + unit.gate * kGateBytes),
                                 unit.index, kWaitGreaterOrEqual) == 0;
  if (placed) {
    table.head.store(head + 1, std::memory_order_release);
  } else if (!unit.nccl) {
    word.store(before, std::memory_order_release);
  }
  gate->lock.Release();
  return placed;
}

Unit Describe(ring::CallId call, const OperationArguments& a, const OperationRoute* route) {
  Unit unit = {};
  unit.call = call;
  unit.nccl = true;
  unit.type = a.datatype;
  unit.op = a.reduce_op;
  unit.root = a.root_or_peer;
  unit.in = a.send;
  unit.out = const_cast<void*>(a.receive);
  unit.count = a.count;
  unit.stream = a.stream;
  if (route != nullptr) {
    unit.sequence = route->name.sequence;
    unit.name = NameOf(route->name);
  }
  return unit;
}

// What the runtime's operation of the unit reads and writes, in bytes.
uint64_t BytesIn(const UnitTable& table, const Unit& unit) {
  const uint64_t one = unit.count * ElementSize(static_cast<ncclDataType_t>(unit.type));
  switch (KindOf(unit.call)) {
    case grtKindReduceScatter:
    case grtKindAllToAll:
      return one * static_cast<uint64_t>(table.ranks);
    case grtKindScatter:
      return unit.root == table.rank ? one * static_cast<uint64_t>(table.ranks) : 0;
    case grtKindBroadcast:
      return unit.root == table.rank ? one : 0;
    case grtKindRecv:
      return 0;
    default:
      return one;
  }
}
uint64_t BytesOut(const UnitTable& table, const Unit& unit) {
  const uint64_t one = unit.count * ElementSize(static_cast<ncclDataType_t>(unit.type));
  switch (KindOf(unit.call)) {
    case grtKindAllGather:
    case grtKindAllToAll:
      return one * static_cast<uint64_t>(table.ranks);
    case grtKindGather:
      return unit.root == table.rank ? one * static_cast<uint64_t>(table.ranks) : 0;
    case grtKindReduce:
      return unit.root == table.rank ? one : 0;
    case grtKindSend:
      return 0;
    default:
      return one;
  }
}

bool Overlap(const void* a, uint64_t a_bytes, const void* b, uint64_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a), second = reinterpret_cast<uintptr_t>(b);
  return a_bytes != 0 && b_bytes != 0 && first < second + b_bytes && second < first + a_bytes;
}

// The part of its input that an operation writes over: by NCCL's rules all of it, or one block.
struct Bytes {
  char* at;
  uint64_t count;  // 0: it is not in place
};
Bytes WrittenOver(const UnitTable& table, const Unit& unit) {
  char* const in = static_cast<char*>(const_cast<void*>(unit.in));
  char* const out = static_cast<char*>(unit.out);
  char* const in_end = in + BytesIn(table, unit);
  char* const out_end = out + BytesOut(table, unit);
  char* const from = in < out ? out : in;
  char* const to = in_end < out_end ? in_end : out_end;
  return from < to ? Bytes{from, static_cast<uint64_t>(to - from)} : Bytes{nullptr, 0};
}
bool InPlace(const UnitTable& table, const Unit& unit) {
  return WrittenOver(table, unit).count != 0;
}

// Copies what a unit that NCCL is about to launch writes over. The caller lets nothing come
// between the copy and the operation on the stream.
Shadow MakeShadowOf(const UnitTable& table, const Unit& unit) {
  // gordian does not recover such a communicator.
  if (table.unguarded.load(std::memory_order_relaxed) != 0 || table.registered.load() != 0)
    return {};
  const Bytes bytes = WrittenOver(table, unit);
  if (bytes.count == 0 || KeyOf(unit.stream, table.device) == 0 || Captured(unit.stream)) return {};
  return MakeShadow(table.device, bytes.at, bytes.count, unit.stream);
}

// Holders of shadows are the places of units, over all communicators.
uint64_t HolderOf(const RoutedComm& routed, uint64_t place) {
  return static_cast<uint64_t>(&routed - g_comms) * kUnits + place % kUnits;
}
// One that NCCL has launched. Null: it has no gate.
const Unit* PlaceOfNccl(RoutedComm& routed, const Unit& unit) {
  UnitTable& table = *routed.units;
  Reclaim(table);
  const uint64_t place = table.head.load(std::memory_order_relaxed);
  if (!Place(table, unit)) {
    table.unguarded.store(1);
    return nullptr;
  }
  HoldShadow(table.device, unit.shadow, HolderOf(routed, place));
  return &table.At(place);
}

// A recovery ends kernels whose inputs it needs again. What was done before its gates were shut, is
// done; so the unit is asked first.
bool IsOverAt(uint64_t holder) {
  const RoutedComm& routed = g_comms[holder / kUnits];
  return IsDone(routed.units->unit[holder % kUnits]) && !IsBeingRecovered(routed);
}

// Detached: no stream waits for it.
grtResult_t Submit(const RoutedComm& routed, const Unit& unit, const void* in, void* out,
                   grtOp_t* handle) {
  grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
  d.kind = KindOf(unit.call);
  d.in = in;
  d.out = out;
  d.count = unit.count;
  d.type = static_cast<grtDataType_t>(unit.type);
  d.op = unit.op < 0 ? grtSum : static_cast<grtRedOp_t>(unit.op);
  d.root_or_peer = unit.root < 0 ? 0 : unit.root;
  d.comm = routed.comm;
  d.order = grtOrderDetached;
  d.reserved[0] = unit.name.word[0];
  d.reserved[1] = unit.name.word[1];
  return g_runtime.grtSubmit(&d, nullptr, handle);
}

// --- The controller: one thread, from arming to the process's end. ---

struct Recovery {
  enum class Phase { kIdle, kPrepared, kFailed } phase;
  RoutedComm* comms[ring::kMaxRecoveryComms];
  uint32_t count;
};
constinit Recovery g_recovery = {};
constinit ring::RecoveryUnit g_order[ring::kMaxRecoveryUnits] = {};
constinit uint32_t g_ids[ring::kMaxRecoveryComms] = {};  // of g_recovery.comms
constinit Unit* g_named[ring::kMaxRecoveryUnits] = {};
constinit UnitTable* g_named_in[ring::kMaxRecoveryUnits] = {};
constinit char* g_scratch = nullptr;  // grows, and is never freed: that waits for the device
constinit uint64_t g_scratch_bytes = 0;
constinit void* g_copies = nullptr;  // stream

struct Answer {
  RecoveryReply reply = RecoveryReply::kReady;
  uint32_t place = UINT32_MAX;
  int detail = 0;
  uint64_t missing = 0;  // bytes of shadows
};

// What the drain decides about (drain.h): the communicators of g_recovery, real memory and streams.
struct ArmedProcess {
  using Unit = interpose::Unit;

  static uint32_t Comms() { return g_recovery.count; }
  static UnitTable& Table(uint32_t comm) { return *g_recovery.comms[comm]->units; }
  static uint64_t Head(uint32_t comm) { return Table(comm).head.load(std::memory_order_acquire); }
  static uint64_t Tail(uint32_t comm) { return Table(comm).tail.load(std::memory_order_relaxed); }
  static void SetTail(uint32_t comm, uint64_t tail) {
    Table(comm).tail.store(tail, std::memory_order_release);
  }
  static Unit& At(uint32_t comm, uint64_t place) { return Table(comm).At(place); }

  static bool IsDone(const Unit& unit) { return interpose::IsDone(unit); }
  static bool IsInPlace(uint32_t comm, const Unit& unit) { return InPlace(Table(comm), unit); }
  static grtResult_t SaveInput(uint32_t comm, Unit& unit);
  // grtAborted: the program has taken the runtime's communicator away.
  static grtResult_t Submit(uint32_t comm, Unit& unit);
  static grtResult_t Query(Unit& unit);
  static grtResult_t MoveOutput(uint32_t comm, Unit& unit);

  struct GateLock {
    GateLock(ArmedProcess&, const Unit& unit) : gate(g_gates[unit.gate]) {
      while (!gate.lock.Acquire()) Pause(kMicrosecond);
    }
    ~GateLock() { gate.lock.Release(); }
    GateLock(const GateLock&) = delete;
    GateLock& operator=(const GateLock&) = delete;
    Gate& gate;
  };
  static uint64_t Word(const Unit& unit) { return interpose::Word(unit.gate).load(); }
  static void SetWord(const Unit& unit, uint64_t value) { interpose::Word(unit.gate).store(value); }
};
constinit ArmedProcess g_armed_process = {};
using ArmedDrain = Drain<ArmedProcess>;

template <typename Do>
void ForEach(const Do& visit) {
  ArmedDrain(g_armed_process).ForEach([&](uint32_t comm, Unit& unit) {
    visit(*g_recovery.comms[comm], ArmedProcess::Table(comm), unit);
  });
}

// Null: there is none with this id in records, or it has no spare.
RoutedComm* ArmedCommOf(uint32_t id) {
  const Process* const process = g_fork_page.load(std::memory_order_acquire)->process.load();
  uint64_t handle = 0;
  for (uint32_t i = 0; process != nullptr && i < ring::kMaxComms && handle == 0; ++i) {
    const CommState& state = process->comm_states[i];
    if (state.id == id) handle = state.handle.load(std::memory_order_acquire);
  }
  if (handle == 0) return nullptr;
  return FindRoutedIf([&](const RoutedComm& routed) {
    return routed.handle.load() == handle && routed.units != nullptr && routed.comm != nullptr;
  });
}

// Which communicators: each has a spare and all its gates.
Answer Choose(uint32_t comms) {
  g_recovery.count = 0;
  for (uint32_t i = 0; i < comms; ++i) {
    RoutedComm* const found = ArmedCommOf(g_ids[i]);
    if (found == nullptr) return {RecoveryReply::kNotArmed};
    if (found->carrier.load() != Carrier::kNccl) return {RecoveryReply::kRoute};
    if (found->units->registered.load() != 0) return {RecoveryReply::kRegistered};
    for (uint32_t c = 0; c < g_recovery.count; ++c) {
      if (g_recovery.comms[c] == found) return {RecoveryReply::kNonsense};
    }
    g_recovery.comms[g_recovery.count++] = found;
  }
  return {};
}

void SetCarrier(Carrier carrier) {
  for (uint32_t i = 0; i < g_recovery.count; ++i) g_recovery.comms[i]->carrier.store(carrier);
}

// No thread is in a call that NCCL may still launch.
bool CallsLeft() {
  for (int tries = 0; tries < kLeaveTries; ++tries) {
    uint32_t calls = 0;
    for (uint32_t i = 0; i < g_recovery.count; ++i)
      calls += g_recovery.comms[i]->units->calls.load();
    if (calls == 0) return true;
    Pause(250 * kMicrosecond);
  }
  return false;
}

uint32_t IdOf(const RoutedComm& routed) {
  uint32_t place = 0;
  while (g_recovery.comms[place] != &routed) ++place;
  return g_ids[place];
}

// Gives each unit of the order its unit here.
Answer Name(uint32_t units) {
  for (uint32_t i = 0; i < units; ++i) {
    g_named[i] = nullptr;
    ForEach([&](RoutedComm& routed, UnitTable& table, Unit& unit) {
      if (IdOf(routed) != g_order[i].comm || unit.sequence != g_order[i].sequence) return;
      g_named[i] = &unit;
      g_named_in[i] = &table;
    });
    if (g_named[i] == nullptr) return {RecoveryReply::kMoved, i};
  }
  ForEach([](RoutedComm&, UnitTable&, Unit& unit) {
    unit.early = unit.ready = unit.left = unit.submitted = unit.executed = unit.opened = false;
    unit.after_count = 0;
    unit.running = nullptr;
    unit.scratch = unit.scratch_in = nullptr;
  });
  for (uint32_t i = 0; i < units; ++i) {
    const ring::RecoveryUnit& ordered = g_order[i];
    g_named[i]->early = ordered.early != 0 && ordered.after_count != 0;
    for (uint32_t a = 0; a < ordered.after_count; ++a) {
      g_named[i]->after[g_named[i]->after_count++] = g_named[ordered.after[a]];
    }
  }
  return {};
}

uint32_t PlaceOf(uint32_t units, const Unit& unit) {
  for (uint32_t i = 0; i < units; ++i) {
    if (g_named[i] == &unit) return i;
  }
  return UINT32_MAX;
}

// An early unit's memory of gordian's: its output, and its input where that is in place.
uint64_t ScratchOf(const UnitTable& table, const Unit& unit) {
  uint64_t bytes = BytesOut(table, unit);
  // Both overlap, so that together they are as long as both without what they share.
  const uint64_t shared = WrittenOver(table, unit).count;
  if (shared != 0) bytes += BytesIn(table, unit) - shared;
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

void GiveScratch(const UnitTable& table, Unit& unit, char* memory) {
  const char* const in = static_cast<const char*>(unit.in);
  const char* const out = static_cast<const char*>(unit.out);
  const bool in_place = InPlace(table, unit);
  const char* const first = in_place && in < out ? in : out;
  unit.scratch = memory + (out - first);
  unit.scratch_in = in_place ? memory + (in - first) : nullptr;
}

// What the records cannot show: whose memory is whose. Of operations that were called after them,
// too.
Answer LookAtMemory(uint32_t units, uint64_t* scratch) {
  *scratch = 0;
  Answer answer;
  ForEach([&](RoutedComm&, UnitTable&, const Unit& unit) {
    const grtKind_t kind = KindOf(unit.call);
    if (answer.reply != RecoveryReply::kReady || !unit.nccl) return;
    if (unit.op >= static_cast<int>(ncclNumOps)) {
      answer = {RecoveryReply::kNotArmed, PlaceOf(units, unit)};
    } else if (kind == grtKindSend || kind == grtKindRecv) {
      answer = {RecoveryReply::kOneEnded, PlaceOf(units, unit)};
    }
  });
  if (answer.reply != RecoveryReply::kReady) return answer;
  // An early one's kernel has not begun: its input is copied before it does.
  ForEach([&](RoutedComm&, UnitTable& table, const Unit& unit) {
    if (!unit.nccl || unit.early || unit.shadow.memory != nullptr) return;
    const uint64_t bytes = WrittenOver(table, unit).count;
    if (bytes == 0) return;
    if (answer.missing == 0) answer = {RecoveryReply::kInPlace, PlaceOf(units, unit)};
    answer.missing += bytes;
  });
  if (answer.reply != RecoveryReply::kReady) return answer;
  for (uint32_t i = 0; i < units; ++i) {
    const Unit& unit = *g_named[i];
    const UnitTable& table = *g_named_in[i];
    if (!unit.early) continue;
    *scratch += ScratchOf(table, unit);
    bool reads_other = false;
    ForEach([&](RoutedComm&, UnitTable& its, const Unit& other) {
      if (&other == &unit) return;
      reads_other |= Overlap(unit.in, BytesIn(table, unit), other.out, BytesOut(its, other));
    });
    if (reads_other) return {RecoveryReply::kOverlaps, i};
  }
  return {};
}

bool HaveScratch(uint64_t bytes) {
  if (g_copies == nullptr && g_more_cuda.stream_create(&g_copies, kNonBlocking) != 0) {
    g_copies = nullptr;
    return false;
  }
  if (bytes <= g_scratch_bytes) return true;
  void* memory = nullptr;
  if (g_more_cuda.malloc(&memory, bytes) != 0) return false;
  g_scratch = static_cast<char*>(memory);
  g_scratch_bytes = bytes;
  return true;
}

void Cancel() {
  ArmedDrain(g_armed_process).OpenAll();
  SetCarrier(Carrier::kNccl);
  g_recovery.count = 0;
  g_recovery.phase = Recovery::Phase::kIdle;
}

Answer Prepare(uint32_t units, uint32_t comms) {
  Answer answer = Choose(comms);
  if (answer.reply != RecoveryReply::kReady) {
    g_recovery.count = 0;
    return answer;
  }
  g_cuda.set_device(g_recovery.comms[0]->units->device);
  SetCarrier(Carrier::kPreparing);
  if (!CallsLeft()) {
    SetCarrier(Carrier::kNccl);
    g_recovery.count = 0;
    return {RecoveryReply::kInCall};
  }
  const RelaxedCapture relaxed;
  ArmedDrain(g_armed_process).Shut();
  for (uint32_t i = 0; i < g_recovery.count; ++i) {
    if (g_recovery.comms[i]->units->unguarded.load() != 0) answer = {RecoveryReply::kNotArmed};
  }
  if (answer.reply == RecoveryReply::kReady) answer = Name(units);
  uint64_t bytes = 0;
  if (answer.reply == RecoveryReply::kReady) answer = LookAtMemory(units, &bytes);
  if (answer.reply == RecoveryReply::kReady && !HaveScratch(bytes)) {
    answer = {RecoveryReply::kMemory};
  }
  if (answer.reply != RecoveryReply::kReady) {
    Cancel();
    return answer;
  }
  char* free = g_scratch;
  ForEach([&](RoutedComm&, UnitTable& table, Unit& unit) {
    if (!unit.early) return;
    GiveScratch(table, unit, free);
    free += ScratchOf(table, unit);
  });
  for (uint32_t i = 0; i < g_recovery.count; ++i) {
    UnitTable& table = *g_recovery.comms[i]->units;
    const uint64_t tail = table.tail.load(std::memory_order_relaxed);
    const bool any = tail < table.head.load(std::memory_order_acquire);
    g_file->first[i] = {g_ids[i], 0, any ? table.At(tail).sequence : table.next.load()};
  }
  g_file->first_count = g_recovery.count;
  g_recovery.phase = Recovery::Phase::kPrepared;
  return {};
}

void* Revoke(void* argument) {
  RoutedComm& routed = *static_cast<RoutedComm*>(argument);
  prctl(PR_SET_NAME, "gordian-revoke");
  t_local.depth = 1;
  const auto revoke = RealNccl<ncclResult_t (*)(ncclComm_t, int)>(ring::kCall_ncclCommRevoke);
  revoke(reinterpret_cast<ncclComm_t>(routed.handle.load()), 0);
  routed.revoking.store(0, std::memory_order_release);
  return nullptr;
}

bool StartThread(void* (*run)(void*), void* argument) {
  // As the watcher's: all signals but glibc's own two.
  const uint64_t blocked = ~(uint64_t{3} << 31);
  uint64_t before = 0;
  if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, &before, sizeof blocked) != 0) {
    return false;
  }
  pthread_t thread;
  const bool started = pthread_create(&thread, nullptr, run, argument) == 0;
  if (started) pthread_detach(thread);
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);
  return started;
}

bool Copy(void* to, const void* from, uint64_t bytes) {
  if (g_more_cuda.memcpy_async(to, from, bytes, kDeviceToDevice, g_copies) != 0) return false;
  int result = 0;
  while ((result = g_more_cuda.stream_query(g_copies)) == kCudaNotReady) Pause(20 * kMicrosecond);
  return result == 0;
}

// The input of a unit in place that has become ready, so that nothing writes over it any more.
grtResult_t ArmedProcess::SaveInput(uint32_t comm, Unit& unit) {
  const UnitTable& table = Table(comm);
  if (!unit.nccl || !InPlace(table, unit)) return grtSuccess;
  if (!unit.left) {
    return Copy(unit.scratch_in, unit.in, BytesIn(table, unit)) ? grtSuccess
                                                                : grtUnhandledCudaError;
  }
  // NCCL's kernel has been there.
  unit.scratch = unit.scratch_in = nullptr;
  if (unit.shadow.memory == nullptr) return grtAborted;
  const Bytes bytes = WrittenOver(table, unit);
  return Copy(bytes.at, unit.shadow.memory, bytes.count) ? grtSuccess : grtUnhandledCudaError;
}

grtResult_t ArmedProcess::Submit(uint32_t comm, Unit& unit) {
  RoutedComm& routed = *g_recovery.comms[comm];
  // What the stream has come to is written where the program wants it.
  if (unit.left) unit.scratch = nullptr;
  TryLock& lock = routed.units->lock;
  while (!lock.Acquire()) Pause(kMicrosecond);
  grtResult_t result = grtAborted;
  if (routed.units->gives_up.load() == 0) {
    const void* const in = unit.scratch_in != nullptr ? unit.scratch_in : unit.in;
    void* const out = unit.scratch != nullptr ? unit.scratch : unit.out;
    result = interpose::Submit(routed, unit, in, out, &unit.running);
  }
  lock.Release();
  return result;
}

grtResult_t ArmedProcess::Query(Unit& unit) {
  const grtResult_t result = g_runtime.grtOpQuery(unit.running);
  if (result == grtInProgress) return result;
  g_runtime.grtOpFree(unit.running);
  unit.running = nullptr;
  return result;
}

// Also counts the unit, before its gate opens: the program may end as soon as the last gate is open.
grtResult_t ArmedProcess::MoveOutput(uint32_t comm, Unit& unit) {
  if (unit.scratch != nullptr) {
    if (!Copy(unit.out, unit.scratch, BytesOut(Table(comm), unit))) return grtUnhandledCudaError;
    unit.scratch = nullptr;
  }
  __atomic_fetch_add(&g_file->executed, 1, __ATOMIC_RELEASE);
  return grtSuccess;
}

// What is called from now on goes straight to the runtime, behind what has been submitted.
void HandOver() {
  for (uint32_t i = 0; i < g_recovery.count; ++i) {
    RoutedComm& routed = *g_recovery.comms[i];
    UnitTable& table = *routed.units;
    if (routed.carrier.load() != Carrier::kRecovering || !table.lock.Acquire()) continue;
    if (ArmedDrain(g_armed_process).MayHandOver(i)) routed.carrier.store(Carrier::kRuntime);
    table.lock.Release();
  }
}

bool IsOver() {
  for (uint32_t i = 0; i < g_recovery.count; ++i) {
    const UnitTable& table = *g_recovery.comms[i]->units;
    if (g_recovery.comms[i]->carrier.load() != Carrier::kRuntime ||
        table.tail.load() != table.head.load())
      return false;
  }
  return true;
}

bool Exits() {
  const Process* const process = g_fork_page.load(std::memory_order_acquire)->process.load();
  return process == nullptr || process->exiting.load(std::memory_order_seq_cst) != 0;
}

// The program aborts one of them: its kernels must leave, whatever comes of its data.
void GiveUp() {
  ForEach([](RoutedComm&, UnitTable& table, Unit& unit) {
    if (table.gives_up.load() == 0 || unit.opened) return;
    ArmedDrain(g_armed_process).Open(unit);
  });
}

bool IsAborted() {
  for (uint32_t i = 0; i < g_recovery.count; ++i) {
    if (g_recovery.comms[i]->units->gives_up.load() != 0) return true;
  }
  return false;
}

// The gates stay shut, so that nothing reads what was not written, until the program aborts.
Answer Fail(int result) {
  g_recovery.phase = Recovery::Phase::kFailed;
  const bool peer_left = result == grtPeerDead || result == grtAborted;
  const RecoveryReply reply = IsAborted() ? RecoveryReply::kAborted
                              : peer_left ? RecoveryReply::kPeerLeft
                                          : RecoveryReply::kFailed;
  return {reply, UINT32_MAX, result};
}

Answer Commit() {
  const RelaxedCapture relaxed;
  g_recovered.store(1, std::memory_order_release);
  SetCarrier(Carrier::kRecovering);
  // From here on what stands on other streams counts: the runtime may begin nothing early there.
  g_runtime.grtStreamForeignAll();
  for (uint32_t i = 0; i < g_recovery.count; ++i) {
    g_recovery.comms[i]->revoking.store(1);
    if (StartThread(Revoke, g_recovery.comms[i])) continue;
    g_recovery.comms[i]->revoking.store(0);
    return Fail(grtSystemError);
  }
  ArmedDrain drain(g_armed_process);
  while (!IsOver()) {
    if (Exits()) return Fail(grtSystemError);
    grtResult_t failed = drain.SubmitReady();
    if (failed == grtSuccess) failed = drain.OpenDone();
    if (failed == grtSuccess && IsAborted()) failed = grtAborted;
    if (failed != grtSuccess) return Fail(failed);
    HandOver();
    Pause(100 * kMicrosecond);
  }
  g_recovery.count = 0;
  g_recovery.phase = Recovery::Phase::kIdle;
  return {RecoveryReply::kDone};
}

Answer Obey() {
  const auto order =
      static_cast<ring::RecoveryOrder>(__atomic_load_n(&g_file->order, __ATOMIC_RELAXED));
  const bool prepared = g_recovery.phase == Recovery::Phase::kPrepared;
  if (order == ring::RecoveryOrder::kCancel) {
    if (prepared) Cancel();
    return {RecoveryReply::kDone};
  }
  if (order == ring::RecoveryOrder::kCommit && prepared) return Commit();
  const uint32_t units = __atomic_load_n(&g_file->unit_count, __ATOMIC_RELAXED);
  const uint32_t comms = __atomic_load_n(&g_file->comm_count, __ATOMIC_RELAXED);
  if (order != ring::RecoveryOrder::kPrepare || units > ring::kMaxRecoveryUnits || comms == 0 ||
      comms > ring::kMaxRecoveryComms || g_recovery.phase != Recovery::Phase::kIdle) {
    return {RecoveryReply::kNonsense};
  }
  memcpy(g_ids, g_file->comm, comms * sizeof g_ids[0]);
  memcpy(g_order, g_file->unit, units * sizeof g_order[0]);
  for (uint32_t i = 0; i < units; ++i) {
    if (g_order[i].after_count > ring::kMaxRecoveryAfter) return {RecoveryReply::kNonsense, i};
    for (uint32_t a = 0; a < g_order[i].after_count; ++a) {
      if (g_order[i].after[a] >= i) return {RecoveryReply::kNonsense, i};
    }
  }
  __atomic_store_n(&g_file->executed, 0, __ATOMIC_RELAXED);
  return Prepare(units, comms);
}

void* Control(void*) {
  prctl(PR_SET_NAME, "gordian-recover");
  t_local.depth = 1;
  uint32_t answered = __atomic_load_n(&g_file->answer, __ATOMIC_ACQUIRE);
  uint32_t waited = 0;
  for (;;) {
    const uint32_t request = __atomic_load_n(&g_file->request, __ATOMIC_ACQUIRE);
    if (request == answered) {
      const bool failed = g_recovery.phase == Recovery::Phase::kFailed;
      // gordian is gone: what is stuck stays so, and calls may go on waiting in NCCL.
      if (g_recovery.phase == Recovery::Phase::kPrepared && ++waited > kPatience) Cancel();
      if (failed && !Exits()) GiveUp();
      const timespec time = {failed ? 0 : 1, failed ? 10000 * kMicrosecond : 0};
      syscall(SYS_futex, &g_file->request, FUTEX_WAIT, request, &time, nullptr, 0);
      continue;
    }
    waited = 0;
    const Answer answer = Exits() ? Answer{RecoveryReply::kFailed, UINT32_MAX, grtAborted} : Obey();
    __atomic_store_n(&g_file->reply, static_cast<uint32_t>(answer.reply), __ATOMIC_RELAXED);
    __atomic_store_n(&g_file->place, answer.place, __ATOMIC_RELAXED);
    __atomic_store_n(&g_file->detail, answer.detail, __ATOMIC_RELAXED);
    __atomic_store_n(&g_file->missing, answer.missing, __ATOMIC_RELAXED);
    __atomic_store_n(&g_file->answer, answered = request, __ATOMIC_RELEASE);
  }
}

bool MapFile() {
  const char* session = getenv("GORDIAN_SESSION");
  if (session == nullptr || *session == '\0') return false;
  char path[4096];
  const int length = snprintf(path, sizeof path, "%s/%s%d", session, ring::kRecoveryFile,
                              static_cast<int>(getpid()));
  if (length <= 0 || length >= static_cast<int>(sizeof path)) return false;
  // A new one: one that is there is an earlier process's, or not ours.
  unlink(path);
  const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  void* at = MAP_FAILED;
  if (ftruncate(fd, sizeof(ring::RecoveryFile)) == 0) {
    at = mmap(nullptr, sizeof(ring::RecoveryFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  if (at == MAP_FAILED) return false;
  g_file = static_cast<ring::RecoveryFile*>(at);
  g_file->pid = static_cast<uint32_t>(getpid());
  __atomic_store_n(&g_file->magic, ring::kRecoveryMagic, __ATOMIC_RELEASE);
  return true;
}

// The first function that CUDA lacks, or null.
const char* MissingFunction() {
  Load(&g_more_cuda.malloc, Library::kRuntime, "cudaMalloc");
  Load(&g_more_cuda.memcpy_async, Library::kRuntime, "cudaMemcpyAsync");
  Load(&g_more_cuda.stream_create, Library::kRuntime, "cudaStreamCreateWithFlags");
  Load(&g_more_cuda.stream_query, Library::kRuntime, "cudaStreamQuery");
  // When the runtime was opened, the driver's library was perhaps not there yet.
  Load(&g_cuda.stream_wait_value64, Library::kDriver, "cuStreamWaitValue64_v2");
  const struct {
    bool found;
    const char* name;
  } needed[] = {
      {g_more_cuda.malloc != nullptr, "cudaMalloc"},
      {g_more_cuda.memcpy_async != nullptr, "cudaMemcpyAsync"},
      {g_more_cuda.stream_create != nullptr, "cudaStreamCreateWithFlags"},
      {g_more_cuda.stream_query != nullptr, "cudaStreamQuery"},
      {OpenShadows(IsOverAt), "cudaGetLastError"},
      {g_cuda.stream_wait_value64 != nullptr, "cuStreamWaitValue64"},
      {g_cuda.host_alloc != nullptr, "cudaHostAlloc"},
      {g_cuda.event_create != nullptr, "cudaEventCreateWithFlags"},
      {g_cuda.event_record != nullptr, "cudaEventRecord"},
      {g_cuda.event_query != nullptr, "cudaEventQuery"},
      {g_cuda.stream_is_capturing != nullptr, "cudaStreamIsCapturing"},
      {g_cuda.get_device != nullptr, "cudaGetDevice"},
      {g_cuda.set_device != nullptr, "cudaSetDevice"},
  };
  for (const auto& function : needed) {
    if (!function.found) return function.name;
  }
  return nullptr;
}

const char* WhyNot() {
  if (const char* const missing = MissingFunction()) {
    static char why[96];
    snprintf(why, sizeof why, "this CUDA has no %s", missing);
    return why;
  }
  if (RealNccl<ncclResult_t (*)(ncclComm_t, int)>(ring::kCall_ncclCommRevoke) == nullptr) {
    return "it needs ncclCommRevoke, which NCCL has from 2.28.7 on";
  }
  void* words = nullptr;
  if (g_cuda.host_alloc(&words, kGates * kGateBytes, kHostAllocPortableMapped) != 0) {
    return "there is no pinned memory";
  }
  g_words = static_cast<char*>(words);
  for (uint32_t i = 0; i < kGates; ++i) Word(i).store(kGateOpen);
  if (!MapFile()) return "it cannot write to the session's folder";
  if (!StartThread(Control, nullptr)) return "it cannot start a thread";
  return nullptr;
}

}  // namespace

void LookForRecovery() {
  const char* wanted = getenv("GORDIAN_RECOVERY");
  if (wanted != nullptr && strcmp(wanted, "1") == 0) g_wants_recovery.store(1);
}

bool Arm() {
  enum : uint32_t { kUnknown, kArming, kNever, kArmed };
  constinit static std::atomic<uint32_t> state = kUnknown;
  uint32_t found = kUnknown;
  if (state.compare_exchange_strong(found, kArming)) {
    const char* const why = WhyNot();
    if (why != nullptr) Say("the job cannot be recovered", why);
    if (why == nullptr) g_armed.store(1, std::memory_order_release);
    state.store(why == nullptr ? kArmed : kNever);
  }
  while (state.load() == kArming) Pause(1000 * kMicrosecond);
  return state.load() == kArmed;
}

void ArmComm(RoutedComm& routed, int ranks, int rank, int device) {
  if (routed.units == nullptr) {
    void* const memory = mmap(nullptr, sizeof(UnitTable), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    routed.units = static_cast<UnitTable*>(memory);
  }
  UnitTable& table = *routed.units;
  table.head.store(0);
  table.tail.store(0);
  table.calls.store(0);
  table.unguarded.store(0);
  table.registered.store(0);
  table.gives_up.store(0);
  table.next.store(0);
  table.ranks = ranks;
  table.rank = rank;
  table.device = device;
  routed.revoking.store(0);
  routed.carrier.store(Carrier::kNccl);
  MakeShadowPool(device);
}

ArmedBy BeginArmed(RoutedComm& routed, ring::CallId call, const OperationArguments& arguments,
                   OperationRoute* route, ArmedCall* armed) {
  *armed = {&routed, false, {}};
  UnitTable& table = *routed.units;
  // What a group has begun with NCCL it ends with NCCL.
  for (uint32_t i = 0; t_depth != 0 && t_pending != nullptr && i < t_pending->count; ++i) {
    if (t_pending->pending[i].routed == &routed) return ArmedBy::kNccl;
  }
  for (;;) {
    table.calls.fetch_add(1);
    const Carrier carrier = routed.carrier.load();
    if (carrier == Carrier::kNccl) {
      armed->entered = true;
      // A group launches at its end.
      if (t_depth == 0 && route != nullptr) {
        armed->shadow = MakeShadowOf(table, Describe(call, arguments, route));
      }
      return ArmedBy::kNccl;
    }
    table.calls.fetch_sub(1);
    armed->routed = nullptr;
    if (carrier == Carrier::kRuntime) return ArmedBy::kRuntime;
    armed->routed = &routed;
    if (carrier == Carrier::kPreparing) {
      Pause(100 * kMicrosecond);
      continue;
    }
    if (!table.lock.Acquire()) continue;
    const bool still = routed.carrier.load() == Carrier::kRecovering;
    Unit unit = Describe(call, arguments, route);
    unit.nccl = false;
    const bool placed = still && Place(table, unit);
    table.lock.Release();
    if (!placed) {
      // Full, as NCCL's own queue may be; or the recovery is over meanwhile.
      if (still) Pause(100 * kMicrosecond);
      continue;
    }
    armed->routed = nullptr;
    if (route != nullptr) route->elsewhere = true;
    return ArmedBy::kRecovery;
  }
}

void MakeShadowsOfGroup() {
  if (t_depth != 1 || t_pending == nullptr) return;
  const ErrnoKeeper keep_errno;
  for (uint32_t i = 0; i < t_pending->count; ++i) {
    PendingUnit& pending = t_pending->pending[i];
    pending.unit.shadow = MakeShadowOf(*pending.routed->units, pending.unit);
  }
}

void EndArmed(const ArmedCall& armed, ring::CallId call, const OperationArguments& arguments,
              const OperationRoute* route, ncclResult_t result) {
  if (armed.routed == nullptr) return;
  const ErrnoKeeper keep_errno;
  UnitTable& table = *armed.routed->units;
  if (route == nullptr || result != ncclSuccess) {
    // Nothing names it, or NCCL may launch it when it likes.
    if (route == nullptr || result == ncclInProgress) table.unguarded.store(1);
    if (armed.entered) table.calls.fetch_sub(1);
    return;
  }
  if (const grtKind_t kind = KindOf(call); kind != grtKindSend && kind != grtKindRecv) {
    table.next.store(route->name.sequence + 1);
  }
  Unit unit = Describe(call, arguments, route);
  unit.shadow = armed.shadow;
  if (t_depth != 0) {
    if (t_pending == nullptr) {
      void* const memory = mmap(nullptr, sizeof(PendingGroup), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory != MAP_FAILED) t_pending = static_cast<PendingGroup*>(memory);
    }
    if (t_pending == nullptr || t_pending->count == kGroupUnits) {
      table.unguarded.store(1);
      if (armed.entered) table.calls.fetch_sub(1);
      return;
    }
    PendingUnit& pending = t_pending->pending[t_pending->count++];
    pending.routed = armed.routed;
    pending.unit = unit;
    // The first of a communicator's in this group keeps the call open until its end.
    pending.unit.opened = armed.entered;
    return;
  }
  PlaceOfNccl(*armed.routed, unit);
  table.calls.fetch_sub(1);
}

void NoteGroupStart() { ++t_depth; }

void EndArmedGroup(ncclResult_t result) {
  if (t_depth == 0 || --t_depth != 0 || t_pending == nullptr) return;
  const ErrnoKeeper keep_errno;
  for (uint32_t i = 0; i < t_pending->count; ++i) {
    PendingUnit& pending = t_pending->pending[i];
    UnitTable& table = *pending.routed->units;
    const bool entered = pending.unit.opened;
    pending.unit.opened = false;
    if (result == ncclSuccess) {
      for (uint32_t j = 0; j < i && pending.unit.first == nullptr; ++j) {
        const PendingUnit& other = t_pending->pending[j];
        if (other.routed == pending.routed && other.unit.stream == pending.unit.stream)
          pending.unit.first = other.placed;
      }
      pending.placed = PlaceOfNccl(*pending.routed, pending.unit);
    } else if (result == ncclInProgress) {
      table.unguarded.store(1);
    }
    if (entered) table.calls.fetch_sub(1);
  }
  t_pending->count = 0;
}

void EndByProgram(RoutedComm& routed) {
  if (routed.units == nullptr) return;
  routed.units->gives_up.store(1);
  // A recovery may be submitting to the runtime's communicator, which ends next.
  while (!routed.units->lock.Acquire()) Pause(kMicrosecond);
  routed.units->lock.Release();
}

void NoteRegistered(RoutedComm& routed) {
  if (routed.units != nullptr) routed.units->registered.store(1);
}

void LeaveRecovery(RoutedComm& routed, bool aborts) {
  if (routed.units == nullptr) return;
  while (routed.revoking.load(std::memory_order_acquire) != 0 ||
         (!aborts && IsBeingRecovered(routed))) {
    Pause(1000 * kMicrosecond);
  }
}

}  // namespace gordian::interpose
