// Memory that a job registers with its communicators, in each of NCCL's ways.
#include "tests/e2e/jobs/job.h"

namespace {

constexpr size_t kFloats = 3 << 20;  // 12 MiB
constexpr size_t kRoom = 2 * kFloats * sizeof(float);

// Into that memory; right, or the job ends with 7.
void AllReduceInto(job::Context& c, const float* in, float* out, ncclComm_t comm, cudaStream_t s) {
  std::vector<float> values(kFloats);
  CUDA_OK(cudaMemcpy(out, in, kFloats * sizeof(float), cudaMemcpyDeviceToDevice));
  CUDA_OK(cudaDeviceSynchronize());
  NCCL_OK(ncclAllReduce(in, out, kFloats, ncclFloat, ncclSum, comm, s));
  c.Sync(s);
  CUDA_OK(cudaMemcpy(values.data(), out, kFloats * sizeof(float), cudaMemcpyDeviceToHost));
  for (const float value : values) {
    if (value == static_cast<float>((1 << c.nranks) - 1)) continue;
    std::fprintf(stderr, "rank %d: the sum is %g\n", c.rank, value);
    std::_Exit(7);
  }
}

}  // namespace

JOB(registered_memory, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t a = c.MakeComm("a", c.All());
  ncclComm_t b = c.MakeComm("b", c.All());
  float* const in = c.Buffer(kFloats);
  const std::vector<float> values(kFloats, static_cast<float>(1 << c.rank));
  CUDA_OK(cudaMemcpy(in, values.data(), kFloats * sizeof(float), cudaMemcpyHostToDevice));
  void *first = nullptr, *second = nullptr, *plain = nullptr;
  NCCL_OK(ncclMemAlloc(&first, kRoom));
  NCCL_OK(ncclMemAlloc(&second, kRoom));
  CUDA_OK(cudaMalloc(&plain, kRoom));
  auto* const one = static_cast<float*>(first);
  auto* const two = static_cast<float*>(second);
  c.Begin(s);
  AllReduceInto(c, in, one, a, s);  // not yet
  if (c.twin) {
    AllReduceInto(c, in, two, b, s);
    NCCL_OK(ncclCommDestroy(a));
    NCCL_OK(ncclCommDestroy(b));
    return;
  }
  void *r1 = nullptr, *r2 = nullptr, *r3 = nullptr, *r4 = nullptr, *r5 = nullptr;
  c.Step("register");
  NCCL_OK(ncclCommRegister(a, first, kRoom, &r1));
  NCCL_OK(ncclCommRegister(a, first, kRoom, &r2));  // NCCL counts: the same handle
  NCCL_OK(ncclCommRegister(b, second, kRoom, &r3));
  NCCL_OK(ncclCommRegister(a, plain, kRoom, &r4));
  NCCL_OK(ncclCommRegister(b, first, kRoom, &r5));  // left to the communicator's end
  AllReduceInto(c, in, one, a, s);
  AllReduceInto(c, in, one + kFloats, a, s);
  AllReduceInto(c, in, two, b, s);
  AllReduceInto(c, in, two, a, s);  // registered with the other one
  AllReduceInto(c, in, static_cast<float*>(plain), a, s);
  c.Step("deregister");
  NCCL_OK(ncclCommDeregister(a, r1));
  AllReduceInto(c, in, one, a, s);
  NCCL_OK(ncclCommDeregister(a, r2));
  NCCL_OK(ncclCommDeregister(a, r4));
  NCCL_OK(ncclCommDeregister(b, r3));
  AllReduceInto(c, in, one, a, s);
  AllReduceInto(c, in, two, b, s);
  c.Step("windows");
  ncclWindow_t w1 = nullptr, w2 = nullptr;
  NCCL_OK(ncclCommWindowRegister(a, first, kRoom, &w1, NCCL_WIN_DEFAULT));
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclCommWindowRegister(a, second, kRoom, &w2, NCCL_WIN_DEFAULT));
  NCCL_OK(ncclGroupEnd());
  AllReduceInto(c, in, one, a, s);
  AllReduceInto(c, in, two, a, s);
  NCCL_OK(ncclCommWindowDeregister(a, w1));
  NCCL_OK(ncclCommWindowDeregister(a, w2));
  AllReduceInto(c, in, one, a, s);
  c.Step("destroy");
  NCCL_OK(ncclCommDestroy(a));
  NCCL_OK(ncclCommDestroy(b));
  NCCL_OK(ncclMemFree(first));
  NCCL_OK(ncclMemFree(second));
}
