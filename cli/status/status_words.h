// Says times, counts and sets of ranks on the screens of status and watch.
#ifndef GORDIAN_CLI_STATUS_STATUS_WORDS_H_
#define GORDIAN_CLI_STATUS_STATUS_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gordian::cli {

// "12 s", "1 min 15 s", "2 h 4 min"; "-" if unknown. Whole units keep a redrawn screen calm.
std::string Duration(double seconds);

// "1 rank", "16,384 ranks".
std::string Plural(int64_t count, const std::string& what);

// "0-5,7".
std::string FoldRanks(std::vector<int> ranks);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_STATUS_STATUS_WORDS_H_
