#include "tests/unit/model/sim/random_programs.h"

#include <algorithm>
#include <random>
#include <sstream>

namespace gordian::model::testing {

std::string Print(const Case& c) {
  static const char* const kWords[] = {
      "init",       "split",  "collective", "send",     "recv",       "group(",     ")",
      "kernel",     "hostfn", "record",     "wait",     "streamsync", "devicesync", "eventsync",
      "free",       "copy",   "poll",       "sleep",    "spin",       "exit",       "kill",
      "stop",       "abort",  "destroy",    "finalize", "window",     "graph",      "waitvalue",
      "writevalue", "signal", "waitsignal", "nap",      "read",       "waitflag",   "join",
      "setflag",    "answer", "fork",       "pollcomm"};
  std::ostringstream out;
  out << (c.cold ? "cold" : "warm") << (c.launch_order ? ", launch order\n" : "\n");
  for (size_t i = 0; i < c.comms.size(); ++i) {
    out << "comm " << i << ":";
    for (int m : c.comms[i].members) out << " " << m;
    if (c.comms[i].grown_from >= 0) out << ", grown from " << c.comms[i].grown_from;
    out << "\n";
  }
  const auto print = [&](const Program& program) {
    for (const Op& op : program) {
      if (op.what == Do::kInit) continue;
      out << " " << kWords[static_cast<int>(op.what)];
      if (op.what == Do::kCollective) out << static_cast<int>(op.call);
      if (op.what <= Do::kRecv) out << "[c" << op.comm << " r" << op.root_or_peer << "]";
      out << "s" << op.stream;
      if (op.what == Do::kMemoryWait || op.what == Do::kMemoryWrite) {
        out << "w" << op.event << (op.own ? "" : "?");
      }
      if (op.what == Do::kSignal || op.what == Do::kWaitSignal) {
        out << "[c" << op.comm << " r" << op.root_or_peer << " x" << op.count << "]";
      }
      if (op.what == Do::kEventRecord || op.what == Do::kEventWait || op.what == Do::kEventSync) {
        out << "e" << op.event;
      }
      if (op.after_ns != 0) out << " for " << static_cast<double>(op.after_ns) * 1e-9;
      if (op.flags || (op.what >= Do::kRead && op.what <= Do::kAnswer)) out << "f" << op.event;
      for (const Op& inner : op.inside) {
        out << "{" << static_cast<int>(inner.call) << "c" << inner.comm << "r" << inner.root_or_peer
            << "s" << inner.stream << "}";
      }
    }
    out << "\n";
  };
  for (size_t p = 0; p < c.programs.size(); ++p) {
    out << "rank " << p << ":";
    print(c.programs[p]);
    for (const auto& [process, program] : c.helpers) {
      if (process != static_cast<int>(p)) continue;
      out << "  helper:";
      print(program);
    }
  }
  return out.str();
}

namespace {

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Case Next() {
    Case c;
    const int ranks = 2 + Below(3), comm_count = 1 + Below(3);
    c.cold = Below(4) == 0;
    const bool legacy = Below(6) == 0;
    const int streams = 1 + Below(2);
    c.memory = Below(5) == 0;
    c.launch_order = Below(6) == 0;
    for (int i = 0; i < comm_count; ++i) {
      SimComm comm;
      for (int p = 0; p < ranks; ++p) comm.members.push_back(p);
      while (comm.members.size() > 2 && Below(3) == 0) {
        comm.members.erase(comm.members.begin() + Below(static_cast<int>(comm.members.size())));
      }
      c.comms.push_back(comm);
    }
    // The operations of one correct job, in one order, ...
    c.programs.resize(ranks);
    const int operations = 2 + Below(4);
    for (int i = 0; i < operations; ++i) {
      const int comm = Below(comm_count);
      const auto& members = c.comms[comm].members;
      const int stream = (legacy ? 0 : 1) + Below(streams + (legacy ? 1 : 0));
      const int size = static_cast<int>(members.size());
      if (Below(8) == 0) {
        for (int m : members) c.programs[m].push_back(Window(comm));
      } else if (Below(3) == 0) {
        const int from = Below(size), to = (from + 1 + Below(size - 1)) % size;
        c.programs[members[from]].push_back(Send(comm, to, stream));
        c.programs[members[to]].push_back(Recv(comm, from, stream));
      } else {
        static constexpr Call kKinds[] = {Call::kAllReduce, Call::kAllReduce, Call::kBroadcast,
                                          Call::kReduce, Call::kAllGather};
        const Call call = kKinds[Below(5)];
        const int root = call == Call::kBroadcast || call == Call::kReduce ? Below(size) : -1;
        for (int m : members) c.programs[m].push_back(Collective(call, comm, stream, root));
      }
    }
    // ... then mistakes, waits, events and groups.
    for (Program& p : c.programs) {
      if (p.size() >= 2 && Below(3) == 0) {
        const size_t at = Below(static_cast<int>(p.size()) - 1);
        std::swap(p[at], p[at + 1]);
      }
      if (!p.empty() && Below(10) == 0) p.erase(p.begin() + Below(static_cast<int>(p.size())));
      for (int n = Below(3); n > 0; --n) Insert(&p, streams, legacy);
      for (int n = c.memory ? Below(3) : 0; n > 0; --n) InsertWait(&p, streams);
      if (p.size() >= 2 && Below(5) == 0) Group(&p);
      if (p.size() >= 2 && Below(5) == 0) Capture(&p, 1 + Below(streams));
      Program inits;
      for (int i = 0; i < comm_count; ++i) {
        const int self = static_cast<int>(&p - c.programs.data());
        const auto& m = c.comms[i].members;
        if (std::find(m.begin(), m.end(), self) != m.end()) inits.push_back(Init(i));
      }
      p.insert(p.begin(), inits.begin(), inits.end());
      p.push_back(DeviceSync());
      p.push_back(Sleep());
    }
    return c;
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }

