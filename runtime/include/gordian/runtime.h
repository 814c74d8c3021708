/* The preemptive collective runtime: collectives that may be called in any order on any rank
 * without a deadlock that the library itself adds.
 *
 * The names, argument orders, element types and operators are NCCL's; so are the results 0 to 7.
 * An operation is the same one on all ranks when it is the n-th of its kind of sequence:
 * collectives of a port are numbered in the order of their calls; sends and receives in that of the
 * calls between the two ranks.
 *
 * Threads: everything may be called from any thread. Calls on one port, and sends or receives
 * between one pair of ranks, must be ordered by the caller, identically on all ranks (as NCCL asks
 * for a communicator); calls on different ports need no order at all.
 * Ownership: buffers are the caller's, and must stay valid until the operation is done. Handles are
 * the library's, and end with the function named at each.
 * Errors: results only; no exception leaves the library, and it never ends the process. A result of
 * 64 or more is one that NCCL does not have. Errors of a communicator are sticky
 * (grtCommGetAsyncError) until it is aborted or destroyed.
 * Time is in nanoseconds (_ns), microseconds (_us) or milliseconds (_ms), of the monotonic clock.
 *
 * Every struct starts with its own size, a magic and a version, which its GRT_..._INITIALIZER sets:
 * what a newer header adds at a struct's end, an older library does not read.
 *
 * The algorithm is DFCCL's (EuroSys '25) as far as preemption goes: connectors of each operation's
 * own, and contexts that are counters. docs/runtime.md has the rest.
 */
#ifndef GORDIAN_RUNTIME_H_
#define GORDIAN_RUNTIME_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GRT_API __attribute__((visibility("default")))
#define GRT_VERSION 10000 /* major * 10000 + minor * 100 + patch */

/* CUDA's own declaration, so that nothing of CUDA is needed here. Without CUDA, streams are those
 * of grtStreamCreate. */
typedef struct CUstream_st* cudaStream_t;

typedef enum {
  grtSuccess = 0,
  grtUnhandledCudaError = 1,
  grtSystemError = 2,     /* memory, shared memory or threads are not to be had */
  grtInternalError = 3,   /* shared state that cannot be: a bug, or a foreign writer */
  grtInvalidArgument = 4, /* an argument that is wrong by itself */
  grtInvalidUsage = 5,    /* a call at the wrong time, or members that disagree about the whole */
  grtRemoteError = 6,
  grtInProgress = 7, /* not done yet: no error */
  grtTimeout = 64,   /* the call's own time is up; nothing was changed */
  grtMismatch = 65,  /* members called different operations; no output was written */
  grtAborted = 66,   /* a member has aborted the communicator */
  grtPeerDead = 67,  /* the process of a member that is needed has ended */
  grtOutOfPorts = 68,
  grtNotSupported = 69
} grtResult_t;

/* What an operation waits for, and what waits for it (docs/runtime.md). */
typedef enum {
  grtOrderDefault = 0,  /* the communicator's */
  grtOrderStrict = 1,   /* as NCCL: later work of the stream waits for it. It may begin early, where
                           nothing that an observer could tell is changed by that */
  grtOrderDeferred = 2, /* after earlier work of the stream other than operations (on GPUs: other
                           than deferred ones); later work waits from the next grtStreamJoin, group
                           end, strict operation or grtOpStreamWait, or operation that uses its
                           memory. Not on a captured stream (grtNotSupported) */
  grtOrderDetached = 3  /* no stream waits for it; only by handle, or grtOpStreamWait. Called with a
                           stream: after that one's earlier work, which is not captured then */
} grtOrder_t;

/* Numbered as ncclDataType_t. */
typedef enum {
  grtInt8 = 0,
  grtUint8 = 1,
  grtInt32 = 2,
  grtUint32 = 3,
  grtInt64 = 4,
  grtUint64 = 5,
  grtFloat16 = 6,
  grtFloat32 = 7,
  grtFloat64 = 8,
  grtBfloat16 = 9,
  grtFloat8e4m3 = 10,
  grtFloat8e5m2 = 11
} grtDataType_t;

