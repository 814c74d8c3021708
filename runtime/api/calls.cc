// NCCL-shaped calls of the C API: each is a grtSubmit, whatever the backend.
#include "runtime/core/op.h"
#include "runtime/include/gordian/runtime.h"

using gordian::runtime::SizeOf;

namespace {

grtOpDesc_t Describe(grtKind_t kind, const void* in, void* out, size_t count, grtDataType_t type,
                     grtComm_t comm) {
  grtOpDesc_t d = GRT_OP_DESC_INITIALIZER;
  d.kind = kind;
  d.in = in;
  d.out = out;
  d.count = count;
  d.type = type;
  d.comm = comm;
  return d;
}

grtResult_t Call(const grtOpDesc_t& d, cudaStream_t stream) {
  // Needs a scalar, which these calls have no place for.
  if (d.op == grtPreMulSum) return grtInvalidArgument;
  return grtSubmit(&d, stream, nullptr);
}

}  // namespace

grtResult_t grtAllReduce(const void* in, void* out, size_t count, grtDataType_t type, grtRedOp_t op,
                         grtComm_t comm, cudaStream_t stream) {
  grtOpDesc_t d = Describe(grtKindAllReduce, in, out, count, type, comm);
  d.op = op;
  return Call(d, stream);
}

grtResult_t grtAllGather(const void* in, void* out, size_t count, grtDataType_t type,
                         grtComm_t comm, cudaStream_t stream) {
  return Call(Describe(grtKindAllGather, in, out, count, type, comm), stream);
}

grtResult_t grtReduceScatter(const void* in, void* out, size_t count, grtDataType_t type,
                             grtRedOp_t op, grtComm_t comm, cudaStream_t stream) {
  grtOpDesc_t d = Describe(grtKindReduceScatter, in, out, count, type, comm);
  d.op = op;
  return Call(d, stream);
}

grtResult_t grtBroadcast(const void* in, void* out, size_t count, grtDataType_t type, int root,
                         grtComm_t comm, cudaStream_t stream) {
  grtOpDesc_t d = Describe(grtKindBroadcast, in, out, count, type, comm);
  d.root_or_peer = root;
  return Call(d, stream);
}

grtResult_t grtReduce(const void* in, void* out, size_t count, grtDataType_t type, grtRedOp_t op,
                      int root, grtComm_t comm, cudaStream_t stream) {
  grtOpDesc_t d = Describe(grtKindReduce, in, out, count, type, comm);
  d.op = op;
  d.root_or_peer = root;
  return Call(d, stream);
}

grtResult_t grtAllToAll(const void* in, void* out, size_t count, grtDataType_t type, grtComm_t comm,
                        cudaStream_t stream) {
  return Call(Describe(grtKindAllToAll, in, out, count, type, comm), stream);
}

grtResult_t grtGather(const void* in, void* out, size_t count, grtDataType_t type, int root,
                      grtComm_t comm, cudaStream_t stream) {
  grtOpDesc_t d = Describe(grtKindGather, in, out, count, type, comm);
  d.root_or_peer = root;
  return Call(d, stream);
}

grtResult_t grtScatter(const void* in, void* out, size_t count, grtDataType_t type, int root,
                       grtComm_t comm, cudaStream_t stream) {
  grtOpDesc_t d = Describe(grtKindScatter, in, out, count, type, comm);
  d.root_or_peer = root;
  return Call(d, stream);
}

grtResult_t grtSend(const void* in, size_t count, grtDataType_t type, int peer, grtComm_t comm,
                    cudaStream_t stream) {
  grtOpDesc_t d = Describe(grtKindSend, in, nullptr, count, type, comm);
  d.root_or_peer = peer;
  return Call(d, stream);
}

grtResult_t grtRecv(void* out, size_t count, grtDataType_t type, int peer, grtComm_t comm,
                    cudaStream_t stream) {
  grtOpDesc_t d = Describe(grtKindRecv, nullptr, out, count, type, comm);
  d.root_or_peer = peer;
  return Call(d, stream);
}

grtResult_t grtAllToAllv(const void* in, const size_t* in_counts, const size_t* in_offsets,
                         void* out, const size_t* out_counts, const size_t* out_offsets,
                         grtDataType_t type, grtComm_t comm, cudaStream_t stream) {
  int ranks = 0;
  if (grtCommCount(comm, &ranks) != grtSuccess || in_counts == nullptr || in_offsets == nullptr ||
      out_counts == nullptr || out_offsets == nullptr || type < grtInt8 || type > grtFloat8e5m2) {
    return grtInvalidArgument;
  }
  const size_t size = SizeOf(static_cast<gordian::runtime::DataType>(type));
  grtGroupStart();
  for (int r = 0; r < ranks; ++r) {
    grtSend(static_cast<const char*>(in) + in_offsets[r] * size, in_counts[r], type, r, comm,
            stream);
    grtRecv(static_cast<char*>(out) + out_offsets[r] * size, out_counts[r], type, r, comm, stream);
  }
  return grtGroupEnd();
}
