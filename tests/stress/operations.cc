// The honest half of shim_torture: operations whose results are known beforehand.
#include "tests/stress/torture.h"

namespace torture {
namespace {

constexpr uint32_t kLongestBurst = 300;

float Value(int rank, uint64_t sequence, size_t i) {
  return static_cast<float>((rank + 1) * static_cast<int>(1 + (sequence + i) % 7));
}

void Fill(Lane* lane, uint64_t sequence) {
  float values[kMostElements];
  for (size_t i = 0; i < kMostElements; ++i) values[i] = Value(lane->rank, sequence, i);
  NEED(cudaMemcpyAsync(lane->in, values, sizeof values, cudaMemcpyHostToDevice, lane->stream) ==
       cudaSuccess);
  NEED(cudaStreamSynchronize(lane->stream) == cudaSuccess);
}

// What stands in `out` is `factor` times what rank 0 would have put in.
void Check(Lane* lane, uint64_t sequence, size_t count, int factor) {
  float values[kMostElements];
  NEED(cudaMemcpyAsync(values, lane->out, count * sizeof(float), cudaMemcpyDeviceToHost,
                       lane->stream) == cudaSuccess);
  NEED(cudaStreamSynchronize(lane->stream) == cudaSuccess);
  for (size_t i = 0; i < count; ++i)
    NEED(values[i] == static_cast<float>(factor) * Value(0, sequence, i));
  lane->digest.Add(values, count * sizeof(float));
}

void AllReduce(Lane* lane, uint32_t times) {
  const uint64_t filled = lane->sequence;
  Fill(lane, filled);
  size_t count = 0;
  for (uint32_t i = 0; i < times; ++i) {
    count = CountOf(lane->sequence++);
    NEED(ncclAllReduce(lane->in, lane->out, count, ncclFloat, ncclSum, lane->comm, lane->stream) ==
         ncclSuccess);
  }
  Check(lane, filled, count, lane->ranks * (lane->ranks + 1) / 2);
}

void Broadcast(Lane* lane) {
  const uint64_t sequence = lane->sequence++;
  const int root = static_cast<int>(sequence % static_cast<uint64_t>(lane->ranks));
  Fill(lane, sequence);
  NEED(ncclBroadcast(lane->in, lane->out, CountOf(sequence), ncclFloat, root, lane->comm,
                     lane->stream) == ncclSuccess);
  Check(lane, sequence, CountOf(sequence), root + 1);
}

void Ring(Lane* lane) {
  const uint64_t sequence = lane->transfers++;
  const int next = (lane->rank + 1) % lane->ranks;
  const int before = (lane->rank + lane->ranks - 1) % lane->ranks;
  Fill(lane, sequence);
  NEED(ncclGroupStart() == ncclSuccess);
  NEED(ncclSend(lane->in, CountOf(sequence), ncclFloat, next, lane->comm, lane->stream) ==
       ncclSuccess);
  NEED(ncclRecv(lane->out, CountOf(sequence), ncclFloat, before, lane->comm, lane->stream) ==
       ncclSuccess);
  NEED(ncclGroupEnd() == ncclSuccess);
  Check(lane, sequence, CountOf(sequence), before + 1);
}

// More records than a small ring holds, and none that NCCL would know of.
void Events(Lane* lane, uint32_t times) {
  for (uint32_t i = 0; i < times; ++i)
    NEED(cudaEventRecord(lane->event, lane->stream) == cudaSuccess);
  NEED(cudaEventSynchronize(lane->event) == cudaSuccess);
  NEED(cudaEventQuery(lane->event) == cudaSuccess);
}

}  // namespace

void Prepare(Lane* lane) {
  NEED(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking) == cudaSuccess);
  NEED(cudaEventCreateWithFlags(&lane->event, cudaEventDisableTiming) == cudaSuccess);
  void* memory = nullptr;
  NEED(cudaMalloc(&memory, 2 * kMostElements * sizeof(float)) == cudaSuccess);
  lane->in = static_cast<float*>(memory);
  lane->out = lane->in + kMostElements;
}

void Step(Lane* lane, Random* plan) {
  switch (plan->Below(7)) {
    case 0:
      return Broadcast(lane);
    case 1:
      return AllReduce(lane, 1 + plan->Below(kLongestBurst));
    case 2:
    case 3:
      if (lane->ranks > 1) return Ring(lane);
      return AllReduce(lane, 2);
    case 4:
      return Events(lane, 1 + plan->Below(kLongestBurst));
    default:
      return AllReduce(lane, 1);
  }
}

uint64_t Leaf(uint64_t seed) {
  Random plan(seed);
  Lane lane;
  const int device = 0;
  NEED(ncclCommInitAll(&lane.comm, 1, &device) == ncclSuccess);
  Prepare(&lane);
  const uint32_t steps = 1 + plan.Below(4);
  for (uint32_t i = 0; i < steps; ++i) Step(&lane, &plan);
  NEED(ncclCommDestroy(lane.comm) == ncclSuccess);
  return lane.digest.value();
}

}  // namespace torture
