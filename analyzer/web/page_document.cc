#include "analyzer/web/page_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "analyzer/http/gzip.h"
#include "analyzer/model/verdict/names.h"
#include "common/clock.h"
#include "common/version.h"

namespace gordian::web {
namespace {

using nlohmann::ordered_json;

// What all ranks keep together: the page draws what is near the stall, and must open on a phone.
constexpr size_t kMostOperations = 50'000;

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string Base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) {
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string PageDocument(const PageParts& parts) {
  ordered_json sources = ordered_json::array();
  for (const SourceLines& one : parts.sources) {
    sources.push_back({{"site", one.site},
                       {"path", one.excerpt.path},
                       {"line", one.excerpt.line},
                       {"first_line", one.excerpt.first_line},
                       {"lines", one.excerpt.lines}});
  }
  ordered_json rest = {{"schema", kPageSchema},       {"job", parts.job},
                       {"gordian_version", kVersion}, {"made", FormatUtc(RealNs())},
                       {"live", parts.live},          {"session", parts.session},
                       {"text", parts.text},          {"sources", std::move(sources)}};
  std::string out = Dump(rest);
  out.pop_back();
  const auto add = [&out](const char* key, const std::string& json) {
    out += fmt::format(",\"{}\":{}", key, json.empty() ? "null" : json);
  };
  add("verdict", parts.verdict_json);
  add("status", parts.status_json);
  add("history", parts.history_json);
  if (!parts.predictions_json.empty()) add("predictions", parts.predictions_json);
  return out + "}";
}

std::string HistoryJson(const exporters::OperationLog& log, uint64_t stalled_at_ns) {
  size_t all = 0;
  for (const auto& [rank, logged] : log.ranks()) all += logged.operations.size();
  ordered_json streams = ordered_json::array();
  ordered_json notes = log.notes();
  size_t left = 0;
  for (const auto& [rank, logged] : log.ranks()) {
    // Every rank keeps its share, its last operations.
    const size_t share =
        std::max<size_t>(4, kMostOperations / std::max<size_t>(log.ranks().size(), 1));
    const size_t skip = all > kMostOperations && logged.operations.size() > share
                            ? logged.operations.size() - share
                            : 0;
    left += skip;
    std::map<uint32_t, ordered_json> of_stream;
    for (size_t i = skip; i < logged.operations.size(); ++i) {
      const exporters::LoggedOperation& one = logged.operations[i];
      const bool grouped = one.group >= 0 && one.group < static_cast<int>(log.groups().size());
      ordered_json& operations =
          of_stream.try_emplace(one.stream, ordered_json::array()).first->second;
      operations.push_back(
          {{"op", model::Name(one.call)},
           {"comm_name", grouped ? log.groups()[static_cast<size_t>(one.group)].name : ""},
           {"seq", one.sequence},
           {"called_ns", one.called_ns},
           {"done_ns", one.done_ns},
           {"progress", exporters::Name(one.progress)},
           {"site", analyzer::ShortForm(one.site, one.site_address)}});
    }
    for (auto& [stream, operations] : of_stream) {
      streams.push_back({{"rank", rank},
                         {"stream", fmt::format("{:#x}", stream)},
                         {"operations", std::move(operations)}});
    }
  }
  if (left > 0) notes.push_back(fmt::format("{} earlier operations", left));
  return Dump({{"stalled_at_ns", stalled_at_ns},
               {"notes", std::move(notes)},
               {"streams", std::move(streams)}});
}

std::string ReportPage(const PageFiles& files, const PageParts& parts) {
  const std::pair<std::string_view, std::string> places[] = {
      {"<!--GORDIAN-TITLE-->", EscapeHtml("gordian: " + parts.job)},
      {"<!--GORDIAN-DATA-->", Base64(http::Gzip(PageDocument(parts)))},
      {"<!--GORDIAN-TEXT-->", EscapeHtml(parts.text)}};
  std::string out;
  std::string_view rest = files.report_html;
  // In the order of the file, each once: what was filled in is not searched.
  while (!rest.empty()) {
    size_t first = std::string_view::npos;
    const std::pair<std::string_view, std::string>* filled = nullptr;
    for (const auto& place : places) {
      if (const size_t at = rest.find(place.first); at < first) {
        first = at;
        filled = &place;
      }
    }
    out += rest.substr(0, first);
    if (filled == nullptr) break;
    out += filled->second;
    rest.remove_prefix(first + filled->first.size());
  }
  return out;
}

}  // namespace gordian::web