  void Insert(Program* p, int streams, bool legacy) {
    const int stream = (legacy ? 0 : 1) + Below(streams + (legacy ? 1 : 0));
    const auto at = p->begin() + Below(static_cast<int>(p->size()) + 1);
    switch (Below(7)) {
      case 0:
        p->insert(at, DeviceSync());
        break;
      case 1:
        p->insert(at, StreamSync(stream));
        break;
      case 2:
        p->insert(at, Free());
        break;
      case 3:
        p->insert(at, Kernel(stream));
        break;
      case 4:
        p->insert(at, Copy(stream));
        break;
      default: {
        // An event of one stream that another waits for, or the host.
        const int event = 1 + Below(2);
        const size_t index = static_cast<size_t>(at - p->begin());
        p->insert(at, Record(event, stream));
        const size_t later = index + 1 + Below(static_cast<int>(p->size() - index));
        p->insert(p->begin() + static_cast<ptrdiff_t>(later),
                  Below(3) == 0 ? EventSync(event) : WaitEvent(event, 1 + Below(streams)));
        break;
      }
    }
  }

  // A word that is written once, by a stream of the process.
  void InsertWait(Program* p, int streams) {
    const auto place = [&] { return p->begin() + Below(static_cast<int>(p->size()) + 1); };
    const int word = 1 + Below(2);
    Op wait = WaitValue(word, 1 + Below(streams));
    wait.own = Below(6) != 0;
    p->insert(place(), wait);
    if (Below(6) != 0) p->insert(place(), WriteValue(word, 1 + Below(streams)));
  }

  void Group(Program* p) {
    const auto operation = [](const Op& op) {
      return op.what == Do::kCollective || op.what == Do::kSend || op.what == Do::kRecv;
    };
    size_t first = Below(static_cast<int>(p->size()));
    while (first < p->size() && !operation((*p)[first])) ++first;
    size_t last = first;
    while (last < p->size() && last < first + 3 && operation((*p)[last])) ++last;
    if (first >= last) return;
    // Two launches of one group may run in either order: no order of theirs is a proof (W7).
    for (size_t i = first; i < last; ++i) {
      if ((*p)[i].comm != (*p)[first].comm) return;
    }
    p->insert(p->begin() + static_cast<ptrdiff_t>(last), GroupEnd());
    p->insert(p->begin() + static_cast<ptrdiff_t>(first), GroupStart());
  }

  // Up to three operations in a row become a graph of which each keeps its stream, or all share
  // one.
  void Capture(Program* p, int stream) {
    const auto operation = [](const Op& op) {
      return op.what == Do::kCollective || op.what == Do::kSend || op.what == Do::kRecv;
    };
    for (const Op& op : *p) {
      if (op.what == Do::kGroupStart) return;  // what is in a group stays there
    }
    size_t first = Below(static_cast<int>(p->size()));
    while (first < p->size() && !operation((*p)[first])) ++first;
    size_t last = first;
    while (last < p->size() && last < first + 3 && operation((*p)[last])) ++last;
    if (first >= last) return;
    std::vector<Op> inside(p->begin() + static_cast<ptrdiff_t>(first),
                           p->begin() + static_cast<ptrdiff_t>(last));
    if (Below(2) == 0) {
      for (Op& op : inside) op.stream = 1;
    }
    p->erase(p->begin() + static_cast<ptrdiff_t>(first), p->begin() + static_cast<ptrdiff_t>(last));
    p->insert(p->begin() + static_cast<ptrdiff_t>(first), Graph(1, std::move(inside), stream));
  }

