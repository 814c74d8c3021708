#include "analyzer/report/text_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace gordian::analyzer {
namespace {

constexpr size_t kMaxRankRuns = 8;

// The largest place at or before `at` that is not within a UTF-8 character.
size_t CharacterStart(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  if (bytes == 1) return "1 byte";
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string RankList(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) {
    return ranks[0] < 0 ? "an unknown rank" : fmt::format("rank {}", ranks[0]);
  }
  std::vector<std::string> parts;
  size_t shown = 0;
  for (size_t i = 0; i < ranks.size() && parts.size() < kMaxRankRuns;) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last >= i + 2) {
      parts.push_back(fmt::format("{}-{}", ranks[i], ranks[last]));
      i = last + 1;
    } else {
      parts.push_back(fmt::format("{}", ranks[i]));
      ++i;
    }
    shown = i;
  }
  if (shown < ranks.size()) parts.push_back(fmt::format("{} more", ranks.size() - shown));
  std::string out = "ranks " + parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    out += (i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return out;
}

std::string CutTo(std::string text, size_t width) {
  if (text.size() <= width || width < 4) return text;
  text.resize(CharacterStart(text, width - 3));
  return text + "...";
}

std::string CutAtWord(const std::string& text, size_t width) {
  if (text.size() <= width || width < 4) return text;
  const size_t space = text.rfind(' ', width - 4);
  if (space == std::string::npos || space < width / 2) return CutTo(text, width);
  return text.substr(0, space) + " ...";
}

std::string Wrap(std::string_view first, std::string_view text, size_t width) {
  return Wrap(first, std::string(first.size(), ' '), text, width);
}

std::string Wrap(std::string_view first, std::string_view further, std::string_view text,
                 size_t width) {
  std::string out;
  std::string line(first);
  bool fresh = true;  // the line holds only its start so far
  auto finish = [&] {
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
    line = further;
    fresh = true;
  };
  while (!text.empty()) {
    const size_t space = text.find(' ');
    std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (word.empty()) continue;
    if (!fresh && line.size() + 1 + word.size() > width) finish();
    while (fresh && line.size() + word.size() > width && width > line.size() + 8) {
      const size_t fits = CharacterStart(word, width - line.size());
      if (fits == 0) break;
      line += word.substr(0, fits);
      word.remove_prefix(fits);
      if (!word.empty()) finish();
    }
    if (word.empty()) {
      fresh = false;
      continue;
    }
    if (!fresh) line += ' ';
    line += word;
    fresh = false;
  }
  finish();
  return out;
}

}  // namespace gordian::analyzer
