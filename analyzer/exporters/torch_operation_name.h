// What PyTorch's Flight Recorder calls an operation of NCCL, in dumps that gordian writes or stands in
// for.
#ifndef GORDIAN_ANALYZER_EXPORTERS_TORCH_OPERATION_NAME_H_
#define GORDIAN_ANALYZER_EXPORTERS_TORCH_OPERATION_NAME_H_

#include "analyzer/model/collective.h"
#include "analyzer/model/verdict/names.h"

namespace gordian::exporters {

// As ProcessGroupNCCL names what it calls NCCL for.
inline const char* TorchOperationName(model::Call call) {
  using model::Call;
  switch (call) {
    case Call::kAllGather:
      return "_all_gather_base";
    case Call::kReduceScatter:
      return "_reduce_scatter_base";
    case Call::kAllReduce:
    case Call::kBroadcast:
    case Call::kReduce:
    case Call::kAllToAll:
    case Call::kGather:
    case Call::kScatter:
    case Call::kSend:
    case Call::kRecv:
      return model::TorchName(call);
    default:
      return "unknown";
  }
}

}  // namespace gordian::exporters

#endif  // GORDIAN_ANALYZER_EXPORTERS_TORCH_OPERATION_NAME_H_
