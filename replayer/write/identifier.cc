#include "replayer/write/identifier.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace gordian::replayer {
namespace {

// Keywords of C++17 and Python, and names of the generated program's own scaffold, in lower case.
constexpr std::string_view kReserved[] = {
    "alignas",  "alignof", "and",        "as",       "asm",       "assert",   "async",
    "auto",     "await",   "bool",       "break",    "buffer",    "case",     "catch",
    "char",     "class",   "comm",       "const",    "constexpr", "continue", "cuda",
    "def",      "default", "del",        "delete",   "dist",      "do",       "double",
    "elif",     "else",    "enum",       "except",   "explicit",  "export",   "extern",
    "false",    "finally", "float",      "for",      "friend",    "from",     "global",
    "goto",     "if",      "import",     "in",       "inline",    "int",      "is",
    "lambda",   "legacy",  "long",       "main",     "me",        "mutable",  "namespace",
    "nccl",     "new",     "none",       "nonlocal", "not",       "nullptr",  "operator",
    "or",       "pass",    "per_thread", "private",  "protected", "public",   "raise",
    "register", "return",  "short",      "signed",   "sizeof",    "static",   "std",
    "struct",   "switch",  "template",   "this",     "throw",     "torch",    "true",
    "try",      "typedef", "typeid",     "typename", "union",     "unsigned", "using",
    "virtual",  "void",    "volatile",   "while",    "with",      "xor",      "yield"};

}  // namespace

std::string Identifier(const std::string& name) {
  std::string made;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (letter) {
      made += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    } else if (digit && !made.empty()) {
      made += c;
    } else if (!made.empty() && made.back() != '_') {
      made += '_';
    }
  }
  while (!made.empty() && made.back() == '_') made.pop_back();
  if (made.size() > 32) made.resize(32);
  if (made.empty()) return "comm_";
  const bool stream =
      made.size() > 1 && (made[0] == 's' || made[0] == 'e' || made[0] == 'g') &&
      std::all_of(made.begin() + 1, made.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (stream || std::find(std::begin(kReserved), std::end(kReserved), made) != std::end(kReserved))
    made += '_';
  return made;
}

std::string UniqueNames::Take(const std::string& name) {
  std::string made = name;
  for (int i = 2; !taken_.insert(made).second; ++i) made = name + "_" + std::to_string(i);
  return made;
}

}  // namespace gordian::replayer
