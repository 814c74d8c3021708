#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/importers/chakra.h"
#include "analyzer/importers/execution_trace.h"
#include "analyzer/importers/kineto.h"
#include "analyzer/importers/rank_traces.h"
#include "analyzer/importers/whole_operations.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::fuzz {

// Any bytes, as a trace of PyTorch's profiler, of its ExecutionTraceObserver and of Chakra, of which a verdict is asked: it
// is never confirmed, a trace agrees with itself, and what is refused is refused in words.
void FuzzRankTrace(const uint8_t* data, size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  for (const auto parse :
       {importers::ParseKinetoTrace, importers::ParseExecutionTrace, importers::ParseChakraTrace}) {
    StatusOr<importers::RankTrace> trace = parse(importers::PullText(text));
    if (!trace.ok()) {
      if (trace.status().message().empty()) std::abort();
      continue;
    }
    std::vector<importers::RankTrace> traces(2, std::move(*trace));
    traces.back().dump.rank = traces.front().dump.rank + 1;
    const importers::WholeOperations whole = importers::FindWholeOperations(traces);
    for (const importers::WholeOperation& operation : whole.operations) {
      importers::NcclCallOf(*operation.by_rank.begin()->second);
      importers::AtAllMembers(operation, *whole.groups.at(operation.group));
    }
    const model::Verdict verdict = importers::DecideRankTraces(std::move(traces));
    if (verdict.main.summary.empty() || verdict.main.verdict != model::VerdictKind::kInconclusive ||
        verdict.main.confidence == model::Confidence::kConfirmed)
      std::abort();
  }
}

}  // namespace gordian::fuzz

#ifdef GORDIAN_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gordian::fuzz::FuzzRankTrace(data, bytes);
  return 0;
}
#endif
