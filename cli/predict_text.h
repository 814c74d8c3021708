// The words and the JSON of predictions, for `gordian predict` and for the page.
#ifndef GORDIAN_CLI_PREDICT_TEXT_H_
#define GORDIAN_CLI_PREDICT_TEXT_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "replayer/predict/predict.h"

namespace gordian::cli {

// A freedom, as people and options name it.
struct FreedomText {
  const char* name;
  const char* assume;    // of --assume: switches it off
  const char* rests_on;  // why gordian takes it for free
  const char* advice;    // what to change
};
const FreedomText& TextOf(replayer::Freedom freedom);
// Lines: what findings with this freedom rest on, and what to change.
std::string RestsOnText(replayer::Freedom freedom);

// Lines: the calls that were not judged, and why.
std::string NotJudgedText(const replayer::Predictions& predictions);

// Names the calls of a prediction, which must outlive it, as people know them.
class CallNames {
 public:
  explicit CallNames(const replayer::Prediction& prediction);

  const replayer::Op& OpOf(replayer::OpId id) const { return *places_.at(id).op; }
  int RankOf(replayer::OpId id) const { return schedule_.ranks[places_.at(id).rank].rank; }
  size_t ThreadOf(replayer::OpId id) const { return places_.at(id).thread + 1; }
  std::string CommOf(replayer::OpId id) const;
  // "AllReduce on dp at train.cc:12 step()".
  std::string Describe(replayer::OpId id) const;
  nlohmann::ordered_json ToJson(replayer::OpId id) const;

 private:
  struct Place {
    const replayer::Op* op = nullptr;
    size_t rank = 0, thread = 0;
  };
  const replayer::Schedule& schedule_;
  std::unordered_map<replayer::OpId, Place> places_;
};

// "rank 0 waits for rank 1, which waits for rank 0"; "rank 0 meets rank 1 in another all-reduce".
std::string SummaryText(const replayer::Prediction& prediction);

// Lines: who would wait where, and the order that leads there.
std::string PredictionText(const replayer::Prediction& prediction);

// As an element of "predicted" in gordian.predict.v1.
nlohmann::ordered_json PredictionJson(const replayer::Prediction& prediction);

// The order that its witness forces, call by call: schema gordian.schedule.v1.
nlohmann::ordered_json ScheduleJson(const replayer::Prediction& prediction);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_PREDICT_TEXT_H_
