// All-reduces in a CUDA graph beside the same ones called, and NCCL's of both ways, in turns;
// through gordian/runtime.h, buffers not mapped by peers.
//   gordian-runtime-graph-bench [--ranks N]
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/runtime/nccl_library.h"
#include "gordian/runtime.h"
#include "runtime/testing/member.h"
#include "runtime/testing/ranks.h"

namespace gordian::runtime::cuda {
namespace {

using testing::RankProcess;
using testing::Sleep;
using testing::Subject;

class Runner : public testing::Member {
 public:
  explicit Runner(RankProcess& process)
      : Member(process.rank(), process.ranks(),
               [&process](const std::string& why) { process.Fail(why); }),
        p_(process) {}

  int Run() {
    Cuda(cudaSetDevice(r_), "cudaSetDevice");
    Cuda(cudaStreamCreateWithFlags(&one_, cudaStreamNonBlocking), "stream");
    Prepare();
    Time();
    return 0;
  }

 private:
  template <typename Body>
  double Median(const Body& body, int samples) {
    cudaEvent_t begin = nullptr, end = nullptr;
    Cuda(cudaEventCreate(&begin), "event");
    Cuda(cudaEventCreate(&end), "event");
    std::vector<double> took;
    for (int i = 0; i < samples; ++i) {
      Cuda(cudaEventRecord(begin, one_), "event");
      body();
      Cuda(cudaEventRecord(end, one_), "event");
      Cuda(cudaEventSynchronize(end), "event");
      float ms = 0;
      Cuda(cudaEventElapsedTime(&ms, begin, end), "event");
      took.push_back(ms * 1e3);
    }
    std::sort(took.begin(), took.end());
    return took[took.size() / 2];
  }

  // A graph of 20 all-reduces: ours and NCCL's, in turns.
  void Time() {
    constexpr int kEach = 20;
    grtComm_t comm = Comm("time"), plain = Comm("never captured");
    Nccl nccl = {};
    std::string why;
    ncclComm_t theirs = nullptr;
    const bool has_nccl = LoadNccl(&nccl, &why);
    if (has_nccl) {
      ncclUniqueId id = {};
      if (r_ == 0) {
        nccl.unique_id(&id);
        static_assert(sizeof id <= sizeof p_.board()->id);
        memcpy(p_.board()->id, &id, sizeof id);
        p_.board()->has_id = 1;
      }
      while (p_.board()->has_id == 0) Sleep(1);
      memcpy(&id, p_.board()->id, sizeof id);
      if (nccl.init(&theirs, n_, id, r_) != ncclSuccess) p_.Fail("NCCL's communicator");
    }
    Say("%d all-reduces, us each | ours called | ours called, once captured | ours in a graph | "
        "NCCL called | NCCL in a graph\n",
        kEach);
    for (const uint64_t count :
         {2ul, 1024ul, 16384ul, 262144ul, 1048576ul, 4194304ul, 16777216ul}) {
      p_.At("time: %lu", static_cast<unsigned long>(count));
      const Subject s = Make(OpKind::kAllReduce, count);
      const auto ours = [&] {
        for (int i = 0; i < kEach; ++i) Ok(Call(s, comm, one_), "calling");
      };
      const auto never_captured = [&] {
        for (int i = 0; i < kEach; ++i) Ok(Call(s, plain, one_), "calling");
      };
      const auto other = [&] {
        for (int i = 0; i < kEach && has_nccl; ++i) {
          if (nccl.all_reduce(s.in, s.out, s.count, ncclFloat, ncclSum, theirs, one_) !=
              ncclSuccess)
            p_.Fail("NCCL");
        }
      };
      ours();
      never_captured();
      other();
      Cuda(cudaStreamSynchronize(one_), "warm");
      Begin(one_);
      ours();
      const cudaGraphExec_t own = End(one_);
      Begin(one_);
      other();
      const cudaGraphExec_t its = End(one_);
      double best[5] = {1e9, 1e9, 1e9, 1e9, 1e9};
      for (int turn = 0; turn < 5; ++turn) {
        best[0] = std::min(best[0], Median(ours, 10) / kEach);
        best[1] = std::min(best[1], Median([&] { Launch(own, one_); }, 20) / kEach);
        best[4] = std::min(best[4], Median(never_captured, 10) / kEach);
        if (!has_nccl) continue;
        best[2] = std::min(best[2], Median(other, 10) / kEach);
        best[3] = std::min(best[3], Median([&] { Launch(its, one_); }, 20) / kEach);
      }
      Say("%lu bytes | %.2f | %.2f | %.2f | %.2f | %.2f\n", static_cast<unsigned long>(count * 4),
          best[4], best[0], best[1], has_nccl ? best[2] : 0.0, has_nccl ? best[3] : 0.0);
      Cuda(cudaGraphExecDestroy(own), "destroy");
      Cuda(cudaGraphExecDestroy(its), "destroy");
      Free(s);
    }
  }

  RankProcess& p_;
  cudaStream_t one_ = nullptr;
};

int Main(int argc, char** argv) {
  int ranks = 2;
  if (argc == 3 && std::string(argv[1]) == "--ranks") ranks = atoi(argv[2]);
  if ((argc != 1 && argc != 3) || ranks < 2 || ranks > testing::kMostRanks) {
    fprintf(stderr, "usage: gordian-runtime-graph-bench [--ranks N]\n");
    return 2;
  }
  return testing::RunRanks(ranks, 120, 20, 0,
                           [](RankProcess& process) { return Runner(process).Run(); });
}

}  // namespace
}  // namespace gordian::runtime::cuda

int main(int argc, char** argv) { return gordian::runtime::cuda::Main(argc, argv); }
