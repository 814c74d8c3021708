// A fuzzed function takes any bytes and must neither crash, hang nor leak; what it checks beyond
// that it aborts on. libFuzzer calls it (LLVMFuzzerTestOneInput), and so do tests with bytes made
// from seeds, so that every build has a smoke test of it.
#ifndef GORDIAN_TESTS_FUZZ_FUZZ_ENTRY_H_
#define GORDIAN_TESTS_FUZZ_FUZZ_ENTRY_H_

#include <cstddef>
#include <cstdint>

namespace gordian::fuzz {

void FuzzTraceReader(const uint8_t* data, size_t bytes);
void FuzzRingFile(const uint8_t* data, size_t bytes);
void FuzzFlightDump(const uint8_t* data, size_t bytes);
void FuzzNcclReport(const uint8_t* data, size_t bytes);
void FuzzAnalysis(const uint8_t* data, size_t bytes);
void FuzzTraceContents(const uint8_t* data, size_t bytes);
void FuzzText(const uint8_t* data, size_t bytes);

}  // namespace gordian::fuzz

#endif  // GORDIAN_TESTS_FUZZ_FUZZ_ENTRY_H_
