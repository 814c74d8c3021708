// Exports the host side of NCCL's device API (nccl_device.h). Teams and sizes of requirements are
// real: all ranks are on one host, so all can load and store each other's memory. The emulator
// cannot make a device communicator, since kernels that communicate do not run here.
#include "emulator/nccl/api/arguments.h"
#include "emulator/nccl/api/entry.h"
#include "emulator/nccl/api/error.h"

// The header is written for C++ and nvcc both; without nvcc it declares the host functions only.
#pragma GCC visibility push(default)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <nccl_device.h>
#pragma GCC diagnostic pop
#pragma GCC visibility pop

namespace emu = gordian::emu::nccl;
using emu::Comm;
using emu::GetEngine;

namespace {

// The functions below return no errors: an invalid communicator gives an empty team.
std::shared_ptr<Comm> ReadyComm(ncclComm_t handle, const char* function) {
  std::shared_ptr<Comm> comm;
  if (emu::FindComm(handle, function, &comm) != ncclSuccess) return nullptr;
  return comm->EnsureReady(/*management=*/true) == ncclSuccess ? comm : nullptr;
}

}  // namespace

// The header declares the names without "p" only.
#pragma GCC visibility push(default)
extern "C" {

ncclTeam_t pncclTeamWorld(ncclComm_t handle) {
  GetEngine().CountCall("ncclTeamWorld");
  std::shared_ptr<Comm> comm = ReadyComm(handle, "ncclTeamWorld");
  if (comm == nullptr) return {};
  return {comm->nranks(), comm->rank(), 1};
}

ncclTeam_t pncclTeamLsa(ncclComm_t handle) {
  GetEngine().CountCall("ncclTeamLsa");
  std::shared_ptr<Comm> comm = ReadyComm(handle, "ncclTeamLsa");
  if (comm == nullptr) return {};
  return {comm->nranks(), comm->rank(), 1};
}

ncclTeam_t pncclTeamRail(ncclComm_t handle) {
  GetEngine().CountCall("ncclTeamRail");
  std::shared_ptr<Comm> comm = ReadyComm(handle, "ncclTeamRail");
  if (comm == nullptr) return {};
  return {1, 0, comm->nranks()};
}

int pncclTeamRankToWorld(ncclComm_t handle, ncclTeam_t team, int rank) {
  GetEngine().CountCall("ncclTeamRankToWorld");
  std::shared_ptr<Comm> comm = ReadyComm(handle, "ncclTeamRankToWorld");
  return comm == nullptr ? -1 : comm->rank() + (rank - team.rank) * team.stride;
}

int pncclTeamRankToLsa(ncclComm_t handle, ncclTeam_t team, int rank) {
  GetEngine().CountCall("ncclTeamRankToLsa");
  std::shared_ptr<Comm> comm = ReadyComm(handle, "ncclTeamRankToLsa");
  return comm == nullptr ? -1 : comm->rank() + (rank - team.rank) * team.stride;
}

ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers,
                                              ncclLsaBarrierHandle_t* outHandle,
                                              ncclDevResourceRequirements_t* outReq) {
  GetEngine().CountCall("ncclLsaBarrierCreateRequirement");
  ncclResult_t result = emu::CheckPointer(outHandle, "ncclLsaBarrierCreateRequirement", "handle");
  if (result == ncclSuccess) {
    result = emu::CheckPointer(outReq, "ncclLsaBarrierCreateRequirement", "requirements");
  }
  if (result != ncclSuccess) return result;
  *outReq = {};
  outHandle->nBarriers = nBarriers;
  // Three words a barrier and one more for each member's inbox.
  outReq->bufferSize = (3 + static_cast<size_t>(team.nRanks)) * nBarriers * sizeof(uint32_t);
  outReq->bufferAlign = alignof(uint32_t);
  outReq->outBufferHandle = &outHandle->bufHandle;
  return ncclSuccess;
}

ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t handle, ncclTeam_t team, int nBarriers,
                                              ncclGinBarrierHandle_t* outHandle,
                                              ncclDevResourceRequirements_t* outReq) {
  GetEngine().CountCall("ncclGinBarrierCreateRequirement");
  std::shared_ptr<Comm> comm;
  ncclResult_t result = emu::FindComm(handle, "ncclGinBarrierCreateRequirement", &comm);
  if (result == ncclSuccess) {
    result = emu::CheckPointer(outHandle, "ncclGinBarrierCreateRequirement", "handle");
  }
  if (result == ncclSuccess) {
    result = emu::CheckPointer(outReq, "ncclGinBarrierCreateRequirement", "requirements");
  }
  if (result != ncclSuccess) return result;
  *outReq = {};
  outReq->ginSignalCount = nBarriers * team.nRanks;
  outReq->outGinSignalStart = &outHandle->signal0;
  return ncclSuccess;
}

