// Chooses the call sites of a verdict whose source is shown.
#ifndef GORDIAN_ANALYZER_STACKS_SHOWN_SITES_H_
#define GORDIAN_ANALYZER_STACKS_SHOWN_SITES_H_

#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/stacks/call_sites.h"

namespace gordian::analyzer {

struct ShownSite {
  model::Site site;
  std::string text;  // as reports name it
};

// The first sites that the verdict names, at most kMostExcerpts, one of those with the same text.
std::vector<ShownSite> ShownSites(const model::Verdict& verdict, const SiteResolver& sites);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_STACKS_SHOWN_SITES_H_
