#include "simulator/engine/replay.h"

#include <algorithm>
#include <numeric>

namespace gordian::simulator {
namespace {

// How many of `remaining` an emission skips. Draws a coin for the last one too, though it has no
// choice.
uint32_t Skip(uint64_t p, uint32_t remaining, PythonRandom* random) {
  uint32_t k = 0;
  while (random->Next53() < p && k + 1 < remaining) {
    ++k;
  }
  return k;
}

}  // namespace

ReplayEngine::ReplayEngine(const Component& component, DenseOptions options)
    : c_(component),
      options_(options),
      dense_(component, options),
      window_(component),
      at_(component.gpus),
      base_(component.gpus),
      waiting_(component.gpus),
      odd_(component.gpus),
      held_(component.gpus) {}

RoundResult ReplayEngine::Round(double disorder_prob, double sync_prob, PythonRandom* random) {
  if (options_.model == Model::kSingle) {
    if (window_.is_level()) {
      const PythonRandom before = *random;
      if (DrawsNoDeadlock(disorder_prob, random)) {
        RoundResult none;
        none.sweep = static_cast<uint32_t>(sweep_);
        return none;
      }
      *random = before;  // where it ends, and what it drew until then
    }
    return dense_.Replay(disorder_prob, sync_prob, random);
  }
  if (options_.resource_limit > 0) {
    return dense_.Replay(disorder_prob, sync_prob, random);
  }
  return RoundSync(PythonRandom::Threshold(disorder_prob), PythonRandom::Threshold(sync_prob),
                   random);
}

// Runs a whole round of the model Single in which no GPU is ever held up, so that the number of
// turns says whose turn it is. Returns false for a deadlock, which draws less.
bool ReplayEngine::DrawsNoDeadlock(double disorder_prob, PythonRandom* random) {
  const uint64_t p = PythonRandom::Threshold(disorder_prob);
  drawn_.Clear();
  active_.resize(c_.gpus);
  std::iota(active_.begin(), active_.end(), 0u);
  uint32_t sweep = 0;
  while (!active_.empty()) {
    const uint32_t gpu =
        *std::min_element(active_.begin(), active_.end(),
                          [&](uint32_t a, uint32_t b) { return c_.Length(a) < c_.Length(b); });
    const uint32_t until = c_.Length(gpu);  // up to there the same GPUs have turns
    const uint64_t turns = static_cast<uint64_t>(until - sweep) * active_.size();
    for (uint64_t turn = 0; (turn += random->PassOver(p, turns - turn)) < turns; ++turn) {
      const uint32_t u = active_[turn % active_.size()];
      const uint32_t n = sweep + static_cast<uint32_t>(turn / active_.size());
      const uint32_t skip = Skip(p, c_.Length(u) - n, random);
      if (skip > 0) {
        drawn_.skips.push_back({u, n, skip});
      }
    }
    sweep = until;
    std::erase_if(active_, [&](uint32_t u) { return c_.Length(u) == until; });
  }
  sweep_ = sweep;
  if (drawn_.skips.empty()) {
    return true;
  }
  std::sort(drawn_.skips.begin(), drawn_.skips.end(), [](const Mark& a, const Mark& b) {
    return a.gpu != b.gpu ? a.gpu < b.gpu : a.at < b.at;
  });
  drawn_.Index(c_.gpus);
  return !window_.Run(drawn_);
}

void ReplayEngine::Begin() {
  for (GpuProgress& at : at_) {
    at.front = 0;
    at.pending.clear();
  }
  std::fill(base_.begin(), base_.end(), 0);
  std::fill(waiting_.begin(), waiting_.end(), 0);
  std::fill(odd_.begin(), odd_.end(), 0);
  odd_count_ = 0;
  waiters_.clear();
  active_.resize(c_.gpus);
  std::iota(active_.begin(), active_.end(), 0u);
  sweep_ = 0;
  acting_ = 0;
  next_end_ = 0;
  DropFinished();
}

// As of now: the GPUs before the acting one have had their turn in this sweep.
const GpuProgress& ReplayEngine::Where(uint32_t u) {
  if (odd_[u] == 0) {
    const int64_t n = sweep_ - base_[u] + (u < acting_ ? 1 : 0);
    at_[u].front = static_cast<uint32_t>(std::min<int64_t>(n, c_.Length(u)));
  }
  return at_[u];
}

bool ReplayEngine::IsHeldUp(uint32_t u) {
  return FindBlockerOf(
             c_, [&](uint32_t gpu) -> const GpuProgress& { return Where(gpu); }, u) != kNobody;
}

bool ReplayEngine::FindsDeadlock(uint32_t n) {
  // Some may have nothing left to wait for, but no turn since.
  std::fill(held_.begin(), held_.end(), 0);
  for (const uint32_t u : waiters_) {
    held_[u] = IsHeldUp(u) ? 1 : 0;
  }
  held_[n] = 1;
  for (uint32_t u = 0; u < c_.gpus; ++u) {
    (void)Where(u);
  }
  if (options_.detector == Detector::kRing) {
    return InCircle(c_, at_, held_, n);
  }
  const Clash clash = ClashOf(c_, at_, held_, n);
  return clash.holds && clash.lacks;
}

// Runs a turn in which something may happen. Returns true for a deadlock.
bool ReplayEngine::Turn(uint32_t u, uint64_t p, uint64_t q, PythonRandom* random) {
  (void)Where(u);
  GpuProgress& at = at_[u];
  const uint32_t n = at.Emitted();
  if (waiting_[u]) {
    if (IsHeldUp(u)) {
      return false;
    }
    waiting_[u] = 0;
    std::erase(waiters_, u);
  }
  if (odd_[u] != 0) {
    base_[u] = sweep_ - n;
  }
  if (random->Next53() < q) {
    if (IsHeldUp(u)) {
      if (FindsDeadlock(u)) {
        return true;
      }
      waiting_[u] = 1;
      waiters_.push_back(u);
    } else {
      ++base_[u];
    }
  } else {
    at.Emit(Skip(p, c_.Length(u) - n, random));
  }
  const uint8_t odd = waiting_[u] || !at.pending.empty() ? 1 : 0;
  odd_count_ += odd - odd_[u];
  odd_[u] = odd;
  return false;
}

void ReplayEngine::DropFinished() {
  if (sweep_ < next_end_) {
    return;
  }
  next_end_ = INT64_MAX;
  std::erase_if(active_, [&](uint32_t u) {
    // For a waiting GPU, the earliest possible end.
    const int64_t end = base_[u] + c_.Length(u);
    if (end <= sweep_ && !waiting_[u]) {
      return true;
    }
    next_end_ = std::min(next_end_, std::max(end, sweep_ + 1));
    return false;
  });
}

RoundResult ReplayEngine::RoundSync(uint64_t p, uint64_t q, PythonRandom* random) {
  RoundResult result;
  Begin();
  while (!active_.empty()) {
    for (size_t i = 0; i < active_.size(); ++i) {
      if (odd_[active_[i]] == 0) {
        size_t odd = odd_count_ == 0 ? active_.size() : i + 1;
        while (odd < active_.size() && odd_[active_[odd]] == 0) {
          ++odd;
        }
        i += random->PassOverPairs(q, p, odd - i);
        if (i == active_.size()) {
          break;
        }
      }
      acting_ = active_[i];
      if (Turn(acting_, p, q, random)) {
        result.deadlock = true;
        result.gpu = acting_;
        result.sweep = static_cast<uint32_t>(sweep_);
        return result;
      }
    }
    ++sweep_;
    acting_ = 0;
    DropFinished();
  }
  result.sweep = static_cast<uint32_t>(sweep_);
  return result;
}

}  // namespace gordian::simulator
