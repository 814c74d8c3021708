// Searches the orders that threads are free to call in for those in which nothing moves any more.
//
// A depth-first search over the states of a machine that others supply. In each state it branches
// over a persistent set (P. Godefroid, Partial-Order Methods for the Verification of Concurrent
// Systems, LNCS 1032, 1996, chapter 4; A. Valmari's stubborn sets before him): calls of one group
// of actors that no call outside of the set can depend on before one of the set is made. Ranks are
// the groups, since only calls of one rank can depend on each other's order. It enters no state
// twice. Each move takes a thread further, so no state comes again, and such a search meets
// every state in which nothing moves: the deadlocks are among these.
//
// Pure, deterministic, not thread-safe.
#ifndef GORDIAN_ANALYZER_EXPLORE_ORDER_SEARCH_H_
#define GORDIAN_ANALYZER_EXPLORE_ORDER_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
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
  Footprint next;  // of its next call
  Footprint rest;  // of all its calls from the next on
};

class Explorable {
 public:
  virtual ~Explorable() = default;
  virtual std::unique_ptr<Explorable> Clone() const = 0;
  // All actors, in an order that never changes.
  virtual std::vector<Actor> Actors() const = 0;
  // Makes the actor's move, and everything after it that no other actor can change.
  virtual void Move(size_t actor) = 0;
  // Equal for states with the same future. Empty: not known.
  virtual std::string Key() const = 0;
};

// A move: the actor, and the call that it is about.
struct Step {
  size_t actor = 0;
  size_t call = 0;

  friend bool operator==(const Step&, const Step&) = default;
};

struct SearchOptions {
  size_t max_states = 100'000;
  // Called with each state in which no actor can move, and the way there. Returning false ends the
  // search.
  std::function<bool(const Explorable& state, const std::vector<Step>& path)> on_end;
  // Called with the number of states so far. Returning false ends the search. May be empty.
  std::function<bool(size_t states)> on_state;
};

struct SearchReport {
  size_t states = 0;
  size_t ends = 0;        // states in which no actor can move
  bool complete = false;  // nothing was left to try
};

SearchReport SearchOrders(const Explorable& root, const SearchOptions& options);

// A wish: the actor makes that call only after the other one has begun its own.
struct Wish {
  Step later;
  Step before;
};

// Makes moves until none can be made, against a wish only where nothing else can move. Returns the
// way. The state that it ends in is reachable, whatever the wishes.
std::vector<Step> Follow(Explorable* state, const std::vector<Wish>& wishes);

}  // namespace gordian::explore

#endif  // GORDIAN_ANALYZER_EXPLORE_ORDER_SEARCH_H_
