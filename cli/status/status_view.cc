#include "cli/status/status_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "analyzer/model/verdict/check_catalogue.h"
#include "analyzer/report/report.h"
#include "analyzer/report/text_layout.h"
#include "analyzer/report/verdict_json.h"
#include "cli/output.h"
#include "cli/run/verdict_policy.h"
#include "cli/status/status_fields.h"
#include "cli/status/status_words.h"
#include "common/utf8.h"

namespace gordian::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostRankLines = 24;
constexpr size_t kMostCommLines = 16;
constexpr size_t kMostNotes = 4;
constexpr size_t kWidestCell = 44;
constexpr int kNeverCut = 1 << 20;

using Row = std::vector<std::string>;

// Makes columns as wide as their contents, and leaves out empty ones.
void AddTable(const std::vector<Row>& rows, size_t width, std::vector<std::string>* lines) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (size_t i = 1; i < rows.size(); ++i) {
    for (size_t c = 0; c < rows[i].size(); ++c) {
      widths[c] = std::max(widths[c], std::min(rows[i][c].size(), kWidestCell));
    }
  }
  for (size_t c = 0; c < widths.size(); ++c) {
    if (widths[c] > 0) {
      widths[c] = std::max(widths[c], rows.front()[c].size());
    }
  }
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      if (widths[c] == 0) {
        continue;
      }
      std::string cell = analyzer::CutTo(row[c], kWidestCell);
      if (cell.size() < widths[c]) {
        cell.append(widths[c] - cell.size(), ' ');
      }
      line += (line.empty() ? "" : "  ") + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines->push_back(analyzer::CutTo(line, width));
  }
}

void AddRanks(const ordered_json& status, size_t width, std::vector<std::string>* lines) {
  struct Group {
    std::vector<int> ranks;
    double since = -1;
    int64_t pid = -1;
    std::set<std::string> nodes;
  };
  const std::vector<int> culprits = FieldRanks(status, "culprit_ranks");
  std::vector<std::pair<Row, Group>> groups;  // in the order of their first ranks
  std::map<std::pair<Row, bool>, size_t> places;
  for (const ordered_json* rank : FieldList(status, "ranks")) {
    std::string state = FieldText(*rank, "state");
    std::replace(state.begin(), state.end(), '_', ' ');
    const std::string ending = FieldText(*rank, "ending");
    const Row what = {ending.empty() ? state : ending, FieldText(*rank, "call"),
                      FieldText(*rank, "operation"), FieldText(*rank, "site")};
    const int number = static_cast<int>(FieldNumber(*rank, "rank"));
    const bool culprit = std::find(culprits.begin(), culprits.end(), number) != culprits.end();
    const auto [place, is_new] = places.try_emplace({what, culprit}, groups.size());
    if (is_new) {
      groups.push_back({what, {}});
    }
    Group& group = groups[place->second].second;
    group.ranks.push_back(number);
    group.since = std::max(group.since, FieldReal(*rank, "since_s"));
    group.pid = FieldNumber(*rank, "pid");
    group.nodes.insert(FieldText(*rank, "node"));
  }
  if (groups.empty()) {
    return;
  }
  std::vector<Row> rows = {{"RANK", "PID", "STATE", "SINCE", "CALL", "UNFINISHED", "NODE", "AT"}};
  size_t left_out = 0;
  for (const auto& [what, group] : groups) {
    if (rows.size() > kMostRankLines) {
      left_out += group.ranks.size();
      continue;
    }
    const std::string node = group.nodes.size() == 1
                                 ? *group.nodes.begin()
                                 : std::to_string(group.nodes.size()) + " nodes";
    rows.push_back({FoldRanks(group.ranks),
                    group.ranks.size() == 1 ? std::to_string(group.pid) : "", what[0],
                    Duration(group.since), what[1], what[2], node, what[3]});
  }
  lines->push_back("");
  AddTable(rows, width, lines);
  if (left_out > 0) {
    lines->push_back("and " + Plural(static_cast<int64_t>(left_out), "more rank"));
  }
}

