#define __CUDA_API_VERSION_INTERNAL
#include "tests/unit/interpose/job_waits.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>

#include "tests/unit/interpose/job_calls.h"

void MemoryWords() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  CHECK(cuStreamWaitValue64_v2(stream, 0x7000, 5, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
  CHECK(cuStreamWriteValue32_v2(stream, 0x7008, 6, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) ==
        CUDA_SUCCESS);
  CUstreamBatchMemOpParams batch[3] = {};
  batch[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  batch[0].waitValue.address = 0x7010;
  batch[0].waitValue.value = 7;
  batch[0].waitValue.flags = CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH;
  batch[1].operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
  batch[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  batch[2].writeValue.address = 0x7018;
  batch[2].writeValue.value64 = uint64_t{8} << 32;
  CHECK(cuStreamBatchMemOp_v2(stream, 3, batch, 0) == CUDA_SUCCESS);
  CUipcMemHandle handle = {};
  CHECK(cuIpcGetMemHandle(&handle, 0x8000) == CUDA_SUCCESS);
  CHECK(cuMemGetHandleForAddressRange(&handle, 0x9000, 64, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                      0) == CUDA_SUCCESS);
}

void Children() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t parent = nullptr, child = nullptr;
  ncclUniqueId id = {};
  std::strcpy(id.internal, "the id");
  CHECK(ncclCommInitRankConfig(&parent, 2, id, 0, &config) == ncclSuccess);
  CHECK(ncclCommSplit(parent, 0, 0, &child, nullptr) == ncclSuccess);
  int excluded = 1;
  CHECK(ncclCommShrink(parent, &excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT) == ncclSuccess);
}