/* The first five numbered as ncclRedOp_t. Elements are combined in rank order, in 32 bits for
 * floats of fewer and rounded once: the same bits on all ranks, in all runs. Integers wrap, 8-bit
 * floats saturate. */
typedef enum {
  grtSum = 0,
  grtProd = 1,
  grtMax = 2,
  grtMin = 3,
  grtAvg = 4,
  grtPreMulSum = 5 /* grtOpDesc_t.scalar times the rank's own elements, then summed */
} grtRedOp_t;

typedef enum {
  grtKindAllReduce = 1,
  grtKindAllGather = 2,
  grtKindReduceScatter = 3,
  grtKindBroadcast = 4,
  grtKindReduce = 5,
  grtKindAllToAll = 6,
  grtKindGather = 7,
  grtKindScatter = 8,
  grtKindSend = 9,
  grtKindRecv = 10
} grtKind_t;

typedef struct grtCommOpaque* grtComm_t;
typedef struct grtPortOpaque* grtPort_t;
typedef struct grtOpOpaque* grtOp_t;
typedef struct grtRegOpaque* grtReg_t;

/* Passed to the other ranks by the caller's own means. Random; holds no address and no secret. */
typedef struct {
  char internal[128];
} grtUniqueId;

#define GRT_MAGIC 0x31545247u /* "GRT1" */

typedef struct {
  uint32_t size, magic, version;
  /* Of the backend; 0: chosen. The same on all ranks of a communicator, or its creation fails with
   * grtInvalidUsage. */
  uint32_t window;      /* operations of one port that may be unfinished at once */
  uint32_t channels;    /* most channels of an operation */
  uint32_t chunk_bytes; /* of one slot of a lane */
  uint64_t heap_bytes;  /* for grtMemAlloc, each device's; 0: 64 MiB */
  /* Of the rank alone. */
  int32_t device;         /* -1: the current CUDA device. Without CUDA: any number; operations of
                             ranks of one process that share it are helped by each other's threads */
  grtOrder_t order;       /* what grtOrderDefault means; default: strict */
  int32_t policy;         /* 0: ready-driven (helping), 1: DFCCL's spin threshold with stickiness */
  uint32_t spin_head;     /* policy 1: probes of the first task in the list (100,000) */
  uint32_t spin_grow;     /* policy 1: threshold after a success, times probes just needed (20) */
  uint32_t idle_quit_us;  /* resident GPU worker; the CPU's sleeps at once */
  uint32_t stuck_quit_us; /* resident GPU worker */
  uint32_t blocks, reserved0; /* of the resident GPU worker; 0 */
  uint32_t join_kind; /* GPU: how a stream waits for deferred and detached operations. 0: by a
                         kernel of one block that helps them; 1: by its hardware queue, which no
                         other stream may share then (streams share CUDA_DEVICE_MAX_CONNECTIONS of
                         them), or the wait may never end */
  uint32_t grace_ms;  /* after an error a strict operation holds its stream so long, or until
                         grtCommAbort, so that later work does not silently read garbage (200) */
  uint32_t reserved[12];
} grtConfig_t;
#define GRT_CONFIG_INITIALIZER                                                                   \
  {                                                                                              \
    sizeof(grtConfig_t), GRT_MAGIC, GRT_VERSION, 0, 0, 0, 0, -1, grtOrderDefault, 0, 0, 0, 0, 0, \
        0, 0, 0, 200, {                                                                          \
      0                                                                                          \
    }                                                                                            \
  }

typedef struct {
  uint32_t size, magic, version;
  grtKind_t kind;
  const void* in; /* of count elements; of count for each rank where NCCL's call has that */
  void* out;      /* may be `in`, or the part of it that is in place for NCCL */
  size_t count;   /* NCCL's count of the same call */
  grtDataType_t type;
  grtRedOp_t op;
  int32_t root_or_peer;
  grtOrder_t order;
  uint32_t priority; /* lower first; the same on all ranks for the best effect, not for safety. On
                        GPUs of detached and deferred operations alone: a strict one is its stream's
                        own kernel */
  grtPort_t port;    /* null: the communicator's port of tag 0 */
  grtComm_t comm;
  const void* scalar;   /* grtPreMulSum: one element of `type`, read during the call; host memory */
  uint64_t reserved[4]; /* 0 */
} grtOpDesc_t;
#define GRT_OP_DESC_INITIALIZER                                                               \
  {                                                                                           \
    sizeof(grtOpDesc_t), GRT_MAGIC, GRT_VERSION, grtKindAllReduce, NULL, NULL, 0, grtFloat32, \
        grtSum, 0, grtOrderDefault, 0, NULL, NULL, NULL, {                                    \
      0                                                                                       \
    }                                                                                         \
  }

