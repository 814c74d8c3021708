// A schedule as analyzer/explore sees it: the calls of its threads, and a machine (model_run.h)
// that makes them one by one.
#ifndef GORDIAN_REPLAYER_PREDICT_SCHEDULE_STATE_H_
#define GORDIAN_REPLAYER_PREDICT_SCHEDULE_STATE_H_

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/explore/collective_order_graph.h"
#include "analyzer/explore/explorable.h"
#include "replayer/predict/recorded_orders.h"
#include "replayer/record/schedule.h"
#include "replayer/reduce/model_run_machine.h"

namespace gordian::replayer {

struct Feet {
  explore::Footprint next, rest;  // of a call; of it and all that follow in its thread
};
// By rank, thread and call.
using Footprints = std::vector<std::vector<std::vector<Feet>>>;
Footprints FootprintsOf(const Schedule& schedule);

// Actors are threads, in the order of ranks and their threads. `schedule` and `footprints` must
// outlive it and all its clones.
class ScheduleState : public explore::Explorable {
 public:
  ScheduleState(const Schedule& schedule, const Footprints& footprints);

  std::unique_ptr<explore::Explorable> Clone() const override {
    return std::make_unique<ScheduleState>(*this);
  }
  std::vector<explore::Actor> Actors() const override;
  void Move(size_t actor) override;
  std::string Key() const override { return machine_.Key(); }
  size_t Bytes() const override;

  const Machine& machine() const { return machine_; }
  // Of an actor.
  size_t RankOf(size_t actor) const { return places_[actor].first; }
  size_t ThreadOf(size_t actor) const { return places_[actor].second; }

 private:
  bool Yields(size_t rank, size_t thread, const Op* next) const;

  Machine machine_;
  const Schedule& schedule_;
  const Footprints& footprints_;
  std::vector<std::pair<size_t, size_t>> places_;
  // Where each call that a gate names is.
  std::shared_ptr<const std::unordered_map<OpId, explore::Step>> gating_;
};

// The same calls for the graph. `ids` names each one; a group of calls is one call.
struct OrderedCalls {
  std::vector<explore::OrderedCall> calls;
  std::vector<const Op*> ops;        // the call, or the end of the group
  std::vector<explore::Step> steps;  // the same as an actor's
};
OrderedCalls OrderedCallsOf(const RecordedOrders& orders);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_SCHEDULE_STATE_H_
