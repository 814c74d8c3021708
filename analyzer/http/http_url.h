// Addresses that gordian sends to. They may hold secrets: errors do not repeat them.
#ifndef GORDIAN_ANALYZER_HTTP_HTTP_URL_H_
#define GORDIAN_ANALYZER_HTTP_HTTP_URL_H_

#include <string>

#include "common/status.h"

namespace gordian::http {

struct HttpUrl {
  std::string url;    // never print it
  std::string shown;  // scheme and host alone: "https://hooks.slack.com"
  std::string path;   // "/" at least
};

// Takes http://... and https://.... Errors: kInvalidArgument, it is something else; kUnavailable: see
// LoadCurl.
StatusOr<HttpUrl> ParseHttpUrl(const std::string& text);

// The same with another path.
StatusOr<HttpUrl> WithPath(const HttpUrl& url, const std::string& path);

}  // namespace gordian::http

#endif  // GORDIAN_ANALYZER_HTTP_HTTP_URL_H_
