// Describes where CPython keeps the data of a stack.
#ifndef GORDIAN_COLLECTOR_STACKS_PYTHON_LAYOUT_H_
#define GORDIAN_COLLECTOR_STACKS_PYTHON_LAYOUT_H_

#include <cstdint>
#include <optional>

#include "collector/process/process_memory.h"

namespace gordian::collector {

// Offsets in bytes.
struct PythonLayout {
  // _PyRuntimeState
  uint32_t runtime_interpreters_head;
  // PyInterpreterState
  uint32_t interpreter_next;
  uint32_t interpreter_threads_head;
  // PyThreadState
  uint32_t thread_next;
  uint32_t thread_interpreter;
  uint32_t thread_native_id;
  uint32_t thread_frame;  // of the pointer to the frame, or to its _PyCFrame
  int32_t cframe_frame;   // in that _PyCFrame; -1: this version has none
  // _PyInterpreterFrame
  uint32_t frame_code;
  uint32_t frame_previous;
  uint32_t frame_instruction;
  uint32_t frame_owner;
  int32_t frame_is_entry;  // -1: a frame of owner kOwnedByCStack follows an entry frame instead
  // PyCodeObject
  uint32_t code_filename;
  uint32_t code_qualname;
  uint32_t code_line_table;
  uint32_t code_first_line;
  uint32_t code_instructions;
  // PyObject, PyBytesObject, PyASCIIObject
  uint32_t object_type;
  uint32_t bytes_size;
  uint32_t bytes_data;
  uint32_t unicode_length;
  uint32_t unicode_state;
  uint32_t unicode_ascii_data;    // sizeof(PyASCIIObject)
  uint32_t unicode_compact_data;  // sizeof(PyCompactUnicodeObject)
};

inline constexpr uint8_t kOwnedByCStack = 3;  // _frameowner, 3.12 and later

// Bits of PyASCIIObject.state, the same in all these versions.
inline constexpr uint32_t kUnicodeKindShift = 2;
inline constexpr uint32_t kUnicodeKindMask = 7;
inline constexpr uint32_t kUnicodeCompact = 1u << 5;
inline constexpr uint32_t kUnicodeAscii = 1u << 6;

// `version` as in Py_Version (0x030b07f0 is 3.11.7); `runtime` is the address of _PyRuntime.
// Returns nullopt for an unknown version, or if its own description is malformed.
std::optional<PythonLayout> LayoutOf(uint64_t version, uint64_t runtime, ProcessMemory* memory);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_STACKS_PYTHON_LAYOUT_H_
