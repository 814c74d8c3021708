// Derives signs from the names on a culprit's stack.
#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/model/verdict/names.h"
#include "analyzer/stacks/sign_book.h"

namespace gordian::analyzer {
namespace {

bool OneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool OfPackage(const model::StackFrame& frame, std::string_view part) {
  return frame.python && frame.file.find(part) != std::string::npos;
}

bool InMpi(const model::StackFrame& frame) {
  return !frame.python &&
         (frame.function.starts_with("MPI_") || frame.function.starts_with("PMPI_"));
}

bool InTakeGil(const model::StackFrame& frame) {
  return !frame.python &&
         OneOf(frame.function, {"take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread",
                                "_PyThreadState_Attach", "PyGILState_Ensure"});
}

bool InTeardown(const model::StackFrame& frame) {
  return !frame.python && OneOf(frame.function, {"exit", "__run_exit_handlers", "_dl_fini",
                                                 "Py_FinalizeEx", "Py_Exit", "__cxa_finalize"});
}

// The innermost frames of a wait for input, or Python's functions around one.
bool ReadsInput(const std::vector<model::StackFrame>& frames) {
  constexpr size_t kInnermost = 2;
  for (size_t i = 0; i < frames.size(); ++i) {
    const model::StackFrame& frame = frames[i];
    if (i < kInnermost && !frame.python &&
        OneOf(frame.function,
              {"poll", "__poll", "ppoll", "select", "__select", "epoll_wait", "recv", "__libc_recv",
               "__recv", "recvfrom", "recvmsg", "__libc_recvmsg", "accept", "__libc_accept", "read",
               "__libc_read", "__read", "__GI___libc_read", "__GI___poll"})) {
      return true;
    }
    if (OfPackage(frame, "queue.py") || OfPackage(frame, "queues.py") ||
        OfPackage(frame, "multiprocessing/connection.py") || OfPackage(frame, "selectors.py") ||
        OfPackage(frame, "utils/data/dataloader.py")) {
      return OneOf(frame.function, {"get", "_recv", "_recv_bytes", "_poll", "wait", "select",
                                    "_try_get_data", "recv", "recv_bytes"});
    }
  }
  return false;
}

// A main thread has the process's name, or its tid equals the pid.
bool OfMainThread(const model::FoldedStack& stack) {
  return std::any_of(stack.threads.begin(), stack.threads.end(),
                     [](const auto& thread) { return thread.tid == thread.pid; });
}

}  // namespace

void AddStackSigns(model::Verdict* verdict) {
  const model::Finding& main = verdict->main;
  const bool still = main.check == "no-progress";  // where each rank may be the one
  if (main.verdict != model::VerdictKind::kRankNotJoined &&
      main.verdict != model::VerdictKind::kHostBlocked && !still)
    return;
  std::map<std::string, std::vector<int>> by_check;
  for (const model::FoldedStack& stack : verdict->stacks) {
    std::vector<int> culprits;
    for (int rank : stack.ranks) {
      if (still || std::find(main.culprit_ranks.begin(), main.culprit_ranks.end(), rank) !=
                       main.culprit_ranks.end()) {
        culprits.push_back(rank);
      }
    }
    if (culprits.empty()) continue;
    const bool main_thread = OfMainThread(stack);
    // Takes the first check that fits a thread: polling inside an MPI barrier is a wait for MPI.
    const char* check = nullptr;
    const auto any = [&](auto is) {
      return std::any_of(stack.frames.begin(), stack.frames.end(), is);
    };
    if (any(InMpi)) {
      check = "waits-in-mpi";
    } else if (main_thread && any(InTeardown)) {
      check = "in-teardown";
    } else if (main_thread && any(InTakeGil)) {
      check = "waits-for-gil";
    } else if (main_thread && ReadsInput(stack.frames)) {
      check = "waits-for-input";
    }
    if (check == nullptr) continue;
    std::vector<int>& ranks = by_check[check];
    ranks.insert(ranks.end(), culprits.begin(), culprits.end());
  }
  for (auto& [check, ranks] : by_check) {
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    const std::string who = model::RankList(ranks);
    const bool one = ranks.size() == 1;
    std::string text = who + (one ? " is" : " are") + " inside MPI";
    if (check == "in-teardown")
      text =
          who + (one ? " is" : " are") + " ending: in exit handlers or the end of the interpreter";
    if (check == "waits-for-gil")
      text = who + (one ? " waits" : " wait") + " for Python's interpreter lock";
    if (check == "waits-for-input")
      text = who + (one ? " waits" : " wait") + " for a queue, a pipe, a socket or a file";
    verdict->signs.push_back({check, ranks, text});
  }
}

}  // namespace gordian::analyzer
