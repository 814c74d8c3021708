// Exported: collectives, point-to-point, groups, reduction operators.
#include <cstring>

#include "emulator/nccl/api/arguments.h"
#include "emulator/nccl/api/debug.h"
#include "emulator/nccl/api/entry.h"
#include "emulator/nccl/api/error.h"
#include "emulator/nccl/operation/group.h"

namespace gordian::emu::nccl {

thread_local bool inside_bcast = false;

ncclResult_t Submit(ncclComm_t handle, const OperationArguments& arguments) {
  std::shared_ptr<Comm> comm;
  ncclResult_t result = FindComm(handle, arguments.name, &comm);
  Operation operation;
  if (result == ncclSuccess) result = MakeOperation(*comm, arguments, &operation);
  if (result != ncclSuccess) return NoteInGroup(result);
  if (WantsInfo(DebugSubsystem::kCollectives)) {
    Info(comm->device(),
         "%s: sendbuff %p recvbuff %p count %zu datatype %d op %d root %d comm %p [nranks=%d] "
         "stream %p",
         arguments.name, arguments.send, arguments.recv, arguments.count, arguments.datatype,
         arguments.op, arguments.root, static_cast<void*>(handle), comm->nranks(),
         static_cast<void*>(arguments.stream));
  }
  operation.stream_handle = arguments.stream;
  operation.profiler_tag = arguments.profiler_tag;
  // NCCL discards empty collectives; an empty send still meets its receive.
  if (arguments.count == 0 && !operation.IsPointToPoint()) return ncclSuccess;
  return NoteInGroup(SubmitOperation(comm, operation));
}

}  // namespace gordian::emu::nccl

using gordian::emu::nccl::CheckPointer;
using gordian::emu::nccl::Comm;
using gordian::emu::nccl::ElementSize;
using gordian::emu::nccl::Fail;
using gordian::emu::nccl::FindComm;
using gordian::emu::nccl::GetEngine;
using gordian::emu::nccl::inside_bcast;
using gordian::emu::nccl::Kind;
using gordian::emu::nccl::Submit;

extern "C" {

ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  GetEngine().CountCall("ncclReduce");
  return Submit(comm,
                {"Reduce", Kind::kReduce, sendbuff, recvbuff, count, datatype, op, root, stream});
}

ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  GetEngine().CountCall("ncclBcast");
  inside_bcast = true;
  ncclResult_t result = ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
  inside_bcast = false;
  return result;
}

ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, int root, ncclComm_t comm,
                            cudaStream_t stream) {
  if (!inside_bcast) GetEngine().CountCall("ncclBroadcast");
  return Submit(comm, {"Broadcast", Kind::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum,
                       root, stream});
}

ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                            cudaStream_t stream) {
  GetEngine().CountCall("ncclAllReduce");
  return Submit(
      comm, {"AllReduce", Kind::kAllReduce, sendbuff, recvbuff, count, datatype, op, 0, stream});
}

ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                cudaStream_t stream) {
  GetEngine().CountCall("ncclReduceScatter");
  return Submit(comm, {"ReduceScatter", Kind::kReduceScatter, sendbuff, recvbuff, recvcount,
                       datatype, op, 0, stream});
}

ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  GetEngine().CountCall("ncclAllGather");
  return Submit(comm, {"AllGather", Kind::kAllGather, sendbuff, recvbuff, sendcount, datatype,
                       ncclSum, 0, stream});
}

ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  GetEngine().CountCall("ncclAlltoAll");
  return Submit(
      comm, {"AlltoAll", Kind::kAlltoAll, sendbuff, recvbuff, count, datatype, ncclSum, 0, stream});
}

ncclResult_t pncclGather(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  GetEngine().CountCall("ncclGather");
  return Submit(
      comm, {"Gather", Kind::kGather, sendbuff, recvbuff, count, datatype, ncclSum, root, stream});
}

