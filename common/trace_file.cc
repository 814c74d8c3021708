#include "common/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/crc32.h"
#include "common/version.h"

namespace gordian {
namespace {

// A chunk is written when its events reach this size: small enough that a crash loses little and a
// reader needs little memory, large enough for zstd to find repetitions.
constexpr uint64_t kChunkTargetBytes = 256u << 10;
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

// Writes all bytes or takes back what was written, so that a full disk leaves whole chunks only.
Status WriteAll(int fd, const std::string& path, uint64_t offset, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  size_t left = bytes;
  uint64_t position = offset;
  while (left > 0) {
    const ssize_t n = pwrite(fd, at, left, static_cast<off_t>(position));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      const int error = n < 0 ? errno : ENOSPC;
      const bool taken_back = ftruncate(fd, static_cast<off_t>(offset)) == 0;
      return Status::FromErrno(
          error, "cannot write " + path + (taken_back ? "" : " (it now ends within a chunk)"));
    }
    at += n;
    left -= static_cast<size_t>(n);
    position += static_cast<uint64_t>(n);
  }
  return Status::Ok();
}

// Reads up to `bytes` at `offset`; less only at the end of the file. -1: errno.
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

// Decompresses one frame, whatever size it claims, into at most kMaxTraceChunkBytes.
bool Decompress(const std::vector<unsigned char>& frame, std::vector<char>* out, std::string* why) {
  const unsigned long long claimed = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (claimed == ZSTD_CONTENTSIZE_ERROR || claimed == ZSTD_CONTENTSIZE_UNKNOWN) {
    *why = "not a zstd frame";
    return false;
  }
  if (claimed > kMaxTraceChunkBytes) {
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

TraceWriter::TraceWriter(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

TraceWriter::~TraceWriter() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path,
                                                           v1::TraceHeader header) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    return Status::FromErrno(errno, "cannot create the trace " + path);
  }
  std::unique_ptr<TraceWriter> writer(new TraceWriter(fd, path));
  GORDIAN_RETURN_IF_ERROR(WriteAll(fd, path, 0, kTraceMagic, kTraceMagicBytes));
  writer->bytes_ = kTraceMagicBytes;
  header.set_format(kTraceFormat);
  header.set_gordian_version(kVersion);
  *writer->chunk_.mutable_header() = std::move(header);
  GORDIAN_RETURN_IF_ERROR(writer->WriteChunk());
  return writer;
}

StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Continue(const std::string& path,
                                                             uint64_t offset) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    return Status::FromErrno(errno, "cannot go on with the trace " + path);
  }
  std::unique_ptr<TraceWriter> writer(new TraceWriter(fd, path));
  struct stat info {};
  if (fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) < offset ||
      offset < kTraceMagicBytes) {
    return Status::DataLoss("the trace " + path + " is shorter than it was");
  }
  if (ftruncate(fd, static_cast<off_t>(offset)) != 0) {
    return Status::FromErrno(errno, "cannot go on with the trace " + path);
  }
  writer->bytes_ = offset;
  return writer;
}

Status TraceWriter::Append(const v1::Event& event) { return Append(v1::Event(event)); }

Status TraceWriter::Append(v1::Event&& event) {
  chunk_bytes_ += event.ByteSizeLong() + 4;
  *chunk_.add_events() = std::move(event);
  ++events_;
  return chunk_bytes_ >= kChunkTargetBytes ? WriteChunk() : Status::Ok();
}

Status TraceWriter::AppendTogether(const std::vector<v1::Event>& events) {
  for (const v1::Event& event : events) {
    chunk_bytes_ += event.ByteSizeLong() + 4;
    *chunk_.add_events() = event;
    ++events_;
  }
  return chunk_bytes_ >= kChunkTargetBytes ? WriteChunk() : Status::Ok();
}

Status TraceWriter::Flush() { return chunk_.events_size() > 0 ? WriteChunk() : Status::Ok(); }

Status TraceWriter::Close() {
  if (fd_ < 0) {
    return Status::Ok();
  }
  GORDIAN_RETURN_IF_ERROR(Flush());
  chunk_.set_last(true);
  GORDIAN_RETURN_IF_ERROR(WriteChunk());
  const int fd = std::exchange(fd_, -1);
  if (close(fd) != 0) {
    return Status::FromErrno(errno, "cannot close the trace " + path_);
  }
  return Status::Ok();
}

Status TraceWriter::WriteChunk() {
  if (fd_ < 0) {
    return Status::Internal("the trace " + path_ + " is closed already");
  }
  // One event may be large, a chunk of them never beyond what a reader accepts: 256 KiB and one
  // event.
  const std::string plain = chunk_.SerializeAsString();
  const uint64_t events = static_cast<uint64_t>(chunk_.events_size());
  chunk_.Clear();
  chunk_bytes_ = 0;
  if (plain.size() > kMaxTraceChunkBytes) {
    lost_events_ += events;
    return Status::InvalidArgument("an event is too large for the trace " + path_);
  }
  std::vector<unsigned char> out(kPrefixBytes + ZSTD_compressBound(plain.size()));
  const size_t n = ZSTD_compress(out.data() + kPrefixBytes, out.size() - kPrefixBytes, plain.data(),
                                 plain.size(), kCompressionLevel);
  if (ZSTD_isError(n) != 0 || n > kMaxTraceFrameBytes) {
    lost_events_ += events;
    return Status::Internal("cannot compress a chunk of the trace " + path_);
  }
  PutLe32(static_cast<uint32_t>(n), out.data());
  PutLe32(Crc32(out.data() + kPrefixBytes, n), out.data() + 4);
  const size_t total = kPrefixBytes + n;
  if (Status status = WriteAll(fd_, path_, bytes_, out.data(), total); !status.ok()) {
    lost_events_ += events;
    return status;
  }
  bytes_ += total;
  return Status::Ok();
}

