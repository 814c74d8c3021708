// The first screen of `gordian watch`: the verdict and its confidence, since when, who waits for
// whom and where, what was not seen, what to change, and the command that shows more.
#ifndef GORDIAN_CLI_WATCH_VERDICT_CARD_H_
#define GORDIAN_CLI_WATCH_VERDICT_CARD_H_

#include <cstddef>
#include <string>
#include <vector>

#include "cli/watch/watch_data.h"

namespace gordian::cli {

struct VerdictCard {
  std::vector<std::string> lines;
  size_t head = 0;  // how many of them are the headline
};

// No line is wider than `width`.
VerdictCard MakeVerdictCard(const WatchData& data, size_t width);

// Breaks a line that has an indent, or bars of a drawing, into lines that keep it.
std::vector<std::string> BreakLine(const std::string& line, size_t width);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_WATCH_VERDICT_CARD_H_
