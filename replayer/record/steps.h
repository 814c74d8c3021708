// Finds the steps of a job that repeats itself, and the calls of each.
//
// A trace does not mark steps. So each process's operations are taken as a text, whose period is
// the shortest with which the text repeats itself to its end, found by Z-values of the reversed
// text (Main and Lorentz; Gusfield, Algorithms on Strings, 1.4) in time linear in the operations.
// The part before (warm-up) is in no step. Steps count from 0. Of a job that hung, the operations
// count up to the first that did not finish everywhere.
#ifndef GORDIAN_REPLAYER_RECORD_STEPS_H_
#define GORDIAN_REPLAYER_RECORD_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "replayer/record/needed_calls.h"
#include "replayer/record/unfinished.h"

namespace gordian::replayer {

struct StepRange {
  uint64_t first = 0, last = 0;
  bool all = true;  // everything recorded, repeating or not; then first and last are ignored
};

// How a text ends in repetitions of its last `period` letters: from `begin` on it is `count` of
// them. A text that does not repeat at least twice, over more than its half, is one repetition of
// itself. `text`: letters by number.
struct Repetition {
  size_t begin = 0, period = 0, count = 0;
};
Repetition FindRepetition(const std::vector<uint32_t>& text);

struct JobSteps {
  NeededCalls calls;  // for ScheduleCalls(); `refused` says why not
  std::deque<RecordedCall>
      merged;          // the calls in `calls`: one thread a process, host waits where they ended
  uint64_t found = 0;  // number of steps
  std::vector<std::string> notes;
};

// Refuses a range that does not exist, and steps whose members do not all have the same operations.
JobSteps FindSteps(const JobFacts& facts, const StepRange& range);

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_RECORD_STEPS_H_