typedef struct {
  uint32_t size, magic, version, reserved0;
  uint64_t operations;  /* finished, by this rank */
  uint64_t steps;       /* committed */
  uint64_t preemptions; /* a worker left an unfinished operation for another one */
  uint64_t helped;      /* operations of which steps were done before their turn in their stream */
  uint64_t renamed; /* of those: written elsewhere first, since an earlier one writes there too */
  uint64_t probes;  /* fruitless */
  uint64_t sleeps;  /* a worker slept since nothing was ready */
  uint64_t mismatches;
  uint64_t bytes;                         /* read and written by bodies */
  uint64_t quits, residency_ns, switches; /* resident GPU worker */
  uint64_t stopped_ranks; /* bit r: an unfinished operation waits for rank r, whose process is
                             stopped at this moment (SIGSTOP, a debugger). A suspicion: nothing is
                             done about it, since the rank may go on */
  uint64_t direct; /* operations whose output this rank let the other ranks write themselves */
  uint64_t reserved[6];
} grtStats_t;
#define GRT_STATS_INITIALIZER                                                                      \
  {                                                                                                \
    sizeof(grtStats_t), GRT_MAGIC, GRT_VERSION, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0 } \
  }

GRT_API grtResult_t grtGetVersion(int* version);
GRT_API const char* grtGetErrorString(grtResult_t result); /* static text */

/* --- Communicators ---
 * Of a communicator on several nodes (CPU alone; docs/runtime.md), the process that makes the id
 * answers the members' connections until all have come. It makes such an id when GRT_NODE is set:
 *   GRT_NODE             name of the node that this process is on (else the host's name). Members
 *                        of one node share memory; members of two never do, even on one machine
 *   GRT_NET_ADDRESS      IP address to answer at (else the first that is up)
 *   GRT_UCX_LIBRARY      UCX's library (libucp.so.0), which is opened in such processes
 *   GRT_NET_DEADLINE_MS  a process that is waited for and does not answer so long is lost (10,000)
 */
GRT_API grtResult_t grtGetUniqueId(grtUniqueId* id);
/* Does not wait for the other members: communicators may be made in any order. If a member's
 * arguments do not fit the others', the member that comes later gets grtInvalidUsage, and the
 * others' communicator gets the error. So is what keeps a member from joining (grtSystemError),
 * unless not even the name of the shared memory can be opened. `config` may be null. */
GRT_API grtResult_t grtCommInitRankConfig(grtComm_t* comm, int nranks, grtUniqueId id, int rank,
                                          const grtConfig_t* config);
/* As ncclCommSplit; color < 0: no member, *out is null. Collective: waits for all members' calls,
 * at most timeout_ns, after which the communicator can only be aborted. grtRemoteError: another
 * member of the color could not make its part. */
GRT_API grtResult_t grtCommSplit(grtComm_t comm, int color, int key, grtComm_t* out,
                                 const grtConfig_t* config, uint64_t timeout_ns);
GRT_API grtResult_t grtCommCount(grtComm_t comm, int* count);
GRT_API grtResult_t grtCommUserRank(grtComm_t comm, int* rank);
/* The communicator's sticky error, grtSuccess without one. */
GRT_API grtResult_t grtCommGetAsyncError(grtComm_t comm, grtResult_t* error);
/* What the communicator's error is due to, with the rank and the node to blame if they are known:
 * text that ends with 0, cut to `bytes` (at least 1), empty without an error. `comm` null: of this
 * thread's last grtCommInitRankConfig or grtGetUniqueId that failed. */
GRT_API grtResult_t grtCommErrorText(grtComm_t comm, char* text, size_t bytes);
/* Unfinished operations end with grtAborted on all members, at the latest at their next step. The
 * handle and those of its ports end; those of operations stay until grtOpFree. */
