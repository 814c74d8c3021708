#include "collector/stacks/native_stack.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <string.h>

#include <memory>
#include <thread>
#include <utility>

#include "collector/process/process_memory.h"
#include "collector/stacks/held_thread.h"
#include "common/clock.h"

namespace gordian::collector {
namespace {

constexpr size_t kMostFrames = 192;
// Reading line tables of large programs is slow: after this time only names are resolved.
constexpr uint64_t kLinesNs = 300 * kNsPerMs;

// Uses only the loaded files themselves: .eh_frame, their symbol tables and their own line tables.
int NoDebugInformation(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*,
                       GElf_Word, char**) {
  return -1;
}

std::string Why() {
  const char* text = dwfl_errmsg(-1);
  return text != nullptr ? text : "unknown error";
}

// The modules of one process, and the copy of the thread being unwound.
class Unwinder {
 public:
  explicit Unwinder(pid_t pid) : pid_(pid), memory_(pid) {}
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  // Returns "" when ready, else the reason why not.
  std::string Open() {
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = NoDebugInformation,
                                             .section_address = nullptr,
                                             .debuginfo_path = nullptr};
    static const Dwfl_Thread_Callbacks thread_callbacks = {.next_thread = NextThread,
                                                           .get_thread = GetThread,
                                                           .memory_read = ReadWord,
                                                           .set_initial_registers = SetRegisters,
                                                           .detach = nullptr,
                                                           .thread_detach = nullptr};
    dwfl_.reset(dwfl_begin(&callbacks));
    if (dwfl_ == nullptr) {
      return Why();
    }
    if (const int error = dwfl_linux_proc_report(dwfl_.get(), pid_); error != 0) {
      return error > 0 ? strerror(error) : Why();
    }
    if (dwfl_report_end(dwfl_.get(), nullptr, nullptr) != 0) {
      return Why();
    }
    return dwfl_attach_state(dwfl_.get(), nullptr, pid_, &thread_callbacks, this) ? "" : Why();
  }

  void Unwind(const ThreadCopy& copy, NativeStack* out) {
    copy_ = &copy;
    out_ = out;
    const int result = dwfl_getthread_frames(dwfl_.get(), out->tid, OnFrame, this);
    if (out->frames.empty()) {
      out->note = "gordian cannot unwind it: " + Why();
    } else if (out->frames.size() >= kMostFrames) {
      out->note =
          "gordian read only its innermost " + std::to_string(kMostFrames) + " native frames";
    } else if (result < 0 && out->frames.size() == 1) {
      // Most often the code has no unwind tables, and its callers are unknown.
      out->note = "only its innermost native frame is known";
    }
    for (NativeFrame& frame : out->frames) {
      Name(&frame);
    }
  }

  // Apart from the time that stacks may take.
  void NameAll(std::span<NativeFrame> places) {
    for (NativeFrame& place : places) {
      Name(&place);
    }
    lines_ns_ = 0;
  }

 private:
  static pid_t NextThread(Dwfl*, void*, void**) { return 0; }  // libdwfl asks by number only
  static bool GetThread(Dwfl*, pid_t, void* self, void** thread) {
    *thread = self;
    return true;
  }
  static bool SetRegisters(Dwfl_Thread* thread, void* self) {
    const ThreadCopy& copy = *static_cast<Unwinder*>(self)->copy_;
    dwfl_thread_state_register_pc(thread, copy.instruction_pointer);
    return dwfl_thread_state_registers(thread, 0, kRegisters, copy.registers);
  }
  static bool ReadWord(Dwfl*, Dwarf_Addr address, Dwarf_Word* result, void* self_pointer) {
    auto* const self = static_cast<Unwinder*>(self_pointer);
    const ThreadCopy& copy = *self->copy_;
    uint64_t word = 0;
    if (address >= copy.stack_start && address - copy.stack_start < copy.stack.size() &&
        copy.stack.size() - (address - copy.stack_start) >= sizeof(word)) {
      memcpy(&word, copy.stack.data() + (address - copy.stack_start), sizeof(word));
    } else if (!self->memory_.Read(address, &word, sizeof(word))) {
      return false;
    }
    *result = word;
    return true;
  }
  static int OnFrame(Dwfl_Frame* frame, void* self_pointer) {
    auto* const self = static_cast<Unwinder*>(self_pointer);
    Dwarf_Addr address = 0;
    bool activation = false;
    if (!dwfl_frame_pc(frame, &address, &activation)) {
      return DWARF_CB_ABORT;
    }
    NativeFrame out;
    // A return address may be the first byte of the next function.
    out.address = address - (activation ? 0 : 1);
    self->out_->frames.push_back(std::move(out));
    return self->out_->frames.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
  }

  void Name(NativeFrame* frame) {
    Dwfl_Module* const module = dwfl_addrmodule(dwfl_.get(), frame->address);
    if (module == nullptr) {
      return;
    }
    if (const char* name = dwfl_module_addrname(module, frame->address)) {
      frame->function = name;
    }
    const char* file = nullptr;
    const char* listed =
        dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, &file, nullptr);
    frame->module = file != nullptr ? file : listed != nullptr ? listed : "";
    const uint64_t begin = MonoNs();
    if (lines_ns_ >= kLinesNs) {
      return;
    }
    if (Dwfl_Line* const line = dwfl_module_getsrc(module, frame->address)) {
      int number = 0;
      const char* source = dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
      if (source != nullptr && number > 0) {
        frame->file = source;
        frame->line = number;
      }
    }
    lines_ns_ += MonoNs() - begin;
  }

  const pid_t pid_;
  ProcessMemory memory_;
  std::unique_ptr<Dwfl, decltype(&dwfl_end)> dwfl_{nullptr, &dwfl_end};
  const ThreadCopy* copy_ = nullptr;
  NativeStack* out_ = nullptr;
  uint64_t lines_ns_ = 0;
};

void ReadAll(pid_t pid, const NativeStackOptions& options, std::span<NativeFrame> places,
             std::vector<NativeStack>* stacks) {
  Unwinder unwinder(pid);
  const std::string problem = unwinder.Open();
  if (problem.empty() && !(options.out_of_time && options.out_of_time())) {
    unwinder.NameAll(places);
  }
  ThreadCopy copy;
  bool refused = false;
  for (NativeStack& stack : *stacks) {
    if (refused) {  // a refusal for one thread holds for all
      stack.note = stacks->front().note;
      stack.refused = true;
      continue;
    }
    if (options.out_of_time && options.out_of_time()) {
      stack.note = "gordian ran out of time before reading it";
      continue;
    }
    const HoldResult result = CopyThread(pid, stack.tid, options.while_held, &copy, &stack.note);
    if (result == HoldResult::kCopied) {
      stack.note = problem.empty() ? "" : "gordian cannot unwind it: " + problem;
      if (problem.empty()) {
        unwinder.Unwind(copy, &stack);
      }
    } else if (result == HoldResult::kRefused) {
      stack.refused = true;
      refused = &stack == &stacks->front();
    }
  }
}

}  // namespace

std::vector<NativeStack> ReadNativeStacks(pid_t pid, std::span<const pid_t> tids,
                                          const NativeStackOptions& options,
                                          std::span<NativeFrame> places) {
  std::vector<NativeStack> stacks(tids.size());
  for (size_t i = 0; i < tids.size(); ++i) {
    stacks[i].tid = tids[i];
  }
  if (!stacks.empty() || !places.empty()) {
    std::thread(ReadAll, pid, std::cref(options), places, &stacks).join();
  }
  return stacks;
}

}  // namespace gordian::collector
