#include "analyzer/importers/packed_input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/budget.h"

namespace gordian::importers {

Pull PullText(std::string_view text) {
  return [text](char* into, size_t most) mutable {
    const size_t size = std::min(most, text.size());
    std::memcpy(into, text.data(), size);
    text.remove_prefix(size);
    return size;
  };
}

struct PackedInput::File {
  std::string path;
  gzFile gz = nullptr;
  uint64_t bytes = 0;   // of the file
  uint64_t pulled = 0;  // unpacked so far
  Status status;

  ~File() {
    if (gz != nullptr) gzclose(gz);
  }

  size_t Read(char* into, size_t most) {
    if (!status.ok()) return 0;
    constexpr size_t kMostAtOnce = 1u << 20;  // gzread takes an unsigned int
    const int got = gzread(gz, into, static_cast<unsigned>(std::min(most, kMostAtOnce)));
    // Where a stream has no end, zlib first hands out what there is; then it names the error.
    int error = Z_OK;
    const char* const what = got > 0 ? "" : gzerror(gz, &error);
    if (got < 0 || (error != Z_OK && error != Z_STREAM_END)) {
      status = error == Z_ERRNO ? Status::FromErrno(errno, "cannot read " + path)
                                : Status::DataLoss("cannot unpack " + path + " behind byte " +
                                                   std::to_string(pulled) + ": " + what);
      return 0;
    }
    pulled += static_cast<uint64_t>(got);
    if (gzdirect(gz) == 0 && pulled > MostContentsOfFile(bytes)) {
      status =
          Status::DataLoss(path + " unpacks to more than " +
                           std::to_string(MostContentsOfFile(bytes)) + " bytes, 64 times its size");
      return 0;
    }
    return static_cast<size_t>(got);
  }
};

PackedInput::PackedInput(std::unique_ptr<File> file) : file_(std::move(file)) {}
PackedInput::PackedInput(PackedInput&&) noexcept = default;
PackedInput& PackedInput::operator=(PackedInput&&) noexcept = default;
PackedInput::~PackedInput() = default;

StatusOr<PackedInput> PackedInput::Open(const std::string& path) {
  // Without O_NONBLOCK a pipe of that name would be waited for.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return Status::FromErrno(errno, "cannot read " + path);
  struct stat info {};
  const bool known = fstat(fd, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    close(fd);
    return Status::InvalidArgument("cannot read " + path + ": not a regular file");
  }
  auto file = std::make_unique<File>();
  file->path = path;
  file->bytes = static_cast<uint64_t>(info.st_size);
  file->gz = gzdopen(fd, "rb");
  if (file->gz == nullptr) {
    close(fd);
    return Status::Unavailable("cannot read " + path + ": no memory");
  }
  return PackedInput(std::move(file));
}

Pull PackedInput::Puller() {
  return [file = file_.get()](char* into, size_t most) { return file->Read(into, most); };
}

const Status& PackedInput::status() const { return file_->status; }

std::string PackedBeginning(const std::string& path, size_t most) {
  StatusOr<PackedInput> input = PackedInput::Open(path);
  if (!input.ok()) return "";
  std::string beginning(most, '\0');
  const Pull pull = input->Puller();
  size_t size = 0;
  while (size < most) {
    const size_t got = pull(beginning.data() + size, most - size);
    if (got == 0) break;
    size += got;
  }
  beginning.resize(size);
  return beginning;
}

}  // namespace gordian::importers
