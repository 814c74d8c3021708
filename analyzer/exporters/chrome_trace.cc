// Writes a timeline in Chrome's Trace Event Format, which Perfetto and chrome://tracing open: a
// process for each rank, a track for each of its streams, a slice for each operation.
//
// Facts: the document "Trace Event Format"; times are microseconds. Slices of a track must not
// overlap: one begins, at the earliest, where the one before it on its stream ends.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "analyzer/exporters/formats.h"
#include "analyzer/model/collective.h"
#include "analyzer/model/verdict/names.h"

namespace gordian::exporters {
namespace {

using nlohmann::ordered_json;

ordered_json Metadata(const char* what, int rank, uint32_t stream, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", stream}, {"args", {{"name", name}}}};
}

}  // namespace

StatusOr<Exported> WriteChromeTrace(const Job& job) {
  const OperationLog& log = job.log;
  const uint64_t origin = log.first_ns();
  const auto micros = [&](uint64_t ns) {
    return static_cast<double>(ns - std::min(ns, origin)) / 1e3;
  };
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  const char* separator = "\n";
  const auto add = [&](const ordered_json& event) {
    text += separator + event.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    separator = ",\n";
  };
  for (const auto& [rank, logged] : log.ranks()) {
    add(Metadata("process_name", rank, 0, "rank " + std::to_string(rank)));
    std::map<uint32_t, uint64_t> free_from;  // by stream
    for (const LoggedOperation& operation : logged.operations) {
      const auto [free, fresh] = free_from.try_emplace(operation.stream, 0);
      if (fresh) {
        add(Metadata("thread_name", rank, operation.stream,
                     "stream " + std::to_string(operation.stream)));
      }
      const bool done = operation.progress == Progress::kDone;
      const uint64_t begin = std::max(operation.called_ns, free->second);
      const uint64_t end = std::max(begin, done ? operation.done_ns : log.last_ns());
      const LoggedGroup& group = log.groups()[static_cast<size_t>(operation.group)];
      const std::string name = std::string(model::Name(operation.call)) + " #" +
                               std::to_string(operation.sequence) + " on " + group.name;
      ordered_json event = {
          {"name", name},
          {"cat", done ? "done" : "unfinished"},
          {"pid", rank},
          {"tid", operation.stream},
          {"args",
           {{"state", Name(operation.progress)},
            {"called_us", micros(operation.called_ns)},
            {"count", operation.count},
            {"bytes", operation.count * model::DatatypeBytes(operation.datatype)},
            {"root_or_peer", operation.root_or_peer},
            {"thread", operation.thread},
            {"site", analyzer::ShortForm(operation.site, operation.site_address)}}}};
      if (operation.progress == Progress::kCalled) {  // it waits its turn: a moment, no slice
        event["ph"] = "i";
        event["s"] = "t";
        event["ts"] = micros(operation.called_ns);
      } else {
        event["ph"] = "X";
        event["ts"] = micros(begin);
        event["dur"] = static_cast<double>(end - begin) / 1e3;
        free->second = end;
      }
      add(event);
    }
  }
  text += "\n]}\n";
  Exported exported;
  exported.files.emplace_back("", std::move(text));
  exported.notes.push_back(
      "an operation ends when a round finds it done, and rounds come every 100 ms: short ones look "
      "long");
  return exported;
}

}  // namespace gordian::exporters
