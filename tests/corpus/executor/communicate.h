// NCCL's operations by name. Each label has a call site of its own (of 32), as the lines of a
// program would; operations that give one `site` share it, as the steps of a loop do.
#ifndef GORDIAN_TESTS_CORPUS_EXECUTOR_COMMUNICATE_H_
#define GORDIAN_TESTS_CORPUS_EXECUTOR_COMMUNICATE_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

#include "tests/corpus/executor/program.h"

namespace corpus {

struct Transfer {
  const void* input = nullptr;
  void* output = nullptr;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

// Ends the process when there is no such type.
size_t ElementSize(const std::string& type);
// Ends the process when the operation is not known.
ncclResult_t CallFromItsSite(const Operation& op, const Transfer& transfer);

}  // namespace corpus

#endif  // GORDIAN_TESTS_CORPUS_EXECUTOR_COMMUNICATE_H_
