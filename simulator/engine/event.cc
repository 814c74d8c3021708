#include "simulator/engine/event.h"

#include <bit>

namespace gordian::simulator {
namespace {

constexpr uint32_t kMostRows = 4096;  // rows of the neighbour table
constexpr size_t kFewSyncs = 24;      // GPUs; looking at pairs of more costs too much

}  // namespace

KeyTree::KeyTree(uint32_t keys)
    : leaves_(std::bit_ceil(std::max(keys, 2u))), key_(2 * static_cast<size_t>(leaves_), kNever) {}

EventEngine::EventEngine(const Component& component)
    : c_(component),
      shift_(static_cast<uint32_t>(std::bit_width(component.gpus))),
      keys_(component.gpus),
      pace_(component.gpus),
      course_(component.gpus),
      at_(component.gpus) {
  for (const Member& m : c_.members) {
    const Profile& profile = *c_.profile[m.gpu];
    peers_.push_back({profile.position.data() + profile.first[m.slot], m.gpu, m.slot});
  }
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

// A deadlock needs a waiting GPU that holds a collective that one waiting neighbour lacks, and
// lacks one that a waiting neighbour holds. So it needs waits of two neighbours; if both are the
// same GPU, one of the two was out of order: in order, the first wait puts the held collective
// before the lacking one, the second the reverse.
EventEngine::Chance EventEngine::ChanceOf(const Perturbations& drawn) {
  with_sync_.clear();
  for (const Mark& mark : drawn.syncs) {
    if (with_sync_.empty() || with_sync_.back() != mark.gpu) {
      with_sync_.push_back(mark.gpu);
    }
  }
  if (with_sync_.size() < 2) {
    return Chance::kNone;
  }
  if (with_sync_.size() > kFewSyncs || neighbours_.empty() || !c_.common_order) {
    return Chance::kMaybe;
  }
  Chance chance = Chance::kNone;
  for (const uint32_t n : with_sync_) {
    const uint64_t* row = neighbours_.data() + static_cast<size_t>(n) * row_;
    uint64_t near = 0;
    for (const uint32_t h : with_sync_) {
      near += row[h / 64] >> (h % 64) & 1;
    }
    if (near >= 2) {
      return Chance::kMaybe;
    }
    if (near == 1) {
      chance = Chance::kOutOfOrder;
    }
  }
  return chance;
}

// As of now: the GPUs up to the acting one have had their turn in this sweep. (The acting one asks
// in the middle of its turn, but knows its count.)
uint32_t EventEngine::Emitted(uint32_t u) const {
  if (Waits(u)) {
    return pace_[u].waits_at;
  }
  const int64_t n = sweep_ - pace_[u].base + (u <= acting_ ? 1 : 0);
  return static_cast<uint32_t>(std::min<int64_t>(n, c_.Length(u)));
}

// Advances at_[u] to n emissions; n is at least its current count.
void EventEngine::CatchUp(uint32_t u, uint32_t n) {
  GpuProgress& at = at_[u];
  Course& course = course_[u];
  const Mark* skips = drawn_->skips.data();
  while (true) {
    if (at.pending.empty()) {
      uint32_t next = course.next_skip;
      while (next != course.skip_end && skips[next].at < n) {
        const uint32_t over = skips[next].at + skips[next].times + 1;  // so nothing is skipped
        if (over > n || (next + 1 != course.skip_end && skips[next + 1].at < over)) {
          break;
        }
        ++next;
      }
      course.next_skip = next;
      if (next == course.skip_end || skips[next].at >= n) {
        at.front = n;
        pace_[u].in_order_to = next == course.skip_end ? kAlways : skips[next].at;
        return;
      }
      at.front = skips[next].at;
    }
    const uint32_t emitted = at.Emitted();
    if (emitted == n && !at.pending.empty()) {
      pace_[u].in_order_to = 0;
      return;
    }
    const bool skips_now =
        course.next_skip != course.skip_end && skips[course.next_skip].at == emitted;
    at.Emit(skips_now ? skips[course.next_skip++].times : 0);
  }
}

// As of now.
const GpuProgress& EventEngine::Where(uint32_t u) {
  if (!Waits(u)) {
    CatchUp(u, Emitted(u));
  }
  return at_[u];
}

// The last collective of the slot among u's first n emissions (at_[u] knows those out of order);
// kNothing if there is none.
inline uint32_t EventEngine::LastOf(uint32_t u, uint32_t n, uint32_t slot) const {
  const Pending& pending = at_[u].pending;
  return LastEmitted(*c_.profile[u], slot, n + static_cast<uint32_t>(pending.size()), pending);
}

// True if some GPU lacks a collective that u, which waits, has emitted.
bool EventEngine::IsHeldUp(uint32_t u) {
  const Profile& pu = *c_.profile[u];
  for (uint32_t slot = 0; slot < pu.slots; ++slot) {
    const uint32_t last = LastOf(u, pace_[u].waits_at, slot);
    if (last == kNothing) {
      continue;
    }
    const uint32_t group = c_.Group(u, slot);
    for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
      if (m->gpu != u &&
          HoldsAgainst(pu, slot, last, at_[u], *c_.profile[m->gpu], m->slot, Where(m->gpu))) {
        return true;
      }
    }
  }
  return false;
}

// The earliest sweep after whose turn of u no GPU lacks what u, which has emitted n, holds, if no
// other GPU begins to wait: the true one may be later, never sooner. u is held up if that is after
// this sweep. kNoTurn: a waiting GPU must move first.
int64_t EventEngine::FreeFrom(uint32_t u, uint32_t n) {
  Pace& own = pace_[u];
  if (!Waits(u) && n > own.in_order_to) {
    CatchUp(u, n);
  }
  GpuProgress& mine = at_[u];
  const bool in_order = mine.pending.empty();
  mine.front = n + static_cast<uint32_t>(mine.pending.size());
  const Profile& pu = *c_.profile[u];
  const uint32_t* before = pu.before.data() + static_cast<size_t>(mine.front) * pu.slots;
  const uint32_t* groups = c_.slot_group.data() + c_.slot_begin[u];
  // u is a member too, and never holds itself up. After a skip its list does not show when it
  // emitted what it holds, so give it the pace of one that is done with any list.
  const Pace kept = own;
  own.base = static_cast<int64_t>(sweep_) - (kAlways - 1);
  own.in_order_to = kAlways;
  const Peer* peers = peers_.data();
  const Pace* paces = pace_.data();
  const uint32_t* member_begin = c_.member_begin.data();
  const int64_t sweep = sweep_;
  const uint32_t acting = acting_;
  int64_t from = INT64_MIN;
  for (uint32_t slot = 0; slot < pu.slots; ++slot) {
    const uint32_t last =
        in_order ? before[slot] - 1 : LastEmitted(pu, slot, mine.front, mine.pending);
    if (last == kNothing) {
      continue;
    }
    const Peer* end = peers + member_begin[groups[slot] + 1];
    for (const Peer* peer = peers + member_begin[groups[slot]]; peer != end; ++peer) {
      const uint32_t h = peer->gpu;
      const Pace& pace = paces[h];
      if (sweep - pace.base + (h <= acting ? 1 : 0) > pace.in_order_to) [[unlikely]] {
        const GpuProgress& other = Where(h);
        if (pace.in_order_to == 0) {
          if (HoldsAgainst(pu, slot, last, mine, *c_.profile[h], peer->slot, other)) {
            if (Waits(h)) {
              own = kept;
              return kNoTurn;
            }
            // A skipped collective comes soon: asks when.
            from = std::max(from, sweep + (h <= acting ? 1 : 0) + (h > u ? 1 : 0));
          }
          continue;
        }
      }
      // From in_order_to on it may come before its place in the list.
      const uint32_t soonest = std::min(peer->positions[last], pace.in_order_to);
      from = std::max(from, pace.base + soonest + (h > u ? 1 : 0));
    }
  }
  own = kept;
  return from;
}

// A key is a turn; a GPU has one in each sweep.
void EventEngine::ScheduleWait(uint32_t u) {
  const Course& course = course_[u];
  if (course.next_sync == course.sync_end) {
    return keys_.Set(u, KeyTree::kNever);
  }
  const int64_t sweep = pace_[u].base + drawn_->syncs[course.next_sync].at;
  keys_.Set(u, (static_cast<uint64_t>(sweep) << shift_) | u);
}

void EventEngine::ScheduleRelease(uint32_t u, int64_t sweep) {
  const int64_t next = static_cast<int64_t>(sweep_) + (acting_ < u ? 0 : 1);
  keys_.Set(u, sweep == kNoTurn ? KeyTree::kNever
                                : (static_cast<uint64_t>(std::max(sweep, next)) << shift_) | u);
}

// u runs again: asks the GPUs that may have waited for it.
void EventEngine::AskNeighbours(uint32_t u) {
  if (waiters_.empty()) {
    return;
  }
  for (uint32_t slot = c_.slot_begin[u]; slot < c_.slot_begin[u + 1]; ++slot) {
    const uint32_t group = c_.slot_group[slot];
    for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
      if (m->gpu != u && Waits(m->gpu)) {
        ScheduleRelease(m->gpu, FreeFrom(m->gpu, pace_[m->gpu].waits_at));
      }
    }
  }
}

