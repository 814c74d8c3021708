// A recovery (docs/recovery.md) in all interleavings, for small programs that are stuck: the shim's
// own decisions (interpose/route/drain.h) in a world of streams, NCCL's kernels, the runtime and
// gordian's two phases, which this file models. A stream may move between any two looks of the
// drain at it, and a communicator's kernels may end each other, or end as if nothing had been
// revoked, until all members have revoked it. Wanted: work behind a gate finds right outputs; if
// one rank refuses, all go on as before; without faults every run ends. Each way to leave a part
// of the protocol out must be found wrong.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpose/route/drain.h"

namespace gordian::interpose {
namespace {

// --- The program: what each rank calls, in order. Every communicator has all ranks of its calls. ---

struct Item {
  enum What { kCollective, kWork, kWait } what;
  int stream;
  int comm;       // of a collective
  int of;         // kWork: reads the output of this item; kWait: the stream waits for it
  bool in_place;  // a collective
  bool late;      // called once the recovery has begun, or later
};
Item Call(int stream, int comm, bool in_place = false) {
  return {Item::kCollective, stream, comm, -1, in_place, false};
}
Item Late(int stream, int comm) { return {Item::kCollective, stream, comm, -1, false, true}; }
Item Work(int stream, int of) { return {Item::kWork, stream, -1, of, false, false}; }
Item Wait(int stream, int of) { return {Item::kWait, stream, -1, of, false, false}; }

struct Program {
  const char* name;
  int comms;
  std::vector<std::vector<Item>> ranks;
};

// What is left out of the protocol, or goes wrong in it.
struct Without {
  bool left = false;       // a kernel counts as left once it has begun
  bool in_place = false;   // an input in place is taken for one that nothing writes over
  bool restore = false;    // the copy of an input is not put back
  bool scratch = false;    // an early unit writes where the program wants it
  bool shut = false;       // the gates are not shut
  bool order = false;      // all gates of a stream open with the first
  bool agreement = false;  // each rank goes by its own answer alone
  bool shadows = false;    // the pool has no room
};
struct Faults {
  bool gordian_ends = false;  // `gordian run` may be killed at any moment
  int ends = -1;              // this rank may be
  int aborts = -1;  // the program of this rank may abort communicator 0 once it is revoked
};

constexpr int kMostItems = 4, kMostRanks = 2, kMostComms = 2, kMostStreams = 2;

// --- The state. ---

enum Value : uint8_t { kInput, kGarbage, kResult };
enum Kernel : uint8_t { kNotBegun, kRunning, kOver };
enum Phase : uint8_t { kIdle, kPrepared, kRefused, kSubmits, kOpens, kHandsOver, kDone, kFailed };
enum Told : uint8_t { kNothing, kPrepare, kCancel, kCommit };

struct Unit {
  bool nccl, early, ready, left, submitted, executed, opened, done, shadowed, queried;
  bool has_scratch, has_saved;
  bool direct;  // called when the runtime had the communicator: no unit of the recovery
  Kernel kernel;
  Value in, out, shadow, scratch, saved;
  uint8_t after_count, gate;
  uint64_t index;
  // Found anew from the program before the drain looks at them.
  const Unit* after[2];
  const Unit* first;
  int comm, place;
  bool in_place;
};

struct Rank {
  std::array<Unit, kMostItems> unit;  // by item; those of collectives count
  std::array<uint8_t, kMostStreams> item, step, gates;
  std::array<uint64_t, kMostStreams> word;
  std::array<uint8_t, kMostComms> tail, revoked, handed, gives_up;
  uint8_t called;
  Phase phase;
  Told told, obeyed;
  bool yes, alive;
  std::array<uint8_t, kMostComms> first;
};
struct State {
  std::array<Rank, kMostRanks> rank;
  bool gordian;
};

// Everything but what is found anew.
std::string KeyOf(const State& s, size_t ranks) {
  std::string key;
  key.reserve(256);
  const auto put = [&](uint64_t value) { key.push_back(static_cast<char>(value)); };
  put(s.gordian);
  for (size_t r = 0; r < ranks; ++r) {
    const Rank& rank = s.rank[r];
    for (const Unit& u : rank.unit) {
      put(u.nccl | u.early << 1 | u.ready << 2 | u.left << 3 | u.submitted << 4 | u.executed << 5 |
          u.opened << 6 | u.done << 7);
      put(u.shadowed | u.queried << 1 | u.has_scratch << 2 | u.has_saved << 3 | u.kernel << 4);
      put(u.in | u.out << 2 | u.shadow << 4 | u.scratch << 6);
      put(u.saved | u.direct << 2);
      put(u.index);
    }
    for (int i = 0; i < kMostStreams; ++i) {
      put(rank.item[i]), put(rank.step[i]), put(rank.gates[i]);
      put(rank.word[i] == kGateOpen ? 255 : rank.word[i]);
    }
    for (int i = 0; i < kMostComms; ++i) {
      put(rank.tail[i]), put(rank.first[i]);
      put(rank.revoked[i] | rank.handed[i] << 1 | rank.gives_up[i] << 2);
    }
    put(rank.called), put(rank.phase), put(rank.told), put(rank.obeyed);
    put(rank.yes | rank.alive << 1);
  }
  return key;
}

class Model {
 public:
  Model(const Program& program, const Without& without, const Faults& faults)
      : program_(program), without_(without), faults_(faults) {}

