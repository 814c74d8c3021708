#include "common/framed_file.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>

#include "common/crc32.h"

namespace gordian {
namespace {

constexpr int kCompressionLevel = 1;
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

bool Decompress(const std::vector<unsigned char>& frame, std::vector<char>* out, std::string* why) {
  const unsigned long long claimed = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR || claimed == ZSTD_CONTENTSIZE_UNKNOWN) {
    *why = "not a zstd frame";
    return false;
  }
  if (claimed > kMaxFrameContents) {
    *why = "chunk claims " + std::to_string(claimed) + " bytes";
    return false;
  }
  out->resize(static_cast<size_t>(claimed));
  const size_t n = ZSTD_decompress(out->data(), out->size(), frame.data(), frame.size());
  if (ZSTD_isError(n) != 0) {
    *why = std::string("decompression failed: ") + ZSTD_getErrorName(n);
    return false;
  }
  out->resize(n);
  return true;
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
  std::vector<unsigned char> out(kPrefixBytes + ZSTD_compressBound(contents.size()));
  const size_t n = ZSTD_compress(out.data() + kPrefixBytes, out.size() - kPrefixBytes,
                                 contents.data(), contents.size(), kCompressionLevel);
  if (ZSTD_isError(n) != 0 || n > kMaxFrameBytes) {
    return Status::Internal("cannot compress what " + path + " should hold");
  }
  PutLe32(static_cast<uint32_t>(n), out.data());
  PutLe32(Crc32(out.data() + kPrefixBytes, n), out.data() + 4);
  GORDIAN_RETURN_IF_ERROR(WriteAllAt(fd, path, *offset, out.data(), kPrefixBytes + n));
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
  // Before memory is taken for it: are there so many bytes at all?
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
  if (!Decompress(frame, contents, why)) {
    return FrameGot::kDamaged;
  }
  *offset += kPrefixBytes + length;
  return FrameGot::kFrame;
}

}  // namespace gordian
