#include "collector/stacks/site_places.h"

#include <charconv>
#include <set>
#include <utility>

#include "common/source_excerpt.h"
#include "common/utf8.h"
#include "proto/ring/record.h"

namespace gordian::collector {
namespace {

bool InPython(const SiteToPlace& site) { return (site.site & ring::kTextSite) != 0; }

// File and line of a text as the front end of Python writes it.
void FromText(const std::string& text, std::string* file, int* line) {
  const size_t end = text.find('\n');
  if (end == std::string::npos) return;
  *file = text.substr(0, end);
  std::from_chars(text.data() + end + 1, text.data() + text.size(), *line);
}

}  // namespace

std::vector<NativeFrame> FramesOf(std::span<const SiteToPlace> sites) {
  std::vector<NativeFrame> frames;
  for (const SiteToPlace& site : sites) {
    if (!InPython(site)) {
      // A return address may be the first byte of the next function.
      frames.push_back({.address = site.site - 1});
    }
  }
  return frames;
}

void AddPlaces(std::span<const SiteToPlace> sites, std::span<const NativeFrame> named,
               v1::StacksTaken* out) {
  std::set<std::pair<std::string, int>> read;
  size_t next = 0;
  for (const SiteToPlace& site : sites) {
    std::string function, file;
    int line = 0;
    if (InPython(site)) {
      FromText(site.text, &file, &line);
    } else {
      const NativeFrame& frame = named[next++];
      function = frame.function;
      file = frame.file;
      line = frame.line;
    }
    if (file.empty() || line < 1) {
      file.clear();
      line = 0;
    }
    if (file.empty() && function.empty()) {
      continue;
    }
    v1::SitePlace* const place = out->add_sites();
    place->set_site(site.site);
    place->set_function(CleanUtf8(std::move(function)));
    place->set_file(CleanUtf8(file));
    place->set_line(line);
    if (file.empty() || !read.emplace(file, line).second) {
      continue;
    }
    SourceExcerpt excerpt = ReadAround(file, line);
    place->set_first_line(excerpt.first_line);
    for (std::string& text : excerpt.lines) {
      place->add_lines(std::move(text));
    }
  }
}

}  // namespace gordian::collector
