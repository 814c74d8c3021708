// Words of a command line, as a shell reads them.
#ifndef GORDIAN_COMMON_SHELL_QUOTE_H_
#define GORDIAN_COMMON_SHELL_QUOTE_H_

#include <string>
#include <string_view>

namespace gordian {

// Quotes a word, where needed, so that a POSIX shell reads it back unchanged.
std::string ShellQuote(std::string_view word);

// The same for a command that gordian shows. Where the word has control characters, or bytes that
// are no UTF-8, writes them as numbers within $'...', which bash, zsh and ksh read.
std::string ShownQuote(std::string_view word);

}  // namespace gordian

#endif  // GORDIAN_COMMON_SHELL_QUOTE_H_
