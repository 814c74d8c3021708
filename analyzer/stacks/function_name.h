// Shortens function names to readable ones.
#ifndef GORDIAN_ANALYZER_STACKS_FUNCTION_NAME_H_
#define GORDIAN_ANALYZER_STACKS_FUNCTION_NAME_H_

#include <string>
#include <string_view>

namespace gordian::analyzer {

// "_ZN7Trainer4stepEi" -> "Trainer::step": demangles, and drops parameters, qualifiers and return
// type. Returns other names unchanged.
std::string ReadableFunctionName(const char* linkage_name);

// The same for a demangled name: "void ns::f<int>(int) const" -> "ns::f<int>".
std::string WithoutParameters(std::string_view demangled);

}  // namespace gordian::analyzer

#endif  // GORDIAN_ANALYZER_STACKS_FUNCTION_NAME_H_
