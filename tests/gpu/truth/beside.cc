// What blocks the host beside a collective that waits for another rank. Rank 0's all-reduce is on
// its stream; then rank 0 makes one call; the others join the all-reduce only when that has
// returned. A program hangs exactly when its call waits for the collective.
#include <sys/mman.h>

#include <memory>
#include <vector>

#include "tests/gpu/truth/truth.h"

namespace {

using truth::Comm;
using truth::Rank;

constexpr size_t kBytes = 1 << 16;
constexpr size_t kManyBytes = size_t{16} << 20;

// What the calls need, made before the collective starts.
struct Things {
  cudaStream_t busy = nullptr;   // the collective's
  cudaStream_t other = nullptr;  // idle
  cudaStream_t blocking = nullptr;
  cudaEvent_t event = nullptr;
  float* device = nullptr;
  float* device2 = nullptr;
  float* many = nullptr;
  void* pinned = nullptr;
  void* pinned2 = nullptr;
  void* registered = nullptr;
  void* plain = nullptr;
  void* pool = nullptr;  // cudaMallocAsync
  void* nccl = nullptr;  // ncclMemAlloc
  void* managed = nullptr;
  cudaGraphExec_t graph = nullptr;
  Comm idle;  // a communicator with nothing pending
  Comm dp;
};

void* Pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

using Action = cudaError_t (*)(Rank&, Things&);

cudaError_t Noted(Rank& r, ncclResult_t result) {
  r.Check("ncclResult_t", result);
  return cudaSuccess;
}

// `prepare` makes what only this call needs.
void Beside(Rank& r, const char* name, Action prepare, Action action) {
  Things t;
  t.busy = r.Stream();
  t.other = r.Stream();
  t.event = r.Event();
  t.dp = r.Ready("dp");
  t.device = r.Buffer(kBytes / sizeof(float));
  t.device2 = r.Buffer(kBytes / sizeof(float));
  t.plain = Pages(kManyBytes);
  if (prepare != nullptr) r.Call("prepare", [&] { return prepare(r, t); });
  r.Begin();
  if (r.rank == 0) {
    r.AllReduce(t.dp, t.busy);
    r.Call(name, [&] { return action(r, t); });
    r.Raise(0);
  } else {
    r.WaitFor(0, name);
    r.AllReduce(t.dp, t.busy);
  }
  // The call may have destroyed one of the streams.
  r.Publish(truth::State::kDevice, "final wait");
  r.Check("final wait", cudaDeviceSynchronize());
  r.Finish({});
}

cudaError_t NeedPinned(Rank&, Things& t) {
  cudaError_t e = cudaMallocHost(&t.pinned, kManyBytes);
  return e != cudaSuccess ? e : cudaMallocHost(&t.pinned2, kBytes);
}
cudaError_t NeedMany(Rank& r, Things& t) {
  t.many = r.Buffer(kManyBytes / sizeof(float));
  return cudaSuccess;
}
// A kernel or copy that is used for the first time is loaded then, which may wait by itself.
cudaError_t UsedBefore(Things& t, cudaError_t (*use)(Things&)) {
  cudaError_t e = use(t);
  return e != cudaSuccess ? e : cudaDeviceSynchronize();
}

cudaError_t NeedDeviceCopy(Rank&, Things& t) {
  return UsedBefore(t, [](Things& u) {
    return cudaMemcpy(u.device, u.device2, kBytes, cudaMemcpyDeviceToDevice);
  });
}

struct Case {
  const char* name;  // of the program, and of its step
  Action prepare;
  Action action;
};

const Case kCases[] = {
    {"cudaFree", nullptr, [](Rank&, Things& t) { return cudaFree(t.device); }},
    {"cudaFreeHost", NeedPinned, [](Rank&, Things& t) { return cudaFreeHost(t.pinned); }},
    {"cudaHostUnregister",
     [](Rank&, Things& t) { return cudaHostRegister(t.plain, kBytes, cudaHostRegisterDefault); },
     [](Rank&, Things& t) { return cudaHostUnregister(t.plain); }},
    {"ncclMemFree", [](Rank& r, Things& t) { return Noted(r, ncclMemAlloc(&t.nccl, kBytes)); },
     [](Rank& r, Things& t) { return Noted(r, ncclMemFree(t.nccl)); }},
    {"ncclMemAlloc", nullptr,
     [](Rank& r, Things& t) { return Noted(r, ncclMemAlloc(&t.nccl, kBytes)); }},
    {"cudaMalloc", nullptr,
     [](Rank&, Things& t) { return cudaMalloc(reinterpret_cast<void**>(&t.many), kManyBytes); }},
    {"cudaMallocManaged", nullptr,
     [](Rank&, Things& t) { return cudaMallocManaged(&t.managed, kBytes); }},
    {"cudaHostAlloc", nullptr,
     [](Rank&, Things& t) { return cudaHostAlloc(&t.pinned, kBytes, cudaHostAllocDefault); }},
    {"cudaHostRegister", nullptr,
     [](Rank&, Things& t) { return cudaHostRegister(t.plain, kBytes, cudaHostRegisterDefault); }},
    {"cudaMallocAsync", nullptr,
     [](Rank&, Things& t) { return cudaMallocAsync(&t.pool, kBytes, t.other); }},
    {"cudaFreeAsync", [](Rank&, Things& t) { return cudaMallocAsync(&t.pool, kBytes, t.other); },
     [](Rank&, Things& t) { return cudaFreeAsync(t.pool, t.other); }},
    {"cudaFree_of_pool_memory",
     [](Rank&, Things& t) { return cudaMallocAsync(&t.pool, kBytes, t.other); },
     [](Rank&, Things& t) { return cudaFree(t.pool); }},
    {"cudaMemcpyAsync_to_pageable_same_stream", nullptr,
     [](Rank&, Things& t) {
       return cudaMemcpyAsync(t.plain, t.device, kBytes, cudaMemcpyDeviceToHost, t.busy);
     }},
    {"cudaMemcpyAsync_to_pageable", nullptr,
     [](Rank&, Things& t) {
       return cudaMemcpyAsync(t.plain, t.device, kBytes, cudaMemcpyDeviceToHost, t.other);
     }},
    {"cudaMemcpyAsync_from_pageable_same_stream", nullptr,
     [](Rank&, Things& t) {
       return cudaMemcpyAsync(t.device, t.plain, kBytes, cudaMemcpyHostToDevice, t.busy);
     }},
    {"cudaMemcpyAsync_from_pageable_16M_same_stream", NeedMany,
     [](Rank&, Things& t) {
       return cudaMemcpyAsync(t.many, t.plain, kManyBytes, cudaMemcpyHostToDevice, t.busy);
     }},
    {"cudaMemcpyAsync_from_pageable", nullptr,
     [](Rank&, Things& t) {
       return cudaMemcpyAsync(t.device, t.plain, kBytes, cudaMemcpyHostToDevice, t.other);
     }},
    {"cudaMemcpyAsync_to_pinned_same_stream", NeedPinned,
     [](Rank&, Things& t) {
       return cudaMemcpyAsync(t.pinned, t.device, kBytes, cudaMemcpyDeviceToHost, t.busy);
     }},
    {"cudaMemcpyAsync_from_pinned_16M_same_stream",
     [](Rank& r, Things& t) {
       NeedMany(r, t);
       return NeedPinned(r, t);
     },
     [](Rank&, Things& t) {
       return cudaMemcpyAsync(t.many, t.pinned, kManyBytes, cudaMemcpyHostToDevice, t.busy);
     }},
    {"cudaMemcpyAsync_on_device_same_stream", NeedDeviceCopy,
     [](Rank&, Things& t) {
       return cudaMemcpyAsync(t.device, t.device2, kBytes, cudaMemcpyDeviceToDevice, t.busy);
     }},
    {"cudaMemcpy_to_pageable", nullptr,
     [](Rank&, Things& t) {
       return cudaMemcpy(t.plain, t.device, kBytes, cudaMemcpyDeviceToHost);
     }},
    {"cudaMemcpy_on_device", NeedDeviceCopy,
     [](Rank&, Things& t) {
       return cudaMemcpy(t.device, t.device2, kBytes, cudaMemcpyDeviceToDevice);
     }},
    {"cudaMemset",
     [](Rank&, Things& t) {
       return UsedBefore(t, [](Things& u) { return cudaMemset(u.device, 0, kBytes); });
     },
     [](Rank&, Things& t) { return cudaMemset(t.device, 0, kBytes); }},
    {"cudaMemsetAsync",
     [](Rank&, Things& t) {
       return UsedBefore(t,
                         [](Things& u) { return cudaMemsetAsync(u.device, 0, kBytes, u.other); });
     },
     [](Rank&, Things& t) { return cudaMemsetAsync(t.device, 0, kBytes, t.other); }},
    {"cudaEventRecord", nullptr, [](Rank&, Things& t) { return cudaEventRecord(t.event, t.busy); }},
    {"cudaEventQuery", nullptr,
     [](Rank&, Things& t) {
       cudaError_t e = cudaEventRecord(t.event, t.busy);
       if (e == cudaSuccess) e = cudaEventQuery(t.event);
       return e == cudaErrorNotReady ? cudaSuccess : e;
     }},
    {"cudaEventDestroy", nullptr,
     [](Rank&, Things& t) {
       cudaError_t e = cudaEventRecord(t.event, t.busy);
       return e == cudaSuccess ? cudaEventDestroy(t.event) : e;
     }},
    {"cudaEventSynchronize_idle", nullptr,
     [](Rank&, Things& t) {
       cudaError_t e = cudaEventRecord(t.event, t.other);
       return e == cudaSuccess ? cudaEventSynchronize(t.event) : e;
     }},
    {"cudaStreamQuery", nullptr,
     [](Rank&, Things& t) {
       cudaError_t e = cudaStreamQuery(t.busy);
       return e == cudaErrorNotReady ? cudaSuccess : e;
     }},
    {"cudaStreamCreate", nullptr, [](Rank&, Things& t) { return cudaStreamCreate(&t.blocking); }},
    {"cudaStreamDestroy", nullptr,
     [](Rank&, Things& t) {
       cudaError_t e = cudaStreamDestroy(t.other);
       t.other = nullptr;
       return e;
     }},
    {"cudaStreamDestroy_busy", nullptr,
     [](Rank&, Things& t) {
       cudaError_t e = cudaStreamDestroy(t.busy);
       t.busy = nullptr;
       return e;
     }},
    {"cudaDeviceSynchronize", nullptr, [](Rank&, Things&) { return cudaDeviceSynchronize(); }},
    {"cudaStreamSynchronize_legacy", nullptr,
     [](Rank&, Things&) { return cudaStreamSynchronize(nullptr); }},
    {"cudaLaunchHostFunc", nullptr,
     [](Rank&, Things& t) {
       return cudaLaunchHostFunc(
           t.other, [](void*) {}, nullptr);
     }},
    {"cudaMemGetInfo", nullptr,
     [](Rank&, Things&) {
       size_t available = 0, total = 0;
       return cudaMemGetInfo(&available, &total);
     }},
    {"cudaGraphLaunch",
     [](Rank&, Things& t) {
       cudaGraph_t graph = nullptr;
       cudaError_t e = cudaStreamBeginCapture(t.other, cudaStreamCaptureModeThreadLocal);
       if (e == cudaSuccess) e = cudaMemsetAsync(t.device, 0, kBytes, t.other);
       if (e == cudaSuccess) e = cudaStreamEndCapture(t.other, &graph);
       if (e == cudaSuccess) e = cudaGraphInstantiate(&t.graph, graph, 0);
       if (e == cudaSuccess) e = cudaGraphLaunch(t.graph, t.other);
       return e;
     },
     [](Rank&, Things& t) { return cudaGraphLaunch(t.graph, t.other); }},
    {"cudaGraphInstantiate", nullptr,
     [](Rank&, Things& t) {
       cudaGraph_t graph = nullptr;
       cudaError_t e = cudaStreamBeginCapture(t.other, cudaStreamCaptureModeThreadLocal);
       if (e == cudaSuccess) e = cudaMemsetAsync(t.device, 0, kBytes, t.other);
       if (e == cudaSuccess) e = cudaStreamEndCapture(t.other, &graph);
       if (e == cudaSuccess) e = cudaGraphInstantiate(&t.graph, graph, 0);
       return e;
     }},
    {"ncclCommDestroy_idle",
     [](Rank& r, Things& t) {
       t.idle = r.Ready("idle");
       return cudaSuccess;
     },
     [](Rank& r, Things& t) { return Noted(r, ncclCommDestroy(t.idle.handle)); }},
    {"ncclCommGetAsyncError", nullptr,
     [](Rank& r, Things& t) {
       ncclResult_t state = ncclSuccess;
       return Noted(r, ncclCommGetAsyncError(t.dp.handle, &state));
     }},
    {"ncclCommRegister", nullptr,
     [](Rank& r, Things& t) {
       void* handle = nullptr;
       return Noted(r, ncclCommRegister(t.dp.handle, t.device, kBytes, &handle));
     }},
};

const bool registered = [] {
  for (const Case& c : kCases) {
    truth::Registration(std::string("beside_") + c.name, 2,
                        [&c](Rank& r) { Beside(r, c.name, c.prepare, c.action); });
  }
  return true;
}();

}  // namespace
