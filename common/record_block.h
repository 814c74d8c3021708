// The records of an event: v1::RecordBlock as ring::Records, written and checked in one place.
//
// A block comes from outside (a collector, a file). What is checked here is its shape: the version
// of its records and their whole number. The values in the records are as hostile as they were;
// GraphEvents checks them. Any thread.
#ifndef GORDIAN_COMMON_RECORD_BLOCK_H_
#define GORDIAN_COMMON_RECORD_BLOCK_H_

#include <cstddef>
#include <cstring>

#include "gordian/v1/event.pb.h"
#include "proto/ring/record.h"

namespace gordian {

// Begins an empty block of a process in the event; returns it.
v1::RecordBlock* BeginBlock(uint32_t process, v1::Event* event);

// `record` must have its thread and ticks as event.proto says of blocks.
void AppendRecord(const ring::Record& record, v1::RecordBlock* block);

// How many records the block holds. 0 too where they cannot be read: of another version than
// kRingAbiVersion, or not a whole number of records.
size_t RecordsIn(const v1::RecordBlock& block);

// A copy, since the bytes lie where protobuf put them. `at` must be below RecordsIn.
inline ring::Record RecordAt(const v1::RecordBlock& block, size_t at) {
  ring::Record record;
  std::memcpy(&record, block.records().data() + at * sizeof record, sizeof record);
  return record;
}

// Calls take(const ring::Record&) for each record, in order.
template <typename Take>
void ForEachRecord(const v1::RecordBlock& block, Take&& take) {
  const size_t count = RecordsIn(block);
  for (size_t i = 0; i < count; ++i) take(RecordAt(block, i));
}

}  // namespace gordian

#endif  // GORDIAN_COMMON_RECORD_BLOCK_H_
