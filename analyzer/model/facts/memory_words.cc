// Words in memory that streams wait for and write: which memory is shared with others, and what
// has been written where (W10).
#include <algorithm>

#include "analyzer/model/facts/execution_graph.h"

namespace gordian::model {
namespace {

bool Overlap(const MemoryOp& a, const MemoryOp& b) {
  return a.address < b.address + b.Bytes() && b.address < a.address + a.Bytes();
}

}  // namespace

bool SameWord(const MemoryOp& a, const MemoryOp& b) {
  return a.address == b.address && a.Bytes() == b.Bytes();
}

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
  const auto& shared = record.As<ring::WorkPayload>();
  uint64_t begin = shared.event, end = begin + std::max<uint64_t>(shared.value, 1);
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

bool WrittenHereOnly(const Process& process, const MemoryOp& word) {
  if ((word.flags & kMemoryOwn) == 0) return false;
  auto after = process.shared_memory.lower_bound(word.address + word.Bytes());
  // Ranges do not overlap: the last that begins before the word's end is the only one to look at.
  return after == process.shared_memory.begin() || std::prev(after)->second <= word.address;
}

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

}  // namespace gordian::model
