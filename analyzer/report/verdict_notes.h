// Adds to every finding what the model does not know: what the analyzer itself could not see, and
// the names of nodes.
#ifndef GORDIAN_ANALYZER_REPORT_VERDICT_NOTES_H_
#define GORDIAN_ANALYZER_REPORT_VERDICT_NOTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/report/status_json.h"

namespace gordian::analyzer {

void AddNotes(const std::vector<std::string>& notes, model::Verdict* verdict);

// Adds notes on parts of the job that gordian did not see. They may have held a problem: lowers a
// verdict of none to suspected.
void NoteUnseen(const std::vector<std::string>& notes, model::Verdict* verdict);

// Notes malformed events; does nothing if `dropped` is 0.
void NoteDropped(uint64_t dropped, model::Verdict* verdict);

// Fills the nodes of the culprits' processes. `host`: of a job on one node.
void NameNodes(const std::vector<NodeOfJob>& nodes, const std::string& host,
               model::Verdict* verdict);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_REPORT_VERDICT_NOTES_H_
