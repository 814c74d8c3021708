// Sends one POST request and waits for its answer. Certificates are checked, and no redirect is
// followed: its target would get what is meant for another.
#ifndef GORDIAN_ANALYZER_HTTP_HTTP_POST_H_
#define GORDIAN_ANALYZER_HTTP_HTTP_POST_H_

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

namespace gordian::http {

struct HttpPost {
  const std::string& url;
  const std::string& body;           // JSON
  std::vector<std::string> headers;  // further ones: "Name: value"
  std::chrono::milliseconds timeout;
  const std::atomic<bool>* stopping;  // set: ends it within about a second
};

struct HttpAnswer {
  long code = 0;                       // 0: there was none
  std::string body;                    // its first 64 KiB
  std::chrono::seconds retry_after{};  // as the answer asks for
  std::string error;                   // why there is no answer, without the URL
};

// What a code says for people: "HTTP 302, a redirect, which gordian does not follow".
std::string CodeText(long code);

// Any thread.
HttpAnswer Post(const HttpPost& request);

}  // namespace gordian::http

#endif  // GORDIAN_ANALYZER_HTTP_HTTP_POST_H_
