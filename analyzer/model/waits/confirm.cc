#include "analyzer/model/waits/confirm.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "analyzer/model/waits/rules/rules.h"

namespace gordian::model {
namespace {

constexpr char kNoTimeLimit[] = "no time limit of torch.distributed ends the waits";

void AddStream(const Process& process, StreamId id, std::set<std::pair<ProcessId, StreamId>>* seen,
               Proof* proof) {
  if (!seen->insert({process.info.process, id}).second) return;
  auto it = process.streams.find(id);
  if (it == process.streams.end()) return;
  const StreamQueue& queue = it->second;
  proof->signature.insert(proof->signature.end(),
                          {4, process.info.process, id, queue.last, queue.done, queue.now.enqueued,
                           queue.now.head, queue.now.done});
  proof->stalled_at_ns = std::max(proof->stalled_at_ns, queue.last_progress_ns);
}

// W5, W19: the proof holds only if no other thread of the process can come to make the call, or to
// wake one that does.
void AddOthers(const Names& names, const Process& process, Proof* proof) {
  const std::string rank = names.RankOf(process.info.process);
  for (const ThreadState& state : process.state.threads) {
    if (state.library_thread || state.os_state == OsState::kGone) continue;
    // A candidate: in the proof itself.
    if (state.thread != 0 && (state.gpu_thread || state.call_id != 0)) continue;
    proof->others.insert(proof->others.end(), {process.info.process, state.tid, state.cpu_ticks,
                                               state.context_switches});
    const std::string thread =
        "thread " + (state.name.empty() ? std::to_string(state.tid) : state.name) + " of " + rank;
    if (state.os_state != OsState::kSleeping && state.os_state != OsState::kDisk) {
      proof->missing.push_back(thread + " runs and may make the call");
    } else if (rules::CarriesOut(state)) {
      proof->others.pop_back();  // its time limits may wake it for a moment
    } else if (!rules::OnlyAThreadWakes(process, state)) {
      proof->missing.push_back(
          thread + (state.sleep == ThreadSleep::kUnknown
                        ? " sleeps, gordian cannot see in what, and may make the call"
                        : " sleeps in what time or the outside may end, and may make the call"));
    }
  }
  if (process.state.timer_signals) {
    proof->missing.push_back(rank + " handles the signal of a timer, which may wake a thread");
  }
}

// W14: of an operation that needs no other member, as that of a broadcast's root, the process may
// have done its part before it ended, and the last that it said of its device is older.
bool MayBeDone(const Process& process, const Launch& launch) {
  return process.Dead() && launch.enqueued && !launch.host &&
         std::all_of(launch.parts.begin(), launch.parts.end(),
                     [](const Part& part) { return NeedsOf(RoleOf(part)) == Needs::kNoOther; });
}

}  // namespace

Proof MakeProof(const WaitForGraph& graph, const Names& names,
                const std::vector<uint32_t>& unsorted, const std::vector<uint32_t>& leaves) {
  Proof proof;
  // The same hang found from another end is the same hang.
  std::vector<uint32_t> nodes = unsorted;
  auto identity = [&](uint32_t index) {
    const WaitNode& n = graph.nodes()[index];
    return std::make_tuple(n.kind, n.process, n.thread, n.launch, n.stream, n.ordinal, n.comm,
                           n.sequence, n.init);
  };
  std::sort(nodes.begin(), nodes.end(),
            [&](uint32_t a, uint32_t b) { return identity(a) < identity(b); });
  std::set<ProcessId> processes;
  std::set<std::pair<ProcessId, StreamId>> streams;
  for (uint32_t index : nodes) {
    const WaitNode& node = graph.nodes()[index];
    proof.key += std::to_string(static_cast<int>(node.kind)) + ":" + std::to_string(node.process) +
                 "/" + std::to_string(node.thread) + "/" + std::to_string(node.launch) + "/" +
                 std::to_string(node.stream) + "/" + std::to_string(node.ordinal) + "/" +
                 std::to_string(node.comm) + "/" + std::to_string(node.sequence) + "/" +
                 std::to_string(node.init) + " ";
    const InitCall* init = graph.matcher().FindInit(node.init);
    if (init != nullptr && init->call == Call::kCommDestroy) {
      proof.assumes.push_back(
          "ncclCommDestroy waits for the other processes, as it does in NCCL 2.28.3 and 2.28.9");
    }
    if (node.kind == NodeKind::kKeySet) {
      proof.assumes.push_back("no process outside the job sets the key of the store");
      proof.assumes.push_back(kNoTimeLimit);
    }
    proof.conjectural |= RestsOnConjecture(node);
    if (node.kind == NodeKind::kSignals) {
      const Launch* const wait = graph.execution().FindLaunch(node.launch);
      if (wait != nullptr && node.by_kernels)
        proof.assumes.push_back("no kernel sends " + names.RankOf(wait->process) +
                                " the signals that it waits for");
      if (node.used_up)
        proof.assumes.push_back("a ncclWaitSignal uses up the signals that it waited for");
    }
    if (node.process == 0) continue;
    const Process* process = graph.execution().Find(node.process);
    if (process == nullptr) continue;
    processes.insert(node.process);
    proof.stalled_at_ns = std::max(proof.stalled_at_ns, node.since_ns);
    switch (node.kind) {
      case NodeKind::kThread:
        for (const ThreadState& state : process->state.threads) {
          if (state.thread != node.thread || state.tid != node.tid) continue;
          proof.signature.insert(
              proof.signature.end(),
              {1, node.process, node.thread, state.call_order, state.entered, state.left,
               state.published, state.poll_object, state.poll_since_ns});
          // Outside of calls only the system's counters say whether it ran.
          if (state.call_id == 0 && state.poll_object == 0) {
            proof.signature.insert(proof.signature.end(),
                                   {state.cpu_ticks, state.context_switches});
          }
          if (state.published != state.collected) {
            proof.missing.push_back("records of " + names.RankOf(node.process) +
                                    " are on their way");
          }
          if (state.call_id == 0 && state.poll_object != 0) {
            proof.missing.push_back("the polling loop of " + names.RankOf(node.process) +
                                    " may leave before what it polls is done");
          }
        }
        break;
      case NodeKind::kNotCalled:
      case NodeKind::kWoken:
        AddOthers(names, *process, &proof);
        break;
      case NodeKind::kMemory:
        proof.assumes.push_back(
            "no other process and no operation of NCCL writes to the memory that " +
            names.RankOf(node.process) + "'s stream waits for");
        break;
      case NodeKind::kItemDone:
        AddStream(*process, node.stream, &streams, &proof);
        break;
      case NodeKind::kLaunchStart:
      case NodeKind::kLaunchDone: {
        const Launch* launch = graph.execution().FindLaunch(node.launch);
        if (launch == nullptr) break;
        proof.launches.emplace_back(launch->id, launch->comm_index);
        if (launch->host) {
          proof.assumes.push_back(kNoTimeLimit);
        }
        if (MayBeDone(*process, *launch)) {
          proof.missing.push_back("whether " + names.RankOf(node.process) +
                                  " did its part before it ended");
        }
        if (launch->deferred) {
          proof.missing.push_back(
              "NCCL launches operations of " + names.RankOf(node.process) +
              "'s non-blocking communicator at a time that gordian does not see");
        }
        for (StreamId stream : launch->streams) AddStream(*process, stream, &streams, &proof);
        break;
      }
      default:
        break;
    }
  }
  for (uint32_t index : leaves) {
    const WaitNode& node = graph.nodes()[index];
    proof.key += "leaf " + std::to_string(static_cast<int>(node.leaf)) + ":" +
                 std::to_string(node.process) + " ";
  }
  for (ProcessId id : processes) {
    const Process& process = *graph.execution().Find(id);
    if (process.Dead()) continue;
    const std::string rank = names.RankOf(id);
    if (!process.has_state || !process.state.answered) {
      proof.missing.push_back(rank + " did not answer");
    }
    if (process.has_state && process.state.stopped) proof.missing.push_back(rank + " is stopped");
    if (std::any_of(process.state.threads.begin(), process.state.threads.end(), rules::Watches)) {
      proof.assumes.push_back(kNoTimeLimit);
    }
    if (process.unknown.calls) proof.missing.push_back(names.Lost(process));
    if (process.merger.incomplete()) {
      proof.missing.push_back("records of " + rank + " are on their way");
    }
    if (!process.info.markers_enabled) {
      proof.missing.push_back("the progress of " + rank + "'s device was not visible");
    }
  }
  auto unique = [](std::vector<std::string>* v) {
    std::sort(v->begin(), v->end());
    v->erase(std::unique(v->begin(), v->end()), v->end());
  };
  unique(&proof.missing);
  unique(&proof.assumes);
  return proof;
}

Confirmer::Standing Confirmer::Check(const Proof& proof, uint64_t round_begin_ns) {
  Standing standing;
  const bool complete = proof.missing.empty() && !proof.conjectural;
  auto before = before_.find(proof.key);
  const bool same = before != before_.end() && before->second.signature == proof.signature;
  standing.unchanged_since_ns = same ? before->second.since_ns : round_begin_ns;
  standing.confirmed =
      same && before->second.others == proof.others && complete && before->second.complete;
  wants_now_ |= complete && !standing.confirmed;
  now_[proof.key] = {proof.signature, proof.others, complete, standing.unchanged_since_ns};
  return standing;
}

void Confirmer::EndRound() {
  before_ = std::move(now_);
  now_.clear();
  wants_ = wants_now_;
  wants_now_ = false;
}

}  // namespace gordian::model
