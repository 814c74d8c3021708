// A schedule as one script for torchrun, in torch.distributed: groups by new_group, streams, events
// and graphs of torch.cuda. For who wants to show a hang to people that write PyTorch.
//
// What torch.distributed cannot be made to call is refused by name, never left out. What is
// different from the C++ program (cxx_writer.h): communicators are those of ProcessGroupNCCL, made
// eagerly by splitting the world's (init_process_group with device_id); collectives run beside the
// stream that they are called on, which waits for them, so that the order on it is the same;
// transfers go by batch_isend_irecv, which keeps them on the group's communicator.
#ifndef GORDIAN_REPLAYER_TORCH_WRITER_H_
#define GORDIAN_REPLAYER_TORCH_WRITER_H_

#include <string>
#include <vector>

#include "replayer/schedule.h"

namespace gordian::replayer {

struct TorchOptions {
  std::string file = "replay.py";  // as its header names it
  std::string verified;            // one line; empty: not verified
};

struct TorchProgram {
  std::string text;
  // Why there is none, one line each, in the order of the schedule; then `text` is empty.
  std::vector<std::string> refused;
};

// Of a schedule in which Check() finds nothing.
TorchProgram WriteTorch(const Schedule& schedule, const TorchOptions& options = {});

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_TORCH_WRITER_H_