  // Null: nothing is wrong. `states`: how many there are.
  const char* Explore(size_t* states = nullptr) {
    State start = {};
    start.gordian = true;
    for (size_t r = 0; r < Ranks(); ++r) {
      Rank& rank = start.rank[r];
      rank.alive = true;
      rank.word.fill(kGateOpen);
      while (rank.called < Items(r).size() && !Items(r)[rank.called].late) CallNext(rank, r);
    }
    std::unordered_map<std::string, uint32_t> seen;
    std::vector<std::vector<uint32_t>> from_which;
    std::vector<uint32_t> ends;
    std::deque<State> open;
    const auto add = [&](const State& s, std::string key) {
      const auto [found, added] = seen.try_emplace(std::move(key), seen.size());
      if (added) {
        open.push_back(s);
        from_which.emplace_back();
      }
      return found->second;
    };
    add(start, KeyOf(start, Ranks()));
    for (uint32_t place = 0; !open.empty() && wrong_ == nullptr; ++place) {
      const State from = open.front();
      open.pop_front();
      const std::string before = KeyOf(from, Ranks());
      bool moves = false;
      for (const Step& step : StepsOf(from)) {
        script_.clear();
        do {  // once for each way in which the streams may move meanwhile
          State to = from;
          at_ = 0;
          step(to);
          std::string key = KeyOf(to, Ranks());
          if (key == before) continue;
          moves = true;
          from_which[add(to, std::move(key))].push_back(place);
        } while (wrong_ == nullptr && NextScript());
      }
      if (moves || wrong_ != nullptr) continue;
      ends.push_back(place);
      JudgeEnd(from);
    }
    // The controllers look again and again: from everywhere there must be a way to an end.
    std::vector<bool> ends_from(from_which.size());
    size_t good = 0;
    while (wrong_ == nullptr && !ends.empty()) {
      const uint32_t place = ends.back();
      ends.pop_back();
      if (ends_from[place]) continue;
      ends_from[place] = true;
      ++good;
      ends.insert(ends.end(), from_which[place].begin(), from_which[place].end());
    }
    if (good < from_which.size() && !HasFaults()) Wrong("a run does not end");
    if (states != nullptr) *states = seen.size();
    return wrong_;
  }

 private:
  using Step = std::function<void(State&)>;

  const std::vector<Item>& Items(size_t rank) const { return program_.ranks[rank]; }
  size_t Ranks() const { return program_.ranks.size(); }
  void Wrong(const char* why) {
    if (wrong_ == nullptr) wrong_ = why;
  }

  bool HasFaults() const {
    return faults_.gordian_ends || faults_.ends >= 0 || faults_.aborts >= 0;
  }

