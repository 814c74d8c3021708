// One process with several devices, and one thread for all of them.
#include "tests/e2e/jobs/job.h"

namespace {

constexpr int kDevices = 2;
constexpr size_t kCount = 5000;

struct Device {
  cudaStream_t stream = nullptr;
  float *in = nullptr, *out = nullptr;
};

void Fill(const Device& d, float value) {
  const std::vector<float> values(kCount, value);
  CUDA_OK(cudaMemcpy(d.in, values.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
}

void Expect(const Device& d, float value) {
  std::vector<float> values(kCount);
  CUDA_OK(cudaStreamSynchronize(d.stream));
  CUDA_OK(cudaMemcpy(values.data(), d.out, kCount * sizeof(float), cudaMemcpyDeviceToHost));
  for (const float got : values) {
    if (got == value) continue;
    std::fprintf(stderr, "%g, not %g\n", got, value);
    std::_Exit(7);
  }
}

// Sums, and what each has for the next, each with the devices' operations in one group.
void Use(job::Context& c, Device* devices, ncclComm_t* comms, int round) {
  const auto value = [&](int d) { return static_cast<float>(10 * round + d + 1); };
  float sum = 0;
  for (int d = 0; d < kDevices; ++d) {
    CUDA_OK(cudaSetDevice(d));
    Fill(devices[d], value(d));
    sum += value(d);
  }
  c.Step("sums");
  NCCL_OK(ncclGroupStart());
  for (int d = 0; d < kDevices; ++d) {
    NCCL_OK(ncclAllReduce(devices[d].in, devices[d].out, kCount, ncclFloat, ncclSum, comms[d],
                          devices[d].stream));
  }
  NCCL_OK(ncclGroupEnd());
  for (int d = 0; d < kDevices; ++d) {
    CUDA_OK(cudaSetDevice(d));
    Expect(devices[d], sum);
  }
  c.Step("ring");
  NCCL_OK(ncclGroupStart());
  for (int d = 0; d < kDevices; ++d) {
    NCCL_OK(ncclSend(devices[d].in, kCount, ncclFloat, (d + 1) % kDevices, comms[d],
                     devices[d].stream));
    NCCL_OK(ncclRecv(devices[d].out, kCount, ncclFloat, (d + kDevices - 1) % kDevices, comms[d],
                     devices[d].stream));
  }
  NCCL_OK(ncclGroupEnd());
  for (int d = 0; d < kDevices; ++d) {
    CUDA_OK(cudaSetDevice(d));
    Expect(devices[d], value((d + kDevices - 1) % kDevices));
  }
}

}  // namespace

JOB(devices_of_one_thread, 1) {
  Device devices[kDevices];
  const int numbers[kDevices] = {0, 1};
  for (int d = 0; d < kDevices; ++d) {
    CUDA_OK(cudaSetDevice(d));
    CUDA_OK(cudaStreamCreateWithFlags(&devices[d].stream, cudaStreamNonBlocking));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&devices[d].in), kCount * sizeof(float)));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&devices[d].out), kCount * sizeof(float)));
  }
  ncclComm_t at_once[kDevices], in_group[kDevices];
  c.Step("init");
  NCCL_OK(ncclCommInitAll(at_once, kDevices, numbers));
  ncclUniqueId id;
  NCCL_OK(ncclGetUniqueId(&id));
  NCCL_OK(ncclGroupStart());
  for (int d = 0; d < kDevices; ++d) {
    CUDA_OK(cudaSetDevice(d));
    NCCL_OK(ncclCommInitRank(&in_group[d], kDevices, id, d));
  }
  NCCL_OK(ncclGroupEnd());
  for (int round = 0; round < 5; ++round) {
    Use(c, devices, at_once, round);
    Use(c, devices, in_group, round);
  }
  for (int d = 0; d < kDevices; ++d) {
    CUDA_OK(cudaSetDevice(d));
    NCCL_OK(ncclCommDestroy(at_once[d]));
    NCCL_OK(ncclCommDestroy(in_group[d]));
  }
}
