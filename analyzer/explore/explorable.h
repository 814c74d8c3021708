// A machine whose threads can be made to move one by one, as a search for orders sees it.
#ifndef GORDIAN_ANALYZER_EXPLORE_EXPLORABLE_H_
#define GORDIAN_ANALYZER_EXPLORE_EXPLORABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gordian::explore {

// What calls read and change, as bits of resources. Several resources may share a bit: that only
// makes more calls depend on each other.
struct Footprint {
  uint64_t reads = 0, writes = 0;

  Footprint& operator|=(const Footprint& other) {
    reads |= other.reads;
    writes |= other.writes;
    return *this;
  }
};
// True if the order of the two calls may matter.
constexpr bool Depend(const Footprint& a, const Footprint& b) {
  return (a.writes & (b.reads | b.writes)) != 0 || (b.writes & a.reads) != 0;
}

// A thread, in one state of the machine.
struct Actor {
  size_t group = 0;      // its rank
  size_t at = 0;         // calls that it has returned from
  bool in_call = false;  // it is in its next call
  bool enabled = false;  // it can begin or leave its next call
  bool finished = false;
  // Another thread of its rank may go on in its place without a preemption: it is finished, in a
  // call, back from one that waits, or awaits the beginning of another thread's call. Only moves of
  // its own rank may change this.
  bool yields = false;
  Footprint next;  // of its next call
  Footprint rest;  // of all its calls from the next on
};

class Explorable {
 public:
  virtual ~Explorable() = default;
  virtual std::unique_ptr<Explorable> Clone() const = 0;
  // All actors, in an order that never changes.
  virtual std::vector<Actor> Actors() const = 0;
  // Makes the actor's move, and everything after it that no other actor can change. Each move
  // begins or leaves a call.
  virtual void Move(size_t actor) = 0;
  // Equal for states with the same future, and only where all actors are equally far. Empty: not
  // known.
  virtual std::string Key() const = 0;
  // About what a copy takes.
  virtual size_t Bytes() const = 0;
};

// Counts the preemptions of an order, move by move.
class PreemptionCounter {
 public:
  // Whether that actor's move, from the state of `actors`, is one.
  bool Preempts(const std::vector<Actor>& actors, size_t actor) const {
    const size_t group = actors[actor].group;
    const uint32_t last = group < turn_.size() ? turn_[group] : kNobody;
    return last != kNobody && last != actor && !actors[last].yields;
  }
  void Count(const std::vector<Actor>& actors, size_t actor) {
    if (Preempts(actors, actor)) ++preemptions_;
    const size_t group = actors[actor].group;
    if (turn_.size() <= group) turn_.resize(group + 1, kNobody);
    turn_[group] = static_cast<uint32_t>(actor);
  }
  size_t preemptions() const { return preemptions_; }
  // Equal where later moves preempt equally; of equal states.
  std::string Key(const std::vector<Actor>& actors) const {
    std::string key;
    for (size_t group = 0; group < turn_.size(); ++group) {
      if (turn_[group] != kNobody && !actors[turn_[group]].yields)
        key += "," + std::to_string(turn_[group]);
    }
    return key;
  }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;

  std::vector<uint32_t> turn_;  // by group: who moved last
  size_t preemptions_ = 0;
};

// A move: the actor, and the call that it is about.
struct Step {
  size_t actor = 0;
  size_t call = 0;

  friend bool operator==(const Step&, const Step&) = default;
};

}  // namespace gordian::explore

#endif  // GORDIAN_ANALYZER_EXPLORE_EXPLORABLE_H_
