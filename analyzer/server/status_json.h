// What a job is at: verdict, ranks, communicators, as JSON (schema gordian.status.v1). The same for
// a job that lives and for one that was recorded.
//
// All fields are always there, with the same types; unknown numbers are -1, unknown texts "".
#ifndef GORDIAN_ANALYZER_SERVER_STATUS_JSON_H_
#define GORDIAN_ANALYZER_SERVER_STATUS_JSON_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "analyzer/graph/job_snapshot.h"
#include "analyzer/graph/verdict.h"
#include "analyzer/server/call_sites.h"

namespace gordian::server {

inline constexpr char kStatusSchema[] = "gordian.status.v1";

struct NodeOfJob {
  uint32_t index = 0;
  std::string name;
  int32_t number = -1;
  bool away = false;
  bool ended = false;
};

struct StatusFacts {
  graph::Verdict verdict;
  graph::JobSnapshot snapshot;
  uint64_t revision = 0;
  bool job_ended = false;
  uint64_t now_ns = 0;           // of the analyzer's clock
  std::vector<NodeOfJob> nodes;  // empty: one, without a name of its own
  std::string host;              // of that one
  SiteResolver sites;
  std::function<std::string(uint16_t)> symbol;  // of a call number; "": not known
};

nlohmann::ordered_json StatusToJson(const StatusFacts& facts);
// Indented by two, with a newline at the end. Invalid UTF-8 in names is replaced.
std::string StatusToText(const StatusFacts& facts);

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_STATUS_JSON_H_
