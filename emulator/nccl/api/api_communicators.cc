// Exports the creation, queries and ends of communicators.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "emulator/nccl/api/arguments.h"
#include "emulator/nccl/api/config.h"
#include "emulator/nccl/api/debug.h"
#include "emulator/nccl/api/entry.h"
#include "emulator/nccl/api/error.h"
#include "emulator/nccl/operation/group.h"

namespace gordian::emu::nccl {
namespace {

CommKey KeyOf(const ncclUniqueId& id) {
  CommKey key;
  static_assert(sizeof(key) == sizeof(id));
  std::memcpy(key.data(), &id, sizeof(id));
  return key;
}

// Makes the handle now and runs `init` on it in a job. If a blocking init fails, there is no
// communicator. `rank` matters for the first communicator of a device.
ncclResult_t StartInit(ncclComm_t* out, int device, const CommConfig& config, int rank,
                       const void* order, std::function<ncclResult_t(Comm&)> init) {
  PrintVersion();
  auto comm = Comm::Create(device, config);
  comm->SetIdentity(rank);
  *out = comm->handle();
  return SubmitJob(comm, order == nullptr ? comm.get() : order,
                   [comm, out, init = std::move(init)] {
                     ncclResult_t result = init(*comm);
                     if (result != ncclSuccess && comm->blocking()) {
                       comm->Forget();
                       *out = nullptr;
                     }
                     return result;
                   });
}

ncclResult_t StartInit(ncclComm_t* out, const CommKey& key, int nranks, int rank, int device,
                       const CommConfig& config) {
  return StartInit(out, device, config, rank, nullptr,
                   [=](Comm& comm) { return comm.Init(key, nranks, rank); });
}

ncclResult_t InitRank(const char* function, ncclComm_t* out, int nranks, const ncclUniqueId& id,
                      int rank, const ncclConfig_t* config) {
  ncclResult_t result = CheckPointer(out, function, "newcomm");
  if (result != ncclSuccess) return result;
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    return Fail(ncclInvalidArgument, "Invalid rank requested : %d/%d", rank, nranks);
  }
  CommConfig settings;
  result = ReadConfig(config, &settings);
  if (result != ncclSuccess) return result;
  int device = GetEngine().CurrentDevice();
  if (device < 0) return Fail(ncclUnhandledCudaError, "%s : no CUDA device", function);
  *out = nullptr;
  return StartInit(out, KeyOf(id), nranks, rank, device, settings);
}

ncclResult_t InitAll(ncclComm_t* comms, int ndev, const int* devlist) {
  ncclResult_t result = CheckPointer(comms, "CommInitAll", "comms");
  if (result != ncclSuccess) return result;
  int devices = GetEngine().DeviceCount();
  if (ndev < 0) return Fail(ncclInvalidArgument, "Invalid device count requested : %d", ndev);
  std::vector<bool> used(std::max(devices, 0));
  for (int i = 0; i < ndev; ++i) {
    int device = devlist == nullptr ? i : devlist[i];
    if (device < 0 || device >= devices) {
      return Fail(ncclInvalidArgument, "Invalid device %d (have %d)", device, devices);
    }
    if (used[device]) return Fail(ncclInvalidUsage, "Device %d is listed more than once", device);
    used[device] = true;
  }
  // Uses the environment's settings, but always blocks, since the call is for all ranks at once.
  CommConfig settings;
  result = ReadConfig(nullptr, &settings);
  if (result != ncclSuccess) return result;
  settings.blocking = true;
  CommKey key = RandomKey();
  GroupStart();
  for (int i = 0; i < ndev; ++i) {
    int device = devlist == nullptr ? i : devlist[i];
    comms[i] = nullptr;
    NoteInGroup(StartInit(&comms[i], key, ndev, i, device, settings));
  }
  return GroupEnd();
}

ncclResult_t Split(ncclComm_t handle, int color, int key, ncclComm_t* out,
                   const ncclConfig_t* config) {
  std::shared_ptr<Comm> parent;
  ncclResult_t result = FindComm(handle, "CommSplit", &parent);
  if (result == ncclSuccess) result = CheckPointer(out, "CommSplit", "newcomm");
  if (result == ncclSuccess) result = parent->EnsureReady(/*management=*/true);
  if (result != ncclSuccess) return result;
  if (color < NCCL_SPLIT_NOCOLOR)
    return Fail(ncclInvalidArgument, "CommSplit : invalid color %d", color);
  // A child inherits its parent's settings except the name.
  CommConfig settings = parent->config();
  settings.name.clear();
  result = ReadConfig(config, &settings);
  if (result != ncclSuccess) return result;
  *out = nullptr;
  uint64_t ordinal = parent->NextSplit();
  if (color == NCCL_SPLIT_NOCOLOR) {
    return SubmitJob(parent, parent.get(), [parent, ordinal, color, key] {
      std::vector<int> nobody;
      return parent->ExchangeSplit(ordinal, color, key, &nobody);
    });
  }
  return StartInit(out, parent->device(), settings, parent->rank(), parent.get(), [=](Comm& child) {
    std::vector<int> members;
    ncclResult_t exchanged = parent->ExchangeSplit(ordinal, color, key, &members);
    if (exchanged != ncclSuccess) return exchanged;
    auto me = std::find(members.begin(), members.end(), parent->rank());
    return child.Init(ChildKey(parent->key(), /*shrink=*/false, ordinal, color),
                      static_cast<int>(members.size()), static_cast<int>(me - members.begin()));
  });
}

ncclResult_t Shrink(ncclComm_t handle, const int* exclude, int exclude_count, ncclComm_t* out,
                    const ncclConfig_t* config, int flags) {
  std::shared_ptr<Comm> parent;
  ncclResult_t result = FindComm(handle, "CommShrink", &parent);
  if (result == ncclSuccess) result = CheckPointer(out, "CommShrink", "newcomm");
  if (result == ncclSuccess) result = CheckPointer(exclude, "CommShrink", "excludeRanksList");
  if (result == ncclSuccess && (flags & NCCL_SHRINK_ABORT) == 0) {
    result = parent->EnsureReady(/*management=*/true);
  }
  if (result != ncclSuccess) return result;
  if ((flags & ~NCCL_SHRINK_ABORT) != 0 || exclude_count <= 0 ||
      exclude_count >= parent->nranks()) {
    return Fail(ncclInvalidArgument, "CommShrink : %d ranks to exclude of %d, flags %d",
                exclude_count, parent->nranks(), flags);
  }
  std::vector<bool> excluded(parent->nranks());
  for (int i = 0; i < exclude_count; ++i) {
    if (exclude[i] < 0 || exclude[i] >= parent->nranks() || excluded[exclude[i]]) {
      return Fail(ncclInvalidArgument, "CommShrink : invalid rank %d to exclude", exclude[i]);
    }
    excluded[exclude[i]] = true;
  }
  if (excluded[parent->rank()]) {
    return Fail(ncclInvalidArgument, "CommShrink : called by rank %d, which is excluded",
                parent->rank());
  }
  // A child inherits its parent's settings except the name.
  CommConfig settings = parent->config();
  settings.name.clear();
  result = ReadConfig(config, &settings);
  if (result != ncclSuccess) return result;
  // The caller stops its own part; the other remaining members do the same.
  if ((flags & NCCL_SHRINK_ABORT) != 0) parent->Revoke();
  int rank =
      static_cast<int>(std::count(excluded.begin(), excluded.begin() + parent->rank(), false));
  CommKey key = ChildKey(parent->key(), /*shrink=*/true, parent->NextShrink(), 0);
  *out = nullptr;
  return StartInit(out, key, parent->nranks() - exclude_count, rank, parent->device(), settings);
}

// NCCL 2.30: the id by which present and new members meet. NCCL passes the root's id around among
// the parent's members; here the id follows from the parent, so that they know it beforehand.
ncclResult_t GrowId(ncclComm_t handle, ncclUniqueId* out) {
  std::shared_ptr<Comm> parent;
  ncclResult_t result = FindComm(handle, "CommGetUniqueId", &parent);
  if (result == ncclSuccess) result = CheckPointer(out, "CommGetUniqueId", "uniqueId");
  if (result == ncclSuccess) result = parent->EnsureReady(/*management=*/true);
  if (result != ncclSuccess) return result;
  const CommKey key = GrowKey(parent->key(), parent->grown());
  std::memcpy(out, key.data(), key.size());
  return ncclSuccess;
}

ncclResult_t Grow(ncclComm_t handle, int nranks, const ncclUniqueId* id, int rank, ncclComm_t* out,
                  const ncclConfig_t* config) {
  ncclResult_t result = CheckPointer(out, "CommGrow", "newcomm");
  if (result != ncclSuccess) return result;
  if (handle == nullptr) {
    result = CheckPointer(id, "CommGrow", "uniqueId");
    return result != ncclSuccess ? result
                                 : InitRank("ncclCommGrow", out, nranks, *id, rank, config);
  }
  std::shared_ptr<Comm> parent;
  result = FindComm(handle, "CommGrow", &parent);
  if (result == ncclSuccess) result = parent->EnsureReady(/*management=*/true);
  if (result != ncclSuccess) return result;
  if (rank != -1 || nranks <= parent->nranks()) {
    return Fail(ncclInvalidArgument, "CommGrow : rank %d of a member, %d ranks of %d", rank, nranks,
                parent->nranks());
  }
  const CommKey key = GrowKey(parent->key(), parent->grown());
  if (id != nullptr && KeyOf(*id) != key)
    return Fail(ncclInvalidArgument, "CommGrow : the id is not of this communicator");
  CommConfig settings = parent->config();
  settings.name.clear();
  result = ReadConfig(config, &settings);
  if (result != ncclSuccess) return result;
  parent->NextGrow();
  *out = nullptr;
  return StartInit(out, key, nranks, parent->rank(), parent->device(), settings);
}

// The handle is invalid at once.
ncclResult_t Destroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  std::shared_ptr<Comm> comm;
  ncclResult_t result = FindComm(handle, "CommDestroy", &comm);
  if (result != ncclSuccess) return result;
  if (comm->state() == ncclInProgress) return comm->EnsureReady(/*management=*/true);
  comm->Forget();
  result = SubmitJob(comm, comm.get(), [comm] { return comm->Destroy(); });
  return result == ncclInProgress ? ncclSuccess : result;
}

