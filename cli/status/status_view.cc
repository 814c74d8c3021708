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
#include "common/utf8.h"

namespace gordian::cli {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostRankLines = 24;
constexpr size_t kMostCommLines = 16;
constexpr size_t kMostNotes = 4;
constexpr size_t kWidestCell = 44;
constexpr int kNeverCut = 1 << 20;

std::string Text(const ordered_json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? Printable(found->get<std::string>()) : "";
}

int64_t Number(const ordered_json& from, const char* key, int64_t otherwise = -1) {
  const auto found = from.find(key);
  return found != from.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

double Real(const ordered_json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_number() ? found->get<double>() : -1;
}

bool Flag(const ordered_json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_boolean() && found->get<bool>();
}

// The elements of the array `key`; empty if there is no such array.
std::vector<const ordered_json*> List(const ordered_json& from, const char* key) {
  std::vector<const ordered_json*> items;
  const auto found = from.find(key);
  if (found == from.end() || !found->is_array()) {
    return items;
  }
  for (const ordered_json& item : *found) {
    if (item.is_object()) {
      items.push_back(&item);
    }
  }
  return items;
}

std::vector<int> Ranks(const ordered_json& from, const char* key) {
  std::vector<int> ranks;
  const auto found = from.find(key);
  if (found == from.end() || !found->is_array()) {
    return ranks;
  }
  for (const ordered_json& item : *found) {
    if (item.is_number_integer()) {
      ranks.push_back(item.get<int>());
    }
  }
  return ranks;
}

// Whole units keep a redrawn screen calm.
std::string Duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e12) {
    return "-";
  }
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) {
    return std::to_string(whole) + " s";
  }
  if (whole < 3600) {
    return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  }
  return std::to_string(whole / 3600) + " h " + std::to_string(whole / 60 % 60) + " min";
}

std::string Plural(int64_t count, const std::string& what) {
  return WithCommas(static_cast<uint64_t>(std::max<int64_t>(count, 0))) + " " + what +
         (count == 1 ? "" : "s");
}

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
  const std::vector<int> culprits = Ranks(status, "culprit_ranks");
  std::vector<std::pair<Row, Group>> groups;  // in the order of their first ranks
  std::map<std::pair<Row, bool>, size_t> places;
  for (const ordered_json* rank : List(status, "ranks")) {
    std::string state = Text(*rank, "state");
    std::replace(state.begin(), state.end(), '_', ' ');
    const std::string ending = Text(*rank, "ending");
    const Row what = {ending.empty() ? state : ending, Text(*rank, "call"),
                      Text(*rank, "operation"), Text(*rank, "site")};
    const int number = static_cast<int>(Number(*rank, "rank"));
    const bool culprit = std::find(culprits.begin(), culprits.end(), number) != culprits.end();
    const auto [place, is_new] = places.try_emplace({what, culprit}, groups.size());
    if (is_new) {
      groups.push_back({what, {}});
    }
    Group& group = groups[place->second].second;
    group.ranks.push_back(number);
    group.since = std::max(group.since, Real(*rank, "since_s"));
    group.pid = Number(*rank, "pid");
    group.nodes.insert(Text(*rank, "node"));
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
  const bool ended = Flag(status, "job_ended");
  for (const ordered_json* comm : List(status, "communicators")) {
    if (ended || !Flag(*comm, "destroyed")) {
      shown.push_back(comm);
    }
  }
  if (shown.empty()) {
    return;
  }
  std::stable_sort(shown.begin(), shown.end(), [](const ordered_json* a, const ordered_json* b) {
    return !Ranks(*a, "behind").empty() && Ranks(*b, "behind").empty();
  });
  std::vector<Row> rows = {{"COMMUNICATOR", "RANKS", "LAST COLLECTIVE", "BEHIND", "MADE AT"}};
  for (const ordered_json* comm : shown) {
    if (rows.size() > kMostCommLines) {
      break;
    }
    const int64_t size = Number(*comm, "size"), seen = Number(*comm, "ranks_seen");
    const int64_t least = Number(*comm, "sequence_min"), most = Number(*comm, "sequence_max");
    const auto name = [](int64_t n) { return n < 0 ? "none" : "#" + std::to_string(n); };
    const std::vector<int> behind = Ranks(*comm, "behind");
    std::string ranks = FoldRanks(Ranks(*comm, "ranks"));
    if (seen != size) {
      ranks += (ranks.empty() ? "" : ": ") + std::to_string(seen) + " of " + std::to_string(size);
    }
    rows.push_back({Text(*comm, "name"), ranks,
                    least == most ? name(most) : name(least) + " to " + name(most),
                    behind.empty() ? "" : analyzer::RankList(behind), Text(*comm, "site")});
  }
  lines->push_back("");
  AddTable(rows, width, lines);
  if (shown.size() + 1 > rows.size()) {
    lines->push_back(
        "and " + Plural(static_cast<int64_t>(shown.size() + 1 - rows.size()), "more communicator"));
  }
}

