// Checks the application's arguments, with NCCL's result codes. Stricter than NCCL, which looks at
// buffers only with NCCL_CHECK_POINTERS=1: a bad pointer must not crash the emulator.
#ifndef GORDIAN_EMULATOR_NCCL_API_ARGUMENTS_H_
#define GORDIAN_EMULATOR_NCCL_API_ARGUMENTS_H_

#include <memory>

#include "emulator/nccl/api/nccl_header.h"
#include "emulator/nccl/comm/comm.h"
#include "emulator/nccl/operation/operation.h"

namespace gordian::emu::nccl {

// The arguments of an operation.
struct OperationArguments {
  const char* name;
  Kind kind;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  ncclDataType_t datatype = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int root = 0;  // or the peer
  cudaStream_t stream = nullptr;
  uint64_t profiler_tag = 0;  // of NCCL 2.31's calls with settings
};

// Checks them, and makes the Operation.
ncclResult_t MakeOperation(Comm& comm, const OperationArguments& arguments, Operation* operation);

// Checks them, and enqueues the operation.
ncclResult_t Submit(ncclComm_t handle, const OperationArguments& arguments);

// The live communicator behind a handle; ncclInvalidArgument otherwise.
ncclResult_t FindComm(ncclComm_t handle, const char* function, std::shared_ptr<Comm>* comm);

// Returns ncclInvalidArgument for null.
ncclResult_t CheckPointer(const void* pointer, const char* function, const char* argument);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_API_ARGUMENTS_H_
