// The steps of a job that does the same again and again: which calls they are made of.
//
// Nobody says in a trace where a step begins. Each process's operations are taken as a text; its
// period is the shortest with which the text repeats itself to its end, found by Z-values of the
// reversed text (Main and Lorentz; Gusfield, Algorithms on Strings, 1.4), in time linear in the
// operations. What comes before (warming up) is in no step. Steps are counted from 0.
#ifndef GORDIAN_REPLAYER_STEPS_H_
#define GORDIAN_REPLAYER_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "replayer/needed_calls.h"
#include "replayer/unfinished.h"

namespace gordian::replayer {

struct StepRange {
  uint64_t first = 0, last = 0;
  bool all = true;  // all that was recorded, whether it repeats or not; then the two say nothing
};

// How a text ends in repetitions of its last `period` letters: from `begin` on it is made of
// `count` of them. A text that does not repeat, at least twice and over its better half, is one
// repetition of itself. `text`: letters by number.
struct Repetition {
  size_t begin = 0, period = 0, count = 0;
};
Repetition FindRepetition(const std::vector<uint32_t>& text);

struct JobSteps {
  NeededCalls calls;  // for ScheduleCalls(); `refused`: why not
  std::deque<RecordedCall>
      merged;  // what `calls` points into: one thread a process, waits of the host where they ended
  uint64_t found = 0;  // how many there are
  std::vector<std::string> notes;
};

// Refuses a range that is not there, and steps that do not hold the same operations at all members.
JobSteps FindSteps(const JobFacts& facts, const StepRange& range);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_STEPS_H_
