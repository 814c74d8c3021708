// W23: A thread that carries gloo's operations out calls only after one of them has ended.
//
// Then it runs what the program has attached to the operation's future. Operations that the front end
// does not see, as those of DistributedDataParallel, may be among them: where more threads carry one
// out than there are operations known, each of them counts as able to call.
#include <algorithm>
#include <map>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model::rules {
namespace {

constexpr size_t kThreadsOfGroup = 2;  // ProcessGroupGloo::Options::threads

}  // namespace

bool CarriesOut(const ThreadState& state) {
  return state.os_state == OsState::kSleeping && state.sleep == ThreadSleep::kOperation;
}

void OperationsEnd(const Process& process, size_t workers, uint32_t node, WaitNodes* nodes) {
  std::map<CommId, size_t> carried_out;
  for (const auto& [key, id] : process.host_launches) {
    if (std::get<PartKind>(key) == PartKind::kCollective) ++carried_out[std::get<CommId>(key)];
    const uint32_t done = nodes->DoneOf(id);
    if (done != kNoNode) nodes->WaitDiscouraged(node, done, Reason::kNotCalled);
  }
  size_t known = 0;
  for (const auto& [comm, count] : carried_out) known += std::min(count, kThreadsOfGroup);
  if (workers > known) {
    nodes->Wait(node, nodes->Leaf(LeafKind::kAsleep, process.info.process), Reason::kNotCalled);
  }
}

}  // namespace gordian::model::rules
