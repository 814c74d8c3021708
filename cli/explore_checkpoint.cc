#include "cli/explore_checkpoint.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/json_text.h"
#include "common/read_file.h"
#include "common/version.h"

namespace gordian::cli {
namespace {

using nlohmann::json;
using replayer::WindowState;

constexpr char kSchema[] = "gordian.checkpoint.v1";

json BoundJson(const std::optional<size_t>& bound) { return bound ? json(*bound) : json(); }

// The bounds by the names of their options.
json BoundsJson(const ExploreBounds& bounds) {
  return {{"--preemptions", BoundJson(bounds.preemptions)},
          {"--depth", BoundJson(bounds.depth)},
          {"--window", bounds.window},
          {"--max-calls", bounds.max_calls},
          {"--assume threads-ordered", bounds.threads_ordered}};
}

std::string BoundText(const json& bound) { return bound.is_null() ? "none" : bound.dump(); }

json CountsJson(const explore::ExploreCounts& counts) {
  return {counts.states, counts.ends, counts.merged, counts.asleep, counts.cut};
}

explore::ExploreCounts CountsOf(const json& counts) {
  const auto all = counts.get<std::vector<size_t>>();
  return {all.at(0), all.at(1), all.at(2), all.at(3), all.at(4)};
}

WindowState WindowOf(const json& window) {
  WindowState state;
  state.digest = window.at("calls").get<uint64_t>();
  state.done = window.at("done").get<bool>();
  state.frontier.counts = CountsOf(window.at("counts"));
  for (const json& open : window.at("open")) {
    explore::OpenState& into = state.frontier.open.emplace_back();
    into.path = open.at("path").get<std::vector<uint32_t>>();
    into.asleep = open.at("asleep").get<std::vector<uint32_t>>();
    into.preemptions = open.at("preemptions").get<size_t>();
    into.parent = open.at("parent").get<uint64_t>();
    into.branch = open.at("branch").get<uint32_t>();
  }
  for (const json& end : window.at("ends"))
    state.ends.push_back(
        {end.at("number").get<uint64_t>(), end.at("path").get<std::vector<uint32_t>>()});
  return state;
}

}  // namespace

std::string CheckpointText(const ExploreCheckpoint& checkpoint) {
  json document = {{"schema", kSchema},
                   {"gordian_version", kVersion},
                   {"bounds", BoundsJson(checkpoint.bounds)},
                   {"windows", json::array()}};
  for (const WindowState& state : checkpoint.windows) {
    json window = {{"calls", state.digest},
                   {"done", state.done},
                   {"counts", CountsJson(state.frontier.counts)},
                   {"open", json::array()},
                   {"ends", json::array()}};
    for (const explore::OpenState& open : state.frontier.open)
      window["open"].push_back({{"path", open.path},
                                {"asleep", open.asleep},
                                {"preemptions", open.preemptions},
                                {"parent", open.parent},
                                {"branch", open.branch}});
    for (const replayer::KeptEnd& end : state.ends)
      window["ends"].push_back({{"number", end.number}, {"path", end.path}});
    document["windows"].push_back(std::move(window));
  }
  return document.dump() + "\n";
}

StatusOr<ExploreCheckpoint> ReadCheckpoint(const std::string& path, const ExploreBounds& bounds) {
  const StatusOr<std::string> text = ReadWholeFile(path);
  GORDIAN_RETURN_IF_ERROR(text.status());
  const auto document = ParseJson<json>(*text);
  if (!document.is_object() || document.value("schema", json()) != kSchema)
    return Status::InvalidArgument(path + " is no checkpoint of gordian explore");
  if (document.value("gordian_version", json()) != kVersion)
    return Status::InvalidArgument(path + " is of another version of gordian: remove it");
  const json wanted = BoundsJson(bounds);
  const json had = document.value("bounds", json::object());
  for (const auto& [name, value] : wanted.items()) {
    const json its = had.value(name, json());
    if (its != value)
      return Status::InvalidArgument(path + " was begun with another " + name + ": " +
                                     BoundText(its) + ", now " + BoundText(value) +
                                     "; give the same, or another file");
  }
  ExploreCheckpoint checkpoint{.bounds = bounds, .windows = {}};
  try {
    for (const json& window : document.at("windows"))
      checkpoint.windows.push_back(WindowOf(window));
  } catch (const std::exception& error) {
    return Status::InvalidArgument(path + " is damaged: " + error.what());
  }
  return checkpoint;
}

}  // namespace gordian::cli
