#include "analyzer/metrics/otlp_target.h"

#include <gtest/gtest.h>

#include <map>

namespace gordian::metrics {
namespace {

StatusOr<OtlpTarget> Parse(const std::string& url,
                           const std::map<std::string, std::string>& environment = {}) {
  return ParseOtlpTarget(url, [&](const char* variable) -> const char* {
    const auto found = environment.find(variable);
    return found != environment.end() ? found->second.c_str() : nullptr;
  });
}

TEST(OtlpTarget, AnAddressAloneGetsThePath) {
  EXPECT_EQ(Parse("http://127.0.0.1:4318")->url, "http://127.0.0.1:4318/v1/metrics");
  EXPECT_EQ(Parse("https://am:s3cret@host/")->url, "https://am:s3cret@host/v1/metrics");
  EXPECT_EQ(Parse("http://host/otlp/v1/metrics?x=1")->url, "http://host/otlp/v1/metrics?x=1");
  EXPECT_EQ(Parse("https://am:s3cret@host:1/")->shown, "https://host");
  EXPECT_EQ(Parse("http://host")->interval, std::chrono::seconds(10));
}

TEST(OtlpTarget, WhatIsNoAddressIsRefusedWithoutRepeatingIt) {
  for (const char* url : {"127.0.0.1:4318", "ftp://s3cret", "http://", "grpc://s3cret:4317", "x"}) {
    const StatusOr<OtlpTarget> target = Parse(url);
    ASSERT_FALSE(target.ok()) << url;
    EXPECT_TRUE(target.status().message().starts_with("--otlp takes http(s)://HOST:PORT"));
    EXPECT_EQ(target.status().message().find("s3cret"), std::string::npos);
  }
}

TEST(OtlpTarget, TakesTheVariablesOfOpenTelemetry) {
  const char kHeaders[] = "OTEL_EXPORTER_OTLP_HEADERS";
  const StatusOr<OtlpTarget> target = Parse(
      "http://h",
      {{"OTEL_METRIC_EXPORT_INTERVAL", "250"}, {kHeaders, " api-key = a%20b%2C%3D=c ,,x-scope=1"}});
  ASSERT_TRUE(target.ok()) << target.status().message();
  EXPECT_EQ(target->interval, std::chrono::milliseconds(250));
  EXPECT_EQ(target->headers, (std::vector<std::string>{"api-key: a b,==c", "x-scope: 1"}));
  EXPECT_EQ(Parse("http://h", {{kHeaders, "a=1"}, {"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "b=2"}})
                ->headers,
            std::vector<std::string>{"b: 2"});

  for (const char* value :
       {"a=b%0d%0ac: 1", "x", "=1", "a b=1", "a=%2", "a=%zz", "ok=1,a=s3cret%0a"}) {
    const StatusOr<OtlpTarget> refused = Parse("http://h", {{kHeaders, value}});
    ASSERT_FALSE(refused.ok()) << value;
    EXPECT_TRUE(refused.status().message().starts_with(kHeaders)) << refused.status().message();
    EXPECT_EQ(refused.status().message().find("s3cret"), std::string::npos);
  }
  EXPECT_FALSE(target->gzip);
  EXPECT_TRUE(Parse("http://h", {{"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"}})->gzip);
  EXPECT_FALSE(Parse("http://h", {{"OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none"},
                                  {"OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"}})
                   ->gzip);
  EXPECT_FALSE(Parse("http://h", {{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"}}).ok());
  for (const char* value : {"0", "99", "-1", "10s", "1e9", "99999999999"}) {
    EXPECT_FALSE(Parse("http://h", {{"OTEL_METRIC_EXPORT_INTERVAL", value}}).ok()) << value;
  }
}

}  // namespace
}  // namespace gordian::metrics