TraceReader::TraceReader(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

TraceReader::~TraceReader() { close(fd_); }

StatusOr<std::unique_ptr<TraceReader>> TraceReader::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Status::FromErrno(errno, "cannot open the trace " + path);
  }
  std::unique_ptr<TraceReader> reader(new TraceReader(fd, path));
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    return Status::InvalidArgument(path + " is not a gordian trace: not a regular file");
  }
  char magic[kTraceMagicBytes];
  const ssize_t n = ReadAt(fd, 0, magic, sizeof(magic));
  if (n < 0) {
    return Status::FromErrno(errno, "cannot read the trace " + path);
  }
  if (std::memcmp(magic, kTraceMagic, static_cast<size_t>(n)) != 0) {
    // "GTRACE" and another digit: ours, but a later layout of the file itself.
    if (n == sizeof(magic) && std::memcmp(magic, kTraceMagic, 6) == 0 && magic[7] == '\n') {
      return Status::NewerVersion(path + " was written by a newer gordian (file layout " +
                                  magic[6] + "); this one, " + kVersion + ", reads layout 1");
    }
    return Status::DataLoss(path + " is not a gordian trace: it does not start with GTRACE1");
  }
  if (n < static_cast<ssize_t>(sizeof(magic))) {
    return Status::DataLoss(path + " is empty or was cut within its first bytes: nothing to read");
  }
  reader->offset_ = kTraceMagicBytes;
  std::string why;
  switch (reader->ReadChunk(&reader->first_, &why)) {
    case Got::kChunk:
      break;
    case Got::kEnd:
    case Got::kCut:
      return Status::DataLoss(path + " was cut before its first whole chunk: nothing to read");
    case Got::kDamaged:
      return Status::DataLoss(path + " is damaged in its first chunk (" + why + ")");
  }
  if (!reader->first_.has_header()) {
    return Status::DataLoss(path + " has no header in its first chunk");
  }
  reader->header_ = reader->first_.header();
  if (reader->header_.format() > kTraceFormat) {
    return Status::NewerVersion(path + " was written by a newer gordian (" +
                                reader->header_.gordian_version() + ", trace format " +
                                std::to_string(reader->header_.format()) + "); this one, " +
                                kVersion + ", reads up to format " + std::to_string(kTraceFormat));
  }
  if (reader->header_.format() == 0) {
    return Status::DataLoss(path + " has a header without a format number");
  }
  return reader;
}

TraceReader::Got TraceReader::ReadChunk(v1::TraceChunk* chunk, std::string* why) {
  unsigned char prefix[kPrefixBytes];
  const ssize_t n = ReadAt(fd_, offset_, prefix, sizeof(prefix));
  if (n < 0) {
    *why = std::strerror(errno);
    return Got::kDamaged;
  }
  if (n == 0) {
    return Got::kEnd;
  }
  if (n < static_cast<ssize_t>(sizeof(prefix))) {
    return Got::kCut;
  }
  const uint32_t length = GetLe32(prefix);
  if (length == 0 || length > kMaxTraceFrameBytes) {
    *why = "chunk length " + std::to_string(length);
    return Got::kDamaged;
  }
  struct stat info {};
  if (fstat(fd_, &info) != 0) {
    *why = std::strerror(errno);
    return Got::kDamaged;
  }
  // Before memory is taken for it: are there so many bytes at all?
  if (static_cast<uint64_t>(info.st_size) < offset_ + kPrefixBytes + length) {
    return Got::kCut;
  }
  std::vector<unsigned char> frame(length);
  const ssize_t got = ReadAt(fd_, offset_ + kPrefixBytes, frame.data(), frame.size());
  if (got < 0) {
    *why = std::strerror(errno);
    return Got::kDamaged;
  }
  if (static_cast<size_t>(got) < frame.size()) {
    return Got::kCut;
  }
  if (Crc32(frame.data(), frame.size()) != GetLe32(prefix + 4)) {
    *why = "checksum";
    return Got::kDamaged;
  }
  std::vector<char> plain;
  if (!Decompress(frame, &plain, why)) {
    return Got::kDamaged;
  }
  if (!chunk->ParseFromArray(plain.data(), static_cast<int>(plain.size()))) {
    *why = "contents";
    return Got::kDamaged;
  }
  offset_ += kPrefixBytes + length;
  return Got::kChunk;
}

bool TraceReader::Next(v1::TraceChunk* chunk) {
  if (!first_returned_) {
    first_returned_ = true;
    chunk->Swap(&first_);
  } else {
    if (closed_) {
      return false;
    }
    chunk->Clear();
    switch (ReadChunk(chunk, &why_damaged_)) {
      case Got::kChunk:
        break;
      case Got::kEnd:
      case Got::kCut:
        ending_ = Ending::kIncomplete;
        return false;
      case Got::kDamaged:
        ending_ = Ending::kDamaged;
        return false;
    }
  }
  ++chunks_;
  if (!chunk->last() || chunk->events_size() > 0) {
    resume_offset_ = offset_;
  }
  events_ += static_cast<uint64_t>(chunk->events_size());
  if (chunk->last()) {
    closed_ = true;
    ending_ = Ending::kComplete;
  }
  return true;
}

std::string TraceReader::Describe() const {
  const std::string counts =
      std::to_string(chunks_) + " whole chunks, " + std::to_string(events_) + " events";
  switch (ending_) {
    case Ending::kComplete:
      return "complete: " + counts;
    case Ending::kIncomplete:
      return "incomplete: ended after " + counts;
    case Ending::kDamaged:
      return "damaged (" + why_damaged_ + "): ended after " + counts;
  }
  return counts;
}

}  // namespace gordian