ncclResult_t pncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  GetEngine().CountCall("ncclScatter");
  return Submit(comm, {"Scatter", Kind::kScatter, sendbuff, recvbuff, count, datatype, ncclSum,
                       root, stream});
}

ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  GetEngine().CountCall("ncclSend");
  return Submit(comm,
                {"Send", Kind::kSend, sendbuff, nullptr, count, datatype, ncclSum, peer, stream});
}

ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  GetEngine().CountCall("ncclRecv");
  return Submit(comm,
                {"Recv", Kind::kRecv, nullptr, recvbuff, count, datatype, ncclSum, peer, stream});
}

ncclResult_t pncclGroupStart() {
  GetEngine().CountCall("ncclGroupStart");
  return gordian::emu::nccl::GroupStart();
}

ncclResult_t pncclGroupEnd() {
  GetEngine().CountCall("ncclGroupEnd");
  return gordian::emu::nccl::GroupEnd();
}

ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* simInfo) {
  GetEngine().CountCall("ncclGroupSimulateEnd");
  if (simInfo != nullptr && simInfo->magic != 0x74685283) {
    return Fail(ncclInvalidArgument,
                "ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
  }
  return gordian::emu::nccl::GroupSimulate(simInfo == nullptr ? nullptr : &simInfo->estimatedTime);
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  GetEngine().CountCall("ncclRedOpCreatePreMulSum");
  std::shared_ptr<Comm> found;
  ncclResult_t result = FindComm(comm, "ncclRedOpCreatePreMulSum", &found);
  if (result == ncclSuccess) result = CheckPointer(op, "ncclRedOpCreatePreMulSum", "op");
  if (result == ncclSuccess) result = CheckPointer(scalar, "ncclRedOpCreatePreMulSum", "scalar");
  if (result == ncclSuccess) result = found->EnsureReady();
  if (result != ncclSuccess) return result;
  size_t element = ElementSize(datatype);
  if (element == 0) {
    return Fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum : invalid type %d", datatype);
  }
  gordian::emu::nccl::UserReduction reduction;
  reduction.datatype = datatype;
  if (residence == ncclScalarHostImmediate) {
    std::memcpy(&reduction.scalar, scalar, element);
  } else {
    int device = -1;
    if (!GetEngine().IsDeviceAccessible(scalar, element, &device)) {
      return Fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum : scalar %p is not device memory",
                  scalar);
    }
    reduction.scalar_address = scalar;
  }
  *op = found->AddReduction(reduction);
  return ncclSuccess;
}

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  GetEngine().CountCall("ncclRedOpDestroy");
  if (op < ncclNumOps) {
    return Fail(ncclInvalidArgument, "ncclRedOpDestroy : operator is a NCCL builtin.");
  }
  std::shared_ptr<Comm> found;
  ncclResult_t result = FindComm(comm, "ncclRedOpDestroy", &found);
  return result == ncclSuccess ? found->RemoveReduction(op) : result;
}

EMU_NCCL_ALIAS(ncclReduce);
EMU_NCCL_ALIAS(ncclBcast);
EMU_NCCL_ALIAS(ncclBroadcast);
EMU_NCCL_ALIAS(ncclAllReduce);
EMU_NCCL_ALIAS(ncclReduceScatter);
EMU_NCCL_ALIAS(ncclAllGather);
EMU_NCCL_ALIAS(ncclAlltoAll);
EMU_NCCL_ALIAS(ncclGather);
EMU_NCCL_ALIAS(ncclScatter);
EMU_NCCL_ALIAS(ncclSend);
EMU_NCCL_ALIAS(ncclRecv);
EMU_NCCL_ALIAS(ncclGroupStart);
EMU_NCCL_ALIAS(ncclGroupEnd);
EMU_NCCL_ALIAS(ncclGroupSimulateEnd);
EMU_NCCL_ALIAS(ncclRedOpCreatePreMulSum);
EMU_NCCL_ALIAS(ncclRedOpDestroy);

}  // extern "C"
