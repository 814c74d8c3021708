// Collectives with settings of their own (NCCL 2.31).

#include "tests/e2e/jobs/job.h"

namespace {

// As nccl.h of 2.31 declares them, which need not be installed.
struct Settings {
  size_t size = sizeof(Settings);
  unsigned magic = 0xcafebeef;
  unsigned version = 23100;
  void* ext = nullptr;
  int least_ctas = NCCL_CONFIG_UNDEF_INT;
  int most_ctas = NCCL_CONFIG_UNDEF_INT;
  int nvls_ctas = NCCL_CONFIG_UNDEF_INT;
  int cluster = NCCL_CONFIG_UNDEF_INT;
  const char* algorithm = nullptr;
  int force = 1;
  int policy = NCCL_CONFIG_UNDEF_INT;
  uint64_t tag = 0;
};
using AllReduce = ncclResult_t(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                               cudaStream_t, const Settings*);
using Reduce = ncclResult_t(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int,
                            ncclComm_t, cudaStream_t, const Settings*);
using Rooted = ncclResult_t(const void*, void*, size_t, ncclDataType_t, int, ncclComm_t,
                            cudaStream_t, const Settings*);
using Plain = ncclResult_t(const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t,
                           const Settings*);
constexpr size_t kFloats = 256;

}  // namespace

// The last rank departs from the others. Rank 0 makes some calls without settings: they are the
// same operations.
JOB(configured_inversion, 2) {
  const Settings settings = {.tag = 5};
  cudaStream_t s = c.Stream();
  ncclComm_t dp = c.MakeComm("dp", c.All());
  ncclComm_t tp = c.MakeComm("tp", c.All());
  c.Warm(dp, s);
  c.Warm(tp, s);
  c.Begin(s);
  const auto many = static_cast<size_t>(c.nranks) * kFloats;
  float* const in = c.Buffer(many);
  float* const out = c.Buffer(many);
  const auto reduce = [&](ncclComm_t comm) {
    if (c.rank == 0) {
      NCCL_OK(ncclAllReduce(in, out, kFloats, ncclFloat, ncclSum, comm, s));
    } else {
      NCCL_OK(job::Newer<AllReduce>("ncclAllReduceConfig")(in, out, kFloats, ncclFloat, ncclSum,
                                                           comm, s, &settings));
    }
  };
  NCCL_OK(
      job::Newer<Rooted>("ncclBroadcastConfig")(in, out, kFloats, ncclFloat, 1, dp, s, &settings));
  NCCL_OK(job::Newer<Reduce>("ncclReduceConfig")(in, out, kFloats, ncclFloat, ncclSum, 0, dp, s,
                                                 &settings));
  NCCL_OK(job::Newer<Plain>("ncclAllGatherConfig")(in, out, kFloats, ncclFloat, dp, s, &settings));
  NCCL_OK(job::Newer<AllReduce>("ncclReduceScatterConfig")(in, out, kFloats, ncclFloat, ncclSum, dp,
                                                           s, &settings));
  NCCL_OK(job::Newer<Plain>("ncclAlltoAllConfig")(in, out, kFloats, ncclFloat, dp, s, nullptr));
  NCCL_OK(job::Newer<Rooted>("ncclGatherConfig")(in, out, kFloats, ncclFloat, 0, dp, s, &settings));
  NCCL_OK(
      job::Newer<Rooted>("ncclScatterConfig")(in, out, kFloats, ncclFloat, 1, dp, s, &settings));
  c.Sync(s);
  const bool departs = !c.twin && c.rank == c.nranks - 1;
  reduce(departs ? tp : dp);
  reduce(departs ? dp : tp);
  c.Sync(s);
}
