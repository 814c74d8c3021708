#include <cstdlib>
#include <string>
#include <string_view>

#include "analyzer/importers/inspector.h"
#include "analyzer/importers/ras.h"
#include "analyzer/importers/sources.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::fuzz {

// Any bytes, as a report of NCCL RAS and as a file of NCCL Inspector, of which verdicts are asked:
// none is ever confirmed, and what is refused is refused in words.
void FuzzNcclReport(const uint8_t* data, size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  importers::SourceOf(text);
  if (StatusOr<importers::RasReport> report = importers::ParseRasReport(text); report.ok()) {
    importers::RasReport later = *report;
    later.time += "z";
    for (const model::Verdict& verdict :
         {importers::DecideRasReports({*report}), importers::DecideRasReports({later, *report})}) {
      if (verdict.main.summary.empty() || verdict.main.confidence == model::Confidence::kConfirmed)
        std::abort();
    }
  } else if (report.status().message().empty()) {
    std::abort();
  }
  importers::InspectorJob job;
  const Status status = job.Add(text);
  if (!status.ok() && status.message().empty()) std::abort();
  const model::Verdict verdict = job.Decide();
  if (verdict.main.summary.empty() || verdict.main.confidence == model::Confidence::kConfirmed)
    std::abort();
}

}  // namespace gordian::fuzz

#ifdef GORDIAN_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gordian::fuzz::FuzzNcclReport(data, bytes);
  return 0;
}
#endif
