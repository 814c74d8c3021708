#include "analyzer/stacks/stack_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analyzer/report/text_layout.h"
#include "analyzer/stacks/stack_merge.h"
#include "common/utf8.h"

namespace gordian::analyzer {
namespace {

constexpr size_t kStacksInShort = 4;
constexpr size_t kFramesInShort = 5;
constexpr size_t kThreadsNamed = 8;

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Of library frames that call each other keeps the outermost, unless that has no name.
std::vector<const model::StackFrame*> Telling(const std::vector<model::StackFrame>& frames) {
  std::vector<const model::StackFrame*> out;
  for (size_t i = 0; i < frames.size(); ++i) {
    const model::StackFrame* told = &frames[i];
    if (IsLibraryFrame(frames[i])) {
      for (; i + 1 < frames.size() && IsLibraryFrame(frames[i + 1]); ++i) {
        if (!frames[i + 1].function.empty()) told = &frames[i + 1];
      }
    }
    out.push_back(told);
  }
  return out;
}

std::string Heading(const model::FoldedStack& stack, bool in_full) {
  std::string out = WhoseStack(stack);
  // One thread may hold several ranks.
  const bool several = stack.threads.size() > std::max<size_t>(stack.ranks.size(), 1);
  if (several) out += fmt::format(", {} threads", stack.threads.size());
  const auto named_alike =
      std::all_of(stack.threads.begin(), stack.threads.end(),
                  [&](const auto& thread) { return thread.name == stack.threads.front().name; });
  if (!stack.threads.empty() && named_alike) {
    const auto& thread = stack.threads.front();
    out += ", thread " + Printable(thread.name);
    if (in_full && stack.threads.size() == 1) {
      out += fmt::format(" ({} of pid {})", thread.tid, thread.pid);
    }
  } else if (in_full) {
    for (size_t i = 0; i < stack.threads.size() && i < kThreadsNamed; ++i) {
      out += (i == 0 ? ": " : ", ") + Printable(stack.threads[i].name);
    }
    if (stack.threads.size() > kThreadsNamed) out += ", ...";
  }
  return out;
}

}  // namespace

std::string FrameText(const model::StackFrame& frame, bool whole_path) {
  std::string function = Printable(frame.function);
  const bool callable = !function.empty() && function.back() != '>' && function.back() != ')';
  if (callable) function += "()";
  if (frame.line > 0 && !frame.file.empty()) {
    const std::string file = Printable(whole_path ? frame.file : FileName(frame.file));
    return fmt::format("{}:{}{}{}", file, frame.line, function.empty() ? "" : " ", function);
  }
  if (function.empty()) function = "?";
  if (frame.python) {
    return function + (frame.file.empty() ? "" : " in " + Printable(FileName(frame.file)));
  }
  return function + (frame.module.empty() ? "" : " in " + Printable(FileName(frame.module)));
}

std::vector<std::string> StacksInShort(const std::vector<model::FoldedStack>& stacks) {
  std::vector<std::string> out;
  for (size_t i = 0; i < stacks.size(); ++i) {
    if (i == kStacksInShort) {
      out.push_back(fmt::format("  {} more, see `gordian explain`", stacks.size() - i));
      break;
    }
    out.push_back("  " + Heading(stacks[i], /*in_full=*/false));
    const std::vector<const model::StackFrame*> frames = Telling(stacks[i].frames);
    for (size_t k = 0; k < frames.size(); ++k) {
      if (k == kFramesInShort && frames.size() > kFramesInShort + 1) {
        out.push_back(fmt::format("    called by {} more", frames.size() - k));
        break;
      }
      model::StackFrame frame = *frames[k];
      if (IsLibraryFrame(frame) && !frame.function.empty())
        frame.line = 0;  // not the user's source
      out.push_back("    " + FrameText(frame, /*whole_path=*/false));
    }
  }
  return out;
}

std::vector<std::string> StacksInFull(const std::vector<model::FoldedStack>& stacks) {
  std::vector<std::string> out;
  for (const model::FoldedStack& stack : stacks) {
    if (!out.empty()) out.push_back("");
    out.push_back("  " + Heading(stack, /*in_full=*/true));
    for (const model::StackFrame& frame : stack.frames) {
      out.push_back("    " + FrameText(frame, /*whole_path=*/true));
    }
  }
  return out;
}

}  // namespace gordian::analyzer
