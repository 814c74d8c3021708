// Which of a group's operations go on at once. All of a group may, as far as those who called them can tell; but a kernel is for
// one operation, and kernels of a stream come one after the other, the later ones with the help of those before.
#include <algorithm>

#include "runtime/cuda/carrier.h"
#include "runtime/cuda/domain.h"

namespace gordian::runtime::cuda {
namespace {

uint32_t Round(const Work& w) { return RoundOf(w.order_key, w.rank, w.ranks); }

}  // namespace

bool Domain::GoTogether(const Queued& op, const Queued& next) const {
  return op.list != nullptr && next.list == op.list && next.stream == op.stream && op.help.listed != 0 &&
         next.help.listed != 0 && next.work.order_key != op.work.order_key && next.order == op.order && !next.amid && CanLaunchTwo(op.work, next.work) &&
         PlacesForTwo(op.work, next.work) <= most_blocks_ && !Disturbs(next.touched, op.touched);
}

void Domain::Publish(std::vector<Queued>* operations) {
  for (size_t i = 0; i < operations->size(); ++i) {
    Queued& op = (*operations)[i];
    op.help = Alone();
    if (op.list == nullptr) continue;
    const auto same = [&](const Queued& other) { return other.stream == op.stream; };
    const auto end = operations->begin() + static_cast<std::ptrdiff_t>(i);
    auto before = HelpStream::Before::kGroup;
    if (op.amid) {
      before = HelpStream::Before::kMore;
    } else if (std::none_of(operations->begin(), end, same)) {
      bool more = !op.exclusive;
      std::vector<Touched> group;
      for (auto it = end; it != operations->end(); ++it) {
        if (!same(*it)) continue;
        more = more || it->waits.any() || (it->moved && !it->amid);
        group.push_back(it->touched);
      }
      more = more || (group.size() > 1 && op.list->HoldsUp(group, op.stream));
      before = more ? HelpStream::Before::kMore : HelpStream::Before::kOperations;
    }
    if (op.list->Publish(op.work, op.touched, before, op.stream, &op.help)) {
      Last& last = last_[op.work.order_key];
      last.list = op.list;
      last.id = op.help.id;
    }
  }
}

// Two ranks that exchange data with several others find each other only if both come to it at the same time: in the order of the
// others' numbers, which is how programs write it, rank 0 is at rank 1 when rank 2 is at rank 0.
void Domain::InRounds(std::vector<Queued>* operations) {
  for (auto begin = operations->begin(); begin != operations->end();) {
    const auto end = std::find_if(begin, operations->end(), [&](const Queued& op) {
      return !IsPointToPoint(op.work.kind) || op.stream != begin->stream ||
             op.work.order_key / kKeysOfCommunicator != begin->work.order_key / kKeysOfCommunicator;
    });
    bool apart = true;
    for (auto later = begin; later != end; ++later) {
      apart = apart && std::none_of(begin, later, [&](const Queued& op) { return Disturbs(later->touched, op.touched); });
    }
    if (apart) {
      std::stable_sort(begin, end, [](const Queued& a, const Queued& b) { return Round(a.work) < Round(b.work); });
    }
    begin = end == begin ? begin + 1 : end;
  }
}

}  // namespace gordian::runtime::cuda
