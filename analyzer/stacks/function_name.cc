#include "analyzer/stacks/function_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace gordian::analyzer {
namespace {

constexpr std::string_view kOperator = "operator";

bool IsWord(char c) { return c == '_' || isalnum(static_cast<unsigned char>(c)) != 0; }

// At an "operator" token: where the name of the operator ends ("operator()", "operator<<",
// "operator bool" up to its parameters).
size_t EndOfOperator(std::string_view name, size_t at) {
  at += kOperator.size();
  if (name.substr(at, 2) == "()") return at + 2;
  while (at < name.size() && name[at] != '(') ++at;
  return at;
}

// The position after the bracket that closes the one at `at`.
size_t SkipBrackets(std::string_view name, size_t at) {
  int depth = 0;
  for (; at < name.size(); ++at) {
    const char c = name[at];
    if (c == '(' || c == '<' || c == '{' || c == '[') ++depth;
    const bool arrow = c == '>' && at > 0 && name[at - 1] == '-';
    if ((c == ')' || c == '>' || c == '}' || c == ']') && !arrow && --depth == 0) return at + 1;
  }
  return name.size();
}

}  // namespace

std::string WithoutParameters(std::string_view name) {
  size_t start = 0;
  size_t at = 0;
  while (at < name.size()) {
    const char c = name[at];
    if (name.substr(at, kOperator.size()) == kOperator && (at == 0 || !IsWord(name[at - 1])) &&
        (at + kOperator.size() == name.size() || !IsWord(name[at + kOperator.size()]))) {
      at = EndOfOperator(name, at);
      continue;
    }
    if (c == '(') {
      const size_t after = SkipBrackets(name, at);
      // "(anonymous namespace)::f" and "f(int)::{lambda()#1}": part of the name.
      if (name.substr(after, 2) == "::") {
        at = after;
        continue;
      }
      break;
    }
    if (c == '<' || c == '{' || c == '[') {
      at = SkipBrackets(name, at);
      continue;
    }
    if (c == ' ') start = at + 1;  // the return type precedes it
    ++at;
  }
  return std::string(at > start ? name.substr(start, at - start) : name);
}

std::string ReadableFunctionName(const char* linkage_name) {
  if (linkage_name == nullptr) return "";
  int status = -1;
  std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(linkage_name, nullptr, nullptr, &status), &std::free);
  // Only mangled names: "f" alone would demangle to "float".
  if (status != 0 || linkage_name[0] != '_' || linkage_name[1] != 'Z') return linkage_name;
  return WithoutParameters(demangled.get());
}

}  // namespace gordian::analyzer
