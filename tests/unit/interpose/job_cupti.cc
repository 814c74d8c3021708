// Names in the table are the exported ones: no macros that rename them.
#define __CUDA_API_VERSION_INTERNAL
#include "tests/unit/interpose/job_cupti.h"

#include <dlfcn.h>
#include <sys/prctl.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "interpose/entry/nccl_newer.h"
#include "proto/ring/calls.h"
#include "proto/ring/layout.h"
#include "tests/unit/interpose/fake_libraries.h"
#include "tests/unit/interpose/job_calls.h"

namespace ring = gordian::ring;

namespace {

// For callbacks that take nothing.
CUresult (*g_named_late)(CUstream) = nullptr;
CUresult (*g_private_synchronize)(CUstream) = nullptr;

uint32_t CuptiNumber(int call) {
  switch (call) {
#define GORDIAN_CUPTI(name, number) \
  case ring::kCall_##name:          \
    return number;
#include "proto/ring/cupti_calls.def"
#undef GORDIAN_CUPTI
    default:
      return 0;
  }
}

// The arguments as CUPTI shows them: one after the other, as members of a struct.
template <typename Result, typename... Parameters>
void Pack(Result (*)(Parameters...), [[maybe_unused]] unsigned char* to) {
  [[maybe_unused]] size_t at = 0;
  [[maybe_unused]] const auto put = [&](const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    at = (at + alignof(Value) - 1) / alignof(Value) * alignof(Value);
    std::memcpy(to + at, &value, sizeof(Value));
    at += sizeof(Value);
  };
  (put(Default<Parameters>()), ...);
}

}  // namespace

// NCCL gives its thread a name while that is in a call: the call ends for whoever was told of its
// beginning.
void CuptiNamedLate() {
  void* cupti = dlopen(std::getenv("JOB_CUPTI"), RTLD_NOW | RTLD_LOCAL);
  CHECK(cupti != nullptr);
  const auto find = reinterpret_cast<void* (*)(const char*)>(dlsym(cupti, "PrivateDriverFunction"));
  g_named_late = reinterpret_cast<CUresult (*)(CUstream)>(find("cuStreamSynchronize"));
  if (void* inject = dlsym(RTLD_DEFAULT, "InitializeInjection"))
    CHECK(reinterpret_cast<int (*)()>(inject)() == 1);
  ncclComm_t comm = MakeComm();
  static cudaStream_t stream = MakeStream();
  CHECK(AllReduce(comm, stream) == ncclSuccess);
  std::thread([] {
    fake_set_inside_cuda(ring::kCall_cuStreamSynchronize,
                         [] { prctl(PR_SET_NAME, "NCCL Progress"); });
    g_named_late(stream);
    fake_set_inside_cuda(ring::kCall_cuStreamSynchronize, nullptr);
    g_named_late(stream);
  }).join();
}

// The source comes while the first call of NCCL makes the rings.
void CuptiBeside() {
  void* inject = dlsym(RTLD_DEFAULT, "InitializeInjection");
  std::atomic<int> there = 0;
  std::thread source([&] {
    for (++there; there < 2;) {
    }
    if (inject != nullptr) CHECK(reinterpret_cast<int (*)()>(inject)() == 1);
  });
  for (++there; there < 2;) {
  }
  MakeComm();
  source.join();
}

// Calls of the driver that no symbol leads to and CUPTI tells of: by themselves, inside a call that
// came through its symbol, and by a thread of NCCL's.
void Cupti() {
  void* cupti = dlopen(std::getenv("JOB_CUPTI"), RTLD_NOW | RTLD_LOCAL);
  CHECK(cupti != nullptr);
  const auto find = reinterpret_cast<void* (*)(const char*)>(dlsym(cupti, "PrivateDriverFunction"));
  CHECK(find != nullptr);
  g_private_synchronize = reinterpret_cast<CUresult (*)(CUstream)>(find("cuStreamSynchronize"));
  const auto record = reinterpret_cast<CUresult (*)(CUevent, CUstream)>(find("cuEventRecord"));
  // As the driver does when it is initialised.
  if (void* inject = dlsym(RTLD_DEFAULT, "InitializeInjection")) {
    CHECK(reinterpret_cast<int (*)()>(inject)() == 1);
    CHECK(reinterpret_cast<int (*)()>(inject)() == 1);
  }
  ncclComm_t comm = MakeComm();
  static cudaStream_t stream = MakeStream();
  auto* event = reinterpret_cast<cudaEvent_t>(g_buffer);
  CHECK(AllReduce(comm, stream) == ncclSuccess);
  CHECK(record(event, stream) == CUDA_SUCCESS);
  CHECK(g_private_synchronize(stream) == CUDA_SUCCESS);
  fake_set_inside_cudart(ring::kCall_cudaStreamSynchronize, [] { g_private_synchronize(stream); });
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  fake_set_inside_cudart(ring::kCall_cudaStreamSynchronize, nullptr);
  std::thread([] {
    prctl(PR_SET_NAME, "NCCL Progress");
    g_private_synchronize(stream);
  }).join();
  CHECK(fake_calls_cuda(ring::kCall_cuStreamSynchronize) == 3);
}

// Every function that CUPTI tells of, called well and called badly. Graphs and captures, whose rows
// look at objects, get none that is there.
void CuptiRows() {
  void* cupti = dlopen(std::getenv("JOB_CUPTI"), RTLD_NOW | RTLD_LOCAL);
  CHECK(cupti != nullptr);
  const auto tell =
      reinterpret_cast<bool (*)(uint32_t, const char*, const void*, int)>(dlsym(cupti, "TellCall"));
  CHECK(tell != nullptr);
  if (void* inject = dlsym(RTLD_DEFAULT, "InitializeInjection")) {
    CHECK(reinterpret_cast<int (*)()>(inject)() == 1);
  }
  for (const int result : {0, 1}) {
    alignas(16) unsigned char parameters[512];
#define GORDIAN_HOOK(library, name, effect, rules, result_type, parameters_of, arguments) \
  if (CuptiNumber(ring::kCall_##name) != 0) {                                             \
    std::memset(parameters, 0, sizeof(parameters));                                       \
    Pack(static_cast<result_type(*) parameters_of>(nullptr), parameters);                 \
    CHECK(tell(CuptiNumber(ring::kCall_##name), #name, parameters, result));              \
  }
#include "proto/ring/hooked_calls.def"
#undef GORDIAN_HOOK
  }
  CHECK(!tell(1, "cuGetProcAddress", nullptr, 0));  // nobody asked for it
}
