#include "analyzer/metrics/otlp_target.h"

#include <charconv>
#include <optional>
#include <utility>

#include "analyzer/http/http_url.h"

namespace gordian::metrics {
namespace {

constexpr char kInterval[] = "OTEL_METRIC_EXPORT_INTERVAL";
constexpr int kLeastMs = 100, kMostMs = 24 * 3600 * 1000;

std::string_view Trim(std::string_view text) {
  constexpr char kSpace[] = " \t";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

using Environment = std::function<const char*(const char* variable)>;

// The variable that is set, and its value: that of metrics, or that of all signals. "": neither is.
std::pair<std::string, std::string> OneOf(const Environment& environment, const char* setting) {
  for (const char* const prefix : {"OTEL_EXPORTER_OTLP_METRICS_", "OTEL_EXPORTER_OTLP_"}) {
    const std::string variable = std::string(prefix) + setting;
    const char* const text = environment(variable.c_str());
    if (text != nullptr && *text != '\0') return {variable, text};
  }
  return {};
}

// Undoes percent-encoding; nothing if the text is none, or holds what may stand in no header.
std::optional<std::string> Decode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    if (c == '%') {
      const char* const digits = text.data() + i + 1;
      if (i + 2 >= text.size()) return std::nullopt;
      if (std::from_chars(digits, digits + 2, c, 16).ptr != digits + 2) return std::nullopt;
      i += 2;
    }
    if (c < ' ' || c == 0x7f) return std::nullopt;
    out += static_cast<char>(c);
  }
  return out;
}

bool IsHeaderName(std::string_view name) {
  constexpr char kTokens[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
  return !name.empty() && name.find_first_not_of(kTokens) == std::string_view::npos;
}

// "name=value,name=value", values percent-encoded, as W3C's Baggage without properties.
StatusOr<std::vector<std::string>> ParseHeaders(const std::string& variable,
                                                std::string_view text) {
  std::vector<std::string> headers;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view one = Trim(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (one.empty()) continue;
    const size_t equals = one.find('=');
    const std::string_view name = Trim(one.substr(0, std::min(equals, one.size())));
    const std::optional<std::string> value =
        equals == std::string_view::npos ? std::nullopt : Decode(Trim(one.substr(equals + 1)));
    if (!IsHeaderName(name) || !value) {
      return Status::InvalidArgument(variable + ": header " + std::to_string(number) +
                                     " is not name=value, with a percent-encoded value");
    }
    headers.push_back(std::string(name) + ": " + *value);
  }
  return headers;
}

}  // namespace

StatusOr<OtlpTarget> ParseOtlpTarget(
    const std::string& url, const std::function<const char*(const char* variable)>& environment) {
  StatusOr<http::HttpUrl> parsed = http::ParseHttpUrl(url);
  if (parsed.status().code() == StatusCode::kInvalidArgument) {
    return Status::InvalidArgument("--otlp takes http(s)://HOST:PORT, as http://127.0.0.1:4318");
  }
  if (parsed.ok() && parsed->path == "/") parsed = http::WithPath(*parsed, "/v1/metrics");
  GORDIAN_RETURN_IF_ERROR(parsed.status());
  OtlpTarget target{.url = parsed->url, .shown = parsed->shown};
  if (const char* const text = environment(kInterval); text != nullptr && *text != '\0') {
    int ms = 0;
    const char* const end = text + std::char_traits<char>::length(text);
    if (std::from_chars(text, end, ms).ptr != end || ms < kLeastMs || ms > kMostMs) {
      return Status::InvalidArgument(std::string(kInterval) +
                                     " takes milliseconds, from 100 to 86400000");
    }
    target.interval = std::chrono::milliseconds(ms);
  }
  if (const auto [variable, text] = OneOf(environment, "HEADERS"); !text.empty()) {
    StatusOr<std::vector<std::string>> headers = ParseHeaders(variable, text);
    GORDIAN_RETURN_IF_ERROR(headers.status());
    target.headers = std::move(headers).value();
  }
  if (const auto [variable, text] = OneOf(environment, "COMPRESSION"); !text.empty()) {
    if (text != "gzip" && text != "none") {
      return Status::InvalidArgument(variable + " takes gzip or none");
    }
    target.gzip = text == "gzip";
  }
  return target;
}

}  // namespace gordian::metrics
