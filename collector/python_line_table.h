// Lines of CPython's code objects: their co_linetable as 3.11 and later have it (described in
// CPython's Objects/locations.md).
#ifndef GORDIAN_COLLECTOR_PYTHON_LINE_TABLE_H_
#define GORDIAN_COLLECTOR_PYTHON_LINE_TABLE_H_

#include <cstdint>
#include <span>

namespace gordian::collector {

// The line of the instruction `offset` bytes into the code; -1: it has none, or the table, which
// comes from another process, makes no sense. Before the first instruction (negative): first_line.
int LineOfInstruction(std::span<const uint8_t> table, int first_line, int64_t offset);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_PYTHON_LINE_TABLE_H_