std::string Overview(const ordered_json& status, const std::string& title) {
  std::string line = title;
  const auto add = [&line](const std::string& what) { line += (line.empty() ? "" : ", ") + what; };
  if (const auto evidence = status.find("evidence");
      evidence != status.end() && evidence->is_object()) {
    const int64_t seen = Number(*evidence, "ranks_seen", 0);
    const int64_t expected = Number(*evidence, "ranks_expected", 0);
    add(seen < expected ? std::to_string(seen) + " of " + Plural(expected, "rank")
                        : Plural(seen, "rank"));
    add(Plural(Number(*evidence, "nccl_calls", 0), "NCCL call"));
  }
  if (const auto nodes = List(status, "nodes"); nodes.size() > 1) {
    add(Plural(static_cast<int64_t>(nodes.size()), "node"));
  }
  int64_t incarnation = 1;
  for (const ordered_json* rank : List(status, "ranks")) {
    incarnation = std::max(incarnation, Number(*rank, "incarnation", 1));
  }
  if (incarnation == 2) {
    add("restarted once");
  } else if (incarnation > 2) {
    add("restarted " + WithCommas(static_cast<uint64_t>(incarnation - 1)) + " times");
  }
  if (Flag(status, "job_ended")) {
    add("job ended");
  } else if (const double since = Real(status, "since_progress_s"); since >= 0) {
    add("last progress " + Duration(since) + " ago");
  }
  return line;
}

bool FindingOf(const ordered_json& from, model::Finding* finding) {
  finding->summary = Text(from, "summary");
  finding->detected_after_s = std::max(0.0, Real(from, "detected_after_s"));
  return analyzer::ParseVerdictKind(Text(from, "verdict"), &finding->verdict) &&
         analyzer::ParseConfidence(Text(from, "confidence"), &finding->confidence);
}

const char* StyleOf(const ordered_json& status) {
  model::Finding finding;
  (void)FindingOf(status, &finding);
  if (finding.verdict == model::VerdictKind::kHealthy ||
      finding.verdict == model::VerdictKind::kFinished) {
    return "\033[1;32m";
  }
  const bool proven =
      model::SaysTrouble(finding.verdict) && finding.confidence == model::Confidence::kConfirmed;
  return proven ? "\033[1;31m" : "\033[1;33m";
}

}  // namespace

std::string FoldRanks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string out;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    out += (out.empty() ? "" : ",") + (ranks[i] < 0 ? std::string("?") : std::to_string(ranks[i]));
    if (last > i && ranks[i] >= 0) {
      out += (last == i + 1 ? "," : "-") + std::to_string(ranks[last]);
    } else {
      last = i;
    }
    i = last + 1;
  }
  return out;
}

std::string StatusHeadline(const ordered_json& status, int width) {
  model::Finding finding;
  (void)FindingOf(status, &finding);
  return analyzer::Headline(finding, {.color = false, .width = width, .session = ""}) + "\n";
}

std::string StatusScreen(const ordered_json& status, const StatusViewOptions& options) {
  const size_t width = static_cast<size_t>(std::max(options.width, 60));
  std::vector<std::string> lines;
  lines.push_back(analyzer::CutAtWord(Overview(status, Printable(options.title)), width));
  if (const std::vector<int> culprits = Ranks(status, "culprit_ranks"); !culprits.empty()) {
    lines.push_back(
        analyzer::CutAtWord("cause: look at " + analyzer::RankList(culprits) + " first", width));
  }
  for (const ordered_json* further : List(status, "further")) {
    lines.push_back(analyzer::CutAtWord("also: " + Text(*further, "verdict") + " (" +
                                            Text(*further, "confidence") +
                                            "): " + Text(*further, "summary"),
                                        width));
  }
  AddRanks(status, width, &lines);
  AddCommunicators(status, width, &lines);
  if (const auto evidence = status.find("evidence");
      evidence != status.end() && evidence->is_object() && evidence->contains("not_visible") &&
      (*evidence)["not_visible"].is_array() && !(*evidence)["not_visible"].empty()) {
    lines.push_back("");
    const ordered_json& texts = (*evidence)["not_visible"];
    for (size_t i = 0; i < texts.size() && i < kMostNotes; ++i) {
      if (texts[i].is_string()) {
        lines.push_back(
            analyzer::CutAtWord("not visible: " + Printable(texts[i].get<std::string>()), width));
      }
    }
  }
  // Prints the headline in full, on as many lines as it takes, so that the list below need not
  // repeat it.
  std::string headline = StatusHeadline(status, kNeverCut);
  headline.pop_back();  // the newline
  std::string screen = analyzer::Wrap("", "  ", headline, width);
  if (options.color) {
    screen.pop_back();
    screen = StyleOf(status) + screen + "\033[0m\n";
  }
  for (const std::string& line : lines) {
    screen += line + "\n";
  }
  return screen;
}

int ExitCodeOfJobStatus(const ordered_json& status) {
  model::Verdict verdict;
  if (!FindingOf(status, &verdict.main)) {
    verdict.main.verdict = model::VerdictKind::kInconclusive;
  }
  for (const ordered_json* further : List(status, "further")) {
    (void)FindingOf(*further, &verdict.findings.emplace_back());
  }
  return ExitCodeOfVerdict(verdict);
}

}  // namespace gordian::cli
