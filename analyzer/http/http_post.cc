#include "analyzer/http/http_post.h"

#include <stdlib.h>

#include <algorithm>
#include <memory>

#include "analyzer/http/curl_library.h"
#include "common/version.h"

namespace gordian::http {
namespace {

constexpr size_t kMostAnswerBytes = 64 << 10;

// libcurl calls it for each piece of the answer, which it drops beyond the bound.
size_t TakePiece(char* piece, size_t size, size_t count, void* answer) {
  auto* const body = static_cast<std::string*>(answer);
  const size_t bytes = size * count;
  const bool fits = bytes <= kMostAnswerBytes - body->size();
  body->append(piece, std::min(bytes, kMostAnswerBytes - body->size()));
  return fits ? bytes : 0;
}

// libcurl calls it now and then.
int WantsStop(void* stopping, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::atomic<bool>*>(stopping)->load() ? 1 : 0;
}

}  // namespace

std::string CodeText(long code) {
  std::string text = "HTTP " + std::to_string(code);
  if (code >= 300 && code < 400) text += ", a redirect, which gordian does not follow";
  return text;
}

HttpAnswer Post(const HttpPost& request) {
  const StatusOr<const CurlLibrary*> library = LoadCurl();
  if (!library.ok()) return {.error = library.status().message()};
  const CurlLibrary& lib = **library;
  const std::unique_ptr<CURL, decltype(lib.easy_cleanup)> curl(lib.easy_init(), lib.easy_cleanup);
  if (curl == nullptr) return {.error = "libcurl does not start"};
  CURL* const easy = curl.get();
  curl_slist* headers = lib.slist_append(nullptr, "Content-Type: application/json");
  headers = lib.slist_append(headers, "Expect:");  // no round trip to be asked for the body
  for (const std::string& header : request.headers) {
    headers = lib.slist_append(headers, header.c_str());
  }
  HttpAnswer answer;
  lib.easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  lib.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  lib.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  lib.easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  lib.easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  // As the program curl: other authorities than the system's.
  if (const char* const authorities = getenv("SSL_CERT_FILE")) {
    lib.easy_setopt(easy, CURLOPT_CAINFO, authorities);
  }
  lib.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  lib.easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  lib.easy_setopt(easy, CURLOPT_USERAGENT, (std::string("gordian/") + kVersion).c_str());
  lib.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  lib.easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
  lib.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.timeout.count()));
  lib.easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
  lib.easy_setopt(easy, CURLOPT_WRITEFUNCTION, TakePiece);
  lib.easy_setopt(easy, CURLOPT_WRITEDATA, &answer.body);
  lib.easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, WantsStop);
  lib.easy_setopt(easy, CURLOPT_XFERINFODATA, request.stopping);
  lib.easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
  const CURLcode done = lib.easy_perform(easy);
  lib.slist_free_all(headers);
  // An answer beyond the bound counts by its code.
  const bool cut = done == CURLE_WRITE_ERROR && answer.body.size() == kMostAnswerBytes;
  if (done != CURLE_OK && !cut) {
    // libcurl's longer messages may hold parts of the URL; these do not.
    return {.error = lib.easy_strerror(done)};
  }
  lib.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer.code);
  curl_off_t retry_after = 0;
  lib.easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after);
  answer.retry_after = std::chrono::seconds(std::max<curl_off_t>(retry_after, 0));
  return answer;
}

}  // namespace gordian::http
