// What the C API's handles stand for, and what its files share.
#ifndef GORDIAN_RUNTIME_API_HANDLES_H_
#define GORDIAN_RUNTIME_API_HANDLES_H_

#include <memory>
#include <vector>

#include "runtime/api/common.h"
#include "runtime/cpu/comm.h"
#include "runtime/cpu/streams/own_streams.h"
#include "runtime/cpu/task.h"
#include "runtime/include/gordian/runtime.h"

struct grtPortOpaque {
  std::shared_ptr<gordian::runtime::Comm> comm;
  std::shared_ptr<gordian::runtime::Port> port;
};

struct grtCommOpaque {
  std::shared_ptr<gordian::runtime::Comm> comm;
  std::vector<std::unique_ptr<grtPortOpaque>> ports;
};

struct grtOpOpaque {
  std::shared_ptr<gordian::runtime::Task> task;
};

namespace gordian::runtime {

// Our own streams; null when the streams are CUDA's.
OwnStreams* TheOwnStreams();

// A call of an operation, checked. Publishes it, or adds it to this thread's group.
grtResult_t Submit(const grtOpDesc_t& desc, cudaStream_t stream, grtOp_t* handle);

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_API_HANDLES_H_
