#include "runtime/cpu/step_world.h"

#include <cstring>
#include <utility>

namespace gordian::runtime {

int StepWorld::Add(StepOperation operation) {
  operations_.push_back(std::move(operation));
  return static_cast<int>(operations_.size()) - 1;
}

StepResult StepWorld::TryStep(int operation, uint32_t rank, StepContext* context) {
  const StepOperation& o = operations_[operation];
  if (context->state != 0) return StepResult::kDone;
  auto* buffer = static_cast<unsigned char*>(o.buffers[rank]);
  const size_t bytes = BlockBytes(o);
  const bool reduces = o.plan.kind == PlanKind::kReduceScatter;
  if (context->pc == StepCount(o.plan)) {
    if (reduces && o.op == Operator::kAverage) {
      Divide(o.type, buffer + rank * bytes, o.count, Ranks(o.plan));
    }
    context->state = 1;
    return StepResult::kAdvanced;
  }
  const PlanStep step = StepAt(o.plan, rank, context->pc);
  if (context->slice == 0) {
    const auto lane = std::make_tuple(operation, rank, step.to);
    if (lanes_.contains(lane)) return StepResult::kNotReady;
    std::vector<unsigned char> message(step.send.count * bytes);
    for (uint32_t i = 0; i < step.send.count; ++i) {
      std::memcpy(message.data() + i * bytes, buffer + step.send.At(i) * bytes, bytes);
    }
    lanes_.emplace(lane, std::move(message));
    context->slice = 1;
    ++context->sent;
    return StepResult::kAdvanced;
  }
  const auto lane = lanes_.find(std::make_tuple(operation, step.from, rank));
  if (lane == lanes_.end()) return StepResult::kNotReady;
  for (uint32_t i = 0; i < step.receive.count; ++i) {
    unsigned char* to = buffer + step.receive.At(i) * bytes;
    const unsigned char* from = lane->second.data() + i * bytes;
    if (step.reduce) {
      Combine(o.type, o.op, to, from, o.count);
    } else {
      std::memcpy(to, from, bytes);
    }
  }
  lanes_.erase(lane);
  ++context->received;
  context->slice = 0;
  ++context->pc;
  return StepResult::kAdvanced;
}

}  // namespace gordian::runtime
