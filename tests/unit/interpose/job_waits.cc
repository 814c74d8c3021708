#define __CUDA_API_VERSION_INTERNAL
#include "tests/unit/interpose/job_waits.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#include <initializer_list>

#include "interpose/entry/nccl_newer.h"
#include "proto/ring/calls.h"
#include "tests/unit/interpose/fake_libraries.h"
#include "tests/unit/interpose/job_calls.h"

// Of NCCL 2.29 and later.
extern "C" {
ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                        cudaStream_t stream);
ncclResult_t ncclWaitSignal(int nDesc, GordianNcclWaitSignalDesc* signalDescs, ncclComm_t comm,
                            cudaStream_t stream);
}

namespace ring = gordian::ring;

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

namespace {

ncclResult_t Wait(std::initializer_list<GordianNcclWaitSignalDesc> signals, ncclComm_t comm,
                  cudaStream_t stream) {
  GordianNcclWaitSignalDesc copy[4];
  int count = 0;
  for (const GordianNcclWaitSignalDesc& signal : signals) copy[count++] = signal;
  return ncclWaitSignal(count, copy, comm, stream);
}

}  // namespace

void Signals() {
  const ncclComm_t comm = MakeComm(3);
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  fake_gpu_stop();
  const auto signal = [&](int peer, int index = 0, int context = 0) {
    return ncclSignal(peer, index, context, 0, comm, stream);
  };
  CHECK(signal(1) == ncclSuccess);
  CHECK(signal(1) == ncclSuccess);
  CHECK(signal(2, 5, -1) == ncclSuccess);
  CHECK(Wait({{2, 1, 0, 0}, {1, 2, 5, -1}}, comm, stream) == ncclSuccess);
  fake_set_result_nccl(ring::kCall_ncclSignal, ncclInvalidArgument);
  CHECK(signal(1) == ncclInvalidArgument);
  fake_set_result_nccl(ring::kCall_ncclSignal, 0);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(signal(1) == ncclSuccess);
  CHECK(Wait({{1, 1, 0, 0}}, comm, stream) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(signal(1) == ncclSuccess);
  fake_set_result_nccl(ring::kCall_ncclGroupEnd, ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  fake_set_result_nccl(ring::kCall_ncclGroupEnd, 0);
  CHECK(Wait({{1, 7, 0, 0}, {0, 1, 0, 0}}, comm, stream) == ncclSuccess);  // nobody, and nothing
  CHECK(Wait({{1, 1, 0, 0}, {2, 1, 0, 0}}, comm, stream) == ncclSuccess);
  CHECK(signal(1) == ncclSuccess);
}

void ManySignals() {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  for (int i = 0; i < 3000; ++i) {
    const ncclComm_t comm = MakeComm(2);
    for (int index = 0; index <= i % 3; ++index) {
      for (int n = 0; n < 3; ++n) CHECK(ncclSignal(1, index, 0, 0, comm, stream) == ncclSuccess);
      CHECK(Wait({{2, 1, index, 0}}, comm, stream) == ncclSuccess);
    }
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
  }
}