GRT_API grtResult_t grtCommAbort(grtComm_t comm);
/* Waits for this rank's own operations; grtTimeout leaves the communicator as it was. */
GRT_API grtResult_t grtCommDestroy(grtComm_t comm, uint64_t timeout_ns);
/* A sequence of operations of its own on the same members. Never waits. A tag is opened at
 * most once; 0 is the communicator itself. grtOutOfPorts: on all members alike. Ends with its comm.
 */
GRT_API grtResult_t grtPortOpen(grtComm_t comm, uint32_t tag, const void* reserved,
                                grtPort_t* port);

/* --- Memory --- */
/* Memory that all ranks of this machine can reach, so that it need not be copied on its way. */
GRT_API grtResult_t grtMemAlloc(void** memory, size_t bytes);
GRT_API grtResult_t grtMemFree(void* memory);
/* Makes memory of other origin reachable, so that outputs of `comm` that lie in it need not be
 * copied on their way. grtNotSupported where the backend cannot, which only costs speed. Any part
 * of an allocation, as often as wanted, on any ranks: no rank's choice changes anything for another
 * one. On GPUs: memory of cuMemCreate with POSIX file descriptors on the communicator's device
 * (ncclMemAlloc's, of PyTorch's expandable segments), of one allocation or several behind each
 * other; memory of cudaMalloc is grtNotSupported. Waits for the other members as the first
 * operation does, and then for their processes to map it, which their programs take no part in: 2 s
 * for each at most, and grtNotSupported after that. docs/runtime-cuda.md has the kinds of
 * operations that use it. Deregister before the memory is freed: until then freed memory is not
 * given back. What is called after such a free, into other memory at the same addresses, is carried
 * as if it were not registered. */
GRT_API grtResult_t grtCommRegister(grtComm_t comm, void* memory, size_t bytes, grtReg_t* reg);
/* Allowed while operations are unfinished, whose memory must stay valid as always, and before the
 * end of graphs that have captured some: the other members keep what those use until they have
 * ended. Else they give it up now: waits for that for 0.5 s at most. Registrations end with their
 * communicator at the latest; those of one that has failed or was aborted are kept mapped until the
 * process ends, since other members may not know of it yet. */
GRT_API grtResult_t grtCommDeregister(grtComm_t comm, grtReg_t reg);

/* --- Operations: NCCL's arguments; the communicator's order ---
 * On GPUs a strict operation may be called on a stream that is captured into a CUDA graph: every
 * launch of the graph carries it out, with the buffers and the scalar of this call, and counts as a
 * call where order is concerned. It has no handle. The graph must not be launched after the
 * communicator's end. All streams of a group are captured, or none. docs/runtime-cuda.md has the
 * table of what is covered. A process may have several devices, with at most one member of a
 * communicator on each; one thread may call for all of them. A group's operations are published
 * device by device: an error at one leaves the others'. */
GRT_API grtResult_t grtAllReduce(const void* in, void* out, size_t count, grtDataType_t type,
                                 grtRedOp_t op, grtComm_t comm, cudaStream_t stream);
GRT_API grtResult_t grtAllGather(const void* in, void* out, size_t count, grtDataType_t type,
                                 grtComm_t comm, cudaStream_t stream);
GRT_API grtResult_t grtReduceScatter(const void* in, void* out, size_t count, grtDataType_t type,
                                     grtRedOp_t op, grtComm_t comm, cudaStream_t stream);
GRT_API grtResult_t grtBroadcast(const void* in, void* out, size_t count, grtDataType_t type,
                                 int root, grtComm_t comm, cudaStream_t stream);
GRT_API grtResult_t grtReduce(const void* in, void* out, size_t count, grtDataType_t type,
                              grtRedOp_t op, int root, grtComm_t comm, cudaStream_t stream);
GRT_API grtResult_t grtAllToAll(const void* in, void* out, size_t count, grtDataType_t type,
                                grtComm_t comm, cudaStream_t stream);
/* Counts and offsets in elements, of each rank. One send and one receive for each pair, as a group.
 */