void AddCommunicators(const ordered_json& status, size_t width, std::vector<std::string>* lines) {
  std::vector<const ordered_json*> shown;
  const bool ended = FieldFlag(status, "job_ended");
  for (const ordered_json* comm : FieldList(status, "communicators")) {
    if (ended || !FieldFlag(*comm, "destroyed")) {
      shown.push_back(comm);
    }
  }
  if (shown.empty()) {
    return;
  }
  std::stable_sort(shown.begin(), shown.end(), [](const ordered_json* a, const ordered_json* b) {
    return !FieldRanks(*a, "behind").empty() && FieldRanks(*b, "behind").empty();
  });
  std::vector<Row> rows = {{"COMMUNICATOR", "RANKS", "LAST COLLECTIVE", "BEHIND", "MADE AT"}};
  for (const ordered_json* comm : shown) {
    if (rows.size() > kMostCommLines) {
      break;
    }
    const int64_t size = FieldNumber(*comm, "size"), seen = FieldNumber(*comm, "ranks_seen");
    const int64_t least = FieldNumber(*comm, "sequence_min"),
                  most = FieldNumber(*comm, "sequence_max");
    const auto name = [](int64_t n) { return n < 0 ? "none" : "#" + std::to_string(n); };
    const std::vector<int> behind = FieldRanks(*comm, "behind");
    std::string ranks = FoldRanks(FieldRanks(*comm, "ranks"));
    if (seen != size) {
      ranks += (ranks.empty() ? "" : ": ") + std::to_string(seen) + " of " + std::to_string(size);
    }
    rows.push_back({FieldText(*comm, "name"), ranks,
                    least == most ? name(most) : name(least) + " to " + name(most),
                    behind.empty() ? "" : analyzer::RankList(behind), FieldText(*comm, "site")});
  }
  lines->push_back("");
  AddTable(rows, width, lines);
  if (shown.size() + 1 > rows.size()) {
    lines->push_back(
        "and " + Plural(static_cast<int64_t>(shown.size() + 1 - rows.size()), "more communicator"));
  }
}

bool FindingOf(const ordered_json& from, model::Finding* finding) {
  finding->summary = FieldText(from, "summary");
  finding->detected_after_s = std::max(0.0, FieldReal(from, "detected_after_s"));
  return analyzer::ParseVerdictKind(FieldText(from, "verdict"), &finding->verdict) &&
         analyzer::ParseConfidence(FieldText(from, "confidence"), &finding->confidence);
}

bool IsCalm(model::VerdictKind verdict) {
  return verdict == model::VerdictKind::kHealthy || verdict == model::VerdictKind::kFinished;
}

}  // namespace

std::string StatusOverview(const ordered_json& status, const std::string& title) {
  std::string line = Printable(title);
  const auto add = [&line](const std::string& what) { line += (line.empty() ? "" : ", ") + what; };
  if (const auto evidence = status.find("evidence");
      evidence != status.end() && evidence->is_object()) {
    const int64_t seen = FieldNumber(*evidence, "ranks_seen", 0);
    const int64_t expected = FieldNumber(*evidence, "ranks_expected", 0);
    add(seen < expected ? std::to_string(seen) + " of " + Plural(expected, "rank")
                        : Plural(seen, "rank"));
    add(Plural(FieldNumber(*evidence, "nccl_calls", 0), "NCCL call"));
  }
  if (const auto nodes = FieldList(status, "nodes"); nodes.size() > 1) {
    add(Plural(static_cast<int64_t>(nodes.size()), "node"));
  }
  int64_t incarnation = 1;
  for (const ordered_json* rank : FieldList(status, "ranks")) {
    incarnation = std::max(incarnation, FieldNumber(*rank, "incarnation", 1));
  }
  if (incarnation == 2) {
    add("restarted once");
  } else if (incarnation > 2) {
    add("restarted " + WithCommas(static_cast<uint64_t>(incarnation - 1)) + " times");
  }
  if (FieldFlag(status, "job_ended")) {
    add("job ended");
  } else if (const double since = FieldReal(status, "since_progress_s"); since >= 0) {
    model::Finding finding;
    (void)FindingOf(status, &finding);
    add(IsCalm(finding.verdict) ? "last progress " + Duration(since) + " ago"
                                : "no progress for " + Duration(since));
  }
  return line;
}

