#include "simulator/event.h"

#include <bit>

namespace gordian::simulator {
namespace {

constexpr uint32_t kMostRows = 4096;    // of the neighbour table
constexpr size_t kFewSyncs = 24;        // GPUs; more are not worth looking at in pairs

}  // namespace

void KeyTree::Reset(uint32_t keys) {
  leaves_ = std::bit_ceil(std::max(keys, 2u));
  key_.assign(2 * static_cast<size_t>(leaves_), kNever);
}

EventEngine::EventEngine(const Component& component)
    : c_(component),
      shift_(static_cast<uint32_t>(std::bit_width(component.gpus))),
      at_(component.gpus),
      mode_(component.gpus),
      base_(component.gpus),
      waiting_(component.gpus) {
  if (c_.gpus > kMostRows) {
    return;
  }
  row_ = (c_.gpus + 63) / 64;
  neighbours_.assign(static_cast<size_t>(c_.gpus) * row_, 0);
  for (uint32_t g = 0; g < c_.groups; ++g) {
    for (const Member* a = c_.MembersBegin(g); a != c_.MembersEnd(g); ++a) {
      for (const Member* b = c_.MembersBegin(g); b != c_.MembersEnd(g); ++b) {
        if (a->gpu != b->gpu) {
          neighbours_[static_cast<size_t>(a->gpu) * row_ + b->gpu / 64] |= uint64_t{1}
                                                                            << (b->gpu % 64);
        }
      }
    }
  }
}

// A verdict needs a waiting GPU that holds what one waiting neighbour lacks and lacks what one holds. Two
// neighbours may be needed, and waits; if both are the same, one of the two was out of order: in order,
// the first says that the collective held comes before the one lacked, the second the reverse.
bool EventEngine::MayClash(const Perturbations& drawn) {
  with_sync_.clear();
  for (const Mark& mark : drawn.syncs) {
    if (with_sync_.empty() || with_sync_.back() != mark.gpu) {
      with_sync_.push_back(mark.gpu);
    }
  }
  if (with_sync_.size() < 2) {
    return false;
  }
  if (with_sync_.size() > kFewSyncs || neighbours_.empty() || !c_.common_order) {
    return true;
  }
  const auto skips = [&](uint32_t gpu) {
    return std::any_of(drawn.skips.begin(), drawn.skips.end(),
                       [gpu](const Mark& mark) { return mark.gpu == gpu; });
  };
  for (const uint32_t n : with_sync_) {
    uint32_t near = 0;
    uint32_t neighbour = 0;
    for (const uint32_t h : with_sync_) {
      if ((neighbours_[static_cast<size_t>(n) * row_ + h / 64] >> (h % 64) & 1) != 0) {
        ++near;
        neighbour = h;
      }
    }
    if (near >= 2 || (near == 1 && (skips(n) || skips(neighbour)))) {
      return true;
    }
  }
  return false;
}

// Whether some GPU lacks what u, which is not regular, has emitted.
bool EventEngine::IsHeldUp(uint32_t u) const {
  const Profile& pu = *c_.profile[u];
  const GpuProgress& mine = at_[u];
  for (uint32_t slot = 0; slot < pu.slots; ++slot) {
    const uint32_t last = LastEmitted(pu, slot, mine.front, mine.pending);
    if (last == kNothing) {
      continue;
    }
    const uint32_t group = c_.Group(u, slot);
    for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
      const uint32_t h = m->gpu;
      if (h == u) {
        continue;
      }
      const Profile& ph = *c_.profile[h];
      if (mode_[h] == Mode::kRegular) {
        // In which sweep it emits the same; in this one those ahead of the acting GPU have.
        const int64_t turn = base_[h] + ph.Position(m->slot, last);
        if (turn > sweep_ || (turn == sweep_ && h > acting_)) {
          return true;
        }
      } else if (HoldsAgainst(pu, slot, last, mine, ph, m->slot, at_[h])) {
        return true;
      }
    }
  }
  return false;
}

