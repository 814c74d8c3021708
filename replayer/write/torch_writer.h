// Writes a schedule as one script for torchrun, in torch.distributed: groups by new_group, streams,
// events and graphs of torch.cuda. It shows a hang to people who write PyTorch.
//
// Refuses, by name, any call that torch.distributed cannot make. Differences from the C++ program
// (cxx_writer.h): ProcessGroupNCCL makes the communicators, eagerly by splitting the world's
// (init_process_group with device_id); collectives run beside the stream they are called on, which
// waits for them, so that its order is the same; batch_isend_irecv makes transfers, which keeps
// them on the group's communicator.
#ifndef GORDIAN_REPLAYER_WRITE_TORCH_WRITER_H_
#define GORDIAN_REPLAYER_WRITE_TORCH_WRITER_H_

#include <string>
#include <vector>

#include "replayer/record/schedule.h"

namespace gordian::replayer {

struct TorchOptions {
  std::string file = "replay.py";  // as its header names it
  std::string verified;            // one line; empty: not verified
};

struct TorchProgram {
  std::string text;
  // Why there is none, one line each, in the schedule's order; `text` is then empty.
  std::vector<std::string> refused;
};

// `schedule` must pass Check().
TorchProgram WriteTorch(const Schedule& schedule, const TorchOptions& options = {});

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_WRITE_TORCH_WRITER_H_
