#include "common/trace_file.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/budget.h"
#include "common/old_records.h"
#include "common/version.h"
#include "proto/ring/record.h"

namespace gordian {
namespace {

// The writer closes a chunk at this size: small, so that a crash loses little and a reader needs
// little memory; large enough for zstd to find repetitions.
constexpr uint64_t kChunkTargetBytes = 256u << 10;
// Most chunks of a running job are smaller once parsed: they need no block of the heap.
constexpr size_t kArenaBlock = 256u << 10;

google::protobuf::ArenaOptions InBlock(char* block) {
  google::protobuf::ArenaOptions options;
  options.initial_block = block;
  options.initial_block_size = kArenaBlock;
  options.max_block_size = kArenaBlock;
  return options;
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
  return Begin(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, kFileMode),
               path, std::move(header));
}

StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(const OwnedFolder& folder,
                                                           const std::string& name,
                                                           v1::TraceHeader header) {
  return Begin(folder.Overwrite(name), folder.path() + "/" + name, std::move(header));
}

StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Begin(int fd, const std::string& path,
                                                          v1::TraceHeader header) {
  if (fd < 0) {
    return Status::FromErrno(errno, "cannot create the trace " + path);
  }
  std::unique_ptr<TraceWriter> writer(new TraceWriter(fd, path));
  GORDIAN_RETURN_IF_ERROR(WriteAllAt(fd, path, 0, kTraceMagic, kTraceMagicBytes));
  writer->bytes_ = kTraceMagicBytes;
  header.set_format(kTraceFormat);
  header.set_gordian_version(kVersion);
  header.set_record_abi(ring::kRingAbiVersion);
  v1::TraceChunk first;
  *first.mutable_header() = std::move(header);
  first.AppendToString(&writer->chunk_);
  GORDIAN_RETURN_IF_ERROR(writer->WriteChunk());
  return writer;
}

StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Continue(const OwnedFolder& folder,
                                                             const std::string& name,
                                                             uint64_t offset) {
  const std::string path = folder.path() + "/" + name;
  const int fd = folder.OpenFile(name, O_WRONLY);
  if (fd < 0) {
    return Status::FromErrno(errno, "cannot continue the trace " + path);
  }
  std::unique_ptr<TraceWriter> writer(new TraceWriter(fd, path));
  struct stat info {};
  if (fstat(fd, &info) != 0 || static_cast<uint64_t>(info.st_size) < offset ||
      offset < kTraceMagicBytes) {
    return Status::DataLoss("the trace " + path + " is shorter than it was");
  }
  if (ftruncate(fd, static_cast<off_t>(offset)) != 0) {
    return Status::FromErrno(errno, "cannot continue the trace " + path);
  }
  writer->bytes_ = offset;
  return writer;
}

// Appends a further element of TraceChunk.events: a message may be serialised piece by piece.
void TraceWriter::AppendTo(const v1::Event& event, std::string* events) {
  using google::protobuf::io::CodedOutputStream;
  constexpr uint32_t kTag = v1::TraceChunk::kEventsFieldNumber << 3 | 2;
  const size_t size = event.ByteSizeLong();
  const size_t before = events->size();
  constexpr size_t kPrefix = 1 + 5;  // tag, length
  events->resize(before + kPrefix + size);
  auto* const begin = reinterpret_cast<uint8_t*>(events->data());
  uint8_t* at = CodedOutputStream::WriteVarint32ToArray(kTag, begin + before);
  at = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(size), at);
  at = event.SerializeWithCachedSizesToArray(at);
  events->resize(static_cast<size_t>(at - begin));
}

Status TraceWriter::Append(const v1::Event& event) {
  AppendTo(event, &chunk_);
  return Appended(1);
}

Status TraceWriter::AppendTogether(std::string_view events, uint64_t number) {
  chunk_.append(events);
  return Appended(number);
}

Status TraceWriter::Appended(uint64_t number) {
  chunk_events_ += number;
  events_ += number;
  return chunk_.size() >= kChunkTargetBytes ? WriteChunk() : Status::Ok();
}

Status TraceWriter::Flush() { return chunk_events_ > 0 ? WriteChunk() : Status::Ok(); }

Status TraceWriter::Close() {
  if (fd_ < 0) {
    return Status::Ok();
  }
  GORDIAN_RETURN_IF_ERROR(Flush());
  v1::TraceChunk mark;
  mark.set_last(true);
  mark.AppendToString(&chunk_);
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
  // A chunk holds at most 256 KiB and one event, which a reader accepts however large that event
  // is.
  const Status status = WriteFrame(fd_, path_, &bytes_, chunk_);
  const uint64_t events = chunk_events_;
  chunk_.clear();
  chunk_events_ = 0;
  if (!status.ok()) {
    lost_events_ += events;
  }
  return status;
}

TraceReader::TraceReader(int fd, std::string path)
    : fd_(fd),
      path_(std::move(path)),
      first_block_(std::make_unique_for_overwrite<char[]>(kArenaBlock)),
      arena_(InBlock(first_block_.get())) {}

TraceReader::~TraceReader() { close(fd_); }

