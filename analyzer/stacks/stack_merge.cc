#include "analyzer/stacks/stack_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "analyzer/stacks/function_name.h"

namespace gordian::analyzer {
namespace {

constexpr size_t kMostNotes = 8;

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsEvaluation(const v1::StackFrame& frame) {
  const std::string_view name = frame.function();
  constexpr std::string_view kEvaluation = "_PyEval_EvalFrameDefault";
  return name == kEvaluation || (name.starts_with(kEvaluation) && name[kEvaluation.size()] == '.');
}

// A frame of the interpreter that only a thread waiting for its lock has: worth keeping.
bool WaitsForLock(const v1::StackFrame& frame) {
  static const std::set<std::string_view> kNames = {"take_gil", "PyEval_RestoreThread",
                                                    "PyEval_AcquireThread", "PyGILState_Ensure"};
  return kNames.contains(frame.function());
}

// The emulator stands for libraries that have no source here.
bool OfEmulator(const v1::StackFrame& frame) {
  const std::string_view name = FileName(frame.module());
  return (name.starts_with("libcuda") || name.starts_with("libnccl")) &&
         frame.file().find("/emulator/") != std::string::npos;
}

model::StackFrame Native(const v1::StackFrame& frame) {
  const bool hidden = OfEmulator(frame);
  return {.function = frame.function().empty() ? std::string()
                                               : ReadableFunctionName(frame.function().c_str()),
          .file = hidden ? "" : frame.file(),
          .line = hidden ? 0 : frame.line(),
          .module = frame.module(),
          .python = false};
}

model::StackFrame Python(const v1::StackFrame& frame) {
  return {.function = frame.function(),
          .file = frame.file(),
          .line = frame.line(),
          .module = "",
          .python = true};
}

// A frame in which a process or thread begins: says nothing about where it is.
bool IsBeginning(const model::StackFrame& frame) {
  if (frame.python) {
    static const std::set<std::string_view> kThread = {"Thread._bootstrap",
                                                       "Thread._bootstrap_inner", "Thread.run"};
    static const std::set<std::string_view> kModule = {"_run_module_as_main", "_run_code"};
    const std::string_view file = FileName(frame.file);
    return (file == "threading.py" && kThread.contains(frame.function)) ||
           (file.find("runpy") != std::string_view::npos && kModule.contains(frame.function));
  }
  static const std::set<std::string_view> kNames = {"_start",
                                                    "__libc_start_main",
                                                    "__libc_start_call_main",
                                                    "start_thread",
                                                    "clone",
                                                    "clone3",
                                                    "__clone",
                                                    "__clone3",
                                                    "execute_native_thread_routine"};
  if (kNames.contains(frame.function)) return true;
  for (std::string_view start :
       {"std::thread::_State_impl", "std::thread::_Invoker", "std::__invoke", "std::invoke"}) {
    if (frame.function.starts_with(start)) return true;
  }
  const std::string_view name = FileName(frame.module);
  return frame.function.empty() && (name.starts_with("libc.so") || name.starts_with("libstdc++"));
}

void CutBeginning(std::vector<model::StackFrame>* frames) {
  size_t keep = frames->size();
  while (keep > 0 && IsBeginning((*frames)[keep - 1])) --keep;
  if (keep > 0) frames->resize(keep);
}

// Removes the shim's frames between a program and its calls. The shim's own threads keep theirs.
void CutShim(std::vector<model::StackFrame>* frames) {
  if (frames->empty()) return;
  const model::StackFrame outermost = frames->back();
  frames->pop_back();
  std::erase_if(*frames, [](const model::StackFrame& frame) {
    return FileName(frame.module) == "libgordian_interpose.so";
  });
  frames->push_back(outermost);
}

// Removes what the emulator does inside a call, except at the end that a thread begins with.
void CutEmulator(std::vector<model::StackFrame>* frames) {
  if (frames->empty()) return;
  const model::StackFrame outermost = frames->back();
  frames->pop_back();
  std::erase_if(*frames, [](const model::StackFrame& frame) {
    return frame.function.starts_with("gordian::emu::");
  });
  frames->push_back(outermost);
}

// Folds neighbouring nameless frames of one file into one.
void JoinNameless(std::vector<model::StackFrame>* frames) {
  const auto nameless = [](const model::StackFrame& frame) {
    return !frame.python && frame.function.empty() && frame.line == 0;
  };
  frames->erase(std::unique(frames->begin(), frames->end(),
                            [&](const model::StackFrame& a, const model::StackFrame& b) {
                              return nameless(a) && nameless(b) && a.module == b.module;
                            }),
                frames->end());
}

// The thread waits for a lock, which tells why it does not make a call.
bool WaitsForLock(const std::vector<model::StackFrame>& frames) {
  constexpr size_t kInnermost = 4;
  static const std::set<std::string_view> kNames = {
      "pthread_mutex_lock",       "__pthread_mutex_lock",    "___pthread_mutex_lock",
      "__lll_lock_wait",          "pthread_rwlock_rdlock",   "pthread_rwlock_wrlock",
      "___pthread_rwlock_rdlock", "___pthread_rwlock_wrlock"};
  for (size_t i = 0; i < std::min(kInnermost, frames.size()); ++i) {
    if (!frames[i].python && kNames.contains(frames[i].function)) return true;
  }
  return false;
}

std::string Whose(const std::vector<int>& ranks, const std::vector<uint32_t>& pids) {
  if (!ranks.empty()) return (ranks.size() == 1 ? "rank " : "ranks ") + FoldedRanks(ranks);
  return pids.size() == 1 ? fmt::format("pid {}", pids.front())
                          : fmt::format("{} processes", pids.size());
}

void AddSorted(int rank, std::vector<int>* ranks) {
  const auto at = std::lower_bound(ranks->begin(), ranks->end(), rank);
  if (at == ranks->end() || *at != rank) ranks->insert(at, rank);
}

}  // namespace

bool IsLibraryFrame(const model::StackFrame& frame) {
  if (frame.python) return false;
  if (frame.file.starts_with("/usr/include/") || frame.file.starts_with("/usr/local/cuda") ||
      frame.file.find("/c++/") != std::string::npos) {
    return true;
  }
  const std::string_view name = FileName(frame.module);
  for (std::string_view start :
       {"libc.so", "libpthread", "libstdc++", "libgcc", "ld-linux", "libcuda", "libcudart",
        "libnccl", "libgordian_interpose", "libpython", "libm.so", "libffi", "_ctypes", "[vdso]",
        "libc10", "libtorch"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

std::vector<model::StackFrame> MergeFrames(const v1::ThreadStack& thread,
                                           const std::string& python_module) {
  std::vector<model::StackFrame> out;
  const auto& native = thread.native();
  const auto& python = thread.python();
  const auto evaluations = std::count_if(native.begin(), native.end(), IsEvaluation);
  auto entries = std::count_if(python.begin(), python.end(),
                               [](const v1::StackFrame& frame) { return frame.entry(); });
  if (!python.empty() && !python.rbegin()->entry()) ++entries;  // truncated
  const auto of_interpreter = [&](const v1::StackFrame& frame) {
    return !python_module.empty() && frame.module() == python_module;
  };
  int next = 0;
  const auto add_python = [&](bool all) {
    while (next < python.size()) {
      const v1::StackFrame& frame = python[next++];
      out.push_back(Python(frame));
      if (frame.entry() && !all) return;
    }
  };
  if (python.empty()) {
    for (const v1::StackFrame& frame : native) out.push_back(Native(frame));
  } else if (evaluations == entries) {
    for (const v1::StackFrame& frame : native) {
      if (IsEvaluation(frame)) {
        add_python(/*all=*/false);
      } else if (!of_interpreter(frame) || WaitsForLock(frame)) {
        out.push_back(Native(frame));
      }
    }
  } else {
    int first = 0, last = native.size();
    while (first < last && !of_interpreter(native[first])) ++first;
    while (last > first && !of_interpreter(native[last - 1])) --last;
    const bool mixed = first < last;
    for (int i = 0; mixed && i < first; ++i) out.push_back(Native(native[i]));
    add_python(/*all=*/true);
    for (int i = mixed ? last : 0; i < native.size(); ++i) out.push_back(Native(native[i]));
  }
  CutBeginning(&out);
  CutShim(&out);
  CutEmulator(&out);
  JoinNameless(&out);
  return out;
}

std::vector<model::FoldedStack> FoldStacks(const std::vector<ProcessStacks>& processes,
                                           const std::vector<int>& first) {
  struct Entry {
    model::FoldedStack stack;
    bool culprit = false, in_call = false;
  };
  std::vector<Entry> entries;
  std::map<std::string, size_t> by_frames;
  for (const ProcessStacks& process : processes) {
    for (const v1::ThreadStack& thread : process.taken->threads()) {
      std::vector<model::StackFrame> frames = MergeFrames(thread, process.taken->python_module());
      if (frames.empty()) continue;
      // The emulator's devices explain no hang: they are not on the user's machine. Only where one
      // runs a host function of the program it stands for a thread of CUDA's.
      if (thread.name().starts_with("emu-") &&
          std::all_of(frames.begin(), frames.end(), IsLibraryFrame)) {
        continue;
      }
      std::string key;
      for (const model::StackFrame& frame : frames) {
        key += fmt::format("{}\n{}\n{}\n{}\n{}\n", frame.function, frame.file, frame.line,
                           frame.module, frame.python);
      }
      const auto [found, is_new] = by_frames.try_emplace(std::move(key), entries.size());
      if (is_new) entries.emplace_back().stack.frames = std::move(frames);
      Entry& entry = entries[found->second];
      entry.stack.threads.push_back({.rank = process.ranks.empty() ? -1 : process.ranks.front(),
                                     .pid = process.pid,
                                     .tid = thread.tid(),
                                     .name = thread.name()});
      entry.in_call |= thread.in_call();
      for (const int rank : process.ranks) {
        AddSorted(rank, &entry.stack.ranks);
        entry.culprit |= std::find(first.begin(), first.end(), rank) != first.end();
      }
    }
  }
  // A program's main thread is more interesting than its libraries' service threads.
  const auto main_thread = [](const model::FoldedStack& stack) {
    return std::any_of(stack.threads.begin(), stack.threads.end(),
                       [](const auto& thread) { return thread.pid == thread.tid; });
  };
  const auto place = [&](const Entry& entry) {
    const bool tells =
        entry.in_call || main_thread(entry.stack) || WaitsForLock(entry.stack.frames);
    return std::make_tuple(!tells, !entry.culprit, !entry.in_call,
                           entry.stack.ranks.empty() ? INT32_MAX : entry.stack.ranks.front());
  };
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const Entry& a, const Entry& b) { return place(a) < place(b); });
  std::vector<model::FoldedStack> out;
  for (Entry& entry : entries) out.push_back(std::move(entry.stack));
  return out;
}

std::vector<std::string> StacksNotVisible(const std::vector<ProcessStacks>& processes) {
  struct Of {
    std::vector<int> ranks;
    std::vector<uint32_t> pids;
  };
  std::map<std::pair<std::string, std::string>, Of> notes;  // what, why
  for (const ProcessStacks& process : processes) {
    const auto add = [&](const std::string& what, const std::string& why) {
      if (why.empty()) return;
      Of& of = notes[{what, why}];
      for (const int rank : process.ranks) AddSorted(rank, &of.ranks);
      of.pids.push_back(process.pid);
    };
    const v1::StacksTaken& taken = *process.taken;
    add("native stacks", taken.native_refused());
    add("Python frames", taken.python_refused());
    for (const v1::ThreadStack& thread : taken.threads()) {
      if (thread.native().empty() && taken.native_refused().empty()) {
        add("the native stack of thread " + thread.name(), thread.native_note());
      }
      if (thread.python().empty()) {
        add("the Python frames of thread " + thread.name(), thread.python_note());
      }
    }
  }
  std::vector<std::string> out;
  for (const auto& [note, of] : notes) {
    if (out.size() == kMostNotes) {
      out.push_back(fmt::format("{} more stacks", notes.size() - kMostNotes));
      break;
    }
    out.push_back(fmt::format("{} of {}: {}", note.first, Whose(of.ranks, of.pids), note.second));
  }
  return out;
}

std::string FoldedRanks(const std::vector<int>& ranks) {
  std::string out;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!out.empty()) out += ",";
    out += std::to_string(ranks[i]);
    if (end - i == 2) out += "," + std::to_string(ranks[i + 1]);
    if (end - i > 2) out += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return out;
}

std::string WhoseStack(const model::FoldedStack& stack) {
  std::vector<uint32_t> pids;
  for (const auto& thread : stack.threads) {
    if (std::find(pids.begin(), pids.end(), thread.pid) == pids.end()) pids.push_back(thread.pid);
  }
  return Whose(stack.ranks, pids);
}

}  // namespace gordian::analyzer
