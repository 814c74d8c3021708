// Names of functions as people say them.
#ifndef GORDIAN_ANALYZER_SERVER_FUNCTION_NAME_H_
#define GORDIAN_ANALYZER_SERVER_FUNCTION_NAME_H_

#include <string>
#include <string_view>

namespace gordian::server {

// "_ZN7Trainer4stepEi" -> "Trainer::step": demangled, without parameters, qualifiers and return
// type. A name that is not mangled comes back as it is.
std::string ReadableFunctionName(const char* linkage_name);

// The same for a demangled name: "void ns::f<int>(int) const" -> "ns::f<int>".
std::string WithoutParameters(std::string_view demangled);

}  // namespace gordian::server

#endif  // GORDIAN_ANALYZER_SERVER_FUNCTION_NAME_H_
