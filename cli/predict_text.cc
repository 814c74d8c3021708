#include "cli/predict_text.h"

#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "replayer/record/buffers.h"

namespace gordian::cli {

using replayer::CallOrder;
using replayer::Freedom;
using replayer::Op;
using replayer::OpId;
using replayer::Prediction;

namespace {

constexpr FreedomText kThreadsUnordered = {
    "threads-unordered", "threads-ordered",
    "gordian saw nothing that orders these threads; it sees events, starts and ends of threads, no "
    "locks or flags.",
    "Give these calls one order at every rank: make them from one thread, or let one thread wait "
    "for the other's call."};
constexpr FreedomText kReadinessOrdered = {
    "readiness-ordered", "buckets-ordered",
    "the job says of these lines, in GORDIAN_READINESS_ORDERED, that their calls come in any "
    "order, at each rank in another one.",
    "Give these calls one order at every rank: launch them in a fixed order, or let the ranks "
    "agree "
    "on what is ready."};

// "AllReduce of 4,096 B on dp".
std::string WithBytes(const CallNames& names, OpId id) {
  std::string text = replayer::Name(names.OpOf(id).kind);
  text += " of " + WithCommas(replayer::Bytes(names.OpOf(id))) + " B";
  if (const std::string comm = names.CommOf(id); !comm.empty()) text += " on " + comm;
  return text;
}

std::string MeetingText(const CallNames& names, const Prediction& prediction) {
  const OpId own = prediction.cycle.at(0), other = prediction.cycle.at(1);
  std::string text = "  rank " + std::to_string(names.RankOf(own)) + " would call " +
                     WithBytes(names, own) + ", and rank " + std::to_string(names.RankOf(other)) +
                     " " + WithBytes(names, other) + ", at " + names.OpOf(own).site + "\n";
  const CallOrder& order = prediction.orders.at(0);
  return text + "  the order that leads there:\n    rank " +
         std::to_string(names.RankOf(order.first)) + " calls " + WithBytes(names, order.first) +
         " before " + WithBytes(names, order.second) + "; recorded the other way round\n";
}

}  // namespace

const FreedomText& TextOf(Freedom freedom) {
  return freedom == Freedom::kReadinessOrdered ? kReadinessOrdered : kThreadsUnordered;
}

std::string RestsOnText(Freedom freedom) {
  const FreedomText& text = TextOf(freedom);
  return std::string("rests on ") + text.name + ": " + text.rests_on +
         "\nIf they are ordered: --assume " + text.assume + "\nwhat to change: " + text.advice +
         "\n\n";
}

std::string NotJudgedText(const replayer::Predictions& predictions) {
  std::string text;
  if (predictions.left_out > 0)
    text += WithCommas(predictions.left_out) +
            " calls before these were not judged: communicators were made or ended after them\n";
  for (const std::string& reason : predictions.not_judged) text += "not judged: " + reason + "\n";
  return text;
}

CallNames::CallNames(const Prediction& prediction) : schedule_(prediction.witness) {
  ForEachOp(schedule_, [this](size_t rank, size_t thread, const Op& op) {
    places_[op.id] = {&op, rank, thread};
  });
  for (const auto& [rank, thread, op] : prediction.unreached) places_[op.id] = {&op, rank, thread};
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
          {"bytes", replayer::Bytes(OpOf(id))},
          {"communicator", CommOf(id)},
          {"site", OpOf(id).site}};
}

std::string SummaryText(const Prediction& prediction) {
  const CallNames names(prediction);
  const std::vector<OpId>& cycle = prediction.cycle;
  if (prediction.freedom == Freedom::kReadinessOrdered)
    return "rank " + std::to_string(names.RankOf(cycle.at(0))) + " meets rank " +
           std::to_string(names.RankOf(cycle.at(1))) + " in another " +
           replayer::Name(names.OpOf(cycle.at(0)).kind);
  std::string text = "rank " + std::to_string(names.RankOf(cycle.front()));
  for (size_t i = 1; i <= cycle.size(); ++i) {
    text += i == 1 ? " waits for rank " : ", which waits for rank ";
    text += std::to_string(names.RankOf(cycle[i % cycle.size()]));
  }
  return text;
}

std::string PredictionText(const Prediction& prediction) {
  const CallNames names(prediction);
  std::string text;
  if (prediction.freedom == Freedom::kReadinessOrdered) {
    text = MeetingText(names, prediction);
    if (prediction.alike > 0)
      text +=
          "  " + WithCommas(prediction.alike) + " more pairs of sizes may change places there\n";
    return text;
  }
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
  const CallNames names(prediction);
  nlohmann::ordered_json json = {{"check", prediction.witness.origin.check},
                                 {"freedoms", {TextOf(prediction.freedom).name}},
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

nlohmann::ordered_json ScheduleJson(const Prediction& prediction) {
  const CallNames names(prediction);
  nlohmann::ordered_json json = {{"schema", "gordian.schedule.v1"},
                                 {"steps", nlohmann::ordered_json::array()}};
  for (const OpId id : prediction.begun) json["steps"].push_back(names.ToJson(id));
  return json;
}

}  // namespace gordian::cli
