// nccl.h with visible functions: the rest of the library has hidden visibility.
#ifndef GORDIAN_EMULATOR_NCCL_API_NCCL_HEADER_H_
#define GORDIAN_EMULATOR_NCCL_API_NCCL_HEADER_H_

#include <stdint.h>

#pragma GCC visibility push(default)
#include <nccl.h>

// Functions beyond 2.28, as nccl.h of 2.30.7 declares them.
#if NCCL_VERSION_CODE < 23007
extern "C" {
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                          ncclComm_t* newcomm, ncclConfig_t* config);
ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                           ncclComm_t* newcomm, ncclConfig_t* config);
typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;
#define EMU_NCCL_RMA(prefix)                                                                       \
  ncclResult_t prefix##PutSignal(const void* localbuff, size_t count, ncclDataType_t datatype,     \
                                 int peer, ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, \
                                 int ctx, unsigned int flags, ncclComm_t comm,                     \
                                 cudaStream_t stream);                                             \
  ncclResult_t prefix##Signal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,  \
                              cudaStream_t stream);                                                \
  ncclResult_t prefix##WaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,   \
                                  cudaStream_t stream)
EMU_NCCL_RMA(nccl);
EMU_NCCL_RMA(pnccl);
#undef EMU_NCCL_RMA
}
#endif

// Functions of 2.31, as its nccl.h declares them.
#if NCCL_VERSION_CODE < 23100
extern "C" {
struct ncclConfigExt;  // a vendor's options, which NCCL's own library does not read
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  ncclConfigExt* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;
} ncclCollConfig_t;
#define EMU_NCCL_CONFIGURED(prefix)                                                                \
  ncclResult_t prefix##AllReduceConfig(const void* sendbuff, void* recvbuff, size_t count,         \
                                       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,   \
                                       cudaStream_t stream, const ncclCollConfig_t* config);       \
  ncclResult_t prefix##BroadcastConfig(const void* sendbuff, void* recvbuff, size_t count,         \
                                       ncclDataType_t datatype, int root, ncclComm_t comm,         \
                                       cudaStream_t stream, const ncclCollConfig_t* config);       \
  ncclResult_t prefix##ReduceConfig(                                                               \
      const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, \
      int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);             \
  ncclResult_t prefix##AllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount,     \
                                       ncclDataType_t datatype, ncclComm_t comm,                   \
                                       cudaStream_t stream, const ncclCollConfig_t* config);       \
  ncclResult_t prefix##ReduceScatterConfig(                                                        \
      const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,             \
      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);       \
  ncclResult_t prefix##AlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,          \
                                      ncclDataType_t datatype, ncclComm_t comm,                    \
                                      cudaStream_t stream, const ncclCollConfig_t* config);        \
  ncclResult_t prefix##GatherConfig(const void* sendbuff, void* recvbuff, size_t count,            \
                                    ncclDataType_t datatype, int root, ncclComm_t comm,            \
                                    cudaStream_t stream, const ncclCollConfig_t* config);          \
  ncclResult_t prefix##ScatterConfig(const void* sendbuff, void* recvbuff, size_t count,           \
                                     ncclDataType_t datatype, int root, ncclComm_t comm,           \
                                     cudaStream_t stream, const ncclCollConfig_t* config)
EMU_NCCL_CONFIGURED(nccl);
EMU_NCCL_CONFIGURED(pnccl);
#undef EMU_NCCL_CONFIGURED
}
#endif
#pragma GCC visibility pop

#endif  // GORDIAN_EMULATOR_NCCL_API_NCCL_HEADER_H_
