// Reads and writes frames in a file, for traces and spools: length and CRC-32 (4 bytes each,
// little-endian), then that many bytes of one zstd frame. The writer takes back a frame that a full
// disk cut; the reader trusts no byte: it bounds lengths, and checks them against the file before
// it allocates. The functions keep no state; threads as with the descriptor itself.
#ifndef GORDIAN_COMMON_FRAMED_FILE_H_
#define GORDIAN_COMMON_FRAMED_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/budget.h"
#include "common/status.h"

namespace gordian {

// Writes all bytes at `offset`, or none: on an error truncates what it wrote. `path` is for
// messages.
Status WriteAllAt(int fd, const std::string& path, uint64_t offset, const void* data, size_t bytes);

// Reads up to `bytes` from `offset`; fewer only at the end of the file. Returns -1 with errno.
ssize_t ReadAt(int fd, uint64_t offset, void* out, size_t bytes);

// Writes `contents`, at most kMaxFrameContents bytes (else kInvalidArgument), as a frame at
// *offset, and advances *offset. On an error neither file nor *offset changes.
Status WriteFrame(int fd, const std::string& path, uint64_t* offset, const std::string& contents);

enum class FrameGot {
  kFrame,
  kEnd,       // the file ends at the offset
  kCut,       // the file ends within the frame
  kDamaged,   // malformed bytes; *why says which
  kTooLarge,  // it says that it holds more than is taken of it (budget.h); *why says how much
};

// Reads the frame at *offset and advances *offset on success.
FrameGot ReadFrame(int fd, uint64_t* offset, std::vector<char>* contents, std::string* why);

}  // namespace gordian

#endif  // GORDIAN_COMMON_FRAMED_FILE_H_
