#include <cstdlib>
#include <string>
#include <string_view>

#include "analyzer/importers/flight_verdict.h"
#include "analyzer/importers/plain_data.h"
#include "tests/fuzz/fuzz_entry.h"

namespace gordian::fuzz {

// Any bytes, as a pickle, as JSON, and as a dump of which a verdict is asked.
void FuzzFlightDump(const uint8_t* data, size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  for (const auto& read : {importers::ReadPickle(text), importers::ReadJson(text)}) {
    if (!read.ok() && read.status().message().empty()) std::abort();
    // Every opcode and every JSON value takes a byte, so there cannot be more values.
    if (read.ok() && read->nodes() > bytes) std::abort();
  }
  StatusOr<importers::FlightDump> dump = importers::ParseFlightDump(text);
  if (!dump.ok()) return;
  importers::FlightDump other = *dump;
  other.rank = 1;
  const model::Verdict verdict = importers::DecideFlightDumps({*dump, other});
  if (verdict.main.summary.empty() || verdict.main.confidence == model::Confidence::kConfirmed)
    std::abort();
}

}  // namespace gordian::fuzz

#ifdef GORDIAN_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  gordian::fuzz::FuzzFlightDump(data, bytes);
  return 0;
}
#endif