// Keys are of turns: a GPU has one in each sweep.
void EventEngine::Schedule(uint32_t u, uint64_t key) { keys_.Set(u, key); }

void EventEngine::ScheduleRunning(uint32_t u, const Perturbations& drawn) {
  if (mode_[u] == Mode::kOutOfOrder) {
    return Schedule(u, (static_cast<uint64_t>(sweep_ + 1) << shift_) | u);
  }
  uint32_t at = UINT32_MAX;
  if (next_sync_[u] != drawn.sync_begin[u + 1]) {
    at = drawn.syncs[next_sync_[u]].at;
  }
  if (next_skip_[u] != drawn.skip_begin[u + 1]) {
    at = std::min(at, drawn.skips[next_skip_[u]].at);
  }
  Schedule(u, at == UINT32_MAX
                  ? KeyTree::kNever
                  : (static_cast<uint64_t>(base_[u] + at) << shift_) | u);
}

// The turn of u in which its wait is over if nobody is held up any more than now; never, when that is
// another's to say: its turn then asks again. Others may be held up, so it is not later than this... and
// a skip, which may emit something sooner, asks again as well.
uint64_t EventEngine::PredictRelease(uint32_t u) const {
  const Profile& pu = *c_.profile[u];
  const GpuProgress& mine = at_[u];
  uint64_t key = (static_cast<uint64_t>(acting_ < u ? sweep_ : sweep_ + 1) << shift_) | u;
  for (uint32_t slot = 0; slot < pu.slots; ++slot) {
    const uint32_t last = LastEmitted(pu, slot, mine.front, mine.pending);
    if (last == kNothing) {
      continue;
    }
    const uint32_t group = c_.Group(u, slot);
    for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
      const uint32_t h = m->gpu;
      if (h == u) {
        continue;
      }
      const Profile& ph = *c_.profile[h];
      if (mode_[h] != Mode::kRegular) {
        if (HoldsAgainst(pu, slot, last, mine, ph, m->slot, at_[h])) {
          return KeyTree::kNever;
        }
        continue;
      }
      const int64_t turn = base_[h] + ph.Position(m->slot, last);
      const int64_t mine_then = h < u ? turn : turn + 1;
      if (mine_then > static_cast<int64_t>(key >> shift_)) {
        key = (static_cast<uint64_t>(mine_then) << shift_) | u;
      }
    }
  }
  return key;
}

void EventEngine::PredictNeighbours(uint32_t u) {
  if (waiters_.empty()) {
    return;
  }
  for (uint32_t slot = c_.slot_begin[u]; slot < c_.slot_begin[u + 1]; ++slot) {
    const uint32_t group = c_.slot_group[slot];
    for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
      if (m->gpu != u && mode_[m->gpu] == Mode::kWaiting) {
        Schedule(m->gpu, PredictRelease(m->gpu));
      }
    }
  }
}

// u waits from now on. True: the detector calls it a deadlock.
bool EventEngine::BeginsToWait(uint32_t u) {
  mode_[u] = Mode::kWaiting;
  Clash clash;
  const Profile& pu = *c_.profile[u];
  if (!waiters_.empty()) {
    for (uint32_t slot = 0; slot < pu.slots && !(clash.holds && clash.lacks); ++slot) {
      const uint32_t group = c_.Group(u, slot);
      const uint32_t last = LastEmitted(pu, slot, at_[u].front, at_[u].pending);
      for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
        const uint32_t h = m->gpu;
        if (h == u || mode_[h] != Mode::kWaiting) {
          continue;
        }
        const Profile& ph = *c_.profile[h];
        const bool holds = !clash.holds && last != kNothing &&
                           HoldsAgainst(pu, slot, last, at_[u], ph, m->slot, at_[h]);
        const uint32_t last_h = LastEmitted(ph, m->slot, at_[h].front, at_[h].pending);
        const bool lacks = !clash.lacks && last_h != kNothing &&
                           HoldsAgainst(ph, m->slot, last_h, at_[h], pu, slot, at_[u]);
        // What h holds and u lacks keeps h waiting; else it may have nothing left to wait for, and
        // only not had its turn since.
        if (lacks || (holds && IsHeldUp(h))) {
          clash.holds |= holds;
          clash.lacks |= lacks;
        }
      }
    }
  }
  waiters_.push_back(u);
  return clash.holds && clash.lacks;
}

