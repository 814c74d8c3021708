// The catalogue of checks and of the kinds of hangs, for people and for programs.
#ifndef GORDIAN_ANALYZER_SERVER_CHECK_TEXT_H_
#define GORDIAN_ANALYZER_SERVER_CHECK_TEXT_H_

#include <string>

#include "analyzer/graph/check_catalogue.h"

namespace gordian::server {

std::string CheckList();                                      // a line each
std::string CheckText(const graph::Check& check, int width);  // all of one
std::string CatalogueJson();                                  // schema gordian.checks.v1

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_CHECK_TEXT_H_
