// Prints gordian's output for people: lines on stderr, readable numbers.
#ifndef GORDIAN_CLI_OUTPUT_H_
#define GORDIAN_CLI_OUTPUT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace gordian::cli {

// Writes all of `text` to `fd`, retrying until it is out or write() fails: false, and errno.
bool WriteAll(int fd, std::string_view text);

// Writes "gordian: TEXT\n" to stderr, as one line: a name in TEXT from outside cannot begin another.
void PrintError(std::string_view text);
void PrintNote(std::string_view text);

// The same for the output of another program, which keeps its lines.
void PrintErrorLines(std::string_view text);

// Writes to standard output. Returns false, after one line on stderr, when it could not (a full
// disk).
bool PrintOut(std::string_view text);

// The same of text for people, with names from outside: what a terminal would obey becomes spaces,
// but for the ends of lines.
bool PrintText(std::string_view text);

// True if `fd` is a terminal, NO_COLOR is unset or empty, and TERM is not "dumb".
bool WantsColor(int fd);

// Columns of the terminal at `fd`; 100 when `fd` is no terminal.
int TerminalWidth(int fd);

// "1,234,567".
std::string WithCommas(uint64_t number);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_OUTPUT_H_
