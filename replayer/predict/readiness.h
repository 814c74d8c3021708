// Deadlocks and mismatches of calls that come in the order in which their data gets ready, as the
// all-reduces of fused gradients do (Horovod, PyTorch's DistributedDataParallel without its fixed
// order of buckets).
//
// No trace shows that such an order is free: one thread makes the calls. So the job says it, of
// lines of its program. What it says is this and no more: where a thread makes several calls at such
// a line, one behind the other, on one communicator and stream, it may make them in any order, and
// in another order than other ranks do. With a call move the events that its stream waits for
// before it, and the event that is recorded behind it. Any other recorded call between two of them
// (an event that they do not wait for, a host wait, another operation) keeps its place, and so does
// what is before and after it.
//
// Two calls of such a run that change places at one rank meet calls of other ranks with another
// size. The machine of model_run.h, which knows what NCCL was measured to do then, says whether a
// rank hangs.
//
// Pure, deterministic.
#ifndef GORDIAN_REPLAYER_PREDICT_READINESS_H_
#define GORDIAN_REPLAYER_PREDICT_READINESS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "replayer/predict/prediction.h"
#include "replayer/predict/recorded_orders.h"

namespace gordian::replayer {

// `text` is a call site as people see it, "train.py:88 step()"; `site` a line, "train.py:88".
bool IsAt(const std::string& text, const std::string& site);

// At most one for each line of orders.ready_sites: the worst that two of its calls can do. All of
// them are in doubt, since they rest on the job's word; Prediction::run_decides is set where a rank
// hangs. Of each line and communicator, it tries so many pairs of sizes.
std::vector<Prediction> PredictReadiness(const RecordedOrders& orders, size_t max_pairs = 100);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_READINESS_H_
