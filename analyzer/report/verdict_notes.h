// Notes in every finding's evidence what the analyzer itself could not see.
#ifndef GORDIAN_ANALYZER_REPORT_VERDICT_NOTES_H_
#define GORDIAN_ANALYZER_REPORT_VERDICT_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"

namespace gordian::analyzer {

void AddNotes(const std::vector<std::string>& notes, model::Verdict* verdict);

// Notes malformed events; does nothing if `dropped` is 0.
void NoteDropped(uint64_t dropped, model::Verdict* verdict);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_REPORT_VERDICT_NOTES_H_
