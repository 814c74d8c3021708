#include "collector/uplink/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "common/framed_file.h"

namespace gordian::collector {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[] = "GSPOOL1\n";
constexpr size_t kMagicBytes = 8;
constexpr char kSuffix[] = ".gspool";

enum class Got { kBatch, kEnd, kBad };

// Reads the entry at *offset and advances *offset.
Got ReadEntry(int fd, uint64_t* offset, v1::EventBatch* batch, std::string* why) {
  std::vector<char> plain;
  uint64_t next = *offset;
  switch (ReadFrame(fd, &next, &plain, why)) {
    case FrameGot::kEnd:
      return Got::kEnd;
    case FrameGot::kCut:
      *why = "cut";
      return Got::kBad;
    case FrameGot::kDamaged:
    case FrameGot::kTooLarge:
      return Got::kBad;
    case FrameGot::kFrame:
      break;
  }
  if (!batch->ParseFromArray(plain.data(), static_cast<int>(plain.size())) ||
      batch->number() == 0) {
    *why = "contents";
    return Got::kBad;
  }
  *offset = next;
  return Got::kBatch;
}

// Returns -1, with a reason, if the file was not opened or is no segment.
int Checked(int fd, std::string* why) {
  if (fd < 0) {
    *why = std::strerror(errno);
    return -1;
  }
  char magic[kMagicBytes];
  if (ReadAt(fd, 0, magic, sizeof(magic)) != static_cast<ssize_t>(sizeof(magic)) ||
      std::memcmp(magic, kMagic, sizeof(magic)) != 0) {
    *why = "first bytes";
    close(fd);
    return -1;
  }
  return fd;
}

std::string Ended(const std::string& path, uint64_t batches, const std::string& why) {
  return path + " ends after " + std::to_string(batches) + " good batches (" + why + ")";
}

}  // namespace

Spool::Spool(Options options) : options_(std::move(options)) {
  const fs::path above = fs::path(options_.folder).parent_path();
  std::error_code error;
  if (!above.empty()) fs::create_directories(above, error);  // if it fails, so does the next line
  StatusOr<OwnedFolder> held = OwnedFolder::Adopt(above.empty() ? "." : above.string());
  no_folder_ = held.status();
  if (held.ok()) above_ = std::move(held).value();
}

Spool::~Spool() {
  CloseWriter();
  CloseReader();
}

void Spool::CloseWriter() {
  if (write_fd_ >= 0) {
    close(std::exchange(write_fd_, -1));
  }
}

void Spool::CloseReader() {
  if (read_fd_ >= 0) {
    close(std::exchange(read_fd_, -1));
  }
  read_offset_ = kMagicBytes;
}

Status Spool::OpenFolder() {
  StatusOr<OwnedFolder> made =
      above_ ? above_->MakeFolder(fs::path(options_.folder).filename().string()) : no_folder_;
  if (!made.ok()) {
    return Status::Unavailable("cannot make the folder " + options_.folder + ": " +
                               made.status().message());
  }
  folder_ = std::move(made).value();
  return Status::Ok();
}

Status Spool::OpenSegment(uint64_t first_number) {
  if (!folder_) {
    GORDIAN_RETURN_IF_ERROR(OpenFolder());
  }
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%020llu", static_cast<unsigned long long>(first_number));
  const std::string name = std::string(digits) + kSuffix;
  const std::string path = options_.folder + "/" + name;
  const int fd = folder_->Overwrite(name, 0600);
  if (fd < 0) {
    return Status::FromErrno(errno, "cannot write " + path);
  }
  if (Status status = WriteAllAt(fd, path, 0, kMagic, kMagicBytes); !status.ok()) {
    close(fd);
    folder_->RemoveFile(name);
    return status;
  }
  CloseWriter();
  write_fd_ = fd;
  segments_.push_back({.name = name, .bytes = kMagicBytes});
  bytes_ += kMagicBytes;
  return Status::Ok();
}