StatusOr<std::unique_ptr<TraceReader>> TraceReader::Open(const std::string& path) {
  // O_NONBLOCK: a pipe of that name would be waited for.
  return Begin(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), path);
}

StatusOr<std::unique_ptr<TraceReader>> TraceReader::Open(const OwnedFolder& folder,
                                                         const std::string& name) {
  return Begin(folder.OpenFile(name, O_RDONLY | O_NONBLOCK), folder.path() + "/" + name);
}

StatusOr<std::unique_ptr<TraceReader>> TraceReader::Begin(int fd, const std::string& path) {
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
    // "GTRACE" and another digit: a later layout of the file.
    if (n == sizeof(magic) && std::memcmp(magic, kTraceMagic, 6) == 0 && magic[7] == '\n') {
      return Status::NewerVersion(path + " was written by a newer gordian (file layout " +
                                  magic[6] + "); this one, " + kVersion + ", reads layout 1");
    }
    return Status::DataLoss(path + " is not a gordian trace: it does not start with GTRACE1");
  }
  if (n < static_cast<ssize_t>(sizeof(magic))) {
    return Status::DataLoss(path +
                            " is empty or truncated within its first bytes: nothing to read");
  }
  reader->offset_ = kTraceMagicBytes;
  std::string why;
  v1::TraceChunk first;
  switch (reader->ReadChunk(&first, &why)) {
    case FrameGot::kFrame:
      break;
    case FrameGot::kEnd:
    case FrameGot::kCut:
      return Status::DataLoss(path + " is truncated before its first whole chunk: nothing to read");
    case FrameGot::kDamaged:
      return Status::DataLoss(path + " is damaged in its first chunk (" + why + ")");
    case FrameGot::kTooLarge:
      return Status::DataLoss(path + " is refused: chunk 1: " + why);
  }
  if (!first.has_header()) {
    return Status::DataLoss(path + " has no header in its first chunk");
  }
  reader->header_ = first.header();
  reader->offset_ = kTraceMagicBytes;  // Next returns it again
  if (reader->header_.format() > kTraceFormat) {
    return Status::NewerVersion(path + " was written by a newer gordian (" +
                                reader->header_.gordian_version() + ", trace format " +
                                std::to_string(reader->header_.format()) + "); this one, " +
                                kVersion + ", reads up to format " + std::to_string(kTraceFormat));
  }
  if (reader->header_.record_abi() > ring::kRingAbiVersion) {
    return Status::NewerVersion(
        path + " was written by a newer gordian (" + reader->header_.gordian_version() +
        ", records of version " + std::to_string(reader->header_.record_abi()) + "); this one, " +
        kVersion + ", reads up to version " + std::to_string(ring::kRingAbiVersion));
  }
  if (reader->header_.format() == 0) {
    return Status::DataLoss(path + " has a header without a format number");
  }
  return reader;
}

FrameGot TraceReader::ReadChunk(v1::TraceChunk* chunk, std::string* why) {
  uint64_t offset = offset_;
  FrameGot got = ReadFrame(fd_, &offset, &plain_, why);
  if (got == FrameGot::kFrame) {
    const uint64_t most = MostContentsOfFile(offset);
    if (contents_ + plain_.size() > most) {
      *why = "with it, the " + std::to_string(offset) +
             " bytes up to there would become more than " + std::to_string(most) +
             ", which are taken";
      got = FrameGot::kTooLarge;
    } else if (!FitsMemory({plain_.data(), plain_.size()}, *v1::TraceChunk::descriptor(),
                           MostMessageMemory(offset - offset_), why)) {
      got = FrameGot::kTooLarge;
    }
  }
  too_large_ = got == FrameGot::kTooLarge;
  if (got != FrameGot::kFrame) {
    return got;
  }
  if (!chunk->ParseFromArray(plain_.data(), static_cast<int>(plain_.size()))) {
    *why = "contents";
    return FrameGot::kDamaged;
  }
  ReplaceOldRecords(chunk);
  offset_ = offset;
  return FrameGot::kFrame;
}

const v1::TraceChunk* TraceReader::Next() {
  arena_.Reset();
  if (closed_) {
    return nullptr;
  }
  auto* const chunk = google::protobuf::Arena::CreateMessage<v1::TraceChunk>(&arena_);
  switch (ReadChunk(chunk, &why_damaged_)) {
    case FrameGot::kFrame:
      break;
    case FrameGot::kEnd:
    case FrameGot::kCut:
      ending_ = Ending::kIncomplete;
      return nullptr;
    case FrameGot::kDamaged:
    case FrameGot::kTooLarge:
      ending_ = Ending::kDamaged;
      return nullptr;
  }
  ++chunks_;
  contents_ += plain_.size();
  if (!chunk->last() || chunk->events_size() > 0) {
    resume_offset_ = offset_;
  }
  events_ += static_cast<uint64_t>(chunk->events_size());
  if (chunk->last()) {
    closed_ = true;
    ending_ = Ending::kComplete;
  }
  return chunk;
}

Status TraceReader::bounds() const {
  if (!too_large_) {
    return Status::Ok();
  }
  return Status::DataLoss(path_ + " is refused: chunk " + std::to_string(chunks_ + 1) + ": " +
                          why_damaged_);
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
