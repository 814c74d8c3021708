// What a shim and a collector would tell about the simulated job.
#include "tests/unit/model/sim/sim_job.h"

namespace gordian::model::testing {

void SimJob::Feed(JobModel* model) {
  for (int p = 0; p < static_cast<int>(procs_.size()) && !introduced_; ++p) {
    ProcessInfo info;
    info.process = static_cast<ProcessId>(p + 1);
    info.pid = static_cast<uint32_t>(1000 + p);
    info.runtime_connect = cold_;
    if (env.count(p) > 0) std::tie(info.env_rank, info.env_world_size) = env[p];
    model->OnProcessStarted(info);
  }
  introduced_ = true;
  for (; fed_ < log.size(); ++fed_) model->OnRecord(log[fed_]);
  for (int p = 0; p < static_cast<int>(procs_.size()); ++p) {
    if (!procs_[p].dead || !told_end_.insert(p).second) continue;
    const bool killed = procs_[p].exit_signal != 0;
    model->OnProcessEnded(static_cast<ProcessId>(p + 1),
                          killed ? ExitKind::kSignal : ExitKind::kCode,
                          killed ? procs_[p].exit_signal : procs_[p].exit_code, procs_[p].ended_ns);
  }
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
    state.process = static_cast<ProcessId>(i + 1);
    state.stopped = p.stopped;
    state.answered = answers && !p.stopped;
    const Do next = p.pc < programs_[i].size() ? programs_[i][p.pc].what : Do::kSpin;
    ThreadState t;
    t.thread = 1;
    t.tid = static_cast<uint32_t>(1000 + i);
    t.gpu_thread = p.gpu;
    t.entered = p.entered;
    t.left = p.left;
    t.published = t.collected = p.published;
    if (p.in_call && p.polled) {
      t.poll_object = 0x9000u + static_cast<uint64_t>(programs_[i][p.pc].event);
      t.poll_count = 1000;
      t.poll_since_ns = p.call_since;
    } else if (p.in_call) {
      t.call_id = 1;
      t.call_order = p.call_order;
      t.since_ns = p.call_since;
    }
    const bool sleeps = p.in_call || next == Do::kSleep;
    t.os_state = p.stopped ? OsState::kStopped : sleeps ? OsState::kSleeping : OsState::kRunning;
    t.cpu_ticks = sleeps ? 5 : round_;
    state.threads.push_back(t);
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
      other.thread = other_has_called ? 2 : 0;
      other.gpu_thread = other_has_called;
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
      c.comm = static_cast<CommId>(comm + 1);
      c.state = p.aborted.count(comm) > 0 ? CommState::kAborted : CommState::kReady;
      // Counts what was accepted.
      c.next_sequence = next_sequence;
      for (const OpPart& part : p.group_ops) {
        c.next_sequence -= part.op.what == Do::kCollective && part.op.comm == comm ? 1 : 0;
      }
      state.comms.push_back(c);
    }
    state.nccl_calls = 0;
    round.processes.push_back(std::move(state));
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
