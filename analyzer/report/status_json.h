// The state of a job as JSON (schema gordian.status.v1): verdict, ranks, communicators. The same
// for a live job and a recorded one.
//
// Every field is always present with the same type; unknown numbers are -1, unknown texts "".
#ifndef GORDIAN_ANALYZER_REPORT_STATUS_JSON_H_
#define GORDIAN_ANALYZER_REPORT_STATUS_JSON_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analyzer/model/verdict/job_snapshot.h"
#include "analyzer/model/verdict/verdict.h"
#include "analyzer/stacks/call_sites.h"

namespace gordian::analyzer {

inline constexpr char kStatusSchema[] = "gordian.status.v1";

struct NodeOfJob {
  uint32_t index = 0;
  std::string name;
  int32_t number = -1;
  bool away = false;
  bool ended = false;
};

struct StatusFacts {
  model::Verdict verdict;
  model::JobSnapshot snapshot;
  uint64_t revision = 0;
  bool job_ended = false;
  uint64_t now_ns = 0;           // on the analyzer's clock
  std::vector<NodeOfJob> nodes;  // empty: one unnamed node
  std::string host;              // of that one node
  SiteResolver sites;
  std::function<std::string(uint16_t)> symbol;  // name of a call number; "": unknown
};

nlohmann::ordered_json StatusToJson(const StatusFacts& facts);
// Indents by two and ends with a newline. Replaces invalid UTF-8 in names.
std::string StatusToText(const StatusFacts& facts);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_REPORT_STATUS_JSON_H_
