#include "cli/watch/verdict_card.h"

#include <algorithm>

#include "analyzer/report/report.h"
#include "analyzer/report/text_layout.h"

namespace gordian::cli {
namespace {

// ReportText makes no narrower lines.
constexpr size_t kReportWidth = 80;

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

void Append(const std::string& line, size_t width, std::vector<std::string>* lines) {
  for (std::string& part : BreakLine(line, width)) lines->push_back(std::move(part));
}

}  // namespace

std::vector<std::string> BreakLine(const std::string& line, size_t width) {
  if (line.size() <= width) return {line};
  std::string indent = line.substr(0, std::min(line.find_first_not_of(" |+->"), line.size()));
  if (indent.size() + 8 > width) indent.clear();
  const std::string words = line.substr(indent.size());
  std::string further = indent;
  // Where an arrow begins, the lines below it have its bar.
  std::replace(further.begin(), further.end(), '+', '|');
  std::replace_if(
      further.begin(), further.end(), [](char c) { return c == '-' || c == '>'; }, ' ');
  std::vector<std::string> lines = LinesOf(analyzer::Wrap(indent, further + "  ", words, width));
  // Wrap leaves a word whole that is too long for a line of its own beside the indent.
  for (std::string& part : lines) part = analyzer::CutTo(part, width);
  return lines;
}

VerdictCard MakeVerdictCard(const WatchData& data, size_t width) {
  // The lists show the findings beside the main one, and opened ranks their stacks.
  model::Verdict verdict = data.verdict;
  verdict.findings.clear();
  verdict.stacks.clear();
  const std::vector<std::string> report =
      LinesOf(analyzer::ReportText(verdict, data.sites,
                                   {.color = false,
                                    .width = static_cast<int>(std::max(width, kReportWidth)),
                                    .session = data.session}));
  VerdictCard card;
  size_t at = 0;
  while (at < report.size() && (at == 0 || report[at].starts_with("  "))) {
    Append(report[at++], width, &card.lines);
  }
  card.head = card.lines.size();
  Append(data.overview, width, &card.lines);
  for (; at < report.size(); ++at) Append(report[at], width, &card.lines);
  return card;
}

}  // namespace gordian::cli
