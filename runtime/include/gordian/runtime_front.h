/* What a front that sits between a job and CUDA (gordian's shim) tells the runtime, beside
 * gordian/runtime.h: the CUDA functions behind its own, since the runtime must not call through it.
 * Not for programs.
 */
#ifndef GORDIAN_RUNTIME_FRONT_H_
#define GORDIAN_RUNTIME_FRONT_H_

#include "gordian/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CUDA's functions, with its enumerations as int. All are needed, but for those behind get_device:
 * without those of events, work that is done counts as unfinished where an operation waits for an
 * event behind it; without stream_get_flags, work on the legacy default stream counts as work on
 * all others: fewer begin early. */
typedef struct {
  uint32_t size, reserved;
  int (*launch_host_func)(cudaStream_t stream, void (*fn)(void*), void* user);
  int (*host_alloc)(void** memory, size_t bytes, unsigned flags);
  int (*stream_wait_value64)(cudaStream_t stream, unsigned long long address, uint64_t value,
                             unsigned flags);
  int (*stream_is_capturing)(cudaStream_t stream, int* status);
  int (*get_device)(int* device);
  int (*set_device)(int device);
  int (*stream_get_flags)(cudaStream_t stream, unsigned* flags);
  int (*event_create)(void** event, unsigned flags);
  int (*event_record)(void* event, cudaStream_t stream);
  int (*event_query)(void* event);
  int (*exchange_capture_mode)(int* mode);
} grtCudaFunctions_t;

/* Before anything else. The caller reports all work on all streams from then on (grtStreamForeign,
 * grtEventRecorded and their like). The library for the host's processors enqueues operations on
 * CUDA's streams from then on, and executes them in memory that the host can reach (the emulated
 * devices'); the one for GPUs has CUDA of its own and looks at nothing here. */
GRT_API grtResult_t grtUseCudaStreams(const grtCudaFunctions_t* functions);

/* What a front counts, in a file GRT_COUNTERS_FILE<pid> of GORDIAN_SESSION's folder. Written with
 * atomic additions, added up by `gordian run`. */
#define GRT_COUNTERS_FILE "collectives."
typedef struct {
  uint64_t operations;      /* executed by the runtime */
  uint64_t comms;           /* whose members agreed to it */
  uint64_t comms_with_nccl; /* whose did not, or that were made in other ways */
  uint64_t not_agreed;      /* operations that stayed with NCCL: of such a communicator */
  uint64_t own_operator;    /* with an operator that the program made */
  uint64_t in_graph;        /* on a stream that was captured */
  uint64_t helped;          /* begun before their turn, of communicators that were destroyed */
  uint64_t registered;      /* buffers that the runtime can use, too */
  uint64_t direct; /* operations into those, of communicators that were destroyed: written by the
                      other ranks */
  uint64_t
      not_named; /* operations that stayed with NCCL: of a communicator that was not asked for */
  uint64_t names_found; /* a bit for each name that was asked for: a communicator had it */
  uint64_t reserved[5];
} grtFrontCounters_t;

/* Whether all members want a communicator here, asked of each with the same id: *agreed is the same
 * at all. Waits for them at most timeout_ns, and then it is no, at all. `votes`: for how many
 * members the caller speaks; one thread that makes several asks once for all of them. */
GRT_API grtResult_t grtAgree(grtUniqueId id, int nranks, int votes, int wanted, uint64_t timeout_ns,
                             int* agreed);
/* Makes a communicator ready: waits for its members at most timeout_ns, so that its first operation
 * need not. For GPUs: their memory is mapped here. What fails here would have failed there. */
GRT_API grtResult_t grtCommConnect(grtComm_t comm, uint64_t timeout_ns);
/* Whether operations may be called on a stream that is captured (1), or must be carried out by
 * others then (0). The same for all processes that use one library. */
GRT_API int grtCanCapture(void);
/* grtOpDesc_t.reserved[0] and [1]: a front's name for the operation, not 0 in [1]. Gives the names
 * of those that are carried out, and of those that are through although their turn in their stream
 * has not come, at most `most`; *count is how many there are. Never waits: grtInProgress if the
 * library cannot list them at this moment, grtNotSupported if it never can. Allocates nothing. */
typedef struct {
  uint64_t word[2];
} grtFrontName_t;
GRT_API grtResult_t grtFrontEarly(grtFrontName_t* names, uint32_t most, uint32_t* count);
/* Waits for this rank's own operations, as ncclCommFinalize does. grtNotSupported: they are left to
 * their streams. */
GRT_API grtResult_t grtFrontFinish(grtComm_t comm);
/* Around CUDA's call that records an event (Recording, Recorded) or makes a stream wait for one
 * (Awaiting, Awaited), in place of grtEventRecorded and grtEventAwaited: so the library also knows
 * which record a wait is for where other threads record the same event meanwhile. `well`: CUDA's
 * call has succeeded. Awaiting may launch a small kernel on the stream. */
GRT_API grtResult_t grtFrontRecording(const void* event, cudaStream_t stream);
GRT_API grtResult_t grtFrontRecorded(const void* event, cudaStream_t stream, int well);
GRT_API grtResult_t grtFrontAwaiting(const void* event, cudaStream_t stream);
GRT_API grtResult_t grtFrontAwaited(const void* event, cudaStream_t stream, int well);
/* The event is also another process's, whose records are not seen here. */
GRT_API grtResult_t grtFrontEventShared(const void* event);
/* Before (begins: 1) and after (0) a call that may record any event: a launch of a graph. */
GRT_API grtResult_t grtFrontUnseenRecords(int begins);
/* CUDA's stream is about to be destroyed: its handle may come again. */
GRT_API grtResult_t grtStreamGone(cudaStream_t stream);
/* The id of a communicator that is made from another one: equal where all arguments are. */
GRT_API grtResult_t grtChildId(grtUniqueId parent, uint32_t number, int32_t color, grtUniqueId* id);

#ifdef __cplusplus
}
#endif

#endif /* GORDIAN_RUNTIME_FRONT_H_ */
