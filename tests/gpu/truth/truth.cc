#include "tests/gpu/truth/truth.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace truth {

std::vector<Program>& Programs() {
  static std::vector<Program> programs;
  return programs;
}

Rank::Rank(int rank_in, int n_in, size_t bytes_in, Shared* shared)
    : rank(rank_in), n(n_in), bytes(bytes_in), shared_(shared) {
  Call("cudaSetDevice", [&] { return cudaSetDevice(rank); });
  Call("cudaFree(0)", [] { return cudaFree(nullptr); });  // the context
  if (rank == 0) {
    int version = 0;
    Check("ncclGetVersion", ncclGetVersion(&version));
    shared_->nccl_version = version;
  }
}

void Rank::Publish(State state, const std::string& step) {
  Published& p = published();
  std::snprintf(p.step, sizeof p.step, "%s", step.c_str());
  p.state = state;
  ++p.moves;
}

void Rank::Fail(const std::string& what) {
  Publish(State::kError, what);
  std::_Exit(9);
}

void Rank::Check(const std::string& step, cudaError_t result) {
  if (result != cudaSuccess) Fail(step + ": " + cudaGetErrorName(result));
}

void Rank::Check(const std::string& step, CUresult result) {
  if (result != CUDA_SUCCESS) Fail(step + ": CUresult " + std::to_string(static_cast<int>(result)));
}

void Rank::Check(const std::string& step, ncclResult_t result) {
  if (result != ncclSuccess && result != ncclInProgress) {
    Fail(step + ": " + ncclGetErrorString(result));
  }
}

float* Rank::Buffer(size_t floats) {
  void* p = nullptr;
  size_t size = std::max<size_t>(floats, 1) * sizeof(float);
  Check("cudaMalloc", cudaMalloc(&p, size));
  Check("cudaMemset", cudaMemset(p, 0, size));
  return static_cast<float*>(p);
}