  std::mt19937_64 random_;
};

}  // namespace

Case MakeCase(uint64_t number) {
  Case c = Generator(number).Next();
  if (number % 5 != 0) return c;
  for (size_t i = 1; i < c.comms.size(); ++i) {
    for (size_t j = 0; j < i && c.comms[i].grown_from < 0; ++j) {
      const std::vector<int>& all = c.comms[i].members;
      const std::vector<int>& part = c.comms[j].members;
      if (part.size() < all.size() &&
          std::includes(all.begin(), all.end(), part.begin(), part.end())) {
        c.comms[i].grown_from = static_cast<int>(j);
      }
    }
  }
  return c;
}

SignalCase WithSignals(uint64_t number) {
  SignalCase made{MakeCase(number)};
  std::mt19937_64 random(~number);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  made.several_streams = below(3) == 0;
  const auto insert = [&](int process, const Op& op) {
    Program& p = made.job.programs[process];
    size_t first =
        0;  // behind what makes the communicators, in front of the last synchronise, in no group
    while (p[first].what == Do::kInit) ++first;
    size_t at = first + below(p.size() - 1 - first);
    const size_t group = static_cast<size_t>(
        std::find_if(p.begin(), p.end(), [](const Op& o) { return o.what == Do::kGroupStart; }) -
        p.begin());
    const size_t end = static_cast<size_t>(
        std::find_if(p.begin(), p.end(), [](const Op& o) { return o.what == Do::kGroupEnd; }) -
        p.begin());
    if (at > group && at <= end) at = group;
    p.insert(p.begin() + static_cast<ptrdiff_t>(at), op);
  };
  for (size_t pairs = 1 + below(3); pairs > 0; --pairs) {
    const int comm = static_cast<int>(below(made.job.comms.size()));
    const std::vector<int>& members = made.job.comms[comm].members;
    const size_t from = below(members.size()),
                 to = (from + 1 + below(members.size() - 1)) % members.size();
    const auto stream = [&] {
      return made.several_streams ? 1 + static_cast<int>(below(3))
                                  : 1 + (comm + static_cast<int>(from)) % 2;
    };
    const size_t signals = 1 + below(3);
    for (size_t i = 0; i < signals; ++i)
      insert(members[from], Signal(comm, static_cast<int>(to), stream()));
    // Now and then one too many, or as many in one wait.
    size_t waits = signals + (below(6) == 0 ? 1 : 0);
    while (waits > 0) {
      const size_t here = 1 + below(waits);
      insert(members[to], WaitSignal(comm, static_cast<int>(from), stream(), here));
      waits -= here;
    }
  }
  return made;
}

namespace {

bool IsOperation(const Op& op) {
  return op.what == Do::kCollective || op.what == Do::kSend || op.what == Do::kRecv;
}

// Threads beside the first ones, and sleeps that time, another process or a thread ends.
class Outsider {
 public:
  Outsider(Case* c, uint64_t seed) : case_(*c), random_(seed) {}

