// What a verdict over several sources rests on, for people and as the member `merged` of a
// verdict's JSON (schema gordian.verdict.v1).
#ifndef GORDIAN_ANALYZER_MERGE_MERGED_TEXT_H_
#define GORDIAN_ANALYZER_MERGE_MERGED_TEXT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analyzer/merge/merged_job.h"

namespace gordian::merge {

nlohmann::ordered_json MergedToJson(const MergedJob& job);

// Lines that end in a newline, at most `width` wide where words allow it.
std::string MergedText(const MergedJob& job, int width);

}  // namespace gordian::merge

#endif  // GORDIAN_ANALYZER_MERGE_MERGED_TEXT_H_