// One turn of u. True: a deadlock was called.
bool EventEngine::Turn(uint32_t u, const Perturbations& drawn) {
  bool moved_oddly = false;
  if (mode_[u] == Mode::kWaiting) {
    if (IsHeldUp(u)) {
      Schedule(u, PredictRelease(u));
      return false;
    }
    std::erase(waiters_, u);
    mode_[u] = at_[u].pending.empty() ? Mode::kRegular : Mode::kOutOfOrder;
    base_[u] = static_cast<int64_t>(sweep_) - at_[u].Emitted();
    moved_oddly = true;
  }
  GpuProgress& mine = at_[u];
  if (mode_[u] == Mode::kRegular) {
    mine.front = static_cast<uint32_t>(sweep_ - base_[u]);
  }
  const uint32_t n = mine.Emitted();
  if (next_sync_[u] != drawn.sync_begin[u + 1] && drawn.syncs[next_sync_[u]].at == n) {
    if (++taken_[u] == drawn.syncs[next_sync_[u]].times) {
      ++next_sync_[u];
      taken_[u] = 0;
    }
    const Mode before = mode_[u];
    mode_[u] = Mode::kWaiting;  // so that nobody takes it for moving on
    const bool holds = IsHeldUp(u);
    mode_[u] = before;
    if (holds) {
      if (BeginsToWait(u)) {
        return true;
      }
      Schedule(u, PredictRelease(u));
    } else {
      ++base_[u];
      ScheduleRunning(u, drawn);
    }
    if (moved_oddly && !holds) {
      PredictNeighbours(u);
    }
    return false;
  }
  uint32_t skip = 0;
  if (next_skip_[u] != drawn.skip_begin[u + 1] && drawn.skips[next_skip_[u]].at == n) {
    skip = drawn.skips[next_skip_[u]++].times;
  }
  moved_oddly |= skip > 0 || mode_[u] == Mode::kOutOfOrder;
  mine.Emit(skip);
  mode_[u] = mine.pending.empty() ? Mode::kRegular : Mode::kOutOfOrder;
  ScheduleRunning(u, drawn);
  if (moved_oddly) {
    // The emission of this turn counts: for a regular GPU the clock says so only to those behind it.
    PredictNeighbours(u);
  }
  return false;
}

bool EventEngine::Run(const Perturbations& drawn) {
  keys_.Reset(c_.gpus);
  std::fill(mode_.begin(), mode_.end(), Mode::kRegular);
  std::fill(base_.begin(), base_.end(), 0);
  waiters_.clear();
  next_sync_.assign(drawn.sync_begin.begin(), drawn.sync_begin.begin() + c_.gpus);
  next_skip_.assign(drawn.skip_begin.begin(), drawn.skip_begin.begin() + c_.gpus);
  taken_.assign(c_.gpus, 0);
  sweep_ = 0;
  acting_ = 0;
  for (uint32_t u = 0; u < c_.gpus; ++u) {
    at_[u].pending.clear();
    if (drawn.sync_begin[u] != drawn.sync_begin[u + 1] ||
        drawn.skip_begin[u] != drawn.skip_begin[u + 1]) {
      ScheduleRunning(u, drawn);
    }
  }
  const uint64_t gpu_bits = (uint64_t{1} << shift_) - 1;
  for (uint64_t key = keys_.Least(); key != KeyTree::kNever; key = keys_.Least()) {
    sweep_ = static_cast<uint32_t>(key >> shift_);
    acting_ = static_cast<uint32_t>(key & gpu_bits);
    if (Turn(acting_, drawn)) {
      return true;
    }
  }
  return false;
}

}  // namespace gordian::simulator
