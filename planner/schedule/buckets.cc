#include "planner/schedule/buckets.h"

#include <algorithm>
#include <cmath>

namespace gordian::planner {
namespace {

// Piece `at` of `pieces` nearly equal shares of `all`; the first pieces take the remainder.
int64_t Share(int64_t all, int64_t pieces, int64_t at) {
  return all / pieces + (at < all % pieces ? 1 : 0);
}

}  // namespace

Totals Sum(const std::vector<Bucket>& buckets) {
  Totals totals;
  for (const Bucket& bucket : buckets) {
    totals.forward += bucket.forward;
    totals.backward += bucket.backward;
    totals.comm += bucket.comm;
  }
  return totals;
}

std::vector<Micros> ReadyTimes(const std::vector<Bucket>& buckets) {
  std::vector<Micros> ready(buckets.size());
  Micros sum = 0;
  for (size_t i = buckets.size(); i-- > 0;) {
    sum += buckets[i].backward;
    ready[i] = sum;
  }
  return ready;
}

Micros PieceTime(Micros comm, int64_t pieces, int64_t at, Micros startup) {
  const Micros fixed = std::min(comm, startup);
  return fixed + Share(comm - fixed, pieces, at);
}

int64_t PiecesWithin(Micros comm, Micros cap, Micros startup) {
  if (comm <= cap) return 1;
  const Micros room = cap - startup;
  return room <= 0 ? 0 : (comm - startup + room - 1) / room;
}

std::vector<Item> Partition(const std::vector<Bucket>& buckets, Micros cap, double mu,
                            int64_t most_elements, Micros startup) {
  std::vector<Item> items;
  for (size_t b = 0; b < buckets.size(); ++b) {
    const Bucket& bucket = buckets[b];
    int64_t pieces = 1;
    if (cap > 0) pieces = PiecesWithin(bucket.comm, cap, startup);
    if (pieces == 0) return {};
    if (most_elements > 0) {
      pieces = std::max(pieces, (bucket.elements + most_elements - 1) / most_elements);
    }
    if (bucket.elements > 0) pieces = std::min(pieces, bucket.elements);
    int64_t first = 0;
    for (int64_t at = 0; at < pieces; ++at) {
      Item item;
      item.bucket = static_cast<int>(b) + 1;
      item.first_element = first;
      item.elements = Share(bucket.elements, pieces, at);
      first += item.elements;
      item.time = {.forward = Share(bucket.forward, pieces, at),
                   .backward = Share(bucket.backward, pieces, at),
                   .comm = PieceTime(bucket.comm, pieces, at, startup),
                   .elements = item.elements};
      item.slow_comm = std::llround(mu * static_cast<double>(item.time.comm));
      items.push_back(item);
    }
  }
  return items;
}

std::vector<Bucket> AsBuckets(const std::vector<Item>& items) {
  std::vector<Bucket> buckets;
  for (const Item& item : items) buckets.push_back(item.time);
  return buckets;
}

Micros SmallestKnapsack(const Totals& totals, double mu) {
  return static_cast<Micros>(std::floor(static_cast<double>(totals.forward) / mu));
}

std::string CheckBuckets(const std::vector<Bucket>& buckets) {
  constexpr int64_t kMost = int64_t{1} << 53;
  if (buckets.empty()) return "there are no buckets";
  if (buckets.size() > 4096) return "there are more than 4096 buckets";
  for (size_t i = 0; i < buckets.size(); ++i) {
    const Bucket& bucket = buckets[i];
    for (const auto& [name, value] : {std::pair<const char*, int64_t>{"forward", bucket.forward},
                                      {"backward", bucket.backward},
                                      {"comm", bucket.comm},
                                      {"elements", bucket.elements}}) {
      const std::string which = "bucket " + std::to_string(i + 1) + ": " + name;
      if (value < 0) return which + " is negative";
      if (value > kMost / 4096) return which + " is too large";
    }
  }
  const Totals totals = Sum(buckets);
  if (totals.forward == 0) return "the forward pass takes no time";
  if (totals.backward == 0) return "the backward pass takes no time";
  return "";
}

}  // namespace gordian::planner