GRT_API grtResult_t grtAllToAllv(const void* in, const size_t* in_counts, const size_t* in_offsets,
                                 void* out, const size_t* out_counts, const size_t* out_offsets,
                                 grtDataType_t type, grtComm_t comm, cudaStream_t stream);
GRT_API grtResult_t grtGather(const void* in, void* out, size_t count, grtDataType_t type, int root,
                              grtComm_t comm, cudaStream_t stream);
GRT_API grtResult_t grtScatter(const void* in, void* out, size_t count, grtDataType_t type,
                               int root, grtComm_t comm, cudaStream_t stream);
GRT_API grtResult_t grtSend(const void* in, size_t count, grtDataType_t type, int peer,
                            grtComm_t comm, cudaStream_t stream);
GRT_API grtResult_t grtRecv(void* out, size_t count, grtDataType_t type, int peer, grtComm_t comm,
                            cudaStream_t stream);
/* Calls of this thread in between are published together at the outermost end, each stream's with
 * one join. An error of a call in between is returned by it and again by the end, and nothing of
 * the group is published. */
GRT_API grtResult_t grtGroupStart(void);
GRT_API grtResult_t grtGroupEnd(void);

/* With order, priority, port and handle. `handle` may be null. Within a group *handle is set by the
 * group's end. */
GRT_API grtResult_t grtSubmit(const grtOpDesc_t* desc, cudaStream_t stream, grtOp_t* handle);
GRT_API grtResult_t grtOpQuery(grtOp_t op); /* grtInProgress, or how it ended */
GRT_API grtResult_t grtOpWait(grtOp_t op, uint64_t timeout_ns);
/* Later work of the stream waits for it, and goes on too if it fails. grtNotSupported: the stream
 * is captured, and the operation (not a strict one) is unfinished. */
GRT_API grtResult_t grtOpStreamWait(grtOp_t op, cudaStream_t stream);
/* Called once, on a thread of the library, or at once on the caller's if the operation is done. May
 * call anything but grtCommDestroy, and may block: no operation waits for it. */
typedef void (*grtDoneFn)(void* user, grtResult_t result);
GRT_API grtResult_t grtOpOnDone(grtOp_t op, grtDoneFn fn, void* user);
GRT_API grtResult_t grtOpFree(grtOp_t op); /* allowed before the operation is done */
/* Later work of the stream waits for its deferred operations. */
GRT_API grtResult_t grtStreamJoin(cudaStream_t stream);
GRT_API grtResult_t grtGetStats(grtComm_t comm, grtStats_t* stats);

/* --- What else is on a stream ---
 * An operation may begin before its turn only where nothing else stands between it and the
 * operations in front of it. The library sees its own calls alone: a program that enqueues other
 * work on a stream that it declared exclusive says so before (grtStreamForeign), and reports its
 * records of events and waits for them right before it makes them (grtEventRecorded,
 * grtEventAwaited), while no other thread records that event or works on that stream. An event that
 * a graph or another process records is not reported, but a wait for it is. On GPUs a report of a
 * wait may launch a small kernel. A launch of a graph is other work. A stream that was not declared
 * never begins early. */
GRT_API grtResult_t grtStreamExclusive(cudaStream_t stream, int exclusive);
GRT_API grtResult_t grtStreamForeign(cudaStream_t stream);
/* CUDA's legacy default stream was given work: every stream has foreign work then. */
GRT_API grtResult_t grtStreamForeignAll(void);
GRT_API grtResult_t grtEventRecorded(const void* event, cudaStream_t stream);
GRT_API grtResult_t grtEventAwaited(const void* event, cudaStream_t stream);
GRT_API grtResult_t grtEventForgotten(const void* event);

/* --- Streams without CUDA (grtNotSupported with it) --- */
GRT_API grtResult_t grtStreamCreate(cudaStream_t* stream);
/* Runs `fn` in the stream's order, as cudaLaunchHostFunc. Counts as foreign work by itself. */
GRT_API grtResult_t grtStreamLaunch(cudaStream_t stream, void (*fn)(void*), void* user);
GRT_API grtResult_t grtStreamSynchronize(cudaStream_t stream, uint64_t timeout_ns);
/* Waits for what is enqueued. */
GRT_API grtResult_t grtStreamDestroy(cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* GORDIAN_RUNTIME_H_ */
