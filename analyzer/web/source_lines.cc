#include "analyzer/web/source_lines.h"

#include <utility>

#include "analyzer/stacks/shown_sites.h"

namespace gordian::web {

std::vector<SourceLines> FindSourceLines(const model::Verdict& verdict, analyzer::CallSites* sites,
                                         const analyzer::SourceBook& book) {
  std::vector<SourceLines> all;
  for (analyzer::ShownSite& shown : analyzer::ShownSites(verdict, sites->Resolver())) {
    const analyzer::CallSite where = sites->Resolve(shown.site.process, shown.site.address);
    SourceExcerpt excerpt = book.Find(shown.site.process, where.file, where.line);
    if (excerpt.lines.empty() && !book.on_nodes()) excerpt = ReadAround(where.file, where.line);
    if (excerpt.lines.empty()) continue;
    all.push_back({.site = std::move(shown.text), .excerpt = std::move(excerpt)});
  }
  return all;
}

}  // namespace gordian::web
