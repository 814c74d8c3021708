#include "cli/web/predictions.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/predict_text.h"
#include "common/clock.h"
#include "replayer/predict/predict.h"
#include "replayer/predict/recorded_orders.h"

namespace gordian::cli {
namespace {

using nlohmann::ordered_json;

// What it finds by then is as true as what it finds later.
constexpr uint64_t kLongestNs = 5 * kNsPerSecond;

ordered_json Found(const std::vector<replayer::Prediction>& predictions) {
  ordered_json list = ordered_json::array();
  for (const replayer::Prediction& one : predictions) {
    ordered_json json = PredictionJson(one);
    json["confidence"] = one.doubt.empty() ? "predicted" : "not confirmed";
    json["doubt"] = one.doubt;
    json["summary"] = SummaryText(one);
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

std::string PredictionsJson(const std::string& path) {
  const uint64_t end_ns = MonoNs() + kLongestNs;
  replayer::PredictOptions options;
  options.progress = [end_ns](const replayer::PredictProgress&) { return MonoNs() < end_ns; };
  replayer::JobPredictor predictor(options);
  // What the job says must be run, which the page does not do.
  const replayer::OrdersOptions orders_options{
      .buckets_ordered = true, .knows = [&](size_t window) { return predictor.Knows(window); }};
  const Status status =
      replayer::ReadOrders(path, {}, orders_options, [&](replayer::RecordedOrders&& orders) {
        predictor.Take(orders);
        return MonoNs() < end_ns;
      });
  const replayer::Predictions& all = predictor.predictions();
  if (!status.ok()) spdlog::info("page: {}", status.message());
  if (!status.ok() || !all.judged) return "";
  ordered_json found = Found(all.predicted);
  for (ordered_json& one : Found(all.unconfirmed)) found.push_back(std::move(one));
  if (found.empty()) return "";
  const FreedomText& freedom = TextOf(replayer::Freedom::kThreadsUnordered);
  const ordered_json json = {{"found", std::move(found)},
                             {"freedom", freedom.name},
                             {"rests_on", freedom.rests_on},
                             {"advice", freedom.advice}};
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace gordian::cli