ncclResult_t Finalize(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  std::shared_ptr<Comm> comm;
  ncclResult_t result = FindComm(handle, "CommFinalize", &comm);
  if (result == ncclSuccess) result = comm->EnsureReady();
  if (result != ncclSuccess) return result;
  if (!comm->MarkFinalizeCalled()) {
    return Fail(ncclInvalidArgument, "CommFinalize : called twice for one communicator");
  }
  return SubmitJob(comm, comm.get(), [comm] { return comm->Finalize(); });
}

// For simple queries: needs a ready communicator and a place for the answer.
ncclResult_t Ask(ncclComm_t handle, const char* function, const char* argument, int* answer,
                 int (*question)(const Comm&)) {
  std::shared_ptr<Comm> comm;
  ncclResult_t result = FindComm(handle, function, &comm);
  if (result == ncclSuccess) result = CheckPointer(answer, function, argument);
  if (result == ncclSuccess) result = comm->EnsureReady(/*management=*/true);
  if (result == ncclSuccess) *answer = question(*comm);
  return result;
}

}  // namespace
}  // namespace gordian::emu::nccl

namespace emu = gordian::emu::nccl;
using emu::Comm;
using emu::GetEngine;
using emu::NoteInGroup;

extern "C" {

ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId) {
  GetEngine().CountCall("ncclGetUniqueId");
  ncclResult_t result = emu::CheckPointer(uniqueId, "GetUniqueId", "out");
  if (result != ncclSuccess) return result;
  emu::CommKey key = emu::RandomKey();
  // An address that all ranks were given beforehand is their common id, whichever rank asks.
  if (const char* address = std::getenv("NCCL_COMM_ID"); address != nullptr && *address != '\0') {
    key = {};
    std::snprintf(reinterpret_cast<char*>(key.data()), key.size(), "address %s", address);
  }
  std::memcpy(uniqueId, key.data(), key.size());
  return ncclSuccess;
}

ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  GetEngine().CountCall("ncclCommInitRank");
  return NoteInGroup(emu::InitRank("ncclCommInitRank", comm, nranks, commId, rank, nullptr));
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                     ncclConfig_t* config) {
  GetEngine().CountCall("ncclCommInitRankConfig");
  return NoteInGroup(emu::InitRank("ncclCommInitRankConfig", comm, nranks, commId, rank, config));
}