cudaStream_t Rank::Stream(unsigned flags) {
  cudaStream_t stream = nullptr;
  Check("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

cudaEvent_t Rank::Event() {
  cudaEvent_t event = nullptr;
  Check("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

std::vector<int> Rank::All() const {
  std::vector<int> all(n);
  for (int i = 0; i < n; ++i) all[i] = i;
  return all;
}

ncclUniqueId Rank::Id(const std::string& name, int creator) {
  return MadeId(
      name, [](ncclUniqueId* id) { return ncclGetUniqueId(id); }, creator);
}

ncclUniqueId Rank::MadeId(const std::string& name,
                          const std::function<ncclResult_t(ncclUniqueId*)>& make, int creator) {
  int expected = 0;
  while (!shared_->ids_lock.compare_exchange_weak(expected, 1)) {
    expected = 0;
    usleep(50);
  }
  IdSlot* slot = nullptr;
  for (int i = 0; i < shared_->ids_used; ++i) {
    if (name == shared_->ids[i].name) slot = &shared_->ids[i];
  }
  if (slot == nullptr && shared_->ids_used < kMaxIds) {
    slot = &shared_->ids[shared_->ids_used++];
    std::snprintf(slot->name, sizeof slot->name, "%s", name.c_str());
  }
  shared_->ids_lock = 0;
  if (slot == nullptr) Fail("too many unique ids");
  if (rank == creator && slot->ready == 0) {
    Call("ncclGetUniqueId " + name, [&] { return make(&slot->id); });
    slot->ready = 1;
  }
  WaitUntil("id of " + name, [&] { return slot->ready != 0; });
  return slot->id;
}

void Rank::FillBuffers(Comm* comm, int in_factor, int out_factor) {
  comm->scale = ++comms_;
  comm->count = bytes / sizeof(float);
  size_t floats = comm->count * static_cast<size_t>(in_factor);
  comm->in = Buffer(floats);
  comm->out = Buffer(comm->count * static_cast<size_t>(out_factor));
  if (floats == 0) return;
  std::vector<float> host(floats);
  for (size_t i = 0; i < floats; ++i) host[i] = Input(comm->scale, comm->rank, i);
  Check("cudaMemcpy", cudaMemcpy(comm->in, host.data(), floats * sizeof(float), cudaMemcpyDefault));
}

Comm Rank::MakeComm(const std::string& name, std::vector<int> members, int in_factor,
                    int out_factor) {
  Comm comm;
  comm.name = name;
  comm.n = static_cast<int>(members.size());
  auto mine = std::find(members.begin(), members.end(), rank);
  if (mine == members.end()) {
    ++comms_;  // every rank numbers them alike
    return comm;
  }
  comm.rank = static_cast<int>(mine - members.begin());
  ncclUniqueId id = Id(name, members[0]);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = name.c_str();
  Call("ncclCommInitRank " + name,
       [&] { return ncclCommInitRankConfig(&comm.handle, comm.n, id, comm.rank, &config); });
  FillBuffers(&comm, in_factor, out_factor);
  return comm;
}

void Rank::Warm(Comm& comm) {
  if (comm.handle == nullptr) return;
  cudaStream_t stream = Stream();
  Call("warm " + comm.name, [&] {
    return ncclAllReduce(comm.in, comm.out, comm.count, ncclFloat, ncclSum, comm.handle, stream);
  });
  Sync(stream, "warm " + comm.name);
  Check("cudaMemset", cudaMemset(comm.out, 0, comm.count * sizeof(float)));
  Check("cudaStreamDestroy", cudaStreamDestroy(stream));
}

Comm Rank::Ready(const std::string& name) { return Ready(name, All()); }

Comm Rank::Ready(const std::string& name, std::vector<int> members) {
  Comm comm = MakeComm(name, std::move(members));
  Warm(comm);
  return comm;
}

void Rank::Begin() {
  Call("cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); });
  ++shared_->arrived;
  WaitUntil("all ranks", [&] { return shared_->arrived >= n; });
  // Whatever stays undone from here on was not warmed up but asked for.
  published().begun = true;
  Publish(State::kRunning, "begin");
}

void Rank::AllReduce(Comm& comm, cudaStream_t stream) {
  if (comm.handle == nullptr) return;
  if (!comm.checked) {
    comm.checked = true;
    Expect(comm.out, comm.count,
           [scale = comm.scale, n = comm.n](size_t i) { return SumOfInputs(scale, n, i); });
  }
  Call("ncclAllReduce " + comm.name, [&] {
    return ncclAllReduce(comm.in, comm.out, comm.count, ncclFloat, ncclSum, comm.handle, stream);
  });
}

void Rank::Send(const Comm& comm, int peer, cudaStream_t stream, size_t count) {
  if (comm.handle == nullptr) return;
  Call("ncclSend " + comm.name,
       [&] { return ncclSend(comm.in, count, ncclFloat, peer, comm.handle, stream); });
}

void Rank::Recv(const Comm& comm, int peer, cudaStream_t stream, size_t count) {
  if (comm.handle == nullptr) return;
  Expect(comm.out, count, [scale = comm.scale, peer](size_t i) { return Input(scale, peer, i); });
  Call("ncclRecv " + comm.name,
       [&] { return ncclRecv(comm.out, count, ncclFloat, peer, comm.handle, stream); });
}

void Rank::GroupStart() { Check("ncclGroupStart", ncclGroupStart()); }

void Rank::GroupEnd() {
  Call("ncclGroupEnd", [] { return ncclGroupEnd(); });
}

void Rank::Sync(cudaStream_t stream, const std::string& name) {
  Call("cudaStreamSynchronize " + name, [&] { return cudaStreamSynchronize(stream); });
}

void Rank::DeviceSync() {
  Call("cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); });
}

void Rank::Expect(const float* device, size_t floats, std::function<float(size_t)> expected) {
  expectations_.push_back({device, floats, std::move(expected)});
}

void Rank::Raise(int flag) { shared_->flags[flag] = 1; }

void Rank::WaitUntil(const std::string& name, const std::function<bool()>& condition) {
  Publish(State::kFlag, name);
  while (!condition()) usleep(1000);
  Publish(State::kRunning, "after " + name);
}

void Rank::WaitFor(int flag, const std::string& name) {
  WaitUntil(name, [&] { return shared_->flags[flag] != 0; });
}

CUdeviceptr Rank::DeviceWord(int index) {
  if (words_ == 0) {
    void* device = nullptr;
    Check("cudaHostRegister",
          cudaHostRegister(shared_->words, sizeof shared_->words, cudaHostRegisterMapped));
    Check("cudaHostGetDevicePointer", cudaHostGetDevicePointer(&device, shared_->words, 0));
    words_ = reinterpret_cast<CUdeviceptr>(device);
  }
  return words_ + static_cast<size_t>(index) * sizeof(uint32_t);
}

void Rank::SetWord(int index, uint32_t value) {
  __atomic_store_n(&shared_->words[index], value, __ATOMIC_SEQ_CST);
}

void Rank::WaitValue(cudaStream_t stream, int index, uint32_t value) {
  auto* const function =
      Find<CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned)>("cuStreamWaitValue32_v2");
  CUdeviceptr word = DeviceWord(index);
  Call("cuStreamWaitValue32",
       [&] { return function(stream, word, value, CU_STREAM_WAIT_VALUE_GEQ); });
}

void Rank::WriteValue(cudaStream_t stream, int index, uint32_t value) {
  auto* const function =
      Find<CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned)>("cuStreamWriteValue32_v2");
  CUdeviceptr word = DeviceWord(index);
  Call("cuStreamWriteValue32",
       [&] { return function(stream, word, value, CU_STREAM_WRITE_VALUE_DEFAULT); });
}

void Rank::Finish(std::initializer_list<cudaStream_t> streams) {
  Publish(State::kDevice, "final wait");
  for (cudaStream_t stream : streams) Check("final wait", cudaStreamSynchronize(stream));
  Publish(State::kRunning, "check");
  bool right = true;
  std::vector<float> host;
  cudaStream_t copies = Stream();
  for (const Expectation& e : expectations_) {
    if (e.floats == 0) continue;
    host.assign(e.floats, -1.0f);
    Check("cudaMemcpyAsync", cudaMemcpyAsync(host.data(), e.device, e.floats * sizeof(float),
                                             cudaMemcpyDeviceToHost, copies));
    Check("cudaStreamSynchronize", cudaStreamSynchronize(copies));
    for (size_t i = 0; i < e.floats && right; ++i) right = host[i] == e.expected(i);
  }
  if (!expectations_.empty()) published().data = right ? Data::kRight : Data::kWrong;
}

}  // namespace truth
