// Stream-ordered writes of, and waits for, values in memory.
#include <atomic>
#include <cstdio>
#include <utility>

#include "emulator/engine/engine_impl.h"
#include "emulator/engine/graph/graphs_impl.h"

namespace gordian::emu {
namespace {

uint64_t Load(const ValueRequest& request) {
  if (request.bytes == 4) {
    return __atomic_load_n(static_cast<const uint32_t*>(request.address), __ATOMIC_ACQUIRE);
  }
  return __atomic_load_n(static_cast<const uint64_t*>(request.address), __ATOMIC_ACQUIRE);
}

void Store(const ValueRequest& request) {
  if (request.bytes == 4) {
    __atomic_store_n(static_cast<uint32_t*>(request.address), static_cast<uint32_t>(request.value),
                     __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(static_cast<uint64_t*>(request.address), request.value, __ATOMIC_RELEASE);
  }
}

// Compares the difference, so that "greater" survives a wrap-around.
bool Satisfied(const ValueRequest& request) {
  const uint64_t now = Load(request);
  const uint64_t mask = request.bytes == 4 ? 0xffff'ffff : ~uint64_t{0};
  switch (request.condition) {
    case ValueCondition::kGreaterOrEqual:
      return request.bytes == 4 ? static_cast<int32_t>(static_cast<uint32_t>(now) -
                                                       static_cast<uint32_t>(request.value)) >= 0
                                : static_cast<int64_t>(now - request.value) >= 0;
    case ValueCondition::kEqual:
      return now == (request.value & mask);
    case ValueCondition::kAnd:
      return (now & request.value & mask) != 0;
    case ValueCondition::kNor:
      return (~(now | request.value) & mask) != 0;
  }
  return false;
}

}  // namespace

int EngineImpl::CheckValue(const ValueRequest& request) {
  Allocation found;
  const bool aligned = reinterpret_cast<uintptr_t>(request.address) % request.bytes == 0;
  return aligned && memory_->Find(request.address, request.bytes, &found) ? kSuccess
                                                                          : kInvalidValue;
}

// Graphs have no such nodes: batches of memory operations are not emulated.
int EngineImpl::CheckValueCapture(const Stream& stream) {
  const int status = graphs_->CheckNotCapturing(stream);
  static std::atomic<bool> said{false};
  if (stream.capture != nullptr && !said.exchange(true)) {
    fprintf(stderr, "gordian emulator: stream wait and write values cannot be captured\n");
  }
  return status;
}

int EngineImpl::WriteValue(const ValueRequest& request, void* handle) {
  if (const int status = Prepare(handle)) return status;
  if (const int status = CheckValue(request)) return status;
  const auto task =
      std::make_shared<Task>(request.barrier ? TaskKind::kValueWrite : TaskKind::kMarker);
  task->work = [request] { Store(request); };
  Scheduler::Section section(*scheduler_);
  Stream* const stream = Resolve(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (const int status = CheckValueCapture(*stream)) return status;
  SubmitOn(stream, task);
  return kSuccess;
}

int EngineImpl::WaitValue(const ValueRequest& request, void* handle) {
  if (const int status = Prepare(handle)) return status;
  if (const int status = CheckValue(request)) return status;
  const auto task = std::make_shared<Task>(TaskKind::kValueWait);
  task->satisfied = [request] { return Satisfied(request); };
  Scheduler::Section section(*scheduler_);
  Stream* const stream = Resolve(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (const int status = CheckValueCapture(*stream)) return status;
  SubmitOn(stream, task);
  return kSuccess;
}

}  // namespace gordian::emu
