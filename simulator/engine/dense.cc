#include "simulator/engine/dense.h"

#include <numeric>

namespace gordian::simulator {
namespace {

// A source of coins says, at a GPU that has emitted n and has `remaining` left, whether its turn is
// a wait, and how many of the remaining an emission passes over.

class ReplayCoins {
 public:
  ReplayCoins(double p, double q, PythonRandom* random)
      : p_(PythonRandom::Threshold(p)), q_(PythonRandom::Threshold(q)), random_(random) {}

  bool Sync(uint32_t, uint32_t) { return random_->Next53() < q_; }
  uint32_t Skip(uint32_t, uint32_t, uint32_t remaining) {
    uint32_t k = 0;
    // Draws a coin for the last one too, as the published program does, though there is no choice.
    while (random_->Next53() < p_ && k + 1 < remaining) {
      ++k;
    }
    return k;
  }

 private:
  const uint64_t p_;
  const uint64_t q_;
  PythonRandom* random_;
};

class TapeCoins {
 public:
  TapeCoins(double p, double q, const std::vector<double>& tape, size_t* used)
      : p_(p), q_(q), tape_(tape), used_(used) {}

  bool Sync(uint32_t, uint32_t) { return Next() < q_; }
  uint32_t Skip(uint32_t, uint32_t, uint32_t remaining) {
    uint32_t k = 0;
    while (Next() < p_ && k + 1 < remaining) {
      ++k;
    }
    return k;
  }

 private:
  double Next() { return *used_ < tape_.size() ? tape_[(*used_)++] : 1.0; }
  const double p_;
  const double q_;
  const std::vector<double>& tape_;
  size_t* used_;
};

class DrawnCoins {
 public:
  DrawnCoins(const Perturbations& drawn, uint32_t gpus)
      : drawn_(drawn),
        sync_(drawn.sync_begin.begin(), drawn.sync_begin.begin() + gpus),
        skip_(drawn.skip_begin.begin(), drawn.skip_begin.begin() + gpus),
        taken_(gpus, 0) {}

  bool Sync(uint32_t u, uint32_t n) {
    const uint32_t i = sync_[u];
    if (i == drawn_.sync_begin[u + 1] || drawn_.syncs[i].at != n) {
      return false;
    }
    if (++taken_[u] == drawn_.syncs[i].times) {
      ++sync_[u];
      taken_[u] = 0;
    }
    return true;
  }
  uint32_t Skip(uint32_t u, uint32_t n, uint32_t) {
    const uint32_t i = skip_[u];
    if (i == drawn_.skip_begin[u + 1] || drawn_.skips[i].at != n) {
      return 0;
    }
    ++skip_[u];
    return drawn_.skips[i].times;
  }

