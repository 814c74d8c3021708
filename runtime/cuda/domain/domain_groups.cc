// Decides which of a group's operations share a kernel. NCCL's rules let all of a group run at
// once; but kernels of a stream run one after the other, and later operations advance only by help
// of earlier kernels. So the domain puts sends and receives into one kernel where it can.
#include <algorithm>
#include <tuple>

#include "runtime/cuda/domain/domain.h"
#include "runtime/cuda/protocol/shares.h"

namespace gordian::runtime::cuda {
namespace {

uint32_t CommunicatorOf(const Work& w) { return w.order_key / kKeysOfCommunicator; }

}  // namespace

size_t Domain::Together(const std::vector<Queued>& operations, size_t begin) const {
  const Queued& first = operations[begin];
  if (!IsPointToPoint(first.work.kind) || first.list == nullptr || first.help.listed == 0)
    return begin + 1;
  size_t end = begin + 1;
  for (; end < operations.size(); ++end) {
    const Queued& next = operations[end];
    const bool fits = IsPointToPoint(next.work.kind) && next.list == first.list &&
                      next.stream == first.stream && next.help.listed != 0 &&
                      next.order == first.order && !next.amid &&
                      CommunicatorOf(next.work) == CommunicatorOf(first.work) &&
                      WayOf(next.work) == WayOf(first.work) &&
                      PlaceOf(operations[end - 1].work) < PlaceOf(next.work);
    if (!fits ||
        std::any_of(operations.begin() + static_cast<std::ptrdiff_t>(begin),
                    operations.begin() + static_cast<std::ptrdiff_t>(end),
                    [&](const Queued& op) { return Disturbs(next.touched, op.touched); })) {
      break;
    }
  }
  return end;
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

// Sorts a group in rounds: the first operation of every key, then the second of every key, and so
// on. A kernel starts its operations one after the other, and both ends of a transfer should come
// to it at the same time. Programs list the others by number, where rank 0 is at rank 1 while rank
// 2 is at rank 0. Sorting keeps each key's order, and both ends get the same order if their groups
// hold the same transfers.
void Domain::InRounds(std::vector<Queued>* operations) {
  for (auto begin = operations->begin(); begin != operations->end();) {
    const auto end = std::find_if(begin, operations->end(), [&](const Queued& op) {
      return !IsPointToPoint(op.work.kind) || op.stream != begin->stream ||
             CommunicatorOf(op.work) != CommunicatorOf(begin->work);
    });
    bool apart = true;
    uint32_t turns[kKeysOfCommunicator] = {};
    for (auto later = begin; later != end; ++later) {
      apart = apart && std::none_of(begin, later, [&](const Queued& op) {
                return Disturbs(later->touched, op.touched);
              });
      later->turn = turns[later->work.order_key % kKeysOfCommunicator]++;
    }
    if (apart) {
      const auto before = [](const Queued& op) {
        return std::make_tuple(op.turn, WayOf(op.work), PlaceOf(op.work));
      };
      std::sort(begin, end,
                [&](const Queued& a, const Queued& b) { return before(a) < before(b); });
    }
    begin = end == begin ? begin + 1 : end;
  }
}

}  // namespace gordian::runtime::cuda
