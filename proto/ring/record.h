// The record that the shim writes for one intercepted call.
//
// Contract between interpose/ (writer, inside other people's processes) and collector/ (reader,
// another process, which trusts nothing it reads). POD, fixed width, little endian, no pointer that
// a reader dereferences. A change of any size, offset or meaning below raises kRingAbiVersion.
//
// Life of one call:
//   a call that may block   -> kBegin before the real call, kEnd after it (both name the call)
//   a call that cannot      -> one kPoint after the real call returned success
//   ncclGroupEnd            -> kBegin, one kEnqueue for each stream of the group, kEnd
// The shim records only the outermost of nested library calls (ncclBcast -> ncclBroadcast).
//
// Time: kBegin, kEnqueue, and records of communicators, streams, graphs and host waits carry the
// time of writing. Work on streams (kPoint of WorkPayload) and kEnd of an operation carry a cached
// time, the last that the watcher or an earlier record of the same thread read: never later than
// the truth, at most the watcher's period earlier unless the driver delays the watcher, and never
// before the thread's earlier records. Reading the clock is a third of such a call's cost, and no
// rule uses it.
#ifndef GORDIAN_PROTO_RING_RECORD_H_
#define GORDIAN_PROTO_RING_RECORD_H_

#include <stdint.h>

namespace gordian::ring {

inline constexpr uint32_t kRingAbiVersion = 7;

enum class RecordKind : uint8_t {
  kNone = 0,   // never published
  kBegin = 1,  // entering a call that may block
  kEnd = 2,    // that call returned; payload.end
  kPoint = 3,  // a call that cannot block, recorded once, after it succeeded
  kEnqueue =
      4,      // inside ncclGroupEnd: the group's work on one stream was launched; payload.enqueue
  kText = 5,  // a name that belongs to the communicator of payload.text
  kLongText =
      6,  // a piece of a text: payload.piece. Its row says of what, Record::call_site of which one,
          // Record::flags holds the piece's number, and kLastPiece with the last
};

// Which payload a record of a call carries; the effect of its row (proto/ring/calls.h) says.
enum class PayloadKind : uint8_t {
  kNone = 0,
  kOperation = 1,      // collectives and point-to-point: payload.operation
  kCommInit = 2,       // ncclCommInit*, ncclCommSplit, ncclCommShrink: payload.comm_init
  kCommCall = 3,       // finalize, destroy, abort, revoke, (de)register: payload.comm_call
  kGroup = 4,          // ncclGroupStart / ncclGroupEnd: payload.group
  kStreamCreate = 5,   // a stream seen for the first time, however it was made: payload.stream
  kStreamDestroy = 6,  // payload.stream
  kStreamWork = 7,     // kernels, async copies, host functions, stream waits, event records:
                       // payload.work
  kHostWait = 8,       // synchronise, synchronous copy, free-like: payload.host_wait
  kGraph = 9,          // shows which operations an executable graph holds: payload.graph
  kSignal = 10,        // ncclPutSignal, ncclSignal, ncclWaitSignal: payload.signal
  kPiece = 11,         // payload.piece
};

// payload.operation.flags / Record::flags
inline constexpr uint8_t kFlagInGroup = 1;    // called between ncclGroupStart and ncclGroupEnd
inline constexpr uint8_t kFlagInPlace = 2;    // sendbuff and recvbuff overlap as NCCL defines it
inline constexpr uint8_t kFlagCapturing = 4;  // the stream was being captured into a graph
inline constexpr uint8_t kFlagNonBlocking =
    8;  // the communicator was made with config.blocking = 0
inline constexpr uint8_t kFlagElsewhere =
    16;  // kEnd: the preemptive runtime has the operation, and NCCL connects nothing for it
// kBegin of a call that makes a communicator:
inline constexpr uint8_t kFlagLaunchOrder = 32;  // NCCL_LAUNCH_ORDER_IMPLICIT is on

// kPoint of operations, kBegin of a call that makes a communicator: torch.distributed carries them
// out on the host, without a stream. The call returns at once; kOperation of WaitKind waits.
inline constexpr uint8_t kFlagHost = 64;
// kLongText:
inline constexpr uint8_t kLastPiece = 128;

// Record::call_site of calls from Python: names a text of the row torch_site, no address.
inline constexpr uint64_t kTextSite = uint64_t{1} << 63;

inline constexpr uint32_t kNoId = 0;  // ids of communicators and streams start at 1

// ncclAllReduce .. ncclRecv. kBegin; the matching kEnd says whether NCCL accepted it.
struct OperationPayload {
  uint32_t comm;      // id of the communicator in this process
  uint32_t stream;    // id of the stream in this process
  uint64_t count;     // the count argument as passed
  uint64_t sequence;  // collectives: position on this communicator at this rank, from 0.
                      // send/recv: position among this rank's sends to / receives from that peer.
                      // Given again when the call or its group fails, or it is only simulated.
                      // With kFlagCapturing: the driver's number of the capture, 0 if unknown;
                      // the operation takes its position when its graph is launched.
  int32_t root_or_peer;  // -1 if the call has neither
  uint8_t datatype;      // ncclDataType_t
  uint8_t reduce_op;     // ncclRedOp_t; 255 where the call has none; user-made operators are 254
  uint16_t group;        // low bits of the thread's group number; meaningful with kFlagInGroup.
                         // With kFlagHost: kWithAll, or 0
};
// An all-to-all, whose `count` is 0, in which the rank exchanges something with every member.
inline constexpr uint16_t kWithAll = 1;

// ncclPutSignal, ncclSignal, ncclWaitSignal. kBegin and kEnd as for operations; between them,
// kPoint records of the same call and thread carry a wait's further descriptors.
struct SignalPayload {
  uint32_t comm;    // id of the communicator in this process
  uint32_t stream;  // id of the stream in this process
  int32_t peer;     // the peer; -1 with `count` 0: a wait without descriptors
  int32_t index;    // sigIdx
  int32_t context;  // ctx
  uint32_t count;   // signals: 1 when sending, opCnt when waiting
  uint32_t group;   // as OperationPayload::group
  uint32_t
      number;  // of the first of them among those of its NumberSlot (state_block.h), the low 32
               // bits; 0 too where there is none. Given again when the call or its group fails.
};

// kBegin of a call that makes a communicator; ncclCommInitAll writes one record per device. kPoint
// of ncclCommGrow, before its kEnd: `uid` is the id by which the parent's other members know
// `comm`.
struct CommInitPayload {
  uint32_t comm;    // id given to the communicator-to-be in this process
  int32_t nranks;   // 0 when not known before the call returns (split, shrink)
  int32_t rank;     // -1 when not known before the call returns
  int32_t device;   // CUDA device current at the call
  uint64_t uid;     // same at all members: hash of the ncclUniqueId; for a child a hash of
                    // (parent uid, kind, ordinal on the parent). Colours do not enter it.
  uint32_t parent;  // id of the parent communicator, kNoId for a root one
  int32_t color;    // ncclCommSplit's colour; -1 (NCCL_SPLIT_NOCOLOR) joins nothing
};

struct CommCallPayload {
  uint32_t comm;
  uint32_t reserved0;
  uint64_t reserved1[3];
};

struct GroupPayload {
  uint32_t group;       // number of the thread's outermost group, from 1
  uint32_t operations;  // operations called inside it (kBegin of ncclGroupEnd)
  uint32_t streams;     // distinct streams among them
  uint32_t reserved0;
  uint64_t reserved1[2];
};

enum StreamFlags : uint32_t {
  kStreamBlocking = 1,      // synchronises with the legacy default stream
  kStreamLegacy = 2,        // is the legacy default stream
  kStreamPerThread = 4,     // is a per-thread default stream
  kStreamFlagsUnknown = 8,  // made before the shim was loaded
};

struct StreamPayload {
  uint32_t stream;
  uint32_t flags;  // StreamFlags
  int32_t device;
  uint32_t connections;  // CUDA_DEVICE_MAX_CONNECTIONS; 0: not set
  uint64_t handle;
  uint64_t reserved1;
};

enum class WorkKind : uint32_t {
  kNoWork = 0,   // never written
  kKernels = 1,  // one or more kernels or async copies with nothing tracked between them
  kHostFunction = 2,
  kEventWait = 3,       // cudaStreamWaitEvent: `event` is what it waits for
  kEventRecord = 4,     // takes no ordinal: stands behind `ordinal`
  kEventForgotten = 5,  // takes no ordinal and no stream: `event` was made, or is about to be
                        // destroyed, or was recorded on a whole context; it stands behind nothing
                        // that is known
  kGraphLaunch = 6,     // `event` is the executable graph
  kMemoryWait = 7,      // cuStreamWaitValue and its kin: `event` is the address, `value` and
  kMemoryWrite = 8,     // Record::flags say what it waits for, or writes
  kMemoryShared = 9,    // takes no ordinal and no stream: from now on others than this process may
                        // write `value` bytes from the address `event` on
  // Events in captured graphs (interpose/progress/graph_markers.h). Neither takes an ordinal.
  kGraphMarkers = 20,  // the operation that this thread captured last on `stream`, or its group,
                       // into capture `ordinal`, lies between two of them: `event` holds the number
                       // of the one in front in its lower half, of the one behind in its upper half
  kGraphProgress = 21,  // looked at after record number `ordinal` of the process was taken: bit i
                        // of `event` says that marker `stream` + i is done
};

// Record::flags of kMemoryWait and kMemoryWrite.
inline constexpr uint8_t kMemoryCondition = 3;  // as CUstreamWaitValue_flags numbers it
inline constexpr uint8_t kMemory64 = 4;         // of 8 bytes; else of 4
inline constexpr uint8_t kMemoryOwn = 8;  // waits: in memory that cudaMalloc gave this process

struct WorkPayload {
  uint32_t stream;
  WorkKind kind;
  uint64_t ordinal;  // position on the stream, from 1; all tracked work of a stream is numbered
  uint64_t event;    // cudaEvent_t value, or 0
  uint64_t value;    // kMemory...
};

enum class WaitKind : uint32_t {
  kNoWait = 0,     // never written
  kStream = 1,     // all work on `stream` up to `ordinal`
  kEvent = 2,      // what `event` stood behind at the call
  kDevice = 3,     // all work on `device`
  kFree = 4,       // as kDevice, by implementation and not by contract
  kCopy = 5,       // synchronous copy: all work on `stream` up to `ordinal`, and the copy itself
  kAsyncCopy = 6,  // as kCopy if the host memory is pageable, else nothing: its end proves nothing
  kOperation =
      7,       // an operation with kFlagHost: `stream` is its communicator, `ordinal` its number,
               // `part` its kind, `event` the peer of a transfer. kPoint: it was seen done
  kStore = 8,  // of the key with the hash `event`: until a process sets it. kPoint: it was set
};

enum class GraphCall : uint32_t {
  kEndCapture = 1,   // `graph` holds what was captured as `capture`
  kDestroy = 2,      // `graph` was destroyed
  kClone = 3,        // `made` is a copy of `graph`
  kNest = 4,         // `graph`, or the executable `made`, becomes part of another graph
  kInstantiate = 5,  // `made` is an executable copy of `graph`, or was updated to be one
  kExecDestroy = 6,  // the executable `made` was destroyed
};

struct GraphPayload {
  GraphCall what;
  uint32_t reserved0;
  uint64_t graph;
  uint64_t made;
  uint64_t capture;
};

struct HostWaitPayload {
  WaitKind kind;
  uint32_t stream;  // kNoId unless kStream, kCopy, kAsyncCopy or kOperation
  int32_t device;
  uint32_t part;     // kOperation: 0 collective, 1 send, 2 receive
  uint64_t event;    // cudaEvent_t value, or 0
  uint64_t ordinal;  // kStream, kCopy, kAsyncCopy: last tracked ordinal on the stream at the call
};

// kEnd of any call.
struct EndPayload {
  int32_t result;    // the call's own return value
  uint32_t stream;   // operation outside a group: where it was enqueued; else kNoId
  uint64_t ordinal;  // operation outside a group: its position on that stream; else 0
  uint32_t comm;     // calls that make a communicator: its id; else kNoId
  int32_t nranks;    // calls that make a communicator: its size; 0 on failure
  int32_t rank;      // calls that make a communicator: this member's rank; -1 on failure
  int32_t device;
};

struct EnqueuePayload {
  uint32_t group;
  uint32_t stream;
  uint64_t ordinal;  // position of the group's work on the stream
  uint64_t reserved0[2];
};

struct TextPayload {
  uint32_t comm;
  char text[28];  // commName of its config, truncated, padded with NUL
};

struct PiecePayload {
  char text[32];  // padded with NUL
};

struct Record {
  RecordKind kind;
  uint8_t flags;
  uint16_t call;    // gordian::ring::CallId, row of proto/ring/hooked_calls.def
  uint32_t thread;  // index of the writer's ThreadSlot
  uint64_t order;  // position among all records of the process (one atomic counter): merges threads
  uint64_t ticks;  // see ClockCalibration, and "Time" above
  uint64_t call_site;  // return address of the intercepted call in the caller; 0 if unknown
  union {
    OperationPayload operation;
    SignalPayload signal;
    CommInitPayload comm_init;
    CommCallPayload comm_call;
    GroupPayload group;
    StreamPayload stream;
    WorkPayload work;
    GraphPayload graph;
    HostWaitPayload host_wait;
    EndPayload end;
    EnqueuePayload enqueue;
    TextPayload text;
    PiecePayload piece;
    uint64_t words[4];
  } payload;
};

static_assert(sizeof(OperationPayload) == 32);
static_assert(sizeof(SignalPayload) == 32);
static_assert(sizeof(CommInitPayload) == 32);
static_assert(sizeof(CommCallPayload) == 32);
static_assert(sizeof(GroupPayload) == 32);
static_assert(sizeof(StreamPayload) == 32);
static_assert(sizeof(WorkPayload) == 32);
static_assert(sizeof(GraphPayload) == 32);
static_assert(sizeof(HostWaitPayload) == 32);
static_assert(sizeof(EndPayload) == 32);
static_assert(sizeof(EnqueuePayload) == 32);
static_assert(sizeof(TextPayload) == 32);
static_assert(sizeof(PiecePayload) == 32);
static_assert(sizeof(Record) == 64);

}  // namespace gordian::ring

#endif  // GORDIAN_PROTO_RING_RECORD_H_
