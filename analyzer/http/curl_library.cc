#include "analyzer/http/curl_library.h"

#include <dlfcn.h>

#include <string>

namespace gordian::http {
namespace {

constexpr char kFile[] = "libcurl.so.4";

// Finds the functions of a table; keeps the name of the first that is missing.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <typename Function>
  void Find(Function* function, const char* name) {
    *function = reinterpret_cast<Function>(dlsym(library_, name));
    if (*function == nullptr && missing_.empty()) missing_ = name;
  }

  const std::string& missing() const { return missing_; }

 private:
  void* const library_;
  std::string missing_;
};

StatusOr<CurlLibrary> Load() {
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return Status::Unavailable(
        std::string("sending needs ") + kFile +
        " (Debian: apt-get install libcurl4): " + (why != nullptr ? why : "it cannot be loaded"));
  }
  CurlLibrary curl;
  Finder finder(library);
  finder.Find(&curl.global_init, "curl_global_init");
  finder.Find(&curl.easy_init, "curl_easy_init");
  finder.Find(&curl.easy_cleanup, "curl_easy_cleanup");
  finder.Find(&curl.easy_setopt, "curl_easy_setopt");
  finder.Find(&curl.easy_perform, "curl_easy_perform");
  finder.Find(&curl.easy_getinfo, "curl_easy_getinfo");
  finder.Find(&curl.easy_strerror, "curl_easy_strerror");
  finder.Find(&curl.slist_append, "curl_slist_append");
  finder.Find(&curl.slist_free_all, "curl_slist_free_all");
  finder.Find(&curl.url, "curl_url");
  finder.Find(&curl.url_cleanup, "curl_url_cleanup");
  finder.Find(&curl.url_get, "curl_url_get");
  finder.Find(&curl.url_set, "curl_url_set");
  finder.Find(&curl.free, "curl_free");
  if (!finder.missing().empty()) {
    return Status::Unavailable(std::string(kFile) + " has no " + finder.missing() +
                               "; sending needs libcurl 7.85 or newer (Debian: libcurl4)");
  }
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return Status::Unavailable(std::string(kFile) + " does not start");
  }
  return curl;
}

}  // namespace

StatusOr<const CurlLibrary*> LoadCurl() {
  static const StatusOr<CurlLibrary> kCurl = Load();
  GORDIAN_RETURN_IF_ERROR(kCurl.status());
  return &*kCurl;
}

}  // namespace gordian::http
