#include "analyzer/exporters/sarif_writer.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "common/version.h"

namespace gordian::exporters {
namespace {

using nlohmann::ordered_json;

// Percent-encodes what RFC 3986 has reserved or forbids in a path.
std::string UriOf(const std::string& path) {
  constexpr char kHex[] = "0123456789ABCDEF";
  constexpr std::string_view kPlain = "-._~/";
  std::string uri;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       kPlain.find(c) != std::string_view::npos;
    if (plain) {
      uri += c;
    } else {
      uri += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return uri;
}

ordered_json LocationOf(const SarifPlace& place, const std::filesystem::path& root) {
  const std::filesystem::path file = std::filesystem::path(place.file).lexically_normal();
  const std::filesystem::path below = file.lexically_relative(root);
  const bool in_root = file.is_relative() || (!below.empty() && *below.begin() != "..");
  ordered_json artifact;
  if (in_root) {
    artifact = {{"uri", UriOf((file.is_relative() ? file : below).string())},
                {"uriBaseId", "%SRCROOT%"}};
  } else {
    artifact = {{"uri", "file://" + UriOf(file.string())}};
  }
  ordered_json physical = {{"artifactLocation", artifact}};
  if (place.line > 0) physical["region"] = {{"startLine", place.line}};
  return {{"physicalLocation", physical}, {"message", {{"text", place.text}}}};
}

}  // namespace

std::string SarifOf(const std::vector<SarifFinding>& findings, const std::filesystem::path& root) {
  ordered_json results = ordered_json::array(), rules = ordered_json::array();
  std::map<std::string, size_t> rule_of;
  for (const SarifFinding& finding : findings) {
    const auto [rule, added] = rule_of.emplace(finding.check, rules.size());
    if (added) {
      rules.push_back({{"id", finding.check},
                       {"shortDescription", {{"text", finding.title}}},
                       {"help", {{"text", finding.advice}}}});
    }
    ordered_json locations = ordered_json::array(), related = ordered_json::array();
    std::string fingerprint;
    for (const std::string& site : finding.sites) {
      fingerprint += (fingerprint.empty() ? "" : "; ") + site;
    }
    for (const SarifPlace& place : finding.places) {
      if (place.file.empty()) continue;
      if (locations.empty()) {
        locations.push_back(LocationOf(place, root));
      } else {
        related.push_back(LocationOf(place, root));
        related.back()["id"] = related.size();
      }
    }
    results.push_back({{"ruleId", finding.check},
                       {"ruleIndex", rule->second},
                       {"level", finding.level},
                       {"message", {{"text", finding.message}}},
                       {"locations", locations},
                       {"relatedLocations", related},
                       {"partialFingerprints", {{"callSites/v1", fingerprint}}}});
    if (finding.known) results.back()["baselineState"] = *finding.known ? "unchanged" : "new";
  }
  ordered_json run;
  run["tool"]["driver"] = {{"name", "gordian"}, {"version", kVersion}};
  run["tool"]["driver"]["rules"] = std::move(rules);
  run["results"] = std::move(results);
  ordered_json sarif = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                        {"version", "2.1.0"}};
  sarif["runs"].push_back(std::move(run));
  return sarif.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace gordian::exporters
