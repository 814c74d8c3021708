// Tells windows that differ in nothing that predictions depend on: those of a loop whose steps are
// alike.
//
// Two windows with one key have, rank by rank, the same calls of the same kinds, that began and
// returned in the same order, and were made while the same was known of their threads. Times and
// numbers of records may differ.
//
// A key has 128 bits of two hashes, so that two of a billion different windows have one key with a
// probability of about 10^-21. Not for adversarial input. Pure.
#ifndef GORDIAN_REPLAYER_PREDICT_WINDOW_KEY_H_
#define GORDIAN_REPLAYER_PREDICT_WINDOW_KEY_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "replayer/predict/windows.h"

namespace gordian::replayer {

using WindowKey = std::pair<uint64_t, uint64_t>;

// Moments of a process, ascending: what is known of its threads differs before and after each.
using LifeMoments = std::map<model::ProcessId, std::vector<uint64_t>>;

// The window at hand. `connected`: differs where communicators are connected otherwise.
WindowKey KeyOf(const Windows& windows, const LifeMoments& moments, uint64_t connected);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_WINDOW_KEY_H_
