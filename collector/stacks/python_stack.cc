#include "collector/stacks/python_stack.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "collector/process/process_memory.h"
#include "collector/stacks/python_layout.h"
#include "collector/stacks/python_line_table.h"
#include "collector/stacks/python_runtime.h"
#include "common/utf8.h"

namespace gordian::collector {
namespace {

constexpr int kMostInterpreters = 64;
constexpr int kMostThreads = 4096;
constexpr size_t kMostFrames = 256;
constexpr size_t kMostFrameBytes = 256;  // bytes of one frame, up to the last field used
constexpr int64_t kMostTableBytes = 1 << 20;
constexpr int64_t kMostNameChars = 1024;
constexpr int kTries = 10;
constexpr long kPauseNs = 200'000;

// The fields of a frame that two reads must agree on.
struct RawFrame {
  uint64_t code = 0;
  uint64_t instruction = 0;
  bool entry = false;
  friend bool operator==(const RawFrame&, const RawFrame&) = default;
};
struct RawStack {
  std::vector<RawFrame> frames;
  bool cut = false;     // there are more
  bool broken = false;  // a value was malformed
  friend bool operator==(const RawStack&, const RawStack&) = default;
};

struct Code {
  std::string function, file;
  int first_line = 0;
  std::vector<uint8_t> lines;
};

void AppendUtf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
  } else if (c < 0x800) {
    *out += static_cast<char>(0xc0 | c >> 6);
    *out += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    *out += static_cast<char>(0xe0 | c >> 12);
    *out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    *out += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    *out += static_cast<char>(0xf0 | (c >> 18 & 7));
    *out += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    *out += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    *out += static_cast<char>(0x80 | (c & 0x3f));
  }
}

class Reader {
 public:
  Reader(pid_t pid, const PythonRuntime& runtime, const PythonLayout& layout)
      : memory_(pid), runtime_(runtime), at_(layout) {}

  struct Thread {
    pid_t tid;
    uint64_t state;
  };
  // Returns false if the list is malformed.
  bool Threads(std::vector<Thread>* out) {
    std::optional<uint64_t> interpreter = Pointer(runtime_.runtime + at_.runtime_interpreters_head);
    int threads = 0;
    for (int i = 0; interpreter && *interpreter != 0; ++i) {
      if (i == kMostInterpreters) {
        return false;
      }
      std::optional<uint64_t> thread = Pointer(*interpreter + at_.interpreter_threads_head);
      while (thread && *thread != 0) {
        const auto of = Pointer(*thread + at_.thread_interpreter);
        const auto tid = Pointer(*thread + at_.thread_native_id);
        if (++threads > kMostThreads || !of || *of != *interpreter || !tid) {
          return false;
        }
        out->push_back({static_cast<pid_t>(*tid), *thread});
        thread = Pointer(*thread + at_.thread_next);
      }
      if (!thread) {
        return false;
      }
      interpreter = Pointer(*interpreter + at_.interpreter_next);
    }
    return interpreter.has_value();
  }

  PythonStack Stack(const Thread& thread) {
    PythonStack out;
    out.tid = thread.tid;
    RawStack raw = Walk(thread.state);
    bool same = false;
    for (int i = 0; i < kTries && !same; ++i) {
      RawStack again = Walk(thread.state);
      same = again == raw && !raw.broken;
      raw = std::move(again);
      if (!same) {
        const timespec pause{.tv_sec = 0, .tv_nsec = kPauseNs};
        nanosleep(&pause, nullptr);
      }
    }
    if (!same) {
      out.note = raw.broken ? "its Python frames were malformed when gordian read them"
                            : "it ran on while gordian read its Python frames";
      return out;
    }
    for (const RawFrame& frame : raw.frames) {
      const Code* const code = CodeAt(frame.code);
      if (code == nullptr) {
        out.note = "one of its Python frames was malformed when gordian read it";
        break;
      }
      const auto offset = static_cast<int64_t>(frame.instruction) -
                          static_cast<int64_t>(frame.code + at_.code_instructions);
      out.frames.push_back({.function = code->function,
                            .file = code->file,
                            .line = LineOfInstruction(code->lines, code->first_line, offset),
                            .entry = frame.entry});
    }
    if (out.note.empty() && raw.cut) {
      out.note =
          "gordian read only its innermost " + std::to_string(kMostFrames) + " Python frames";
    }
    return out;
  }

  int error() const { return memory_.error(); }

 private:
  std::optional<uint64_t> Pointer(uint64_t address) { return memory_.Get<uint64_t>(address); }

  template <typename T>
  static T Of(const char* block, uint32_t offset) {
    T value;
    memcpy(&value, block + offset, sizeof(value));
    return value;
  }

