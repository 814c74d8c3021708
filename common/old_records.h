// Reads the records of traces of format 1, one protobuf message each, as records of
// proto/ring/record.h. The only reader of v1::OldRecord. Any thread.
#ifndef GORDIAN_COMMON_OLD_RECORDS_H_
#define GORDIAN_COMMON_OLD_RECORDS_H_

#include "gordian/v1/trace.pb.h"
#include "proto/ring/record.h"

namespace gordian {

// The record that the message was made from. What a record cannot hold (a call number above 65535,
// a kind above 255) becomes what no reader takes: call 0, kind kNone.
ring::Record FromOldRecord(const v1::OldRecord& old);

// Puts a RecordBlock in the place of each run of OldRecords of one process. The order of events,
// and of each process's records, stays. Does nothing to a chunk without OldRecords.
void ReplaceOldRecords(v1::TraceChunk* chunk);

}  // namespace gordian

#endif  // GORDIAN_COMMON_OLD_RECORDS_H_
