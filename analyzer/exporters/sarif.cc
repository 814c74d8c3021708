// Writes the verdict's findings as SARIF: each is a result at the lines where its culprits stand.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "analyzer/exporters/formats.h"
#include "analyzer/exporters/sarif_writer.h"
#include "analyzer/model/verdict/check_catalogue.h"

namespace gordian::exporters {
namespace {

const char* LevelOf(model::Confidence confidence) {
  switch (confidence) {
    case model::Confidence::kConfirmed:
      return "error";
    case model::Confidence::kSuspected:
      return "warning";
    case model::Confidence::kPossible:
      break;
  }
  return "note";
}

SarifFinding FindingOf(const Job& job, const analyzer::SiteResolver& sites,
                       const model::Finding& finding) {
  SarifFinding result{.check = finding.check,
                      .title = model::CheckById(finding.check).title,
                      .level = LevelOf(finding.confidence),
                      .message = finding.summary,
                      .advice = finding.advice};
  std::vector<SarifPlace> others;  // of ranks that wait through no fault of their own
  const auto add = [&](int rank, const model::Site& site, const std::string& what) {
    const std::string text = sites(site);
    if (text.empty()) return;
    const bool culprit = std::find(finding.culprit_ranks.begin(), finding.culprit_ranks.end(),
                                   rank) != finding.culprit_ranks.end();
    if (culprit || finding.culprit_ranks.empty()) result.sites.insert(text);
    const auto known = job.log.verdict_sites().find(text);
    if (known == job.log.verdict_sites().end()) return;
    (culprit ? result.places : others)
        .push_back({known->second.file, known->second.line, "rank " + std::to_string(rank) + what});
  };
  for (const model::WaitEdge& edge : finding.cycle) {
    add(edge.rank, edge.site,
        " waits in " + edge.op + " for rank " + std::to_string(edge.waits_for_rank) +
            (edge.detail.empty() ? "" : ": " + edge.detail));
  }
  if (finding.cycle.empty()) {
    for (const model::StuckOperation& operation : finding.operations) {
      for (const model::OperationMember& member : operation.members) {
        add(member.rank, member.site,
            member.instead.empty() ? " is in " + operation.op : ": " + member.instead);
      }
    }
  }
  result.places.insert(result.places.end(), others.begin(), others.end());
  return result;
}

}  // namespace

StatusOr<Exported> WriteSarif(const Job& job) {
  const analyzer::SiteResolver sites = job.result.sites();
  std::vector<SarifFinding> findings;
  bool placed = true;
  const auto add = [&](const model::Finding& finding) {
    if (!model::SaysTrouble(finding.verdict)) return;
    findings.push_back(FindingOf(job, sites, finding));
    placed &= std::any_of(findings.back().places.begin(), findings.back().places.end(),
                          [](const SarifPlace& place) { return !place.file.empty(); });
  };
  add(job.result.verdict.main);
  for (const model::Finding& finding : job.result.verdict.findings) add(finding);
  std::error_code error;  // without the folder, files keep their whole paths
  Exported exported;
  exported.files.emplace_back("", SarifOf(findings, std::filesystem::current_path(error)));
  if (!placed) {
    exported.notes.push_back(
        "a finding has no source line, so that code scanners may not show it: build the job with "
        "-g, and export where its files are");
  }
  return exported;
}

}  // namespace gordian::exporters
