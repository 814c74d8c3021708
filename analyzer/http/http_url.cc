#include "analyzer/http/http_url.h"

#include <memory>

#include "analyzer/http/curl_library.h"
#include "common/utf8.h"

namespace gordian::http {
namespace {

std::string Part(const CurlLibrary& curl, CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl.url_get(url, part, &text, 0) != CURLUE_OK) return "";
  std::string copy = text;
  curl.free(text);
  return copy;
}

// `path`: to put in; null: none.
StatusOr<HttpUrl> Parse(const std::string& text, const std::string* path) {
  const StatusOr<const CurlLibrary*> curl = LoadCurl();
  GORDIAN_RETURN_IF_ERROR(curl.status());
  const CurlLibrary& lib = **curl;
  const std::unique_ptr<CURLU, decltype(lib.url_cleanup)> url(lib.url(), lib.url_cleanup);
  bool parsed = url != nullptr && text.find('\0') == std::string::npos &&
                lib.url_set(url.get(), CURLUPART_URL, text.c_str(), 0) == CURLUE_OK;
  if (parsed && path != nullptr) {
    parsed = lib.url_set(url.get(), CURLUPART_PATH, path->c_str(), 0) == CURLUE_OK;
  }
  const std::string scheme = parsed ? Part(lib, url.get(), CURLUPART_SCHEME) : "";
  const std::string host = parsed ? Part(lib, url.get(), CURLUPART_HOST) : "";
  if ((scheme != "http" && scheme != "https") || host.empty()) {
    return Status::InvalidArgument("it is no http(s)://HOST... address");
  }
  return HttpUrl{.url = path != nullptr ? Part(lib, url.get(), CURLUPART_URL) : text,
                 .shown = scheme + "://" + Printable(host),
                 .path = Part(lib, url.get(), CURLUPART_PATH)};
}

}  // namespace

StatusOr<HttpUrl> ParseHttpUrl(const std::string& text) { return Parse(text, nullptr); }

StatusOr<HttpUrl> WithPath(const HttpUrl& url, const std::string& path) {
  return Parse(url.url, &path);
}

}  // namespace gordian::http
