// One process with several devices, and one thread for all of them; their default streams.
#include <thread>

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

// Without the group the thread waits in the first device's call, which needs those of the others.
JOB(devices_without_a_group, 1) {
  Device devices[kDevices];
  const int numbers[kDevices] = {0, 1};
  ncclComm_t comms[kDevices];
  NCCL_OK(ncclCommInitAll(comms, kDevices, numbers));
  for (int d = 0; d < kDevices; ++d) {
    CUDA_OK(cudaSetDevice(d));
    CUDA_OK(cudaStreamCreateWithFlags(&devices[d].stream, cudaStreamNonBlocking));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&devices[d].in), kCount * sizeof(float)));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&devices[d].out), kCount * sizeof(float)));
  }
  c.Step("sum");
  if (c.twin) NCCL_OK(ncclGroupStart());
  for (int d = 0; d < kDevices; ++d) {
    NCCL_OK(ncclAllReduce(devices[d].in, devices[d].out, kCount, ncclFloat, ncclSum, comms[d],
                          devices[d].stream));
  }
  if (c.twin) NCCL_OK(ncclGroupEnd());
  for (int d = 0; d < kDevices; ++d) {
    CUDA_OK(cudaSetDevice(d));
    CUDA_OK(cudaStreamSynchronize(devices[d].stream));
  }
}

// The connections are there, and a wait on the host stands between the calls for the two devices.
JOB(devices_one_after_the_other, 1) {
  Device devices[kDevices];
  const int numbers[kDevices] = {0, 1};
  ncclComm_t comms[kDevices];
  NCCL_OK(ncclCommInitAll(comms, kDevices, numbers));
  for (int d = 0; d < kDevices; ++d) {
    CUDA_OK(cudaSetDevice(d));
    CUDA_OK(cudaStreamCreateWithFlags(&devices[d].stream, cudaStreamNonBlocking));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&devices[d].in), kCount * sizeof(float)));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&devices[d].out), kCount * sizeof(float)));
  }
  const auto sum = [&](int d) {
    NCCL_OK(ncclAllReduce(devices[d].in, devices[d].out, kCount, ncclFloat, ncclSum, comms[d],
                          devices[d].stream));
  };
  NCCL_OK(ncclGroupStart());
  for (int d = 0; d < kDevices; ++d) sum(d);
  NCCL_OK(ncclGroupEnd());
  c.Step("sum");
  for (int d = 0; d < kDevices; ++d) {
    sum(d);
    if (!c.twin) CUDA_OK(cudaStreamSynchronize(devices[d].stream));
  }
  for (int d = 0; d < kDevices; ++d) {
    CUDA_OK(cudaSetDevice(d));
    CUDA_OK(cudaStreamSynchronize(devices[d].stream));
  }
}

// Default streams have one handle on all devices, and per-thread ones on all threads: none of them
// may wait for another's operations. Had two one account of what is done, the second would stand
// behind the first, which is called everywhere only once the second is through.
JOB(devices_default_streams, 1) {
  constexpr int kAll = 4;
  Device devices[kAll];
  ncclComm_t even[2], odd[2], more[2];
  const int evens[] = {0, 2}, odds[] = {1, 3};
  NCCL_OK(ncclCommInitAll(even, 2, evens));
  NCCL_OK(ncclCommInitAll(odd, 2, odds));
  NCCL_OK(ncclCommInitAll(more, 2, evens));
  for (int d = 0; d < kAll; ++d) {
    CUDA_OK(cudaSetDevice(d));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&devices[d].in), kCount * sizeof(float)));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&devices[d].out), kCount * sizeof(float)));
    Fill(devices[d], static_cast<float>(d + 1));
  }
  const auto sum = [&](ncclComm_t comm, int d, cudaStream_t stream) {
    NCCL_OK(ncclAllReduce(devices[d].in, devices[d].out, kCount, ncclFloat, ncclSum, comm, stream));
  };
  const auto check = [&](int d, float value) {
    CUDA_OK(cudaSetDevice(d));
    Expect(devices[d], value);
    CUDA_OK(cudaMemset(devices[d].out, 0, kCount * sizeof(float)));
  };
  c.Step("in groups");  // the device that is current is that of none, or of one
  CUDA_OK(cudaSetDevice(3));
  for (ncclComm_t* comms : {even, odd, more}) {
    const int first = comms == odd ? 1 : 0;
    NCCL_OK(ncclGroupStart());
    sum(comms[0], first, nullptr);
    sum(comms[1], first + 2, nullptr);
    NCCL_OK(ncclGroupEnd());
    for (const int d : {first, first + 2}) check(d, static_cast<float>(2 * first + 4));
  }
  c.Step("two devices");
  CUDA_OK(cudaSetDevice(0));
  sum(even[0], 0, nullptr);
  for (const int d : {1, 3}) {
    CUDA_OK(cudaSetDevice(d));
    sum(odd[d / 2], d, nullptr);
  }
  for (const int d : {1, 3}) check(d, 6);
  CUDA_OK(cudaSetDevice(2));
  sum(even[1], 2, nullptr);
  for (const int d : {0, 2}) check(d, 4);
  c.Step("two threads");
  std::thread first([&] {
    CUDA_OK(cudaSetDevice(0));
    sum(even[0], 0, cudaStreamPerThread);
  });
  first.join();
  std::thread second([&] {
    Device others[2];
    for (const int r : {0, 1}) {
      CUDA_OK(cudaSetDevice(2 * r));
      CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&others[r].out), kCount * sizeof(float)));
      NCCL_OK(ncclAllReduce(devices[2 * r].in, others[r].out, kCount, ncclFloat, ncclSum, more[r],
                            cudaStreamPerThread));
    }
    for (const int r : {0, 1}) {
      CUDA_OK(cudaSetDevice(2 * r));
      // Not by the legacy stream, which waits for the other thread's.
      std::vector<float> values(kCount);
      CUDA_OK(cudaMemcpyAsync(values.data(), others[r].out, kCount * sizeof(float),
                              cudaMemcpyDeviceToHost, cudaStreamPerThread));
      CUDA_OK(cudaStreamSynchronize(cudaStreamPerThread));
      if (values != std::vector<float>(kCount, 4)) std::_Exit(7);
    }
  });
  second.join();
  CUDA_OK(cudaSetDevice(2));
  sum(even[1], 2, cudaStreamPerThread);
  for (const int d : {0, 2}) {
    CUDA_OK(cudaSetDevice(d));
    CUDA_OK(cudaDeviceSynchronize());
    check(d, 4);
  }
  for (ncclComm_t* comms : {even, odd, more}) {
    for (int r = 0; r < 2; ++r) NCCL_OK(ncclCommDestroy(comms[r]));
  }
}
