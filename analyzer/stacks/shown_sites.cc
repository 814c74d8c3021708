#include "analyzer/stacks/shown_sites.h"

#include <set>
#include <utility>

#include "common/source_excerpt.h"

namespace gordian::analyzer {
namespace {

// Most ranks of a large job are at the same few lines.
constexpr size_t kMostLookedAt = 4'096;

}  // namespace

std::vector<ShownSite> ShownSites(const model::Verdict& verdict, const SiteResolver& sites) {
  std::vector<ShownSite> all;
  std::set<std::pair<model::ProcessId, uint64_t>> seen;
  std::set<std::string> named;
  const auto add = [&](const model::Site& site) {
    if (site.address == 0 || all.size() >= kMostExcerpts || seen.size() >= kMostLookedAt) return;
    if (!seen.emplace(site.process, site.address).second) return;
    std::string text = sites(site);
    if (named.insert(text).second) all.push_back({.site = site, .text = std::move(text)});
  };
  const auto of = [&](const model::Finding& finding) {
    for (const model::WaitEdge& edge : finding.cycle) add(edge.site);
    for (const model::StuckOperation& operation : finding.operations) {
      for (const model::OperationMember& member : operation.members) add(member.site);
    }
    for (const model::FoundCommunicator& comm : finding.communicators) add(comm.made_at);
  };
  of(verdict.main);
  for (const model::Finding& finding : verdict.findings) of(finding);
  return all;
}

}  // namespace gordian::analyzer
