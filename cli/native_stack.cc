#include "cli/native_stack.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>

#include <memory>

#include "analyzer/server/function_name.h"


namespace gordian::cli {
namespace {

constexpr size_t kMostFrames = 128;

// Of the loaded files themselves: .eh_frame and their symbol tables are enough.
int NoDebugInformation(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*,
                       GElf_Word, char**) {
  return -1;
}

struct Walk {
  Dwfl* dwfl;
  std::vector<NativeFrame> frames;
};

int OnFrame(Dwfl_Frame* frame, void* context) {
  auto* const walk = static_cast<Walk*>(context);
  Dwarf_Addr address = 0;
  bool activation = false;
  if (!dwfl_frame_pc(frame, &address, &activation)) {
    return DWARF_CB_ABORT;
  }
  NativeFrame out;
  out.address = address;
  // A return address may be the first of the next function.
  const Dwarf_Addr inside = address - (activation ? 0 : 1);
  if (Dwfl_Module* const module = dwfl_addrmodule(walk->dwfl, inside)) {
    if (const char* name = dwfl_module_addrname(module, inside)) {
      out.function = server::ReadableFunctionName(name);
    }
    const char* file = nullptr;
    const char* listed = dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr,
                                          &file, nullptr);
    out.module = file != nullptr ? file : listed != nullptr ? listed : "";
  }
  walk->frames.push_back(std::move(out));
  return walk->frames.size() < kMostFrames ? DWARF_CB_OK : DWARF_CB_ABORT;
}

std::string Why() {
  const char* text = dwfl_errmsg(-1);
  return text != nullptr ? text : "unknown error";
}

}  // namespace

StatusOr<std::vector<NativeFrame>> MainThreadStack(pid_t pid, char state) {
  const std::string what = "cannot read the stack of pid " + std::to_string(pid) + ": ";
  if (state == 'D' || state == 't') {  // attaching would wait for the kernel, or for a debugger
    return Status::Unavailable(what + (state == 'D' ? "it is in an uninterruptible sleep"
                                                    : "a debugger has it"));
  }
  static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                           .find_debuginfo = NoDebugInformation,
                                           .section_address = nullptr,
                                           .debuginfo_path = nullptr};
  const std::unique_ptr<Dwfl, decltype(&dwfl_end)> dwfl(dwfl_begin(&callbacks), &dwfl_end);
  if (dwfl == nullptr || dwfl_linux_proc_report(dwfl.get(), pid) != 0 ||
      dwfl_report_end(dwfl.get(), nullptr, nullptr) != 0 ||
      dwfl_linux_proc_attach(dwfl.get(), pid, /*assume_ptrace_stopped=*/false) != 0) {
    return Status::Unavailable(what + Why());
  }
  Walk walk{.dwfl = dwfl.get(), .frames = {}};
  // Attaches, walks, and detaches: libdwfl does so also when the walk fails half-way.
  const int result = dwfl_getthread_frames(dwfl.get(), pid, OnFrame, &walk);
  if (result < 0 && walk.frames.empty()) {
    return Status::Unavailable(what + Why());
  }
  return std::move(walk.frames);
}

}  // namespace gordian::cli
