#include "cli/explore_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/crc32.h"
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

// Throws where `value` is no number, or one that Number cannot hold. nlohmann's get() would wrap it.
template <typename Number>
Number NumberOf(const json& value) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > uint64_t{std::numeric_limits<Number>::max()})
    throw std::out_of_range("it holds something else where a number has to be, or a larger one");
  return static_cast<Number>(value.get<uint64_t>());
}

template <typename Number>
std::vector<Number> NumbersOf(const json& values) {
  std::vector<Number> numbers;
  for (const json& value : values) numbers.push_back(NumberOf<Number>(value));
  return numbers;
}

explore::ExploreCounts CountsOf(const json& counts) {
  const auto all = NumbersOf<size_t>(counts);
  return {all.at(0), all.at(1), all.at(2), all.at(3), all.at(4)};
}

WindowState WindowOf(const json& window) {
  WindowState state;
  state.digest = NumberOf<uint64_t>(window.at("calls"));
  state.done = window.at("done").get<bool>();
  state.frontier.counts = CountsOf(window.at("counts"));
  for (const json& open : window.at("open")) {
    explore::OpenState& into = state.frontier.open.emplace_back();
    into.same = NumberOf<size_t>(open.at("same"));
    into.then = NumbersOf<uint32_t>(open.at("then"));
    into.asleep = NumbersOf<uint32_t>(open.at("asleep"));
    into.preemptions = NumberOf<size_t>(open.at("preemptions"));
    into.parent = NumberOf<uint64_t>(open.at("parent"));
    into.branch = NumberOf<uint32_t>(open.at("branch"));
  }
  for (const json& end : window.at("ends"))
    state.ends.push_back(
        {NumberOf<uint64_t>(end.at("number")), NumbersOf<uint32_t>(end.at("path"))});
  return state;
}

json WindowJson(const WindowState& state) {
  json window = {{"calls", state.digest},
                 {"done", state.done},
                 {"counts", CountsJson(state.frontier.counts)},
                 {"open", json::array()},
                 {"ends", json::array()}};
  for (const explore::OpenState& open : state.frontier.open)
    window["open"].push_back({{"same", open.same},
                              {"then", open.then},
                              {"asleep", open.asleep},
                              {"preemptions", open.preemptions},
                              {"parent", open.parent},
                              {"branch", open.branch}});
  for (const replayer::KeptEnd& end : state.ends)
    window["ends"].push_back({{"number", end.number}, {"path", end.path}});
  return window;
}

uint32_t CrcOf(std::string_view text) { return Crc32(text.data(), text.size()); }

}  // namespace

std::string CheckpointText(const ExploreCheckpoint& checkpoint) {
  json search = {{"bounds", BoundsJson(checkpoint.bounds)}, {"windows", json::array()}};
  for (const WindowState& state : checkpoint.windows)
    search["windows"].push_back(WindowJson(state));
  const std::string text = search.dump() + "\n";
  const json head = {{"schema", kSchema}, {"gordian_version", kVersion}, {"crc", CrcOf(text)}};
  return head.dump() + "\n" + text;
}

StatusOr<std::optional<ExploreCheckpoint>> ReadCheckpoint(const std::string& path,
                                                          const ExploreBounds& bounds) {
  std::error_code error;  // of a path that cannot be looked up; reading it names the reason
  const std::filesystem::file_status there = std::filesystem::symlink_status(path, error);
  if (there.type() == std::filesystem::file_type::not_found)
    return std::optional<ExploreCheckpoint>();
  // It is not written through a link, so it is not read through one.
  if (std::filesystem::is_symlink(there))
    return Status::InvalidArgument(path + " is a link; name the file that it leads to");
  const StatusOr<std::string> text = ReadWholeFile(path);
  GORDIAN_RETURN_IF_ERROR(text.status());
  const size_t line = std::min(text->find('\n'), text->size());
  const auto head = ParseJson<json>(std::string_view(*text).substr(0, line));
  if (!head.is_object() || head.value("schema", json()) != kSchema)
    return Status::InvalidArgument(path + " is no checkpoint of gordian explore");
  if (head.value("gordian_version", json()) != kVersion)
    return Status::InvalidArgument(path + " is of another version of gordian: remove it");
  const auto damaged = [&](const std::string& why) {
    return Status::DataLoss(path + " is damaged: " + why + "; remove it");
  };
  const std::string_view rest = std::string_view(*text).substr(std::min(line + 1, text->size()));
  if (head.value("crc", json()) != CrcOf(rest)) return damaged("it was cut or changed");
  const auto search = ParseJson<json>(rest);
  const json wanted = BoundsJson(bounds);
  ExploreCheckpoint checkpoint{.bounds = bounds, .windows = {}};
  try {
    const json& had = search.at("bounds");
    for (const auto& [name, value] : wanted.items()) {
      const json& its = had.at(name);
      if (its != value)
        return Status::InvalidArgument(path + " was begun with another " + name + ": " +
                                       BoundText(its) + ", now " + BoundText(value) +
                                       "; give the same, or another file");
    }
    for (const json& window : search.at("windows")) checkpoint.windows.push_back(WindowOf(window));
  } catch (const std::exception& wrong) {
    return damaged(wrong.what());
  }
  return std::optional(std::move(checkpoint));
}

}  // namespace gordian::cli
