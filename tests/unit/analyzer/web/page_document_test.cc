#include "analyzer/web/page_document.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "analyzer/http/gzip.h"

namespace gordian::web {
namespace {

std::string Unpack(const std::string& packed) {
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string out(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

std::string FromBase64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    have += 6;
    if (have >= 8) out += static_cast<char>(bits >> (have -= 8) & 255);
  }
  return out;
}

TEST(PageDocument, HoldsItsParts) {
  PageParts parts{.job = "j\"\n",
                  .session = "s",
                  .live = true,
                  .verdict_json = R"({"verdict":"deadlock"})",
                  .text = "the report"};
  parts.sources.push_back(
      {.site = "a.cc:3",
       .excerpt = {.path = "/a.cc", .line = 3, .first_line = 2, .lines = {"two", "three"}}});
  const auto page = nlohmann::json::parse(PageDocument(parts));
  EXPECT_EQ(page["schema"], "gordian.page.v1");
  EXPECT_EQ(page["job"], "j\"\n");
  EXPECT_EQ(page["live"], true);
  EXPECT_EQ(page["verdict"]["verdict"], "deadlock");
  EXPECT_TRUE(page["status"].is_null());
  EXPECT_TRUE(page["history"].is_null());
  EXPECT_EQ(page["sources"][0]["lines"][1], "three");
  EXPECT_FALSE(page.contains("predictions"));
  parts.predictions_json = R"({"found":[]})";
  EXPECT_TRUE(nlohmann::json::parse(PageDocument(parts))["predictions"]["found"].is_array());
}

TEST(PageDocument, GzipUnpacks) {
  for (const size_t size : {0, 1, 1000, 500'000}) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += static_cast<char>(i * 7 % 251);
    EXPECT_EQ(Unpack(http::Gzip(text)), text) << size;
  }
}

// Whatever a name holds, it stays within its place, and is not searched for further places.
TEST(PageDocument, ReportHoldsTheDocumentAndNoMarkupOfOthers) {
  constexpr char kTemplate[] =
      "<title><!--GORDIAN-TITLE--></title>[<!--GORDIAN-DATA-->]<pre><!--GORDIAN-TEXT--></pre>end";
  const std::string evil = "</script><img src=x onerror=alert(1)>'\"&<!--GORDIAN-DATA-->";
  const PageParts parts{.job = evil, .text = evil};
  const std::string page = ReportPage({.report_html = kTemplate}, parts);
  EXPECT_EQ(page.find("<img"), std::string::npos) << page;
  EXPECT_EQ(page.find("</script>"), std::string::npos);
  EXPECT_TRUE(page.ends_with("</pre>end"));
  EXPECT_NE(page.find("<title>gordian: &lt;/script&gt;&lt;img"), std::string::npos) << page;
  const size_t begin = page.find('[') + 1;
  const std::string data = page.substr(begin, page.find(']') - begin);
  EXPECT_EQ(nlohmann::json::parse(Unpack(FromBase64(data)))["job"], evil);
}

TEST(PageDocument, EveryLengthOfBase64) {
  for (size_t size = 0; size < 8; ++size) {
    const std::string page =
        ReportPage({.report_html = "<!--GORDIAN-DATA-->"}, {.job = std::string(size, 'x')});
    EXPECT_EQ(page.size() % 4, 0u);
    EXPECT_EQ(nlohmann::json::parse(Unpack(FromBase64(page)))["job"], std::string(size, 'x'));
  }
}

}  // namespace
}  // namespace gordian::web
