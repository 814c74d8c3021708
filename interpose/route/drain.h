// How a recovery drains the streams of one process once its communicators are revoked (recovery.h,
// docs/recovery.md): which units may be given to the runtime, when a gate opens, and when the
// runtime takes a communicator over. These are the decisions alone. `World` has the memory, the
// streams and the runtime: the shim's (recovery.cc), or those of a model that explores all
// interleavings (tests/unit/interpose/drain_model_test.cc).
//
// World::Unit has the fields early, ready, left, submitted, executed, opened, after_count, after[],
// first, gate and index, as recovery.cc says. Communicators are places from 0 to world.Comms(), and
// world.At(comm, place) the units from world.Tail(comm) to world.Head(comm), in the order of calls.
//
// Threads: one, the controller. Allocates nothing.
#ifndef GORDIAN_INTERPOSE_ROUTE_DRAIN_H_
#define GORDIAN_INTERPOSE_ROUTE_DRAIN_H_

#include <gordian/runtime.h>
#include <stdint.h>

namespace gordian::interpose {

// The value of a gate's word that lets everything through.
inline constexpr uint64_t kGateOpen = uint64_t{1} << 62;

template <typename World>
class Drain {
 public:
  using Unit = typename World::Unit;

  explicit Drain(World& world) : world_(world) {}

  // Drops what is done from the front of each communicator, and shuts the gates of the rest.
  void Shut() {
    for (uint32_t comm = 0; comm < world_.Comms(); ++comm) {
      uint64_t tail = world_.Tail(comm);
      while (tail < world_.Head(comm) && world_.IsDone(world_.At(comm, tail))) ++tail;
      world_.SetTail(comm, tail);
    }
    ForEach([&](uint32_t, const Unit& unit) {
      const typename World::GateLock lock(world_, unit);
      if (unit.index - 1 < world_.Word(unit)) world_.SetWord(unit, unit.index - 1);
    });
  }

  // Takes Shut back.
  void OpenAll() {
    ForEach([&](uint32_t, const Unit& unit) { world_.SetWord(unit, kGateOpen); });
  }

  // Gives what has its input to the runtime, in the order of each communicator's calls.
  grtResult_t SubmitReady() {
    grtResult_t failed = FindReady();
    for (uint32_t comm = 0; comm < world_.Comms() && failed == grtSuccess; ++comm) {
      const uint64_t head = world_.Head(comm);
      bool in_order = true;
      for (uint64_t at = world_.Tail(comm); at < head; ++at) {
        Unit& unit = world_.At(comm, at);
        if (!unit.submitted && unit.ready && in_order) {
          failed = world_.Submit(comm, unit);
          unit.submitted = failed == grtSuccess;
        }
        in_order = in_order && unit.submitted;
      }
    }
    return failed;
  }

  // Opens the gates of what is executed, each stream's in its order.
  grtResult_t OpenDone() {
    grtResult_t failed = grtSuccess;
    ForEach([&](uint32_t comm, Unit& unit) {
      if (!unit.submitted || unit.opened || failed != grtSuccess) return;
      if (!unit.executed) {
        const grtResult_t result = world_.Query(unit);
        if (result == grtInProgress) return;
        unit.executed = true;
        if (result != grtSuccess) {
          failed = result;
          return;
        }
      }
      // The kernel that NCCL has left there may still write.
      if (!unit.left) return;
      failed = world_.MoveOutput(comm, unit);
      if (failed == grtSuccess) Open(unit);
    });
    for (uint32_t comm = 0; comm < world_.Comms(); ++comm) {
      uint64_t tail = world_.Tail(comm);
      while (tail < world_.Head(comm) && world_.At(comm, tail).opened) ++tail;
      world_.SetTail(comm, tail);
    }
    return failed;
  }

  // Whether what is called on the communicator from now on may go straight to the runtime, behind
  // what has been submitted. The caller keeps calls out meanwhile.
  bool MayHandOver(uint32_t comm) {
    const uint64_t head = world_.Head(comm);
    return world_.Tail(comm) == head || world_.At(comm, head - 1).submitted;
  }

  // Opens the unit's gate, and those of others behind it on the stream up to the next one that is
  // shut.
  void Open(Unit& unit) {
    const typename World::GateLock lock(world_, unit);
    unit.opened = true;
    uint64_t next = UINT64_MAX;
    ForEach([&](uint32_t, const Unit& other) {
      if (!other.opened && other.gate == unit.gate && other.index < next) next = other.index;
    });
    world_.SetWord(unit, next == UINT64_MAX ? kGateOpen : next - 1);
  }

  template <typename Do>
  void ForEach(const Do& visit) {
    for (uint32_t comm = 0; comm < world_.Comms(); ++comm) {
      const uint64_t head = world_.Head(comm);
      for (uint64_t at = world_.Tail(comm); at < head; ++at) visit(comm, world_.At(comm, at));
    }
  }

 private:
  bool IsReady(uint32_t comm, const Unit& unit) {
    if (unit.left) return true;
    if (!unit.early) return false;
    bool held = false;
    for (uint32_t a = 0; a < unit.after_count; ++a) {
      if (!unit.after[a]->ready) return false;
      held = held || !unit.after[a]->opened;
    }
    // Behind open gates its kernel may begin, and write over its input.
    return held || !world_.IsInPlace(comm, unit);
  }

  // Before any gate opens: finds which units have their input, until there is no other.
  grtResult_t FindReady() {
    grtResult_t failed = grtSuccess;
    for (bool moved = true; moved && failed == grtSuccess;) {
      moved = false;
      ForEach([&](uint32_t comm, Unit& unit) {
        unit.left = unit.left || world_.IsDone(unit) || (unit.first != nullptr && unit.first->left);
        if (unit.ready || failed != grtSuccess || !IsReady(comm, unit)) return;
        unit.ready = moved = true;
        failed = world_.SaveInput(comm, unit);
      });
    }
    return failed;
  }

  World& world_;
};

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_ROUTE_DRAIN_H_
