// Frames in a file, as traces and spools have them: length and CRC-32 (4 bytes each,
// little-endian), then as many bytes of one zstd frame. A whole frame is never half written by a
// full disk, and a reader believes nothing: lengths are bounded, and checked against the file
// before memory is taken. Functions of a descriptor only; threads as with the descriptor itself.
#ifndef GORDIAN_COMMON_FRAMED_FILE_H_
#define GORDIAN_COMMON_FRAMED_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace gordian {

inline constexpr uint32_t kMaxFrameBytes = 64u << 20;        // compressed
inline constexpr uint64_t kMaxFrameContents = 256ull << 20;  // decompressed

// All bytes at `offset`, or none: what was written is taken back. `path` is for messages.
Status WriteAllAt(int fd, const std::string& path, uint64_t offset, const void* data, size_t bytes);

// Up to `bytes` from `offset`; less only at the end of the file. -1: errno.
ssize_t ReadAt(int fd, uint64_t offset, void* out, size_t bytes);

// `contents`, at most kMaxFrameContents (else kInvalidArgument), as a frame at *offset, which moves
// behind it. On an error nothing moved.
Status WriteFrame(int fd, const std::string& path, uint64_t* offset, const std::string& contents);

enum class FrameGot {
  kFrame,
  kEnd,      // nothing at all stands at the offset
  kCut,      // the file ends within the frame
  kDamaged,  // bytes that cannot be; *why says which
};

// The frame at *offset, which moves behind it when there is one.
FrameGot ReadFrame(int fd, uint64_t* offset, std::vector<char>* contents, std::string* why);

}  // namespace gordian

#endif  // GORDIAN_COMMON_FRAMED_FILE_H_