  // --- Choices within one step: all of them, one run after the other. ---

  int Choose(int ways) {
    if (at_ == script_.size()) script_.emplace_back(0, ways);
    return script_[at_++].first;
  }
  bool NextScript() {
    while (!script_.empty() && script_.back().first + 1 == script_.back().second) {
      script_.pop_back();
    }
    if (script_.empty()) return false;
    ++script_.back().first;
    return true;
  }

  // --- The program's calls. ---

  int PlaceOf(size_t r, int item) const {
    int place = 0;
    for (int i = 0; i < item; ++i) {
      place += Items(r)[i].what == Item::kCollective && Items(r)[i].comm == Items(r)[item].comm;
    }
    return place;
  }
  int ItemAt(size_t r, int comm, int place) const {
    for (int i = 0; i < static_cast<int>(Items(r).size()); ++i) {
      if (Items(r)[i].what == Item::kCollective && Items(r)[i].comm == comm && place-- == 0)
        return i;
    }
    return -1;
  }
  bool IsMember(size_t r, int comm) const { return ItemAt(r, comm, 0) >= 0; }
  int UnitsOf(const Rank& rank, size_t r, int comm) const {
    int units = 0;
    for (int i = 0; i < rank.called; ++i) {
      units +=
          Items(r)[i].what == Item::kCollective && Items(r)[i].comm == comm && !rank.unit[i].direct;
    }
    return units;
  }

  // BeginArmed, Place and EndArmed of recovery.cc.
  void CallNext(Rank& rank, size_t r) {
    const Item& item = Items(r)[rank.called];
    if (item.what == Item::kCollective) {
      Unit& unit = rank.unit[rank.called];
      unit.nccl = rank.phase < kSubmits;
      unit.direct = rank.handed[item.comm] != 0;
      if (!unit.direct) {
        unit.index = ++rank.gates[item.stream];
        unit.gate = static_cast<uint8_t>(item.stream);
        uint64_t& word = rank.word[item.stream];
        if (!unit.nccl && word == kGateOpen) word = unit.index - 1;
      }
    }
    ++rank.called;
  }

  // What the analyzer says: nothing but units stand between it and those in front of it.
  void SetEarly(Rank& rank, size_t r) const {
    for (int i = 0; i < rank.called; ++i) {
      const Item& item = Items(r)[i];
      if (item.what != Item::kCollective) continue;
      Unit& unit = rank.unit[i];
      unit.after_count = 0;
      bool early = true, in_front = false;
      for (int j = i - 1; j >= 0 && early && !in_front; --j) {
        if (Items(r)[j].stream != item.stream) continue;
        if (Items(r)[j].what == Item::kCollective) in_front = true;
        if (Items(r)[j].what == Item::kWork) early = false;
      }
      for (int j = 0; j < i; ++j) {
        if (Items(r)[j].stream == item.stream && Items(r)[j].what == Item::kWait) in_front = true;
      }
      unit.early = early && in_front;
    }
  }
  void FindAnew(Rank& rank, size_t r) const {
    for (int i = 0; i < static_cast<int>(Items(r).size()); ++i) {
      const Item& item = Items(r)[i];
      Unit& unit = rank.unit[i];
      unit.comm = item.comm;
      unit.in_place = item.in_place;
      unit.place = item.what == Item::kCollective ? PlaceOf(r, i) : 0;
      unit.first = nullptr;
      unit.after_count = 0;
      if (!unit.early) continue;
      for (int j = i - 1; j >= 0; --j) {
        if (Items(r)[j].stream != item.stream) continue;
        const int after = Items(r)[j].what == Item::kWait ? Items(r)[j].of : j;
        unit.after[unit.after_count++] = &rank.unit[after];
        if (Items(r)[j].what == Item::kCollective) break;
      }
    }
  }

  // --- Streams. ---

