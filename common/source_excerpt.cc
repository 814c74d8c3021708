#include "common/source_excerpt.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "common/read_file.h"
#include "common/utf8.h"

namespace gordian {
namespace {

constexpr int kAround = 5;
constexpr size_t kMostLineBytes = 240;
constexpr uint64_t kMostSourceBytes = 4 << 20;
constexpr std::array<std::string_view, 11> kEndings = {".py",  ".cc", ".cpp", ".cxx", ".c", ".cu",
                                                       ".cuh", ".h",  ".hpp", ".hh",  ".rs"};

bool IsSource(std::string_view path) {
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [path](std::string_view ending) { return path.ends_with(ending); });
}

std::string Shown(std::string_view text) {
  std::string one = CleanUtf8(std::string(text.substr(0, kMostLineBytes)));
  std::replace(one.begin(), one.end(), '\t', ' ');
  return Printable(one);
}

}  // namespace

SourceExcerpt ReadAround(const std::string& path, int line) {
  SourceExcerpt found{.path = path, .line = line};
  if (!path.starts_with('/') || !IsSource(path) || line < 1) return found;
  const StatusOr<std::string> text = ReadWholeFile(path, kMostSourceBytes);
  if (!text.ok()) return found;  // sources are often on another machine
  found.first_line = std::max(1, line - kAround);
  int number = 1;
  for (size_t at = 0; at < text->size() && number - kAround <= line; ++number) {
    const size_t end = std::min(text->find('\n', at), text->size());
    if (number >= found.first_line) {
      found.lines.push_back(Shown(std::string_view(*text).substr(at, end - at)));
    }
    at = end + 1;
  }
  if (number <= line) found.lines.clear();  // the file has changed since
  return found;
}

void MakeHarmless(SourceExcerpt* excerpt) {
  if (excerpt->path.size() > kMostExcerptPath) *excerpt = {};
  excerpt->path = Printable(CleanUtf8(std::move(excerpt->path)));
  const int first = excerpt->first_line;
  const bool around = excerpt->line >= 1 && first >= 1 && first <= excerpt->line &&
                      excerpt->line - first <= kAround &&
                      excerpt->lines.size() > static_cast<size_t>(excerpt->line - first);
  if (!around) excerpt->lines.clear();
  if (excerpt->lines.empty()) return;
  excerpt->lines.resize(
      std::min(excerpt->lines.size(), static_cast<size_t>(excerpt->line - first + kAround + 1)));
  for (std::string& line : excerpt->lines) line = Shown(line);
}

}  // namespace gordian
