// Streams of the execution graph: where work goes, what evidence shows done, and what is let go of.
#include <algorithm>

#include "analyzer/model/facts/execution_graph.h"

namespace gordian::model {

void ExecutionGraph::Append(StreamQueue& queue, WorkItem&& item) {
  queue.last = std::max(queue.last, item.ordinal);
  if (queue.items.empty() || queue.items.back().ordinal < item.ordinal) {
    queue.items.push_back(std::move(item));
    return;
  }
  // Records that were given up for lost and came late.
  auto at = std::lower_bound(queue.items.begin(), queue.items.end(), item.ordinal,
                             [](const WorkItem& i, uint64_t n) { return i.ordinal < n; });
  if (at == queue.items.end() || at->ordinal != item.ordinal) {
    queue.items.insert(at, std::move(item));
  } else {
    at->launches.insert(at->launches.end(), item.launches.begin(), item.launches.end());
  }
}

// A place on a stream that collectives of nothing were given: it ends by itself.
void ExecutionGraph::AppendNothing(Process& process, StreamPosition position) {
  if (position.stream == 0) return;
  StreamQueue& queue = Stream(process, position.stream, -1);
  if (position.ordinal <= queue.done) return;
  WorkItem item;
  item.ordinal = position.ordinal;
  item.kind = WorkKind::kKernels;
  Append(queue, std::move(item));
}

StreamQueue& ExecutionGraph::Stream(Process& process, StreamId id, int device) {
  StreamQueue& queue = process.streams[id];
  if (queue.id == 0) {
    queue.id = id;
    queue.flags = kStreamFlagsUnknown;
  }
  if (device >= 0) queue.device = device;
  return queue;
}

std::vector<StreamPosition> ExecutionGraph::LegacyOrder(const Process& process,
                                                        const StreamQueue& queue) {
  std::vector<StreamPosition> order;
  if (!queue.Legacy() && !queue.Blocking()) return order;
  for (const auto& [id, other] : process.streams) {
    if (id == queue.id || other.device != queue.device || other.last <= other.soft) continue;
    if (queue.Legacy() ? (other.Blocking() && !other.Legacy()) : other.Legacy()) {
      order.push_back({id, other.last});
    }
  }
  return order;
}

void ExecutionGraph::Behind(const Process& process, const StreamQueue& queue,
                            StreamPositions* behind) const {
  behind->push_back({queue.id, queue.last});
  for (const StreamPosition& position : LegacyOrder(process, queue)) behind->push_back(position);
}

void ExecutionGraph::CommDone(Process& process, CommId comm, uint64_t now_ns) {
  std::vector<StreamPosition> done;
  std::vector<LaunchId> unplaced;
  for (const auto& [id, launch] : launches_) {
    if (launch.process != process.info.process || launch.comm != comm || !launch.enqueued) continue;
    done.insert(done.end(), launch.positions.begin(), launch.positions.end());
    if (!launch.follows) unplaced.push_back(id);
  }
  for (const StreamPosition& position : done) MarkDone(process, position, now_ns);
  for (LaunchId id : unplaced) LaunchDone(id);
}

void ExecutionGraph::MarkDone(Process& process, StreamPosition first, uint64_t now_ns) {
  boost::container::small_vector<StreamPosition, 8> work;
  work.push_back(first);
  while (!work.empty()) {
    const StreamPosition position = work.back();
    work.pop_back();
    auto it = process.streams.find(position.stream);
    if (it == process.streams.end() || position.ordinal <= it->second.done) continue;
    StreamQueue& queue = it->second;
    // A state may know of work whose record has not come.
    queue.done = position.ordinal;
    queue.last_progress_ns = std::max(queue.last_progress_ns, now_ns);
    process.last_progress_ns = std::max(process.last_progress_ns, now_ns);
    queue.last = std::max(queue.last, queue.done);
    queue.soft = std::max(queue.soft, queue.done);
    while (!queue.items.empty() && queue.items.front().ordinal <= position.ordinal) {
      const WorkItem& item = queue.items.front();
      // What it stood behind must be done as well.
      work.insert(work.end(), item.legacy.begin(), item.legacy.end());
      work.insert(work.end(), item.event.begin(), item.event.end());
      for (LaunchId id : item.launches) {
        Launch* const launch = launches_.Find(id);
        if (launch == nullptr) continue;
        --launch->open_positions;
        if (launch->enqueued && launch->open_positions == 0) LaunchDone(id);
      }
      queue.items.pop_front();
    }
  }
}

void ExecutionGraph::LaunchDone(LaunchId id) {
  // A communicator's launches are done in order (W8): one without a known place goes with the
  // next.
  for (bool first = true; id != 0; first = false) {
    const Launch* const launch = launches_.Find(id);
    if (launch == nullptr || (!first && launch->follows)) return;
    for (const Part& part : launch->parts) {
      if (!launch->aborted) matcher_.Done(part.ref);
    }
    if (launch->signal != nullptr) SignalsOver(*launch, !launch->aborted);
    if (!watched_.empty() && watched_.erase(id) > 0 && !launch->aborted) done_after_all_.insert(id);
    if (launch->host) {
      for (const Part& part : launch->parts) {
        Find(launch->process)
            ->host_launches.erase({launch->comm, part.ref.kind, part.ref.peer, part.ref.sequence});
      }
    }
    const LaunchId over = id;
    id = launch->previous_on_comm;
    launches_.erase(over);
  }
}

// A launch that NCCL refused: what of it was enqueued anyway stays as work that ends by itself.
void ExecutionGraph::DropLaunch(LaunchId id, bool enqueued_some) {
  Launch* const launch = launches_.Find(id);
  if (launch == nullptr) return;
  if (enqueued_some) {
    launch->follows = false;
    launch->enqueued = true;
    return;
  }
  Process& process = *Find(launch->process);
  for (const Part& part : launch->parts) Withdraw(process, *launch, part);
  if (launch->signal != nullptr) SignalsOver(*launch, false);
  launches_.erase(id);
}

// It never happened: its number is given again.
void ExecutionGraph::Withdraw(Process& process, const Launch& launch, const Part& part) {
  matcher_.Withdraw(part.ref);
  auto local = process.comms.find(launch.comm);
  if (local == process.comms.end()) return;
  PartNumbers& numbers = local->second.Numbers(part.ref);
  if (part.ref.sequence >= numbers.launched) {
    numbers.next = std::min(numbers.next, part.ref.sequence - numbers.launched);
  }
}

// Moves `soft` over kernels, host functions and waits for what is soft itself: they end without
// help.
void ExecutionGraph::Soften(Process& process) {
  auto soft = [&](const auto& positions) {
    for (const StreamPosition& position : positions) {
      auto it = process.streams.find(position.stream);
      if (it != process.streams.end() && position.ordinal > it->second.soft) return false;
    }
    return true;
  };
  bool changed = true;
  while (changed) {
    changed = false;
    for (auto& [id, queue] : process.streams) {
      while (!queue.items.empty()) {
        const WorkItem& item = queue.items.front();
        if (item.kind == WorkKind::kNoWork || item.kind == WorkKind::kMemoryWait) break;
        if (!soft(item.legacy) || !soft(item.event)) break;
        queue.soft = item.ordinal;
        queue.items.pop_front();
        changed = true;
      }
    }
  }
  for (auto it = process.streams.begin(); it != process.streams.end();) {
    it = it->second.destroyed && it->second.items.empty() ? process.streams.erase(it) : ++it;
  }
}

void ExecutionGraph::TrimEvents(Process& process) {
  if (process.events.size() <= process.events_limit) return;
  for (auto it = process.events.begin(); it != process.events.end();) {
    bool done = true;
    for (const StreamPosition& position : it->second.behind) {
      auto stream = process.streams.find(position.stream);
      done &= stream == process.streams.end() || position.ordinal <= stream->second.done;
    }
    it = done ? process.events.erase(it) : ++it;
  }
  process.events_limit = std::max<size_t>(4096, 2 * process.events.size());
}

}  // namespace gordian::model
