#include "emulator/nccl/operation/operation.h"

namespace gordian::emu::nccl {

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      break;
    case Kind::kAllGather:
      return "AllGather";
    case Kind::kAllReduce:
      return "AllReduce";
    case Kind::kReduceScatter:
      return "ReduceScatter";
    case Kind::kBroadcast:
      return "Broadcast";
    case Kind::kReduce:
      return "Reduce";
    case Kind::kAlltoAll:
      return "AlltoAll";
    case Kind::kGather:
      return "Gather";
    case Kind::kScatter:
      return "Scatter";
    case Kind::kSend:
      return "Send";
    case Kind::kRecv:
      return "Recv";
  }
  return "None";
}

std::string DescribeOperation(const Operation& operation, std::optional<uint64_t> ordinal) {
  std::string text = std::string("\"operation\": \"") + NameOf(operation.kind) + "\"";
  if (ordinal.has_value()) text += ", \"seq\": " + std::to_string(*ordinal + 1);
  text += ", \"bytes\": " + std::to_string(operation.bytes());
  if (operation.IsPointToPoint()) text += ", \"peer\": " + std::to_string(operation.root);
  return text;
}

}  // namespace gordian::emu::nccl
