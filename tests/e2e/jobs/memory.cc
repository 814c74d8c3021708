// Streams that wait for a word in memory (cuStreamWaitValue32 and its kin). Rank 0 holds its first
// all-reduce back until the word is written.
#include <cuda.h>

#include "tests/e2e/jobs/job.h"

namespace {

// As most programs come by the driver's functions.
template <typename Function>
Function* Driver(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  CUDA_OK(cudaGetDriverEntryPointByVersion(name, &found, 13000, cudaEnableDefault, &result));
  if (found == nullptr) std::_Exit(9);
  return reinterpret_cast<Function*>(found);
}

void DriverOk(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s: %d\n", what, static_cast<int>(result));
  std::_Exit(9);
}

void Wait(cudaStream_t stream, void* word) {
  DriverOk(Driver<decltype(cuStreamWaitValue32_v2)>("cuStreamWaitValue32")(
               stream, reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WAIT_VALUE_GEQ),
           "wait");
}

void Write(cudaStream_t stream, void* word) {
  DriverOk(Driver<decltype(cuStreamWriteValue32_v2)>("cuStreamWriteValue32")(
               stream, reinterpret_cast<CUdeviceptr>(word), 1, CU_STREAM_WRITE_VALUE_DEFAULT),
           "write");
}

// The other ranks use one stream. In the twin they begin with what rank 0 does not hold back.
void Others(job::Context& c, ncclComm_t dp, ncclComm_t tp, cudaStream_t s) {
  c.AllReduce(c.twin ? tp : dp, s);
  c.AllReduce(c.twin ? dp : tp, s);
  c.Sync(s);
}

}  // namespace

// The write stands behind the second all-reduce, which the others start only after the first.
JOB(memory_gate, 2) {
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s1);
  c.Warm(tp, s2);
  float* word = c.Buffer(1);
  c.Begin(s1);
  if (c.rank != 0) return Others(c, dp, tp, s1);
  Wait(s1, word);
  c.AllReduce(dp, s1);
  c.AllReduce(tp, s2);
  Write(s2, word);
  c.Sync(s1);
  c.Sync(s2);
}

// The same with batches of operations on words of eight bytes.
JOB(memory_gate_batch, 2) {
  cudaStream_t s1 = c.Stream();
  cudaStream_t s2 = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s1);
  c.Warm(tp, s2);
  auto* words = reinterpret_cast<uint64_t*>(c.Buffer(4));
  c.Begin(s1);
  if (c.rank != 0) return Others(c, dp, tp, s1);
  auto* const batch = Driver<decltype(cuStreamBatchMemOp_v2)>("cuStreamBatchMemOp");
  CUstreamBatchMemOpParams operations[2] = {};
  for (int i = 0; i < 2; ++i) {
    operations[i].waitValue = {};
    operations[i].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    operations[i].waitValue.address = reinterpret_cast<CUdeviceptr>(&words[i]);
    operations[i].waitValue.value64 = 7;
    operations[i].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  }
  DriverOk(batch(s1, 2, operations, 0), "wait");
  c.AllReduce(dp, s1);
  c.AllReduce(tp, s2);
  for (int i = 0; i < 2; ++i) {
    operations[i].writeValue = {};
    operations[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    operations[i].writeValue.address = reinterpret_cast<CUdeviceptr>(&words[i]);
    operations[i].writeValue.value64 = 7;
  }
  DriverOk(batch(s2, 2, operations, 0), "write");
  c.Sync(s1);
  c.Sync(s2);
}

// The word is in host memory, and the host writes it: too late, since it waits for the stream
// first.
JOB(memory_gate_host, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  c.Warm(dp, s);
  void* memory = nullptr;
  CUDA_OK(cudaHostAlloc(&memory, sizeof(uint32_t), cudaHostAllocMapped));
  auto* word = static_cast<volatile uint32_t*>(memory);
  *word = 0;
  c.Begin(s);
  if (c.rank == 0) Wait(s, memory);
  c.AllReduce(dp, s);
  if (c.twin) *word = 1;
  c.Sync(s);
  *word = 1;
}
