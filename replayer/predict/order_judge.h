// Judges the ends of other orders of a recorded job's calls: the wait model (model_run.h) says what
// each is, and only what gates can force is a deadlock.
#ifndef GORDIAN_REPLAYER_PREDICT_ORDER_JUDGE_H_
#define GORDIAN_REPLAYER_PREDICT_ORDER_JUDGE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/explore/explorable.h"
#include "replayer/predict/prediction.h"
#include "replayer/predict/recorded_orders.h"
#include "replayer/predict/schedule_state.h"
#include "replayer/reduce/model_run.h"

namespace gordian::replayer {

struct JudgedEnd {
  enum class Kind : uint8_t {
    kFinished,
    kDeadlock,
    kUnforced,  // no program can force that order
    kOther,     // another verdict
  };
  Kind kind = Kind::kFinished;
  Prediction prediction;  // kDeadlock
  std::string verdict;    // kOther
};

// What was met that is no deadlock: nothing is claimed about these orders.
struct OtherEnds {
  std::set<std::string> verdicts;
  bool unforced = false;

  void Add(const JudgedEnd& end);
  void NoteIn(Predictions* predictions) const;
};

// Its const functions may be called by several threads at once.
class OrderJudge {
 public:
  // `orders` must outlive it.
  explicit OrderJudge(const RecordedOrders& orders);
  OrderJudge(const OrderJudge&) = delete;
  OrderJudge& operator=(const OrderJudge&) = delete;

  // Where nothing has moved yet.
  const ScheduleState& root() const { return root_; }
  // Notes what is judged. Returns whether there are orders to try.
  bool Begin(Predictions* predictions) const;
  // `state`: one in which nothing moves any more; `path`: the way there from the root. Where no
  // program can force that order it may judge a like one, and then says its preemptions.
  JudgedEnd Judge(const explore::Explorable& state, const std::vector<explore::Step>& path) const;
  // "AllReduce train.cc:12 step()".
  std::string SiteOf(const Op& op) const;

 private:
  struct Place {
    size_t rank = 0, thread = 0;
    const Op* op = nullptr;
    explore::Step step;  // the same as an actor's
  };
  // When a call began and returned; UINT64_MAX: it did not.
  struct Moments {
    uint64_t begun = UINT64_MAX, returned = UINT64_MAX;
  };
  struct Order {
    std::vector<std::vector<OpId>> begun;  // by rank
    std::unordered_map<OpId, Moments> moments;
    std::vector<OpId> all;  // as they begin
    std::set<OpId> held;    // where nothing moves: calls at whose gates threads wait
  };

  const Op& OpOf(const explore::Step& step) const;
  JudgedEnd JudgeOrder(const explore::Explorable& state,
                       const std::vector<explore::Step>& path) const;
  std::vector<std::vector<explore::Step>> AsReturned(const Order& order) const;
  bool HangsAnyhow(const Schedule& forced) const;
  Order Recorded() const;
  Order OrderOf(const std::vector<explore::Step>& path,
                const std::vector<explore::Actor>& end) const;
  // The calls that it leaves out go to `unreached`, if set.
  Schedule Forced(const Order& order, std::vector<UnreachedCall>* unreached = nullptr) const;
  static std::vector<UnreachedCall> DropUnreached(const Order& order, Schedule* forced);
  Prediction Describe(const ModelRun& run, const Order& order, Schedule forced) const;
  std::vector<CallOrder> Needed(const std::vector<OpId>& cycle, const Order& order) const;
  bool AsRecorded(OpId first, OpId second) const;
  static bool Before(OpId first, OpId second, const Order& order);
  std::optional<CallOrder> FirstReversed(size_t rank, const Order& order) const;
  std::string Doubt(const std::vector<CallOrder>& orders) const;

  const RecordedOrders& orders_;
  const Schedule& schedule_;
  const Footprints footprints_;
  const ScheduleState root_;
  std::unordered_map<OpId, Place> places_;
};

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_ORDER_JUDGE_H_
