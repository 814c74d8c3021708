// Lines of CPython's code objects: their co_linetable as 3.11 and later have it (described in
// CPython's Objects/locations.md).
#ifndef GORDIAN_COLLECTOR_STACKS_PYTHON_LINE_TABLE_H_
#define GORDIAN_COLLECTOR_STACKS_PYTHON_LINE_TABLE_H_

#include <cstdint>
#include <span>

namespace gordian::collector {

// The line of the instruction `offset` bytes into the code; first_line for a negative offset; -1 if
// it has none or the table, which another process wrote, is malformed.
int LineOfInstruction(std::span<const uint8_t> table, int first_line, int64_t offset);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_STACKS_PYTHON_LINE_TABLE_H_
