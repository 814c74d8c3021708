// One NCCL operation of one member, as the application called it.
#ifndef GORDIAN_EMULATOR_NCCL_OPERATION_OPERATION_H_
#define GORDIAN_EMULATOR_NCCL_OPERATION_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "emulator/engine/engine_api.h"
#include "emulator/nccl/api/nccl_header.h"
#include "emulator/nccl/comm/shared_layout.h"
#include "emulator/nccl/operation/reduce.h"

namespace gordian::emu::nccl {

struct Operation {
  Kind kind = Kind::kNone;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  uint64_t count = 0;  // as passed: per block for kinds with blocks
  ncclDataType_t datatype = ncclInt8;
  Reduction reduction = Reduction::kSum;
  // PreMulSum: the factor's bits, or their address when the operation starts.
  uint64_t scalar = 0;
  const void* scalar_address = nullptr;
  int root = 0;  // or the peer
  Stream* stream = nullptr;
  // For profiler plugins.
  void* stream_handle = nullptr;  // as passed
  bool captured = false;
  void* call_event = nullptr;
  uint64_t profiler_tag = 0;

  uint64_t bytes() const { return count * ElementSize(datatype); }
  bool IsPointToPoint() const { return kind == Kind::kSend || kind == Kind::kRecv; }
};

// "AllReduce"
const char* NameOf(Kind kind);

// For reports, members of a JSON object: "operation", "bytes" and, once it has an ordinal,
// "seq" (from 1: among the collectives of its communicator, or the sends to or receives from its
// peer).
std::string DescribeOperation(const Operation& operation,
                              std::optional<uint64_t> ordinal = std::nullopt);

}  // namespace gordian::emu::nccl

#endif  // GORDIAN_EMULATOR_NCCL_OPERATION_OPERATION_H_
