// The calls of a recorded job as a schedule whose threads are free, but for the orders that the
// record shows to be fixed.
//
// Fixed are, between threads of a rank:
//   - the uses of one event, of which one is its recording: a thread can wait for another thread's
//     event only after it got that
//   - what was called before a thread was first seen, and what was called after it was last seen
//     (forks and joins)
// gordian does not see locks, condition variables, flags, and loops that query an event. It sees in
// rounds that a thread waits for another one, not for which.
#ifndef GORDIAN_REPLAYER_PREDICT_RECORDED_ORDERS_H_
#define GORDIAN_REPLAYER_PREDICT_RECORDED_ORDERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/status.h"
#include "replayer/record/extract.h"
#include "replayer/record/schedule.h"

namespace gordian::replayer {

struct OrdersOptions {
  bool threads_ordered = false;  // all calls of a rank keep their recorded order
  bool buckets_ordered = false;  // so do calls that the job says come in any order (readiness.h)
  size_t window = 2000;          // so many calls at once, of all ranks; windows keep their order
  // The same where threads have one order, and the job names calls that come in any.
  size_t ready_window = 100'000;
  size_t max_calls = 100'000;  // in all; more are not judged
  // Asked of a window that equals an earlier one in all that results depend on: whether it can be
  // given as that one's number, without its calls. If set, and the calls of all threads have one
  // order, the one window holds only the first of the calls of each kind. Empty: every window has
  // its calls.
  std::function<bool(size_t earlier)> knows;
};

// Two threads of a rank that made these calls in turns, each time in the same order.
struct Turn {
  size_t rank = 0;         // in the schedule
  std::string one, other;  // call sites

  friend auto operator<=>(const Turn&, const Turn&) = default;
};

// Two threads of a rank that used one communicator by turns.
struct Sharing {
  size_t rank = 0;
  size_t one = 0, other = 0;  // threads; one < other

  friend auto operator<=>(const Sharing&, const Sharing&) = default;
};

struct RecordedOrders {
  std::optional<size_t> as;  // equals that window, counted from 0: has its number of calls alone
  Schedule schedule;
  std::vector<std::vector<OpId>> recorded;  // each rank's calls in the recorded order
  // When each call began and returned in its process, as numbers of records; 0: it has not returned.
  std::unordered_map<OpId, std::pair<uint64_t, uint64_t>> moments;
  // Calls before which their threads were seen to wait for others, or were not seen at all while
  // they did not.
  std::set<OpId> held, unseen;
  std::set<Turn> turns;
  std::set<Sharing> sharing;
  bool free = true;  // some process makes calls by several threads, in this window or another
  std::vector<std::string> ready_sites;  // lines whose calls come in any order, says the job
  std::set<size_t> polling;              // ranks with a thread that was seen to poll
  size_t before = 0, calls = 0;          // calls left out before the first window; taken
  std::vector<std::string> not_judged;   // one line each
};

// Returns whether it wants more.
using OrdersSink = std::function<bool(RecordedOrders&&)>;

// Gives `sink` one window after the other. Errors: as of Extract.
Status ReadOrders(const std::string& path, const ExtractOptions& extract,
                  const OrdersOptions& options, const OrdersSink& sink);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_PREDICT_RECORDED_ORDERS_H_