int pncclLLA2ACalcSlots(int maxElts, int maxEltSize) {
  GetEngine().CountCall("ncclLLA2ACalcSlots");
  return maxElts * ((maxEltSize + 7) / 8);
}

ncclResult_t pncclLLA2ACreateRequirement(int nBlocks, int nSlots, ncclLLA2AHandle_t* outHandle,
                                         ncclDevResourceRequirements_t* outReq) {
  GetEngine().CountCall("ncclLLA2ACreateRequirement");
  ncclResult_t result = emu::CheckPointer(outHandle, "ncclLLA2ACreateRequirement", "handle");
  if (result == ncclSuccess) {
    result = emu::CheckPointer(outReq, "ncclLLA2ACreateRequirement", "requirements");
  }
  if (result != ncclSuccess) return result;
  *outReq = {};
  outHandle->nSlots = nSlots;
  // A header and two epochs of slots for each block, of 16 bytes each.
  outReq->bufferSize = static_cast<size_t>(nBlocks) * (1 + 2 * nSlots) * 16;
  outReq->bufferAlign = 16;
  outReq->outBufferHandle = &outHandle->bufHandle;
  return ncclSuccess;
}

// NCCL's answer without symmetric memory, which programs must expect.
ncclResult_t pncclDevCommCreate(ncclComm_t handle, const ncclDevCommRequirements_t* requirements,
                                ncclDevComm_t* outDevComm) {
  GetEngine().CountCall("ncclDevCommCreate");
  std::shared_ptr<Comm> comm;
  ncclResult_t result = emu::FindComm(handle, "ncclDevCommCreate", &comm);
  if (result == ncclSuccess) result = emu::CheckPointer(requirements, "ncclDevCommCreate", "reqs");
  if (result == ncclSuccess) result = emu::CheckPointer(outDevComm, "ncclDevCommCreate", "devComm");
  if (result == ncclSuccess) result = comm->EnsureReady();
  if (result != ncclSuccess) return result;
  return emu::Fail(ncclInvalidUsage,
                   "Communicator does not support symmetric memory! (the emulator runs no kernels "
                   "that communicate)");
}

ncclResult_t pncclDevCommDestroy(ncclComm_t handle, const ncclDevComm_t* devComm) {
  GetEngine().CountCall("ncclDevCommDestroy");
  std::shared_ptr<Comm> comm;
  ncclResult_t result = emu::FindComm(handle, "ncclDevCommDestroy", &comm);
  if (result == ncclSuccess) result = emu::CheckPointer(devComm, "ncclDevCommDestroy", "devComm");
  if (result != ncclSuccess) return result;
  return emu::Fail(ncclInvalidArgument, "ncclDevCommDestroy : not a device communicator");
}

#define EMU_NCCL_DEVICE_ALIAS(result, name, ...) \
  result name(__VA_ARGS__) __attribute__((weak, alias("p" #name), visibility("default")))

EMU_NCCL_DEVICE_ALIAS(ncclTeam_t, ncclTeamWorld, ncclComm_t);
EMU_NCCL_DEVICE_ALIAS(ncclTeam_t, ncclTeamLsa, ncclComm_t);
EMU_NCCL_DEVICE_ALIAS(ncclTeam_t, ncclTeamRail, ncclComm_t);
EMU_NCCL_DEVICE_ALIAS(int, ncclTeamRankToWorld, ncclComm_t, ncclTeam_t, int);
EMU_NCCL_DEVICE_ALIAS(int, ncclTeamRankToLsa, ncclComm_t, ncclTeam_t, int);
EMU_NCCL_DEVICE_ALIAS(ncclResult_t, ncclLsaBarrierCreateRequirement, ncclTeam_t, int,
                      ncclLsaBarrierHandle_t*, ncclDevResourceRequirements_t*);
EMU_NCCL_DEVICE_ALIAS(ncclResult_t, ncclGinBarrierCreateRequirement, ncclComm_t, ncclTeam_t, int,
                      ncclGinBarrierHandle_t*, ncclDevResourceRequirements_t*);
EMU_NCCL_DEVICE_ALIAS(int, ncclLLA2ACalcSlots, int, int);
EMU_NCCL_DEVICE_ALIAS(ncclResult_t, ncclLLA2ACreateRequirement, int, int, ncclLLA2AHandle_t*,
                      ncclDevResourceRequirements_t*);
EMU_NCCL_DEVICE_ALIAS(ncclResult_t, ncclDevCommCreate, ncclComm_t, const ncclDevCommRequirements_t*,
                      ncclDevComm_t*);
EMU_NCCL_DEVICE_ALIAS(ncclResult_t, ncclDevCommDestroy, ncclComm_t, const ncclDevComm_t*);

}  // extern "C"
#pragma GCC visibility pop
