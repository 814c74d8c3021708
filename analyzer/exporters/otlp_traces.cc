// Writes OpenTelemetry traces: one for each collective, with a span for each of its ranks, and one for
// each transfer, with its two ends. A trace shows who comes late, and a span with an error what hangs.
//
// Facts: opentelemetry-proto 1.5 (trace.proto) in OTLP's JSON encoding (ids in hexadecimal), a
// TracesData a line, as OpenTelemetry's file exporter writes and the collector's otlpjsonfile reads.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "analyzer/exporters/row_format.h"
#include "analyzer/model/collective.h"
#include "analyzer/model/verdict/names.h"
#include "common/version.h"

namespace gordian::exporters {
namespace {

using nlohmann::ordered_json;

constexpr int kInternal = 1, kError = 2;  // SPAN_KIND_INTERNAL, STATUS_CODE_ERROR
constexpr int kMostSpans = 500;           // of a line: receivers have limits

ordered_json Text(const char* key, const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}
ordered_json Number(const char* key, uint64_t value) {
  return {{"key", key}, {"value", {{"intValue", std::to_string(value)}}}};
}

std::string Hex(uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

class OtlpTraces final : public RowFormat {
 public:
  using RowFormat::RowFormat;

 private:
  void Begin(const Job&, std::string*) override {}

  void BeginRank(const Job&, int, std::string* text) override { EndLine(text); }

  void Row(const Job& job, int rank, uint32_t pid, const LoggedOperation& operation,
           const std::string& site, std::string* text) override {
    if (spans_ == kMostSpans) EndLine(text);
    if (spans_++ == 0) BeginLine(job, rank, pid, text);
    const LoggedGroup& group = job.log.groups()[static_cast<size_t>(operation.group)];
    const bool done = operation.progress == Progress::kDone;
    const uint64_t end_ns =
        std::max(operation.called_ns, done ? operation.done_ns : job.log.last_ns());
    ordered_json attributes = {
        Number("gordian.rank", static_cast<uint64_t>(rank)),
        Text("gordian.communicator", group.name),
        Number("gordian.sequence", operation.sequence),
        Number("gordian.bytes", operation.count * model::DatatypeBytes(operation.datatype)),
        Number("gordian.stream", operation.stream),
        Text("gordian.state", Name(operation.progress))};
    if (operation.root_or_peer >= 0) {
      attributes.push_back(Number(operation.IsTransfer() ? "gordian.peer" : "gordian.root",
                                  static_cast<uint64_t>(operation.root_or_peer)));
    }
    if (!site.empty()) attributes.push_back(Text("gordian.site", site));
    const auto [trace, span] = IdsOf(job, operation);
    ordered_json json = {{"traceId", trace},
                         {"spanId", span},
                         {"name", std::string(model::Name(operation.call)) + " on " + group.name +
                                      ", rank " + std::to_string(rank)},
                         {"kind", kInternal},
                         {"startTimeUnixNano", std::to_string(job.RealTime(operation.called_ns))},
                         {"endTimeUnixNano", std::to_string(job.RealTime(end_ns))},
                         {"attributes", std::move(attributes)}};
    if (!done) {
      json["status"] = {{"message", std::string(Name(operation.progress)) +
                                        ", and not done at the end of the record"},
                        {"code", kError}};
    }
    *text += spans_ == 1 ? "" : ",";
    *text += json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }

  void End(std::string* text) override { EndLine(text); }

  std::string Note() const override {
    return "an operation that is not done has a span up to the end of the record, with an error";
  }

  // One trace for what meets, and a span for each member that does.
  static std::pair<std::string, std::string> IdsOf(const Job& job,
                                                   const LoggedOperation& operation) {
    std::string what = std::to_string(operation.group) + "/" + std::to_string(operation.sequence);
    auto span = static_cast<uint64_t>(operation.member) + 1;
    if (operation.IsTransfer()) {
      const bool sends = operation.call == model::Call::kSend;
      const int from = sends ? operation.member : operation.root_or_peer;
      const int to = sends ? operation.root_or_peer : operation.member;
      what += "/" + std::to_string(from) + ">" + std::to_string(to);
      span = sends ? 1 : 2;
    }
    return {Hex(job.result.header.start_real_ns()) + Hex(std::hash<std::string>()(what)),
            Hex(span)};
  }

  static void BeginLine(const Job& job, int rank, uint32_t pid, std::string* text) {
    const ordered_json resource = {
        {"attributes",
         {Text("service.name", "gordian"), Text("service.version", kVersion),
          Text("service.instance.id", "rank " + std::to_string(rank)), Number("process.pid", pid),
          Text("process.command_line", job.result.header.command_line())}}};
    const ordered_json scope = {{"name", "gordian"}, {"version", kVersion}};
    const auto dump = [](const ordered_json& json) {
      return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    };
    *text += "{\"resourceSpans\":[{\"resource\":" + dump(resource) +
             ",\"scopeSpans\":[{\"scope\":" + dump(scope) + ",\"spans\":[";
  }

  void EndLine(std::string* text) {
    if (spans_ > 0) *text += "]}]}]}\n";
    spans_ = 0;
  }

  int spans_ = 0;  // of the line so far
};

}  // namespace

std::unique_ptr<StreamedFormat> StreamOtlpTraces(ScratchFile* scratch, size_t keep) {
  return std::make_unique<OtlpTraces>(scratch, keep);
}

}  // namespace gordian::exporters