// u, which has emitted n, begins to wait. Returns true if the detector reports a deadlock.
bool EventEngine::BeginsToWait(uint32_t u, uint32_t n) {
  CatchUp(u, n);
  pace_[u].waits_at = n;
  pace_[u].in_order_to = 0;
  Clash clash;
  const Profile& pu = *c_.profile[u];
  if (!waiters_.empty()) {
    for (uint32_t slot = 0; slot < pu.slots && !(clash.holds && clash.lacks); ++slot) {
      const uint32_t group = c_.Group(u, slot);
      const uint32_t last = LastOf(u, n, slot);
      for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
        const uint32_t h = m->gpu;
        if (h == u || !Waits(h)) {
          continue;
        }
        const Profile& ph = *c_.profile[h];
        const bool holds = !clash.holds && last != kNothing &&
                           HoldsAgainst(pu, slot, last, at_[u], ph, m->slot, at_[h]);
        const uint32_t last_h = LastOf(h, pace_[h].waits_at, m->slot);
        const bool lacks = !clash.lacks && last_h != kNothing &&
                           HoldsAgainst(ph, m->slot, last_h, at_[h], pu, slot, at_[u]);
        // A collective that h holds and u lacks keeps h waiting; otherwise h may have nothing left
        // to wait for, but no turn since.
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

// Runs one turn of u. Returns true if the detector reports a deadlock.
bool EventEngine::Turn(uint32_t u) {
  Pace& pace = pace_[u];
  const bool waited = Waits(u);
  if (waited) {
    const int64_t from = FreeFrom(u, pace.waits_at);
    if (from > sweep_) {
      ScheduleRelease(u, from);
      return false;
    }
    std::erase(waiters_, u);
    pace.base = static_cast<int64_t>(sweep_) - pace.waits_at;
    CatchUp(u, pace.waits_at);
    pace.waits_at = kRuns;
  }
  const auto n = static_cast<uint32_t>(sweep_ - pace.base);
  Course& course = course_[u];
  if (course.next_sync != course.sync_end && drawn_->syncs[course.next_sync].at == n) {
    if (++course.taken == drawn_->syncs[course.next_sync].times) {
      ++course.next_sync;
      course.taken = 0;
    }
    const int64_t from = FreeFrom(u, n);
    if (from > sweep_) {
      if (BeginsToWait(u, n)) {
        return true;
      }
      ScheduleRelease(u, from);
      return false;
    }
    ++pace.base;
  }
  ScheduleWait(u);
  if (waited) {
    AskNeighbours(u);
  }
  return false;
}

// Resets all GPUs to a state without waits and skips, then marks those that have some.
void EventEngine::Begin() {
  for (const uint32_t u : touched_) {
    pace_[u] = Pace();
    course_[u] = Course();
    at_[u].pending.clear();
    keys_.Set(u, KeyTree::kNever);
  }
  touched_.clear();
  waiters_.clear();
  sweep_ = 0;
  acting_ = 0;
  uint32_t i = 0;
  for (const Mark& mark : drawn_->skips) {
    Course& course = course_[mark.gpu];
    if (course.skip_end == 0) {
      course.next_skip = i;
      pace_[mark.gpu].in_order_to = mark.at;
      touched_.push_back(mark.gpu);
    }
    course.skip_end = ++i;
  }
  i = 0;
  for (const Mark& mark : drawn_->syncs) {
    Course& course = course_[mark.gpu];
    if (course.sync_end == 0) {
      course.next_sync = i;
      course.sync_end = i + 1;  // so that there is one to schedule
      touched_.push_back(mark.gpu);
      ScheduleWait(mark.gpu);
    }
    course.sync_end = ++i;
  }
}

bool EventEngine::Run(const Perturbations& drawn) {
  drawn_ = &drawn;
  Begin();
  const uint64_t gpu_bits = (uint64_t{1} << shift_) - 1;
  for (uint64_t key = keys_.Least(); key != KeyTree::kNever; key = keys_.Least()) {
    sweep_ = static_cast<uint32_t>(key >> shift_);
    acting_ = static_cast<uint32_t>(key & gpu_bits);
    if (Turn(acting_)) {
      return true;
    }
  }
  return false;
}

}  // namespace gordian::simulator
