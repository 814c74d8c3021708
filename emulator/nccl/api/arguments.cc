#include "emulator/nccl/api/arguments.h"

#include <limits>

#include "emulator/nccl/api/error.h"

namespace gordian::emu::nccl {
namespace {

// How many blocks of `count` elements a buffer holds; 0 when it is not used at this rank.
struct Blocks {
  uint64_t send;
  uint64_t recv;
};

Blocks BlocksOf(Kind kind, int nranks, bool is_root) {
  auto n = static_cast<uint64_t>(nranks);
  switch (kind) {
    case Kind::kAllReduce:
      return {1, 1};
    case Kind::kAllGather:
      return {1, n};
    case Kind::kReduceScatter:
      return {n, 1};
    case Kind::kAlltoAll:
      return {n, n};
    case Kind::kBroadcast:
      return is_root ? Blocks{1, 1} : Blocks{0, 1};
    case Kind::kReduce:
      return is_root ? Blocks{1, 1} : Blocks{1, 0};
    case Kind::kGather:
      return is_root ? Blocks{1, n} : Blocks{1, 0};
    case Kind::kScatter:
      return is_root ? Blocks{n, 1} : Blocks{0, 1};
    case Kind::kSend:
      return {1, 0};
    case Kind::kRecv:
      return {0, 1};
    case Kind::kNone:
      break;
  }
  return {0, 0};
}

bool HasRoot(Kind kind) {
  return kind != Kind::kAllReduce && kind != Kind::kAllGather && kind != Kind::kReduceScatter &&
         kind != Kind::kAlltoAll;
}

bool Reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduceScatter || kind == Kind::kReduce;
}

ncclResult_t CheckBuffer(const Comm& comm, const char* name, const char* which, const void* pointer,
                         uint64_t bytes) {
  if (bytes == 0) return ncclSuccess;
  if (pointer == nullptr) return Fail(ncclInvalidArgument, "%s : %s is NULL", name, which);
  int device = -1;
  if (!GetEngine().IsDeviceAccessible(pointer, bytes, &device)) {
    return Fail(ncclInvalidArgument, "%s : %s %p is not a valid pointer to %lu bytes", name, which,
                pointer, bytes);
  }
  if (device >= 0 && device != comm.device()) {
    return Fail(ncclInvalidArgument, "%s : %s allocated on device %d mismatchs with NCCL device %d",
                name, which, device, comm.device());
  }
  return ncclSuccess;
}

ncclResult_t ResolveReduction(Comm& comm, const OperationArguments& arguments,
                              Operation* operation) {
  auto op = static_cast<int64_t>(arguments.op);
  if (op < 0 || op > static_cast<int64_t>(ncclMaxRedOp)) {
    return Fail(ncclInvalidArgument, "%s : invalid reduction operation %ld", arguments.name, op);
  }
  switch (op) {
    case ncclSum:
      operation->reduction = Reduction::kSum;
      return ncclSuccess;
    case ncclProd:
      operation->reduction = Reduction::kProd;
      return ncclSuccess;
    case ncclMax:
      operation->reduction = Reduction::kMax;
      return ncclSuccess;
    case ncclMin:
      operation->reduction = Reduction::kMin;
      return ncclSuccess;
    case ncclAvg:
      operation->reduction = Reduction::kAvg;
      return ncclSuccess;
    default:
      break;
  }
  UserReduction user;
  ncclResult_t result = comm.FindReduction(arguments.op, &user);
  if (result != ncclSuccess) return result;
  if (user.datatype != arguments.datatype) {
    return Fail(ncclInvalidArgument,
                "Data type supplied to user-created ncclRedOp_t does not match type given to "
                "reduction operation");
  }
  operation->reduction = Reduction::kPreMulSum;
  operation->scalar = user.scalar;
  operation->scalar_address = user.scalar_address;
  return ncclSuccess;
}

}  // namespace

ncclResult_t FindComm(ncclComm_t handle, const char* function, std::shared_ptr<Comm>* comm) {
  if (handle == nullptr) return Fail(ncclInvalidArgument, "%s : comm argument is NULL", function);
  *comm = Comm::Find(handle);
  if (*comm != nullptr) return ncclSuccess;
  return Fail(ncclInvalidArgument, "%s : corrupted comm object detected", function);
}

ncclResult_t CheckPointer(const void* pointer, const char* function, const char* argument) {
  if (pointer != nullptr) return ncclSuccess;
  return Fail(ncclInvalidArgument, "%s : %s argument is NULL", function, argument);
}

ncclResult_t MakeOperation(Comm& comm, const OperationArguments& arguments, Operation* operation) {
  ncclResult_t result = comm.EnsureReady();
  if (result != ncclSuccess) return result;
  size_t element = ElementSize(arguments.datatype);
  if (element == 0) {
    return Fail(ncclInvalidArgument, "%s : invalid type %d", arguments.name, arguments.datatype);
  }
  if (HasRoot(arguments.kind) && (arguments.root < 0 || arguments.root >= comm.nranks())) {
    return Fail(ncclInvalidArgument, "%s : invalid root %d (root should be in the 0..%d range)",
                arguments.name, arguments.root, comm.nranks());
  }
  if (Reduces(arguments.kind)) {
    result = ResolveReduction(comm, arguments, operation);
    if (result != ncclSuccess) return result;
  }
  if (arguments.count > std::numeric_limits<int64_t>::max() / element / comm.nranks()) {
    return Fail(ncclInvalidArgument, "%s : invalid count %zu", arguments.name, arguments.count);
  }
  Blocks blocks = BlocksOf(arguments.kind, comm.nranks(), arguments.root == comm.rank());
  uint64_t bytes = arguments.count * element;
  result = CheckBuffer(comm, arguments.name, "sendbuff", arguments.send, blocks.send * bytes);
  if (result != ncclSuccess) return result;
  result = CheckBuffer(comm, arguments.name, "recvbuff", arguments.recv, blocks.recv * bytes);
  if (result != ncclSuccess) return result;
  Stream* stream = GetEngine().FindStream(arguments.stream, comm.device());
  if (stream == nullptr || GetEngine().DeviceOf(stream) != comm.device()) {
    return Fail(ncclUnhandledCudaError, "%s : the stream is not one of device %d", arguments.name,
                comm.device());
  }
  operation->kind = arguments.kind;
  operation->send = static_cast<const std::byte*>(arguments.send);
  operation->recv = static_cast<std::byte*>(arguments.recv);
  operation->count = arguments.count;
  operation->datatype = arguments.datatype;
  operation->root = arguments.root;
  operation->stream = stream;
  return ncclSuccess;
}

}  // namespace gordian::emu::nccl
