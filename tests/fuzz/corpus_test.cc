// The fuzzed functions, of the inputs that fuzzing found to reach different code: tests/fuzz/corpus.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/fuzz_entry.h"

namespace gordian::fuzz {
namespace {

struct Fuzzer {
  const char* name;
  void (*function)(const uint8_t* data, size_t bytes);
};

class Corpus : public testing::TestWithParam<Fuzzer> {};

TEST_P(Corpus, EveryInput) {
  const std::string folder = std::string(GORDIAN_CORPUS_DIR) + "/" + GetParam().name;
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    GetParam().function(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    ++inputs;
  }
  EXPECT_GT(inputs, 0) << folder;
}

INSTANTIATE_TEST_SUITE_P(
    Fuzzers, Corpus,
    testing::Values(Fuzzer{"analysis", FuzzAnalysis}, Fuzzer{"flight_dump", FuzzFlightDump},
                    Fuzzer{"http", FuzzHttp}, Fuzzer{"nccl_report", FuzzNcclReport},
                    Fuzzer{"rank_trace", FuzzRankTrace}, Fuzzer{"ring_file", FuzzRingFile},
                    Fuzzer{"text", FuzzText}, Fuzzer{"trace_contents", FuzzTraceContents},
                    Fuzzer{"trace_reader", FuzzTraceReader}),
    [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace gordian::fuzz