  // Whether the stream of a living rank has a step that it can take.
  bool CanMove(const State& s, size_t r, int stream) const {
    const Rank& rank = s.rank[r];
    int at = rank.item[stream];
    while (at < rank.called && Items(r)[at].stream != stream) ++at;
    if (!rank.alive || at >= rank.called) return false;
    const Item& item = Items(r)[at];
    const Unit& unit = rank.unit[at];
    if (item.what == Item::kWork) return true;
    if (item.what == Item::kWait) {
      const Item& awaited = Items(r)[item.of];
      return rank.item[awaited.stream] > item.of;
    }
    if (rank.step[stream] == 0) {  // the copy of its input, and the kernel
      if (unit.direct) return unit.executed || !unit.submitted;
      if (!unit.nccl || unit.kernel == kNotBegun) return true;
      bool all = true, hurt = false;
      for (size_t q = 0; q < Ranks(); ++q) {
        if (!IsMember(q, item.comm)) continue;
        const int theirs = ItemAt(q, item.comm, unit.place);
        const bool begun = theirs >= 0 && s.rank[q].unit[theirs].kernel != kNotBegun;
        all = all && begun;
        hurt = hurt || (s.rank[q].revoked[item.comm] != 0 && (begun || q == r));
      }
      return all || hurt;
    }
    return rank.word[stream] >= unit.index;  // behind its event: the gate
  }

  void Move(State& s, size_t r, int stream) {
    Rank& rank = s.rank[r];
    int at = rank.item[stream];
    while (Items(r)[at].stream != stream) ++at;
    rank.item[stream] = static_cast<uint8_t>(at);
    const Item& item = Items(r)[at];
    Unit& unit = rank.unit[at];
    const auto next = [&] {
      rank.step[stream] = 0;
      ++rank.item[stream];
    };
    if (item.what == Item::kWait) return next();
    if (item.what == Item::kWork) {
      const Unit& read = rank.unit[item.of];
      if (read.out != kResult && rank.gives_up[Items(r)[item.of].comm] == 0) {
        Wrong("work has read an output that is not right");
      }
      return next();
    }
    if (rank.step[stream] == 1) return next();
    if (unit.direct) {
      if (unit.submitted) return next();  // it is executed
      unit.submitted = true;
      return;
    }
    if (!unit.nccl) {  // its event alone
      unit.done = true;
      rank.step[stream] = 1;
      return;
    }
    if (unit.kernel == kNotBegun) {
      if (item.in_place && !without_.shadows) {
        unit.shadowed = true;
        unit.shadow = unit.in;
      }
      unit.kernel = kRunning;
      return;
    }
    bool all = true, hurt = false;
    for (size_t q = 0; q < Ranks(); ++q) {
      if (!IsMember(q, item.comm)) continue;
      const int theirs = ItemAt(q, item.comm, unit.place);
      all = all && theirs >= 0 && s.rank[q].unit[theirs].kernel != kNotBegun;
      hurt = hurt || s.rank[q].revoked[item.comm] != 0;
    }
    unit.kernel = kOver;
    unit.out = all && !hurt ? kResult : kGarbage;
    if (item.in_place) unit.in = unit.out;
    unit.done = true;
    rank.step[stream] = 1;
  }

  // The rank's own streams may move before the drain looks at them.
  void Meanwhile(State& s, size_t r) {
    for (;;) {
      std::vector<int> can;
      for (int i = 0; i < kMostStreams; ++i) {
        if (CanMove(s, r, i)) can.push_back(i);
      }
      if (can.empty()) return;
      const int choice = Choose(static_cast<int>(can.size()) + 1);
      if (choice == 0) return;
      Move(s, r, can[static_cast<size_t>(choice) - 1]);
    }
  }

  // --- What the drain sees: ArmedProcess of recovery.cc. ---

  struct World {
    using Unit = interpose::Unit;
    Model& model;
    State& s;
    size_t r;
    Rank& rank() const { return s.rank[r]; }

