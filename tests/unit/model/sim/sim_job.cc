#include "tests/unit/model/sim/sim_job.h"

#include <algorithm>

namespace gordian::model::testing {
namespace {

constexpr uint64_t kStepNs = 1000;
constexpr int kHelpers = 1'000'000;  // transitions of threads but the first

Op Make(Do what) {
  Op op;
  op.what = what;
  return op;
}

bool Pairwise(Call call) {
  return call == Call::kAllToAll || call == Call::kGather || call == Call::kScatter;
}

bool NeedsAll(Call call) {
  return call == Call::kAllReduce || call == Call::kAllGather || call == Call::kReduceScatter ||
         call == Call::kAllToAll;
}

}  // namespace

Op Init(int comm) {
  Op o = Make(Do::kInit);
  o.comm = comm;
  return o;
}
Op Split(int child) {
  Op o = Make(Do::kSplit);
  o.comm = child;
  return o;
}
Op Collective(Call call, int comm, int stream, int root) {
  Op o = Make(Do::kCollective);
  o.call = call;
  o.comm = comm;
  o.stream = stream;
  o.root_or_peer = root;
  return o;
}
Op AllReduce(int comm, int stream, uint64_t count) {
  Op o = Collective(Call::kAllReduce, comm, stream);
  o.count = count;
  return o;
}
Op Bcast(int comm, int root, int stream) {
  return Collective(Call::kBroadcast, comm, stream, root);
}
Op Send(int comm, int peer, int stream, uint64_t count) {
  Op o = Collective(Call::kSend, comm, stream, peer);
  o.what = Do::kSend;
  o.count = count;
  return o;
}
Op Recv(int comm, int peer, int stream, uint64_t count) {
  Op o = Collective(Call::kRecv, comm, stream, peer);
  o.what = Do::kRecv;
  o.count = count;
  return o;
}
Op GroupStart() { return Make(Do::kGroupStart); }
Op GroupEnd() { return Make(Do::kGroupEnd); }
Op Kernel(int stream, bool endless) {
  Op o = Make(Do::kKernel);
  o.stream = stream;
  o.endless = endless;
  return o;
}
Op HostFunction(int stream) {
  Op o = Make(Do::kHostFunction);
  o.stream = stream;
  o.endless = true;
  return o;
}
Op Record(int event, int stream) {
  Op o = Make(Do::kEventRecord);
  o.event = event;
  o.stream = stream;
  return o;
}
Op WaitEvent(int event, int stream) {
  Op o = Record(event, stream);
  o.what = Do::kEventWait;
  return o;
}
Op StreamSync(int stream) {
  Op o = Make(Do::kStreamSync);
  o.stream = stream;
  return o;
}
Op DeviceSync() { return Make(Do::kDeviceSync); }
Op EventSync(int event) {
  Op o = Make(Do::kEventSync);
  o.event = event;
  return o;
}
Op Free() { return Make(Do::kFree); }
Op Copy(int stream) {
  Op o = Make(Do::kCopy);
  o.stream = stream;
  return o;
}
Op Poll(int event, uint64_t for_ns) {
  Op o = Make(Do::kPoll);
  o.event = event;
  o.after_ns = for_ns;
  return o;
}
Op Nap(uint64_t ns) {
  Op o = Make(Do::kNap);
  o.after_ns = ns;
  return o;
}
Op Read(int pipe, uint64_t ns) {
  Op o = Make(Do::kRead);
  o.event = pipe;
  o.after_ns = ns;
  return o;
}
Op Answer(int pipe) {
  Op o = Make(Do::kAnswer);
  o.event = pipe;
  return o;
}
Op WaitFlag(int flag) {
  Op o = Make(Do::kWaitFlag);
  o.event = flag;
  return o;
}
Op SetFlag(int flag) {
  Op o = Make(Do::kSetFlag);
  o.event = flag;
  return o;
}
Op FlagFunction(int flag, int stream) {
  Op o = HostFunction(stream);
  o.endless = false;
  o.flags = true;
  o.event = flag;
  return o;
}
Op Join(int helper) {
  Op o = Make(Do::kJoin);
  o.event = helper;
  return o;
}
Op Fork(bool exits) {
  Op o = Make(Do::kFork);
  o.endless = exits;
  return o;
}
Op PollComm(int comm) {
  Op o = Make(Do::kPollComm);
  o.comm = comm;
  return o;
}
Op Sleep() { return Make(Do::kSleep); }
Op Spin() { return Make(Do::kSpin); }
Op Exit(int code) {
  Op o = Make(Do::kExit);
  o.root_or_peer = code;
  return o;
}
Op Kill(int signal) {
  Op o = Make(Do::kKill);
  o.root_or_peer = signal;
  return o;
}
Op Stop() { return Make(Do::kStop); }
Op Abort(int comm) {
  Op o = Make(Do::kAbort);
  o.comm = comm;
  return o;
}
Op Destroy(int comm) {
  Op o = Make(Do::kDestroy);
  o.comm = comm;
  return o;
}
Op Finalize(int comm) {
  Op o = Make(Do::kFinalize);
  o.comm = comm;
  return o;
}
Op Graph(int number, std::vector<Op> inside, int stream) {
  Op o = Make(Do::kGraph);
  o.event = number;
  o.stream = stream;
  o.inside = std::move(inside);
  return o;
}
Op WriteValue(int word, int stream, uint64_t value) {
  Op o = Make(Do::kMemoryWrite);
  o.event = word;
  o.stream = stream;
  o.value = value;
  return o;
}
Op WaitValue(int word, int stream, uint64_t value) {
  Op o = WriteValue(word, stream, value);
  o.what = Do::kMemoryWait;
  return o;
}
Op Signal(int comm, int peer, int stream) {
  Op o = Make(Do::kSignal);
  o.comm = comm;
  o.root_or_peer = peer;
  o.stream = stream;
  o.count = 1;
  return o;
}
Op WaitSignal(int comm, int peer, int stream, uint64_t count) {
  Op o = Signal(comm, peer, stream);
  o.what = Do::kWaitSignal;
  o.count = count;
  return o;
}
Op Window(int comm) {
  Op o = Make(Do::kWindow);
  o.comm = comm;
  return o;
}

SimJob::SimJob(std::vector<SimComm> comms, std::vector<Program> programs, bool cold, uint64_t seed)
    : comms_(std::move(comms)),
      programs_(std::move(programs)),
      helper_programs_(programs_.size()),
      procs_(programs_.size()),
      cold_(cold),
      random_(seed) {
  for (size_t p = 0; p < programs_.size(); ++p) {
    for (const Op& op : programs_[p]) procs_[p].legacy |= op.stream == 0;
  }
}

SimJob::Turn::Turn(const SimJob& job, int process, size_t helper)
    : job_(job), process_(process), helper_(helper) {
  Swap();
}

void SimJob::Turn::Swap() {
  Proc& p = job_.procs_[process_];
  std::swap(static_cast<HostThread&>(p), p.helpers[helper_]);
  std::swap(job_.programs_[process_], job_.helper_programs_[process_][helper_]);
}

void SimJob::AddHelper(int process, Program program) {
  Proc& p = procs_[process];
  for (const Op& op : program) p.legacy |= op.stream == 0;
  p.helpers.emplace_back().thread = p.helpers.size() + 2;
  helper_programs_[process].push_back(std::move(program));
}

bool SimJob::Wake() {
  uint64_t first = UINT64_MAX;
  const auto look = [&](const HostThread& host) {
    if ((host.asleep || host.polled) && host.wakes_ns > now_)
      first = std::min(first, host.wakes_ns);
  };
  for (const Proc& p : procs_) {
    if (p.dead || p.stopped) continue;
    look(p);
    for (const HostThread& helper : p.helpers) look(helper);
  }
  if (first == UINT64_MAX) return false;
  now_ = first;
  return true;
}

int SimJob::RankIn(int comm, int process) const {
  const auto& members = comms_[comm].members;
  auto it = std::find(members.begin(), members.end(), process);
  return it == members.end() ? -1 : static_cast<int>(it - members.begin());
}

CallRecord& SimJob::Emit(int process, RecordKind kind, Call call) {
  Proc& p = procs_[process];
  CallRecord r;
  r.process = IdOf(process);
  r.thread = p.thread;
  r.kind = kind;
  r.call = call;
  r.call_id = static_cast<uint16_t>(static_cast<int>(call) + 1);
  r.order = ++p.order;
  r.time_ns = now_;
  r.call_site = 0x1000 + p.pc;
  ++p.published;
  p.gpu = true;
  log.push_back(std::move(r));
  return log.back();
}

bool SimJob::DoneTo(const Proc& p, int stream, uint64_t ordinal) const {
  auto it = p.streams.find(stream);
  if (it == p.streams.end()) return true;
  for (uint64_t i = 0; i < ordinal && i < it->second.size(); ++i) {
    if (!it->second[i].done) return false;
  }
  return true;
}

bool SimJob::Started(int comm, int rank, uint64_t sequence) const {
  const int process = comms_[comm].members[rank];
  for (const Launch& launch : launches_) {
    if (launch.process != process || launch.comm != comm) continue;
    for (const OpPart& part : launch.parts) {
      if (part.op.what == Do::kCollective && part.sequence == sequence) {
        return launch.started && !(launch.aborted && !launch.done);
      }
    }
  }
  return Granted(process) && !Called(comm, rank, sequence);
}

bool SimJob::P2pStarted(int comm, int source, int target, uint64_t sequence, bool send) const {
  const int rank = send ? source : target, peer = send ? target : source;
  const int process = comms_[comm].members[rank];
  for (const Launch& launch : launches_) {
    if (launch.process != process || launch.comm != comm) continue;
    for (const OpPart& part : launch.parts) {
      if (part.op.what == (send ? Do::kSend : Do::kRecv) && part.op.root_or_peer == peer &&
          part.sequence == sequence) {
        return launch.started;
      }
    }
  }
  return Granted(process) && !P2pCalled(comm, source, target, sequence, send);
}

bool SimJob::Called(int comm, int rank, uint64_t sequence) const {
  const Proc& p = procs_[comms_[comm].members[rank]];
  auto it = p.next_sequence.find(comm);
  if (it == p.next_sequence.end() || it->second <= sequence) {
    return false;
  }
  // Inside an open group it counts from GroupEnd on.
  for (const OpPart& part : p.group_ops) {
    if (p.in_group && part.op.what == Do::kCollective && part.op.comm == comm &&
        part.sequence == sequence) {
      return p.in_call;
    }
  }
  return true;
}

bool SimJob::P2pCalled(int comm, int source, int target, uint64_t sequence, bool send) const {
  const int rank = send ? source : target, peer = send ? target : source;
  const Proc& p = procs_[comms_[comm].members[rank]];
  auto it = p.next_p2p.find({comm, peer, send});
  if (it == p.next_p2p.end() || it->second <= sequence) return false;
  for (const OpPart& part : p.group_ops) {
    if (p.in_group && part.op.what == (send ? Do::kSend : Do::kRecv) && part.op.comm == comm &&
        part.op.root_or_peer == peer && part.sequence == sequence) {
      return p.in_call;
    }
  }
  return true;
}

std::vector<std::pair<int, bool>> SimJob::PairsOf(int process, const Op& op) const {
  std::vector<std::pair<int, bool>> pairs;
  const int me = RankIn(op.comm, process), root = op.root_or_peer;
  if (op.what != Do::kCollective) {
    if (root != me) pairs.emplace_back(root, op.what == Do::kSend);
    return pairs;
  }
  for (int rank = 0; rank < static_cast<int>(comms_[op.comm].members.size()); ++rank) {
    if (rank == me) continue;
    if (op.call == Call::kAllToAll) {
      pairs.emplace_back(rank, true);
      pairs.emplace_back(rank, false);
    } else if (me == root || rank == root) {
      pairs.emplace_back(rank, (op.call == Call::kScatter) == (me == root));
    }
  }
  return pairs;
}

void SimJob::NoteUsed(int process, const Op& op) {
  Proc& p = procs_[process];
  if (op.what == Do::kCollective && !Pairwise(op.call)) {
    p.used.insert(op.comm);
    return;
  }
  for (const auto& [rank, sends] : PairsOf(process, op)) p.peers.insert({op.comm, rank, sends});
}

// First use: the host waits until the others have made the call too, or use it otherwise.
bool SimJob::Connects(int process, const Op& op, std::optional<uint64_t> sequence) const {
  if (!cold_ || elsewhere.count(op.comm) > 0) return true;
  const Proc& p = procs_[process];
  const int comm = op.comm, me = RankIn(comm, process);
  const auto met = [&](int rank, bool sends, bool uses) {
    if (uses || Granted(comms_[comm].members[rank])) return true;
    if (!sequence) return false;
    if (op.what == Do::kCollective) return Called(comm, rank, *sequence);
    return sends ? P2pCalled(comm, me, rank, *sequence, false)
                 : P2pCalled(comm, rank, me, *sequence, true);
  };
  if (op.what == Do::kCollective && !Pairwise(op.call)) {
    if (p.used.count(comm) > 0) return true;
    for (int rank = 0; rank < static_cast<int>(comms_[comm].members.size()); ++rank) {
      if (!met(rank, false, Uses(comm, rank))) return false;
    }
    return true;
  }
  for (const auto& [rank, sends] : PairsOf(process, op)) {
    if (p.peers.count({comm, rank, sends}) == 0 &&
        !met(rank, sends, UsesPeer(comm, rank, me, !sends)))
      return false;
  }
  return true;
}

const Op& SimJob::Now(int process) const {
  const Op& op = programs_[process][procs_[process].pc];
  return op.what == Do::kGraph ? op.inside[procs_[process].capturing] : op;
}

std::vector<const Op*> SimJob::InCall(int process) const {
  const Proc& p = procs_[process];
  std::vector<const Op*> ops;
  if (!p.in_call || p.pc >= programs_[process].size()) return ops;
  for (const OpPart& part : p.group_ops) ops.push_back(&part.op);
  if (programs_[process][p.pc].what == Do::kGraph) ops.push_back(&Now(process));
  return ops;
}

bool SimJob::Uses(int comm, int rank) const {
  const int process = comms_[comm].members[rank];
  if (procs_[process].used.count(comm) > 0) return true;
  for (const Op* op : InCall(process)) {
    if (op->what == Do::kCollective && op->comm == comm && !Pairwise(op->call)) return true;
  }
  return false;
}

bool SimJob::UsesPeer(int comm, int rank, int peer, bool send) const {
  const int process = comms_[comm].members[rank];
  if (procs_[process].peers.count({comm, peer, send}) > 0) return true;
  for (const Op* op : InCall(process)) {
    if (op->comm != comm || (op->what == Do::kCollective && !Pairwise(op->call))) continue;
    const auto pairs = PairsOf(process, *op);
    if (std::find(pairs.begin(), pairs.end(), std::pair(peer, send)) != pairs.end()) return true;
  }
  return false;
}

bool SimJob::CanStart(const Launch& launch) const {
  const Proc& p = procs_[launch.process];
  if (launch.started || p.dead || p.stopped) return false;
  for (const auto& [stream, ordinal] : launch.places) {
    if (!DoneTo(p, stream, ordinal - 1)) return false;
    for (const auto& [other, position] : p.streams.at(stream)[ordinal - 1].after) {
      if (!DoneTo(p, other, position)) return false;
    }
  }
  for (int earlier : launch.behind) {
    if (!launches_[earlier].done) return false;
  }
  if (launch.issued_before >= 0 && (launch_order || one_queue) &&
      !launches_[launch.issued_before].started) {
    return false;
  }
  int resident = 0;
  for (const Launch& other : launches_) {
    resident += other.process == launch.process && other.started && !other.done ? 1 : 0;
  }
  if (processors > 0 && resident >= processors) return false;
  return launch.before < 0 || launches_[launch.before].done;
}

bool SimJob::CanEnd(const Launch& launch) const {
  if (!launch.started || launch.done || procs_[launch.process].dead ||
      procs_[launch.process].stopped) {
    return false;
  }
  if (launch.aborted) return true;
  for (const OpPart& part : launch.parts) {
    const int comm = part.op.comm, me = RankIn(comm, launch.process), root = part.op.root_or_peer;
    if (part.op.what == Do::kRecv) {
      if (!P2pStarted(comm, root, me, part.sequence, true)) return false;
    } else if (part.op.what == Do::kCollective) {
      if (comm == held_comm && part.sequence > 0) return false;
      const bool all =
          NeedsAll(part.op.call) ||
          ((part.op.call == Call::kReduce || part.op.call == Call::kGather) && me == root);
      const bool from_root =
          (part.op.call == Call::kBroadcast || part.op.call == Call::kScatter) && me != root;
      for (size_t r = 0; r < comms_[comm].members.size(); ++r) {
        const int rank = static_cast<int>(r);
        if ((all || (from_root && rank == root)) && !Started(comm, rank, part.sequence)) {
          return false;
        }
      }
    }
  }
  return true;
}

bool SimJob::Holds(const Proc& p, const Work& wait) {
  const auto word = p.words.find(wait.word);
  const uint64_t now = word == p.words.end() ? 0 : word->second;
  return wait.condition == MemoryCondition::kEqual ? now == wait.value : now >= wait.value;
}

// Whoever can still call anything can send as many as it likes.
bool SimJob::Arrived(int process, const Work& wait) const {
  const auto line = signals_.find({wait.comm, wait.peer, RankIn(wait.comm, process)});
  return (line != signals_.end() && line->second >= wait.value) ||
         Granted(comms_[wait.comm].members[wait.peer]);
}

// Transitions: process p's host is p; start and end of launch l follow; then the plain work of all.
std::vector<int> SimJob::Enabled() const {
  std::vector<int> enabled;
  const int n = static_cast<int>(procs_.size());
  for (int p = 0; p < n; ++p) {
    if (HostEnabled(p)) enabled.push_back(p);
    for (size_t h = 0; h < procs_[p].helpers.size(); ++h) {
      const Turn turn(*this, p, h);
      if (HostEnabled(p)) enabled.push_back(kHelpers + 100 * p + static_cast<int>(h));
    }
  }
  for (size_t l = 0; l < launches_.size(); ++l) {
    if (CanStart(launches_[l])) enabled.push_back(n + 2 * static_cast<int>(l));
    if (CanEnd(launches_[l])) enabled.push_back(n + 2 * static_cast<int>(l) + 1);
  }
  for (int p = 0; p < n; ++p) {
    if (procs_[p].dead || procs_[p].stopped) continue;
    for (const auto& [stream, works] : procs_[p].streams) {
      for (size_t i = 0; i < works.size(); ++i) {
        const Work& w = works[i];
        if (w.done) continue;
        bool ready = w.launch < 0 && !w.endless;
        for (const auto& [other, position] : w.after) {
          ready = ready && DoneTo(procs_[p], other, position);
        }
        if (w.what == Do::kMemoryWait) ready = ready && Holds(procs_[p], w);
        if (w.what == Do::kWaitSignal) ready = ready && Arrived(p, w);
        if (ready) enabled.push_back(-1 - (p * 10000 + stream * 1000 + static_cast<int>(i)));
        break;  // a stream is in order
      }
    }
  }
  return enabled;
}

void SimJob::Take(int transition) {
  now_ += kStepNs;
  const int n = static_cast<int>(procs_.size());
  if (transition >= kHelpers) {
    const int process = (transition - kHelpers) / 100;
    const Turn turn(*this, process, static_cast<size_t>((transition - kHelpers) % 100));
    Host(process);
  } else if (transition < 0) {
    const int code = -1 - transition;
    Proc& p = procs_[code / 10000];
    Work& work = p.streams[code / 1000 % 10][code % 1000];
    work.done = true;
    if (work.what == Do::kMemoryWrite) p.words[work.word] = work.value;
    if (work.what == Do::kHostFunction && work.word >= 0) p.flags.insert(work.word);
    const int me = RankIn(work.comm, code / 10000);
    if (work.what == Do::kSignal) ++signals_[{work.comm, me, work.peer}];
    if (work.what == Do::kWaitSignal) {
      uint64_t& here = signals_[{work.comm, work.peer, me}];
      here -= std::min(here, work.value);
    }
  } else if (transition < n) {
    Host(transition);
  } else {
    Launch& launch = launches_[(transition - n) / 2];
    if ((transition - n) % 2 == 0) {
      launch.started = true;
    } else {
      launch.done = true;
      for (const auto& [stream, ordinal] : launch.places) {
        Work& work = procs_[launch.process].streams[stream][ordinal - 1];
        // Several launches of one group may share a place.
        bool all = true;
        for (const Launch& other : launches_) {
          if (other.process != launch.process || other.done) continue;
          for (const auto& place : other.places) {
            all = all && place != std::pair(stream, ordinal);
          }
        }
        work.done = all;
      }
    }
  }
}

bool SimJob::Step() {
  const std::vector<int> enabled = Enabled();
  if (enabled.empty()) return false;
  Take(enabled[random_() % enabled.size()]);
  return true;
}

void SimJob::Run(int steps) {
  for (int i = 0; i < steps && Step(); ++i) {
  }
}

std::string SimJob::State() const {
  std::string s;
  for (const Proc& p : procs_) {
    s += std::to_string(p.pc) + (p.in_call ? "c" : "") + std::to_string(p.capturing) + "|";
    for (const auto& [stream, works] : p.streams) {
      for (const Work& w : works) s += w.done ? '1' : '0';
      s += ',';
    }
  }
  // Launches are numbered in the order of their calls, which differs between paths.
  std::vector<std::string> launches;
  for (const Launch& l : launches_) {
    std::string t = std::to_string(l.process) + ":";
    for (const auto& [stream, ordinal] : l.places) {
      t += std::to_string(stream) + "." + std::to_string(ordinal) + " ";
    }
    launches.push_back(t + std::to_string(l.comm) + (l.started ? "s" : "") + (l.done ? "d" : ""));
  }
  std::sort(launches.begin(), launches.end());
  for (const std::string& l : launches) s += ";" + l;
  return s;
}

bool SimJob::Finished(int process) const {
  const Proc& p = procs_[process];
  if (p.dead) return true;
  if (p.pc < programs_[process].size()) {
    const Do next = programs_[process][p.pc].what;
    if (next != Do::kSleep && next != Do::kSpin) return false;
  }
  for (size_t h = 0; h < p.helpers.size(); ++h) {
    if (p.helpers[h].pc < helper_programs_[process][h].size()) return false;
  }
  for (const auto& [stream, works] : p.streams) {
    for (const Work& w : works) {
      if (!w.done) return false;
    }
  }
  return true;
}

bool SimJob::AllDone() const {
  for (const Proc& p : procs_) {
    for (const HostThread& helper : p.helpers) {
      if (p.dead && helper.in_call && !helper.polled) return false;
    }
  }
  return std::all_of(launches_.begin(), launches_.end(),
                     [](const Launch& launch) { return launch.done; });
}

void SimJob::GrantMissing() {
  grant_ = true;
  for (Proc& p : procs_) p.granted_from = p.pc;
}

bool SimJob::Granted(int process) const {
  const Proc& p = procs_[process];
  return grant_ && (!p.in_call || p.pc != p.granted_from);
}

std::set<int> SimJob::Unfinished() const {
  std::set<int> unfinished;
  for (int i = 0; i < static_cast<int>(procs_.size()); ++i) {
    const Proc& p = procs_[i];
    if (!grant_ && !Finished(i)) unfinished.insert(i);
    if (!grant_ || p.dead) continue;
    bool done = Granted(i);
    for (const auto& [stream, works] : p.streams) {
      for (const Work& w : works) done = done && w.done;
    }
    if (!done) unfinished.insert(i);
  }
  return unfinished;
}

}  // namespace gordian::model::testing
