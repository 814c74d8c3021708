// Loads libcurl when something is to be sent. It brings forty libraries, which would cost every start
// of gordian a third of its time, and few starts send anything.
#ifndef GORDIAN_ANALYZER_HTTP_CURL_LIBRARY_H_
#define GORDIAN_ANALYZER_HTTP_CURL_LIBRARY_H_

#include <curl/curl.h>

#include "common/status.h"

namespace gordian::http {

// Its functions, by their names without the prefix "curl_".
struct CurlLibrary {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
  decltype(&curl_url) url = nullptr;
  decltype(&curl_url_cleanup) url_cleanup = nullptr;
  decltype(&curl_url_get) url_get = nullptr;
  decltype(&curl_url_set) url_set = nullptr;
  decltype(&curl_free) free = nullptr;
};

// The one of this process, which stays loaded. Any thread. Error: kUnavailable, naming the package.
StatusOr<const CurlLibrary*> LoadCurl();

}  // namespace gordian::http

#endif  // GORDIAN_ANALYZER_HTTP_CURL_LIBRARY_H_
