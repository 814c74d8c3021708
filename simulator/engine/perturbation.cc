#include "simulator/engine/perturbation.h"

#include <algorithm>

namespace gordian::simulator {
namespace {

void Bounds(const std::vector<Mark>& marks, uint32_t gpus, std::vector<uint32_t>* begin) {
  begin->assign(gpus + 1, 0);
  for (const Mark& mark : marks) {
    ++(*begin)[mark.gpu + 1];
  }
  for (uint32_t u = 0; u < gpus; ++u) {
    (*begin)[u + 1] += (*begin)[u];
  }
}

}  // namespace

void Perturbations::Clear() {
  syncs.clear();
  skips.clear();
}

void Perturbations::Index(uint32_t gpus) {
  Bounds(syncs, gpus, &sync_begin);
  Bounds(skips, gpus, &skip_begin);
}

void Perturbations::Insert(std::vector<Mark>* marks, uint32_t gpu, uint32_t at) {
  const auto place = std::lower_bound(
      marks->begin(), marks->end(), Mark{gpu, at, 0},
      [](const Mark& a, const Mark& b) { return a.gpu != b.gpu ? a.gpu < b.gpu : a.at < b.at; });
  if (place != marks->end() && place->gpu == gpu && place->at == at) {
    ++place->times;
  } else {
    marks->insert(place, Mark{gpu, at, 1});
  }
}

PerturbationSource::PerturbationSource(const Component& component, double disorder_prob,
                                       double sync_prob)
    : component_(component),
      disorder_prob_(disorder_prob),
      sync_gaps_(sync_prob),
      skip_gaps_(disorder_prob) {
  while (component.total >> guide_shift_ > 8 * static_cast<uint64_t>(component.gpus)) {
    ++guide_shift_;
  }
  uint32_t gpu = 0;
  for (uint64_t place = 0; place < component.total; place += uint64_t{1} << guide_shift_) {
    while (place >= component.offset[gpu + 1]) {
      ++gpu;
    }
    guide_.push_back(gpu);
  }
}

void PerturbationSource::Walk(const Gaps& gaps, bool skips, CounterStream stream,
                              std::vector<Mark>* marks) const {
  const uint64_t* offset = component_.offset.data();
  uint32_t gpu = 0;
  uint64_t place = gaps.Next(&stream);
  while (place < component_.total) {
    gpu = std::max(gpu, guide_[place >> guide_shift_]);
    while (place >= offset[gpu + 1]) {
      ++gpu;
    }
    const auto at = static_cast<uint32_t>(place - offset[gpu]);
    Mark mark{gpu, at, 1};
    uint64_t gap = gaps.Next(&stream);
    while (gap == 0) {  // one more at the same place
      ++mark.times;
      gap = gaps.Next(&stream);
    }
    if (skips) {
      mark.times = std::min(mark.times, static_cast<uint32_t>(offset[gpu + 1] - place - 1));
    }
    if (mark.times > 0) {
      marks->push_back(mark);
    }
    place += gap;
  }
}

// With p = 1 a gap never ends.
void PerturbationSource::EverySkip(std::vector<Mark>* marks) const {
  for (uint32_t u = 0; u < component_.gpus; ++u) {
    for (uint32_t at = 0; at + 1 < component_.Length(u); ++at) {
      marks->push_back({u, at, component_.Length(u) - at - 1});
    }
  }
}

void PerturbationSource::Draw(uint64_t seed, uint64_t round, uint64_t part,
                              Perturbations* drawn) const {
  DrawSyncs(seed, round, part, drawn);
  DrawSkips(seed, round, part, drawn);
}

void PerturbationSource::DrawSyncs(uint64_t seed, uint64_t round, uint64_t part,
                                   Perturbations* drawn) const {
  drawn->syncs.clear();
  Walk(sync_gaps_, false, CounterStream(seed, round, part, Purpose::kSync), &drawn->syncs);
}

void PerturbationSource::DrawSkips(uint64_t seed, uint64_t round, uint64_t part,
                                   Perturbations* drawn) const {
  drawn->skips.clear();
  if (disorder_prob_ >= 1) {
    EverySkip(&drawn->skips);
  } else {
    Walk(skip_gaps_, true, CounterStream(seed, round, part, Purpose::kSkip), &drawn->skips);
  }
}

void PerturbationSource::DrawAround(uint64_t seed, uint64_t round, uint64_t part,
                                    Perturbations* drawn) const {
  CounterStream stream(seed, round, part, Purpose::kSync);
  for (Mark& mark : drawn->syncs) {
    mark.times = 1;
    while (sync_gaps_.Next(&stream) == 0) {
      ++mark.times;
    }
  }
  DrawSkips(seed, round, part, drawn);
}

bool WaitsWhileSkipping(const Perturbations& drawn) {
  auto sync = drawn.syncs.begin();
  const auto end = drawn.syncs.end();
  for (auto skip = drawn.skips.begin(); skip != drawn.skips.end();) {
    // From this emission on the GPU has skipped `pending` collectives, until none is left.
    const uint32_t gpu = skip->gpu;
    uint32_t at = skip->at;
    uint32_t pending = skip->times;
    ++skip;
    while (sync != end && (sync->gpu < gpu || (sync->gpu == gpu && sync->at <= at))) {
      ++sync;
    }
    while (pending > 0) {
      ++at;  // the next emission, and the waits right before it
      if (sync != end && sync->gpu == gpu && sync->at == at) {
        return true;
      }
      if (skip != drawn.skips.end() && skip->gpu == gpu && skip->at == at) {
        pending = skip->times < pending ? pending - 1 : skip->times;
        ++skip;
      } else {
        --pending;
      }
    }
  }
  return false;
}

}  // namespace gordian::simulator
