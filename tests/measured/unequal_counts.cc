#include "tests/measured/unequal_counts.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>

namespace gordian::measured {
namespace {

// In the order of the table's columns.
constexpr std::array kColumns = {Ends::kBoth, Ends::kSmaller, Ends::kNone, Ends::kLarger};
constexpr std::array kTitles = {"Both end, with wrong data", "Only the smaller ends", "Both hang",
                                "Only the larger ends"};

// A number of KiB, as "1,024".
uint64_t BytesOf(std::string kib) {
  std::erase(kib, ',');
  return std::stoull(kib) << 10;
}

std::vector<Pair> Read() {
  std::ifstream file(GORDIAN_MEASURED_FILE);
  const nlohmann::json results = nlohmann::json::parse(file);
  for (const nlohmann::json& table : results.at("tables")) {
    if (table.at("id") != "counts") continue;
    for (size_t i = 0; i < kTitles.size(); ++i) {
      if (table.at("columns").at(i + 1) != kTitles[i])
        throw std::runtime_error(std::string("no column ") + kTitles[i]);
    }
    std::vector<Pair> pairs;
    for (const nlohmann::json& row : table.at("rows")) {
      const uint64_t smaller = BytesOf(row.at(0).get<std::string>());
      for (size_t i = 0; i < kColumns.size(); ++i) {
        std::istringstream cell(row.at(i + 1).get<std::string>());
        for (std::string larger; cell >> larger;)
          pairs.push_back({smaller, BytesOf(larger), kColumns[i]});
      }
    }
    std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
      return std::tie(a.smaller_bytes, a.larger_bytes) < std::tie(b.smaller_bytes, b.larger_bytes);
    });
    return pairs;
  }
  throw std::runtime_error("no table `counts`");
}

std::vector<Pair> InKib(std::vector<Pair> pairs) {
  for (Pair& pair : pairs) {
    pair.smaller_bytes <<= 10;
    pair.larger_bytes <<= 10;
  }
  return pairs;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Pair& pair) {
  const auto ends = static_cast<size_t>(std::find(kColumns.begin(), kColumns.end(), pair.ends) -
                                        kColumns.begin());
  return out << (pair.smaller_bytes >> 10) << " KiB against " << (pair.larger_bytes >> 10)
             << " KiB: " << kTitles[ends];
}

const std::vector<Pair>& UnequalCounts() {
  static const std::vector<Pair> pairs = Read();
  return pairs;
}

const std::vector<Pair>& NotFollowed() {
  static const std::vector<Pair> pairs = InKib({{384, 512, Ends::kNone},
                                                {384, 640, Ends::kNone},
                                                {384, 1024, Ends::kNone},
                                                {512, 640, Ends::kNone},
                                                {768, 1024, Ends::kNone},
                                                {1792, 2560, Ends::kBoth},
                                                {2048, 2560, Ends::kLarger},
                                                {2560, 3072, Ends::kSmaller},
                                                {2560, 3584, Ends::kSmaller},
                                                {2560, 4096, Ends::kSmaller},
                                                {2560, 5120, Ends::kSmaller},
                                                {2560, 6144, Ends::kSmaller},
                                                {2560, 7168, Ends::kSmaller},
                                                {2560, 8192, Ends::kSmaller},
                                                {2560, 10240, Ends::kSmaller}});
  return pairs;
}

}  // namespace gordian::measured
