// The lines around the call sites of a verdict, for the page that shows them.
#ifndef GORDIAN_ANALYZER_WEB_SOURCE_LINES_H_
#define GORDIAN_ANALYZER_WEB_SOURCE_LINES_H_

#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/stacks/call_sites.h"
#include "analyzer/stacks/source_book.h"
#include "common/source_excerpt.h"

namespace gordian::web {

struct SourceLines {
  std::string site;  // as reports name it
  SourceExcerpt excerpt;
};

// Finds the lines around the first few call sites that the verdict names, and leaves out a site of
// which neither a node nor this machine has them. Takes what the process's node sent. Reads this machine's files only for a job without nodes,
// whose files they are.
std::vector<SourceLines> FindSourceLines(const model::Verdict& verdict, analyzer::CallSites* sites,
                                         const analyzer::SourceBook& book);

}  // namespace gordian::web

#endif  // GORDIAN_ANALYZER_WEB_SOURCE_LINES_H_
