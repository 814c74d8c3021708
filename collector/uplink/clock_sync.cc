#include "collector/uplink/clock_sync.h"

#include <algorithm>

namespace gordian::collector {
namespace {

// A bound below this is good enough: sending better ones would only fill the trace.
constexpr uint64_t kGoodEnoughNs = 500'000;

int64_t Difference(uint64_t a, uint64_t b) { return static_cast<int64_t>(a - b); }

}  // namespace

bool ClockSync::Add(const Exchange& exchange) {
  if (exchange.read_ns < exchange.sent_ns || exchange.answered_ns < exchange.received_ns) {
    return false;
  }
  const uint64_t total = exchange.read_ns - exchange.sent_ns;
  const uint64_t inside = exchange.answered_ns - exchange.received_ns;
  if (inside > total) {
    return false;  // a clock was set meanwhile
  }
  const int64_t low = Difference(exchange.answered_ns, exchange.read_ns);
  const int64_t on_the_way = static_cast<int64_t>(total - inside);
  Reading reading;
  reading.offset_ns = low + on_the_way / 2;
  reading.bound_ns = static_cast<uint64_t>(on_the_way - on_the_way / 2);
  reading.at_ns = exchange.read_ns;
  readings_.push_back(reading);
  if (readings_.size() > kWindow) {
    readings_.pop_front();
  }
  return true;
}

uint64_t ClockSync::Aged(const Reading& reading, uint64_t now_ns) {
  const uint64_t age = now_ns > reading.at_ns ? now_ns - reading.at_ns : 0;
  return reading.bound_ns + age / 1'000'000 * kDriftPpm + age % 1'000'000 * kDriftPpm / 1'000'000;
}

std::optional<ClockSync::Reading> ClockSync::Best(uint64_t now_ns) const {
  std::optional<Reading> best;
  for (const Reading& reading : readings_) {
    const uint64_t bound = Aged(reading, now_ns);
    if (!best || bound <= best->bound_ns) {
      best = reading;
      best->bound_ns = bound;
    }
  }
  return best;
}

bool ClockSync::WorthTelling(const Reading& sent, const Reading& fresh) {
  const uint64_t now = std::max(sent.at_ns, fresh.at_ns);
  const uint64_t old_bound = Aged(sent, now);
  const int64_t moved = fresh.offset_ns - sent.offset_ns;
  const uint64_t distance = static_cast<uint64_t>(moved < 0 ? -moved : moved);
  return distance > old_bound + fresh.bound_ns ||
         (old_bound > kGoodEnoughNs && fresh.bound_ns <= old_bound / 2);
}

}  // namespace gordian::collector
