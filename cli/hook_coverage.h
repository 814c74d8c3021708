// What a library exports that gordian's table of hooked calls does not know.
#ifndef GORDIAN_CLI_HOOK_COVERAGE_H_
#define GORDIAN_CLI_HOOK_COVERAGE_H_

#include <string>
#include <string_view>
#include <vector>

namespace gordian::cli {

// Of `exported`, the functions in the library's own style of names (ncclX, cudaX, cuX) that are
// neither a row of the table nor left out of it for a stated reason. `library`: nccl, cudart or
// cuda. Sorted.
std::vector<std::string> BeyondTable(std::string_view library,
                                     const std::vector<std::string>& exported);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_HOOK_COVERAGE_H_