    uint32_t Comms() const { return static_cast<uint32_t>(model.program_.comms); }
    uint64_t Head(uint32_t comm) const {
      return static_cast<uint64_t>(model.UnitsOf(rank(), r, static_cast<int>(comm)));
    }
    uint64_t Tail(uint32_t comm) const { return rank().tail[comm]; }
    void SetTail(uint32_t comm, uint64_t tail) { rank().tail[comm] = static_cast<uint8_t>(tail); }
    Unit& At(uint32_t comm, uint64_t place) const {
      return rank().unit[static_cast<size_t>(
          model.ItemAt(r, static_cast<int>(comm), static_cast<int>(place)))];
    }
    bool IsDone(const Unit& unit) {
      model.Meanwhile(s, r);
      return unit.done ||
             (model.without_.left && rank().phase >= kSubmits && unit.kernel == kRunning);
    }
    bool IsInPlace(uint32_t, const Unit& unit) const {
      return unit.in_place && !model.without_.in_place;
    }
    grtResult_t SaveInput(uint32_t comm, Unit& unit) {
      model.Meanwhile(s, r);
      if (!unit.nccl || !IsInPlace(comm, unit)) return grtSuccess;
      if (!unit.left) {
        unit.saved = unit.in;
        unit.has_saved = true;
        return grtSuccess;
      }
      unit.has_scratch = unit.has_saved = false;
      if (model.without_.restore) return grtSuccess;
      if (!unit.shadowed) return grtAborted;
      unit.in = unit.shadow;
      return grtSuccess;
    }
    grtResult_t Submit(uint32_t comm, Unit& unit) {
      if (unit.left) unit.has_scratch = false;
      if (rank().gives_up[comm] != 0) return grtAborted;
      for (int place = 0; place < unit.place; ++place) {
        const Unit& before = At(comm, static_cast<uint64_t>(place));
        if (!before.submitted && !before.done) model.Wrong("submitted out of order");
      }
      return grtSuccess;
    }
    grtResult_t Query(Unit& unit) {
      if (unit.queried) return grtSuccess;
      for (size_t q = 0; q < model.Ranks(); ++q) {
        if (!model.IsMember(q, unit.comm)) continue;
        const bool gone =
            !s.rank[q].alive || s.rank[q].gives_up[static_cast<size_t>(unit.comm)] != 0;
        if (gone && model.Choose(2) != 0) return grtPeerDead;
      }
      return grtInProgress;
    }
    grtResult_t MoveOutput(uint32_t, Unit& unit) {
      model.Meanwhile(s, r);
      if (unit.has_scratch) unit.out = unit.scratch;
      if (unit.has_scratch && unit.in_place) unit.in = unit.scratch;
      unit.has_scratch = false;
      return grtSuccess;
    }
    struct GateLock {
      GateLock(World&, const Unit&) {}
      ~GateLock() {}
    };
    uint64_t Word(const Unit& unit) const { return rank().word[unit.gate]; }
    void SetWord(const Unit& unit, uint64_t value) {
      model.Meanwhile(s, r);
      if (model.without_.shut && value != kGateOpen && rank().phase == kIdle) return;
      rank().word[unit.gate] = model.without_.order && rank().phase != kIdle ? kGateOpen : value;
    }
  };

  // --- The controller: Prepare, Cancel and Commit of recovery.cc. ---

  void Prepare(State& s, size_t r) {
    Rank& rank = s.rank[r];
    SetEarly(rank, r);
    FindAnew(rank, r);
    World world = {*this, s, r};
    Drain<World> drain(world);
    drain.Shut();
    rank.yes = true;
    drain.ForEach([&](uint32_t, const Unit& unit) {
      // A copy is promised when the call is made; the stream makes it.
      if (unit.in_place && !unit.early && without_.shadows && !without_.restore) rank.yes = false;
    });
    for (int comm = 0; comm < program_.comms; ++comm) rank.first[comm] = rank.tail[comm];
    if (!rank.yes) {
      drain.OpenAll();
      rank.phase = kRefused;
    } else {
      drain.ForEach(
          [&](uint32_t, Unit& unit) { unit.has_scratch = unit.early && !without_.scratch; });
      rank.phase = kPrepared;
    }
    rank.obeyed = kPrepare;
  }