ncclResult_t pncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                       ncclUniqueId* commIds, ncclConfig_t* config) {
  GetEngine().CountCall("ncclCommInitRankScalable");
  if (nId <= 0 || nId > nranks || commIds == nullptr) {
    return NoteInGroup(
        emu::Fail(ncclInvalidArgument, "improper usage of ncclCommInitRank: nId = %d", nId));
  }
  // More ids only spread NCCL's bootstrap over several roots; the first one names the communicator.
  return NoteInGroup(
      emu::InitRank("ncclCommInitRankScalable", newcomm, nranks, commIds[0], myrank, config));
}

ncclResult_t pncclCommInitAll(ncclComm_t* comms, int ndev, const int* devlist) {
  GetEngine().CountCall("ncclCommInitAll");
  return NoteInGroup(emu::InitAll(comms, ndev, devlist));
}

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                            ncclConfig_t* config) {
  GetEngine().CountCall("ncclCommSplit");
  return NoteInGroup(emu::Split(comm, color, key, newcomm, config));
}

ncclResult_t pncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                             ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  GetEngine().CountCall("ncclCommShrink");
  return NoteInGroup(
      emu::Shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags));
}

ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId) {
  GetEngine().CountCall("ncclCommGetUniqueId");
  return emu::GrowId(comm, uniqueId);
}

ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                           ncclComm_t* newcomm, ncclConfig_t* config) {
  GetEngine().CountCall("ncclCommGrow");
  return NoteInGroup(emu::Grow(comm, nRanks, uniqueId, rank, newcomm, config));
}

ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  GetEngine().CountCall("ncclCommFinalize");
  return NoteInGroup(emu::Finalize(comm));
}

ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  GetEngine().CountCall("ncclCommDestroy");
  return NoteInGroup(emu::Destroy(comm));
}

