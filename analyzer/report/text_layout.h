// Building blocks of the text reports: readable numbers, and lines that fit the terminal.
#ifndef GORDIAN_ANALYZER_REPORT_TEXT_LAYOUT_H_
#define GORDIAN_ANALYZER_REPORT_TEXT_LAYOUT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gordian::analyzer {

// "512 bytes", "4.0 KiB", "1.5 MiB".
std::string HumanBytes(uint64_t bytes);

// "rank 3", "ranks 0 and 1", "ranks 0, 1 and 4", "ranks 0-7", and with many gaps "ranks 0, 2, 4, 6
// and 12 more". "no rank" when empty.
std::string RankList(std::vector<int> ranks);

// Cuts to `width` columns (bytes); the last three become "..." if it cut.
std::string CutTo(std::string text, size_t width);

// The same, at a space if there is one in the second half.
std::string CutAtWord(const std::string& text, size_t width);

// Breaks `text` at spaces into lines of at most `width` columns; the first starts with `first`, the
// others with as many spaces. Each line ends with a newline. Breaks longer words hard.
std::string Wrap(std::string_view first, std::string_view text, size_t width);

// The same with another start for the following lines.
std::string Wrap(std::string_view first, std::string_view further, std::string_view text,
                 size_t width);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_REPORT_TEXT_LAYOUT_H_
