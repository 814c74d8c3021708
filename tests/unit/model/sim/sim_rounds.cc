// What a shim and a collector would tell about the simulated job.
#include <algorithm>

#include "proto/ring/polled_comm.h"
#include "tests/unit/model/sim/sim_job.h"

namespace gordian::model::testing {

void SimJob::Feed(JobModel* model) {
  for (int p = 0; p < static_cast<int>(procs_.size()); ++p) {
    for (uint32_t child = 0; child <= procs_[p].child; ++child) {
      ProcessInfo info;
      info.process = static_cast<ProcessId>(p + 1) + 1000 * child;
      info.pid = 1000 + info.process;
      info.runtime_connect = cold_;
      if (env.count(p) > 0) std::tie(info.env_rank, info.env_world_size) = env[p];
      if (introduced_.insert(info.process).second) {
        model->OnProcessStarted(info);
        for (const RecordKind kind : {RecordKind::kBegin, RecordKind::kEnd}) {
          if (other_has_called) Emit(p, kind, Call::kCommOther).thread = 2;
        }
      }
      const bool went = child < procs_[p].child && !procs_[p].parent_waits;
      if (went && told_end_.insert(info.process).second)
        model->OnProcessEnded(info.process, ExitKind::kCode, 0, now_);
    }
  }
  for (; fed_ < log.size(); ++fed_) model->OnRecord(log[fed_]);
  for (int p = 0; p < static_cast<int>(procs_.size()); ++p) {
    if (!procs_[p].dead || !told_end_.insert(IdOf(p)).second) continue;
    const bool killed = procs_[p].exit_signal != 0;
    model->OnProcessEnded(IdOf(p), killed ? ExitKind::kSignal : ExitKind::kCode,
                          killed ? procs_[p].exit_signal : procs_[p].exit_code, procs_[p].ended_ns);
  }
}

ThreadState SimJob::StateOf(int process) const {
  const Proc& p = procs_[process];
  const Do next = p.pc < programs_[process].size() ? programs_[process][p.pc].what : Do::kSpin;
  ThreadState t;
  const bool unseen = p.thread != 1 && p.published == 0 && !p.polled;
  t.thread = unseen ? 0 : p.thread;
  t.tid = (p.thread == 1 ? 1000 : 10000 * p.thread) + static_cast<uint32_t>(process);
  t.gpu_thread = p.gpu;
  t.entered = p.entered;
  t.left = p.left;
  t.published = t.collected = p.published;
  if (p.in_call && p.polled) {
    const Op& op = programs_[process][p.pc];
    t.poll_object = next == Do::kPollComm ? ring::kPolledComm | CommIdOf(op.comm)
                                          : 0x9000u + static_cast<uint64_t>(op.event);
    t.poll_count = 1000;
    t.poll_since_ns = p.call_since;
    t.sleep = ThreadSleep::kOutside;
  } else if (p.in_call) {
    t.call_id = 1;
    t.call_order = p.call_order;
    t.since_ns = p.call_since;
  }
  const bool waits = p.asleep && !WakesNow(process);
  if (waits) {
    const bool inside = next == Do::kWaitFlag || next == Do::kJoin;
    t.sleep = inside && p.wakes_ns == 0 ? ThreadSleep::kThread : ThreadSleep::kOutside;
  }
  const bool over = p.thread != 1 && p.pc >= programs_[process].size();
  const bool sleeps = p.in_call || waits || next == Do::kSleep;
  t.os_state = over        ? OsState::kGone
               : p.stopped ? OsState::kStopped
               : sleeps    ? OsState::kSleeping
                           : OsState::kRunning;
  t.cpu_ticks = sleeps ? 5 + p.steps : round_ + p.steps;
  return t;
}

Round SimJob::MakeRound() {
  Round round;
  round.round = ++round_;
  round.begin_ns = now_;
  round.end_ns = now_ + 1000;
  for (int i = 0; i < static_cast<int>(procs_.size()); ++i) {
    const Proc& p = procs_[i];
    if (p.dead) continue;
    ProcessState state;
    state.process = IdOf(i);
    state.stopped = p.stopped;
    state.answered = answers && !p.stopped;
    state.threads.push_back(StateOf(i));
    for (size_t h = 0; h < p.helpers.size(); ++h) {
      const Turn turn(*this, i, h);
      state.threads.push_back(StateOf(i));
    }
    ThreadState library;
    library.tid = static_cast<uint32_t>(2000 + i);
    library.library_thread = true;
    library.os_state = OsState::kRunning;
    library.cpu_ticks = round_;
    state.threads.push_back(library);
    state.timer_signals = timer_signals;
    if (other_thread) {
      ThreadState other;
      other.tid = static_cast<uint32_t>(3000 + i);
      other.os_state = OsState::kSleeping;
      other.sleep = other_sleep;
      other.context_switches = other_runs ? round_ : 3;
      other.thread = other_has_called || other_calls_cuda ? 2 : 0;
      other.gpu_thread = other_has_called || other_calls_cuda;
      other.library_thread = other_is_library;
      state.threads.push_back(other);
    }
    for (const auto& [stream, works] : p.streams) {
      StreamState s;
      s.stream = Id(stream);
      s.enqueued = works.size();
      for (size_t n = 0; n < works.size() && works[n].done; ++n) {
        if (Marked(works[n])) s.done = n + 1;
      }
      state.streams.push_back(s);
    }
    for (const auto& [comm, next_sequence] : p.eager) {
      CommStateNow c;
      c.comm = CommIdOf(comm);
      c.state = p.aborted.count(comm) > 0 ? CommState::kAborted : CommState::kReady;
      // Counts what was accepted.
      c.next_sequence = next_sequence;
      for (const OpPart& part : p.group_ops) {
        c.next_sequence -= part.op.what == Do::kCollective && part.op.comm == comm ? 1 : 0;
      }
      state.comms.push_back(c);
    }
    for (const int comm : p.made) {
      if (comms_[comm].blocking || p.eager.count(comm) > 0) continue;
      const bool ready =
          std::all_of(comms_[comm].members.begin(), comms_[comm].members.end(),
                      [&](int member) { return procs_[member].made.count(comm) > 0; });
      state.comms.push_back({CommIdOf(comm), ready ? CommState::kReady : CommState::kIniting, 0});
    }
    state.nccl_calls = 0;
    round.processes.push_back(std::move(state));
    if (!p.parent_waits) continue;
    ProcessState parent;
    parent.process = IdOf(i) - 1000;
    parent.answered = true;
    ThreadState waits;
    waits.tid = 1000 + parent.process;
    waits.os_state = OsState::kSleeping;
    waits.sleep = ThreadSleep::kOutside;
    parent.threads.push_back(waits);
    round.processes.push_back(std::move(parent));
  }
  return round;
}

void SimJob::Rounds(JobModel* model, double seconds, double period) {
  for (double t = 0; t < seconds; t += period) {
    Advance(static_cast<uint64_t>(period * 1e9));
    Feed(model);
    model->OnRound(MakeRound());
  }
}

void SimJob::End(int process, int signal, int code) {
  Proc& p = procs_[static_cast<size_t>(process)];
  p.dead = true;
  p.exit_signal = signal;
  p.exit_code = code;
  p.ended_ns = now_;
}

void SimJob::EndJob(JobModel* model, int exit_code) {
  Feed(model);
  model->OnJobEnded(ExitKind::kCode, exit_code, now_, false);
}

}  // namespace gordian::model::testing
