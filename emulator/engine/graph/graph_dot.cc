// Writes a graph as a DOT file. The driver's output is unspecified; this has the same structure: a
// cluster for each graph, a record for each node, and details by the flags.
#include <cstdarg>
#include <cstdio>
#include <string>

#include "emulator/engine/graph/graphs_impl.h"

namespace gordian::emu {
namespace {

enum DotFlags : unsigned {
  kVerbose = 1 << 0,
  kKernelParams = 1 << 2,
  kCopyParams = 1 << 3,
  kFillParams = 1 << 4,
  kHostParams = 1 << 5,
  kEventParams = 1 << 6,
  kHandles = 1 << 10,
  kMemoryAllocParams = 1 << 11,
  kMemoryFreeParams = 1 << 12,
};

const char* TypeName(const GraphNode& node) {
  switch (node.type()) {
    case NodeType::kKernel:
      return "KERNEL";
    case NodeType::kCopy:
      return "MEMCPY";
    case NodeType::kFill:
      return "MEMSET";
    case NodeType::kHost:
      return "HOST";
    case NodeType::kGraph:
      return "GRAPH";
    case NodeType::kEmpty:
      return "EMPTY";
    case NodeType::kWaitEvent:
      return "EVENT_WAIT";
    case NodeType::kRecordEvent:
      return "EVENT_RECORD";
    case NodeType::kAlloc:
      return "MEM_ALLOC";
    case NodeType::kFree:
      return "MEM_FREE";
    default:
      return "UNKNOWN";
  }
}

__attribute__((format(printf, 2, 3))) void Append(std::string* text, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  *text += line;
}

void AppendLabel(const GraphNode& node, unsigned flags, std::string* text) {
  const auto asked = [flags](unsigned flag) { return (flags & (flag | kVerbose)) != 0; };
  const NodeParams& p = node.params;
  Append(text, "%s", TypeName(node));
  if (asked(kHandles)) Append(text, "\\nhandle: %p", static_cast<const void*>(&node));
  switch (node.type()) {
    case NodeType::kKernel:
      if (!asked(kKernelParams)) break;
      Append(text, "\\nfunction: %p\\ngrid: %u,%u,%u\\nblock: %u,%u,%u\\nshared: %u",
             p.kernel.function, p.kernel.grid[0], p.kernel.grid[1], p.kernel.grid[2],
             p.kernel.block[0], p.kernel.block[1], p.kernel.block[2], p.kernel.shared_bytes);
      break;
    case NodeType::kCopy:
      if (!asked(kCopyParams)) break;
      Append(text, "\\nfrom: %p\\nto: %p\\nextent: %zu,%zu,%zu",
             static_cast<void*>(p.copy.from.At(0, 0)), static_cast<void*>(p.copy.to.At(0, 0)),
             p.copy.width, p.copy.height, p.copy.depth);
      break;
    case NodeType::kFill:
      if (!asked(kFillParams)) break;
      Append(text, "\\nto: %p\\nvalue: %u\\nelement: %zu\\nwidth: %zu\\nheight: %zu", p.fill.to,
             p.fill.value, p.fill.element_bytes, p.fill.width, p.fill.height);
      break;
    case NodeType::kHost:
      if (!asked(kHostParams)) break;
      Append(text, "\\nfunction: %p\\ndata: %p", reinterpret_cast<void*>(p.host.function),
             p.host.data);
      break;
    case NodeType::kWaitEvent:
    case NodeType::kRecordEvent:
      if (asked(kEventParams)) Append(text, "\\nevent: %p", p.event);
      break;
    case NodeType::kAlloc:
      if (asked(kMemoryAllocParams)) {
        Append(text, "\\naddress: %p\\nbytes: %zu", p.alloc.pointer, p.alloc.bytes);
      }
      break;
    case NodeType::kFree:
      if (asked(kMemoryFreeParams)) Append(text, "\\naddress: %p", p.alloc.pointer);
      break;
    default:
      break;
  }
}

void AppendGraph(const Graph& graph, unsigned flags, std::string* text) {
  const auto id = [](uint64_t number) { return static_cast<unsigned long long>(number); };
  Append(text, "subgraph cluster_%llu {\nlabel=\"graph_%llu\"\n", id(graph.id), id(graph.id));
  for (const auto& node : graph.nodes()) {
    Append(text, "\"node_%llu\" [shape=box label=\"", id(node->id));
    AppendLabel(*node, flags, text);
    *text += "\"];\n";
  }
  for (const auto& node : graph.nodes()) {
    for (const auto& edge : node->after) {
      Append(text, "\"node_%llu\" -> \"node_%llu\";\n", id(node->id), id(edge.node->id));
    }
  }
  *text += "}\n";
  for (const auto& node : graph.nodes()) {
    if (node->child != nullptr) AppendGraph(*node->child, flags, text);
  }
}

}  // namespace

int GraphsImpl::PrintDot(void* handle, const char* path, unsigned flags) {
  if (!engine_.Ready()) return engine_.Initialize();
  if (path == nullptr) return kInvalidValue;
  std::string text = "digraph dot {\n";
  {
    Scheduler::Section section(*engine_.scheduler_);
    const Graph* const graph = FindGraph(handle);
    if (graph == nullptr) return kInvalidValue;
    AppendGraph(*graph, flags, &text);
  }
  text += "}\n";
  FILE* const file = fopen(path, "w");
  if (file == nullptr) return kOperatingSystem;
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  return fclose(file) == 0 && written ? kSuccess : kOperatingSystem;
}

}  // namespace gordian::emu
