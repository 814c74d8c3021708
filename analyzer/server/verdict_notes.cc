#include "analyzer/server/verdict_notes.h"

#include <fmt/format.h>

namespace gordian::server {

void AddNotes(const std::vector<std::string>& notes, graph::Verdict* verdict) {
  auto add = [&notes](graph::Finding* finding) {
    std::vector<std::string>& to = finding->evidence.not_visible;
    to.insert(to.end(), notes.begin(), notes.end());
  };
  add(&verdict->main);
  for (graph::Finding& finding : verdict->findings) add(&finding);
}

void NoteDropped(uint64_t dropped, graph::Verdict* verdict) {
  if (dropped == 0) return;
  AddNotes({fmt::format("{} events made no sense and were left out", dropped)}, verdict);
}

}  // namespace gordian::server
