#include "cli/run/restarts.h"

#include <cctype>
#include <set>

#include "analyzer/model/verdict/names.h"
#include "cli/job/session.h"
#include "common/status.h"

namespace gordian::cli {
namespace {

constexpr size_t kMostLines = 8;
constexpr size_t kMostCauses = 1000;  // of a manifest that somebody else may have written

// "train.cc:88 step()", but not "0x7f12ab00": a place without a file changes with each start.
bool IsPlace(const std::string& text) { return !text.empty() && !text.starts_with("0x"); }

// "AllReduce on dp" of any call on a communicator whose name may count starts.
std::string WithoutNumbers(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) out += c;
  }
  return out;
}

}  // namespace

std::string CauseOf(const model::Finding& finding, const analyzer::SiteResolver& sites) {
  std::set<std::string> lines, operations;
  const auto add = [&](const model::Site& site) {
    if (const std::string text = sites(site); IsPlace(text)) lines.insert(text);
  };
  for (const model::WaitEdge& edge : finding.cycle) {
    add(edge.site);
    operations.insert(WithoutNumbers(edge.op + " on " + edge.comm_name));
  }
  for (const model::StuckOperation& operation : finding.operations) {
    if (!finding.cycle.empty()) break;
    for (const model::OperationMember& member : operation.members) add(member.site);
    operations.insert(WithoutNumbers(operation.op + " on " + operation.comm_name));
  }
  std::string cause = finding.check;
  if (!finding.culprit_ranks.empty()) cause += " of " + model::RankList(finding.culprit_ranks);
  const std::set<std::string>& known = lines.empty() ? operations : lines;
  size_t count = 0;
  for (const std::string& text : known) {
    if (++count > kMostLines) break;
    cause += (count == 1 ? (lines.empty() ? " in " : " at ") : ", ") + text;
  }
  return cause;
}

RestartCounts CountsAfter(const std::string& session_before,
                          const std::vector<std::string>& command) {
  if (session_before.empty()) return {};
  const StatusOr<nlohmann::ordered_json> manifest = ReadManifest(session_before);
  if (!manifest.ok()) return {};
  const auto restarts = manifest->find("restarts");
  const auto same = manifest->find("command");
  if (restarts == manifest->end() || !restarts->is_object() || same == manifest->end() ||
      *same != nlohmann::ordered_json(command)) {
    return {};
  }
  const auto asked = restarts->find("asked");
  const auto starts = restarts->find("starts");
  const auto causes = restarts->find("causes");
  if (asked == restarts->end() || *asked != true || starts == restarts->end() ||
      !starts->is_number_unsigned() || causes == restarts->end() || !causes->is_object() ||
      causes->size() > kMostCauses) {
    return {};
  }
  RestartCounts counts;
  counts.starts = static_cast<int>(starts->get<uint64_t>() % 1'000'000) + 1;
  for (const auto& [cause, times] : causes->items()) {
    if (times.is_number_unsigned())
      counts.causes[cause] = static_cast<int>(times.get<uint64_t>() % 1'000'000);
  }
  return counts;
}

nlohmann::ordered_json RestartsJson(const RestartCounts& counts, bool asked) {
  nlohmann::ordered_json causes = nlohmann::ordered_json::object();
  for (const auto& [cause, times] : counts.causes) causes[cause] = static_cast<unsigned>(times);
  return {{"starts", static_cast<unsigned>(counts.starts)},
          {"asked", asked},
          {"causes", std::move(causes)}};
}

}  // namespace gordian::cli
