// Members that contradict each other, by the rules of NCCL: the k-th collectives that they have
// called on a communicator, and the k-th transfer from one rank to another.
#include <map>
#include <set>
#include <tuple>

#include "tests/unit/model/sim/sim_job.h"

namespace gordian::model::testing {

std::set<int> SimJob::Contradictions() const {
  using Collective = std::tuple<Call, uint64_t, int, int, int>;
  std::map<std::pair<int, uint64_t>, std::set<Collective>> collectives;
  std::map<std::tuple<int, int, int, uint64_t>, std::set<uint64_t>> transfers;
  std::set<int> found;
  const auto add = [&](int process, const OpPart& part) {
    const Op& op = part.op;
    if (op.what == Do::kCollective) {
      auto& calls = collectives[{op.comm, part.sequence}];
      calls.insert({op.call, op.count, op.datatype, op.reduce_op, op.root_or_peer});
      if (calls.size() > 1) found.insert(op.comm);
      return;
    }
    const int me = RankIn(op.comm, process), peer = op.root_or_peer;
    const bool sends = op.what == Do::kSend;
    auto& counts = transfers[{op.comm, sends ? me : peer, sends ? peer : me, part.sequence}];
    counts.insert(op.count);
    if (counts.size() > 1) found.insert(op.comm);
  };
  for (const Launch& launch : launches_) {
    for (const OpPart& part : launch.parts) add(launch.process, part);
  }
  for (int process = 0; process < static_cast<int>(procs_.size()); ++process) {
    // In the call, and not enqueued yet.
    if (!procs_[process].in_call) continue;
    for (const OpPart& part : procs_[process].group_ops) add(process, part);
  }
  return found;
}

}  // namespace gordian::model::testing
