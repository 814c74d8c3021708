#include "replayer/reduce/model_run.h"

#include <algorithm>
#include <set>

#include "analyzer/model/verdict/check_catalogue.h"
#include "replayer/record/signature.h"
#include "replayer/reduce/model_run_machine.h"

namespace gordian::replayer {
namespace {

// When the model decides: late enough for waits and suspicions that need time. Two rounds, since a
// proof takes two.
constexpr uint64_t kFirstRoundNs = 5'000'000'000;
constexpr uint64_t kSecondRoundNs = 120'000'000'000;

}  // namespace

void Machine::Run(Turns turns) {
  const auto place = [](size_t i, size_t of, bool last_first) {
    return last_first ? of - 1 - i : i;
  };
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const size_t rank = place(i, ranks_.size(), (turns & 1) != 0);
      const size_t threads = ranks_[rank].threads.size();
      for (size_t thread = 0; thread < threads; ++thread) {
        moved |= RunThread(rank, place(thread, threads, (turns & LastThreadFirst(rank)) != 0));
      }
      moved |= RunStreams(rank);
    }
  }
}

std::vector<OpId> Machine::Standing() const {
  std::vector<OpId> standing;
  for (const Rank& rank : ranks_) {
    for (const Thread& thread : rank.threads) {
      if (!rank.dead && thread.at < thread.ops->size())
        standing.push_back((*thread.ops)[thread.at].id);
    }
  }
  std::sort(standing.begin(), standing.end());
  return standing;
}

bool Machine::AllEnded() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.dead; });
}

bool Machine::SomethingWaits() const {
  for (const Rank& rank : ranks_) {
    if (rank.dead) continue;
    if (std::any_of(rank.threads.begin(), rank.threads.end(),
                    [](const Thread& thread) { return thread.in_call; }))
      return true;
    if (std::any_of(rank.queues.begin(), rank.queues.end(),
                    [](const Queue& queue) { return queue.done < queue.items.size(); }))
      return true;
  }
  return false;
}

model::Verdict Machine::Judge() const {
  model::JobModel model;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    model::ProcessInfo info;
    info.process = static_cast<model::ProcessId>(rank + 1);
    info.pid = static_cast<uint32_t>(1000 + 100 * rank);
    info.runtime_connect = runtime_connect_;
    model.OnProcessStarted(info);
  }
  for (const model::CallRecord& record : log_) model.OnRecord(record);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& rank = ranks_[i];
    if (!rank.dead) continue;
    const bool killed = rank.exit_signal != 0;
    model.OnProcessEnded(static_cast<model::ProcessId>(i + 1),
                         killed ? model::ExitKind::kSignal : model::ExitKind::kCode,
                         killed ? rank.exit_signal : rank.exit_code, rank.ended_ns);
  }
  model.OnRound(MakeRound(1, now_ns_ + kFirstRoundNs));
  model.OnRound(MakeRound(2, now_ns_ + kSecondRoundNs));
  return model.Current();
}

model::Round Machine::MakeRound(uint64_t number, uint64_t now_ns) const {
  model::Round round;
  round.round = number;
  round.begin_ns = now_ns;
  round.end_ns = now_ns + 1000;
  for (size_t index = 0; index < ranks_.size(); ++index) {
    const Rank& rank = ranks_[index];
    if (rank.dead) continue;
    model::ProcessState& state = round.processes.emplace_back();
    state.process = static_cast<model::ProcessId>(index + 1);
    state.stopped = rank.stopped;
    state.answered = !rank.stopped;
    for (size_t thread = 0; thread < rank.threads.size(); ++thread) {
      const Thread& now = rank.threads[thread];
      const bool over = thread > 0 && now.at >= now.ops->size();
      if (!over) state.threads.push_back(StateOf(index, thread, number));
    }
    for (size_t i = 0; i < rank.queues.size(); ++i) {
      model::StreamState& stream = state.streams.emplace_back();
      stream.stream = StreamIdOf(static_cast<int>(i));
      stream.enqueued = rank.queues[i].items.size();
      stream.done = rank.queues[i].marked;
    }
    if (rank.connected > 0)
      state.streams.push_back(
          {.stream = kConnectStream, .enqueued = rank.connected, .done = rank.connected});
    for (const auto& [comm, local] : rank.comms) {
      if (!local.made) continue;
      model::CommStateNow& now = state.comms.emplace_back();
      now.comm = static_cast<model::CommId>(comm + 1);
      now.state = local.aborted ? model::CommState::kAborted : model::CommState::kReady;
      now.next_sequence = local.collectives.called - local.open;
    }
  }
  return round;
}

model::ThreadState Machine::StateOf(size_t rank, size_t index, uint64_t round) const {
  const Thread& thread = ranks_[rank].threads[index];
  const Op* const op = thread.at < thread.ops->size() ? &(*thread.ops)[thread.at] : nullptr;
  model::ThreadState state;
  state.thread = static_cast<model::ThreadId>(index + 1);
  state.tid = static_cast<uint32_t>(1000 + 100 * rank + index);
  state.gpu_thread = thread.called || index == 0;  // the first one makes communicators
  state.entered = thread.entered;
  state.left = thread.left;
  state.published = state.collected = thread.published;
  const bool polls = thread.in_call && op != nullptr && op->kind == OpKind::kPoll;
  if (polls) {
    state.poll_object = op->event >= 0 ? EventHandle(op->event) : StreamHandle(op->stream);
    state.poll_count = 1000;
    state.poll_since_ns = thread.call_since;
  } else if (thread.in_call) {
    state.call_id = 1;
    state.call_order = thread.call_order;
    state.since_ns = thread.call_since;
  }
  // A thread that awaits its gate polls it.
  const bool runs = !thread.in_call && op != nullptr && op->kind != OpKind::kSleep;
  state.os_state = ranks_[rank].stopped ? model::OsState::kStopped
                   : runs || polls      ? model::OsState::kRunning
                                        : model::OsState::kSleeping;
  state.cpu_ticks = runs || polls ? round : 0;
  return state;
}

ModelRun RunModel(const Schedule& schedule, Turns turns) {
  Machine machine(schedule);
  machine.Run(turns);
  ModelRun run;
  run.standing = machine.Standing();
  if (machine.AllEnded()) {
    run.signature.verdict = model::Name(model::VerdictKind::kFinished);
    run.check = "job-finished";
    return run;
  }
  const model::Verdict verdict = machine.Judge();
  run.signature = SignatureOf(verdict);
  run.check = verdict.main.check;
  run.summary = verdict.main.summary;
  std::set<std::string> because;
  for (const model::WaitEdge& edge : verdict.main.cycle) {
    because.insert(edge.held_by);
    run.cycle.push_back(static_cast<OpId>(edge.site.address));
  }
  run.because.assign(because.begin(), because.end());
  run.hangs = machine.SomethingWaits() && model::SaysTrouble(verdict.main.verdict) &&
              !model::OnlySlow(verdict.main);
  return run;
}

}  // namespace gordian::replayer
