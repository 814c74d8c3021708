// Finds functions that a library exports and gordian's table of hooked calls lacks.
#ifndef GORDIAN_CLI_DOCTOR_HOOK_COVERAGE_H_
#define GORDIAN_CLI_DOCTOR_HOOK_COVERAGE_H_

#include <string>
#include <string_view>
#include <vector>

namespace gordian::cli {

// Returns, sorted, those of `exported` that are named like the library's API (ncclX, cudaX, cuX),
// have no row in the table, and are not excluded from it for a stated reason. `library`: nccl,
// cudart or cuda.
std::vector<std::string> BeyondTable(std::string_view library,
                                     const std::vector<std::string>& exported);

}  // namespace gordian::cli

#endif  // GORDIAN_CLI_DOCTOR_HOOK_COVERAGE_H_
