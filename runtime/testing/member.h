// One member of a communicator of gordian/runtime.h in a test on real GPUs: operations whose inputs
// are written and whose outputs are checked on the device, so that they can be captured in graphs
// too.
#ifndef GORDIAN_RUNTIME_TESTING_MEMBER_H_
#define GORDIAN_RUNTIME_TESTING_MEMBER_H_

#include <cuda_runtime_api.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "gordian/runtime.h"
#include "runtime/testing/patterns.h"
#include "runtime/testing/ranks.h"

namespace gordian::testing {

using runtime::InputCount;
using runtime::OpKind;
using runtime::OutputCount;

inline void Sleep(int64_t ms) {
  const timespec pause{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&pause, nullptr);
}

// An operation whose buffers are its own, between kernels that write its input and check its
// output.
struct Subject {
  OpKind kind = OpKind::kAllReduce;
  uint64_t count = 0;
  uint32_t root = 0;
  float *in = nullptr, *out = nullptr;
  uint32_t* turn = nullptr;  // one higher each time
};

// Thread rule: one thread at a time, with its device current.
class Member {
 public:
  // `fail` does not return.
  Member(int rank, int ranks, std::function<void(const std::string&)> fail)
      : n_(ranks), r_(rank), fail_(std::move(fail)) {}

  void Prepare() {
    Cuda(cudaMalloc(reinterpret_cast<void**>(&wrong_), 8), "cudaMalloc");
    Cuda(cudaMemset(wrong_, 0, 8), "clearing");
    Cuda(PreloadPatterns(), "preloading");
  }
  void Cuda(cudaError_t e, const char* what) {
    if (e != cudaSuccess) fail_(std::string(what) + ": " + cudaGetErrorString(e));
  }
  void Need(grtResult_t result, grtResult_t wanted, const std::string& what) {
    if (result != wanted) {
      fail_(what + ": " + grtGetErrorString(result) + " (" + std::to_string(result) + "), not " +
            std::to_string(wanted));
    }
  }
  void Ok(grtResult_t result, const std::string& what) { Need(result, grtSuccess, what); }
  // Rank 0 speaks for all.
  template <typename... Arguments>
  void Say(const char* format, Arguments... arguments) {
    if (r_ != 0) return;
    printf(format, arguments...);
    fflush(stdout);
  }
  // Of all ranks, which are this process's siblings; each name once.
  grtComm_t Comm(const std::string& name) {
    grtUniqueId id = {};
    snprintf(id.internal, sizeof id.internal, "%d %s", static_cast<int>(getppid()), name.c_str());
    grtComm_t comm = nullptr;
    Ok(grtCommInitRankConfig(&comm, n_, id, r_, nullptr), "making " + name);
    return comm;
  }
  Subject Make(OpKind kind, uint64_t count, uint32_t root = 0) {
    Subject s;
    s.kind = kind;
    s.count = count;
    s.root = root;
    const auto n = static_cast<uint32_t>(n_);
    Cuda(cudaMalloc(reinterpret_cast<void**>(&s.in), InputCount(kind, count, n) * 4 + 4),
         "cudaMalloc");
    Cuda(cudaMalloc(reinterpret_cast<void**>(&s.out), OutputCount(kind, count, n) * 4 + 4),
         "cudaMalloc");
    Cuda(cudaMalloc(reinterpret_cast<void**>(&s.turn), 4), "cudaMalloc");
    Cuda(cudaMemset(s.turn, 0, 4), "clearing");
    Cuda(cudaDeviceSynchronize(), "preparing");
    return s;
  }
  void Free(const Subject& s) {
    for (void* memory :
         {static_cast<void*>(s.in), static_cast<void*>(s.out), static_cast<void*>(s.turn)}) {
      Cuda(cudaFree(memory), "cudaFree");
    }
  }
  static grtOpDesc_t Describe(const Subject& s, grtComm_t comm,
                              grtOrder_t order = grtOrderDefault) {
    grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
    d.kind = static_cast<grtKind_t>(s.kind);
    d.in = s.in;
    d.out = s.out;
    d.count = s.count;
    d.root_or_peer = static_cast<int>(s.root);
    d.comm = comm;
    d.order = order;
    return d;
  }
  grtResult_t Call(const Subject& s, grtComm_t comm, cudaStream_t stream) {
    const grtOpDesc_t d = Describe(s, comm);
    return grtSubmit(&d, stream, nullptr);
  }
  void Before(const Subject& s, cudaStream_t stream) {
    Cuda(testing::Increment(s.turn, stream), "increment");
    if (s.kind != OpKind::kRecv) {
      Cuda(FillPatternAt(s.in, InputCount(s.kind, s.count, static_cast<uint32_t>(n_)),
                         static_cast<uint32_t>(r_), s.turn, stream),
           "fill");
    }
  }
  void After(const Subject& s, cudaStream_t stream) {
    const Expectation e{
        s.kind, static_cast<uint32_t>(n_), static_cast<uint32_t>(r_), s.root, 0, s.count, 0};
    Cuda(CheckPatternAt(s.out, e, s.turn, wrong_, stream), "check");
  }
  // Input, operation, check: captured, or not.
  void All(const Subject& s, grtComm_t comm, cudaStream_t stream) {
    Before(s, stream);
    Ok(Call(s, comm, stream), "calling");
    After(s, stream);
  }
  void Begin(cudaStream_t stream) {
    Cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  }
  cudaGraph_t EndCapture(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    Cuda(cudaStreamEndCapture(stream, &graph), "end of capture");
    return graph;
  }
  cudaGraphExec_t End(cudaStream_t stream) { return Instantiate(EndCapture(stream)); }
  cudaGraphExec_t Instantiate(cudaGraph_t graph) {
    cudaGraphExec_t made = nullptr;
    Cuda(cudaGraphInstantiate(&made, graph, 0), "instantiate");
    Cuda(cudaGraphDestroy(graph), "destroy");
    return made;
  }
  void Launch(cudaGraphExec_t graph, cudaStream_t stream) {
    Cuda(cudaGraphLaunch(graph, stream), "launch");
  }
  // All that was enqueued was right.
  void Finish(const char* what) {
    Cuda(cudaDeviceSynchronize(), what);
    uint64_t wrong = 0;
    Cuda(cudaMemcpy(&wrong, wrong_, 8, cudaMemcpyDeviceToHost), "reading");
    if (wrong != 0) fail_(std::string(what) + ": " + std::to_string(wrong) + " wrong");
  }
  void Healthy(grtComm_t comm) {
    grtResult_t error = grtInternalError;
    Ok(grtCommGetAsyncError(comm, &error), "asking for errors");
    Need(error, grtSuccess, "an error");
  }

 protected:
  const int n_, r_;
  const std::function<void(const std::string&)> fail_;
  uint64_t* wrong_ = nullptr;
};

}  // namespace gordian::testing

#endif  // GORDIAN_RUNTIME_TESTING_MEMBER_H_