  void Cancel(State& s, size_t r) {
    Rank& rank = s.rank[r];
    FindAnew(rank, r);
    World world = {*this, s, r};
    Drain<World>(world).OpenAll();
    rank.phase = kRefused;
  }

  void Control(State& s, size_t r) {
    Rank& rank = s.rank[r];
    FindAnew(rank, r);
    World world = {*this, s, r};
    Drain<World> drain(world);
    grtResult_t failed = grtSuccess;
    if (rank.phase == kSubmits) failed = drain.SubmitReady();
    if (rank.phase == kOpens) failed = drain.OpenDone();
    if (rank.phase == kHandsOver) {
      bool over = true;
      for (int comm = 0; comm < program_.comms; ++comm) {
        if (rank.handed[comm] == 0 && drain.MayHandOver(static_cast<uint32_t>(comm))) {
          rank.handed[comm] = 1;
        }
        over = over && rank.handed[comm] != 0 &&
               world.Tail(static_cast<uint32_t>(comm)) == world.Head(static_cast<uint32_t>(comm));
        if (rank.gives_up[comm] != 0) failed = grtAborted;
      }
      rank.phase = over ? kDone : kSubmits;
    } else {
      rank.phase = rank.phase == kSubmits ? kOpens : kHandsOver;
    }
    if (failed != grtSuccess) rank.phase = kFailed;
  }

  // A program that aborts gets its gates opened, whatever comes of the data.
  void GiveUp(State& s, size_t r) {
    Rank& rank = s.rank[r];
    FindAnew(rank, r);
    World world = {*this, s, r};
    Drain<World> drain(world);
    drain.ForEach([&](uint32_t comm, Unit& unit) {
      if (rank.gives_up[comm] != 0 && !unit.opened) drain.Open(unit);
    });
  }

  // --- The runtime: an operation that all members have submitted. ---

  bool CanExecute(const State& s, int comm, int place) const {
    for (size_t r = 0; r < Ranks(); ++r) {
      if (!IsMember(r, comm)) continue;
      const int item = ItemAt(r, comm, place);
      if (item < 0 || !s.rank[r].alive || !s.rank[r].unit[item].submitted ||
          s.rank[r].gives_up[comm] != 0 || s.rank[r].unit[item].queried) {
        return false;
      }
    }
    return true;
  }
  void Execute(State& s, int comm, int place) {
    bool right = true;
    for (size_t r = 0; r < Ranks(); ++r) {
      if (!IsMember(r, comm)) continue;
      const Unit& unit = s.rank[r].unit[ItemAt(r, comm, place)];
      right = right && (unit.has_saved ? unit.saved : unit.in) == kInput;
    }
    for (size_t r = 0; r < Ranks(); ++r) {
      if (!IsMember(r, comm)) continue;
      Unit& unit = s.rank[r].unit[ItemAt(r, comm, place)];
      const Value value = right ? kResult : kGarbage;
      (unit.has_scratch ? unit.scratch : unit.out) = value;
      if (!unit.has_scratch && Items(r)[ItemAt(r, comm, place)].in_place) unit.in = value;
      unit.queried = true;
      unit.executed = unit.executed || unit.direct;
    }
  }

  // --- gordian's two phases: Run of collector/recovery/recovery.cc. ---

  bool AllSayYes(const State& s) const {
    std::array<int, kMostComms> first = {-1, -1};
    for (size_t r = 0; r < Ranks(); ++r) {
      if (!s.rank[r].yes) return false;
      for (int comm = 0; comm < program_.comms; ++comm) {
        if (!IsMember(r, comm)) continue;
        if (first[comm] >= 0 && first[comm] != s.rank[r].first[comm]) return false;
        first[comm] = s.rank[r].first[comm];
      }
    }
    return true;
  }

  // --- Everything that may happen next. ---

