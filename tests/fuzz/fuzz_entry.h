// A fuzzed function takes any bytes and must neither crash, hang nor leak; what it checks beyond
// that it aborts on. libFuzzer calls it (LLVMFuzzerTestOneInput), and so do tests with bytes made
// from seeds, so that every build has a smoke test of it.
#ifndef GORDIAN_TESTS_FUZZ_FUZZ_ENTRY_H_
#define GORDIAN_TESTS_FUZZ_FUZZ_ENTRY_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace gordian::fuzz {

void FuzzTraceReader(const uint8_t* data, size_t bytes);
void FuzzRingFile(const uint8_t* data, size_t bytes);
// A ring file with a good header: slots for 8 of each kind, 4 threads with rings of 64 records.
std::string SmallRingFile();
void FuzzFlightDump(const uint8_t* data, size_t bytes);
void FuzzNcclReport(const uint8_t* data, size_t bytes);
void FuzzRankTrace(const uint8_t* data, size_t bytes);
void FuzzAnalysis(const uint8_t* data, size_t bytes);
void FuzzTraceContents(const uint8_t* data, size_t bytes);
void FuzzText(const uint8_t* data, size_t bytes);
void FuzzHttp(const uint8_t* data, size_t bytes);

}  // namespace gordian::fuzz

#endif  // GORDIAN_TESTS_FUZZ_FUZZ_ENTRY_H_
