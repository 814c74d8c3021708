// Prints the catalogue of checks and of known kinds of hangs, for people and for programs.
#ifndef GORDIAN_ANALYZER_REPORT_CHECK_TEXT_H_
#define GORDIAN_ANALYZER_REPORT_CHECK_TEXT_H_

#include <string>

#include "analyzer/model/verdict/check_catalogue.h"

namespace gordian::analyzer {

std::string CheckList();                                      // a line for each check
std::string CheckText(const model::Check& check, int width);  // everything about one check
std::string CatalogueJson();                                  // schema gordian.checks.v1

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_REPORT_CHECK_TEXT_H_