  std::vector<Step> StepsOf(const State& s) {
    std::vector<Step> steps;
    const auto on = [&](auto&& step) { steps.emplace_back(step); };
    bool all_answered = true;
    for (size_t r = 0; r < Ranks(); ++r)
      all_answered = all_answered && s.rank[r].obeyed != kNothing;
    const bool commits = all_answered && AllSayYes(s);
    for (size_t r = 0; r < Ranks(); ++r) {
      const Rank& rank = s.rank[r];
      if (!rank.alive) continue;
      for (int i = 0; i < kMostStreams; ++i) {
        if (CanMove(s, r, i)) on([this, r, i](State& to) { Move(to, r, i); });
      }
      // Calls wait while a recovery is being prepared.
      if (rank.called < Items(r).size() && rank.phase != kPrepared) {
        on([this, r](State& to) { CallNext(to.rank[r], r); });
      }
      // gordian goes from rank to rank.
      const bool next = r == 0 || s.rank[r - 1].told > rank.told;
      if (s.gordian && rank.told == kNothing && next) {
        on([r](State& to) { to.rank[r].told = kPrepare; });
      }
      if (s.gordian && next && all_answered && rank.told == kPrepare) {
        const bool goes_on = without_.agreement ? rank.yes : commits;
        on([r, goes_on](State& to) { to.rank[r].told = goes_on ? kCommit : kCancel; });
      }
      // The deadlock is proven before: no kernel of it can end.
      if (rank.told == kPrepare && rank.obeyed == kNothing && IsStuck(s)) {
        on([this, r](State& to) { Prepare(to, r); });
      }
      if (rank.phase == kPrepared && (rank.told == kCancel || !s.gordian)) {
        on([this, r](State& to) { Cancel(to, r); });
      }
      if (rank.phase == kPrepared && rank.told == kCommit) {
        on([r](State& to) { to.rank[r].phase = kSubmits; });
      }
      if (rank.phase >= kSubmits && rank.phase <= kHandsOver) {
        on([this, r](State& to) { Control(to, r); });
      }
      if (rank.phase == kFailed) on([this, r](State& to) { GiveUp(to, r); });
      for (int comm = 0; rank.phase >= kSubmits && comm < program_.comms; ++comm) {
        if (rank.revoked[comm] == 0 && IsMember(r, comm)) {
          on([r, comm](State& to) { to.rank[r].revoked[comm] = 1; });
        }
      }
      if (faults_.ends == static_cast<int>(r)) on([r](State& to) { to.rank[r].alive = false; });
      if (faults_.aborts == static_cast<int>(r) && rank.revoked[0] != 0) {
        on([r](State& to) { to.rank[r].gives_up[0] = 1; });
      }
    }
    for (int comm = 0; comm < program_.comms; ++comm) {
      for (int place = 0; place < kMostItems; ++place) {
        if (CanExecute(s, comm, place)) {
          on([this, comm, place](State& to) { Execute(to, comm, place); });
        }
      }
    }
    if (faults_.gordian_ends && s.gordian) on([](State& to) { to.gordian = false; });
    return steps;
  }

  // Nothing of NCCL's moves any more, as a confirmed verdict says.
  bool IsStuck(const State& s) const {
    for (size_t r = 0; r < Ranks(); ++r) {
      if (s.rank[r].phase >= kPrepared) return true;  // it was
      for (int i = 0; i < kMostStreams; ++i) {
        if (CanMove(s, r, i)) return false;
      }
    }
    return true;
  }

  void JudgeEnd(const State& s) {
    if (HasFaults()) return;
    bool refused = false;
    for (size_t r = 0; r < Ranks(); ++r) refused = refused || s.rank[r].phase == kRefused;
    for (size_t r = 0; r < Ranks(); ++r) {
      const Rank& rank = s.rank[r];
      if (refused) {
        if (rank.phase != kRefused) Wrong("one rank goes on, another has refused");
        for (const uint64_t word : rank.word) {
          if (word != kGateOpen) Wrong("a gate is shut after a refusal");
        }
        continue;
      }
      if (rank.phase != kDone) Wrong("the recovery does not end");
      for (int i = 0; i < static_cast<int>(Items(r).size()); ++i) {
        if (Items(r)[i].what == Item::kCollective && rank.unit[i].out != kResult) {
          Wrong("an operation has ended with another result");
        }
        if (rank.item[Items(r)[i].stream] <= i) Wrong("a stream does not end");
      }
    }
  }

