// Packs what goes over HTTP.
#ifndef GORDIAN_ANALYZER_HTTP_GZIP_H_
#define GORDIAN_ANALYZER_HTTP_GZIP_H_

#include <string>
#include <string_view>

namespace gordian::http {

std::string Gzip(std::string_view text);

}  // namespace gordian::http

#endif  // GORDIAN_ANALYZER_HTTP_GZIP_H_
