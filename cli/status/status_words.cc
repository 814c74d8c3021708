#include "cli/status/status_words.h"

#include <algorithm>

#include "cli/output.h"

namespace gordian::cli {

std::string Duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e12) {
    return "-";
  }
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) {
    return std::to_string(whole) + " s";
  }
  if (whole < 3600) {
    return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  }
  return std::to_string(whole / 3600) + " h " + std::to_string(whole / 60 % 60) + " min";
}

std::string Plural(int64_t count, const std::string& what) {
  return WithCommas(static_cast<uint64_t>(std::max<int64_t>(count, 0))) + " " + what +
         (count == 1 ? "" : "s");
}

std::string FoldRanks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string out;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    out += (out.empty() ? "" : ",") + (ranks[i] < 0 ? std::string("?") : std::to_string(ranks[i]));
    if (last > i && ranks[i] >= 0) {
      out += (last == i + 1 ? "," : "-") + std::to_string(ranks[last]);
    } else {
      last = i;
    }
    i = last + 1;
  }
  return out;
}

}  // namespace gordian::cli
