// What the analyzer itself could not see, in the evidence of every finding of a verdict.
#ifndef GORDIAN_ANALYZER_SERVER_VERDICT_NOTES_H_
#define GORDIAN_ANALYZER_SERVER_VERDICT_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/graph/verdict.h"

namespace gordian::server {

void AddNotes(const std::vector<std::string>& notes, graph::Verdict* verdict);

// Events that made no sense; 0: no note.
void NoteDropped(uint64_t dropped, graph::Verdict* verdict);

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_VERDICT_NOTES_H_
