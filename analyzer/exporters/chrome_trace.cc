// Writes a timeline in Chrome's Trace Event Format, which Perfetto and chrome://tracing open: a
// process for each rank, a track for each of its streams, a slice for each operation.
//
// Facts: the document "Trace Event Format"; times are microseconds. Slices of a track must not
// overlap: one begins, at the earliest, where the one before it on its stream ends.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "analyzer/exporters/row_format.h"
#include "analyzer/model/collective.h"
#include "analyzer/model/verdict/names.h"
#include "analyzer/model/verdict/number_text.h"

namespace gordian::exporters {
namespace {

using nlohmann::ordered_json;

ordered_json Metadata(const char* what, int rank, uint32_t stream, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", stream}, {"args", {{"name", name}}}};
}

class ChromeTrace final : public RowFormat {
 public:
  using RowFormat::RowFormat;

 private:
  void Begin(const Job& job, std::string* text) override {
    origin_ = job.log.first_ns();
    *text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  }

  void BeginRank(const Job&, int rank, std::string* text) override {
    free_from_.clear();
    Add(Metadata("process_name", rank, 0, "rank " + std::to_string(rank)), text);
  }

  void Row(const Job& job, int rank, uint32_t, const LoggedOperation& operation,
           const std::string& site, std::string* text) override {
    const auto [free, fresh] = free_from_.try_emplace(operation.stream, 0);
    if (fresh) {
      Add(Metadata("thread_name", rank, operation.stream,
                   "stream " + std::to_string(operation.stream)),
          text);
    }
    const bool done = operation.progress == Progress::kDone;
    const uint64_t begin = std::max(operation.called_ns, free->second);
    const uint64_t end = std::max(begin, done ? operation.done_ns : job.log.last_ns());
    const LoggedGroup& group = job.log.groups()[static_cast<size_t>(operation.group)];
    const std::string name = std::string(model::Name(operation.call)) + " " +
                             model::NumberText(operation.sequence) + " on " + group.name;
    ordered_json event = {{"name", name},
                          {"cat", done ? "done" : "unfinished"},
                          {"pid", rank},
                          {"tid", operation.stream},
                          {"args",
                           {{"state", Name(operation.progress)},
                            {"called_us", Micros(operation.called_ns)},
                            {"count", operation.count},
                            {"bytes", operation.count * model::DatatypeBytes(operation.datatype)},
                            {"root_or_peer", operation.root_or_peer},
                            {"thread", operation.thread},
                            {"site", site}}}};
    if (operation.progress == Progress::kCalled) {  // it waits its turn: a moment, no slice
      event["ph"] = "i";
      event["s"] = "t";
      event["ts"] = Micros(operation.called_ns);
    } else {
      event["ph"] = "X";
      event["ts"] = Micros(begin);
      event["dur"] = static_cast<double>(end - begin) / 1e3;
      free->second = end;
    }
    Add(event, text);
  }

  void End(std::string* text) override { *text += "\n]}\n"; }

  std::string Note() const override {
    return "an operation ends when a round finds it done, and rounds come every 100 ms: short ones "
           "look long";
  }

  double Micros(uint64_t ns) const { return static_cast<double>(ns - std::min(ns, origin_)) / 1e3; }
  void Add(const ordered_json& event, std::string* text) {
    *text += separator_ + event.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    separator_ = ",\n";
  }

  uint64_t origin_ = 0;
  const char* separator_ = "\n";
  std::map<uint32_t, uint64_t> free_from_;  // of a rank, by stream
};

}  // namespace

std::unique_ptr<StreamedFormat> StreamChromeTrace(ScratchFile* scratch, size_t keep) {
  return std::make_unique<ChromeTrace>(scratch, keep);
}

}  // namespace gordian::exporters
