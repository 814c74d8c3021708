// nccl.h with visible functions: the rest of the library has hidden visibility.
#ifndef GORDIAN_EMULATOR_NCCL_API_NCCL_HEADER_H_
#define GORDIAN_EMULATOR_NCCL_API_NCCL_HEADER_H_

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
#pragma GCC visibility pop

#endif  // GORDIAN_EMULATOR_NCCL_API_NCCL_HEADER_H_
