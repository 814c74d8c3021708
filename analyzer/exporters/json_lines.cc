// Writes every operation as a line of JSON, after a line about the job.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "analyzer/exporters/row_format.h"
#include "analyzer/model/verdict/names.h"

namespace gordian::exporters {
namespace {

using nlohmann::ordered_json;

std::string Line(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

class JsonLines final : public RowFormat {
 public:
  using RowFormat::RowFormat;

 private:
  void Begin(const Job& job, std::string* text) override {
    ordered_json groups = ordered_json::array();
    for (const LoggedGroup& group : job.log.groups()) {
      groups.push_back({{"name", group.name}, {"ranks", group.ranks}});
    }
    ordered_json ranks = ordered_json::array();
    for (const auto& [rank, logged] : job.log.ranks())
      ranks.push_back({{"rank", rank}, {"pid", logged.pid}});
    *text = Line({{"schema", "gordian.operations.v1"},
                  {"command", job.result.header.command_line()},
                  {"start_real_ns", job.result.header.start_real_ns()},
                  {"ranks", ranks},
                  {"communicators", groups},
                  {"notes", job.log.notes()}});
  }

  void Row(const Job& job, int rank, uint32_t, const LoggedOperation& operation,
           const std::string& site, std::string* text) override {
    const uint64_t done_ns = operation.done_ns == 0 ? 0 : job.RealTime(operation.done_ns);
    *text += Line({{"rank", rank},
                   {"communicator", operation.group},
                   {"operation", model::Name(operation.call)},
                   {"sequence", operation.sequence},
                   {"member", operation.member},
                   {"root_or_peer", operation.root_or_peer},
                   {"count", operation.count},
                   {"datatype", operation.datatype},
                   {"reduce_op", operation.reduce_op},
                   {"stream", operation.stream},
                   {"thread", operation.thread},
                   {"batch", operation.batch},
                   {"order", operation.order},
                   {"called_ns", job.RealTime(operation.called_ns)},
                   {"done_ns", done_ns},
                   {"state", Name(operation.progress)},
                   {"site", site}});
  }
};

}  // namespace

std::unique_ptr<StreamedFormat> StreamJsonLines(ScratchFile* scratch, size_t keep) {
  return std::make_unique<JsonLines>(scratch, keep);
}

}  // namespace gordian::exporters
