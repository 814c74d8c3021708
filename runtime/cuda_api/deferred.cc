#include "runtime/cuda_api/deferred.h"

#include <algorithm>

#include "runtime/cuda_api/process.h"

namespace gordian::runtime::cuda {

Deferred& Deferred::Get() {
  static Deferred* deferred = new Deferred;  // threads outlive main
  return *deferred;
}

grtResult_t StreamWaits(const std::vector<Detached>& operations, cudaStream_t stream) {
  const auto is_done = [](const Detached& operation) { return operation.IsDone(); };
  if (std::all_of(operations.begin(), operations.end(), is_done)) return grtSuccess;
  Process* const process = Process::Of(stream);
  if (process == nullptr) return grtInvalidUsage;
  const OnDevice on(process->device());
  bool captured = false;
  if (IsCaptured(stream, &captured) != cudaSuccess) return grtUnhandledCudaError;
  if (captured) return grtNotSupported;  // a launch of the graph would wait for what is long done
  process->domain().Foreign(stream);
  return Detached::StreamWait(operations, stream).ok() ? grtSuccess : grtUnhandledCudaError;
}

void Deferred::Add(Process* process, cudaStream_t stream, const Detached& operation,
                   const Touched& touched) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<One>& unjoined = unjoined_[{process, stream}];
  std::erase_if(unjoined, [](const One& one) { return one.operation.IsDone(); });
  unjoined.push_back({operation, touched});
}

grtResult_t Deferred::Join(Process* process, cudaStream_t stream) {
  std::vector<One> all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = unjoined_.find({process, stream});
    if (at == unjoined_.end()) return grtSuccess;
    all = std::move(at->second);
    unjoined_.erase(at);
  }
  std::vector<Detached> operations;
  for (const One& one : all) operations.push_back(one.operation);
  const grtResult_t result = StreamWaits(operations, stream);
  if (result == grtSuccess) return result;
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<One>& unjoined = unjoined_[{process, stream}];
  unjoined.insert(unjoined.begin(), all.begin(), all.end());
  return result;
}

grtResult_t Deferred::JoinIfConflict(Process* process, cudaStream_t stream,
                                     const Touched& touched) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = unjoined_.find({process, stream});
    if (at == unjoined_.end()) return grtSuccess;
    if (std::none_of(at->second.begin(), at->second.end(),
                     [&](const One& one) { return Disturbs(touched, one.touched); })) {
      return grtSuccess;
    }
  }
  return Join(process, stream);
}

void Deferred::Forget(Process* process, cudaStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  unjoined_.erase({process, stream});
}

}  // namespace gordian::runtime::cuda