Status Spool::Append(const v1::EventBatch& batch) {
  if (batch.number() <= last_number_) {
    return Status::InvalidArgument("batches of a spool must be in order");
  }
  // Other files, or memory until Outgoing::Spill, hold the missing numbers. A reader orders files
  // by their first number, so a file must hold one unbroken run.
  if (write_fd_ < 0 || segments_.back().bytes >= options_.segment_bytes ||
      batch.number() != last_number_ + 1) {
    if (Status status = OpenSegment(batch.number()); !status.ok()) {
      failing_ = true;
      return status;
    }
  }
  Segment& segment = segments_.back();
  uint64_t end = segment.bytes;
  if (Status status = WriteFrame(write_fd_, PathOf(segment), &end, batch.SerializeAsString());
      !status.ok()) {
    failing_ = true;
    if (segment.bytes == kMagicBytes) {  // another file may come to hold this number
      CloseWriter();
      folder_->RemoveFile(segment.name);
      bytes_ -= segment.bytes;
      segments_.pop_back();
    }
    return status;
  }
  failing_ = false;
  bytes_ += end - segment.bytes;
  segment.bytes = end;
  segment.last_number = batch.number();
  ++segment.batches;
  last_number_ = batch.number();
  ++waiting_;
  return Status::Ok();
}

StatusOr<bool> Spool::Next(v1::EventBatch* batch) {
  while (reading_ < segments_.size()) {
    Segment& segment = segments_[reading_];
    if (segment.batches == 0) {
      if (reading_ + 1 == segments_.size()) {
        return false;  // the file may still grow
      }
      CloseReader();
      ++reading_;
      continue;
    }
    std::string why;
    if (read_fd_ < 0) {
      read_fd_ = Checked(folder_->OpenFile(segment.name, O_RDONLY), &why);
      read_offset_ = kMagicBytes;
    }
    const Got got = read_fd_ < 0 ? Got::kBad : ReadEntry(read_fd_, &read_offset_, batch, &why);
    if (got == Got::kBatch) {
      --segment.batches;
      --waiting_;
      return true;
    }
    const uint64_t left = std::exchange(segment.batches, 0);
    waiting_ -= left;
    if (reading_ + 1 == segments_.size()) {
      CloseWriter();  // the next batch begins a new segment
    }
    return Status::DataLoss(std::to_string(left) + " batches in " + PathOf(segment) +
                            " cannot be read back (" + (why.empty() ? "truncated" : why) + ")");
  }
  return false;
}

void Spool::Release(uint64_t number) {
  while (!segments_.empty() && segments_.front().batches == 0 &&
         segments_.front().last_number <= number) {
    Segment& segment = segments_.front();
    if (segments_.size() == 1) {
      CloseWriter();
    }
    if (reading_ == 0) {
      CloseReader();
    } else {
      --reading_;
    }
    folder_->RemoveFile(segment.name);
    bytes_ -= segment.bytes;
    segments_.pop_front();
  }
  if (segments_.empty() && folder_) {
    (void)folder_->Remove();  // if it is empty, and still in its place
    folder_.reset();
  }
}

StatusOr<SpoolContents> ReadSpool(const std::string& folder,
                                  const std::function<void(v1::EventBatch&&)>& take) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == kSuffix) {
      paths.push_back(entry.path().string());
    }
  }
  if (error) {
    return Status::NotFound("cannot read the spool " + folder + ": " + error.message());
  }
  std::sort(paths.begin(), paths.end());
  SpoolContents contents;
  const auto note = [&contents](const std::string& problem) {
    contents.whole = false;
    contents.problem += (contents.problem.empty() ? "" : "; ") + problem;
  };
  for (const std::string& path : paths) {
    std::string why;
    const int fd = Checked(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC), &why);
    if (fd < 0) {
      note(Ended(path, 0, why));
      continue;
    }
    uint64_t offset = kMagicBytes;
    uint64_t batches = 0;
    while (true) {
      v1::EventBatch batch;
      const Got got = ReadEntry(fd, &offset, &batch, &why);
      if (got == Got::kBad || (got == Got::kBatch && batch.number() <= contents.last_number)) {
        note(Ended(path, batches, got == Got::kBad ? why : "order"));
      }
      if (got != Got::kBatch || batch.number() <= contents.last_number) {
        break;
      }
      if (contents.last_number != 0 && batch.number() != contents.last_number + 1 &&
          contents.whole) {
        note(path + ": batches " + std::to_string(contents.last_number + 1) + " to " +
             std::to_string(batch.number() - 1) + " are missing");
      }
      if (contents.first_number == 0) {
        contents.first_number = batch.number();
      }
      contents.last_number = batch.number();
      ++batches;
      ++contents.batches;
      take(std::move(batch));
    }
    close(fd);
  }
  return contents;
}

}  // namespace gordian::collector
