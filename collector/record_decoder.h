// From a ring record to the message that travels. Pure.
#ifndef GORDIAN_COLLECTOR_RECORD_DECODER_H_
#define GORDIAN_COLLECTOR_RECORD_DECODER_H_

#include <cstdint>
#include <string>

#include "common/ids.h"
#include "gordian/v1/event.pb.h"
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

enum class Decoded {
  kFine,
  kUnknownKind,  // a RecordKind of no meaning: nothing is taken from the record
  kUnknownCall,  // a CallId beyond the table
  kMisplaced,    // a kind that this call never has
};

// Fills `out`. Anything but kFine leaves `out` in an unspecified state: count it and drop it.
Decoded DecodeRecord(const ring::Record& record, ProcessNumber process, ThreadNumber thread,
                     const TickClock& clock, v1::CallRecord* out);

// A string from a hostile fixed-size field: ends at NUL, and what is not valid UTF-8 becomes '?'
// (protobuf refuses to parse anything else).
std::string TextOf(const char* field, size_t bytes);
std::string CleanUtf8(std::string text);

}  // namespace gordian::collector

#endif  // GORDIAN_COLLECTOR_RECORD_DECODER_H_
