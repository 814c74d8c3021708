#include "simulator/engine/fixpoint.h"

#include <algorithm>

namespace gordian::simulator {

Fixpoint::Fixpoint(const Component& component, uint32_t capacity)
    : c_(component), capacity_(capacity), at_(component.gpus) {}

void Fixpoint::Go(uint32_t u, const Perturbations& drawn) {
  stopped_[u] = 0;
  const uint32_t length = c_.Length(u);
  const Profile& profile = *c_.profile[u];
  const uint32_t* group_of = c_.slot_group.data() + c_.slot_begin[u];
  GpuProgress& at = at_[u];
  for (uint32_t n = at.Emitted(); n < length; ++n) {
    uint32_t& sync = next_sync_[u];
    if (sync != drawn.sync_begin[u + 1] && drawn.syncs[sync].at == n) {
      if (held_[u] > 0) {
        break;
      }
      ++sync;
    }
    if (held_[u] >= capacity_) {
      break;
    }
    uint32_t skip = 0;
    uint32_t& next = next_skip_[u];
    if (next != drawn.skip_begin[u + 1] && drawn.skips[next].at == n) {
      skip = drawn.skips[next++].times;
    }
    const uint32_t position = at.Emit(skip);
    const uint32_t group = group_of[profile.slot_at[position]];
    const uint32_t collective = c_.first[group] + profile.Number(position);
    ++held_[u];
    if (++arrived_[collective] == c_.GroupSize(group)) {
      for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
        --held_[m->gpu];
        if (stopped_[m->gpu]) {
          stopped_[m->gpu] = 0;
          open_.push_back(m->gpu);
        }
      }
    }
  }
  stopped_[u] = 1;
}

bool Fixpoint::Deadlocks(const Perturbations& drawn) {
  arrived_.assign(c_.collectives, 0);
  held_.assign(c_.gpus, 0);
  stopped_.assign(c_.gpus, 0);
  next_sync_.assign(drawn.sync_begin.begin(), drawn.sync_begin.begin() + c_.gpus);
  next_skip_.assign(drawn.skip_begin.begin(), drawn.skip_begin.begin() + c_.gpus);
  for (GpuProgress& at : at_) {
    at.front = 0;
    at.pending.clear();
  }
  open_.clear();
  for (uint32_t u = c_.gpus; u > 0; --u) {
    open_.push_back(u - 1);
  }
  while (!open_.empty()) {
    const uint32_t u = open_.back();
    open_.pop_back();
    Go(u, drawn);
  }
  for (uint32_t u = 0; u < c_.gpus; ++u) {
    if (IsStuck(u)) {
      return true;
    }
  }
  return false;
}

SyncGraph::SyncGraph(const Component& component) : c_(component), at_(component.gpus) {}

void SyncGraph::Advance(uint32_t u, const Perturbations& drawn) {
  GpuProgress& at = at_[u];
  uint32_t n = at.Emitted();
  const uint32_t sync = next_sync_[u];
  const bool waits = sync != drawn.sync_begin[u + 1];
  const uint32_t until = waits ? drawn.syncs[sync].at : c_.Length(u);
  uint32_t& skip = next_skip_[u];
  const uint32_t skips_end = drawn.skip_begin[u + 1];
  while (n < until) {
    const bool marked = skip != skips_end && drawn.skips[skip].at < until;
    if (at.pending.empty()) {
      n = at.front = marked ? drawn.skips[skip].at : until;
      if (!marked) {
        return;
      }
    }
    if (marked && drawn.skips[skip].at == n) {
      at.Emit(drawn.skips[skip++].times);
    } else {
      at.Emit(0);
    }
    ++n;
  }
}

bool SyncGraph::Deadlocks(const Perturbations& drawn) {
  next_sync_.assign(drawn.sync_begin.begin(), drawn.sync_begin.begin() + c_.gpus);
  next_skip_.assign(drawn.skip_begin.begin(), drawn.skip_begin.begin() + c_.gpus);
  watchers_.assign(c_.gpus, kNobody);
  next_watcher_.resize(c_.gpus);
  open_.clear();
  size_t stuck = 0;  // GPUs at a wait
  for (uint32_t u = 0; u < c_.gpus; ++u) {
    at_[u].pending.clear();
    if (next_sync_[u] == drawn.sync_begin[u + 1]) {
      at_[u].front = c_.Length(u);
      continue;
    }
    at_[u].front = 0;
    Advance(u, drawn);
    open_.push_back(u);
    ++stuck;
  }
  while (!open_.empty()) {
    const uint32_t u = open_.back();
    const uint32_t blocker = FindBlocker(c_, at_, u);
    if (blocker != kNobody) {
      open_.pop_back();
      next_watcher_[u] = watchers_[blocker];
      watchers_[blocker] = u;
      continue;
    }
    ++next_sync_[u];
    Advance(u, drawn);
    if (next_sync_[u] == drawn.sync_begin[u + 1]) {
      open_.pop_back();
      --stuck;
    }
    for (uint32_t w = watchers_[u]; w != kNobody; w = next_watcher_[w]) {
      open_.push_back(w);
    }
    watchers_[u] = kNobody;
  }
  return stuck > 0;
}

}  // namespace gordian::simulator