  RawStack Walk(uint64_t thread) {
    RawStack out;
    std::optional<uint64_t> frame = Pointer(thread + at_.thread_frame);
    if (frame && *frame != 0 && at_.cframe_frame >= 0) {
      frame = Pointer(*frame + static_cast<uint64_t>(at_.cframe_frame));
    }
    if (!frame) {
      out.broken = true;
      return out;
    }
    const size_t bytes = std::max({at_.frame_code + 8, at_.frame_previous + 8,
                                   at_.frame_instruction + 8, at_.frame_owner + 1});
    if (bytes > kMostFrameBytes) {
      out.broken = true;
      return out;
    }
    for (size_t steps = 0; *frame != 0; ++steps) {
      if (steps == 2 * kMostFrames || out.frames.size() == kMostFrames) {
        out.cut = true;
        break;
      }
      char block[kMostFrameBytes];
      if (!memory_.Read(*frame, block, bytes)) {
        out.broken = true;
        break;
      }
      if (at_.frame_is_entry < 0 && Of<uint8_t>(block, at_.frame_owner) == kOwnedByCStack) {
        if (!out.frames.empty()) {
          out.frames.back().entry = true;
        }
      } else {
        out.frames.push_back(
            {.code = Of<uint64_t>(block, at_.frame_code),
             .instruction = Of<uint64_t>(block, at_.frame_instruction),
             .entry = at_.frame_is_entry >= 0 &&
                      Of<uint8_t>(block, static_cast<uint32_t>(at_.frame_is_entry)) != 0});
      }
      frame = Of<uint64_t>(block, at_.frame_previous);
    }
    return out;
  }

  const Code* CodeAt(uint64_t address) {
    if (const auto known = codes_.find(address); known != codes_.end()) {
      return &known->second;
    }
    Code code;
    const auto type = Pointer(address + at_.object_type);
    const auto file = Pointer(address + at_.code_filename);
    const auto name = Pointer(address + at_.code_qualname);
    const auto table = Pointer(address + at_.code_line_table);
    const auto first_line = memory_.Get<int32_t>(address + at_.code_first_line);
    if (!type || !file || !name || !table || !first_line ||
        (runtime_.code_type != 0 && *type != runtime_.code_type) || !Text(*file, &code.file) ||
        !Text(*name, &code.function)) {
      return nullptr;
    }
    code.first_line = *first_line;
    const auto size = memory_.Get<int64_t>(*table + at_.bytes_size);
    if (!size || *size < 0 || *size > kMostTableBytes) {
      return nullptr;
    }
    code.lines.resize(static_cast<size_t>(*size));
    if (*size > 0 && !memory_.Read(*table + at_.bytes_data, code.lines.data(), code.lines.size())) {
      return nullptr;
    }
    return &codes_.emplace(address, std::move(code)).first->second;
  }

  // Reads a str object; of a long one the end, which identifies a path.
  bool Text(uint64_t object, std::string* out) {
    const auto length = memory_.Get<int64_t>(object + at_.unicode_length);
    const auto state = memory_.Get<uint32_t>(object + at_.unicode_state);
    if (!length || !state || *length < 0 || (*state & kUnicodeCompact) == 0) {
      return false;
    }
    const bool ascii = (*state & kUnicodeAscii) != 0;
    const uint32_t kind = (*state >> kUnicodeKindShift) & kUnicodeKindMask;
    if (kind != 1 && kind != 2 && kind != 4) {
      return false;
    }
    const int64_t chars = std::min(*length, kMostNameChars);
    const uint64_t data = object + (ascii ? at_.unicode_ascii_data : at_.unicode_compact_data) +
                          static_cast<uint64_t>(*length - chars) * kind;
    std::vector<char> raw(static_cast<size_t>(chars) * kind);
    if (!raw.empty() && !memory_.Read(data, raw.data(), raw.size())) {
      return false;
    }
    std::string text;
    for (int64_t i = 0; i < chars; ++i) {
      uint32_t c = 0;
      memcpy(&c, raw.data() + i * kind, kind);
      AppendUtf8(c, &text);
    }
    *out = CleanUtf8(std::move(text));
    return true;
  }

  ProcessMemory memory_;
  const PythonRuntime& runtime_;
  const PythonLayout at_;
  std::map<uint64_t, Code> codes_;
};

std::string Refused(int error) {
  return error == EPERM || error == EACCES
             ? std::string("the kernel does not permit reading its memory (") + strerror(error) +
                   ")"
             : "gordian cannot read its memory";
}

}  // namespace

PythonStacks ReadPythonStacks(pid_t pid, std::span<const pid_t> tids) {
  PythonStacks out;
  const std::optional<PythonRuntime> runtime = FindPython(pid);
  if (!runtime) {
    return out;
  }
  out.has_python = true;
  out.module = runtime->module;
  if (runtime->runtime == 0) {
    out.why_not = "its interpreter has no symbol _PyRuntime, or cannot be opened";
    return out;
  }
  ProcessMemory memory(pid);
  if (!memory.Get<uint64_t>(runtime->runtime)) {
    out.why_not = Refused(memory.error());
    return out;
  }
  const std::optional<PythonLayout> layout = LayoutOf(runtime->version, runtime->runtime, &memory);
  if (!layout) {
    out.why_not = "CPython " + PythonVersionText(runtime->version) +
                  " is not supported: gordian reads frames of 3.11 to 3.13";
    return out;
  }
  Reader reader(pid, *runtime, *layout);
  std::vector<Reader::Thread> threads;
  bool whole = reader.Threads(&threads);
  for (int i = 0; i < kTries && !whole; ++i) {  // a thread may begin or end during a read
    threads.clear();
    whole = reader.Threads(&threads);
  }
  for (const Reader::Thread& thread : threads) {
    if (std::find(tids.begin(), tids.end(), thread.tid) != tids.end()) {
      out.stacks.push_back(reader.Stack(thread));
    }
  }
  if (!whole && out.stacks.empty()) {
    out.why_not = "its list of Python threads kept changing while gordian read it";
  }
  return out;
}

}  // namespace gordian::collector
