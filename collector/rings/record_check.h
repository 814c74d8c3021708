// What the collector takes of a record that it read from a ring, whose writer it does not trust.
#ifndef GORDIAN_COLLECTOR_RINGS_RECORD_CHECK_H_
#define GORDIAN_COLLECTOR_RINGS_RECORD_CHECK_H_

#include <cstdint>

#include "common/ids.h"
#include "proto/ring/layout.h"
#include "proto/ring/record.h"

namespace gordian::collector {

// Ticks of a process into nanoseconds of CLOCK_MONOTONIC. Any calibration gives some number, never
// undefined behaviour.
class TickClock {
 public:
  TickClock() = default;
  explicit TickClock(const ring::ClockCalibration& calibration);
  // 0 stays 0: "no time".
  uint64_t ToMonoNs(uint64_t ticks) const;

 private:
  uint64_t ticks_base_ = 0;
  uint64_t mono_base_ns_ = 0;
  uint64_t ns_per_tick_q32_ = 1ull << 32;
};

enum class Checked {
  kFine,
  kUnknownKind,  // a RecordKind of no meaning: nothing is taken from the record
  kUnknownCall,  // a CallId beyond the table
  kMisplaced,    // a kind that this call never has
};

// Checks that kind and call are ours, and gives the record the thread and time that a
// v1::RecordBlock holds. Anything but kFine leaves the record as it was: count it and drop it.
// The record must be a private copy.
Checked CheckRecord(ThreadNumber thread, const TickClock& clock, ring::Record* record);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_RINGS_RECORD_CHECK_H_
