// The quit protocol of runtime/core/life.h, in all interleavings: two submitters, the leader, one
// block, a watcher that acts on changes of the bell alone (no timer), at most four instances.
// Memory is PSO: each actor's stores wait in a buffer and reach memory in any order but per word;
// fences drain it.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <tuple>
#include <vector>

#include "runtime/core/life.h"

namespace gordian::runtime {
namespace {

enum Word { kPub0, kPub1, kLife, kBell, kContext, kWords };
enum Actor { kSubmitter0, kSubmitter1, kLeader, kBlock, kWatcher, kActors };

// What is left out of the protocol.
struct Without {
  bool s4 = false, d2 = false, d3 = false, arrival = false, d6_look = false, d6_fence = false,
       only_from_down = false, start_fence = false;
};

struct State {
  std::array<int8_t, kWords> memory{};
  std::array<std::vector<std::pair<int8_t, int8_t>>, kActors> buffer;
  std::array<int8_t, kActors> pc{};
  std::array<int8_t, 2> consumed{};
  int8_t instances = 1;
  int8_t queued = 0;  // launched, and not started yet: on one stream
  int8_t told = 0;    // the block is to quit
  int8_t arrived = 0;
  int8_t seen_bell = 0;
  int8_t rings = 0;  // of the leader: each is another value of the bell
  int8_t work = 0;   // what the block's context must say when it is saved
  bool operator<(const State& o) const {
    return std::tie(memory, buffer, pc, consumed, instances, queued, told, arrived, seen_bell,
                    rings, work) < std::tie(o.memory, o.buffer, o.pc, o.consumed, o.instances,
                                            o.queued, o.told, o.arrived, o.seen_bell, o.rings,
                                            o.work);
  }
};

constexpr int8_t kMostInstances = 4;
constexpr int8_t kGone = 9;  // the leader's kernel has ended

int8_t Load(const State& s, int actor, int word) {
  for (auto at = s.buffer[actor].rbegin(); at != s.buffer[actor].rend(); ++at) {
    if (at->first == word) return at->second;
  }
  return s.memory[word];
}
void Store(State& s, int actor, int word, int8_t value) {
  s.buffer[actor].emplace_back(static_cast<int8_t>(word), value);
}
void Drain(State& s, int actor) {
  for (const auto& [word, value] : s.buffer[actor]) s.memory[word] = value;
  s.buffer[actor].clear();
}
// A release: what was stored before is there first.
void StoreRelease(State& s, int actor, int word, int8_t value) {
  Drain(s, actor);
  Store(s, actor, word, value);
}
bool Unconsumed(const State& s) {
  return Load(s, kLeader, kPub0) > s.consumed[0] || Load(s, kLeader, kPub1) > s.consumed[1];
}

// Why a state must not be; null when it may.
const char* StepSubmitter(int who, State& s, const Without& w) {
  switch (s.pc[who]++) {
    case 0:
      Store(s, who, who == kSubmitter0 ? kPub0 : kPub1, 1);
      return nullptr;
    case 1:
      if (!w.s4) Drain(s, who);
      return nullptr;
    case 2:
      if (Load(s, who, kLife) == kRunning) s.pc[who] = 4;
      return nullptr;
    default:
      StoreRelease(s, who, kBell, static_cast<int8_t>(who + 1));
      return nullptr;
  }
}

// False: it waits.
bool StepLeader(State& s, const Without& w, bool quits, const char** wrong) {
  switch (s.pc[kLeader]) {
    case 0:  // start
      Store(s, kLeader, kLife, kRunning);
      if (!w.start_fence) Drain(s, kLeader);
      s.told = s.arrived = 0;
      s.pc[kBlock] = 0;
      if (s.memory[kContext] != s.work) *wrong = "started before the context was saved";
      s.pc[kLeader] = 1;
      return true;
    case 1:  // runs
      if (Unconsumed(s)) {
        if (quits) return false;
        const int i = Load(s, kLeader, kPub0) > s.consumed[0] ? 0 : 1;
        ++s.consumed[i];
        ++s.work;
        return true;
      }
      if (!quits || s.instances >= kMostInstances) return false;
      Store(s, kLeader, kLife, kQuitting);
      s.pc[kLeader] = 2;
      return true;
    case 2:
      if (!w.d2) Drain(s, kLeader);
      s.pc[kLeader] = 3;
      return true;
    case 3:
      if (!w.d3 && Unconsumed(s)) {
        Store(s, kLeader, kLife, kRunning);
        s.pc[kLeader] = 1;
        return true;
      }
      s.told = 1;
      s.pc[kLeader] = 4;
      return true;
    case 4:
      if (s.arrived == 0 && !w.arrival) return false;
      StoreRelease(s, kLeader, kLife, kDown);
      s.pc[kLeader] = 5;
      return true;
    case 5:
      if (!w.d6_fence) Drain(s, kLeader);
      s.pc[kLeader] = 6;
      return true;
    case 6:
      if (!w.d6_look && Unconsumed(s))
        StoreRelease(s, kLeader, kBell, static_cast<int8_t>(10 + s.rings++));
      s.pc[kLeader] = 7;
      return true;
    case 7:  // the end of a kernel makes its stores visible
      Drain(s, kLeader);
      s.pc[kLeader] = kGone;
      return true;
    default:  // gone: the next one, if it was launched
      if (s.queued == 0) return false;
      --s.queued;
      s.pc[kLeader] = 0;
      return true;
  }
}

bool StepBlock(State& s) {
  if (s.told == 0 || s.pc[kBlock] >= 2) return false;
  if (s.pc[kBlock]++ == 0) {
    Store(s, kBlock, kContext, s.work);
  } else {
    Drain(s, kBlock);  // arrives: acquire and release
    s.arrived = 1;
  }
  return true;
}

bool StepWatcher(State& s, const Without& w, const char** wrong) {
  const int8_t bell = Load(s, kWatcher, kBell);
  if (bell == s.seen_bell) return false;
  s.seen_bell = bell;
  const int8_t life = Load(s, kWatcher, kLife);
  if (life != kDown && !w.only_from_down) return true;
  if (w.only_from_down && life == kRunning) return true;
  if (s.queued > 0 || s.instances >= kMostInstances) *wrong = "two instances at once";
  if (s.pc[kLeader] < 5) *wrong = "two instances at once";
  Store(s, kWatcher, kLife, kStarting);
  Drain(s, kWatcher);  // a launch is a call of the driver
  ++s.instances;
  ++s.queued;
  return true;
}

struct Verdict {
  size_t states = 0;
  const char* wrong = nullptr;
};

Verdict Check(const Without& w) {
  Verdict verdict;
  State first;
  first.memory[kLife] = kStarting;
  std::set<State> seen = {first};
  std::vector<State> open = {first};
  while (!open.empty()) {
    const State s = std::move(open.back());
    open.pop_back();
    bool any = false;
    const char* wrong = nullptr;
    const auto reach = [&](State next) {
      any = true;
      if (seen.insert(next).second) open.push_back(std::move(next));
    };
    for (const int who : {kSubmitter0, kSubmitter1}) {
      if (s.pc[who] >= 4) continue;
      State next = s;
      StepSubmitter(who, next, w);
      reach(next);
    }
    for (const bool quits : {false, true}) {
      State next = s;
      if (StepLeader(next, w, quits, &wrong)) reach(next);
    }
    State next = s;
    if (StepBlock(next)) reach(next);
    next = s;
    if (StepWatcher(next, w, &wrong)) reach(next);
    for (int actor = 0; actor < kActors; ++actor) {
      for (size_t i = 0; i < s.buffer[actor].size(); ++i) {
        bool oldest = true;
        for (size_t j = 0; j < i; ++j)
          oldest = oldest && s.buffer[actor][j].first != s.buffer[actor][i].first;
        if (!oldest) continue;
        next = s;
        next.memory[s.buffer[actor][i].first] = s.buffer[actor][i].second;
        next.buffer[actor].erase(next.buffer[actor].begin() + static_cast<std::ptrdiff_t>(i));
        reach(next);
      }
    }
    if (!any && (s.consumed[0] == 0 || s.consumed[1] == 0)) wrong = "a submission was lost";
    if (s.consumed[0] > 1 || s.consumed[1] > 1) wrong = "a submission was consumed twice";
    if (wrong != nullptr) {
      verdict.wrong = wrong;
      break;
    }
  }
  verdict.states = seen.size();
  return verdict;
}

TEST(QuitModel, LosesNothing) {
  const Verdict v = Check({});
  EXPECT_EQ(v.wrong, nullptr) << v.wrong;
  EXPECT_GT(v.states, 1000u);
  RecordProperty("states", static_cast<int>(v.states));
}

TEST(QuitModel, EveryNecessaryPartIsNecessary) {
  const auto lost = [](Without w) { return Check(w).wrong; };
  EXPECT_STREQ(lost({.s4 = true}), "a submission was lost");
  EXPECT_STREQ(lost({.d6_look = true}), "a submission was lost");
  EXPECT_STREQ(lost({.d6_fence = true}), "a submission was lost");
  EXPECT_STREQ(lost({.arrival = true}), "started before the context was saved");
  EXPECT_NE(lost({.only_from_down = true}), nullptr);
}

TEST(QuitModel, TheRestIsNot) {
  EXPECT_EQ(Check({.d2 = true}).wrong, nullptr);
  EXPECT_EQ(Check({.d3 = true}).wrong, nullptr);
  EXPECT_EQ(Check({.start_fence = true}).wrong, nullptr);
}

}  // namespace
}  // namespace gordian::runtime