  const Program program_;
  const Without without_;
  const Faults faults_;
  const char* wrong_ = nullptr;
  std::vector<std::pair<int, int>> script_;  // choice, of so many
  size_t at_ = 0;
};

// --- Programs that are stuck. Communicators are 0 and 1. ---

Program Opposite(bool in_place) {
  return {"opposite orders on one stream",
          2,
          {{Call(0, 0, in_place), Call(0, 1, in_place), Work(0, 0), Work(0, 1)},
           {Call(0, 1, in_place), Call(0, 0, in_place), Work(0, 0), Work(0, 1)}}};
}
Program InPlaceAtOne() {
  Program program = Opposite(false);
  for (Item& item : program.ranks[0]) item.in_place = item.what == Item::kCollective;
  return program;
}
Program WithMore() {
  return {"another operation of the first communicator behind both, and work between",
          2,
          {{Call(0, 0, true), Call(0, 1, true), Work(0, 1), Call(0, 0)},
           {Call(0, 1, true), Call(0, 0, true), Work(0, 0), Call(0, 0)}}};
}
Program WithLateCalls() {
  return {"the host calls on",
          2,
          {{Call(0, 0), Call(0, 1, true), Late(0, 0)}, {Call(0, 1), Call(0, 0, true), Late(0, 0)}}};
}
Program Events() {
  return {"two streams that wait for each other's operations",
          2,
          {{Call(0, 0), Wait(1, 0), Call(1, 1), Work(1, 2)},
           {Call(1, 1), Wait(0, 0), Call(0, 0), Work(0, 2)}}};
}
void ExpectRight(const Program& program, const Faults& faults = {}) {
  size_t states = 0;
  Model model(program, {}, faults);
  const char* const wrong = model.Explore(&states);
  EXPECT_EQ(wrong, nullptr) << program.name << ": " << wrong;
  EXPECT_GT(states, 100u) << program.name;
  ::testing::Test::RecordProperty(program.name, static_cast<int>(states));
}
void ExpectWrong(const Program& program, const Without& without, const char* what) {
  Model model(program, without, {});
  EXPECT_NE(model.Explore(), nullptr) << program.name << ", without " << what;
}

TEST(DrainModel, EveryRunEndsRight) {
  for (const bool in_place : {false, true}) ExpectRight(Opposite(in_place));
  ExpectRight(WithMore());
  ExpectRight(WithLateCalls());
  ExpectRight(Events());
}

TEST(DrainModel, NothingReadsWhatIsWrongWhenSomethingBreaksInTheMiddle) {
  for (const bool in_place : {false, true}) {
    ExpectRight(Opposite(in_place), {.gordian_ends = true});
    ExpectRight(Opposite(in_place), {.ends = 1});
    ExpectRight(Opposite(in_place), {.aborts = 0});
    ExpectRight(Opposite(in_place), {.aborts = 1});
  }
  ExpectRight(WithLateCalls(), {.aborts = 0});
}

TEST(DrainModel, APoolWithoutRoomIsRefusedByAll) {
  for (const Program& program : {Opposite(true), InPlaceAtOne()}) {
    EXPECT_EQ(Model(program, {.shadows = true}, {}).Explore(), nullptr);
  }
}

TEST(DrainModel, NoPartCanBeLeftOut) {
  ExpectWrong(Opposite(false), {.left = true}, "the look whether a kernel has left");
  ExpectWrong(Opposite(true), {.in_place = true}, "care for inputs in place");
  ExpectWrong(Opposite(true), {.restore = true}, "the copies of inputs");
  ExpectWrong(Opposite(false), {.scratch = true}, "memory of its own for what is early");
  ExpectWrong(Opposite(false), {.shut = true}, "gates");
  ExpectWrong(Opposite(false), {.order = true}, "an order of the gates");
  ExpectWrong(InPlaceAtOne(), {.agreement = true, .shadows = true}, "agreement");
}

}  // namespace
}  // namespace gordian::interpose
