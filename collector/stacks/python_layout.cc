#include "collector/stacks/python_layout.h"

#include <string.h>

#include <algorithm>
#include <iterator>

namespace gordian::collector {
namespace {

// Layouts of 64-bit builds, from each version's installed headers: offsetof() on the structs of
// internal/pycore_runtime.h, pycore_interp.h, pycore_frame.h, cpython/pystate.h, cpython/code.h,
// cpython/unicodeobject.h and cpython/bytesobject.h of 3.11.7 and 3.12.1. CPython keeps them within
// a minor version.
constexpr PythonLayout kPython311 = {
    .runtime_interpreters_head = 40,
    .interpreter_next = 0,
    .interpreter_threads_head = 16,
    .thread_next = 8,
    .thread_interpreter = 16,
    .thread_native_id = 160,
    .thread_frame = 56,
    .cframe_frame = 8,
    .frame_code = 32,
    .frame_previous = 48,
    .frame_instruction = 56,
    .frame_owner = 69,
    .frame_is_entry = 68,
    .code_filename = 112,
    .code_qualname = 128,
    .code_line_table = 136,
    .code_first_line = 72,
    .code_instructions = 184,
    .object_type = 8,
    .bytes_size = 16,
    .bytes_data = 32,
    .unicode_length = 16,
    .unicode_state = 32,
    .unicode_ascii_data = 48,
    .unicode_compact_data = 72,
};
constexpr PythonLayout kPython312 = {
    .runtime_interpreters_head = 40,
    .interpreter_next = 0,
    .interpreter_threads_head = 72,
    .thread_next = 8,
    .thread_interpreter = 16,
    .thread_native_id = 144,
    .thread_frame = 56,
    .cframe_frame = 0,
    .frame_code = 0,
    .frame_previous = 8,
    .frame_instruction = 56,
    .frame_owner = 70,
    .frame_is_entry = -1,
    .code_filename = 112,
    .code_qualname = 128,
    .code_line_table = 136,
    .code_first_line = 68,
    .code_instructions = 192,
    .object_type = 8,
    .bytes_size = 16,
    .bytes_data = 32,
    .unicode_length = 16,
    .unicode_state = 32,
    .unicode_ascii_data = 40,
    .unicode_compact_data = 56,
};

// _Py_DebugOffsets of 3.13 (internal/pycore_runtime.h): 64-bit words after a cookie. 3.14 moves
// them.
enum DebugOffset : size_t {
  kCookie = 0,
  kVersion = 1,
  kFreeThreaded = 2,
  kInterpretersHead = 5,
  kInterpreterNext = 8,
  kInterpreterThreadsHead = 9,
  kThreadNext = 21,
  kThreadInterpreter = 22,
  kThreadFrame = 23,
  kThreadNativeId = 25,
  kFramePrevious = 29,
  kFrameExecutable = 30,
  kFrameInstruction = 31,
  kFrameOwner = 33,
  kCodeFilename = 35,
  kCodeQualname = 37,
  kCodeLineTable = 38,
  kCodeFirstLine = 39,
  kCodeInstructions = 43,
  kObjectType = 45,
  kBytesSize = 65,
  kBytesData = 66,
  kUnicodeState = 68,
  kUnicodeLength = 69,
  kUnicodeAsciiSize = 70,
  kDebugOffsets = 73,
};
// Every struct that gordian reads is smaller; PyInterpreterState is the largest.
constexpr uint64_t kLargestOffset = 1u << 20;

std::optional<PythonLayout> FromDebugOffsets(uint64_t version, uint64_t runtime,
                                             ProcessMemory* memory) {
  uint64_t words[kDebugOffsets];
  if (!memory->Read(runtime, words, sizeof(words)) || memcmp(&words[kCookie], "xdebugpy", 8) != 0 ||
      words[kVersion] != version || words[kFreeThreaded] != 0 ||
      std::any_of(std::begin(words) + kInterpretersHead, std::end(words),
                  [](uint64_t word) { return word > kLargestOffset; })) {
    return std::nullopt;
  }
  const auto at = [&words](DebugOffset which) { return static_cast<uint32_t>(words[which]); };
  return PythonLayout{
      .runtime_interpreters_head = at(kInterpretersHead),
      .interpreter_next = at(kInterpreterNext),
      .interpreter_threads_head = at(kInterpreterThreadsHead),
      .thread_next = at(kThreadNext),
      .thread_interpreter = at(kThreadInterpreter),
      .thread_native_id = at(kThreadNativeId),
      .thread_frame = at(kThreadFrame),
      .cframe_frame = -1,
      .frame_code = at(kFrameExecutable),
      .frame_previous = at(kFramePrevious),
      .frame_instruction = at(kFrameInstruction),
      .frame_owner = at(kFrameOwner),
      .frame_is_entry = -1,
      .code_filename = at(kCodeFilename),
      .code_qualname = at(kCodeQualname),
      .code_line_table = at(kCodeLineTable),
      .code_first_line = at(kCodeFirstLine),
      .code_instructions = at(kCodeInstructions),
      .object_type = at(kObjectType),
      .bytes_size = at(kBytesSize),
      .bytes_data = at(kBytesData),
      .unicode_length = at(kUnicodeLength),
      .unicode_state = at(kUnicodeState),
      .unicode_ascii_data = at(kUnicodeAsciiSize),
      // A length and a pointer follow it, as in 3.12; the table does not describe them.
      .unicode_compact_data = at(kUnicodeAsciiSize) + 16,
  };
}

}  // namespace

std::optional<PythonLayout> LayoutOf(uint64_t version, uint64_t runtime, ProcessMemory* memory) {
  switch (version >> 16) {
    case 0x030b:
      return kPython311;
    case 0x030c:
      return kPython312;
    case 0x030d:
      return FromDebugOffsets(version, runtime, memory);
    default:
      return std::nullopt;
  }
}

}  // namespace gordian::collector
