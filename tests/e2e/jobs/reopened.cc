// Jobs that open NCCL themselves: closed and opened again, and two copies of it in one process. The
// last rank departs from the order of the others; the twin keeps it.
#include <thread>

#include "tests/e2e/jobs/job.h"
#include "tests/e2e/jobs/late_bound.h"

JOB(inversion_reopened, 2) {
  cudaStream_t s = c.Stream();
  for (int i = 0; i < 3; ++i) {
    // In a thread that ends: what a thread keeps of a library holds it until then.
    std::thread([&] {
      CUDA_OK(cudaSetDevice(c.rank));
      ncclComm_t first = c.MakeComm("first" + std::to_string(i), c.All());
      c.Warm(first, s);
      NCCL_OK(ncclCommDestroy(first));
    }).join();
    LateBoundReopen();
  }
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  c.Begin(s);
  const bool departs = !c.twin && c.rank == c.nranks - 1;
  c.AllReduce(departs ? tp : dp, s);
  c.AllReduce(departs ? dp : tp, s);
  c.Sync(s);
}

JOB(inversion_two_copies, 2) {
  cudaStream_t s = c.Stream();
  ncclComm_t comms[2];
  for (int copy = 0; copy < 2; ++copy) {
    LateBoundUse(copy);
    comms[copy] = c.MakeComm(copy == 0 ? "dp" : "tp", c.All());
    c.Warm(comms[copy], s);
  }
  c.Begin(s);
  const int first = !c.twin && c.rank == c.nranks - 1 ? 1 : 0;
  for (const int copy : {first, 1 - first}) {
    LateBoundUse(copy);
    c.AllReduce(comms[copy], s);
  }
  c.Sync(s);
}
