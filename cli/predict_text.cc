#include "cli/predict_text.h"

#include <nlohmann/json.hpp>

#include "cli/output.h"

namespace gordian::cli {

using replayer::CallOrder;
using replayer::Op;
using replayer::OpId;
using replayer::Prediction;

CallNames::CallNames(const replayer::Schedule& schedule) : schedule_(schedule) {
  ForEachOp(schedule, [this](size_t rank, size_t thread, const Op& op) {
    places_[op.id] = {&op, rank, thread};
  });
}

std::string CallNames::CommOf(OpId id) const {
  const Op& op = OpOf(id);
  if (op.comm < 0) return "";
  const replayer::Communicator& comm = schedule_.comms[static_cast<size_t>(op.comm)];
  return comm.label.empty() ? comm.name : comm.label;
}

std::string CallNames::Describe(OpId id) const {
  std::string text = replayer::Name(OpOf(id).kind);
  if (const std::string comm = CommOf(id); !comm.empty()) text += " on " + comm;
  if (const std::string& site = OpOf(id).site; !site.empty()) text += " at " + site;
  return text;
}

nlohmann::ordered_json CallNames::ToJson(OpId id) const {
  return {{"rank", RankOf(id)},
          {"thread", ThreadOf(id)},
          {"call", replayer::Name(OpOf(id).kind)},
          {"communicator", CommOf(id)},
          {"site", OpOf(id).site}};
}

std::string CycleText(const CallNames& names, const std::vector<OpId>& cycle) {
  std::string text = "rank " + std::to_string(names.RankOf(cycle.front()));
  for (size_t i = 1; i <= cycle.size(); ++i) {
    text += i == 1 ? " waits for rank " : ", which waits for rank ";
    text += std::to_string(names.RankOf(cycle[i % cycle.size()]));
  }
  return text;
}

std::string PredictionText(const Prediction& prediction) {
  const CallNames names(prediction.witness);
  std::string text;
  for (const OpId id : prediction.cycle) {
    text += "  rank " + std::to_string(names.RankOf(id)) + " would wait in " + names.Describe(id) +
            " (thread " + std::to_string(names.ThreadOf(id)) + ")\n";
  }
  text += "  the order that leads there:\n";
  for (const CallOrder& order : prediction.orders) {
    text += "    rank " + std::to_string(names.RankOf(order.first)) + ": thread " +
            std::to_string(names.ThreadOf(order.first)) + " calls " + names.Describe(order.first) +
            "\n      before thread " + std::to_string(names.ThreadOf(order.second)) + " calls " +
            names.Describe(order.second) +
            (order.as_recorded ? ", as recorded\n" : "; recorded the other way round\n");
  }
  if (prediction.alike > 0)
    text +=
        "  " + WithCommas(prediction.alike) + " more between other ranks or calls at these lines\n";
  return text;
}

nlohmann::ordered_json PredictionJson(const Prediction& prediction) {
  const CallNames names(prediction.witness);
  nlohmann::ordered_json json = {{"check", prediction.witness.origin.check},
                                 {"freedoms", {kThreadsUnordered}},
                                 {"sites", prediction.sites},
                                 {"cycle", nlohmann::ordered_json::array()},
                                 {"orders", nlohmann::ordered_json::array()},
                                 {"alike", prediction.alike}};
  for (const OpId id : prediction.cycle) json["cycle"].push_back(names.ToJson(id));
  for (const CallOrder& order : prediction.orders) {
    json["orders"].push_back({{"first", names.ToJson(order.first)},
                              {"then", names.ToJson(order.second)},
                              {"as_recorded", order.as_recorded}});
  }
  return json;
}

}  // namespace gordian::cli
