// What gordian says to people: lines on stderr, numbers as people read them.
#ifndef GORDIAN_CLI_OUTPUT_H_
#define GORDIAN_CLI_OUTPUT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace gordian::cli {

// One write() to a file descriptor, retried until all of it is out or it fails. A reader that has
// gone is no error of ours.
void WriteAll(int fd, std::string_view text);

// "gordian: TEXT\n" on stderr.
void PrintError(std::string_view text);
void PrintNote(std::string_view text);

// Standard output. False (and one line on stderr) when it could not be written: a full disk.
bool PrintOut(std::string_view text);

// Whether to colour what goes to `fd`: a terminal, NO_COLOR unset or empty, TERM not "dumb".
bool WantsColor(int fd);

// Columns of the terminal at `fd`; 100 when it is none.
int TerminalWidth(int fd);

// "1,234,567".
std::string WithCommas(uint64_t number);

// A word as a POSIX shell reads it back: quoted where it must be.
std::string ShellQuote(std::string_view word);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_OUTPUT_H_
