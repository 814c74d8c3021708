// Describes streams that wait for values in memory and write them, and calls that let others write
// there (W10). Runs on the calling thread, for outermost calls only, and keeps errno.
#ifndef GORDIAN_INTERPOSE_DESCRIBE_DESCRIBE_MEMORY_H_
#define GORDIAN_INTERPOSE_DESCRIBE_DESCRIBE_MEMORY_H_

#include <cuda.h>

#include "interpose/state/shim_state.h"

namespace gordian::interpose {

// One such operation on a stream.
struct MemoryNote {
  bool waits;
  uint8_t flags;  // ring::kMemory...
  CUdeviceptr address;
  uint64_t value;
};
inline MemoryNote DescribeWait(CUdeviceptr address, uint64_t value, bool wide, unsigned flags) {
  // CU_STREAM_WAIT_VALUE_FLUSH, which is about remote writes, is no condition.
  return {true,
          static_cast<uint8_t>((flags & ring::kMemoryCondition) | (wide ? ring::kMemory64 : 0)),
          address, value};
}
inline MemoryNote DescribeWrite(CUdeviceptr address, uint64_t value, bool wide) {
  return {false, static_cast<uint8_t>(wide ? ring::kMemory64 : 0), address, value};
}

// The stream got them in this order; gives each an ordinal.
void NoteMemoryWork(ThreadContext& thread, CallId call, uint64_t site, StreamState* stream,
                    const MemoryNote* notes, unsigned count);
void NoteMemoryBatch(ThreadContext& thread, CallId call, uint64_t site, StreamState* stream,
                     const CUstreamBatchMemOpParams* operations, unsigned count);

// From now on others than this process may write the memory: all of the allocation that the pointer
// lies in, or, if the driver does not know it, `bytes` from there on. `call`: a row of work.
void NoteMemoryShared(ThreadContext& thread, CallId call, uint64_t site, const void* pointer,
                      size_t bytes);

}  // namespace gordian::interpose

#endif  // GORDIAN_INTERPOSE_DESCRIBE_DESCRIBE_MEMORY_H_
