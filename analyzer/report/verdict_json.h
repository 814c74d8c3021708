// Writes and reads verdict.json (schema gordian.verdict.v1). Every field is always present with the
// same type; unknown numbers are -1 or 0 and unknown texts "", as in
// analyzer/model/verdict/verdict.h.
#ifndef GORDIAN_ANALYZER_REPORT_VERDICT_JSON_H_
#define GORDIAN_ANALYZER_REPORT_VERDICT_JSON_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/verdict/verdict.h"
#include "analyzer/stacks/call_sites.h"
#include "common/status.h"

namespace gordian::analyzer {

inline constexpr char kVerdictSchema[] = "gordian.verdict.v1";

// Deterministic: keys in the schema's order. Replaces invalid UTF-8 in names.
nlohmann::ordered_json VerdictToJson(const model::Verdict& verdict, const SiteResolver& sites);
// Of a verdict that may change: which one it is, when it was written, and whether another one can
// follow. A file that says "closed": false, and whose writer has gone, says nothing of what came
// after `written`.
struct VerdictStamp {
  uint64_t revision = 0;    // 0: the verdict has no stamp
  uint64_t written_ns = 0;  // CLOCK_REALTIME
  bool closed = false;
};
// The bytes of verdict.json: indented by two, with a newline at the end.
std::string VerdictToText(const model::Verdict& verdict, const SiteResolver& sites,
                          const VerdictStamp& stamp = {});
// The revision in a verdict.json; 0 if there is no such file or it holds none.
uint64_t RecordedRevision(const std::string& path);

// A verdict that was read back. Its Sites hold indices into `site_texts` instead of addresses;
// sites() resolves them, so that report.h prints it like a fresh one.
struct VerdictDocument {
  model::Verdict verdict;
  std::vector<std::string> site_texts;
  std::optional<bool> closed;  // as in VerdictStamp; none: an earlier version wrote it, or no run
  std::string written;         // UTC; empty: not known

  SiteResolver sites() const;  // copies what it needs
};

// Errors: not JSON, another schema, a missing or mistyped field (named with its path).
StatusOr<VerdictDocument> ParseVerdict(std::string_view text);
// The same for a file; errors name it.
StatusOr<VerdictDocument> ReadVerdictFile(const std::string& path);

// Parses the names in verdict.json. Returns false for an unknown name.
bool ParseVerdictKind(std::string_view name, model::VerdictKind* kind);
bool ParseConfidence(std::string_view name, model::Confidence* confidence);
// "not_called" ... "done", as in the members of verdict.json's operations.
const char* PartStateName(model::PartState state);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_REPORT_VERDICT_JSON_H_
