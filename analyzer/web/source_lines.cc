#include "analyzer/web/source_lines.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "common/read_file.h"
#include "common/utf8.h"

namespace gordian::web {
namespace {

constexpr size_t kMostSites = 64;
constexpr int kAround = 5;
constexpr size_t kMostLineBytes = 240;
constexpr uint64_t kMostSourceBytes = 4 << 20;
constexpr std::array<std::string_view, 11> kEndings = {".py",  ".cc", ".cpp", ".cxx", ".c", ".cu",
                                                       ".cuh", ".h",  ".hpp", ".hh",  ".rs"};

bool IsSource(std::string_view path) {
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [path](std::string_view ending) { return path.ends_with(ending); });
}

}  // namespace

SourceLines ReadAround(const std::string& path, int line) {
  SourceLines found{.path = path, .line = line};
  if (!path.starts_with('/') || !IsSource(path) || line < 1) return found;
  const StatusOr<std::string> text = ReadWholeFile(path, kMostSourceBytes);
  if (!text.ok()) return found;  // sources are often on another machine
  found.first_line = std::max(1, line - kAround);
  int number = 1;
  for (size_t at = 0; at < text->size() && number <= line + kAround; ++number) {
    const size_t end = std::min(text->find('\n', at), text->size());
    if (number >= found.first_line) {
      std::string one = CleanUtf8(text->substr(at, std::min(end - at, kMostLineBytes)));
      std::replace(one.begin(), one.end(), '\t', ' ');
      found.lines.push_back(Printable(one));
    }
    at = end + 1;
  }
  if (number <= line) found.lines.clear();  // the file has changed since
  return found;
}

std::vector<SourceLines> ReadSourceLines(const model::Verdict& verdict,
                                         analyzer::CallSites* sites) {
  std::vector<SourceLines> all;
  std::set<std::pair<model::ProcessId, uint64_t>> seen;
  std::set<std::string> named;
  const auto add = [&](const model::Site& site) {
    if (site.address == 0 || seen.size() >= kMostSites) return;
    if (!seen.emplace(site.process, site.address).second) return;
    std::string text = sites->Describe(site);
    if (!named.insert(text).second) return;
    const analyzer::CallSite where = sites->Resolve(site.process, site.address);
    SourceLines lines = ReadAround(where.file, where.line);
    if (lines.lines.empty()) return;
    lines.site = std::move(text);
    all.push_back(std::move(lines));
  };
  const auto of = [&](const model::Finding& finding) {
    for (const model::WaitEdge& edge : finding.cycle) add(edge.site);
    for (const model::StuckOperation& operation : finding.operations) {
      for (const model::OperationMember& member : operation.members) add(member.site);
    }
  };
  of(verdict.main);
  for (const model::Finding& finding : verdict.findings) of(finding);
  return all;
}

}  // namespace gordian::web
