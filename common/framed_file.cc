#include "common/framed_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "common/budget.h"
#include "common/compression.h"
#include "common/crc32.h"

namespace gordian {
namespace {

constexpr size_t kPrefixBytes = 8;  // length, CRC

void PutLe32(uint32_t value, unsigned char* out) {
  for (int i = 0; i < 4; ++i) {
    out[i] = static_cast<unsigned char>(value >> (8 * i));
  }
}

uint32_t GetLe32(const unsigned char* in) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) {
    value = value << 8 | in[i];
  }
  return value;
}

}  // namespace

Status WriteAllAt(int fd, const std::string& path, uint64_t offset, const void* data,
                  size_t bytes) {
  const char* at = static_cast<const char*>(data);
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n = pwrite(fd, at + done, bytes - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      const int error = n < 0 ? errno : ENOSPC;
      const bool taken_back = ftruncate(fd, static_cast<off_t>(offset)) == 0;
      return Status::FromErrno(
          error, "cannot write " + path + (taken_back ? "" : " (it now ends within a chunk)"));
    }
    done += static_cast<size_t>(n);
  }
  return Status::Ok();
}

ssize_t ReadAt(int fd, uint64_t offset, void* out, size_t bytes) {
  char* at = static_cast<char*>(out);
  size_t got = 0;
  while (got < bytes) {
    const ssize_t n = pread(fd, at + got, bytes - got, static_cast<off_t>(offset + got));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return -1;
    }
    if (n == 0) {
      break;
    }
    got += static_cast<size_t>(n);
  }
  return static_cast<ssize_t>(got);
}

Status WriteFrame(int fd, const std::string& path, uint64_t* offset, const std::string& contents) {
  if (contents.size() > kMaxFrameContents) {
    return Status::InvalidArgument(std::to_string(contents.size()) + " bytes are too many for " +
                                   path);
  }
  std::string out(kPrefixBytes, '\0');
  GORDIAN_RETURN_IF_ERROR(Compress(contents, &out));
  // Readers refuse what expands further than any bomb may.
  static_assert(kFileRatio <= kFrameRatio);
  Pad(kPrefixBytes + contents.size() / kFileRatio + 1, &out);
  const size_t n = out.size() - kPrefixBytes;
  if (n > kMaxFrameBytes) {
    return Status::Internal("cannot compress what " + path + " should hold");
  }
  auto* const prefix = reinterpret_cast<unsigned char*>(out.data());
  PutLe32(static_cast<uint32_t>(n), prefix);
  PutLe32(Crc32(prefix + kPrefixBytes, n), prefix + 4);
  GORDIAN_RETURN_IF_ERROR(WriteAllAt(fd, path, *offset, out.data(), out.size()));
  *offset += kPrefixBytes + n;
  return Status::Ok();
}

FrameGot ReadFrame(int fd, uint64_t* offset, std::vector<char>* contents, std::string* why) {
  unsigned char prefix[kPrefixBytes];
  const ssize_t n = ReadAt(fd, *offset, prefix, sizeof(prefix));
  if (n < 0) {
    *why = std::strerror(errno);
    return FrameGot::kDamaged;
  }
  if (n == 0) {
    return FrameGot::kEnd;
  }
  if (n < static_cast<ssize_t>(sizeof(prefix))) {
    return FrameGot::kCut;
  }
  const uint32_t length = GetLe32(prefix);
  if (length == 0 || length > kMaxFrameBytes) {
    *why = "chunk length " + std::to_string(length);
    return FrameGot::kDamaged;
  }
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    *why = std::strerror(errno);
    return FrameGot::kDamaged;
  }
  // Checks that the file holds that many bytes before allocating memory for them.
  if (static_cast<uint64_t>(info.st_size) < *offset + kPrefixBytes + length) {
    return FrameGot::kCut;
  }
  std::vector<unsigned char> frame(length);
  const ssize_t got = ReadAt(fd, *offset + kPrefixBytes, frame.data(), frame.size());
  if (got < 0) {
    *why = std::strerror(errno);
    return FrameGot::kDamaged;
  }
  if (static_cast<size_t>(got) < frame.size()) {
    return FrameGot::kCut;
  }
  if (Crc32(frame.data(), frame.size()) != GetLe32(prefix + 4)) {
    *why = "checksum";
    return FrameGot::kDamaged;
  }
  const std::string_view packed(reinterpret_cast<const char*>(frame.data()), frame.size());
  if (const std::optional<uint64_t> claimed = ContentsOf(packed);
      claimed && *claimed > MostContents(length)) {
    *why = "its " + std::to_string(length) + " bytes would become " + std::to_string(*claimed) +
           ", and at most " + std::to_string(MostContents(length)) + " are taken";
    return FrameGot::kTooLarge;
  }
  if (!Decompress(packed, kMaxFrameContents, contents, why)) {
    return FrameGot::kDamaged;
  }
  *offset += kPrefixBytes + length;
  return FrameGot::kFrame;
}

}  // namespace gordian