const char* VerdictStyle(const model::Finding& finding) {
  if (IsCalm(finding.verdict)) {
    return "\033[1;32m";
  }
  const bool proven =
      model::SaysTrouble(finding.verdict) && finding.confidence == model::Confidence::kConfirmed;
  return proven ? "\033[1;31m" : "\033[1;33m";
}

std::string StatusHeadline(const ordered_json& status, int width) {
  model::Finding finding;
  (void)FindingOf(status, &finding);
  return analyzer::Headline(finding, {.color = false, .width = width, .session = ""}) + "\n";
}

std::string StatusScreen(const ordered_json& status, const StatusViewOptions& options) {
  const size_t width = static_cast<size_t>(std::max(options.width, 60));
  std::vector<std::string> lines;
  lines.push_back(analyzer::CutAtWord(StatusOverview(status, options.title), width));
  if (const std::vector<int> culprits = FieldRanks(status, "culprit_ranks"); !culprits.empty()) {
    lines.push_back(
        analyzer::CutAtWord("cause: look at " + analyzer::RankList(culprits) + " first", width));
  }
  for (const ordered_json* further : FieldList(status, "further")) {
    lines.push_back(analyzer::CutAtWord("also: " + FieldText(*further, "verdict") + " (" +
                                            FieldText(*further, "confidence") +
                                            "): " + FieldText(*further, "summary"),
                                        width));
  }
  AddRanks(status, width, &lines);
  AddCommunicators(status, width, &lines);
  if (const auto evidence = status.find("evidence");
      evidence != status.end() && evidence->is_object()) {
    const std::vector<std::string> texts = FieldTexts(*evidence, "not_visible");
    if (!texts.empty()) {
      lines.push_back("");
    }
    for (size_t i = 0; i < texts.size() && i < kMostNotes; ++i) {
      lines.push_back(analyzer::CutAtWord("not visible: " + texts[i], width));
    }
  }
  // Prints the headline in full, on as many lines as it takes, so that the list below need not
  // repeat it.
  std::string headline = StatusHeadline(status, kNeverCut);
  headline.pop_back();  // the newline
  std::string screen = analyzer::Wrap("", "  ", headline, width);
  if (options.color) {
    screen.pop_back();
    model::Finding finding;
    (void)FindingOf(status, &finding);
    screen = VerdictStyle(finding) + screen + "\033[0m\n";
  }
  for (const std::string& line : lines) {
    screen += line + "\n";
  }
  return screen;
}

model::Verdict VerdictOfStatus(const ordered_json& status) {
  model::Verdict verdict;
  if (!FindingOf(status, &verdict.main)) {
    verdict.main.verdict = model::VerdictKind::kInconclusive;
  }
  verdict.main.check = FieldText(status, "check");
  verdict.main.culprit_ranks = FieldRanks(status, "culprit_ranks");
  verdict.main.victim_ranks = FieldRanks(status, "victim_ranks");
  if (const auto evidence = status.find("evidence");
      evidence != status.end() && evidence->is_object()) {
    verdict.main.evidence.not_visible = FieldTexts(*evidence, "not_visible");
    verdict.main.evidence.assumes = FieldTexts(*evidence, "assumes");
  }
  for (const ordered_json* further : FieldList(status, "further")) {
    (void)FindingOf(*further, &verdict.findings.emplace_back());
  }
  return verdict;
}

int ExitCodeOfJobStatus(const ordered_json& status) {
  return ExitCodeOfVerdict(VerdictOfStatus(status));
}

}  // namespace gordian::cli
