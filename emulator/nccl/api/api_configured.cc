// Exported: the collectives of NCCL 2.31 that take settings of their own, as its nccl.h declares
// them. The settings are checked; of them only the profiler's tag has an effect here.
#include <climits>
#include <cstddef>

#include "emulator/nccl/api/arguments.h"
#include "emulator/nccl/api/entry.h"
#include "emulator/nccl/api/error.h"
#include "emulator/nccl/operation/group.h"

namespace gordian::emu::nccl {
namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;

bool IsIn(int value, int least, int most) {
  return value == NCCL_CONFIG_UNDEF_INT || (value >= least && value <= most);
}

ncclResult_t Check(const char* name, const ncclCollConfig_t& config) {
  // A caller of this first version fills the whole structure; a later one's is longer.
  if (config.size < sizeof(config) || config.magic != kConfigMagic) {
    return Fail(ncclInvalidArgument,
                "%s : ncclCollConfig_t argument not initialized via NCCL_COLLCONFIG_INITIALIZER",
                name);
  }
  const bool set =
      config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT;
  if (!IsIn(config.minCTAs, 1, INT_MAX) || !IsIn(config.maxCTAs, 1, INT_MAX) ||
      (set && config.minCTAs > config.maxCTAs)) {
    return Fail(ncclInvalidArgument, "%s : invalid config min/max channels %d/%d", name,
                config.minCTAs, config.maxCTAs);
  }
  if (!IsIn(config.nvlsCTAs, 1, INT_MAX) || !IsIn(config.cgaClusterSize, 0, 8) ||
      !IsIn(config.forceAlgSelection, 0, 1)) {
    return Fail(ncclInvalidArgument, "%s : invalid config attribute value", name);
  }
  return ncclSuccess;
}

// No settings: as the call without them.
ncclResult_t SubmitConfigured(ncclComm_t comm, OperationArguments arguments,
                              const ncclCollConfig_t* config) {
  if (config != nullptr) {
    const ncclResult_t result = Check(arguments.name, *config);
    if (result != ncclSuccess) return NoteInGroup(result);
    arguments.profiler_tag = config->userProfilerTag;
  }
  return Submit(comm, arguments);
}

}  // namespace
}  // namespace gordian::emu::nccl

using gordian::emu::nccl::GetEngine;
using gordian::emu::nccl::Kind;
using gordian::emu::nccl::SubmitConfigured;

extern "C" {

ncclResult_t pncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                                  ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                  cudaStream_t stream, const ncclCollConfig_t* config) {
  GetEngine().CountCall("ncclAllReduceConfig");
  return SubmitConfigured(
      comm, {"AllReduce", Kind::kAllReduce, sendbuff, recvbuff, count, datatype, op, 0, stream},
      config);
}

ncclResult_t pncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count,
                                  ncclDataType_t datatype, int root, ncclComm_t comm,
                                  cudaStream_t stream, const ncclCollConfig_t* config) {
  GetEngine().CountCall("ncclBroadcastConfig");
  return SubmitConfigured(
      comm,
      {"Broadcast", Kind::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum, root, stream},
      config);
}

ncclResult_t pncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config) {
  GetEngine().CountCall("ncclReduceConfig");
  return SubmitConfigured(
      comm, {"Reduce", Kind::kReduce, sendbuff, recvbuff, count, datatype, op, root, stream},
      config);
}

ncclResult_t pncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount,
                                  ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                  const ncclCollConfig_t* config) {
  GetEngine().CountCall("ncclAllGatherConfig");
  return SubmitConfigured(
      comm,
      {"AllGather", Kind::kAllGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, 0, stream},
      config);
}

ncclResult_t pncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount,
                                      ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                      cudaStream_t stream, const ncclCollConfig_t* config) {
  GetEngine().CountCall("ncclReduceScatterConfig");
  return SubmitConfigured(comm,
                          {"ReduceScatter", Kind::kReduceScatter, sendbuff, recvbuff, recvcount,
                           datatype, op, 0, stream},
                          config);
}

ncclResult_t pncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config) {
  GetEngine().CountCall("ncclAlltoAllConfig");
  return SubmitConfigured(
      comm, {"AlltoAll", Kind::kAlltoAll, sendbuff, recvbuff, count, datatype, ncclSum, 0, stream},
      config);
}

ncclResult_t pncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config) {
  GetEngine().CountCall("ncclGatherConfig");
  return SubmitConfigured(
      comm, {"Gather", Kind::kGather, sendbuff, recvbuff, count, datatype, ncclSum, root, stream},
      config);
}

ncclResult_t pncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, int root, ncclComm_t comm,
                                cudaStream_t stream, const ncclCollConfig_t* config) {
  GetEngine().CountCall("ncclScatterConfig");
  return SubmitConfigured(
      comm, {"Scatter", Kind::kScatter, sendbuff, recvbuff, count, datatype, ncclSum, root, stream},
      config);
}

EMU_NCCL_ALIAS(ncclAllReduceConfig);
EMU_NCCL_ALIAS(ncclBroadcastConfig);
EMU_NCCL_ALIAS(ncclReduceConfig);
EMU_NCCL_ALIAS(ncclAllGatherConfig);
EMU_NCCL_ALIAS(ncclReduceScatterConfig);
EMU_NCCL_ALIAS(ncclAlltoAllConfig);
EMU_NCCL_ALIAS(ncclGatherConfig);
EMU_NCCL_ALIAS(ncclScatterConfig);

}  // extern "C"
