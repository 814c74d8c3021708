// Words of a command line, as a shell reads them.
#ifndef GORDIAN_COMMON_SHELL_QUOTE_H_
#define GORDIAN_COMMON_SHELL_QUOTE_H_

#include <string>
#include <string_view>

namespace gordian {

// Quotes a word, where needed, so that a POSIX shell reads it back unchanged.
std::string ShellQuote(std::string_view word);

// The same for a command that a person is shown: a word with what a terminal would obey is quoted as
// bash, zsh and ksh read it, $'...', with such bytes as numbers.
std::string ShownQuote(std::string_view word);

}  // namespace gordian

#endif  // GORDIAN_COMMON_SHELL_QUOTE_H_