  void Add() {
    if (Below(2) == 0) {  // nothing but what makes the communicators
      for (Program& p : case_.programs) p.resize(FirstBehindInits(p));
    }
    if (Below(3) != 0) Cross();
    for (int p = 0; p < static_cast<int>(case_.programs.size()); ++p) {
      Program& program = case_.programs[p];
      if (!program.empty() && program.back().what == Do::kSleep) program.pop_back();
      for (int n = Below(3); n > 0; --n) InsertAfter(p, DeviceSync());
      if (Below(2) == 0) MoveToHelper(p);
      if (Below(3) == 0) Insert(p, Below(2) == 0 ? Nap(Time()) : Answered(p));
      if (Below(4) == 0) PollFor(p);
      if (Below(8) == 0) program.insert(program.begin(), Fork(Below(2) == 0));
      const bool joins = Below(2) == 0;
      for (int h = 0; h < Helpers(p) && joins; ++h) program.push_back(Join(h));
      if (Below(2) == 0) program.push_back(Exit(0));
    }
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  uint64_t Time() { return 1'000'000 + random_() % 15'000'000'000; }
  int Helpers(int process) const {
    return static_cast<int>(std::count_if(case_.helpers.begin(), case_.helpers.end(),
                                          [&](const auto& h) { return h.first == process; }));
  }
  static size_t FirstBehindInits(const Program& p) {
    size_t first = 0;
    while (first < p.size() && p[first].what == Do::kInit) ++first;
    return first;
  }
  // Behind what makes the communicators, and in no group.
  size_t Place(const Program& p) {
    const size_t first = FirstBehindInits(p);
    const size_t at = first + static_cast<size_t>(Below(static_cast<int>(p.size() - first) + 1));
    bool in_group = false;
    for (size_t i = 0; i < at; ++i) {
      if (p[i].what == Do::kGroupStart) in_group = true;
      if (p[i].what == Do::kGroupEnd) in_group = false;
    }
    return in_group ? first : at;
  }
  void Insert(int process, const Op& op) {
    Program& p = case_.programs[process];
    p.insert(p.begin() + static_cast<ptrdiff_t>(Place(p)), op);
  }
  void InsertAfter(int process, const Op& op) { Insert(process, op); }

  // Another process answers, or nothing but time does.
  Op Answered(int process) {
    const int pipe = ++pipes_;
    const int other = Below(static_cast<int>(case_.programs.size()));
    if (other == process || Below(2) == 0) return Read(pipe, Time());
    Insert(other, Answer(pipe));
    return Read(pipe);
  }

  void PollFor(int process) {
    Program& p = case_.programs[process];
    const auto at = static_cast<ptrdiff_t>(Place(p));
    p.insert(p.begin() + at, {Record(7, 1), Poll(7, Time())});
  }

  // What lets the helper begin.
  Op Before(int process) {
    switch (Below(4)) {
      case 0:
        return Answered(process);
      case 1: {
        const int flag = ++flags_;
        Insert(process, Below(2) == 0 ? SetFlag(flag) : FlagFunction(flag, 1 + Below(2)));
        return WaitFlag(flag);
      }
      default:
        return Nap(Time());
    }
  }

  void Help(int process, std::vector<Op> does) {
    Program helper = {Before(process)};
    if (Below(4) == 0) helper.push_back(Before(process));
    helper.insert(helper.end(), does.begin(), does.end());
    if (Below(2) == 0) helper.push_back(StreamSync(does.front().stream));
    if (Below(3) == 0) {
      const int flag = ++flags_;
      helper.push_back(SetFlag(flag));
      Insert(process, WaitFlag(flag));
    }
    case_.helpers.emplace_back(process, std::move(helper));
  }

  void MoveToHelper(int process) {
    Program& p = case_.programs[process];
    std::vector<size_t> alone;
    bool in_group = false;
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i].what == Do::kGroupStart) in_group = true;
      if (p[i].what == Do::kGroupEnd) in_group = false;
      if (IsOperation(p[i]) && !in_group) alone.push_back(i);
    }
    if (alone.empty()) return;
    const size_t first = alone[static_cast<size_t>(Below(static_cast<int>(alone.size())))];
    size_t last = first + 1;
    if (Below(3) == 0 && last < p.size() && IsOperation(p[last])) ++last;
    std::vector<Op> does(p.begin() + static_cast<ptrdiff_t>(first),
                         p.begin() + static_cast<ptrdiff_t>(last));
    p.erase(p.begin() + static_cast<ptrdiff_t>(first), p.begin() + static_cast<ptrdiff_t>(last));
    Help(process, std::move(does));
  }

  // Two ranks that wait for each other until a helper of one calls.
  void Cross() {
    const int n = static_cast<int>(case_.programs.size());
    const int one = Below(n), other = (one + 1 + Below(n - 1)) % n;
    SimComm comm;
    comm.members = {one, other};
    const int a = static_cast<int>(case_.comms.size()), b = a + 1;
    case_.comms.push_back(comm);
    case_.comms.push_back(comm);
    for (const int p : {one, other}) {
      Program& program = case_.programs[p];
      const auto at = static_cast<ptrdiff_t>(FirstBehindInits(program));
      program.insert(program.begin() + at, {Init(a), Init(b)});
      const auto to = static_cast<ptrdiff_t>(Place(program));
      const auto from = std::max(to, at + 2);
      if (p == one) {
        program.insert(program.begin() + from,
                       {AllReduce(a, 2), StreamSync(2), AllReduce(b, 2), StreamSync(2)});
      } else {
        program.insert(program.begin() + from, {AllReduce(b, 2), StreamSync(2)});
      }
    }
    Help(other, {AllReduce(a, 1 + Below(3))});
  }

  Case& case_;
  int flags_ = 0, pipes_ = 0;
  std::mt19937_64 random_;
};

}  // namespace

Case WithOutside(uint64_t number) {
  Case c = MakeCase(number);
  Outsider(&c, number * 31 + 7).Add();
  return c;
}

SimJob Make(const Case& c, uint64_t seed) {
  SimJob job(c.comms, c.programs, c.cold, seed);
  for (const auto& [process, program] : c.helpers) job.AddHelper(process, program);
  job.launch_order = c.launch_order;
  const int n = static_cast<int>(c.programs.size());
  for (int p = 0; p < n; ++p) job.env[p] = {p, n};
  return job;
}

}  // namespace gordian::model::testing
