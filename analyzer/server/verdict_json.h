// verdict.json (schema gordian.verdict.v1), written and read. All fields are always there, with the
// same types; unknown numbers are -1 or 0 and unknown texts "", as in analyzer/graph/verdict.h.
#ifndef GORDIAN_ANALYZER_SERVER_VERDICT_JSON_H_
#define GORDIAN_ANALYZER_SERVER_VERDICT_JSON_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/graph/verdict.h"
#include "analyzer/server/call_sites.h"
#include "common/status.h"

namespace gordian::server {

inline constexpr char kVerdictSchema[] = "gordian.verdict.v1";

// Deterministic: keys in the order of the schema. Invalid UTF-8 in names is replaced.
nlohmann::ordered_json VerdictToJson(const graph::Verdict& verdict, const SiteResolver& sites);
// Indented by two, with a newline at the end: the bytes of verdict.json.
// `revision` of a verdict that may change; 0: none is written.
std::string VerdictToText(const graph::Verdict& verdict, const SiteResolver& sites,
                          uint64_t revision = 0);
// That of a file; 0: there is no such file, or it says none.
uint64_t RecordedRevision(const std::string& path);

// A verdict that was read back. Its Sites carry no addresses but places in `site_texts`; sites()
// turns them into text, so that report.h prints it like a fresh one.
struct VerdictDocument {
  graph::Verdict verdict;
  std::vector<std::string> site_texts;

  SiteResolver sites() const;  // copies what it needs
};

// Errors: not JSON; another schema; a field missing or of a wrong type (named, with its path).
StatusOr<VerdictDocument> ParseVerdict(std::string_view text);
// The same from a file; the errors name it.
StatusOr<VerdictDocument> ReadVerdictFile(const std::string& path);

// The names of verdict.json, back. False: no such name.
bool ParseVerdictKind(std::string_view name, graph::VerdictKind* kind);
bool ParseConfidence(std::string_view name, graph::Confidence* confidence);
// "not_called" ... "done", as in the members of verdict.json's operations.
const char* PartStateName(graph::PartState state);

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_VERDICT_JSON_H_
