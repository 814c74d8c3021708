#include "replayer/predict/window_key.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace gordian::replayer {
namespace {

// Words into two numbers, each by multiplications and shifts as in splitmix64 (G. Steele, D. Lea, C.
// Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
class Hasher {
 public:
  void Add(uint64_t word) {
    one_ = (one_ ^ word) * 0xbf58476d1ce4e5b9u;
    one_ ^= one_ >> 31;
    two_ = (std::rotl(two_, 23) + word) * 0x94d049bb133111ebu;
    two_ ^= two_ >> 29;
  }
  WindowKey key() const { return {one_, two_}; }

 private:
  uint64_t one_ = 0x9e3779b97f4a7c15u, two_ = 0x2545f4914f6cdd1du;
};

// Between which of the moments a time is. Times mostly ascend.
class Era {
 public:
  explicit Era(const std::vector<uint64_t>* moments) : moments_(moments) {}

  uint64_t Of(uint64_t time_ns) {
    if (moments_ == nullptr || (time_ns >= from_ && time_ns < to_)) return era_;
    const auto next = std::upper_bound(moments_->begin(), moments_->end(), time_ns);
    era_ = static_cast<uint64_t>(next - moments_->begin());
    from_ = next == moments_->begin() ? 0 : *std::prev(next);
    to_ = next == moments_->end() ? UINT64_MAX : *next;
    return era_;
  }

 private:
  const std::vector<uint64_t>* const moments_;
  uint64_t from_ = 1, to_ = 0, era_ = 0;
};

// Beside how much a group's number differs from that of its thread's group before.
constexpr uint64_t kFirstGroup = 1u << 17, kBegunBefore = 1u << 18;

void AddRank(const Windows::Rank& rank, const std::vector<uint64_t>* moments, Hasher* hasher) {
  const Blocks<LoggedCall>& calls = rank.log->calls;
  Era era(moments);
  std::vector<std::pair<bool, uint16_t>> groups(
      rank.threads);  // of each thread: its latest, if any
  size_t added = 0;
  for (size_t at = rank.begin; at < rank.end; ++at) {
    const LoggedCall& call = calls[at];
    const CallKind& kind = rank.log->kinds[call.kind];
    if (kind.IsGroupEnd() && !rank.IsOfWindow(at)) continue;
    // So many calls of the window began before this one had returned.
    uint64_t meanwhile = 0;
    for (size_t next = at + 1; next < rank.end && calls[next].order <= call.end_order(); ++next)
      meanwhile += rank.IsOfWindow(next);
    if (call.lasts == LoggedCall::kNotReturned) meanwhile = UINT32_MAX;
    uint64_t group = 0;
    if (kind.InGroup() || kind.IsGroupEnd()) {
      auto& [any, latest] = groups[rank.kinds[call.kind].thread];
      group = any ? 1 + uint64_t{static_cast<uint16_t>(call.group - latest)} : kFirstGroup;
      if (rank.SpanOf(at).first < rank.begin) group |= kBegunBefore;
      any = true;
      latest = call.group;
    }
    hasher->Add(uint64_t{call.kind} | meanwhile << 32);
    hasher->Add(call.count);
    hasher->Add(era.Of(call.time_ns) | group << 32);
    ++added;
  }
  hasher->Add(added);
}

}  // namespace

WindowKey KeyOf(const Windows& windows, const LifeMoments& moments, uint64_t connected) {
  Hasher hasher;
  hasher.Add(connected);
  for (const auto& [id, rank] : windows.ranks()) {
    const auto of_process = moments.find(id);
    AddRank(rank, of_process == moments.end() ? nullptr : &of_process->second, &hasher);
  }
  return hasher.key();
}

}  // namespace gordian::replayer