ncclResult_t pncclCommAbort(ncclComm_t comm) {
  GetEngine().CountCall("ncclCommAbort");
  if (comm == nullptr) return ncclSuccess;
  std::shared_ptr<Comm> found;
  ncclResult_t result = emu::FindComm(comm, "CommAbort", &found);
  if (result != ncclSuccess) return result;
  found->Forget();
  found->Abort();
  return ncclSuccess;
}

ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  GetEngine().CountCall("ncclCommRevoke");
  std::shared_ptr<Comm> found;
  ncclResult_t result = emu::FindComm(comm, "CommRevoke", &found);
  if (result != ncclSuccess) return result;
  if (revokeFlags != NCCL_REVOKE_DEFAULT) {
    return emu::Fail(ncclInvalidArgument, "CommRevoke : flags must be NCCL_REVOKE_DEFAULT, not %d",
                     revokeFlags);
  }
  found->Revoke();
  return ncclSuccess;
}

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  GetEngine().CountCall("ncclCommGetAsyncError");
  std::shared_ptr<Comm> found;
  ncclResult_t result = emu::FindComm(comm, "ncclGetAsyncError", &found);
  if (result == ncclSuccess) {
    result = emu::CheckPointer(asyncError, "ncclGetAsyncError", "asyncError");
  }
  if (result == ncclSuccess) *asyncError = found->state();
  return result;
}

// Tools ask these three through pncclX too, which are not the application's calls.
ncclResult_t pncclCommCount(const ncclComm_t comm, int* count) {
  return emu::Ask(comm, "CommCount", "count", count, [](const Comm& c) { return c.nranks(); });
}
__attribute__((weak)) ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  GetEngine().CountCall("ncclCommCount");
  return pncclCommCount(comm, count);
}

ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device) {
  return emu::Ask(comm, "CommCuDevice", "device", device, [](const Comm& c) { return c.device(); });
}
__attribute__((weak)) ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  GetEngine().CountCall("ncclCommCuDevice");
  return pncclCommCuDevice(comm, device);
}

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank) {
  return emu::Ask(comm, "CommUserRank", "rank", rank, [](const Comm& c) { return c.rank(); });
}
__attribute__((weak)) ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  GetEngine().CountCall("ncclCommUserRank");
  return pncclCommUserRank(comm, rank);
}

EMU_NCCL_ALIAS(ncclGetUniqueId);
EMU_NCCL_ALIAS(ncclCommInitRank);
EMU_NCCL_ALIAS(ncclCommInitRankConfig);
EMU_NCCL_ALIAS(ncclCommInitRankScalable);
EMU_NCCL_ALIAS(ncclCommInitAll);
EMU_NCCL_ALIAS(ncclCommSplit);
EMU_NCCL_ALIAS(ncclCommShrink);
EMU_NCCL_ALIAS(ncclCommGetUniqueId);
EMU_NCCL_ALIAS(ncclCommGrow);
EMU_NCCL_ALIAS(ncclCommFinalize);
EMU_NCCL_ALIAS(ncclCommDestroy);
EMU_NCCL_ALIAS(ncclCommAbort);
EMU_NCCL_ALIAS(ncclCommRevoke);
EMU_NCCL_ALIAS(ncclCommGetAsyncError);

}  // extern "C"