 private:
  const Perturbations& drawn_;
  std::vector<uint32_t> sync_;
  std::vector<uint32_t> skip_;
  std::vector<uint32_t> taken_;
};

}  // namespace

DenseEngine::DenseEngine(const Component& component, DenseOptions options)
    : c_(component), options_(options), at_(component.gpus), waiting_(component.gpus, 0) {}

void DenseEngine::Reset() {
  for (GpuProgress& progress : at_) {
    progress.front = 0;
    progress.pending.clear();
  }
  active_.resize(c_.gpus);
  std::iota(active_.begin(), active_.end(), 0u);
  std::fill(waiting_.begin(), waiting_.end(), 0);
  waiters_.clear();
  if (options_.model == Model::kSingle) {
    group_state_.assign(c_.groups, GroupState());
    submitted_.assign(c_.slot_group.size(), 0);
    half_way_ = 0;
    lost_ = 0;
  } else if (options_.resource_limit > 0) {
    arrived_.assign(c_.collectives, 0);
    held_.assign(c_.gpus, 0);
  }
}

bool DenseEngine::FindsDeadlock(uint32_t n) {
  // Some may have nothing left to wait for, but no turn since.
  std::erase_if(waiters_, [&](uint32_t u) {
    if (waiting_[u] && FindBlocker(c_, at_, u) != kNobody) {
      return false;
    }
    waiting_[u] = 0;
    return true;
  });
  waiting_[n] = 1;
  waiters_.push_back(n);
  if (options_.detector == Detector::kRing) {
    return InCircle(c_, at_, waiting_, n);
  }
  const Clash clash = ClashOf(c_, at_, waiting_, n);
  return clash.holds && clash.lacks;
}

bool DenseEngine::OverLimit(uint32_t u, uint32_t position) {
  const uint32_t collective = c_.Collective(u, position);
  const uint32_t group = c_.Group(u, c_.profile[u]->slot_at[position]);
  ++held_[u];
  if (++arrived_[collective] == c_.GroupSize(group)) {
    for (const Member* m = c_.MembersBegin(group); m != c_.MembersEnd(group); ++m) {
      --held_[m->gpu];
    }
  }
  for (uint32_t slot = c_.slot_begin[u]; slot < c_.slot_begin[u + 1]; ++slot) {
    const uint32_t g = c_.slot_group[slot];
    if (std::all_of(c_.MembersBegin(g), c_.MembersEnd(g),
                    [&](const Member& m) { return held_[m.gpu] >= options_.resource_limit; })) {
      return true;
    }
  }
  return false;
}

void DenseEngine::DropFinished() {
  std::erase_if(active_, [&](uint32_t u) { return at_[u].Emitted() == c_.Length(u); });
}

template <class Coins>
RoundResult DenseEngine::RunSync(Coins coins) {
  RoundResult result;
  const bool limited = options_.resource_limit > 0;
  while (!active_.empty()) {
    bool finished = false;
    for (const uint32_t u : active_) {
      if (waiting_[u]) {
        if (FindBlocker(c_, at_, u) != kNobody) {
          continue;
        }
        waiting_[u] = 0;
      }
      const uint32_t n = at_[u].Emitted();
      if (coins.Sync(u, n)) {
        if (FindBlocker(c_, at_, u) != kNobody && FindsDeadlock(u)) {
          result.deadlock = true;
          result.gpu = u;
          return result;
        }
        continue;
      }
      const uint32_t left = c_.Length(u) - n;
      const uint32_t position = at_[u].Emit(coins.Skip(u, n, left));
      if (limited && OverLimit(u, position)) {
        result.deadlock = result.by_resource = true;
        result.gpu = u;
        return result;
      }
      finished |= left == 1;
    }
    if (finished) {
      DropFinished();
    }
    ++result.sweep;
  }
  return result;
}

bool DenseEngine::Submit(uint32_t u, uint32_t position) {
  const Profile& profile = *c_.profile[u];
  const uint32_t slot = profile.slot_at[position];
  const uint32_t group = c_.Group(u, slot);
  GroupState& state = group_state_[group];
  uint32_t& submitted = submitted_[c_.slot_begin[u] + slot];
  if (submitted == state.cleared + 1) {
    ++lost_;  // like the published program, forgets it: the group holds an earlier one
    return false;
  }
  const uint32_t k = profile.Number(position);
  if (state.in == 0) {
    state.current = k;
    ++half_way_;
  } else if (state.current != k) {
    return true;
  }
  submitted = state.cleared + 1;
  if (++state.in == c_.GroupSize(group)) {
    state.in = 0;
    ++state.cleared;
    --half_way_;
  }
  return false;
}

template <class Coins>
RoundResult DenseEngine::RunSingle(Coins coins) {
  RoundResult result;
  while (!active_.empty()) {
    bool finished = false;
    for (const uint32_t u : active_) {
      const uint32_t n = at_[u].Emitted();
      const uint32_t left = c_.Length(u) - n;
      if (Submit(u, at_[u].Emit(coins.Skip(u, n, left)))) {
        result.deadlock = true;
        result.gpu = u;
        return result;
      }
      finished |= left == 1;
    }
    if (finished) {
      DropFinished();
    }
    ++result.sweep;
  }
  return result;
}

RoundResult DenseEngine::Replay(double p, double q, PythonRandom* random) {
  Reset();
  const ReplayCoins coins(p, q, random);
  return options_.model == Model::kSingle ? RunSingle(coins) : RunSync(coins);
}

RoundResult DenseEngine::RunTape(double p, double q, const std::vector<double>& tape,
                                 size_t* used) {
  Reset();
  size_t read = 0;
  const TapeCoins coins(p, q, tape, &read);
  const RoundResult result = options_.model == Model::kSingle ? RunSingle(coins) : RunSync(coins);
  if (used != nullptr) {
    *used = read;
  }
  return result;
}

RoundResult DenseEngine::Run(const Perturbations& drawn) {
  Reset();
  const DrawnCoins coins(drawn, c_.gpus);
  return options_.model == Model::kSingle ? RunSingle(coins) : RunSync(coins);
}

bool DenseEngine::IsLevel() {
  Reset();
  while (!active_.empty()) {
    for (const uint32_t u : active_) {
      if (Submit(u, at_[u].Emit(0)) || lost_ > 0) {
        return false;
      }
    }
    if (half_way_ > 0) {
      return false;
    }
    DropFinished();
  }
  return true;
}

}  // namespace gordian::simulator
