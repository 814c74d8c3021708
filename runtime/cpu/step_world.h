// Step plans on real data, one step of one rank at a time: all ranks of one host as explicit state.
// An operation can be left after any step and gone on with from 32 bytes; any number of operations
// may be under way between the same ranks, in any order at each.
//
// A step sends as soon as its lane has room for a message, and ends once its own message has come;
// a lane (one operation, one pair of ranks) holds one message. Nothing here waits: who cannot go on
// says so. Not thread-safe; memory of the job is the caller's.
#ifndef GORDIAN_RUNTIME_CPU_STEP_WORLD_H_
#define GORDIAN_RUNTIME_CPU_STEP_WORLD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "runtime/core/elements.h"
#include "runtime/core/step_plan.h"

namespace gordian::runtime {

// All that is kept of an operation at a rank between two steps.
struct StepContext {
  uint32_t pc = 0;
  uint32_t slice = 0;  // 1: the message of this step is out
  uint64_t sent = 0;   // messages
  uint64_t received = 0;
  uint32_t state = 0;  // 1: done
  uint32_t owner = 0;  // who runs it
};
static_assert(sizeof(StepContext) == 32);

enum class StepResult : uint8_t { kAdvanced, kNotReady, kDone };

// One operation at all ranks.
struct StepOperation {
  StepPlan plan;
  DataType type = DataType::kFloat;
  Operator op = Operator::kSum;  // reduce-scatter
  size_t count = 0;              // elements a block
  // Of each rank: Ranks(plan) blocks. All-gather: its own block holds its data, afterwards all do.
  // Reduce-scatter: all hold its contributions, afterwards its own block the result, and the others
  // anything.
  std::vector<void*> buffers;
};

class StepWorld {
 public:
  // The plan must be valid. Returns the operation's number.
  int Add(StepOperation operation);

  // One step of an operation at a rank, or nothing.
  StepResult TryStep(int operation, uint32_t rank, StepContext* context);

  // Messages that lie in lanes.
  size_t InFlight() const { return lanes_.size(); }

 private:
  size_t BlockBytes(const StepOperation& o) const { return o.count * SizeOf(o.type); }

  std::vector<StepOperation> operations_;
  std::map<std::tuple<int, uint32_t, uint32_t>, std::vector<unsigned char>> lanes_;
};

}  // namespace gordian::runtime

#endif  // GORDIAN_RUNTIME_CPU_STEP_WORLD_H_
