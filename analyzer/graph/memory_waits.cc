// W10: streams that wait for values in memory, and who may write them.
//
// A word in device memory that the process allocated, and shared with nobody that was seen, can be
// written by the process alone: by writes that its streams hold, by any kernel, copy or graph of
// its, or by one that a thread of its has yet to call. Only when a write that would do stands
// somewhere, and neither it nor any of the rest can be reached, does the wait count as stuck. That
// nobody else writes (a network card may), and that no operation of NCCL does, cannot be seen from
// the host: such a finding is a suspicion and names that as its assumption. Any other word has
// writers that are not seen.
#include <algorithm>

#include "analyzer/graph/wait_for_graph.h"

namespace gordian::graph {
namespace {

bool SameWord(const MemoryOp& a, const MemoryOp& b) {
  return a.address == b.address && a.Bytes() == b.Bytes();
}

bool Overlap(const MemoryOp& a, const MemoryOp& b) {
  return a.address < b.address + b.Bytes() && b.address < a.address + a.Bytes();
}

// Of memory that is the process's own as far as its calls tell.
bool WrittenHereOnly(const Process& process, const MemoryOp& word) {
  if ((word.flags & kMemoryOwn) == 0) return false;
  auto after = process.shared_memory.lower_bound(word.address + word.Bytes());
  // Ranges do not overlap: the last that begins before the word's end is the only one to look at.
  return after == process.shared_memory.begin() || std::prev(after)->second <= word.address;
}

}  // namespace

// As cuStreamWaitValue32 and its kin are documented: greater counts as a cyclic difference.
bool MaySatisfy(const MemoryOp& write, const MemoryOp& wait) {
  if (!SameWord(write, wait)) return Overlap(write, wait);
  const uint64_t mask = wait.Bytes() == 8 ? ~uint64_t{0} : 0xffff'ffff;
  const uint64_t now = write.value & mask, wanted = wait.value & mask;
  switch (static_cast<MemoryCondition>(wait.flags & kMemoryCondition)) {
    case MemoryCondition::kGreaterOrEqual:
      return ((now - wanted) & mask) <= mask / 2;
    case MemoryCondition::kEqual:
      return now == wanted;
    case MemoryCondition::kAnd:
      return (now & wanted) != 0;
    case MemoryCondition::kNor:
      return (~(now | wanted) & mask) != 0;
  }
  return true;
}

void ExecutionGraph::ApplyMemoryShared(Process& process, const CallRecord& record) {
  uint64_t begin = record.event, end = begin + std::max<uint64_t>(record.value, 1);
  if (end < begin) end = UINT64_MAX;
  // Joined with those that it touches: disjoint ones are all that is kept.
  auto& ranges = process.shared_memory;
  auto at = ranges.upper_bound(begin);
  if (at != ranges.begin() && std::prev(at)->second >= begin) --at;
  while (at != ranges.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    at = ranges.erase(at);
  }
  ranges[begin] = end;
}

const std::vector<std::pair<const WorkItem*, uint32_t>>& WaitForGraph::Writes(
    const Process& process) {
  auto [it, added] = writes_.try_emplace(process.info.process);
  if (!added) return it->second;
  for (const auto& [stream, queue] : process.streams) {
    for (const WorkItem& item : queue.items) {
      if (item.kind != WorkKind::kMemoryWrite) continue;
      it->second.push_back({&item, ItemNode(queue, item.ordinal)});
    }
  }
  return it->second;
}

// Any kernel, copy, host function or graph of the process may write any of its memory from its
// start on; and a thread may call one that nobody knows of yet.
uint32_t WaitForGraph::AnyWork(const Process& process) {
  const ProcessId id = process.info.process;
  auto [it, added] = any_work_.try_emplace(id, 0);
  if (!added) return it->second;
  const uint32_t node = it->second = Add(NodeKind::kAnyWork, true);
  nodes_[node].process = id;
  for (const auto& [stream, queue] : process.streams) {
    if (queue.soft > queue.done) Wait(node, Leaf(LeafKind::kKernel, id), Reason::kMemoryWait);
    for (const WorkItem& item : queue.items) {
      const bool writes =
          item.kind == WorkKind::kKernels || item.kind == WorkKind::kHostFunction || item.graph;
      if (writes) Wait(node, DoneBy(process, {stream, item.ordinal - 1}), Reason::kMemoryWait);
    }
  }
  const uint32_t calls = ProcessNotCalled(id);
  Wait(node, calls, Reason::kNotCalled);
  return node;
}

// Whether a write that has ended may have left the value that `wait` asks for.
bool WrittenBefore(const Process& process, const MemoryOp& wait) {
  if (process.words_forgotten) return true;
  constexpr uint64_t kWidest = 8;
  auto at = process.written_words.lower_bound(wait.address - std::min(wait.address, kWidest));
  for (; at != process.written_words.end() && at->first < wait.address + wait.Bytes(); ++at) {
    if (at->second.forgotten) return true;
    for (const auto& [write, position] : at->second.writes) {
      const WorkItem* item = ExecutionGraph::ItemAt(process, position);
      const bool stands = item != nullptr && item->ordinal == position.ordinal;
      if (!stands && MaySatisfy(write, wait)) return true;
    }
  }
  return false;
}

void ExecutionGraph::NoteWrite(Process& process, const MemoryOp& write, StreamPosition position) {
  constexpr size_t kMost = 64, kMostWords = 4096;
  if (process.words_forgotten) return;
  if (process.written_words.size() == kMostWords) {
    process.written_words.clear();
    process.words_forgotten = true;
    return;
  }
  WrittenWord& word = process.written_words[write.address];
  if (word.writes.size() == kMost) {
    word.writes.erase(word.writes.begin());
    word.forgotten = true;
  }
  word.writes.emplace_back(write, position);
}

uint32_t WaitForGraph::MemoryWritten(const Process& process, const StreamQueue& queue,
                                     const WorkItem& wait) {
  const ProcessId id = process.info.process;
  const uint32_t node = Add(NodeKind::kMemory, true);
  nodes_[node].process = id;
  nodes_[node].stream = queue.id;
  nodes_[node].ordinal = wait.ordinal;
  // A write may be among what was lost, or in a graph of graphs.
  if (process.Lossy() || process.lost_sight) {
    Wait(node, Leaf(LeafKind::kUnknown, id), Reason::kMemoryWait);
    return node;
  }
  bool known = false;
  if (WrittenHereOnly(process, wait.memory) && !WrittenBefore(process, wait.memory)) {
    for (const auto& [write, done] : Writes(process)) {
      if (!MaySatisfy(write->memory, wait.memory)) continue;
      known |= SameWord(write->memory, wait.memory);
      Wait(node, done, Reason::kMemoryWait);
    }
    const uint32_t any = AnyWork(process);
    // True, but nothing to show where there is a write that is meant.
    Wait(node, any, Reason::kMemoryWait, -1, 0, /*discouraged=*/true);
  }
  // Without a write that is meant for it, somebody else is.
  if (!known) Wait(node, Leaf(LeafKind::kMemory, id), Reason::kMemoryWait);
  return node;
}

}  // namespace gordian::graph
