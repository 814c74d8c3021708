// One kernel carries several operations of a communicator side by side, as a captured group needs:
// its sends and receives wait for each other on all ranks, and a graph that is launched again has
// no list on the host to help from (help_stream.h). So one kernel holds all operations of the
// group, and its blocks serve them in turns.
//
// The operations of one order key are a sequence. Channel c of a sequence is a unit: one block
// carries that channel of all its operations, in their order, so blocks share nothing and need no
// claims. A block visits its units in turns and leaves each one where it cannot go on, so one
// resident block suffices for progress of its units; the host launches no more blocks than are
// resident at once.
//
// A unit keeps only the operation that it is at and its step counter. Operations take their numbers
// from the channels' counters in the device's memory, so each launch finds new ones.
//
// Thread rule: all threads of a block call together. Errors: none; if the communicator has failed,
// the kernel ends with its operations unfinished.
#ifndef GORDIAN_RUNTIME_CUDA_LIST_GROUP_DEVICE_H_
#define GORDIAN_RUNTIME_CUDA_LIST_GROUP_DEVICE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/cuda/list/help_device.h"
#include "runtime/cuda/protocol/work.h"

namespace gordian::runtime::cuda {

inline constexpr uint32_t kGroupOperations =
    128;  // of one kernel: its arguments are 32 KiB at most
inline constexpr uint32_t kFewGroupOperations = 16;
inline constexpr uint32_t kGroupUnits = 128;  // of one block
inline constexpr uint16_t kNoOperation = 0xffff;

// The kernel's arguments. kMost: room for so many operations.
template <uint32_t kMost>
struct GroupWork {
  uint32_t units;
  uint32_t sequences;
  struct Sequence {
    uint16_t first;     // operation
    uint16_t channels;  // units: those of its widest operation
  };
  Sequence sequence[kMost];
  uint16_t next[kMost];  // operation of the same sequence; kNoOperation: it was the last
  Work work[kMost];
};

// A unit, in the block's own memory.
struct GroupUnit {
  uint16_t operation, channel;
  uint32_t steps;
};

// Fills *group from operations of one communicator, in the order of their calls, at most kMost.
template <uint32_t kMost>
void PlanGroup(const std::vector<Work>& operations, GroupWork<kMost>* group) {
  group->units = group->sequences = 0;
  std::vector<uint16_t> last;  // of each sequence
  for (size_t i = 0; i < operations.size(); ++i) {
    const auto number = static_cast<uint16_t>(i);
    group->work[i] = operations[i];
    group->next[i] = kNoOperation;
    uint32_t s = 0;
    while (s < group->sequences && operations[last[s]].order_key != operations[i].order_key) ++s;
    if (s == group->sequences) {
      group->sequence[group->sequences++] = {number, 0};
      last.push_back(number);
    } else {
      group->next[std::exchange(last[s], number)] = number;
    }
    auto& sequence = group->sequence[s];
    if (operations[i].channels > sequence.channels) {
      group->units += operations[i].channels - sequence.channels;
      sequence.channels = operations[i].channels;
    }
  }
}

// The operation that the unit is at, past those that do not have its channel. kNoOperation: the
// unit is done.
template <uint32_t kMost>
GRT_HD inline uint16_t OperationOf(const GroupWork<kMost>& g, const GroupUnit& unit) {
  uint16_t operation = unit.operation;
  while (operation != kNoOperation && unit.channel >= g.work[operation].channels)
    operation = g.next[operation];
  return operation;
}

// The block asks whether the kernel may continue when a unit cannot go on. False: the unit's
// communicator has failed, or the host ends all kernels.
template <typename Block>
GRT_HD bool GroupMayGoOn(Block& b, const HelpList& h, const Work& w, uint32_t channel);
template <typename Block>
GRT_HD bool GateMayGoOn(Block& b, const HelpList& h, const Work& w);

template <typename Block>
GRT_HD inline bool GateMayGoOnInline(Block& b, const HelpList& h, const Work& w) {
  uint32_t leave = 0;
  if (b.Thread() == 0) {
    LookForEnd(h, w, b.Now());
    leave = Load<kSystem, kRelaxed>(&h.seen->stop) |
            Load<kSystem, kRelaxed>(&HeaderAt(w, w.rank)->failed);
  }
  return b.Broadcast(leave) == 0;
}

template <typename Block>
GRT_HD inline bool GroupMayGoOnInline(Block& b, const HelpList& h, const Work& w,
                                      uint32_t channel) {
  return !HasFailed(b, w, channel) && GateMayGoOnInline(b, h, w);
}

// Carries the block's units to their end. `units`: room for kGroupUnits in the block's own memory.
template <uint32_t kMost, typename Block>
GRT_HD inline void CarryGroup(Block& b, GroupUnit* units, const GroupWork<kMost>& g,
                              const HelpList& h) {
  constexpr uint32_t kFruitless = 32;
  const uint32_t count = g.units > b.Index() ? (g.units - b.Index() - 1) / b.Blocks() + 1 : 0;
  for (uint32_t k = b.Thread(); k < count; k += b.Threads()) {
    uint32_t channel = b.Index() + k * b.Blocks(), s = 0;
    while (channel >= g.sequence[s].channels) channel -= g.sequence[s++].channels;
    units[k] = {g.sequence[s].first, static_cast<uint16_t>(channel), 0};
  }
  b.Sync();
  uint32_t fruitless = 0, looks = 0;
  for (;;) {
    bool progress = false;
    uint32_t unfinished = 0;
    for (uint32_t k = 0; k < count; ++k) {
      const GroupUnit unit = units[k];
      const uint16_t operation = OperationOf(g, unit);
      if (operation == kNoOperation) continue;
      ++unfinished;
      const Work& w = g.work[operation];
      uint32_t pc = unit.steps;
      StepResult result;
      do {
        result = StepAny(b, w, unit.channel, &pc);
      } while (result == StepResult::kAdvanced);
      const bool done = result == StepResult::kDone;
      progress = progress || done || pc != unit.steps;
      b.Sync();  // all have read the unit; the step's stores come before the next operation's
      if (b.Thread() == 0) {
        if (done) {
          units[k] = {g.next[operation], unit.channel, 0};
        } else {
          units[k] = {operation, unit.channel, pc};
        }
      }
      b.Sync();
    }
    if (unfinished == 0) return;
    if (progress) {
      fruitless = 0;
      continue;
    }
    if (++fruitless % kFruitless != 0) continue;
    // Look at another unit each time: units may wait for different members.
    const GroupUnit unit = units[looks++ % count];
    const uint16_t operation = OperationOf(g, unit);
    if (operation != kNoOperation && !GroupMayGoOn(b, h, g.work[operation], unit.channel)) return;
  }
}

// How many operations of a sequence the host has called so far, by channel. Each operation adds 1
// to ChannelState's lines or bulks on each of its channels.
struct Gate {
  Work work;  // one of them
  uint32_t channels;
  uint32_t called[kMaxChannels];
};

// Waits until this rank has done all of them, or the communicator has failed.
template <typename Block>
GRT_HD inline void AwaitCalled(Block& b, const Gate& gate, const HelpList& h) {
  constexpr uint32_t kFruitless = 32;
  for (uint32_t tries = 1;; ++tries) {
    bool done = true;
    for (uint32_t c = b.Thread(); c < gate.channels; c += b.Threads()) {
      const ChannelState* state = StateAt(gate.work, c);
      const uint32_t carried =
          Load<kSystem, kRelaxed>(&state->lines) + Load<kSystem, kRelaxed>(&state->bulks);
      done = done && static_cast<int32_t>(carried - gate.called[c]) >= 0;
    }
    if (b.All(done)) return;
    if (tries % kFruitless != 0) continue;
    if (!GateMayGoOn(b, h, gate.work)) return;
  }
}

}  // namespace gordian::runtime::cuda

#endif  // GORDIAN_RUNTIME_CUDA_LIST_GROUP_DEVICE_H_
