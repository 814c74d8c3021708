#define __CUDA_API_VERSION_INTERNAL
#include "tests/unit/interpose/job_waits.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stddef.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace {

void Check(bool right, const char* what, int line) {
  if (right) return;
  std::fprintf(stderr, "job_waits.cc:%d: %s\n", line, what);
  _exit(1);
}
#define CHECK(condition) Check((condition), #condition, __LINE__)

ncclComm_t Make(ncclConfig_t config) {
  ncclUniqueId id = {};
  std::strcpy(id.internal, "the id");
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclSuccess);
  return comm;
}

ncclComm_t Split(ncclComm_t parent, ncclConfig_t* config = nullptr) {
  ncclComm_t child = nullptr;
  CHECK(ncclCommSplit(parent, 0, 0, &child, config) == ncclSuccess);
  return child;
}

void Shrink(ncclComm_t parent, int flags) {
  ncclComm_t child = nullptr;
  int excluded = 1;
  CHECK(ncclCommShrink(parent, &excluded, 1, &child, nullptr, flags) == ncclSuccess);
}

}  // namespace

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

void SharedResources() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.splitShare = 1;
  ncclComm_t splits = Make(config);
  Split(Split(splits));  // a child is set as its parent is
  Shrink(splits, NCCL_SHRINK_DEFAULT);
  ncclConfig_t apart = NCCL_CONFIG_INITIALIZER;
  apart.splitShare = 0;
  Split(Split(splits, &apart));
  // A caller whose nccl.h did not have the member.
  config.size = offsetof(ncclConfig_t, splitShare);
  Split(Make(config));
  ncclConfig_t other = NCCL_CONFIG_INITIALIZER;
  other.shrinkShare = 1;
  ncclComm_t shrinks = Make(other);
  Split(shrinks);
  Shrink(shrinks, NCCL_SHRINK_DEFAULT);
  Shrink(shrinks, NCCL_SHRINK_ABORT);
}
